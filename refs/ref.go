package refs

import (
	"math"
	"reflect"
	"unsafe"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
)

// Ref is a reference to device memory that holds elements of type T. It knows the context
// that the memory was allocated in, and refuses to be used once that is gone. It must not
// be copied; Retain makes another one, and Slice a view. It is safe for concurrent use.
//
// The zero Ref, a nil one and a view out of bounds have no memory: all that is asked
// of them is an error of kind driver.ErrInvalidArgument.
type Ref[T any] struct{ core Core }

// New allocates room for n elements from the arena of a stream of the State's device. Work on
// that stream may use it at once; Use orders other streams' work. n must not be negative and T free of
// pointers. What the memory holds is undefined. A Ref of no elements is as any other, and takes a
// byte of the arena. It first frees what the garbage collector has found.
//
// If the context is rebuilt meanwhile, the Ref is stale from the beginning. Errors:
// driver.ErrInvalidArgument, driver.ErrRefStale and driver.ErrDeviceLost as for
// [Ref.Access], and those of the arena, driver.ErrOutOfMemory above all.
func New[T any](s *State, on *arena.Stream, n int) (*Ref[T], error) {
	bytes, err := SizeOf[T](n)
	switch {
	case err != nil:
		return nil, err
	case s.Generation() == 0:
		return nil, s.Check(0)
	}
	s.Reclaim()
	r := new(Ref[T])
	if err := r.core.take(s, on, 0, bytes, nil); err != nil {
		return nil, err
	}
	r.core.n = n
	return r, nil
}

// Wrap makes a Ref of n elements at an address of the State's device that others own. Work on the
// stream may use them at once, as with New. The last Close does not free them: it makes the stream
// wait for all work with them, so that the owner frees them behind that. It is an error if it cannot.
func Wrap[T any](s *State, on *arena.Stream, address driver.DevicePtr, n int) (*Ref[T], error) {
	return Own[T](s, on, address, n, nil)
}

// Own is Wrap of memory that goes with its last reference, which then calls free once. Work of any stream may still use
// the memory, which free has to wait for, or leaves to somebody who does. It is not called for memory whose context was
// rebuilt, lost or closed, which has gone with it. It may run on any goroutine that closes, uses or allocates Refs of the
// State. Without free it is Wrap.
func Own[T any](s *State, on *arena.Stream, address driver.DevicePtr, n int, free func() error) (*Ref[T], error) {
	bytes, err := SizeOf[T](n)
	switch {
	case err != nil:
		return nil, err
	case s.Generation() == 0:
		return nil, s.Check(0)
	case on.Device() == nil:
		return nil, invalidStream(s)
	case address == 0 || bytes > math.MaxUint64-uint64(address):
		return nil, s.errorf(driver.ErrInvalidArgument, "wrap %d bytes at address %#x, which cannot be", bytes, uint64(address))
	}
	r := new(Ref[T])
	if err := r.core.take(s, on, address, bytes, free); err != nil {
		return nil, err
	}
	r.core.n = n
	return r, nil
}

// take gives the Core memory: that at an address, which free frees if others do not own it, or fresh one if
// the address is 0.
func (c *Core) take(s *State, on *arena.Stream, address driver.DevicePtr, bytes uint64, free func() error) error {
	m := &memory{state: s, bytes: bytes, home: on, freeWith: free}
	m.uses = append(m.first[:0], use{stream: on, wrote: true})
	m.sole.Store(on)
	m.writer.Store(on)
	return c.own(m, bytes, func() (driver.DevicePtr, error) {
		if address != 0 {
			return address, nil
		}
		var err error
		m.block, err = on.Alloc(max(bytes, 1)) // so that no elements have an address as well
		return m.block.Ptr(), err
	})
}

// own makes the Core the first reference to memory, which get gets and returns the address of.
func (c *Core) own(m *memory, bytes uint64, get func() (driver.DevicePtr, error)) error {
	s := m.state
	word := s.enter() // before allocating: a rebuild meanwhile makes the memory stale
	defer s.leave()
	generation, status := split(word)
	if status != Accepting {
		if err := s.Check(0); err != nil {
			return err
		}
		return s.stale(reasonSuspended) // it is accepting again
	}
	address, err := get()
	if err != nil {
		return err
	}
	m.generation = generation
	m.count.Store(oneRef)
	s.registry.add(m)
	c.state, c.stamp, c.handle, c.ptr, c.bytes = s, word, newHandle(m), address, bytes
	return nil
}

// Core is the Ref without its element type; nil for a nil Ref.
func (r *Ref[T]) Core() *Core {
	if r == nil {
		return nil
	}
	return &r.core
}

// Len is the number of elements.
func (r *Ref[T]) Len() int { return r.Core().Len() }

// Bytes is the size.
func (r *Ref[T]) Bytes() uint64 { return r.Core().Bytes() }

// Access returns the address, after it was checked that the memory may be used. It takes a
// few nanoseconds and does not allocate. The answer is about this moment: a rebuild may
// end it at the next. Where it has to last, hold a lease.
//
// The first of these errors that applies is returned:
//
//   - driver.ErrInvalidArgument for a view out of bounds
//   - driver.ErrRefStale with "device state closed" or "device shutting down"
//   - driver.ErrDeviceLost, which wraps the first cause
//   - driver.ErrRefStale with "context rebuilt"
//   - driver.ErrClosed
func (r *Ref[T]) Access() (driver.DevicePtr, error) { return r.Core().Access() }

// Acquire is [Ref.Access] with a lease: until Release, the memory is not freed, and
// [State.Drain] waits.
func (r *Ref[T]) Acquire() (driver.DevicePtr, error) { return r.Core().Acquire() }

// Release ends a lease; see [Core.Release].
func (r *Ref[T]) Release() { r.Core().Release() }

// Slice is a view of the elements [i, j), as of a Go slice. It shares the reference: it
// keeps the memory from being forgotten, it is closed with the Ref that it was made of, and
// closing the view does nothing. A Retain of it lives by itself. If the bounds are outside
// the Ref, every use of the view is an error that names them.
func (r *Ref[T]) Slice(i, j int) *Ref[T] {
	var zero T
	v := new(Ref[T])
	v.core.slice(r.Core(), i, j, uint64(unsafe.Sizeof(zero)))
	return v
}

// Cast is a view of the same memory as elements of another type, as many as fit without a rest. It is an error of kind
// driver.ErrInvalidArgument if there is a rest, or if the memory does not begin where a T can. Closing a view does nothing.
func Cast[T, From any](r *Ref[From]) (*Ref[T], error) {
	size, err := SizeOf[T](1)
	if err != nil {
		return nil, err
	}
	var from From
	var to T
	v := new(Ref[T])
	v.core.slice(r.Core(), 0, r.Len(), uint64(unsafe.Sizeof(from)))
	switch c := &v.core; {
	case c.handle == nil: // there is none, or it is out of bounds
		return nil, c.refusal()
	case c.bytes%size != 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "cast: %d bytes are no multiple of the %d of an element", c.bytes, size)
	case uint64(c.ptr)%uint64(unsafe.Alignof(to)) != 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "cast: %#x is no multiple of the %d that an element needs", uint64(c.ptr), unsafe.Alignof(to))
	}
	v.core.n = int(v.core.bytes / size)
	return v, nil
}

// Retain makes another reference to the same elements, which has to be closed as well. That
// of a Ref that is closed is closed.
func (r *Ref[T]) Retain() *Ref[T] {
	other := new(Ref[T])
	other.core.retain(r.Core())
	return other
}

// Close ends the reference. The last one frees the memory after the work of all
// streams that used it, or leaves that to the last lease. It does not wait for the device, unless
// the device has no memory pools and the cache is full. Closing twice is harmless, and closing a Ref
// that is stale as well.
//
// An error means that it could not be proven that the work with the memory ends. It is
// leaked then, on purpose, and counted: see [State.Stats].
func (r *Ref[T]) Close() error { return r.Core().Close() }

// String tells what the memory is and whether it may be used, for people.
func (r *Ref[T]) String() string { return r.Core().text(reflect.TypeFor[T]().String()) }

// GoString is String.
func (r *Ref[T]) GoString() string { return r.String() }
