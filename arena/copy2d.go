package arena

import (
	"context"
	"math/bits"

	"github.com/purecuda/purecuda/driver"
)

// maxPitch is the largest distance of rows that the driver's copies of rectangles take. Rows
// farther apart are copied one by one.
const maxPitch = 1<<31 - 1

// Upload2D copies a rectangle to the device: height rows of width bytes, which begin
// srcPitch bytes apart in src and dstPitch bytes apart at dst. What lies between the rows is
// neither read nor written. All else is as with [Copier.Upload].
//
// ErrInvalidArgument says that a pitch is smaller than the width or src too short.
func (c *Copier) Upload2D(ctx context.Context, s driver.Stream, dst driver.DevicePtr, dstPitch uint64, src []byte, srcPitch, width, height uint64) error {
	shape := transferShape{up: true, stream: s, device: dst, width: width, height: height, devicePitch: dstPitch, hostPitch: srcPitch}
	return c.copy2D(ctx, shape, src)
}

// Download2D copies a rectangle from the device, as [Copier.Upload2D] does to it. It blocks until
// the rows of dst are filled.
func (c *Copier) Download2D(ctx context.Context, s driver.Stream, dst []byte, dstPitch uint64, src driver.DevicePtr, srcPitch, width, height uint64) error {
	shape := transferShape{stream: s, device: src, width: width, height: height, devicePitch: srcPitch, hostPitch: dstPitch}
	return c.copy2D(ctx, shape, dst)
}

func (c *Copier) copy2D(ctx context.Context, shape transferShape, host []byte) error {
	if err := c.made(); err != nil || shape.width == 0 || shape.height == 0 {
		return err
	}
	if err := c.checkShape(&shape, uint64(len(host))); err != nil {
		return err
	}
	if shape.height == 1 || shape.width == shape.devicePitch && shape.width == shape.hostPitch {
		shape.width, shape.height, shape.devicePitch, shape.hostPitch = shape.width*shape.height, 1, 0, 0
	}
	return c.copy(ctx, shape, host)
}

// checkShape checks that the rows do not overlap and lie in the memory of the host.
func (c *Copier) checkShape(s *transferShape, length uint64) error {
	if s.height > 1 && (s.devicePitch < s.width || s.hostPitch < s.width) {
		return bindingError(c.binding, driver.ErrInvalidArgument,
			"copy of rows of %d bytes that begin %d bytes apart on the host and %d on the device", s.width, s.hostPitch, s.devicePitch)
	}
	host, fitsHost := spanOf(s, s.hostPitch)
	_, fitsDevice := spanOf(s, s.devicePitch)
	if !fitsHost || !fitsDevice || host > length {
		return bindingError(c.binding, driver.ErrInvalidArgument,
			"copy of %d rows of %d bytes that begin %d bytes apart, and the slice has %d bytes", s.height, s.width, s.hostPitch, length)
	}
	return nil
}

// spanOf is the distance from the first byte to the end of the last row, where 64 bits can hold
// it.
func spanOf(s *transferShape, pitch uint64) (bytes uint64, ok bool) {
	high, low := bits.Mul64(s.height-1, pitch)
	bytes = low + s.width
	return bytes, high == 0 && bytes >= low
}

// Copy2D puts a copy of a rectangle within the device on s, and returns: height rows of width
// bytes, which begin srcPitch bytes apart at src and dstPitch at dst. The rectangles
// must not overlap. It does not block, does not allocate and may be captured. Rows that begin
// more than 2 GiB apart are copied one by one.
func (c *Copier) Copy2D(s driver.Stream, dst driver.DevicePtr, dstPitch uint64, src driver.DevicePtr, srcPitch, width, height uint64) error {
	if err := c.made(); err != nil || width == 0 || height == 0 {
		return err
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.calls.Leave()
	if err := c.binding.Push(); err != nil {
		return err
	}
	defer c.binding.Pop()
	if width == dstPitch && width == srcPitch {
		width, height = width*height, 1
	}
	if height == 1 || max(dstPitch, srcPitch) > maxPitch {
		var r driver.Result
		for ; height > 0 && r == driver.Success; height-- {
			r = c.binding.MemcpyDtoDAsync(dst, src, width, s)
			dst, src = dst+driver.DevicePtr(dstPitch), src+driver.DevicePtr(srcPitch)
		}
		return c.binding.Failed("cuMemcpyDtoDAsync", r)
	}
	return c.binding.Failed("cuMemcpy2DAsync", c.binding.Memcpy2DAsync(driver.MemcpyRect{
		SrcType: driver.MemoryDevice, SrcDevice: src, SrcPitch: srcPitch,
		DstType: driver.MemoryDevice, DstDevice: dst, DstPitch: dstPitch,
		Bytes: width, Height: height,
	}, s))
}
