package refs

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// Growable is device memory of elements of type T that grows where it is: the address and the contents stay, and work
// that uses it goes on. It must not be copied, and is safe for concurrent use.
type Growable[T any] struct {
	all    Ref[T] // of all addresses. Nobody else has it: the end has no memory
	length atomic.Int64
}

// NewGrowable reserves addresses for at most so many elements in the context of the State, whose memory is of the arena.
// It has no elements yet. Errors are as from [New] and of [arena.Device.NewRange].
func NewGrowable[T any](s *State, of *arena.Device, most int) (*Growable[T], error) {
	bytes, err := SizeOf[T](most)
	switch {
	case err != nil:
		return nil, err
	case s.Generation() == 0:
		return nil, s.Check(0)
	}
	s.Reclaim()
	g := new(Growable[T])
	m := &memory{state: s}
	err = g.all.core.own(m, bytes, func() (driver.DevicePtr, error) {
		m.grows, err = of.NewRange(max(bytes, 1)) // so that no elements have an address as well
		return m.grows.Ptr(), err
	})
	if err != nil {
		return nil, err
	}
	g.all.core.n = most
	return g, nil
}

// Grow makes it n elements long, unless it is longer already. What the new ones hold is undefined, and work on any stream
// may use them at once. Refs of before stay as they are. Several goroutines may call it at the same time.
//
// It takes no memory beyond the next page of the device, 2 MiB as a rule, and calls the driver where a page is begun. Where
// memory is short it waits for work, as [New] does. It puts nothing on a stream, and works in a capture.
//
// After an error nothing has changed: driver.ErrOutOfMemory, driver.ErrInvalidArgument if n is more than Cap, and those of
// [Ref.Access].
func (g *Growable[T]) Grow(n int) error {
	c := &zero.Or(g).all.core
	if _, err := c.Acquire(); err != nil { // so that it is not freed meanwhile
		return err
	}
	defer c.Release()
	if n < 0 || n > c.n {
		return c.state.errorf(driver.ErrInvalidArgument, "grow to %d elements: want 0 to %d, for which addresses are reserved", n, c.n)
	}
	if n <= g.Len() {
		return nil
	}
	defer c.state.leave()
	if c.state.enter() != c.stamp { // that is not taken down meanwhile
		if err := c.state.Check(c.Generation()); err != nil {
			return err
		}
		return c.state.stale(reasonSuspended) // it is accepting again
	}
	bytes, err := SizeOf[T](n)
	if err == nil {
		err = c.handle.memory.grows.Grow(bytes)
	}
	if err != nil {
		return err
	}
	c.state.registry.resize(c.handle.memory, bytes)
	for {
		now := g.length.Load()
		if int64(n) <= now || g.length.CompareAndSwap(now, int64(n)) {
			return nil
		}
	}
}

// Ref is a view of the elements that there are now, as of [Ref.Slice]: it is closed with g, and a Retain of it lives by
// itself. Work with any part of the memory is ordered as work with the whole.
func (g *Growable[T]) Ref() *Ref[T] {
	if g == nil {
		return new(Ref[T])
	}
	return g.all.Slice(0, g.Len())
}

// Len is the number of elements that have memory.
func (g *Growable[T]) Len() int { return int(zero.Or(g).length.Load()) }

// Cap is the number of elements that addresses are reserved for.
func (g *Growable[T]) Cap() int { return zero.Or(g).all.Len() }

// Close frees the memory and the addresses after the work with them, as [Ref.Close] does, once nobody has a Retain of a
// Ref. All that goes back to the driver. Close does not wait for the device.
func (g *Growable[T]) Close() error { return zero.Or(g).all.Close() }
