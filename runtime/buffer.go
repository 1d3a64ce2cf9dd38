package runtime

import (
	"reflect"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Buffer is a stretch of device memory that holds elements of type T. It is safe
// for concurrent use, as far as the work on the device is ordered by streams and
// events.
//
// Closing a buffer waits for the work of the device that may still use it.
type Buffer[T any] struct {
	memory *object // shared by views
	ptr    driver.DevicePtr
	n      int
	view   bool
	err    *driver.Error // of a view that does not exist
}

// Alloc allocates room for n elements; n must be positive and T free of pointers.
// What the memory holds is undefined. It takes about 100 microseconds and may wait
// for the device. What was forgotten is given back before. When memory is short the
// error is of kind driver.ErrOutOfMemory and says what was free.
func Alloc[T any](c *Context, n int) (*Buffer[T], error) {
	bytes, err := sizeOf[T](n)
	if err != nil {
		return nil, err
	}
	o, err := c.create(deviceMemory, bytes, "cuMemAlloc", func() (uint64, driver.Result) {
		p, r := c.api.MemAlloc(bytes)
		return uint64(p), r
	})
	if err != nil {
		return nil, c.outOfMemory(err, bytes)
	}
	b := &Buffer[T]{memory: &o, ptr: driver.DevicePtr(o.resource.handle), n: n}
	// Views keep the memory alive through the object, so that is what is watched.
	watch(b.memory, b.memory)
	return b, nil
}

// sizeOf is the size of n elements in bytes.
func sizeOf[T any](n int) (uint64, error) {
	var zero T
	size := uint64(unsafe.Sizeof(zero))
	switch {
	case n <= 0:
		return 0, driver.Errorf(driver.ErrInvalidArgument, "%d elements: want at least 1", n)
	case size == 0:
		return 0, driver.Errorf(driver.ErrInvalidArgument, "%T has no size", zero)
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

// outOfMemory adds to an error of an allocation what was asked and what was free.
func (c *Context) outOfMemory(err error, bytes uint64) error {
	e, ok := err.(*driver.Error)
	if !ok || e.Kind != driver.ErrOutOfMemory {
		return err
	}
	e.Bytes = bytes
	e.Free, e.Total, _ = c.MemInfo()
	return e
}

// Len is the number of elements.
func (b *Buffer[T]) Len() int { return b.n }

// Bytes is the size in bytes.
func (b *Buffer[T]) Bytes() uint64 {
	var zero T
	return uint64(b.n) * uint64(unsafe.Sizeof(zero))
}

// Pointer is the address on the device, for package driver and for kernels. It is
// valid until the buffer is closed.
func (b *Buffer[T]) Pointer() driver.DevicePtr { return b.ptr }

// Context is the context that the memory belongs to.
func (b *Buffer[T]) Context() *Context { return b.memory.ctx }

// Slice is a view of the elements [i, j), as of a Go slice. It is valid until the
// buffer is closed; closing the view does nothing. If the bounds are outside the
// buffer, every use of the view is an error that names them.
func (b *Buffer[T]) Slice(i, j int) *Buffer[T] {
	v := &Buffer[T]{memory: b.memory, view: true, err: b.err}
	if v.err == nil {
		v.err = checkBounds(i, j, b.n)
	}
	if v.err == nil {
		var zero T
		v.ptr, v.n = b.ptr+driver.DevicePtr(i)*driver.DevicePtr(unsafe.Sizeof(zero)), j-i
	}
	return v
}

func checkBounds(i, j, n int) *driver.Error {
	if i < 0 || j < i || j > n {
		return driver.Errorf(driver.ErrInvalidArgument, "slice [%d:%d] of a buffer of %d elements", i, j, n)
	}
	return nil
}

// Close waits for the calls that use the buffer and for the work of the device,
// and frees the memory. It may be called twice.
func (b *Buffer[T]) Close() error {
	if b.view {
		return nil
	}
	return b.memory.Close()
}
