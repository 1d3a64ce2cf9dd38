package gate

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/internal/locks"
)

// Cond wakes goroutines that wait until something is so. Unlike a sync.Cond it has no lock, and a
// wait can end early. The zero value is ready. Its methods are safe for concurrent use.
type Cond struct {
	next atomic.Pointer[chan struct{}] // closed by the next Broadcast; nil: nobody waits
}

// Broadcast makes those who wait look again. Whoever changes what somebody may wait for calls it
// after the change. It costs one load where nobody waits.
func (c *Cond) Broadcast() {
	if c.next.Load() != nil {
		c.wake()
	}
}

//go:noinline
func (c *Cond) wake() {
	if next := c.next.Swap(nil); next != nil {
		close(*next)
	}
}

// Wait waits until so returns true. It reports false when done is closed first; a nil done never
// is. so is called on the goroutine of the caller, any number of times.
func (c *Cond) Wait(done <-chan struct{}, so func() bool) bool {
	for !so() {
		next := c.upcoming()
		if so() { // the change may have come before it
			return true
		}
		locks.Block()
		select {
		case <-next:
		case <-done:
			return so()
		}
	}
	return true
}

// upcoming returns a channel that the next Broadcast closes.
func (c *Cond) upcoming() <-chan struct{} {
	for {
		if next := c.next.Load(); next != nil {
			return *next
		}
		next := make(chan struct{})
		c.next.CompareAndSwap(nil, &next)
	}
}
