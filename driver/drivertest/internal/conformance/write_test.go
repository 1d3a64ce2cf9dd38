package conformance

import (
	goruntime "runtime"
	"sync/atomic"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

// words returns page-locked memory as words, and its address for the device.
func (e *env) words(n int) ([]uint64, driver.DevicePtr) {
	e.Helper()
	data := e.pinned(uint64(8 * n))
	ptr, r := e.api.MemHostGetDevicePointer(at(data), 0)
	e.ok(r)
	words := unsafe.Slice((*uint64)(at(data)), n)
	clear(words)
	return words, ptr
}

// needsWrites skips the test where streams cannot write values.
func (e *env) needsWrites() {
	e.Helper()
	e.needs(11070)
	can, r := e.api.DeviceGetAttribute(driver.DeviceAttributeCanUse64BitStreamMemOps, e.dev)
	e.ok(r)
	if can == 0 {
		e.Skip("streams of the device cannot write values")
	}
}

var writeTests = []test{
	{"absent", func(e *env) {
		version, r := e.api.DriverGetVersion()
		e.ok(r)
		can, r := e.api.DeviceGetAttribute(driver.DeviceAttributeCanUse64BitStreamMemOps, e.dev)
		_, ptr := e.words(1)
		switch write := e.api.StreamWriteValue64(e.stream(), ptr, 1, 0); {
		case version < 11070:
			e.is(driver.ResultInvalidValue, r)
			e.is(driver.ResultSymbolMissing, write)
		case can == 0:
			e.is(driver.ResultNotSupported, write)
		default:
			e.ok(r)
			e.ok(write)
		}
		e.ok(e.api.CtxSynchronize())
	}},
	{"to page-locked memory, in stream order", func(e *env) {
		e.needsWrites()
		s := e.stream()
		words, ptr := e.words(8)
		release := e.block(s)
		e.ok(e.api.StreamWriteValue64(s, ptr, 1<<63+1, 0))
		e.ok(e.api.StreamWriteValue64(s, ptr+56, 2, 0))
		assert.Zero(e, atomic.LoadUint64(&words[0]), "before the work on the stream is done")
		e.is(driver.ResultNotReady, e.api.StreamQuery(s))
		release()
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, []uint64{1<<63 + 1, 0, 0, 0, 0, 0, 0, 2}, words)
		e.ok(e.api.StreamWriteValue64(s, ptr, 3, 0))
		for atomic.LoadUint64(&words[0]) != 3 { // it shows without a call of the driver
			goruntime.Gosched()
		}
	}},
	{"after the kernel before it", func(e *env) {
		e.needsWrites()
		f, s := e.function("ramp"), e.stream()
		words, ptr := e.words(1)
		data := e.pinned(64)
		out, r := e.api.MemHostGetDevicePointer(at(data), 0)
		e.ok(r)
		for i := range uint64(20) {
			clear(data)
			e.ok(e.ramp(f, s, out, 7, 16))
			e.ok(e.api.StreamWriteValue64(s, ptr, i+1, 0))
			for atomic.LoadUint64(&words[0]) != i+1 {
				goruntime.Gosched()
			}
			assert.Equal(e, rampFrom(7, 16), append([]uint32(nil), unsafe.Slice((*uint32)(at(data)), 16)...))
		}
	}},
	{"to device memory", func(e *env) {
		e.needsWrites()
		s, ptr := e.stream(), e.alloc(64)
		e.ok(e.api.MemsetD8Async(ptr, 0, 64, s))
		e.ok(e.api.StreamWriteValue64(s, ptr+8, 5, 0))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, []uint64{0, 5, 0}, download[uint64](e, ptr, 3))
	}},
	{"32 bits", func(e *env) {
		e.needsWrites()
		s, ptr := e.stream(), e.alloc(64)
		e.ok(e.api.MemsetD8Async(ptr, 0xFF, 64, s))
		e.ok(e.api.StreamWriteValue32(s, ptr+4, 5, 0))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, []uint32{1<<32 - 1, 5, 1<<32 - 1}, download[uint32](e, ptr, 3))
		e.is(driver.ResultInvalidValue, e.api.StreamWriteValue32(s, ptr+2, 5, 0))
	}},
	{"waits for a value", func(e *env) {
		e.needsWrites()
		s := e.stream()
		words, ptr := e.words(2)
		for _, c := range []struct{ flags, value, wrong, right uint64 }{
			{uint64(driver.StreamWaitValueGreaterOrEqual), 5, 4, 6},
			{uint64(driver.StreamWaitValueGreaterOrEqual), 5, 1<<63 + 5, 1<<63 + 4}, // around the largest number
			{uint64(driver.StreamWaitValueEqual), 5, 6, 5},
			{uint64(driver.StreamWaitValueAnd), 6, 9, 2},
		} {
			atomic.StoreUint64(&words[0], c.wrong)
			e.ok(e.api.StreamWaitValue64(s, ptr, c.value, uint32(c.flags)))
			e.ok(e.api.StreamWriteValue64(s, ptr+8, 1, 0))
			e.is(driver.ResultNotReady, e.api.StreamQuery(s))
			assert.Zero(e, atomic.LoadUint64(&words[1]), "before the value is there")
			atomic.StoreUint64(&words[0], c.right)
			e.ok(e.api.StreamSynchronize(s))
			assert.EqualValues(e, 1, atomic.SwapUint64(&words[1], 0))
		}
		e.is(driver.ResultInvalidValue, e.api.StreamWaitValue64(s, ptr+4, 1, 0))
		e.is(driver.ResultInvalidValue, e.api.StreamWaitValue64(s, ptr, 1, 1<<20))
	}},
	{"waits for another stream, also in a graph", func(e *env) {
		e.needsWrites()
		a, b, ptr, out := e.stream(), e.stream(), e.alloc(8), e.alloc(64)
		f := e.function("ramp")
		g := e.capture(a, func() {
			e.ok(e.api.StreamWaitValue64(a, ptr, 7, driver.StreamWaitValueEqual))
			e.ok(e.ramp(f, a, out, 1, 16))
		})
		e.ok(e.api.MemsetD8(ptr, 0, 8))
		e.ok(e.api.MemsetD8(out, 0, 64))
		e.ok(e.api.CtxSynchronize())
		e.ok(e.api.GraphLaunch(e.instantiate(g), a))
		e.is(driver.ResultNotReady, e.api.StreamQuery(a))
		e.ok(e.api.StreamWriteValue64(b, ptr, 7, 0))
		e.ok(e.api.StreamSynchronize(a))
		assert.Equal(e, rampFrom(1, 16), download[uint32](e, out, 16))
	}},
	{"recorded by a capture", func(e *env) {
		e.needsWrites()
		s := e.stream()
		words, ptr := e.words(1)
		g := e.capture(s, func() { e.ok(e.api.StreamWriteValue64(s, ptr, 4, 0)) })
		e.nodes(g, 1)
		assert.Zero(e, words[0])
		x := e.instantiate(g)
		for range 2 {
			e.ok(e.api.StreamWriteValue64(s, ptr, 9, 0))
			e.ok(e.api.GraphLaunch(x, s))
			e.ok(e.api.StreamSynchronize(s))
			assert.EqualValues(e, 4, words[0], "every launch writes the value of the capture")
		}
	}},
	{"needs no context", func(e *env) {
		e.needsWrites()
		s := e.stream()
		words, ptr := e.words(1)
		e.elsewhere(func() {
			e.ok(e.api.StreamWriteValue64(s, ptr, 6, 0))
			e.ok(e.api.StreamSynchronize(s))
		})
		assert.EqualValues(e, 6, words[0])
	}},
}
