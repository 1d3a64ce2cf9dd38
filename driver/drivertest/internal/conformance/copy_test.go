package conformance

import (
	"math/rand/v2"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

func noise(n int) []byte {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	return data
}

var copyTests = []test{
	{"there and back", func(e *env) {
		for _, n := range []int{1, 13, 4096, 1<<20 + 7} {
			data := noise(n)
			a, b := e.alloc(uint64(n)), e.alloc(uint64(n))
			upload(e, a, data)
			e.ok(e.api.MemcpyDtoD(b, a, uint64(n)))
			assert.Equal(e, data, download[byte](e, b, n))
		}
	}},
	{"a part", func(e *env) {
		ptr := e.alloc(64)
		e.ok(e.api.MemsetD8(ptr, 0, 64))
		upload(e, ptr+16, []byte{1, 2, 3})
		got := download[byte](e, ptr, 64)
		assert.Equal(e, []byte{0, 1, 2, 3, 0}, got[15:20])
	}},
	{"nothing", func(e *env) {
		ptr := e.alloc(64)
		e.ok(e.api.MemcpyHtoD(ptr, at(make([]byte, 1)), 0))
		e.ok(e.api.MemcpyDtoH(at(make([]byte, 1)), ptr, 0))
		e.ok(e.api.MemsetD8(ptr, 0, 0))
	}},
	{"memset", func(e *env) {
		ptr := e.alloc(64)
		e.ok(e.api.MemsetD8(ptr, 0xAB, 64))
		assert.Equal(e, byte(0xAB), download[byte](e, ptr, 64)[63])
		e.ok(e.api.MemsetD16(ptr, 0x1234, 32))
		assert.Equal(e, uint16(0x1234), download[uint16](e, ptr, 32)[31])
		e.ok(e.api.MemsetD32(ptr, 0xDEADBEEF, 16))
		assert.Equal(e, uint32(0xDEADBEEF), download[uint32](e, ptr, 16)[15])
		e.is(driver.ResultInvalidValue, e.api.MemsetD32(ptr+2, 0, 1))
		e.is(driver.ResultInvalidValue, e.api.MemsetD16(ptr+1, 0, 1))
	}},
	{"memset on a stream", func(e *env) {
		s, ptr := e.stream(), e.alloc(64)
		e.ok(e.api.MemsetD8Async(ptr, 1, 64, s))
		e.ok(e.api.MemsetD16Async(ptr, 0x0202, 16, s))
		e.ok(e.api.MemsetD32Async(ptr, 0x03030303, 4, s))
		e.ok(e.api.StreamSynchronize(s))
		got := download[byte](e, ptr, 64)
		assert.Equal(e, []byte{3, 3, 2, 2, 1, 1}, []byte{got[0], got[15], got[16], got[31], got[32], got[63]})
	}},
	{"overrun", func(e *env) {
		// Large allocations have no neighbour that an overrun could hit.
		const n = 32 << 20
		ptr, host := e.alloc(n), make([]byte, n+1)
		e.is(driver.ResultInvalidValue, e.api.MemcpyHtoD(ptr, at(host), n+1))
		e.is(driver.ResultInvalidValue, e.api.MemcpyDtoH(at(host), ptr+1, n))
		e.is(driver.ResultInvalidValue, e.api.MemsetD8(ptr, 0, n+1))
	}},
	{"on a stream", func(e *env) {
		s := e.stream()
		for _, n := range []int{16, 100_000, 3 << 20} {
			data := noise(n)
			ptr, up, down := e.alloc(uint64(n)), e.pinned(uint64(n)), e.pinned(uint64(n))
			copy(up, data)
			e.ok(e.api.MemcpyHtoDAsync(ptr, at(up), uint64(n), s))
			e.ok(e.api.MemcpyDtoHAsync(at(down), ptr, uint64(n), s))
			e.ok(e.api.StreamSynchronize(s))
			assert.Equal(e, data, down)
		}
	}},
	{"pageable on a stream", func(e *env) {
		s, n := e.stream(), 1<<20
		data, got := noise(n), make([]byte, n)
		ptr := e.alloc(uint64(n))
		e.ok(e.api.MemcpyHtoDAsync(ptr, at(data), uint64(n), s))
		e.ok(e.api.MemcpyDtoHAsync(at(got), ptr, uint64(n), s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, data, got)
	}},
	{"between unified addresses", func(e *env) {
		s, host := e.stream(), e.pinned(256)
		copy(host, noise(256))
		from, r := e.api.MemHostGetDevicePointer(at(host), 0)
		e.ok(r)
		ptr := e.alloc(512)
		e.ok(e.api.Memcpy(ptr, from, 256))
		e.ok(e.api.MemcpyAsync(ptr+256, ptr, 256, s))
		e.ok(e.api.StreamSynchronize(s))
		got := download[byte](e, ptr, 512)
		assert.Equal(e, host, got[:256])
		assert.Equal(e, host, got[256:])
		e.ok(e.api.MemcpyDtoDAsync(ptr, ptr+256, 128, s))
		e.ok(e.api.StreamSynchronize(s))
	}},
	{"peer to itself", func(e *env) {
		s, a, b := e.stream(), e.alloc(64), e.alloc(64)
		data := noise(64)
		upload(e, a, data)
		e.ok(e.api.MemcpyPeer(b, e.ctx, a, e.ctx, 32))
		e.ok(e.api.CtxSynchronize())
		e.ok(e.api.MemcpyPeerAsync(b+32, e.ctx, a+32, e.ctx, 32, s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, data, download[byte](e, b, 64))
	}},
	{"rectangle", func(e *env) {
		const pitch, rows = 64, 4
		s, ptr := e.stream(), e.alloc(pitch*rows)
		e.ok(e.api.MemsetD8(ptr, 0, pitch*rows))
		host := noise(10 * rows)
		rect := driver.MemcpyRect{
			SrcType: driver.MemoryHost, SrcHost: at(host), SrcPitch: 10, SrcX: 2, SrcY: 1,
			DstType: driver.MemoryDevice, DstDevice: ptr, DstPitch: pitch, DstX: 5, DstY: 1,
			Bytes: 8, Height: 3,
		}
		e.ok(e.api.Memcpy2D(rect))
		got := download[byte](e, ptr, pitch*rows)
		for row := 1; row <= 3; row++ {
			assert.Equal(e, host[row*10+2:row*10+10], got[row*pitch+5:row*pitch+13])
			assert.Zero(e, got[row*pitch+4])
			assert.Zero(e, got[row*pitch+13])
		}
		back := make([]byte, 8*3)
		e.ok(e.api.Memcpy2DAsync(driver.MemcpyRect{
			SrcType: driver.MemoryDevice, SrcDevice: ptr, SrcPitch: pitch, SrcX: 5, SrcY: 1,
			DstType: driver.MemoryHost, DstHost: at(back), DstPitch: 8,
			Bytes: 8, Height: 3,
		}, s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, host[12:20], back[:8])
		rect.SrcPitch = 3
		e.is(driver.ResultInvalidValue, e.api.Memcpy2D(rect))
	}},
}
