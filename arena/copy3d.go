package arena

import "github.com/purecuda/purecuda/driver"

// Copy3D is [Copier.Copy2D] of several planes, which begin srcPlane bytes apart at src and dstPlane at dst. Where
// that is no multiple of the pitch on both sides, the planes are copied one by one.
func (c *Copier) Copy3D(s driver.Stream, dst driver.DevicePtr, dstPitch, dstPlane uint64, src driver.DevicePtr, srcPitch, srcPlane uint64,
	width, height, depth uint64) error {
	if err := c.made(); err != nil || width == 0 || height == 0 || depth == 0 {
		return err
	}
	if min(dstPitch, srcPitch) < width || max(dstPitch, srcPitch) > maxPitch || dstPlane%dstPitch != 0 || srcPlane%srcPitch != 0 || depth == 1 {
		for z := range driver.DevicePtr(depth) {
			err := c.Copy2D(s, dst+z*driver.DevicePtr(dstPlane), dstPitch, src+z*driver.DevicePtr(srcPlane), srcPitch, width, height)
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.calls.Leave()
	if err := c.binding.Push(); err != nil {
		return err
	}
	defer c.binding.Pop()
	return c.binding.Failed("cuMemcpy3DAsync", c.binding.Memcpy3DAsync(driver.MemcpyBox{
		SrcType: driver.MemoryDevice, SrcDevice: src, SrcPitch: srcPitch, SrcHeight: srcPlane / srcPitch,
		DstType: driver.MemoryDevice, DstDevice: dst, DstPitch: dstPitch, DstHeight: dstPlane / dstPitch,
		Bytes: width, Height: height, Depth: depth,
	}, s))
}
