package runtime

import (
	"sync/atomic"
	"time"
)

// gate lets calls through until it is closed, and closing waits for those that
// are inside. The zero value is open. Entering costs one atomic addition.
type gate struct{ state atomic.Int64 }

// gateClosed is added to the count of calls inside when the gate closes.
const gateClosed = 1 << 62

func (g *gate) enter() bool {
	if g.state.Add(1) < gateClosed {
		return true
	}
	g.state.Add(-1)
	return false
}

func (g *gate) leave() { g.state.Add(-1) }

func (g *gate) closed() bool { return g.state.Load() >= gateClosed }

// close closes the gate and waits until nobody is inside. The first call returns
// true, and all of them wait: whoever has seen a gate close may destroy what is
// behind it.
func (g *gate) close() bool {
	first := false
	for !first && !g.closed() {
		n := g.state.Load()
		first = n < gateClosed && g.state.CompareAndSwap(n, n+gateClosed)
	}
	for wait := time.Microsecond; g.state.Load() != gateClosed; wait = min(2*wait, time.Millisecond) {
		time.Sleep(wait)
	}
	return first
}
