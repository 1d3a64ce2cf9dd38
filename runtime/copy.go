package runtime

import (
	goruntime "runtime"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Upload copies src to the buffer, behind the work on s. Both must have the same
// length. It waits for the stream: when it returns, src is free to reuse and the
// elements are on the device.
//
// Memory of the Go heap is handed to the driver here, but only for the duration of
// the call. For speed and overlap copy from a HostBuffer.
func (b *Buffer[T]) Upload(s *Stream, src []T) error {
	if err := b.fits("upload", s, len(src), nil); err != nil || len(src) == 0 {
		return err
	}
	err := b.transfer(s, "an upload", nil, func() error {
		if err := s.refuse("Buffer.Upload", pageable); err != nil {
			return err
		}
		s.ctx.stats.uploads.Add(1)
		s.ctx.stats.uploadBytes.Add(b.Bytes())
		r := s.ctx.api.MemcpyHtoDAsync(b.ptr, unsafe.Pointer(unsafe.SliceData(src)), b.Bytes(), s.handle)
		return s.settle("cuMemcpyHtoDAsync", r)
	})
	goruntime.KeepAlive(src)
	return err
}

// Download copies the buffer to dst, behind the work on s. Both must have the same
// length. It waits for the stream.
func (b *Buffer[T]) Download(s *Stream, dst []T) error {
	if err := b.fits("download", s, len(dst), nil); err != nil || len(dst) == 0 {
		return err
	}
	err := b.transfer(s, "a download", nil, func() error {
		if err := s.refuse("Buffer.Download", pageable); err != nil {
			return err
		}
		s.ctx.stats.downloads.Add(1)
		s.ctx.stats.downloadBytes.Add(b.Bytes())
		r := s.ctx.api.MemcpyDtoHAsync(unsafe.Pointer(unsafe.SliceData(dst)), b.ptr, b.Bytes(), s.handle)
		return s.settle("cuMemcpyDtoHAsync", r)
	})
	goruntime.KeepAlive(dst)
	return err
}

// UploadFrom puts a copy of src to the buffer behind the work on s, and returns.
// src must not be changed or closed before the stream has passed the copy.
func (b *Buffer[T]) UploadFrom(s *Stream, src *HostBuffer[T]) error {
	if err := b.fits("upload", s, src.n, src.err); err != nil || src.n == 0 {
		return err
	}
	return b.transfer(s, "an upload", src.memory, func() error {
		s.ctx.stats.uploads.Add(1)
		s.ctx.stats.uploadBytes.Add(b.Bytes())
		return s.failed("cuMemcpyHtoDAsync", s.ctx.api.MemcpyHtoDAsync(b.ptr, src.ptr, b.Bytes(), s.handle))
	})
}

// DownloadTo puts a copy of the buffer to dst behind the work on s, and returns.
// dst must not be read or closed before the stream has passed the copy.
func (b *Buffer[T]) DownloadTo(s *Stream, dst *HostBuffer[T]) error {
	if err := b.fits("download", s, dst.n, dst.err); err != nil || dst.n == 0 {
		return err
	}
	return b.transfer(s, "a download", dst.memory, func() error {
		s.ctx.stats.downloads.Add(1)
		s.ctx.stats.downloadBytes.Add(b.Bytes())
		return s.failed("cuMemcpyDtoHAsync", s.ctx.api.MemcpyDtoHAsync(dst.ptr, b.ptr, b.Bytes(), s.handle))
	})
}

// CopyFrom puts a copy of src to the buffer behind the work on s, and returns. src
// may be on another device; order the work there with an event. The stream must be
// of the buffer's context.
func (b *Buffer[T]) CopyFrom(s *Stream, src *Buffer[T]) error {
	if err := b.fits("copy", s, src.n, src.err); err != nil || src.n == 0 {
		return err
	}
	return b.transfer(s, "a copy", src.memory, func() error {
		s.ctx.stats.copies.Add(1)
		s.ctx.stats.copyBytes.Add(b.Bytes())
		if src.Context() == b.Context() {
			return s.failed("cuMemcpyDtoDAsync", s.ctx.api.MemcpyDtoDAsync(b.ptr, src.ptr, b.Bytes(), s.handle))
		}
		return s.failed("cuMemcpyPeerAsync", s.ctx.api.MemcpyPeerAsync(
			b.ptr, b.Context().bind.Context, src.ptr, src.Context().bind.Context, b.Bytes(), s.handle))
	})
}

// Fill puts a memset of every element to value behind the work on s, and returns.
// T must be 1, 2 or 4 bytes long; other types can be zeroed with Zero.
func (b *Buffer[T]) Fill(s *Stream, value T) error {
	if err := b.fits("fill", s, b.n, nil); err != nil || b.n == 0 {
		return err
	}
	n := uint64(b.n)
	p := unsafe.Pointer(&value)
	return b.transfer(s, "a fill", nil, func() error {
		switch unsafe.Sizeof(value) {
		case 1:
			return s.failed("cuMemsetD8Async", s.ctx.api.MemsetD8Async(b.ptr, *(*uint8)(p), n, s.handle))
		case 2:
			return s.failed("cuMemsetD16Async", s.ctx.api.MemsetD16Async(b.ptr, *(*uint16)(p), n, s.handle))
		case 4:
			return s.failed("cuMemsetD32Async", s.ctx.api.MemsetD32Async(b.ptr, *(*uint32)(p), n, s.handle))
		}
		return driver.Errorf(driver.ErrInvalidArgument, "fill with elements of %d bytes: want 1, 2 or 4", unsafe.Sizeof(value))
	})
}

// Zero puts a memset of every byte to zero behind the work on s, and returns.
func (b *Buffer[T]) Zero(s *Stream) error {
	if err := b.fits("zero", s, b.n, nil); err != nil || b.n == 0 {
		return err
	}
	return b.transfer(s, "a fill", nil, func() error {
		return s.failed("cuMemsetD8Async", s.ctx.api.MemsetD8Async(b.ptr, 0, b.Bytes(), s.handle))
	})
}

// fits checks that both sides exist and are equally long, and that the stream is of
// the buffer's context.
func (b *Buffer[T]) fits(what string, s *Stream, n int, other *driver.Error) error {
	switch {
	case b.err != nil:
		return b.err
	case other != nil:
		return other
	case n != b.n:
		return driver.Errorf(driver.ErrInvalidArgument, "%s of %d elements, and the buffer has %d", what, n, b.n)
	case s.ctx != b.Context():
		return driver.Errorf(driver.ErrInvalidArgument, "%s on a stream of device %d, and the buffer is on device %d",
			what, s.ctx.device.Ordinal, b.Context().device.Ordinal)
	}
	return nil
}

// transfer runs f as a call on the stream that uses the buffer and, unless it is nil, other
// memory.
func (b *Buffer[T]) transfer(s *Stream, operation string, other *object, f func() error) error {
	if other != nil {
		if err := other.enter(); err != nil {
			return err
		}
		defer other.leave()
	}
	if err := b.memory.enter(); err != nil {
		return err
	}
	defer b.memory.leave()
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	if c := s.capture.Load(); c != nil {
		if err := c.recordTransfer(operation, b.memory, other); err != nil {
			return err
		}
	}
	return f()
}

// settle waits until the stream has passed a copy from or to memory that the
// caller gets back. It waits after an error too: part of the copy may be under way.
func (s *Stream) settle(op string, r driver.Result) error {
	done := s.ctx.api.StreamSynchronize(s.handle)
	if err := s.failed(op, r); err != nil {
		return err
	}
	return s.failed("cuStreamSynchronize", done)
}
