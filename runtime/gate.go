package runtime

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// gate counts the calls that use something, so that whoever takes it away can wait for them.
// The zero value is open. Entering and leaving cost one atomic addition each. Waiting parks
// the goroutine.
type gate struct {
	state atomic.Int64
	mu    sync.Mutex
	wake  chan struct{} // closed at the next change that a waiter may wait for; nil: nobody waits
}

// These are added to the count of calls inside when the gate is suspended or closed. Either
// may come first.
const (
	gateSuspended = 1 << 61
	gateClosed    = 1 << 62
	gateInside    = gateSuspended - 1
)

func (g *gate) enter() bool {
	if g.state.Add(1) < gateSuspended {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.state.Add(-1) >= gateSuspended {
		g.changed()
	}
}

func (g *gate) closed() bool { return g.state.Load() >= gateClosed }

func (g *gate) inside() int64 { return g.state.Load() & gateInside }

func (g *gate) suspended() bool { return g.state.Load()&gateSuspended != 0 }

// changed wakes those who wait.
func (g *gate) changed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wake != nil {
		close(g.wake)
		g.wake = nil
	}
}

// next is closed at the next change. Look at the state after calling it.
func (g *gate) next() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wake == nil {
		g.wake = make(chan struct{})
	}
	return g.wake
}

// lookAgain is how often a waiter asks whether waiting has become pointless.
const lookAgain = time.Millisecond

// await waits until at most n calls are inside. It gives up when waiting is pointless.
func (g *gate) await(n int64, pointless func() bool) bool {
	for g.inside() > n {
		change := g.next()
		if g.inside() <= n {
			return true
		}
		if pointless() {
			return false
		}
		timer := time.NewTimer(lookAgain)
		select {
		case <-change:
		case <-timer.C:
		}
		timer.Stop()
	}
	return true
}

// awaitOpen waits while the gate is suspended and not closed.
func (g *gate) awaitOpen() {
	for {
		change := g.next()
		if !g.suspended() || g.closed() {
			return
		}
		<-change
	}
}

// suspend keeps calls out until resume, and waits until nobody is inside. When ctx ends
// first it resumes the gate and returns ctx's cause. One caller may suspend a gate at a time.
func (g *gate) suspend(ctx context.Context) error {
	g.state.Add(gateSuspended)
	if !g.await(0, func() bool { return ctx.Err() != nil }) {
		g.resume()
		return context.Cause(ctx)
	}
	return nil
}

// exclude is suspend for a caller that is inside, and waits for all others. While the caller
// is inside nobody can destroy what the gate guards. It reports false, and has changed
// nothing, once waiting is pointless.
func (g *gate) exclude(pointless func() bool) bool {
	g.state.Add(gateSuspended)
	if !g.await(1, pointless) {
		g.resume()
		return false
	}
	return true
}

// resume lets calls in again, unless the gate was closed meanwhile.
func (g *gate) resume() {
	g.state.Add(-gateSuspended)
	g.changed()
}

// close closes the gate and waits until nobody is inside. The first call returns
// true, and all of them wait: whoever has seen a gate close may destroy what is
// behind it.
func (g *gate) close() bool { return g.closeUnless(func() bool { return false }) }

// closeUnless is close that does not wait any more once waiting is pointless: nothing
// behind the gate may be destroyed then.
func (g *gate) closeUnless(pointless func() bool) bool {
	first := false
	for !first && !g.closed() {
		n := g.state.Load()
		first = n < gateClosed && g.state.CompareAndSwap(n, n+gateClosed)
	}
	if first {
		g.changed() // those who wait for an open gate
	}
	g.await(0, pointless)
	return first
}
