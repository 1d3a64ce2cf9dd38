package runtime

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestGate(t *testing.T) {
	var g gate
	assert.True(t, g.enter())
	assert.True(t, g.enter())
	assert.False(t, g.closed())

	// Two close it, and both wait for those inside.
	first := make(chan bool, 2)
	for range 2 {
		go func() { first <- g.close() }()
	}
	for !g.closed() {
		time.Sleep(time.Microsecond)
	}
	assert.False(t, g.enter())
	g.leave()
	time.Sleep(5 * time.Millisecond)
	assert.Empty(t, first, "one is still inside")
	g.leave()
	assert.ElementsMatch(t, []bool{true, false}, []bool{<-first, <-first}, "one of them was the first")
	assert.False(t, g.close())
	assert.False(t, g.enter())
}

// Nobody is inside when the gate has closed.
func TestGateUnderLoad(t *testing.T) {
	for range 100 {
		var g gate
		var closed atomic.Bool
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for g.enter() {
					assert.False(t, closed.Load())
					g.leave()
				}
			})
		}
		for range 2 {
			wg.Go(func() {
				g.close()
				closed.Store(true)
			})
		}
		wg.Wait()
	}
}

func TestGateDoesNotAllocate(t *testing.T) {
	var g gate
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if g.enter() {
			g.leave()
		}
	}))
}

// A gate that is suspended keeps calls out until it is resumed, unless it was closed meanwhile.
func TestGateSuspended(t *testing.T) {
	var g gate
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.True(t, g.enter())
	require.ErrorIs(t, g.suspend(ctx), context.Canceled, "somebody is inside")
	require.True(t, g.enter(), "it was resumed")
	g.leave()
	g.leave()
	require.NoError(t, g.suspend(ctx), "nobody is inside")
	assert.False(t, g.enter())
	assert.False(t, g.closed())
	g.resume()
	require.True(t, g.enter())
	g.leave()
	require.NoError(t, g.suspend(ctx))
	assert.True(t, g.close())
	g.resume()
	assert.False(t, g.enter())
	assert.False(t, g.close())
	assert.True(t, g.closed())
}
