package refs

import (
	"fmt"
	goruntime "runtime"
	"sync/atomic"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
)

// Core is a [Ref] without its element type: what an argument of a kernel carries, so that
// a launch can check, lease and order any number of Refs. It belongs to its Ref and keeps
// it from being forgotten. A nil Core is one that was never allocated.
//
// Work on a device is put on a stream like this:
//
//	ptr, err := c.Acquire()
//	if err != nil {
//		return err
//	}
//	defer c.Release()
//	if err := c.Use(stream, true); err != nil {
//		return err
//	}
//	// put work on the stream that writes at ptr
type Core struct {
	state *State
	// stamp is the word of the state at the allocation. A Core that has no memory has one
	// that no state ever has.
	stamp  uint64
	handle *handle
	ptr    driver.DevicePtr
	n      int // elements
	bytes  uint64
	view   bool
	err    *driver.Error // why there is no memory
}

// handle is one reference to memory. A Ref and its views share it. The
// garbage collector watches it.
type handle struct {
	memory  *memory
	closed  atomic.Bool
	cleanup goruntime.Cleanup
}

// newHandle makes a handle for a reference that was counted.
func newHandle(m *memory) *handle {
	h := &handle{memory: m}
	h.cleanup = goruntime.AddCleanup(h, (*memory).forgotten, m)
	return h
}

// usable is the check of every use: two loads on the way that is taken nearly always.
func (c *Core) usable() bool {
	return c != nil && c.handle != nil && c.state.word.Load() == c.stamp && !c.handle.closed.Load()
}

// refusal is why the memory must not be used, or nil.
func (c *Core) refusal() error {
	switch {
	case c == nil || c.handle == nil && c.err == nil:
		return driver.Errorf(driver.ErrInvalidArgument, "a Ref that was never allocated")
	case c.err != nil:
		return c.err
	}
	if err := c.state.Check(c.Generation()); err != nil {
		return err
	}
	if c.handle.closed.Load() {
		return c.state.errorf(driver.ErrClosed, "the Ref was closed before")
	}
	return nil
}

// Access returns the address, after it was checked that the memory may be used. The answer
// is about this moment: hold a lease where it has to last. See [Ref.Access].
func (c *Core) Access() (driver.DevicePtr, error) {
	if c.usable() {
		return c.ptr, nil
	}
	return c.accessSlowly()
}

func (c *Core) accessSlowly() (driver.DevicePtr, error) {
	for !c.usable() {
		if err := c.refusal(); err != nil {
			return 0, err
		}
	}
	return c.ptr, nil
}

// Acquire is [Core.Access] with a lease: until Release, the memory is not freed, and
// [State.Drain] waits. Leases should be as short as the calls that put work on a stream.
func (c *Core) Acquire() (driver.DevicePtr, error) {
	if c == nil || c.handle == nil {
		return 0, c.refusal()
	}
	m := c.handle.memory
	for {
		leased := m.lease()
		// After the lease is counted: whoever changes the state looks for leases after that.
		if leased && c.usable() {
			return c.ptr, nil
		}
		if leased {
			m.release()
		}
		if err := c.refusal(); err != nil {
			return 0, err
		}
		if !leased {
			return 0, c.state.errorf(driver.ErrClosed, "the Ref was closed before")
		}
	}
}

// Release ends a lease. If the memory was closed meanwhile this frees it. A call
// without a lease does nothing, unless another caller holds a lease: then it ends that lease.
func (c *Core) Release() {
	if c != nil && c.handle != nil {
		c.handle.memory.release()
	}
}

// Use orders work that is about to be enqueued on s after the work of other streams that it depends
// on. Reads come after writes, and writes come after all other uses. The caller holds a lease until
// the work is on the stream. Use does not block. After an error the work must not be enqueued.
//
// It takes a few nanoseconds if s is the only stream that uses the memory. Goroutines that use the
// same memory at the same time on different streams must agree on the order themselves. Later work
// comes after all of theirs.
func (c *Core) Use(s *arena.Stream, write bool) error {
	switch {
	case c == nil || c.handle == nil:
		return c.refusal()
	case s == nil:
		return invalidStream(c.state)
	}
	return c.handle.memory.use(s, write)
}

// Ptr is the address, unchecked: 0 if there never was one.
func (c *Core) Ptr() driver.DevicePtr {
	if c == nil {
		return 0
	}
	return c.ptr
}

// Len is the number of elements.
func (c *Core) Len() int {
	if c == nil {
		return 0
	}
	return c.n
}

// Bytes is the size.
func (c *Core) Bytes() uint64 {
	if c == nil {
		return 0
	}
	return c.bytes
}

// State is what the memory belongs to, or nil if there never was any.
func (c *Core) State() *State {
	if c == nil {
		return nil
	}
	return c.state
}

// Generation of the context that the memory was allocated in.
func (c *Core) Generation() uint64 {
	if c == nil || c.handle == nil {
		return 0
	}
	return c.handle.memory.generation
}

// Retain makes another reference to the same elements, which has to be closed as well: for
// callers that do not know the type of the elements.
func (c *Core) Retain() *Core {
	other := new(Core)
	other.retain(c)
	return other
}

// Close ends the reference, unless this is a view; see [Ref.Close].
func (c *Core) Close() error {
	if c == nil || c.handle == nil || c.view {
		return nil
	}
	h := c.handle
	if !h.closed.CompareAndSwap(false, true) {
		return nil
	}
	h.cleanup.Stop()
	goruntime.KeepAlive(h) // so that the cleanup is stopped for certain
	m := h.memory
	if m.count.Add(-oneRef) != 0 {
		return nil
	}
	return m.endIfUnused()
}

// slice makes c a view of elements of another Core.
func (c *Core) slice(of *Core, i, j int, size uint64) {
	c.view = true
	if of == nil {
		return
	}
	c.state, c.stamp, c.handle, c.err = of.state, of.stamp, of.handle, of.err
	if c.handle == nil {
		return
	}
	if i < 0 || j < i || j > of.n {
		c.err = c.state.errorf(driver.ErrInvalidArgument, "slice [%d:%d] of a Ref of %d elements", i, j, of.n)
		c.handle, c.stamp = nil, 0
		return
	}
	c.ptr, c.n, c.bytes = of.ptr+driver.DevicePtr(uint64(i)*size), j-i, uint64(j-i)*size
}

// retain makes c another reference to the memory of a Core.
func (c *Core) retain(of *Core) {
	if of == nil {
		return
	}
	c.state, c.ptr, c.n, c.bytes, c.err = of.state, of.ptr, of.n, of.bytes, of.err
	if of.handle == nil {
		return
	}
	m := of.handle.memory
	if !m.lease() {
		c.handle = of.handle // which is closed
		return
	}
	defer m.release()
	if of.handle.closed.Load() {
		c.handle = of.handle
		return
	}
	m.count.Add(oneRef)
	c.handle, c.stamp = newHandle(m), of.stamp
}

// text describes the Core for people.
func (c *Core) text(element string) string {
	if c == nil || c.handle == nil {
		return fmt.Sprintf("Ref[%s]{%v}", element, c.refusal())
	}
	reason := "usable"
	if err := c.refusal(); err != nil {
		reason = err.Error()
	}
	return fmt.Sprintf("Ref[%s]{%d elements, %d bytes at %#x, device %d, generation %d, written on stream %s, %s}",
		element, c.n, c.bytes, uint64(c.ptr), c.state.device, c.Generation(), streamName(c.handle.memory.writer.Load()), reason)
}
