package runtime

import (
	"context"
	"math/bits"

	"github.com/purecuda/purecuda/driver"
)

// Box is what a copy in three dimensions moves: Depth planes of Height rows of Width elements.
type Box struct{ Width, Height, Depth int }

// Pitches are how many elements apart the rows of a [Box] begin in memory, and how many its planes. Those of
// a single row or plane do not matter.
type Pitches struct{ Row, Plane int }

// Upload3D copies a box to the device after the work on s. Its rows and planes begin as apart as to says in
// dst and from in src, and the first one with the first element; Slice moves it. What lies between is
// neither read nor written.
//
// All else is as with [Upload]. Rows or planes that overlap or do not fit in dst or src are errors of kind
// driver.ErrInvalidArgument.
func Upload3D[T any](ctx context.Context, s *Stream, dst *Ref[T], to Pitches, src []T, from Pitches, box Box) error {
	return uploadBox(ctx, s, "Upload3D", dst, to, src, from, box)
}

// uploadBox is Upload3D and Upload2D.
func uploadBox[T any](ctx context.Context, s *Stream, name string, dst *Ref[T], to Pitches, src []T, from Pitches, box Box) error {
	if err := usable(ctx, s, name); err != nil {
		return err
	}
	if err := boxFits("upload", box, dst, to, len(src), from, "source"); err != nil {
		return err
	}
	return s.traceCopy(ctx, "upload", "an upload", bytesIn[T](box.elements()), InOut(dst), Arg{}, func(device, _ driver.DevicePtr) error {
		if err := s.refuse(name, pageable); err != nil {
			return err
		}
		s.stats.uploads.Add(1)
		s.stats.uploadBytes.Add(bytesIn[T](box.elements()))
		planes, rows, dstPitch, srcPitch := box.flat(to, from)
		for z := range planes {
			err := s.ctx.memory.Load().copier.Upload2D(ctx, s.handle, device+driver.DevicePtr(bytesIn[T](z*to.Plane)), bytesIn[T](dstPitch),
				bytesOf(src[z*from.Plane:]), bytesIn[T](srcPitch), bytesIn[T](box.Width), uint64(rows))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Download3D copies a box from the device, as [Upload3D] does to it. It waits until the rows of dst are
// filled. All else is as with [Download].
func Download3D[T any](ctx context.Context, s *Stream, dst []T, to Pitches, src *Ref[T], from Pitches, box Box) error {
	return downloadBox(ctx, s, "Download3D", dst, to, src, from, box)
}

// downloadBox is Download3D and Download2D.
func downloadBox[T any](ctx context.Context, s *Stream, name string, dst []T, to Pitches, src *Ref[T], from Pitches, box Box) error {
	if err := usable(ctx, s, name); err != nil {
		return err
	}
	if err := boxFits("download", box, src, from, len(dst), to, "destination"); err != nil {
		return err
	}
	began := s.checks.beginPart()
	err := s.traceCopy(ctx, "download", "a download", bytesIn[T](box.elements()), In(src), Arg{}, func(device, _ driver.DevicePtr) error {
		if err := s.refuse(name, pageable); err != nil {
			return err
		}
		s.stats.downloads.Add(1)
		s.stats.downloadBytes.Add(bytesIn[T](box.elements()))
		planes, rows, dstPitch, srcPitch := box.flat(to, from)
		for z := range planes {
			err := s.ctx.memory.Load().copier.Download2D(ctx, s.handle, bytesOf(dst[z*to.Plane:]), bytesIn[T](dstPitch),
				device+driver.DevicePtr(bytesIn[T](z*from.Plane)), bytesIn[T](srcPitch), bytesIn[T](box.Width), uint64(rows))
			if err != nil {
				return err
			}
		}
		return nil
	})
	return s.copied(ctx, began, err)
}

// Copy3D enqueues a copy of a box within the device on s, and returns. Rows, planes and errors are as in
// [Upload3D]. The boxes must not overlap. Both Refs are memory of the stream's device. Where the planes begin
// a whole number of rows apart, it is one call of the driver.
func Copy3D[T any](s *Stream, dst *Ref[T], to Pitches, src *Ref[T], from Pitches, box Box) error {
	return copyBox(s, "Copy3D", dst, to, src, from, box)
}

// copyBox is Copy3D and Copy2D.
func copyBox[T any](s *Stream, name string, dst *Ref[T], to Pitches, src *Ref[T], from Pitches, box Box) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if err := boxFits("copy", box, dst, to, src.Len(), from, "source"); err != nil {
		if _, stale := src.Access(); stale != nil { // says more, of a view out of bounds
			return stale
		}
		return err
	}
	return s.traceCopy(s.traceContext(), "device", "a copy", bytesIn[T](box.elements()), InOut(dst), In(src), func(dst, device driver.DevicePtr) error {
		if owner, err := s.ctx.owner(src.Core().State()); err != nil {
			return err
		} else if owner != s.ctx {
			return driver.Errorf(driver.ErrInvalidArgument, "%s from device %d to device %d: copy each row with Copy",
				name, owner.device.Ordinal, s.ctx.device.Ordinal)
		}
		s.stats.copies.Add(1)
		s.stats.copyBytes.Add(bytesIn[T](box.elements()))
		planes, rows, dstPitch, srcPitch := box.flat(to, from)
		return s.ctx.memory.Load().copier.Copy3D(s.handle, dst, bytesIn[T](dstPitch), bytesIn[T](to.Plane), device, bytesIn[T](srcPitch), bytesIn[T](from.Plane),
			bytesIn[T](box.Width), uint64(rows), uint64(planes))
	})
}

func (b Box) elements() int { return b.Width * b.Height * b.Depth }

// flat is how many planes the box has, where it must be copied in planes, and the rows of each. Else it is one
// plane.
func (b Box) flat(to, from Pitches) (planes, rows, toPitch, fromPitch int) {
	switch {
	case b.elements() == 0:
		return 0, 0, 0, 0
	case b.Height == 1 && b.Depth > 1:
		return 1, b.Depth, to.Plane, from.Plane
	case b.Depth > 1 && (to.Plane != to.Row*b.Height || from.Plane != from.Row*b.Height):
		return b.Depth, b.Height, to.Row, from.Row
	}
	return 1, b.Height * b.Depth, to.Row, from.Row
}

// boxFits is why a box does not fit in memory of the device or in the other memory, or nil.
func boxFits[T any](what string, box Box, memory *Ref[T], at Pitches, length int, otherAt Pitches, other string) error {
	switch {
	case box.Depth == 1 && (box.Width < 0 || box.Height < 0):
		return driver.Errorf(driver.ErrInvalidArgument, "%s of %d rows of %d elements: want 0 or more of both", what, box.Height, box.Width)
	case box.Width < 0 || box.Height < 0 || box.Depth < 0:
		return driver.Errorf(driver.ErrInvalidArgument, "%s of %d planes of %d rows of %d elements: want 0 or more of each",
			what, box.Depth, box.Height, box.Width)
	}
	if err := box.fits(what, memory.Len(), at, "memory"); err != nil {
		if _, stale := memory.Access(); stale != nil {
			return stale
		}
		return err
	}
	if err := box.fits(what, length, otherAt, other); err != nil {
		return err
	}
	return nil
}

// fits is why the rows and planes do not fit in so many elements, or nil.
func (b Box) fits(what string, length int, at Pitches, where string) *driver.Error {
	if b.Width == 0 || b.Height == 0 || b.Depth == 0 {
		return nil
	}
	if b.Height > 1 && at.Row < b.Width {
		return driver.Errorf(driver.ErrInvalidArgument, "%s of rows of %d elements that begin %d elements apart in the %s: want %d or more",
			what, b.Width, at.Row, where, b.Width)
	}
	if left := length - b.Width; left < 0 || b.Height > 1 && at.Row > left/(b.Height-1) {
		return driver.Errorf(driver.ErrInvalidArgument, "%s of %d rows of %d elements that begin %d elements apart, and the %s has %d elements",
			what, b.Height, b.Width, at.Row, where, length)
	}
	plane := b.Width // from its first element to its last
	if b.Height > 1 {
		plane += (b.Height - 1) * at.Row // which fits, as was just seen
	}
	if b.Depth == 1 {
		return nil
	}
	if at.Plane < plane {
		return driver.Errorf(driver.ErrInvalidArgument, "%s of planes of %d elements that begin %d elements apart in the %s: want %d or more",
			what, plane, at.Plane, where, plane)
	}
	if high, low := bits.Mul64(uint64(b.Depth-1), uint64(at.Plane)); high > 0 || low > uint64(length-plane) {
		return driver.Errorf(driver.ErrInvalidArgument, "%s of %d planes of %d elements that begin %d elements apart, and the %s has %d elements",
			what, b.Depth, plane, at.Plane, where, length)
	}
	return nil
}
