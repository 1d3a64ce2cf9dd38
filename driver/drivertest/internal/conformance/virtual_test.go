package conformance

import (
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

// needsAttribute skips the test on a device that lacks a feature.
func (e *env) needsAttribute(attribute driver.DeviceAttribute, feature string) {
	e.Helper()
	value, r := e.api.DeviceGetAttribute(attribute, e.dev)
	if r != driver.Success || value == 0 {
		e.Skipf("the device has no %s (attribute %d)", feature, attribute)
	}
}

// physical returns the description of memory of the device, and its granularity.
func (e *env) physical() (driver.MemAllocationProps, uint64) {
	e.Helper()
	e.needsAttribute(driver.DeviceAttributeVirtualAddressManagementSupported, "virtual memory")
	props := driver.MemAllocationProps{Type: driver.MemAllocationPinned,
		Location: driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(e.dev)}}
	granularity, r := e.api.MemGetAllocationGranularity(props, driver.MemGranularityMinimum)
	e.ok(r)
	recommended, r := e.api.MemGetAllocationGranularity(props, driver.MemGranularityRecommended)
	e.ok(r)
	assert.Zero(e, granularity&(granularity-1), "a power of two")
	assert.Zero(e, recommended%granularity)
	return props, granularity
}

func (e *env) reserve(bytes uint64) driver.DevicePtr {
	e.Helper()
	ptr, r := e.api.MemAddressReserve(bytes, 0, 0, 0)
	e.ok(r)
	e.Cleanup(func() { e.ok(e.api.MemAddressFree(ptr, bytes)) })
	return ptr
}

// mapped makes memory and maps it until the test ends.
func (e *env) mapped(ptr driver.DevicePtr, bytes uint64, props driver.MemAllocationProps) {
	e.Helper()
	h, r := e.api.MemCreate(bytes, props, 0)
	e.ok(r)
	e.ok(e.api.MemMap(ptr, bytes, 0, h, 0))
	e.Cleanup(func() { e.ok(e.api.MemUnmap(ptr, bytes)) })
	e.ok(e.api.MemRelease(h)) // the mapping keeps it
}

// open lets the device use mapped memory.
func (e *env) open(ptr driver.DevicePtr, bytes uint64, props driver.MemAllocationProps) {
	e.Helper()
	e.ok(e.api.MemSetAccess(ptr, bytes, []driver.MemAccess{{Location: props.Location, Flags: driver.MemAccessReadWrite}}))
}

var virtualTests = []test{
	{"one range of two mappings", func(e *env) {
		props, half := e.physical()
		ptr := e.reserve(2 * half)
		e.mapped(ptr, half, props)
		e.mapped(ptr+driver.DevicePtr(half), half, props)
		e.open(ptr, 2*half, props)
		f, s := e.function("ramp"), e.stream()
		across := ptr + driver.DevicePtr(half) - 128
		e.ok(e.ramp(f, s, across, 3, 64))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, rampFrom(3, 64), download[uint32](e, across, 64))
		e.ok(e.api.MemsetD32Async(across, 7, 64, s))
		host := e.pinned(256)
		e.ok(e.api.MemcpyDtoHAsync(at(host), across, 256, s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, []byte{7, 0, 7, 0}, []byte{host[0], host[1], host[128], host[255]})
		other := e.alloc(256)
		e.ok(e.api.MemsetD8(other, 9, 256))
		e.ok(e.api.MemcpyDtoDAsync(across, other, 256, s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, byte(9), download[byte](e, across, 256)[255])
	}},
	{"one memory at two addresses", func(e *env) {
		props, bytes := e.physical()
		ptr := e.reserve(2 * bytes)
		h, r := e.api.MemCreate(bytes, props, 0)
		e.ok(r)
		for i := range driver.DevicePtr(2) {
			e.ok(e.api.MemMap(ptr+i*driver.DevicePtr(bytes), bytes, 0, h, 0))
		}
		e.open(ptr, 2*bytes, props)
		upload(e, ptr+16, []byte{1, 2, 3})
		e.ok(e.api.CtxSynchronize())
		assert.Equal(e, []byte{1, 2, 3}, download[byte](e, ptr+driver.DevicePtr(bytes)+16, 3))
		e.ok(e.api.MemUnmap(ptr, 2*bytes))
		e.ok(e.api.MemMap(ptr, bytes, 0, h, 0)) // it is still there
		e.open(ptr, bytes, props)
		assert.Equal(e, []byte{1, 2, 3}, download[byte](e, ptr+16, 3))
		e.ok(e.api.MemUnmap(ptr, bytes))
		e.ok(e.api.MemRelease(h))
	}},
	{"wrong order and wrong arguments", func(e *env) {
		props, bytes := e.physical()
		_, r := e.api.MemAddressReserve(0, 0, 0, 0)
		e.is(driver.ResultInvalidValue, r)
		_, r = e.api.MemAddressReserve(bytes, 0, 0, 1)
		e.is(driver.ResultInvalidValue, r)
		_, r = e.api.MemCreate(bytes+1, props, 0)
		e.is(driver.ResultInvalidValue, r)
		wrong := props
		wrong.Type = 0
		_, r = e.api.MemCreate(bytes, wrong, 0)
		e.is(driver.ResultInvalidValue, r)
		_, r = e.api.MemCreate(1<<46, props, 0)
		e.is(driver.ResultOutOfMemory, r)

		ptr := e.reserve(2 * bytes)
		e.ok(e.api.MemUnmap(ptr, bytes)) // which has no memory
		e.is(driver.ResultInvalidValue, e.api.MemSetAccess(ptr, bytes, []driver.MemAccess{{Location: props.Location, Flags: driver.MemAccessReadWrite}}))
		e.is(driver.ResultInvalidValue, e.api.MemAddressFree(ptr, bytes))
		h, r := e.api.MemCreate(bytes, props, 0)
		e.ok(r)
		e.is(driver.ResultInvalidValue, e.api.MemMap(ptr+1, bytes, 0, h, 0))
		e.is(driver.ResultNotSupported, e.api.MemMap(ptr, 2*bytes, 0, h, 0))
		e.ok(e.api.MemMap(ptr, bytes, 0, h, 0))
		e.is(driver.ResultInvalidValue, e.api.MemMap(ptr, bytes, 0, h, 0))
		e.is(driver.ResultInvalidValue, e.api.MemFree(ptr))
		e.ok(e.api.MemUnmap(ptr, bytes))
		e.ok(e.api.MemRelease(h))
	}},
	{"counted until nobody has it", func(e *env) {
		props, granularity := e.physical()
		const bytes = 64 << 20
		ptr := e.reserve(max(bytes, granularity))
		e.counted(bytes, func() {
			h, r := e.api.MemCreate(bytes, props, 0)
			e.ok(r)
			e.ok(e.api.MemMap(ptr, bytes, 0, h, 0))
			e.ok(e.api.MemRelease(h))
		}, func() { e.ok(e.api.MemUnmap(ptr, bytes)) })
	}},
	{"shared by a file descriptor", func(e *env) {
		props, bytes := e.physical()
		e.needsAttribute(driver.DeviceAttributeHandleTypePosixFileDescriptorSupported, "memory with a file descriptor")
		private, r := e.api.MemCreate(bytes, props, 0)
		e.ok(r)
		_, r = e.api.MemExportToShareableHandle(private, driver.MemHandlePosixFD, 0)
		e.is(driver.ResultInvalidValue, r)
		e.ok(e.api.MemRelease(private))

		props.HandleTypes = driver.MemHandlePosixFD
		h, r := e.api.MemCreate(bytes, props, 0)
		e.ok(r)
		shareable, r := e.api.MemExportToShareableHandle(h, driver.MemHandlePosixFD, 0)
		e.ok(r)
		fd := shareable.FD()
		again, r := e.api.MemImportFromShareableHandle(uintptr(fd), driver.MemHandlePosixFD)
		e.ok(r)
		closeFD(e, fd)
		ptr := e.reserve(2 * bytes)
		e.ok(e.api.MemMap(ptr, bytes, 0, h, 0))
		e.ok(e.api.MemMap(ptr+driver.DevicePtr(bytes), bytes, 0, again, 0))
		e.open(ptr, 2*bytes, props)
		e.ok(e.api.MemRelease(h))
		e.ok(e.api.MemRelease(again))
		upload(e, ptr+8, []byte{4, 5, 6})
		e.ok(e.api.CtxSynchronize())
		assert.Equal(e, []byte{4, 5, 6}, download[byte](e, ptr+driver.DevicePtr(bytes)+8, 3))
		e.ok(e.api.MemUnmap(ptr, 2*bytes))
	}},
}

var managedTests = []test{
	{"seen by the host and by kernels", func(e *env) {
		e.needsAttribute(driver.DeviceAttributeManagedMemory, "managed memory")
		f, s := e.function("ramp"), e.stream()
		ptr, r := e.api.MemAllocManaged(4096, driver.MemAttachGlobal)
		e.ok(r)
		host := unsafe.Slice(*(**uint32)(unsafe.Pointer(&ptr)), 1024)
		e.ok(e.ramp(f, s, ptr, 5, 1024))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, rampFrom(5, 1024), append([]uint32(nil), host...))
		host[1] = 77
		assert.Equal(e, []uint32{5, 77}, download[uint32](e, ptr, 2))
		managed, r := e.api.PointerGetAttribute(driver.PointerAttributeIsManaged, ptr+64)
		e.ok(r)
		assert.EqualValues(e, 1, managed)
		base, bytes, r := e.api.MemGetAddressRange(ptr + 64)
		e.ok(r)
		assert.Equal(e, ptr, base)
		assert.GreaterOrEqual(e, bytes, uint64(4096))
		e.is(driver.ResultInvalidValue, e.api.MemFreeHost(unsafe.Pointer(unsafe.SliceData(host))))
		e.ok(e.api.MemFree(ptr))
		e.is(driver.ResultInvalidValue, e.api.MemFree(ptr))
	}},
	{"wrong arguments", func(e *env) {
		e.needsAttribute(driver.DeviceAttributeManagedMemory, "managed memory")
		_, r := e.api.MemAllocManaged(0, driver.MemAttachGlobal)
		e.is(driver.ResultInvalidValue, r)
		_, r = e.api.MemAllocManaged(4096, 0)
		e.is(driver.ResultInvalidValue, r)
	}},
	{"prefetched and advised", func(e *env) {
		e.needs(12020)
		e.needsAttribute(driver.DeviceAttributeConcurrentManagedAccess, "managed memory that the host may use at any time")
		s, bytes := e.stream(), uint64(1<<16)
		ptr, r := e.api.MemAllocManaged(bytes, driver.MemAttachGlobal)
		e.ok(r)
		e.Cleanup(func() { e.ok(e.api.MemFree(ptr)) })
		here := driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(e.dev)}
		nowhere, host := driver.MemLocation{Type: driver.MemLocationDevice, ID: 1000}, driver.MemLocation{Type: driver.MemLocationHost}
		for _, advice := range []driver.MemAdvice{driver.MemAdviseSetPreferredLocation, driver.MemAdviseSetAccessedBy, driver.MemAdviseSetReadMostly,
			driver.MemAdviseUnsetReadMostly, driver.MemAdviseUnsetAccessedBy, driver.MemAdviseUnsetPreferredLocation} {
			e.ok(e.api.MemAdvise(ptr, bytes, advice, here))
			e.ok(e.api.MemAdvise(ptr+4096, bytes-4096, advice, host))
		}
		plain := e.alloc(bytes)
		for _, call := range []func(driver.DevicePtr, uint64, driver.MemLocation) driver.Result{
			func(ptr driver.DevicePtr, bytes uint64, to driver.MemLocation) driver.Result {
				return e.api.MemPrefetchAsync(ptr, bytes, to, 0, s)
			},
			func(ptr driver.DevicePtr, bytes uint64, by driver.MemLocation) driver.Result {
				return e.api.MemAdvise(ptr, bytes, driver.MemAdviseSetAccessedBy, by)
			},
		} {
			e.is(driver.ResultInvalidValue, call(plain, bytes, here))
			e.is(driver.ResultInvalidValue, call(ptr, 0, here))
			e.is(driver.ResultInvalidValue, call(ptr, bytes+1<<30, here))
			e.is(driver.ResultInvalidValue, call(ptr, bytes, driver.MemLocation{}))
			e.oneOf(call(ptr, bytes, nowhere), driver.ResultInvalidDevice, driver.ResultInvalidValue) // CUDA 13.0 says it of a prefetch
		}
		e.is(driver.ResultInvalidValue, e.api.MemAdvise(ptr, bytes, 99, here))
		e.is(driver.ResultInvalidValue, e.api.MemPrefetchAsync(ptr, bytes, here, 1, s))
	}},
	{"moved by prefetches", func(e *env) {
		e.needs(12020)
		e.needsAttribute(driver.DeviceAttributeConcurrentManagedAccess, "managed memory that the host may use at any time")
		const n = 1 << 18
		f, s := e.function("ramp"), e.stream()
		ptr, r := e.api.MemAllocManaged(4*n, driver.MemAttachGlobal)
		e.ok(r)
		e.Cleanup(func() { e.ok(e.api.MemFree(ptr)) })
		here, host := driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(e.dev)}, driver.MemLocation{Type: driver.MemLocationHost}
		data := unsafe.Slice(*(**uint32)(unsafe.Pointer(&ptr)), n)
		for first := range uint32(3) {
			for i := range data {
				data[i] = 9
			}
			e.ok(e.api.MemPrefetchAsync(ptr, 4*n, here, 0, s))
			e.ok(e.ramp(f, s, ptr, first, n/2))
			e.ok(e.api.MemsetD32Async(ptr+3*n, first, n/8, s))
			e.ok(e.api.MemPrefetchAsync(ptr, 4*n, host, 0, s))
			e.ok(e.api.StreamSynchronize(s))
			assert.Equal(e, rampFrom(first, n/2), append([]uint32(nil), data[:n/2]...))
			assert.Equal(e, []uint32{9, first, first, 9}, []uint32{data[n/2], data[3*n/4], data[7*n/8-1], data[n-1]})
		}
	}},
	{"prefetched in a capture", func(e *env) {
		e.needs(12020)
		e.needsAttribute(driver.DeviceAttributeConcurrentManagedAccess, "managed memory that the host may use at any time")
		s := e.stream()
		ptr, r := e.api.MemAllocManaged(4096, driver.MemAttachGlobal)
		e.ok(r)
		e.Cleanup(func() { e.ok(e.api.MemFree(ptr)) })
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
		e.is(driver.ResultStreamCaptureUnsupported, e.api.MemPrefetchAsync(ptr, 4096, driver.MemLocation{Type: driver.MemLocationHost}, 0, s))
		_, r = e.api.StreamEndCapture(s)
		e.is(driver.ResultStreamCaptureInvalidated, r)
	}},
}
