package conformance

import (
	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

func (e *env) array(desc driver.Array3DDescriptor) driver.Array {
	e.Helper()
	a, r := e.api.Array3DCreate(desc)
	e.ok(r)
	e.Cleanup(func() { e.ok(e.api.ArrayDestroy(a)) })
	return a
}

var arrayTests = []test{
	{"described", func(e *env) {
		want := driver.Array3DDescriptor{Width: 5, Height: 4, Depth: 3, Format: driver.ArrayFloat, Channels: 2, Flags: driver.ArraySurface}
		got, r := e.api.Array3DGetDescriptor(e.array(want))
		e.ok(r)
		assert.Equal(e, want, got)
		flat := driver.ArrayDescriptor{Width: 7, Height: 6, Format: driver.ArrayUint16, Channels: 1}
		a, r := e.api.ArrayCreate(flat)
		e.ok(r)
		again, r := e.api.ArrayGetDescriptor(a)
		e.ok(r)
		assert.Equal(e, flat, again)
		e.ok(e.api.ArrayDestroy(a))
	}},
	{"wrong descriptions", func(e *env) {
		for _, desc := range []driver.ArrayDescriptor{
			{Height: 4, Format: driver.ArrayFloat, Channels: 1},
			{Width: 4, Format: driver.ArrayFloat, Channels: 3},
			{Width: 4, Format: 5, Channels: 1},
			{Width: 1 << 40, Format: driver.ArrayFloat, Channels: 1},
		} {
			_, r := e.api.ArrayCreate(desc)
			e.is(driver.ResultInvalidValue, r)
		}
	}},
	{"rows there and back", func(e *env) {
		a, r := e.api.ArrayCreate(driver.ArrayDescriptor{Width: 8, Height: 4, Format: driver.ArrayUint8, Channels: 2})
		e.ok(r)
		e.Cleanup(func() { e.ok(e.api.ArrayDestroy(a)) })
		data, back := noise(16*4), make([]byte, 6*2)
		e.ok(e.api.Memcpy2D(driver.MemcpyRect{SrcType: driver.MemoryHost, SrcHost: at(data), SrcPitch: 16,
			DstType: driver.MemoryArray, DstArray: a, Bytes: 16, Height: 4}))
		e.ok(e.api.Memcpy2D(driver.MemcpyRect{SrcType: driver.MemoryArray, SrcArray: a, SrcX: 2, SrcY: 1,
			DstType: driver.MemoryHost, DstHost: at(back), DstPitch: 6, Bytes: 6, Height: 2}))
		assert.Equal(e, append(append([]byte(nil), data[18:24]...), data[34:40]...), back)
		e.is(driver.ResultInvalidValue, e.api.Memcpy2D(driver.MemcpyRect{SrcType: driver.MemoryArray, SrcArray: a, SrcX: 12,
			DstType: driver.MemoryHost, DstHost: at(back), DstPitch: 6, Bytes: 6, Height: 2}))
	}},
	{"a box there and back", func(e *env) {
		const w, h, d = 12, 5, 4
		a := e.array(driver.Array3DDescriptor{Width: w, Height: h, Depth: d, Format: driver.ArrayUint8, Channels: 1})
		s, data := e.stream(), e.pinned(w*h*d)
		copy(data, noise(len(data)))
		e.ok(e.api.Memcpy3DAsync(driver.MemcpyBox{SrcType: driver.MemoryHost, SrcHost: at(data), SrcPitch: w, SrcHeight: h,
			DstType: driver.MemoryArray, DstArray: a, Bytes: w, Height: h, Depth: d}, s))
		const pitch, rows = 16, 6
		ptr, got := e.alloc(pitch*rows*d), e.pinned(3*2*2)
		e.ok(e.api.MemsetD8Async(ptr, 0xEE, pitch*rows*d, s))
		e.ok(e.api.Memcpy3DAsync(driver.MemcpyBox{SrcType: driver.MemoryArray, SrcArray: a, SrcX: 1, SrcY: 2, SrcZ: 1,
			DstType: driver.MemoryDevice, DstDevice: ptr, DstPitch: pitch, DstHeight: rows, DstX: 4, DstY: 1, DstZ: 2,
			Bytes: 3, Height: 2, Depth: 2}, s))
		e.ok(e.api.Memcpy3DAsync(driver.MemcpyBox{SrcType: driver.MemoryDevice, SrcDevice: ptr, SrcPitch: pitch, SrcHeight: rows,
			SrcX: 4, SrcY: 1, SrcZ: 2, DstType: driver.MemoryHost, DstHost: at(got), DstPitch: 3, DstHeight: 2,
			Bytes: 3, Height: 2, Depth: 2}, s))
		e.ok(e.api.StreamSynchronize(s))
		var want []byte
		for z := 1; z < 3; z++ {
			for y := 2; y < 4; y++ {
				want = append(want, data[(z*h+y)*w+1:][:3]...)
			}
		}
		assert.Equal(e, want, got)
		assert.Equal(e, byte(0xEE), download[byte](e, ptr, pitch*rows*d)[pitch*rows*2+pitch+3])
	}},
	{"wrong boxes", func(e *env) {
		s, ptr, host := e.stream(), e.alloc(4096), e.pinned(4096)
		box := driver.MemcpyBox{SrcType: driver.MemoryDevice, SrcDevice: ptr, SrcPitch: 16, SrcHeight: 4,
			DstType: driver.MemoryHost, DstHost: at(host), DstPitch: 16, DstHeight: 4, Bytes: 16, Height: 4, Depth: 2}
		e.ok(e.api.Memcpy3DAsync(box, s))
		short, low, nothing := box, box, box
		short.SrcPitch, low.DstHeight, nothing.Depth = 8, 3, 0
		e.is(driver.ResultInvalidValue, e.api.Memcpy3DAsync(short, s))
		e.is(driver.ResultInvalidValue, e.api.Memcpy3DAsync(low, s))
		e.ok(e.api.Memcpy3DAsync(nothing, s))
		e.ok(e.api.StreamSynchronize(s))
	}},
}
