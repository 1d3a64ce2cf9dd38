package drivertest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

const chunk = 2 << 20

// physical describes memory of a device.
func physical(ordinal int32, handles driver.MemHandleType) driver.MemAllocationProps {
	return driver.MemAllocationProps{Type: driver.MemAllocationPinned, HandleTypes: handles,
		Location: driver.MemLocation{Type: driver.MemLocationDevice, ID: ordinal}}
}

// mapped maps chunks of new memory side by side, and lets device 0 use those up to open.
func (g *gpu) mapped(chunks, open int) driver.DevicePtr {
	g.t.Helper()
	ptr, r := g.MemAddressReserve(uint64(chunks)*chunk, 0, 0, 0)
	g.ok(r)
	for i := range chunks {
		h, r := g.MemCreate(chunk, physical(0, 0), 0)
		g.ok(r)
		at := ptr + driver.DevicePtr(i*chunk)
		g.ok(g.MemMap(at, chunk, 0, h, 0))
		if i < open {
			g.ok(g.allow(at, 0))
		}
		g.ok(g.MemRelease(h))
	}
	return ptr
}

// allow lets a device use a chunk.
func (g *gpu) allow(ptr driver.DevicePtr, ordinal int32) driver.Result {
	return g.MemSetAccess(ptr, chunk, []driver.MemAccess{{Flags: driver.MemAccessReadWrite,
		Location: driver.MemLocation{Type: driver.MemLocationDevice, ID: ordinal}}})
}

func TestVirtualMemoryThatIsNotThere(t *testing.T) {
	for _, c := range []struct {
		name   string
		ptr    func(g *gpu) driver.DevicePtr
		detail string
	}{
		{"reserved only", func(g *gpu) driver.DevicePtr {
			ptr, r := g.MemAddressReserve(chunk, 0, 0, 0)
			g.ok(r)
			return ptr
		}, "the addresses are reserved, and nothing is mapped there"},
		{"no access", func(g *gpu) driver.DevicePtr { return g.mapped(1, 0) }, "no device has access to what is mapped there: see cuMemSetAccess"},
		{"unmapped", func(g *gpu) driver.DevicePtr {
			ptr := g.mapped(1, 1)
			g.ok(g.MemUnmap(ptr, chunk))
			return ptr
		}, "the memory is freed"},
		{"the second part without access", func(g *gpu) driver.DevicePtr { return g.mapped(2, 1) + chunk - 4 },
			"no device has access to what is mapped there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, drivertest.Config{})
			ptr := c.ptr(g)
			g.is(driver.ResultInvalidValue, g.MemsetD8(ptr, 0, 8))
			assert.Contains(t, g.finding().Detail, c.detail)
		})
		t.Run(c.name+", in a kernel", func(t *testing.T) {
			g := start(t, drivertest.Config{})
			ptr, n := c.ptr(g), uint32(2)
			g.ok(g.launch(g.function("add_one"), g.stream(), pointer(&ptr), pointer(&n)))
			g.is(driver.ResultIllegalAddress, g.CtxSynchronize())
			g.finding()
		})
	}
}

func TestVirtualMemoryOfAnotherDevice(t *testing.T) {
	for _, apart := range []bool{false, true} {
		device := drivertest.H100()
		device.NoPeers = apart
		g := start(t, drivertest.Config{Devices: drivertest.Devices(2, device)})
		ptr := g.mapped(1, 1)
		if apart {
			g.is(driver.ResultInvalidDevice, g.allow(ptr, 1))
			continue
		}
		g.is(driver.ResultInvalidDevice, g.allow(ptr, 2))
		g.ok(g.allow(ptr, 1))
		other, r := g.DevicePrimaryCtxRetain(1)
		g.ok(r)
		g.ok(g.CtxPushCurrent(other))
		f, n := g.function("add_one"), uint32(1)
		g.ok(g.launch(f, g.stream(), pointer(&ptr), pointer(&n)))
		g.ok(g.CtxSynchronize())
		none := driver.MemAccess{Location: driver.MemLocation{Type: driver.MemLocationDevice, ID: 1}}
		g.ok(g.MemSetAccess(ptr, chunk, []driver.MemAccess{none}))
		g.ok(g.launch(f, g.stream(), pointer(&ptr), pointer(&n)))
		g.is(driver.ResultIllegalAddress, g.CtxSynchronize())
		assert.Contains(t, g.finding().Detail, "device 1 has no access to memory of device 0")
	}
}

func TestVirtualMemoryIsMissed(t *testing.T) {
	g := start(t, drivertest.Config{})
	g.mapped(1, 1)
	h, r := g.MemCreate(chunk, physical(0, 0), 0)
	g.ok(r)
	_, r = g.ArrayCreate(driver.ArrayDescriptor{Width: 8, Format: driver.ArrayFloat, Channels: 1})
	g.ok(r)
	_, r = g.MemAllocManaged(100, driver.MemAttachGlobal)
	g.ok(r)
	for _, want := range []string{"2097152 bytes of device memory mapped at", "2097152 bytes reserved at", "2097152 bytes of physical memory",
		"array 0x", "100 bytes of page-locked host memory"} {
		contains(t, g.Leaks(), want)
	}
	g.ok(g.MemRelease(h))
	g.is(driver.ResultInvalidValue, g.MemRelease(h))
	assert.Contains(t, g.finding().Detail, "was destroyed by cuMemRelease")
}

func TestVirtualMemoryIsNotFreedInTheWrongOrder(t *testing.T) {
	g := start(t, drivertest.Config{})
	ptr := g.mapped(2, 2)
	g.is(driver.ResultInvalidValue, g.MemAddressFree(ptr, 2*chunk))
	assert.Contains(t, g.finding().Detail, "freed addresses that memory is mapped to")
	g.is(driver.ResultInvalidValue, g.MemUnmap(ptr, chunk/2))
	g.is(driver.ResultInvalidValue, g.MemUnmap(ptr, 3*chunk))
	g.ok(g.MemUnmap(ptr+chunk, chunk))
	g.ok(g.MemUnmap(ptr, chunk))
	g.is(driver.ResultInvalidValue, g.MemAddressFree(ptr, chunk))
	g.ok(g.MemAddressFree(ptr, 2*chunk))
	assert.Empty(t, g.Leaks()[1:], "only the context")
	before, _, r := g.MemGetInfo()
	g.ok(r)
	aligned, r := g.MemAddressReserve(chunk, 1<<30, 0, 0)
	g.ok(r)
	assert.Zero(t, aligned%(1<<30))
	_, r = g.MemAddressReserve(chunk, 3, 0, 0)
	g.is(driver.ResultInvalidValue, r)
	after, _, r := g.MemGetInfo()
	g.ok(r)
	assert.Equal(t, before, after, "addresses take no memory")
}

func TestDeviceWithout(t *testing.T) {
	without := func(a driver.DeviceAttribute) *gpu {
		return start(t, drivertest.Config{Devices: []drivertest.DeviceConfig{{Attributes: map[driver.DeviceAttribute]int32{a: 0}}}})
	}
	g := without(driver.DeviceAttributeVirtualAddressManagementSupported)
	_, r := g.MemCreate(chunk, physical(0, 0), 0)
	g.is(driver.ResultNotSupported, r)
	_, r = g.MemGetAllocationGranularity(physical(0, 0), driver.MemGranularityMinimum)
	g.is(driver.ResultNotSupported, r)
	g = without(driver.DeviceAttributeHandleTypePosixFileDescriptorSupported)
	_, r = g.MemCreate(chunk, physical(0, driver.MemHandlePosixFD), 0)
	g.is(driver.ResultNotSupported, r)
	g = without(driver.DeviceAttributeManagedMemory)
	_, r = g.MemAllocManaged(chunk, driver.MemAttachGlobal)
	g.is(driver.ResultNotSupported, r)
}

// A function in Go has one slice, which mappings side by side are not.
func TestKernelInGoAcrossMappings(t *testing.T) {
	g := start(t, drivertest.Config{})
	ptr, n := g.mapped(2, 2)+chunk-4, uint32(2)
	g.ok(g.launch(g.function("add_one"), g.stream(), pointer(&ptr), pointer(&n)))
	g.is(driver.ResultIllegalAddress, g.CtxSynchronize())
	assert.Contains(t, g.finding().Detail, "4 bytes beyond the end of the allocation: a kernel in Go reaches one mapping at a time")
}

func TestManagedMemoryHasALimit(t *testing.T) {
	g := start(t, drivertest.Config{HostMemory: 1 << 20})
	ptr, r := g.MemAllocManaged(1<<19, driver.MemAttachHost)
	g.ok(r)
	_, r = g.MemAllocManaged(1<<20, driver.MemAttachGlobal)
	g.is(driver.ResultOutOfMemory, r)
	require.NotZero(t, ptr)
	g.is(driver.ResultInvalidValue, g.MemFree(ptr+1))
	g.ok(g.MemFree(ptr))
	ptr, r = g.MemAllocManaged(1<<20, driver.MemAttachGlobal)
	g.ok(r)
	s := g.stream()
	g.ok(g.StreamBeginCapture(s, driver.CaptureThreadLocal))
	here := driver.MemLocation{Type: driver.MemLocationDevice}
	g.is(driver.ResultStreamCaptureUnsupported, g.MemPrefetchAsync(ptr, 1, here, 0, s))
	_, r = g.StreamEndCapture(s)
	g.is(driver.ResultStreamCaptureInvalidated, r)
	g.is(driver.ResultInvalidValue, g.MemPrefetchAsync(ptr+1, 1<<20, here, 0, s))
	g.is(driver.ResultInvalidValue, g.MemPrefetchAsync(ptr, 1, driver.MemLocation{}, 0, s))
	g.ok(g.MemFree(ptr))
}

// Mistakes with managed memory are found where they are made, or when the stream comes to them.
func TestManagedMemoryIsChecked(t *testing.T) {
	apart := drivertest.H100()
	apart.Attributes = map[driver.DeviceAttribute]int32{driver.DeviceAttributeConcurrentManagedAccess: 0}
	g := start(t, drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.H100(), apart}})
	ptr, r := g.MemAllocManaged(4096, driver.MemAttachGlobal)
	g.ok(r)
	s, plain := g.stream(), g.alloc(64)
	device := func(ordinal int32) driver.MemLocation {
		return driver.MemLocation{Type: driver.MemLocationDevice, ID: ordinal}
	}
	latest := func() drivertest.Finding {
		all := g.Findings()
		require.NotEmpty(t, all)
		return all[len(all)-1]
	}
	for _, test := range []struct {
		ptr      driver.DevicePtr
		bytes    uint64
		location driver.MemLocation
		want     driver.Result
		text     string
	}{
		{plain, 64, device(0), driver.ResultInvalidValue, "are not managed memory"},
		{ptr, 4097, device(0), driver.ResultInvalidValue, "want 1 or more, within the allocation"},
		{ptr + 4000, 97, device(0), driver.ResultInvalidValue, "want 1 or more, within the allocation"},
		{ptr, 0, device(0), driver.ResultInvalidValue, "want 1 or more"},
		{ptr, 1, driver.MemLocation{Type: 9}, driver.ResultInvalidValue, "location of type 9"},
		{ptr, 1, device(2), driver.ResultInvalidDevice, "location on device 2 of 2"},
		{ptr, 1, device(-1), driver.ResultInvalidDevice, "location on device -1 of 2"},
		{ptr, 1, device(1), driver.ResultInvalidDevice, "device 1 has no concurrent managed access"},
	} {
		g.is(test.want, g.MemPrefetchAsync(test.ptr, test.bytes, test.location, 0, s))
		assert.Contains(t, latest().Detail, test.text)
		g.is(test.want, g.MemAdvise(test.ptr, test.bytes, driver.MemAdviseSetAccessedBy, test.location))
		assert.Contains(t, latest().Detail, test.text)
	}
	g.ok(g.MemAdvise(ptr, 4096, driver.MemAdviseSetReadMostly, device(7)))

	release := make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-release }))
	g.ok(g.MemPrefetchAsync(ptr, 4096, device(0), 0, s))
	g.ok(g.MemFree(ptr))
	close(release)
	g.is(driver.ResultIllegalAddress, g.StreamSynchronize(s))
	assert.Contains(t, latest().Allocation, "freed by cuMemFree")
}

func TestArrayIsCounted(t *testing.T) {
	g := start(t, drivertest.Config{})
	before, _, r := g.MemGetInfo()
	g.ok(r)
	a, r := g.Array3DCreate(driver.Array3DDescriptor{Width: 10, Height: 10, Depth: 10, Format: driver.ArrayFloat, Channels: 4})
	g.ok(r)
	during, _, _ := g.MemGetInfo()
	assert.EqualValues(t, 16000, before-during)
	g.ok(g.ArrayDestroy(a))
	g.is(driver.ResultInvalidHandle, g.ArrayDestroy(a))
	assert.Contains(t, g.finding().Detail, "the array")
	_, r = g.Array3DCreate(driver.Array3DDescriptor{Width: 8, Height: 8, Depth: 6, Format: driver.ArrayFloat, Channels: 4, Flags: 4})
	g.is(driver.ResultNotSupported, r)
	_, r = g.ArrayCreate(driver.ArrayDescriptor{Width: 8, Height: 8, Format: driver.ArrayFloat, Channels: 4})
	g.ok(r)
	g.ok(g.DevicePrimaryCtxReset(0))
	_, r = g.DevicePrimaryCtxRetain(0)
	g.ok(r)
	assert.Len(t, g.Leaks(), 1, "only the context")
}
