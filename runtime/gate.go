package runtime

import (
	"context"
	"sync/atomic"
	"time"
)

// gate lets calls through until it is closed, and closing waits for those that
// are inside. The zero value is open. Entering costs one atomic addition.
type gate struct{ state atomic.Int64 }

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
	g.state.Add(-1)
	return false
}

func (g *gate) leave() { g.state.Add(-1) }

func (g *gate) closed() bool { return g.state.Load() >= gateClosed }

func (g *gate) empty() bool { return g.state.Load()&gateInside == 0 }

// suspend keeps calls out until resume, and waits until nobody is inside. When ctx ends
// first it resumes the gate and returns ctx's cause. One caller may suspend a gate at a time.
func (g *gate) suspend(ctx context.Context) error {
	g.state.Add(gateSuspended)
	for pause := time.Microsecond; !g.empty(); pause = min(2*pause, time.Millisecond) {
		if err := context.Cause(ctx); err != nil {
			g.resume()
			return err
		}
		time.Sleep(pause)
	}
	return nil
}

// resume lets calls in again, unless the gate was closed meanwhile.
func (g *gate) resume() { g.state.Add(-gateSuspended) }

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
	for pause := time.Microsecond; !g.empty() && !pointless(); pause = min(2*pause, time.Millisecond) {
		time.Sleep(pause)
	}
	return first
}
