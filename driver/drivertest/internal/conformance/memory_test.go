package conformance

import (
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

var memoryTests = []test{
	{"allocate", func(e *env) {
		for _, bytes := range []uint64{1, 255, 256, 4097, 3 << 20} {
			ptr, r := e.api.MemAlloc(bytes)
			e.ok(r)
			assert.Zero(e, ptr%256, "alignment")
			base, length, r := e.api.MemGetAddressRange(ptr + driver.DevicePtr(bytes/2))
			e.ok(r)
			assert.Equal(e, ptr, base)
			assert.Equal(e, bytes, length)
			e.ok(e.api.MemFree(ptr))
		}
	}},
	{"nothing and too much", func(e *env) {
		_, r := e.api.MemAlloc(0)
		e.is(driver.ResultInvalidValue, r)
		_, r = e.api.MemAlloc(1 << 45)
		e.is(driver.ResultOutOfMemory, r)
		e.ok(e.api.MemFree(0))
	}},
	{"information", func(e *env) {
		free, total, r := e.api.MemGetInfo()
		e.ok(r)
		assert.LessOrEqual(e, free, total)
		var ptr driver.DevicePtr
		e.counted(64<<20, func() {
			ptr, r = e.api.MemAlloc(64 << 20)
			e.ok(r)
		}, func() { e.ok(e.api.MemFree(ptr)) })
	}},
	{"misuse", func(e *env) {
		ptr, r := e.api.MemAlloc(1 << 20)
		e.ok(r)
		e.is(driver.ResultInvalidValue, e.api.MemFree(ptr+256))
		e.ok(e.api.MemFree(ptr))
		e.is(driver.ResultInvalidValue, e.api.MemFree(ptr))
		_, _, r = e.api.MemGetAddressRange(ptr)
		e.oneOf(r, driver.ResultNotFound, driver.ResultInvalidValue)
		e.is(driver.ResultInvalidValue, e.api.MemcpyHtoD(ptr, at(make([]byte, 16)), 16))
	}},
	{"page-locked", func(e *env) {
		host := e.pinned(1 << 16)
		for i := range host {
			host[i] = byte(i)
		}
		ptr, r := e.api.MemHostGetDevicePointer(at(host), 0)
		e.ok(r)
		kind, r := e.api.PointerGetAttribute(driver.PointerAttributeMemoryType, ptr)
		e.ok(r)
		assert.EqualValues(e, driver.MemoryHost, kind)
		_, r = e.api.MemHostAlloc(0, 0)
		e.ok(r)
		_, r = e.api.MemHostAlloc(16, 1<<20)
		e.is(driver.ResultInvalidValue, r)
		e.is(driver.ResultInvalidValue, e.api.MemFreeHost(at(make([]byte, 16))))
	}},
	{"page-locked nothing", func(e *env) {
		e.ok(e.api.MemFreeHost(nil))
	}},
	{"freed page-locked twice", func(e *env) {
		ptr, r := e.api.MemHostAlloc(4096, driver.HostAllocPortable)
		e.ok(r)
		e.ok(e.api.MemFreeHost(ptr))
		e.is(driver.ResultInvalidValue, e.api.MemFreeHost(ptr))
	}},
	{"registered", func(e *env) {
		const bytes, page = 1 << 16, 1 << 12
		block := make([]byte, bytes+page)
		skip := -uintptr(at(block)) & (page - 1)
		host := block[skip : skip+bytes]
		ptr := at(host)
		e.is(driver.ResultHostMemoryNotRegistered, e.api.MemHostUnregister(ptr))
		e.is(driver.ResultInvalidValue, e.api.MemHostRegister(ptr, 0, 0))
		e.ok(e.api.MemHostRegister(ptr, bytes, driver.HostAllocPortable))
		e.is(driver.ResultHostMemoryAlreadyRegistered, e.api.MemHostRegister(ptr, bytes, 0))
		for i := range host {
			host[i] = byte(i)
		}
		s, dev := e.stream(), e.alloc(bytes)
		e.ok(e.api.MemcpyHtoDAsync(dev, ptr, bytes, s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, host, download[byte](e, dev, bytes))
		e.is(driver.ResultInvalidValue, e.api.MemFreeHost(ptr))
		e.ok(e.api.MemHostUnregister(ptr))
		e.is(driver.ResultHostMemoryNotRegistered, e.api.MemHostUnregister(ptr))
	}},
	{"attributes", func(e *env) {
		ptr := e.alloc(4096)
		for _, want := range []struct {
			attribute driver.PointerAttribute
			value     uint64
		}{
			{driver.PointerAttributeContext, uint64(e.ctx)},
			{driver.PointerAttributeMemoryType, uint64(driver.MemoryDevice)},
			{driver.PointerAttributeDevicePointer, uint64(ptr) + 8},
			{driver.PointerAttributeDeviceOrdinal, uint64(e.dev)},
			{driver.PointerAttributeRangeStartAddr, uint64(ptr)},
			{driver.PointerAttributeRangeSize, 4096},
			{driver.PointerAttributeIsManaged, 0},
		} {
			value, r := e.api.PointerGetAttribute(want.attribute, ptr+8)
			e.ok(r)
			assert.Equal(e, want.value, value, "attribute %d", want.attribute)
		}
		var local byte
		_, r := e.api.PointerGetAttribute(driver.PointerAttributeMemoryType, driver.DevicePtr(uintptr(unsafe.Pointer(&local))))
		e.is(driver.ResultInvalidValue, r)
	}},
}

var poolTests = []test{
	{"in stream order", func(e *env) {
		e.needsPools()
		s := e.stream()
		ptr, r := e.api.MemAllocAsync(4096, s)
		e.ok(r)
		e.ok(e.api.MemsetD8Async(ptr, 7, 4096, s))
		host := e.pinned(4096)
		e.ok(e.api.MemcpyDtoHAsync(at(host), ptr, 4096, s))
		e.ok(e.api.MemFreeAsync(ptr, s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, byte(7), host[4095])
	}},
	{"nothing", func(e *env) {
		e.needsPools()
		s := e.stream()
		ptr, r := e.api.MemAllocAsync(0, s)
		e.ok(r)
		if ptr != 0 {
			e.ok(e.api.MemFreeAsync(ptr, s))
		}
	}},
	{"freed twice", func(e *env) {
		e.needsPools()
		s := e.stream()
		ptr, r := e.api.MemAllocAsync(4096, s)
		e.ok(r)
		e.is(driver.ResultInvalidValue, e.api.MemFreeAsync(ptr+256, s))
		e.ok(e.api.MemFreeAsync(ptr, s))
		e.is(driver.ResultInvalidValue, e.api.MemFreeAsync(ptr, s))
		e.ok(e.api.StreamSynchronize(s))
		e.is(driver.ResultInvalidValue, e.api.MemFreeAsync(ptr, s))
	}},
	{"from MemAlloc", func(e *env) {
		e.needsPools()
		s := e.stream()
		ptr, r := e.api.MemAlloc(4096)
		e.ok(r)
		e.ok(e.api.MemFreeAsync(ptr, s))
		ptr, r = e.api.MemAllocAsync(4096, s)
		e.ok(r)
		e.ok(e.api.StreamSynchronize(s))
		e.ok(e.api.MemFree(ptr))
	}},
	{"of one's own", func(e *env) {
		e.needsPools()
		s := e.stream()
		pool, r := e.api.MemPoolCreate(driver.MemPoolProps{AllocType: driver.MemAllocationPinned,
			Location: driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(e.dev)}})
		e.ok(r)
		e.ok(e.api.MemPoolSetAttribute(pool, driver.MemPoolReleaseThreshold, 1<<40))
		threshold, r := e.api.MemPoolGetAttribute(pool, driver.MemPoolReleaseThreshold)
		e.ok(r)
		assert.EqualValues(e, uint64(1<<40), threshold)

		ptr, r := e.api.MemAllocFromPoolAsync(1<<20, pool, s)
		e.ok(r)
		e.ok(e.api.StreamSynchronize(s))
		used, r := e.api.MemPoolGetAttribute(pool, driver.MemPoolUsedMemCurrent)
		e.ok(r)
		assert.EqualValues(e, 1<<20, used)
		of, r := e.api.PointerGetAttribute(driver.PointerAttributeMempoolHandle, ptr)
		e.ok(r)
		assert.EqualValues(e, pool, of)
		e.ok(e.api.MemFreeAsync(ptr, s))
		e.ok(e.api.StreamSynchronize(s))

		used, r = e.api.MemPoolGetAttribute(pool, driver.MemPoolUsedMemCurrent)
		e.ok(r)
		assert.Zero(e, used)
		reserved, r := e.api.MemPoolGetAttribute(pool, driver.MemPoolReservedMemCurrent)
		e.ok(r)
		assert.GreaterOrEqual(e, reserved, uint64(1<<20), "the threshold keeps it")
		e.ok(e.api.MemPoolTrimTo(pool, 0))
		reserved, r = e.api.MemPoolGetAttribute(pool, driver.MemPoolReservedMemCurrent)
		e.ok(r)
		assert.Zero(e, reserved)

		flags, r := e.api.MemPoolGetAccess(pool, driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(e.dev)})
		e.ok(r)
		assert.Equal(e, driver.MemAccessReadWrite, flags)
		e.ok(e.api.MemPoolDestroy(pool))
	}},
	{"current and default", func(e *env) {
		e.needsPools()
		standard, r := e.api.DeviceGetDefaultMemPool(e.dev)
		e.ok(r)
		current, r := e.api.DeviceGetMemPool(e.dev)
		e.ok(r)
		assert.Equal(e, standard, current)
		pool, r := e.api.MemPoolCreate(driver.MemPoolProps{AllocType: driver.MemAllocationPinned,
			Location: driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(e.dev)}})
		e.ok(r)
		e.ok(e.api.DeviceSetMemPool(e.dev, pool))
		current, r = e.api.DeviceGetMemPool(e.dev)
		e.ok(r)
		assert.Equal(e, pool, current)
		e.ok(e.api.MemPoolDestroy(pool))
		current, r = e.api.DeviceGetMemPool(e.dev)
		e.ok(r)
		assert.Equal(e, standard, current)
		e.oneOf(e.api.MemPoolDestroy(standard), driver.ResultInvalidValue)
	}},
}

func (e *env) needsPools() {
	e.Helper()
	e.needs(11020)
	has, r := e.api.DeviceGetAttribute(driver.DeviceAttributeMemoryPoolsSupported, e.dev)
	e.ok(r)
	if has == 0 {
		e.Skip("the device has no memory pools")
	}
}
