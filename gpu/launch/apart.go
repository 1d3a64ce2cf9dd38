package launch

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Span is the memory of a slice that a kernel takes.
type Span struct {
	name       string
	begin, end uint64
	host       unsafe.Pointer // nil on a device
	written    bool
}

// Host is the memory of a slice of the program, whose elements have no pointers.
func Host[T any](name string, s []T, written bool) Span {
	host := unsafe.Pointer(unsafe.SliceData(s))
	begin := uint64(uintptr(host))
	return Span{name, begin, begin + uint64(len(s))*uint64(unsafe.Sizeof(*new(T))), host, written}
}

// bytes are the memory of the program.
func (s Span) bytes() []byte { return unsafe.Slice((*byte)(s.host), s.end-s.begin) }

// Device is memory of a device. It is empty where the memory is gone; the launch then says so.
func Device[T any](name string, r *runtime.Ref[T], written bool) Span {
	begin, err := r.Access()
	if err != nil {
		return Span{name: name}
	}
	return Span{name, uint64(begin), uint64(begin) + r.Bytes(), nil, written}
}

// Apart returns an error if slices overlap and the kernel writes one of them. It is for kernels with noalias, and for Auto.
func Apart(kernel string, spans ...Span) error {
	for i, b := range spans {
		for _, a := range spans[:i] {
			if max(a.begin, b.begin) < min(a.end, b.end) && (a.written || b.written) {
				return driver.Errorf(driver.ErrInvalidArgument, "%s: the slices %s and %s overlap, and the kernel writes one of them", kernel, a.name, b.name)
			}
		}
	}
	return nil
}
