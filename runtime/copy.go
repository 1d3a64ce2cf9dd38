package runtime

import (
	"context"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Upload copies src to the device, after the work on s. Both must have the same length.
// When it returns, src is free to reuse, and work that is put on a stream later finds the
// elements; the device need not have them yet.
//
// Go memory moves through page-locked buffers, several goroutines at a time, at nearly the
// rate of page-locked memory. When ctx ends first Upload stops and returns ctx's cause; what
// dst holds is undefined then, as after every error.
func Upload[T any](ctx context.Context, s *Stream, dst *Ref[T], src []T) error {
	if err := usable(ctx, s, "Upload"); err != nil {
		return err
	}
	if err := fits("upload", len(src), dst); err != nil {
		return err
	}
	return s.traceCopy(ctx, "upload", "an upload", dst.Bytes(), InOut(dst), Arg{}, func(to, _ driver.DevicePtr) error {
		if err := s.refuse("Upload", pageable); err != nil {
			return err
		}
		s.stats.uploads.Add(1)
		s.stats.uploadBytes.Add(dst.Bytes())
		return s.ctx.memory.Load().copier.Upload(ctx, s.handle, to, bytesOf(src))
	})
}

// Download copies from the device to dst, after the work on s. Both must have the same
// length. It waits until dst is filled. When ctx ends first it returns ctx's cause, and what
// dst holds is undefined, as after every error.
func Download[T any](ctx context.Context, s *Stream, dst []T, src *Ref[T]) error {
	if err := usable(ctx, s, "Download"); err != nil {
		return err
	}
	if err := fits("download", len(dst), src); err != nil {
		return err
	}
	began := s.checks.beginPart()
	err := s.traceCopy(ctx, "download", "a download", src.Bytes(), In(src), Arg{}, func(from, _ driver.DevicePtr) error {
		if err := s.refuse("Download", pageable); err != nil {
			return err
		}
		s.stats.downloads.Add(1)
		s.stats.downloadBytes.Add(src.Bytes())
		began = s.checks.begin() // a copy of nothing does not wait
		return s.ctx.memory.Load().copier.Download(ctx, s.handle, bytesOf(dst), from)
	})
	return s.copied(ctx, began, err)
}

// UploadHost puts a copy from page-locked memory to the device after the work on s, and
// returns. Both must have the same length. src must not be changed or closed before the
// stream has passed the copy.
func UploadHost[T any](s *Stream, dst *Ref[T], src *HostBuffer[T]) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if err := src.made(); err != nil {
		return err
	}
	if err := fits("upload", src.n, dst); err != nil {
		return err
	}
	return s.traceCopy(s.traceContext(), "upload", "an upload", dst.Bytes(), InOut(dst), src.Arg(), func(to, _ driver.DevicePtr) error {
		s.stats.uploads.Add(1)
		s.stats.uploadBytes.Add(dst.Bytes())
		return s.failed("cuMemcpyHtoDAsync", s.ctx.bind.MemcpyHtoDAsync(to, src.ptr, dst.Bytes(), s.handle))
	})
}

// DownloadHost puts a copy from the device to page-locked memory after the work on s, and
// returns. Both must have the same length. dst must not be read or closed before the
// stream has passed the copy.
func DownloadHost[T any](s *Stream, dst *HostBuffer[T], src *Ref[T]) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if err := dst.made(); err != nil {
		return err
	}
	if err := fits("download", dst.n, src); err != nil {
		return err
	}
	return s.traceCopy(s.traceContext(), "download", "a download", src.Bytes(), In(src), dst.Arg(), func(from, _ driver.DevicePtr) error {
		s.stats.downloads.Add(1)
		s.stats.downloadBytes.Add(src.Bytes())
		return s.failed("cuMemcpyDtoHAsync", s.ctx.bind.MemcpyDtoHAsync(dst.ptr, from, src.Bytes(), s.handle))
	})
}

// Copy enqueues a copy from src to dst on s, and returns. Both must have the same length, and must not
// overlap. s is a stream of the device of dst, and src may be on another device. Then the copy uses
// the direct link between the devices if there is one, and otherwise goes through the host.
func Copy[T any](s *Stream, dst, src *Ref[T]) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if src.Len() != dst.Len() {
		if _, err := src.Access(); err != nil {
			return err
		}
	}
	if err := fits("copy", src.Len(), dst); err != nil {
		return err
	}
	return s.traceCopy(s.traceContext(), "device", "a copy", dst.Bytes(), InOut(dst), In(src), func(to, from driver.DevicePtr) error {
		owner, err := s.ctx.owner(src.Core().State())
		if err != nil {
			return err
		}
		owner.usedBy(s.ctx)
		s.stats.copies.Add(1)
		s.stats.copyBytes.Add(dst.Bytes())
		here, there := s.ctx.memory.Load().arena, owner.memory.Load().arena
		return here.CopyFrom(&s.ctx.rt.peers, s.handle, to, there, from, dst.Bytes())
	})
}

// Fill puts the work of setting every element to value after the work on s, and returns. T must be
// 1, 2, 4, 8 or 16 bytes long; others can be zeroed with [Zero]. Up to 4 bytes it is one memset. The driver has none for more: then the first element
// is copied to the others, in copies that double, which takes about one call for each bit of the length.
func Fill[T any](s *Stream, dst *Ref[T], value T) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	n, p := uint64(dst.Len()), unsafe.Pointer(&value)
	return s.transfer("a fill", InOut(dst), Arg{}, func(to, _ driver.DevicePtr) error {
		switch unsafe.Sizeof(value) {
		case 1:
			return s.failed("cuMemsetD8Async", s.ctx.bind.MemsetD8Async(to, *(*uint8)(p), n, s.handle))
		case 2:
			return s.failed("cuMemsetD16Async", s.ctx.bind.MemsetD16Async(to, *(*uint16)(p), n, s.handle))
		case 4:
			return s.failed("cuMemsetD32Async", s.ctx.bind.MemsetD32Async(to, *(*uint32)(p), n, s.handle))
		case 8, 16:
			return s.fillWords(to, unsafe.Slice((*uint32)(p), unsafe.Sizeof(value)/4), dst.Bytes())
		}
		return driver.Errorf(driver.ErrInvalidArgument, "fill with elements of %d bytes: want 1, 2, 4, 8 or 16", unsafe.Sizeof(value))
	})
}

// fillWords fills memory of some bytes with the words of an element.
func (s *Stream) fillWords(to driver.DevicePtr, words []uint32, bytes uint64) error {
	if bytes == 0 {
		return nil
	}
	for i, word := range words {
		at := to + driver.DevicePtr(4*i)
		if r := s.ctx.bind.MemsetD32Async(at, word, 1, s.handle); r != driver.Success {
			return s.failed("cuMemsetD32Async", r)
		}
	}
	for done := uint64(4 * len(words)); done < bytes; done *= 2 {
		r := s.ctx.bind.MemcpyDtoDAsync(to+driver.DevicePtr(done), to, min(done, bytes-done), s.handle)
		if r != driver.Success {
			return s.failed("cuMemcpyDtoDAsync", r)
		}
	}
	return nil
}

// Zero puts a memset of every byte to zero after the work on s, and returns.
func Zero[T any](s *Stream, dst *Ref[T]) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	return s.transfer("a fill", InOut(dst), Arg{}, func(to, _ driver.DevicePtr) error {
		return s.failed("cuMemsetD8Async", s.ctx.bind.MemsetD8Async(to, 0, dst.Bytes(), s.handle))
	})
}

// fits is why a copy of n elements does not go with memory, or nil.
func fits[T any](what string, n int, memory *Ref[T]) error {
	if n == memory.Len() {
		return nil
	}
	if _, err := memory.Access(); err != nil { // says more, of a view out of bounds
		return err
	}
	return sameLength(what, n, memory.Len())
}

func sameLength(what string, got, want int) error {
	if got != want {
		return driver.Errorf(driver.ErrInvalidArgument, "%s of %d elements, and the memory has %d", what, got, want)
	}
	return nil
}

// bytesOf is the memory of a slice.
func bytesOf[T any](data []T) []byte {
	var zero T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data))*unsafe.Sizeof(zero))
}
