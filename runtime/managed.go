package runtime

import (
	"errors"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/refs"
)

// Managed is memory that holds elements of type T, which the host and all devices see at one address:
// CUDA's managed memory, or unified memory. Its pages move to who touches them. There may be more of it
// than the device has memory. It is not part of the Go heap.
//
// The host uses Data, and devices use Ref. The work of devices is ordered by the Ref. The host must
// wait for the work itself, as with a HostBuffer. It need not keep away from elements that the work
// does not write.
type Managed[T any] struct {
	memory *object // shared by views
	own    *Ref[T] // of which ref is a view; nil in a view
	ref    *Ref[T]
}

// AllocManaged allocates managed memory for n elements, with the Ref of which work on s may begin at
// once. n must not be negative, and T must be free of pointers. What the memory holds is undefined. The
// call asks the driver each time: allocate once and reuse. The limits of [WithMemory] do not count it.
//
// A device that cannot use the memory while the host does gives an error of kind driver.ErrUnsupported:
// there the host would crash. See [Device].ConcurrentManagedAccess. On a stream that is captured
// AllocManaged fails with driver.ErrCaptureFailed.
func AllocManaged[T any](s *Stream, n int) (*Managed[T], error) {
	if s == nil || s.ctx == nil {
		return nil, errNothing("stream")
	}
	bytes, err := refs.SizeOf[T](n)
	if err != nil {
		return nil, err
	}
	if err := s.call(); err != nil { // no Reset until the Ref is there
		return nil, err
	}
	defer s.end()
	c := s.ctx
	if err := s.refuse("AllocManaged", "allocate before the capture or on another stream"); err != nil {
		return nil, err
	}
	if err := c.sharesManaged(); err != nil {
		return nil, err
	}
	o, err := c.create(managedMemory, bytes, "cuMemAllocManaged", func() (uint64, driver.Result) {
		p, r := c.api.MemAllocManaged(max(bytes, 1), driver.MemAttachGlobal)
		return uint64(p), r
	})
	if err != nil {
		if e, ok := err.(*driver.Error); ok {
			e.Bytes = bytes
		}
		return nil, err
	}
	// One reference stands for all Refs, which graphs and others may keep for longer than the Managed.
	e := o.entry
	e.retain()
	end := func() error {
		if e.unretain() {
			c.ledger.freeLater(e)
		}
		return nil
	}
	own, err := refs.Own[T](c.state, s.memory, driver.DevicePtr(e.handle), n, end)
	if err != nil {
		return nil, errors.Join(err, end(), o.Close())
	}
	m := &Managed[T]{memory: &o, own: own, ref: own.Slice(0, n)}
	trackGC(m.memory, m.memory)
	return m, nil
}

// Len is the number of elements.
func (m *Managed[T]) Len() int { return m.Ref().Len() }

// Ref is the memory for launches, copies, fills and [Stream.Submit]. It is closed with m; a Retain of it
// keeps the memory. Devices of other contexts take it after [Context.EnablePeer].
func (m *Managed[T]) Ref() *Ref[T] { return zero.Or(m).ref }

// Data is the memory as a Go slice, and nil after Close and after a loss of the device. Wait for the
// work that writes elements before you read or write them, and for all work that uses them before you
// write them. Work that is put on a stream later finds what was written before.
//
// The slice does not keep the memory alive: keep the Managed or a view of it as long. It must not be used after Close or after a
// loss: the pages may be gone, and the program ends with a fault.
func (m *Managed[T]) Data() []T {
	m = zero.Or(m)
	if m.memory == nil || m.memory.gate.Closed() {
		return nil
	}
	if status := m.memory.ctx.state.Status(); status == refs.Lost || status == refs.Closed {
		return nil
	}
	return unsafe.Slice((*T)(hostPointer(uint64(m.ref.Core().Ptr()))), m.ref.Len())
}

// Slice is a view of the elements [i, j), as [refs.Ref.Slice] is, to prefetch and advise a part.
func (m *Managed[T]) Slice(i, j int) *Managed[T] {
	m = zero.Or(m)
	return &Managed[T]{memory: m.memory, ref: m.ref.Slice(i, j)}
}

// Prefetch moves the memory to the device of s, behind the work on s, and returns. Work that uses it
// then need not wait for its pages. A prefetch is ordered as work that reads: it comes after work of
// other streams that writes the memory. A stream that does not wait for it finds the same elements,
// later. s may be of another device than AllocManaged's.
//
// It needs a driver of CUDA 12.2, and an older one gives an error of kind driver.ErrSymbolMissing. A capture
// cannot record it, and fails: prefetch before the launch of the graph.
func (m *Managed[T]) Prefetch(s *Stream) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	return m.prefetch(s, s.ctx.location())
}

// PrefetchHost is [Managed.Prefetch] to the memory of the host. Wait for s before the host uses the memory.
func (m *Managed[T]) PrefetchHost(s *Stream) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	return m.prefetch(s, ofHost)
}

// ofHost is the memory of the host, as prefetches and advice have it.
var ofHost = driver.MemLocation{Type: driver.MemLocationHost}

// location is the memory of the device.
func (c *Context) location() driver.MemLocation {
	return driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(c.device.handle)}
}

func (m *Managed[T]) prefetch(s *Stream, to driver.MemLocation) error {
	if m == nil || m.memory == nil {
		return errNothing("managed memory")
	}
	ref := m.ref
	return s.transfer("a prefetch", Arg{}, In(ref), func(_, at driver.DevicePtr) error {
		if err := s.refuse("Prefetch", "a graph cannot record it; prefetch before its launch"); err != nil {
			return err
		}
		owner, err := s.ctx.owner(ref.Core().State())
		if err != nil {
			return err
		}
		if err := s.ctx.sharesManaged(); err != nil || ref.Len() == 0 {
			return err
		}
		owner.usedBy(s.ctx)
		return s.failed("cuMemPrefetchAsync", s.ctx.bind.MemPrefetchAsync(at, ref.Bytes(), to, 0, s.handle))
	})
}

// Advise tells the driver how the device of c will use the memory: that it is the preferred location,
// say. It concerns no stream: what is under way is not ordered with it. The memory stays where it is until
// it is used or prefetched. c is a context of the same runtime. It needs a driver of CUDA 12.2.
//
//   - driver.MemAdviseSetReadMostly: each device that reads gets pages of its own, until somebody writes.
//     This concerns all devices, whatever c is.
//   - driver.MemAdviseSetPreferredLocation: pages stay there, where that can be.
//   - driver.MemAdviseSetAccessedBy: pages that are elsewhere are mapped, so that there are no faults.
//   - driver.MemAdviseUnsetReadMostly and the like take that back.
func (m *Managed[T]) Advise(c *Context, advice driver.MemAdvice) error {
	if err := c.check(); err != nil {
		return err
	}
	if err := c.sharesManaged(); err != nil {
		return err
	}
	return m.advise(advice, c.rt, c.location())
}

// AdviseHost is [Managed.Advise] about the host.
func (m *Managed[T]) AdviseHost(advice driver.MemAdvice) error {
	return m.advise(advice, nil, ofHost)
}

// advise is Advise. rt is the runtime of the location, if that has one.
func (m *Managed[T]) advise(advice driver.MemAdvice, rt *Runtime, at driver.MemLocation) error {
	if m == nil || m.memory == nil {
		return errNothing("managed memory")
	}
	ref := m.ref
	address, err := ref.Acquire()
	if err != nil {
		return err
	}
	defer ref.Release()
	c := m.memory.ctx
	switch {
	case advice < driver.MemAdviseSetReadMostly || advice > driver.MemAdviseUnsetAccessedBy:
		return driver.Errorf(driver.ErrInvalidArgument, "advice %d: want one of driver.MemAdviseSetReadMostly (%d) to driver.MemAdviseUnsetAccessedBy (%d)",
			advice, driver.MemAdviseSetReadMostly, driver.MemAdviseUnsetAccessedBy)
	case rt != nil && rt != c.rt:
		return errForeign(c.device.Ordinal)
	case ref.Len() == 0:
		return nil
	}
	return c.call(func() error {
		return c.bind.Failed("cuMemAdvise", c.api.MemAdvise(address, ref.Bytes(), advice, at))
	})
}

// Close ends the Ref, waits for the work that may use the memory, and frees it. Where a graph or another
// reference keeps the memory, it is freed at a later allocation, or when the context closes. It may be
// called twice. Slices from Data are invalid afterwards.
func (m *Managed[T]) Close() error {
	if m == nil || m.own == nil {
		return nil
	}
	return errors.Join(m.own.Close(), m.memory.Close())
}

// sharesManaged is why the device and the host cannot use managed memory at the same time, or nil.
func (c *Context) sharesManaged() error {
	if c.device.ConcurrentManagedAccess {
		return nil
	}
	err := driver.Errorf(driver.ErrUnsupported, "managed memory: the host would crash where it touches the memory while the device works, "+
		"as with all devices on Windows (CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0): use Alloc with Upload, or AllocHost")
	err.Device = c.device.Ordinal
	return err
}
