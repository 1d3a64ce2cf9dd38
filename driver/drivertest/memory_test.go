package drivertest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func TestMemoryIsCountedExactly(t *testing.T) {
	g := start(t, drivertest.Config{Devices: []drivertest.DeviceConfig{{Memory: 1000}}})
	free := func() uint64 {
		f, total, r := g.MemGetInfo()
		g.ok(r)
		assert.EqualValues(t, 1000, total)
		return f
	}
	a := g.alloc(600)
	assert.EqualValues(t, 400, free())
	_, r := g.MemAlloc(401)
	g.is(driver.ResultOutOfMemory, r)
	b := g.alloc(400)
	assert.Zero(t, free())
	g.ok(g.MemFree(a))
	g.ok(g.MemFree(b))
	assert.EqualValues(t, 1000, free())
}

func TestLargeMemoryCostsNothingUntilItIsUsed(t *testing.T) {
	g := start(t, drivertest.Config{})
	ptr := g.alloc(70 << 30)
	base, bytes, r := g.MemGetAddressRange(ptr + 69<<30)
	g.ok(r)
	assert.Equal(t, ptr, base)
	assert.EqualValues(t, uint64(70<<30), bytes)
	_, r = g.MemAlloc(11 << 30)
	g.is(driver.ResultOutOfMemory, r)
}

func TestFreshMemoryIsNotZero(t *testing.T) {
	g := start(t, drivertest.Config{})
	var got [64]byte
	g.ok(g.MemcpyDtoH(pointer(&got), g.alloc(64), 64))
	assert.Equal(t, byte(0xCD), got[0])
	assert.Equal(t, byte(0xCD), got[63])
}

func TestAddressesAreNotUsedTwice(t *testing.T) {
	g := start(t, drivertest.Config{})
	seen := map[driver.DevicePtr]bool{}
	for range 100 {
		ptr := g.alloc(100)
		assert.False(t, seen[ptr])
		assert.Zero(t, ptr%256)
		assert.NotZero(t, ptr%512, "no more than what is promised")
		seen[ptr] = true
		g.ok(g.MemFree(ptr))
	}
}

func TestMisuseOfMemoryIsFound(t *testing.T) {
	host := make([]byte, 1024)
	for _, c := range []struct {
		name   string
		do     func(g *gpu, ptr driver.DevicePtr) driver.Result
		detail string
	}{
		{"overrun", func(g *gpu, ptr driver.DevicePtr) driver.Result { return g.MemcpyHtoD(ptr+32, pointer(&host[0]), 100) },
			"32 bytes beyond the end"},
		{"behind", func(g *gpu, ptr driver.DevicePtr) driver.Result { return g.MemcpyHtoD(ptr+110, pointer(&host[0]), 1) },
			"10 bytes behind the end"},
		{"nowhere", func(g *gpu, ptr driver.DevicePtr) driver.Result { return g.MemcpyHtoD(ptr+1<<40, pointer(&host[0]), 1) },
			"no allocation is there"},
		{"null", func(g *gpu, _ driver.DevicePtr) driver.Result { return g.MemsetD8(0, 1, 1) },
			"neither device memory nor page-locked"},
		{"after free", func(g *gpu, ptr driver.DevicePtr) driver.Result {
			g.ok(g.MemFree(ptr))
			return g.MemcpyDtoH(pointer(&host[0]), ptr+4, 1)
		}, "the memory is freed"},
		{"double free", func(g *gpu, ptr driver.DevicePtr) driver.Result {
			g.ok(g.MemFree(ptr))
			return g.MemFree(ptr)
		}, "freed twice"},
		{"double free on a stream", func(g *gpu, _ driver.DevicePtr) driver.Result {
			s := g.stream()
			ptr, r := g.MemAllocAsync(100, s)
			g.ok(r)
			g.ok(g.MemFreeAsync(ptr, s))
			return g.MemFreeAsync(ptr, s)
		}, "freed twice"},
		{"interior free", func(g *gpu, ptr driver.DevicePtr) driver.Result { return g.MemFree(ptr + 8) },
			"inside an allocation"},
		{"stray free", func(g *gpu, _ driver.DevicePtr) driver.Result { return g.MemFree(77) },
			"that no allocation has"},
		{"nil host", func(g *gpu, ptr driver.DevicePtr) driver.Result { return g.MemcpyHtoD(ptr, nil, 1) },
			"the host pointer is nil"},
		{"huge", func(g *gpu, ptr driver.DevicePtr) driver.Result { return g.MemcpyHtoD(ptr, pointer(&host[0]), 1<<63) },
			"beyond the end"},
		{"unaligned", func(g *gpu, ptr driver.DevicePtr) driver.Result { return g.MemsetD32(ptr+1, 0, 1) },
			"not a multiple of 4"},
		{"host pointer as number", func(g *gpu, ptr driver.DevicePtr) driver.Result { return g.Memcpy(ptr, 0x1000, 8) },
			"neither device memory nor page-locked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, drivertest.Config{})
			g.is(driver.ResultInvalidValue, c.do(g, g.alloc(100)))
			f := g.finding()
			assert.Contains(t, f.Detail, c.detail)
			assert.Contains(t, f.Where, "memory_test.go")
			assert.Contains(t, f.String(), f.Op)
		})
	}
}

func TestFindingsNameTheAllocation(t *testing.T) {
	g := start(t, drivertest.Config{})
	ptr := g.alloc(100)
	g.ok(g.MemFree(ptr))
	g.is(driver.ResultInvalidValue, g.MemFree(ptr))
	f := g.finding()
	assert.Contains(t, f.Allocation, "100 bytes of device memory")
	assert.Contains(t, f.Allocation, "from cuMemAlloc at util_test.go")
	assert.Contains(t, f.Allocation, "freed by cuMemFree at memory_test.go")
}

func TestPageLockedMemory(t *testing.T) {
	g := start(t, drivertest.Config{HostMemory: 10000})
	ptr, r := g.MemHostAlloc(4096, 0)
	g.ok(r)
	assert.Zero(t, uintptr(ptr)%4096)
	_, r = g.MemHostAlloc(8192, 0)
	g.is(driver.ResultOutOfMemory, r)
	_, r = g.MemHostAlloc(1<<63, 0)
	g.is(driver.ResultOutOfMemory, r)
	dev := g.alloc(8192)
	g.is(driver.ResultInvalidValue, g.MemcpyHtoD(dev, ptr, 5000)) // overruns
	g.ok(g.MemFreeHost(ptr))
	g.is(driver.ResultInvalidValue, g.MemFreeHost(ptr))
	_, r = g.MemHostAlloc(8192, 0)
	g.ok(r)
}

func TestUseAfterFreeOnTheDevicePoisons(t *testing.T) {
	g := start(t, drivertest.Config{})
	s, ptr := g.stream(), g.alloc(64)
	gate := make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-gate }))
	g.ok(g.MemsetD8Async(ptr, 1, 64, s))
	g.ok(g.MemFree(ptr))
	close(gate)
	g.is(driver.ResultIllegalAddress, g.StreamSynchronize(s))
	f := g.finding()
	assert.Equal(t, "cuMemsetD8Async", f.Op)
	assert.Contains(t, f.Detail, "the memory is freed")
}

func TestUseBeforeTheAllocationIsReached(t *testing.T) {
	g := start(t, drivertest.Config{})
	s, other := g.stream(), g.stream()
	gate := make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-gate }))
	ptr, r := g.MemAllocAsync(64, s)
	g.ok(r)
	g.ok(g.MemsetD8Async(ptr, 1, 64, other))
	g.is(driver.ResultIllegalAddress, g.StreamSynchronize(other))
	close(gate)
	assert.Contains(t, g.finding().Detail, "before the stream has reached the allocation")
}

func TestPools(t *testing.T) {
	g := start(t, drivertest.Config{Devices: []drivertest.DeviceConfig{{Memory: 1000}}})
	s := g.stream()
	pool, r := g.MemPoolCreate(driver.MemPoolProps{AllocType: driver.MemAllocationPinned, MaxBytes: 500,
		Location: driver.MemLocation{Type: driver.MemLocationDevice}})
	g.ok(r)
	g.ok(g.MemPoolSetAttribute(pool, driver.MemPoolReleaseThreshold, 300))
	a, r := g.MemAllocFromPoolAsync(400, pool, s)
	g.ok(r)
	_, r = g.MemAllocFromPoolAsync(101, pool, s)
	g.is(driver.ResultOutOfMemory, r)
	g.ok(g.MemFreeAsync(a, s))
	g.ok(g.StreamSynchronize(s))
	get := func(attribute driver.MemPoolAttribute) uint64 {
		value, r := g.MemPoolGetAttribute(pool, attribute)
		g.ok(r)
		return value
	}
	assert.Zero(t, get(driver.MemPoolUsedMemCurrent))
	assert.EqualValues(t, 400, get(driver.MemPoolUsedMemHigh))
	assert.EqualValues(t, 300, get(driver.MemPoolReservedMemCurrent))
	assert.EqualValues(t, 400, get(driver.MemPoolReservedMemHigh))
	free, _, r := g.MemGetInfo()
	g.ok(r)
	assert.EqualValues(t, 700, free)
	g.alloc(1000) // takes back what the pool keeps
	assert.Zero(t, get(driver.MemPoolReservedMemCurrent))
	g.is(driver.ResultInvalidValue, g.MemPoolSetAttribute(pool, driver.MemPoolUsedMemCurrent, 0))
	g.ok(g.MemPoolSetAttribute(pool, driver.MemPoolUsedMemHigh, 0))
	assert.Zero(t, get(driver.MemPoolUsedMemHigh))
	g.ok(g.MemPoolDestroy(pool))
	g.is(driver.ResultInvalidValue, g.MemPoolDestroy(pool))
}

func TestDestroyedPoolLivesAsLongAsItsMemory(t *testing.T) {
	g := start(t, drivertest.Config{})
	s := g.stream()
	pool, r := g.MemPoolCreate(driver.MemPoolProps{AllocType: driver.MemAllocationPinned,
		Location: driver.MemLocation{Type: driver.MemLocationDevice}})
	g.ok(r)
	ptr, r := g.MemAllocFromPoolAsync(100, pool, s)
	g.ok(r)
	g.ok(g.MemPoolDestroy(pool))
	g.ok(g.MemsetD8Async(ptr, 1, 100, s))
	g.ok(g.MemFreeAsync(ptr, s))
	g.ok(g.StreamSynchronize(s))
	free, total, r := g.MemGetInfo()
	g.ok(r)
	assert.Equal(t, total, free)
}

func TestDeviceWithoutPools(t *testing.T) {
	g := start(t, drivertest.Config{Devices: []drivertest.DeviceConfig{{NoPools: true}}})
	has, r := g.DeviceGetAttribute(driver.DeviceAttributeMemoryPoolsSupported, 0)
	g.ok(r)
	assert.Zero(t, has)
	_, r = g.MemAllocAsync(16, g.stream())
	g.is(driver.ResultNotSupported, r)
}
