package gate

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/allocs"
)

// closedChannel is a done that is closed already.
func closedChannel() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// waits calls f on a goroutine that waits, and returns a channel with its result. It returns once
// somebody waits for a change of the gate.
func waits(g *Gate, f func() bool) <-chan bool {
	result := make(chan bool, 1)
	go func() { result <- f() }()
	for g.changed.next.Load() == nil && len(result) == 0 {
		yield()
	}
	return result
}

func TestClose(t *testing.T) {
	var g Gate
	assert.True(t, g.Enter())
	assert.True(t, g.Enter())
	assert.False(t, g.Closed())
	first := waits(&g, func() bool { return g.Close(nil) })
	second := waits(&g, func() bool { return g.Close(nil) })
	assert.True(t, g.Closed())
	assert.False(t, g.Enter())
	assert.False(t, g.EnterAlone())
	g.Leave()
	assert.EqualValues(t, 1, g.Inside())
	assert.Empty(t, first, "one is still inside")
	assert.Empty(t, second, "one is still inside")
	g.Leave()
	assert.True(t, <-first)
	assert.False(t, <-second, "it was not the first")
	assert.False(t, g.Close(nil))
	assert.False(t, g.Enter())
	assert.Zero(t, g.Inside())
}

func TestCloseEndsWithDone(t *testing.T) {
	var g Gate
	require.True(t, g.Enter())
	assert.True(t, g.Close(closedChannel()), "although one is inside")
	assert.False(t, g.Close(closedChannel()))
	done := make(chan struct{})
	again := waits(&g, func() bool { return g.Close(done) })
	close(done)
	assert.False(t, <-again)
	assert.EqualValues(t, 1, g.Inside())
	g.Leave()
	assert.False(t, g.Close(nil), "nobody is inside any more")
}

func TestEnterAlone(t *testing.T) {
	var g Gate
	require.True(t, g.EnterAlone())
	assert.False(t, g.EnterAlone(), "one is inside")
	g.Leave()
	require.True(t, g.Enter())
	assert.False(t, g.EnterAlone(), "one is inside")
	g.Leave()
	require.True(t, g.Suspend(0, nil))
	assert.False(t, g.EnterAlone(), "it is suspended")
	g.Resume()
	require.True(t, g.EnterAlone())
	closing := waits(&g, func() bool { return g.Close(nil) })
	g.Leave()
	assert.True(t, <-closing)
	assert.False(t, g.EnterAlone(), "it is closed")
}

func TestEnterAnyway(t *testing.T) {
	var g Gate
	assert.True(t, g.EnterAnyway(), "it is open")
	g.Leave()
	require.True(t, g.Suspend(0, nil))
	assert.False(t, g.EnterAnyway())
	assert.EqualValues(t, 1, g.Inside())
	closing := waits(&g, func() bool { return g.Close(nil) })
	g.Leave()
	assert.True(t, <-closing)
}

// A gate that is suspended keeps calls out until it is resumed, unless it was closed meanwhile.
func TestSuspend(t *testing.T) {
	var g Gate
	require.True(t, g.Enter())
	require.False(t, g.Suspend(0, closedChannel()), "somebody is inside")
	require.True(t, g.Enter(), "it was resumed")
	require.False(t, g.Suspend(1, closedChannel()), "two are inside")
	g.Leave()
	require.True(t, g.Suspend(1, closedChannel()), "the caller may be inside")
	require.True(t, g.Suspended())
	require.False(t, g.Enter())
	entered := waits(&g, func() bool { g.AwaitOpen(nil); return g.Enter() })
	g.Resume()
	require.True(t, <-entered)
	g.Leave()
	g.Leave()

	require.True(t, g.Suspend(0, closedChannel()), "nobody is inside")
	assert.False(t, g.Enter())
	assert.False(t, g.Closed())
	g.Resume()
	require.True(t, g.Enter())
	g.Leave()

	require.True(t, g.Suspend(0, nil))
	require.True(t, g.Suspend(0, nil), "two may suspend it")
	g.Resume()
	assert.True(t, g.Suspended())
	entered = waits(&g, func() bool { g.AwaitOpen(nil); return g.Enter() })
	assert.True(t, g.Close(nil))
	assert.False(t, <-entered, "it was closed, which ends the wait")
	g.Resume()
	assert.False(t, g.Suspended())
	assert.False(t, g.Enter())
	assert.False(t, g.Close(nil))
	assert.True(t, g.Closed())
}

func TestAwaitOpenEndsWithDone(t *testing.T) {
	var g Gate
	g.AwaitOpen(nil) // it is open
	require.True(t, g.Suspend(0, nil))
	done := make(chan struct{})
	entered := waits(&g, func() bool { g.AwaitOpen(done); return g.Enter() })
	close(done)
	assert.False(t, <-entered)
}

// Nobody is inside when the gate has closed.
func TestCloseUnderLoad(t *testing.T) {
	for range 100 {
		var g Gate
		var closed atomic.Bool
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for g.Enter() {
					assert.False(t, closed.Load())
					g.Leave()
				}
			})
		}
		for range 2 {
			all.Go(func() {
				g.Close(nil)
				closed.Store(true)
			})
		}
		all.Wait()
	}
}

func TestNothingAllocates(t *testing.T) {
	var g Gate
	var c Cond
	allocs.AtMost(t, 0, 100, func() {
		if g.Enter() {
			g.Leave()
		}
		if g.EnterAlone() {
			g.Leave()
		}
		if g.Suspend(0, nil) {
			g.Resume()
		}
		c.Broadcast()
		c.Wait(nil, func() bool { return true })
	})
}

func TestCond(t *testing.T) {
	var c Cond
	var n atomic.Int32
	c.Broadcast() // nobody waits
	var all sync.WaitGroup
	for want := range int32(10) {
		all.Go(func() { assert.True(t, c.Wait(nil, func() bool { return n.Load() > want })) })
	}
	for range 10 {
		n.Add(1)
		c.Broadcast()
	}
	all.Wait()
	assert.True(t, c.Wait(closedChannel(), func() bool { return true }), "it is so")
	assert.False(t, c.Wait(closedChannel(), func() bool { return false }))
	looks := 0
	assert.True(t, c.Wait(closedChannel(), func() bool { looks++; return looks == 3 }), "it looks once more at the end")
}

func BenchmarkEnterLeave(b *testing.B) {
	var g Gate
	for b.Loop() {
		if g.Enter() {
			g.Leave()
		}
	}
}

func TestEnterWaiting(t *testing.T) {
	var g Gate
	require.True(t, g.EnterWaiting())
	assert.False(t, g.TrySuspend(), "one is inside")
	g.Leave()
	require.True(t, g.TrySuspend())
	assert.False(t, g.TrySuspend(), "it is suspended")
	entered := waits(&g, g.EnterWaiting)
	assert.Empty(t, entered)
	g.Resume()
	assert.True(t, <-entered)
	g.Leave()
	require.True(t, g.TrySuspend())
	entered = waits(&g, g.EnterWaiting)
	g.Close(nil)
	assert.False(t, <-entered)
	assert.False(t, g.EnterWaiting())
}

func TestTurn(t *testing.T) {
	var turn Turn
	require.True(t, turn.TryTake())
	assert.False(t, turn.TryTake(), "somebody has it")
	assert.False(t, turn.Take(closedChannel()), "the wait ends")
	turn.Give()
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				assert.True(t, turn.Take(nil))
				most.Store(max(most.Load(), inside.Add(1)))
				inside.Add(-1)
				turn.Give()
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 1, most.Load())
	assert.True(t, turn.Take(closedChannel()), "nobody has it")
}
