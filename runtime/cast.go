package runtime

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/refs"
)

// Cast is a view of the same device memory as elements of another type, as many as fit without a rest: float32 as complex64, for
// example. It is an error if there is a rest, or if the memory does not begin where a T can. Closing a view does nothing.
func Cast[T, From any](r *Ref[From]) (*Ref[T], error) { return refs.Cast[T](r) }

// CastHost is a view of the same page-locked memory as elements of another type, as many as fit without a
// rest. It is an error if there is a rest, or if the memory does not begin where a T can. Close does
// nothing.
func CastHost[T, From any](h *HostBuffer[From]) (*HostBuffer[T], error) {
	if err := h.made(); err != nil {
		return nil, err
	}
	size, err := refs.SizeOf[T](1)
	if err != nil {
		return nil, err
	}
	var from From
	var to T
	bytes := uint64(h.n) * uint64(unsafe.Sizeof(from))
	switch {
	case bytes%size != 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "CastHost: %d bytes are no multiple of the %d of an element", bytes, size)
	case uintptr(h.ptr)%unsafe.Alignof(to) != 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "CastHost: %p is no multiple of the %d that an element needs", h.ptr, unsafe.Alignof(to))
	}
	return &HostBuffer[T]{memory: h.memory, ptr: h.ptr, n: int(bytes / size), view: true}, nil
}
