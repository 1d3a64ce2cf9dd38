package runtime

import (
	"context"
	"unsafe"
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
	return copyBox(s, "Copy2D", dst, Pitches{Row: dstPitch}, src, Pitches{Row: srcPitch}, Box{width, height, 1})
}

// bytesIn is the size of n elements.
func bytesIn[T any](n int) uint64 {
	var zero T
	return uint64(n) * uint64(unsafe.Sizeof(zero))
}
