package runtime

import (
	"context"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/refs"
)

// Variable is a variable of a module, in global or constant memory, with elements of type T:
// one for a scalar, as many as it has for an array. The module owns the memory; after its
// Close every use is an error. It is safe for concurrent use.
//
// Reading and writing are work on a stream, in its order only. Order the work of other streams
// with the variable by events.
type Variable[T any] struct {
	module *Module
	ptr    driver.DevicePtr
	n      int
}

// FindVariable finds a variable of a module by its name in the image (for CUDA C, declare it
// extern "C"). Its size must be a multiple of an element's; compare Len with what the kernel
// expects.
func FindVariable[T any](m *Module, name string) (*Variable[T], error) {
	size, err := refs.SizeOf[T](1)
	if err != nil {
		return nil, err
	}
	ptr, bytes, err := m.Variable(name)
	if err != nil {
		return nil, err
	}
	if bytes == 0 || bytes%size != 0 {
		var zero T
		return nil, driver.Errorf(driver.ErrInvalidArgument, "the variable %q has %d bytes, which are not whole elements of %T with %d",
			name, bytes, zero, unsafe.Sizeof(zero))
	}
	return &Variable[T]{module: m, ptr: ptr, n: int(bytes / size)}, nil
}

// Len is the number of elements.
func (v *Variable[T]) Len() int { return zero.Or(v).n }

// Upload copies src to the variable, as the function [Upload] does to a Ref. A launch reads
// what was written before it on its stream.
func (v *Variable[T]) Upload(ctx context.Context, s *Stream, src []T) error {
	v = zero.Or(v)
	if err := sameLength("upload", len(src), v.n); err != nil {
		return err
	}
	return v.transfer(s, "an upload", Arg{}, func() error {
		if err := s.refuse("Variable.Upload", pageable); err != nil {
			return err
		}
		return s.ctx.memory.Load().copier.Upload(ctx, s.handle, v.ptr, bytesOf(src))
	})
}

// Download copies the variable to dst, as the function [Download] does.
func (v *Variable[T]) Download(ctx context.Context, s *Stream, dst []T) error {
	v = zero.Or(v)
	if err := sameLength("download", len(dst), v.n); err != nil {
		return err
	}
	var began waiting
	err := v.transfer(s, "a download", Arg{}, func() error {
		if err := s.refuse("Variable.Download", pageable); err != nil {
			return err
		}
		began = s.checks.beginPart()
		return s.ctx.memory.Load().copier.Download(ctx, s.handle, bytesOf(dst), v.ptr)
	})
	if err != nil {
		return err
	}
	return s.copied(ctx, began, nil)
}

// UploadHost puts a copy from page-locked memory to the variable after the work on s, and
// returns; it can be captured. src must not be changed or closed before the stream has
// passed the copy.
func (v *Variable[T]) UploadHost(s *Stream, src *HostBuffer[T]) error {
	v = zero.Or(v)
	if err := src.check("upload", v.n); err != nil {
		return err
	}
	return v.transfer(s, "an upload", src.Arg(), func() error {
		return s.failed("cuMemcpyHtoDAsync", s.ctx.bind.MemcpyHtoDAsync(v.ptr, src.ptr, v.bytes(), s.handle))
	})
}

// Zero puts a memset of every byte to zero after the work on s, and returns.
func (v *Variable[T]) Zero(s *Stream) error {
	v = zero.Or(v)
	return v.transfer(s, "a fill", Arg{}, func() error {
		return s.failed("cuMemsetD8Async", s.ctx.bind.MemsetD8Async(v.ptr, 0, v.bytes(), s.handle))
	})
}

func (v *Variable[T]) bytes() uint64 {
	var zero T
	return uint64(v.n) * uint64(unsafe.Sizeof(zero))
}

func (v *Variable[T]) transfer(s *Stream, operation string, other Arg, f func() error) error {
	if v.module == nil {
		return errNothing("symbol")
	}
	return s.transfer(operation, argOf(&v.module.object), other, func(_, _ driver.DevicePtr) error { return f() })
}
