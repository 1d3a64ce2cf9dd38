package launch

import (
	"fmt"
	"unsafe"

	"github.com/purecuda/purecuda/runtime"
)

// Span is the memory of a slice that a kernel takes.
type Span struct {
	name       string
	begin, end uint64
	written    bool
}

// Host is the memory of a slice of the program.
func Host[T any](name string, s []T, written bool) Span {
	begin := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s))))
	return Span{name, begin, begin + uint64(len(s))*uint64(unsafe.Sizeof(*new(T))), written}
}

// Device is memory of a device. It is empty where the memory is gone; the launch then says so.
func Device[T any](name string, r *runtime.Ref[T], written bool) Span {
	begin, err := r.Access()
	if err != nil {
		return Span{name: name}
	}
	return Span{name, uint64(begin), uint64(begin) + r.Bytes(), written}
}

// Apart returns an error if slices overlap and the kernel writes one of them. It is for kernels with noalias.
func Apart(kernel string, spans ...Span) error {
	if a, b, ok := overlap(spans); ok {
		return fmt.Errorf("%s: the slices %s and %s overlap, and the kernel writes one of them", kernel, a.name, b.name)
	}
	return nil
}

// overlap finds two spans that share memory, one of which is written.
func overlap(spans []Span) (a, b Span, found bool) {
	for i, b := range spans {
		for _, a := range spans[:i] {
			if a.begin < b.end && b.begin < a.end && (a.written || b.written) {
				return a, b, true
			}
		}
	}
	return a, b, false
}
