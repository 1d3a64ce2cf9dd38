// Package gate keeps something from being taken away while calls use it.
package gate

import "sync/atomic"

// Gate counts the calls that use something, so that whoever takes it away can keep calls out and
// wait for those inside. The zero value is open. Entering and leaving never block, and cost one
// atomic operation each. Its methods are safe for concurrent use.
type Gate struct {
	state   atomic.Int64 // calls inside, suspensions, and whether it is closed
	changed Cond
}

const (
	suspension = 1 << 32
	closed     = 1 << 62
	inside     = suspension - 1
)

// Enter counts the caller, until Leave, and reports whether it did: it does not while the gate is
// suspended, or once it is closed.
func (g *Gate) Enter() bool {
	if g.state.Add(1) < suspension {
		return true
	}
	g.turnAway()
	return false
}

// EnterWaiting is Enter that waits while the gate is suspended. It fails once the gate is closed.
func (g *Gate) EnterWaiting() bool {
	for !g.Enter() {
		if g.Closed() {
			return false
		}
		g.AwaitOpen(nil)
	}
	return true
}

// turnAway is a call, so that Enter is none.
//
//go:noinline
func (g *Gate) turnAway() { g.Leave() }

// EnterAlone is Enter that also fails while another caller is inside.
func (g *Gate) EnterAlone() bool { return g.state.CompareAndSwap(0, 1) }

// EnterAnyway counts the caller in every case, and reports whether the gate is open. It is for a
// caller that keeps the gate suspended or closed itself, and for one that leaves at once.
func (g *Gate) EnterAnyway() (open bool) { return g.state.Add(1) < suspension }

// Leave ends what Enter, EnterAlone or EnterAnyway began. Another goroutine may call it.
func (g *Gate) Leave() {
	if g.state.Add(-1) >= suspension {
		g.changed.wake()
	}
}

// Inside returns how many calls are inside.
func (g *Gate) Inside() int64 { return g.state.Load() & inside }

// Closed reports whether the gate is closed, for good.
func (g *Gate) Closed() bool { return g.state.Load() >= closed }

// Suspended reports whether somebody has suspended the gate.
func (g *Gate) Suspended() bool { return g.state.Load()&^closed >= suspension }

// Suspend keeps calls out until Resume, and waits until at most stay calls are inside: 1 is for a
// caller that is inside itself. When done is closed first, Suspend takes the suspension back and
// reports false. Several callers may suspend a gate at a time. Each that got true calls Resume.
func (g *Gate) Suspend(stay int64, done <-chan struct{}) bool {
	g.state.Add(suspension)
	if g.await(stay, done) {
		return true
	}
	g.Resume()
	return false
}

// TrySuspend is Suspend if nobody is inside and nobody has suspended the gate. It reports whether it did.
func (g *Gate) TrySuspend() bool { return g.state.CompareAndSwap(0, suspension) }

// Resume ends a Suspend.
func (g *Gate) Resume() {
	g.state.Add(-suspension)
	g.changed.Broadcast()
}

// AwaitOpen waits until the gate is not suspended, is closed, or done is closed.
func (g *Gate) AwaitOpen(done <-chan struct{}) {
	g.changed.Wait(done, func() bool { return !g.Suspended() || g.Closed() })
}

// Close keeps calls out for good, and waits until nobody is inside. The first call returns true,
// and all of them wait. When done is closed first, Close returns all the same: then calls may be
// inside, and what they use must not be destroyed.
func (g *Gate) Close(done <-chan struct{}) (first bool) {
	for n := g.state.Load(); n < closed && !first; n = g.state.Load() {
		first = g.state.CompareAndSwap(n, n+closed)
	}
	if first {
		g.changed.Broadcast() // for AwaitOpen
	}
	g.await(0, done)
	return first
}

// await waits until at most n calls are inside. It reports false when done is closed first.
func (g *Gate) await(n int64, done <-chan struct{}) bool {
	return g.changed.Wait(done, func() bool { return g.Inside() <= n })
}
