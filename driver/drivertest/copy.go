package drivertest

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// side is one end of a copy: an address of the unified space, a place in an array, or host memory
// that the caller named by a pointer.
type side struct {
	addr  driver.DevicePtr
	array *array // that addr is an offset in, or nil
	host  unsafe.Pointer
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

// each calls f for the pieces of n bytes from the side on.
func (s side) each(m *space, n uint64, v view, f func([]byte)) *fault {
	if !s.isHost && s.array == nil {
		return m.each(s.addr, n, v, f)
	}
	data, fault := s.bytes(m, n, v)
	if fault == nil {
		f(data)
	}
	return fault
}

// bytes returns n bytes from the side on.
func (s side) bytes(m *space, n uint64, v view) ([]byte, *fault) {
	if s.array != nil { // the description of the copy was checked against it
		return s.array.memory()[s.addr:][:n], nil
	}
	if !s.isHost {
		return m.bytes(s.addr, n, v)
	}
	if s.locked != nil {
		return m.bytes(driver.DevicePtr(uintptr(s.host)), n, v)
	}
	if s.host == nil {
		return nil, &fault{result: driver.ResultIllegalAddress, bytes: n, detail: "the host pointer is nil"}
	}
	if n > maxHostBytes {
		return nil, &fault{result: driver.ResultIllegalAddress, bytes: n, detail: "more bytes than a host can have"}
	}
	if v.early {
		return nil, nil
	}
	return unsafe.Slice((*byte)(s.host), n), nil
}

// at is the place some bytes further on.
func (s side) at(offset uint64) side {
	if s.isHost {
		s.host = unsafe.Add(s.host, offset)
	} else {
		s.addr += driver.DevicePtr(offset)
	}
	return s
}

// contiguous returns how many of n bytes lie in one piece.
func (s side) contiguous(m *space, n uint64) uint64 {
	if s.isHost || s.array != nil {
		return n
	}
	return m.contiguous(s.addr, n)
}

// shape is what a copy moves: slices of rows of bytes, at distances on each side.
type shape struct {
	bytes, rows, slices uint64
	src, dst            steps
}

// steps are the distances of rows and of slices.
type steps struct{ row, slice uint64 }

func line(bytes uint64) shape { return shape{bytes: bytes, rows: 1, slices: 1} }

func (sh shape) empty() bool { return sh.bytes == 0 || sh.rows == 0 || sh.slices == 0 }

// span is the distance from the first byte to the end of the last row.
func (sh shape) span(p steps) uint64 { return (sh.slices-1)*p.slice + (sh.rows-1)*p.row + sh.bytes }

// each calls f for every row with its offsets.
func (sh shape) each(f func(dst, src uint64)) {
	for z := range sh.slices {
		for y := range sh.rows {
			f(z*sh.dst.slice+y*sh.dst.row, z*sh.src.slice+y*sh.src.row)
		}
	}
}

// copy puts a copy on a stream. Pageable memory is handled as the real driver does
// it: as a source it is read before the call returns, and as a target it is
// written by then.
func (c call) copy(s *stream, dst, src side, sh shape) driver.Result {
	if sh.empty() {
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
	if r := c.copy(s, dst, src, sh); r != driver.Success || sh.empty() {
		return r
	}
	return c.wait(s.last)
}

// checkSides refuses addresses that are not there when the call is made.
func (c call) checkSides(dst, src side, sh shape) driver.Result {
	for _, end := range []struct {
		side
		steps
	}{{dst, sh.dst}, {src, sh.src}} {
		if f := end.side.each(&c.d.memory, sh.span(end.steps), view{early: true}, func([]byte) {}); f != nil {
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
	if c.ctx == nil || end.isHost || end.array != nil || c.op == "cuMemcpyPeerAsync" || c.op == "cuMemcpyPeer" {
		return driver.Success
	}
	c.d.memory.mu.RLock()
	defer c.d.memory.mu.RUnlock()
	switch a := c.d.memory.at(end.addr); {
	case a == nil || a.pool == nil:
		return driver.Success
	case c.ctx.dead:
		return driver.ResultContextIsDestroyed
	case !c.ctx.reaches(a):
		return driver.ResultInvalidValue
	}
	return driver.Success
}

// stage copies pageable memory away.
func stage(src side, sh shape) (side, shape) {
	staged := make([]byte, sh.bytes*sh.rows*sh.slices)
	packed := sh
	packed.src = steps{row: sh.bytes, slice: sh.bytes * sh.rows}
	packed.dst = packed.src
	into := packed
	into.src = sh.src
	into.each(func(to, from uint64) {
		copy(staged[to:], unsafe.Slice((*byte)(unsafe.Add(src.host, from)), sh.bytes))
	})
	packed.dst = sh.dst
	return side{host: unsafe.Pointer(unsafe.SliceData(staged)), isHost: true}, packed
}

// move does a copy.
func (c call) move(dst, src side, sh shape) error {
	m := &c.d.memory
	toSpan, fromSpan := sh.span(sh.dst), sh.span(sh.src)
	if dst.contiguous(m, toSpan) < toSpan || src.contiguous(m, fromSpan) < fromSpan {
		return c.moveParts(dst, src, sh)
	}
	to, f := dst.bytes(m, toSpan, view{})
	if f != nil {
		return f
	}
	from, f := src.bytes(m, fromSpan, view{})
	if f != nil {
		return f
	}
	sh.each(func(i, j uint64) { move(to[i:][:sh.bytes], from[j:][:sh.bytes]) })
	return nil
}

// moveParts does a copy where mappings of memory lie side by side.
func (c call) moveParts(dst, src side, sh shape) error {
	m := &c.d.memory
	var fault *fault
	sh.each(func(i, j uint64) {
		for done := uint64(0); done < sh.bytes && fault == nil; {
			n := min(dst.at(i+done).contiguous(m, sh.bytes-done), src.at(j+done).contiguous(m, sh.bytes-done))
			var to, from []byte
			if to, fault = dst.at(i+done).bytes(m, n, view{}); fault != nil {
				return
			}
			if from, fault = src.at(j+done).bytes(m, n, view{}); fault != nil {
				return
			}
			done += uint64(copy(to, from))
		}
	})
	if fault != nil {
		return fault
	}
	return nil
}

// move copies bytes. One word is written at once, as by hardware, so that a stream may wait for it.
func move(to, from []byte) {
	if word := unsafe.Pointer(unsafe.SliceData(to)); len(to) == 8 && uintptr(word)%8 == 0 {
		atomic.StoreUint64((*uint64)(word), binary.NativeEndian.Uint64(from))
		return
	}
	copy(to, from)
}

func (d *simulated) MemcpyHtoD(dst driver.DevicePtr, src unsafe.Pointer, bytes uint64) driver.Result {
	return d.do("cuMemcpyHtoD", func(c call) driver.Result { return c.copyNow(c.deviceSide(dst), c.hostSide(src), line(bytes)) })
}

func (d *simulated) MemcpyDtoH(dst unsafe.Pointer, src driver.DevicePtr, bytes uint64) driver.Result {
	return d.do("cuMemcpyDtoH", func(c call) driver.Result { return c.copyNow(c.hostSide(dst), c.deviceSide(src), line(bytes)) })
}

func (d *simulated) MemcpyDtoD(dst, src driver.DevicePtr, bytes uint64) driver.Result {
	return d.do("cuMemcpyDtoD", func(c call) driver.Result { return c.copyNow(c.deviceSide(dst), c.deviceSide(src), line(bytes)) })
}

// Memcpy implements [driver.API]. Of host memory it takes only what is
// page-locked: a number does not keep ordinary Go memory alive.
func (d *simulated) Memcpy(dst, src driver.DevicePtr, bytes uint64) driver.Result {
	return d.do("cuMemcpy", func(c call) driver.Result { return c.copyNow(c.deviceSide(dst), c.deviceSide(src), line(bytes)) })
}

func (d *simulated) MemcpyPeer(dst driver.DevicePtr, dstContext driver.Context, src driver.DevicePtr, srcContext driver.Context, bytes uint64) driver.Result {
	return d.do("cuMemcpyPeer", func(c call) driver.Result {
		if r := c.checkPeers(dst, dstContext, src, srcContext); r != driver.Success {
			return r
		}
		return c.copyNow(c.deviceSide(dst), c.deviceSide(src), line(bytes))
	})
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
			c.found(driver.ResultInvalidValue, "%#x lies on device %d, and the context is that of device %d",
				uint64(end.ptr), a.dev.ordinal, ctx.dev.ordinal)
			return driver.ResultInvalidValue
		}
	}
	return driver.Success
}

func (d *simulated) Memcpy2D(rect driver.MemcpyRect) driver.Result {
	return d.do("cuMemcpy2D", func(c call) driver.Result {
		dst, src, sh, r := c.box(boxOf(rect))
		if r != driver.Success {
			return r
		}
		return c.copyNow(dst, src, sh)
	})
}

// maxPitch is the longest row of a copy.
const maxPitch = 1<<31 - 1

// boxOf is a 2D copy as a box of one slice.
func boxOf(r driver.MemcpyRect) driver.MemcpyBox {
	return driver.MemcpyBox{
		SrcX: r.SrcX, SrcY: r.SrcY, SrcType: r.SrcType, SrcHost: r.SrcHost, SrcDevice: r.SrcDevice, SrcArray: r.SrcArray, SrcPitch: r.SrcPitch,
		DstX: r.DstX, DstY: r.DstY, DstType: r.DstType, DstHost: r.DstHost, DstDevice: r.DstDevice, DstArray: r.DstArray, DstPitch: r.DstPitch,
		Bytes: r.Bytes, Height: r.Height, Depth: 1}
}

// box reads the description of a copy. A pitch or a height of 0 counts as one without a gap.
func (c call) box(b driver.MemcpyBox) (dst, src side, sh shape, r driver.Result) {
	sh = shape{bytes: b.Bytes, rows: b.Height, slices: b.Depth}
	if sh.empty() {
		return dst, src, sh, driver.Success
	}
	src, sh.src, r = c.end(b.SrcX, b.SrcY, b.SrcZ, b.SrcType, b.SrcHost, b.SrcDevice, b.SrcArray, b.SrcPitch, b.SrcHeight, sh)
	if r == driver.Success {
		dst, sh.dst, r = c.end(b.DstX, b.DstY, b.DstZ, b.DstType, b.DstHost, b.DstDevice, b.DstArray, b.DstPitch, b.DstHeight, sh)
	}
	return dst, src, sh, r
}

// end reads the description of one end of a copy, which begins at x bytes, y rows and z slices.
func (c call) end(x, y, z uint64, kind driver.MemoryType, host unsafe.Pointer, device driver.DevicePtr, h driver.Array, pitch, height uint64, sh shape) (to side, p steps, r driver.Result) {
	depth := uint64(maxPitch)
	if kind == driver.MemoryArray {
		a, r := find(c, &c.d.arrays, h)
		if r != driver.Success {
			return to, p, r
		}
		to.array, pitch, height, depth = a, a.row, max(a.desc.Height, 1), max(a.desc.Depth, 1)
	}
	// The first limit keeps the sums and products from overflowing.
	if max(x, sh.bytes, y, sh.rows, z, sh.slices, pitch, height) > maxPitch {
		return to, p, driver.ResultInvalidValue
	}
	if pitch == 0 {
		pitch = x + sh.bytes
	}
	if height == 0 {
		height = y + sh.rows
	}
	rows := (z+sh.slices-1)*height + y + sh.rows // up to the end
	if x+sh.bytes > pitch || sh.slices > 1 && y+sh.rows > height || z+sh.slices > depth || rows > maxHostBytes/pitch {
		return to, p, driver.ResultInvalidValue
	}
	if kind == driver.MemoryArray && y+sh.rows > height {
		return to, p, driver.ResultInvalidValue
	}
	p = steps{row: pitch, slice: height * pitch}
	skip := z*p.slice + y*p.row + x
	switch kind {
	case driver.MemoryHost:
		if host == nil {
			return to, p, driver.ResultInvalidValue
		}
		to = c.hostSide(unsafe.Add(host, skip))
	case driver.MemoryDevice, driver.MemoryUnified:
		to = c.deviceSide(device + driver.DevicePtr(skip))
	case driver.MemoryArray:
		to.addr = driver.DevicePtr(skip)
	default:
		return to, p, driver.ResultInvalidValue
	}
	return to, p, driver.Success
}

func (d *simulated) MemcpyHtoDAsync(dst driver.DevicePtr, src unsafe.Pointer, bytes uint64, h driver.Stream) driver.Result {
	return on(d, call.stream, "cuMemcpyHtoDAsync", h, func(c call, s *stream) driver.Result {
		return c.copy(s, c.deviceSide(dst), c.hostSide(src), line(bytes))
	})
}

func (d *simulated) MemcpyDtoHAsync(dst unsafe.Pointer, src driver.DevicePtr, bytes uint64, h driver.Stream) driver.Result {
	return on(d, call.stream, "cuMemcpyDtoHAsync", h, func(c call, s *stream) driver.Result {
		return c.copy(s, c.hostSide(dst), c.deviceSide(src), line(bytes))
	})
}

func (d *simulated) MemcpyDtoDAsync(dst, src driver.DevicePtr, bytes uint64, h driver.Stream) driver.Result {
	return on(d, call.stream, "cuMemcpyDtoDAsync", h, func(c call, s *stream) driver.Result {
		return c.copy(s, c.deviceSide(dst), c.deviceSide(src), line(bytes))
	})
}

// MemcpyAsync implements [driver.API]. Of host memory it takes only what is
// page-locked.
func (d *simulated) MemcpyAsync(dst, src driver.DevicePtr, bytes uint64, h driver.Stream) driver.Result {
	return on(d, call.stream, "cuMemcpyAsync", h, func(c call, s *stream) driver.Result {
		return c.copy(s, c.deviceSide(dst), c.deviceSide(src), line(bytes))
	})
}

func (d *simulated) MemcpyPeerAsync(dst driver.DevicePtr, dstContext driver.Context, src driver.DevicePtr, srcContext driver.Context, bytes uint64, h driver.Stream) driver.Result {
	return on(d, call.stream, "cuMemcpyPeerAsync", h, func(c call, s *stream) driver.Result {
		if r := c.checkPeers(dst, dstContext, src, srcContext); r != driver.Success {
			return r
		}
		if s.capture != nil { // measured with driver 580
			s.capture.invalid = true
			return driver.ResultStreamCaptureUnsupported
		}
		return c.copy(s, c.deviceSide(dst), c.deviceSide(src), line(bytes))
	})
}

func (d *simulated) Memcpy2DAsync(rect driver.MemcpyRect, h driver.Stream) driver.Result {
	return on(d, call.stream, "cuMemcpy2DAsync", h, func(c call, s *stream) driver.Result {
		dst, src, sh, r := c.box(boxOf(rect))
		if r != driver.Success {
			return r
		}
		return c.copy(s, dst, src, sh)
	})
}

func (d *simulated) Memcpy3DAsync(box driver.MemcpyBox, h driver.Stream) driver.Result {
	return on(d, call.stream, "cuMemcpy3DAsync", h, func(c call, s *stream) driver.Result {
		dst, src, sh, r := c.box(box)
		if r != driver.Success {
			return r
		}
		return c.copy(s, dst, src, sh)
	})
}
