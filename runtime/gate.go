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

// close closes the gate and waits until nobody is inside. Only the first call
// returns true; the others do not wait.
func (g *gate) close() bool {
	for {
		n := g.state.Load()
		if n >= gateClosed {
			return false
		}
		if g.state.CompareAndSwap(n, n+gateClosed) {
			break
		}
	}
	for wait := time.Microsecond; g.state.Load() != gateClosed; wait = min(2*wait, time.Millisecond) {
		time.Sleep(wait)
	}
	return true
}
