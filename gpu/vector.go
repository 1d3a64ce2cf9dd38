package gpu

import (
	"reflect"
	"unsafe"
)

// Uint4, Int4 and Float4 are 16 bytes, and so are Uint64x2 and Float64x2. A GPU loads or stores an element of a
// slice of them with one instruction.
type (
	// Uint4 is four uint32.
	Uint4 struct{ X, Y, Z, W uint32 }
	// Int4 is four int32.
	Int4 struct{ X, Y, Z, W int32 }
	// Float4 is four float32.
	Float4 struct{ X, Y, Z, W float32 }
	// Uint64x2 is two uint64.
	Uint64x2 struct{ X, Y uint64 }
	// Float64x2 is two float64.
	Float64x2 struct{ X, Y float64 }
)

// Quads divides bytes into those before the first 16-byte boundary of memory, those from there in 16 bytes each, and
// those that are left. It copies nothing.
func Quads(data []byte) (head []byte, quads []Uint4, tail []byte) {
	if len(data) == 0 {
		return nil, nil, nil
	}
	first := min(int(-uintptr(unsafe.Pointer(&data[0]))&15), len(data))
	n := (len(data) - first) / 16
	if n > 0 {
		quads = unsafe.Slice((*Uint4)(unsafe.Pointer(&data[first])), n)
	}
	return data[:first], quads, data[first+16*n:]
}

// View is the same memory as elements of another type: View[[4]float32](x) is x by four. What is left at the end is not in
// it. On a GPU x has to begin at a multiple of the size of V, or of 16 bytes if V is larger, as what runtime.Alloc gives.
func View[V, T any](x []T) []V {
	var v V
	plain(reflect.TypeFor[T]())
	plain(reflect.TypeFor[V]())
	if len(x) == 0 || unsafe.Sizeof(v) == 0 {
		return nil
	}
	return unsafe.Slice((*V)(unsafe.Pointer(&x[0])), uintptr(len(x))*unsafe.Sizeof(x[0])/unsafe.Sizeof(v))
}
