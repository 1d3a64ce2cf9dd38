package runtime

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Symbol finds a variable of a module, in global or constant memory, as a buffer of
// elements of type T: one for a scalar, as many as it has for an array. Its size must be
// that of whole elements; compare Len with what the kernel expects. All methods of a
// buffer work on it, so Upload and UploadFrom write it, and Fill and Zero too, in the order
// of their stream. The address of a constant is for copies only, not an argument.
//
// The module owns the memory: it is valid until the module is closed, and closing the
// buffer does nothing. A launch reads what was written before it on its stream.
func Symbol[T any](m *Module, name string) (*Buffer[T], error) {
	size, err := sizeOf[T](1)
	if err != nil {
		return nil, err
	}
	ptr, bytes, err := m.Global(name)
	if err != nil {
		return nil, err
	}
	if bytes == 0 || bytes%size != 0 {
		var zero T
		return nil, driver.Errorf(driver.ErrInvalidArgument, "the variable %q has %d bytes, which are not whole elements of %T with %d",
			name, bytes, zero, unsafe.Sizeof(zero))
	}
	return &Buffer[T]{memory: &m.object, ptr: ptr, n: int(bytes / size), view: true}, nil
}
