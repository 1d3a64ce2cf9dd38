package refs

import (
	"reflect"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// SizeOf is the size of n elements of T in bytes. It is an error of kind
// driver.ErrInvalidArgument where a device cannot hold them: n must not be negative, and T
// must have a size and be free of pointers.
func SizeOf[T any](n int) (uint64, error) {
	var zero T
	size := uint64(unsafe.Sizeof(zero))
	switch {
	case n < 0:
		return 0, driver.Errorf(driver.ErrInvalidArgument, "%d elements: want 0 or more", n)
	case size == 0:
		return 0, driver.Errorf(driver.ErrInvalidArgument, "%v has no size", reflect.TypeFor[T]())
	case hasPointers(reflect.TypeFor[T]()):
		return 0, driver.Errorf(driver.ErrInvalidArgument, "%v holds pointers, which mean nothing on a device", reflect.TypeFor[T]())
	case uint64(n) > (1<<62)/size:
		return 0, driver.Errorf(driver.ErrInvalidArgument, "%d elements of %d bytes are more than can be addressed", n, size)
	}
	return uint64(n) * size, nil
}

func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	case reflect.Chan, reflect.Func, reflect.Interface, reflect.Map, reflect.Pointer,
		reflect.Slice, reflect.String, reflect.UnsafePointer:
		return true
	}
	return false
}
