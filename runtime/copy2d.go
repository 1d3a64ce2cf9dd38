package runtime

import (
	"context"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Upload2D copies a rectangle to the device after the work on s: height rows of width elements. They
// begin dstPitch elements apart in dst and srcPitch elements apart in src, and the first one with
// the first element; Slice moves it. What lies between the rows is neither read nor written. The
// pitch of a single row does not matter.
//
// All else is as with [Upload]. A pitch below the width, or rows that do not fit in dst or src,
// are errors of kind driver.ErrInvalidArgument.
func Upload2D[T any](ctx context.Context, s *Stream, dst *Ref[T], dstPitch int, src []T, srcPitch, width, height int) error {
	return uploadBox(ctx, s, "Upload2D", dst, Pitches{Row: dstPitch}, src, Pitches{Row: srcPitch}, Box{width, height, 1})
}

// Download2D copies a rectangle from the device, as [Upload2D] does to it. It waits until the
// rows of dst are filled. All else is as with [Download].
func Download2D[T any](ctx context.Context, s *Stream, dst []T, dstPitch int, src *Ref[T], srcPitch, width, height int) error {
	return downloadBox(ctx, s, "Download2D", dst, Pitches{Row: dstPitch}, src, Pitches{Row: srcPitch}, Box{width, height, 1})
}

// Copy2D enqueues a copy of a rectangle within the device on s, and returns. Rows, pitches and
// errors are those of [Upload2D]. The rectangles must not overlap. Both Refs are memory of the
// stream's device: between devices, use [Copy] for each row.
func Copy2D[T any](s *Stream, dst *Ref[T], dstPitch int, src *Ref[T], srcPitch, width, height int) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if err := boxFits("copy", Box{width, height, 1}, dst, Pitches{Row: dstPitch}, src.Len(), Pitches{Row: srcPitch}, "source"); err != nil {
		if _, stale := src.Access(); stale != nil { // says more, of a view out of bounds
			return stale
		}
		return err
	}
	return s.traceCopy(s.traceContext(), "device", "a copy", bytesIn[T](width*height), InOut(dst), In(src), func(to, from driver.DevicePtr) error {
		if owner, err := s.ctx.owner(src.Core().State()); err != nil {
			return err
		} else if owner != s.ctx {
			return driver.Errorf(driver.ErrInvalidArgument, "Copy2D from device %d to device %d: copy each row with Copy",
				owner.device.Ordinal, s.ctx.device.Ordinal)
		}
		s.stats.copies.Add(1)
		s.stats.copyBytes.Add(bytesIn[T](width * height))
		return s.ctx.memory.Load().copier.Copy2D(s.handle, to, bytesIn[T](dstPitch), from, bytesIn[T](srcPitch),
			bytesIn[T](width), uint64(height))
	})
}

// rectangle is what is copied: rows of width elements.
type rectangle struct {
	what          string // "upload"
	width, height int
}

// fits is why the rows do not fit in so many elements, or nil.
func (r rectangle) fits(length, pitch int, where string) *driver.Error {
	if r.width == 0 || r.height == 0 {
		return nil
	}
	if r.height > 1 && pitch < r.width {
		return driver.Errorf(driver.ErrInvalidArgument, "%s of rows of %d elements that begin %d elements apart in the %s: want %d or more",
			r.what, r.width, pitch, where, r.width)
	}
	if left := length - r.width; left < 0 || r.height > 1 && pitch > left/(r.height-1) {
		return driver.Errorf(driver.ErrInvalidArgument, "%s of %d rows of %d elements that begin %d elements apart, and the %s has %d elements",
			r.what, r.height, r.width, pitch, where, length)
	}
	return nil
}

// bytesIn is the size of n elements.
func bytesIn[T any](n int) uint64 {
	var zero T
	return uint64(n) * uint64(unsafe.Sizeof(zero))
}
