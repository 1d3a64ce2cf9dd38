package runtime

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/refs"
)

// HostBuffer is page-locked host memory that holds elements of type T. Devices
// copy from and to it at the full rate of the bus, while the host does other
// things. It is not part of the Go heap: the garbage collector neither moves nor
// frees it.
type HostBuffer[T any] struct {
	memory *object // shared by views
	ptr    unsafe.Pointer
	n      int
	view   bool
	err    *driver.Error // of a view that does not exist
}

// AllocHost allocates page-locked memory for n elements, usable with every device
// of the process. It is slow, 1 ms for a page and 115 ms for 256 MB, and it takes
// memory away from everybody else: allocate once and reuse. n must not be negative.
func AllocHost[T any](c *Context, n int) (*HostBuffer[T], error) {
	bytes, err := refs.SizeOf[T](n)
	if err != nil {
		return nil, err
	}
	return hostBuffer[T](c, n, hostMemory, bytes, "cuMemHostAlloc", func() (uint64, driver.Result) {
		p, r := c.api.MemHostAlloc(max(bytes, 1), driver.HostAllocPortable)
		return uint64(uintptr(p)), r
	})
}

// RegisterHost page-locks memory of the program, such as memory that it shares with another
// process, for every device of the process. It costs what AllocHost costs. The memory stays the
// program's: Close of the buffer waits as for any other, ends the registration, and
// the memory must stay until then. Memory that shares a page with other registered memory is an error.
func RegisterHost[T any](c *Context, memory []T) (*HostBuffer[T], error) {
	bytes, err := refs.SizeOf[T](len(memory))
	if err != nil {
		return nil, err
	}
	if bytes == 0 {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "RegisterHost of an empty slice")
	}
	at := unsafe.Pointer(unsafe.SliceData(memory))
	h, err := hostBuffer[T](c, len(memory), registeredMemory, bytes, "cuMemHostRegister", func() (uint64, driver.Result) {
		return uint64(uintptr(at)), c.api.MemHostRegister(at, bytes, driver.HostAllocPortable)
	})
	if err == nil {
		h.memory.entry.registered = at // which h keeps until now
	}
	return h, err
}

func hostBuffer[T any](c *Context, n int, kind entryKind, bytes uint64, op string, f func() (uint64, driver.Result)) (*HostBuffer[T], error) {
	o, err := c.create(kind, bytes, op, f)
	if err != nil {
		if e, ok := err.(*driver.Error); ok {
			e.Bytes = bytes
		}
		return nil, err
	}
	h := &HostBuffer[T]{memory: &o, ptr: hostPointer(o.entry.handle), n: n}
	trackGC(h.memory, h.memory)
	return h, nil
}

// Len is the number of elements.
func (h *HostBuffer[T]) Len() int { return zero.Or(h).n }

// Data is the memory as a Go slice, and nil after Close. The slice must not be used after Close, and not
// while a copy of the device from or to it is under way. The slice does not keep
// the memory alive: keep the HostBuffer or a view of it as long.
func (h *HostBuffer[T]) Data() []T {
	h = zero.Or(h)
	if h.memory == nil || h.memory.gate.Closed() {
		return nil
	}
	return unsafe.Slice((*T)(h.ptr), h.n)
}

// Slice is a view of the elements [i, j), as [refs.Ref.Slice] is.
func (h *HostBuffer[T]) Slice(i, j int) *HostBuffer[T] {
	err := h.made()
	h = zero.Or(h)
	v := &HostBuffer[T]{memory: h.memory, view: true, err: err}
	if v.err == nil {
		v.err = checkBounds(i, j, h.n)
	}
	if v.err == nil {
		var zero T
		v.ptr, v.n = unsafe.Add(h.ptr, uintptr(i)*unsafe.Sizeof(zero)), j-i
	}
	return v
}

// Arg is the buffer's address as an argument: a kernel reads and writes page-locked memory
// over the bus, a word at a time, while the host can see it. Every device of the process
// takes it that has unified addressing, which is all of 64-bit Linux and Windows. Keep the
// buffer open until the kernel is done, and wait for the kernel before the host reads.
func (h *HostBuffer[T]) Arg() Arg {
	if err := h.made(); err != nil {
		return wrongArg(err)
	}
	return Arg{bits: uint64(uintptr(h.ptr)), of: unsafe.Pointer(h.memory), size: 8, typ: addressArg, kind: objectArg}
}

// Close waits for the work of the device that may use the memory, and frees it; memory of
// [RegisterHost] stays the program's, and [LeaseHost] says what becomes of its own. It may be called twice. Slices from Data are invalid afterwards.
func (h *HostBuffer[T]) Close() error {
	if h == nil || h.view || h.memory == nil {
		return nil
	}
	return h.memory.Close()
}

// check is why the buffer cannot take part in a copy of n elements, or nil.
func (h *HostBuffer[T]) check(what string, n int) error {
	if err := h.made(); err != nil {
		return err
	}
	return sameLength(what, h.n, n)
}

// made is why there is no such buffer, or nil.
func (h *HostBuffer[T]) made() *driver.Error {
	switch {
	case h == nil || h.memory == nil && h.err == nil:
		return errNothing("buffer")
	case h.err != nil:
		return h.err
	}
	return nil
}

func checkBounds(i, j, n int) *driver.Error {
	if i < 0 || j < i || j > n {
		return driver.Errorf(driver.ErrInvalidArgument, "slice [%d:%d] of a buffer of %d elements", i, j, n)
	}
	return nil
}
