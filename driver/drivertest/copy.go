package drivertest

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// side is one end of a copy: an address of the unified space, or host memory that
// the caller named by a pointer.
type side struct {
	addr driver.DevicePtr
	host unsafe.Pointer
	// locked is the page-locked memory that host points into, or nil.
	locked *hostMemory
	isHost bool
}

func (c call) deviceSide(addr driver.DevicePtr) side { return side{addr: addr} }

func (c call) hostSide(ptr unsafe.Pointer) side {
	c.d.memory.mu.RLock()
	defer c.d.memory.mu.RUnlock()
	return side{host: ptr, isHost: true, locked: c.d.memory.hostAt(uint64(uintptr(ptr)))}
}

// pageable tells that the memory is ordinary memory of the program.
func (s side) pageable() bool { return s.isHost && s.locked == nil }

// bytes returns n bytes from the side on.
func (s side) bytes(m *space, n uint64, v view) ([]byte, *fault) {
	if !s.isHost {
		return m.bytes(s.addr, n, v)
	}
	if s.locked != nil {
		return m.bytes(driver.DevicePtr(uintptr(s.host)), n, v)
	}
	if s.host == nil {
		return nil, &fault{result: driver.ErrorIllegalAddress, bytes: n, detail: "the host pointer is nil"}
	}
	if n > maxHostBytes {
		return nil, &fault{result: driver.ErrorIllegalAddress, bytes: n, detail: "more bytes than a host can have"}
	}
	if v.early {
		return nil, nil
	}
	return unsafe.Slice((*byte)(s.host), n), nil
}

// shape is what a copy moves: rows of bytes at a distance on each side.
type shape struct {
	bytes, rows        uint64
	srcPitch, dstPitch uint64
}

func line(bytes uint64) shape { return shape{bytes: bytes, rows: 1} }

// span is the distance from the first byte to the end of the last row.
func (sh shape) span(pitch uint64) uint64 { return (sh.rows-1)*pitch + sh.bytes }

// copy puts a copy on a stream. Pageable memory is handled as the real driver does
// it: as a source it is read before the call returns, and as a target it is
// written by then.
func (c call) copy(s *stream, dst, src side, sh shape) driver.Result {
	if sh.bytes == 0 || sh.rows == 0 {
		return driver.Success
	}
	if r := c.checkSides(dst, src, sh); r != driver.Success {
		return r
	}
	capturing := s.capture != nil
	if src.pageable() && !capturing {
		src, sh = stage(src, sh)
	}
	r := c.submit(s, work{kind: nodeMemcpy, run: func() error { return c.move(dst, src, sh) }})
	if r == driver.Success && dst.pageable() && !capturing {
		return c.wait(s.last)
	}
	return r
}

// copyNow is a copy on the legacy default stream that has happened when it returns.
func (c call) copyNow(dst, src side, sh shape) driver.Result {
	s := c.ctx.null
	if r := c.copy(s, dst, src, sh); r != driver.Success || sh.bytes == 0 || sh.rows == 0 {
		return r
	}
	return c.wait(s.last)
}

// checkSides refuses addresses that are not there when the call is made.
func (c call) checkSides(dst, src side, sh shape) driver.Result {
	for _, end := range []struct {
		side
		pitch uint64
	}{{dst, sh.dstPitch}, {src, sh.srcPitch}} {
		if _, f := end.bytes(&c.d.memory, sh.span(end.pitch), view{early: true}); f != nil {
			return c.misuse(f)
		}
		if r := c.checkCurrent(end.side); r != driver.Success {
			return r
		}
	}
	return driver.Success
}

// checkCurrent refuses memory of a pool if the context that is current on the thread cannot reach
// it, whatever the stream of the call, as driver 580 does. Without a current context it is that
// of the stream. Copies between peers name the contexts themselves.
func (c call) checkCurrent(end side) driver.Result {
	if c.ctx == nil || end.isHost || c.op == "cuMemcpyPeerAsync" || c.op == "cuMemcpyPeer" {
		return driver.Success
	}
	c.d.memory.mu.RLock()
	defer c.d.memory.mu.RUnlock()
	switch a := c.d.memory.at(end.addr); {
	case a == nil || a.pool == nil:
		return driver.Success
	case c.ctx.dead:
		return driver.ErrorContextIsDestroyed
	case !c.ctx.reaches(a):
		return driver.ErrorInvalidValue
	}
	return driver.Success
}

// stage copies pageable memory away.
func stage(src side, sh shape) (side, shape) {
	staged := make([]byte, sh.bytes*sh.rows)
	for row := range sh.rows {
		from := unsafe.Slice((*byte)(unsafe.Add(src.host, row*sh.srcPitch)), sh.bytes)
		copy(staged[row*sh.bytes:], from)
	}
	sh.srcPitch = sh.bytes
	return side{host: unsafe.Pointer(unsafe.SliceData(staged)), isHost: true}, sh
}

// move does a copy.
func (c call) move(dst, src side, sh shape) error {
	to, f := dst.bytes(&c.d.memory, sh.span(sh.dstPitch), view{})
	if f != nil {
		return f
	}
	from, f := src.bytes(&c.d.memory, sh.span(sh.srcPitch), view{})
	if f != nil {
		return f
	}
	for row := range sh.rows {
		copy(to[row*sh.dstPitch:][:sh.bytes], from[row*sh.srcPitch:][:sh.bytes])
	}
	return nil
}

// MemcpyHtoD implements [driver.API].
func (d *Driver) MemcpyHtoD(dst driver.DevicePtr, src unsafe.Pointer, bytes uint64) driver.Result {
	c, r := d.enter("cuMemcpyHtoD")
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return c.copyNow(c.deviceSide(dst), c.hostSide(src), line(bytes))
}

// MemcpyDtoH implements [driver.API].
func (d *Driver) MemcpyDtoH(dst unsafe.Pointer, src driver.DevicePtr, bytes uint64) driver.Result {
	c, r := d.enter("cuMemcpyDtoH")
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return c.copyNow(c.hostSide(dst), c.deviceSide(src), line(bytes))
}

// MemcpyDtoD implements [driver.API].
func (d *Driver) MemcpyDtoD(dst, src driver.DevicePtr, bytes uint64) driver.Result {
	c, r := d.enter("cuMemcpyDtoD")
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return c.copyNow(c.deviceSide(dst), c.deviceSide(src), line(bytes))
}

// Memcpy implements [driver.API]. Of host memory it takes only what is
// page-locked: a number does not keep ordinary Go memory alive.
func (d *Driver) Memcpy(dst, src driver.DevicePtr, bytes uint64) driver.Result {
	c, r := d.enter("cuMemcpy")
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return c.copyNow(c.deviceSide(dst), c.deviceSide(src), line(bytes))
}

// MemcpyPeer implements [driver.API].
func (d *Driver) MemcpyPeer(dst driver.DevicePtr, dstContext driver.Context, src driver.DevicePtr, srcContext driver.Context, bytes uint64) driver.Result {
	c, r := d.enter("cuMemcpyPeer")
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	if r := c.checkPeers(dst, dstContext, src, srcContext); r != driver.Success {
		return r
	}
	return c.copyNow(c.deviceSide(dst), c.deviceSide(src), line(bytes))
}

// checkPeers checks that both sides of a peer copy lie where the caller says.
func (c call) checkPeers(dst driver.DevicePtr, dstContext driver.Context, src driver.DevicePtr, srcContext driver.Context) driver.Result {
	for _, end := range []struct {
		ptr driver.DevicePtr
		ctx driver.Context
	}{{dst, dstContext}, {src, srcContext}} {
		ctx, r := c.context(end.ctx)
		if r == driver.Success {
			r = ctx.present()
		}
		if r != driver.Success {
			return r
		}
		c.d.memory.mu.RLock()
		a := c.d.memory.at(end.ptr)
		c.d.memory.mu.RUnlock()
		if a != nil && a.dev != ctx.dev {
			c.found(driver.ErrorInvalidValue, "%#x lies on device %d, and the context is that of device %d",
				uint64(end.ptr), a.dev.ordinal, ctx.dev.ordinal)
			return driver.ErrorInvalidValue
		}
	}
	return driver.Success
}

// Memcpy2D implements [driver.API].
func (d *Driver) Memcpy2D(rect driver.MemcpyRect) driver.Result {
	c, r := d.enter("cuMemcpy2D")
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	dst, src, sh, r := c.rectangle(rect)
	if r != driver.Success {
		return r
	}
	return c.copyNow(dst, src, sh)
}

// maxPitch is the longest row of a 2D copy.
const maxPitch = 1<<31 - 1

// rectangle reads the description of a 2D copy. A pitch of 0 counts as a row
// without a gap.
func (c call) rectangle(rect driver.MemcpyRect) (dst, src side, sh shape, r driver.Result) {
	sh = shape{bytes: rect.Bytes, rows: rect.Height, srcPitch: rect.SrcPitch, dstPitch: rect.DstPitch}
	if sh.bytes == 0 || sh.rows == 0 {
		return dst, src, sh, driver.Success
	}
	for _, end := range []struct {
		pitch  *uint64
		x, y   uint64
		kind   driver.MemoryType
		host   unsafe.Pointer
		device driver.DevicePtr
		to     *side
	}{
		{&sh.dstPitch, rect.DstX, rect.DstY, rect.DstType, rect.DstHost, rect.DstDevice, &dst},
		{&sh.srcPitch, rect.SrcX, rect.SrcY, rect.SrcType, rect.SrcHost, rect.SrcDevice, &src},
	} {
		if *end.pitch == 0 {
			*end.pitch = end.x + rect.Bytes
		}
		// The first limit keeps the products from overflowing.
		switch {
		case max(*end.pitch, end.x, rect.Bytes) > maxPitch || max(end.y, rect.Height) > maxPitch:
			return dst, src, sh, driver.ErrorInvalidValue
		case end.x+rect.Bytes > *end.pitch || (end.y+rect.Height)**end.pitch > maxHostBytes:
			return dst, src, sh, driver.ErrorInvalidValue
		}
		skip := end.y**end.pitch + end.x
		switch end.kind {
		case driver.MemoryHost:
			if end.host == nil {
				return dst, src, sh, driver.ErrorInvalidValue
			}
			*end.to = c.hostSide(unsafe.Add(end.host, skip))
		case driver.MemoryDevice, driver.MemoryUnified:
			*end.to = c.deviceSide(end.device + driver.DevicePtr(skip))
		default:
			return dst, src, sh, driver.ErrorInvalidValue
		}
	}
	return dst, src, sh, driver.Success
}

// MemcpyHtoDAsync implements [driver.API].
func (d *Driver) MemcpyHtoDAsync(dst driver.DevicePtr, src unsafe.Pointer, bytes uint64, stream driver.Stream) driver.Result {
	c, s, r := d.enterStream("cuMemcpyHtoDAsync", stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return c.copy(s, c.deviceSide(dst), c.hostSide(src), line(bytes))
}

// MemcpyDtoHAsync implements [driver.API].
func (d *Driver) MemcpyDtoHAsync(dst unsafe.Pointer, src driver.DevicePtr, bytes uint64, stream driver.Stream) driver.Result {
	c, s, r := d.enterStream("cuMemcpyDtoHAsync", stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return c.copy(s, c.hostSide(dst), c.deviceSide(src), line(bytes))
}

// MemcpyDtoDAsync implements [driver.API].
func (d *Driver) MemcpyDtoDAsync(dst, src driver.DevicePtr, bytes uint64, stream driver.Stream) driver.Result {
	c, s, r := d.enterStream("cuMemcpyDtoDAsync", stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return c.copy(s, c.deviceSide(dst), c.deviceSide(src), line(bytes))
}

// MemcpyAsync implements [driver.API]. Of host memory it takes only what is
// page-locked.
func (d *Driver) MemcpyAsync(dst, src driver.DevicePtr, bytes uint64, stream driver.Stream) driver.Result {
	c, s, r := d.enterStream("cuMemcpyAsync", stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	return c.copy(s, c.deviceSide(dst), c.deviceSide(src), line(bytes))
}

// MemcpyPeerAsync implements [driver.API].
func (d *Driver) MemcpyPeerAsync(dst driver.DevicePtr, dstContext driver.Context, src driver.DevicePtr, srcContext driver.Context, bytes uint64, stream driver.Stream) driver.Result {
	c, s, r := d.enterStream("cuMemcpyPeerAsync", stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	if r := c.checkPeers(dst, dstContext, src, srcContext); r != driver.Success {
		return r
	}
	if s.capture != nil { // measured with driver 580
		s.capture.invalid = true
		return driver.ErrorStreamCaptureUnsupported
	}
	return c.copy(s, c.deviceSide(dst), c.deviceSide(src), line(bytes))
}

// Memcpy2DAsync implements [driver.API].
func (d *Driver) Memcpy2DAsync(rect driver.MemcpyRect, stream driver.Stream) driver.Result {
	c, s, r := d.enterStream("cuMemcpy2DAsync", stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	dst, src, sh, r := c.rectangle(rect)
	if r != driver.Success {
		return r
	}
	return c.copy(s, dst, src, sh)
}
