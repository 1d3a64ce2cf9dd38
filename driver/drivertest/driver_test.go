package drivertest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func TestInitComesFirst(t *testing.T) {
	d := drivertest.New(drivertest.Config{})
	version, r := d.DriverGetVersion()
	assert.Equal(t, driver.Success, r)
	assert.Equal(t, driver.Version(13000), version)
	_, r = d.DeviceGetCount()
	assert.Equal(t, driver.ResultNotInitialized, r)
	_, r = d.MemAlloc(1)
	assert.Equal(t, driver.ResultNotInitialized, r)
	assert.Equal(t, driver.Success, d.Init(0))
	_, r = d.DeviceGetCount()
	assert.Equal(t, driver.Success, r)
	require.NoError(t, d.Close())
	_, r = d.DeviceGetCount()
	assert.Equal(t, driver.ResultDeinitialized, r)
}

func TestMachineWithoutDevice(t *testing.T) {
	d := drivertest.New(drivertest.Config{InitResult: driver.ResultNoDevice})
	assert.Equal(t, driver.ResultNoDevice, d.Init(0))
	_, r := d.DeviceGetCount()
	assert.Equal(t, driver.ResultNotInitialized, r)
}

func TestDevicesAreAsConfigured(t *testing.T) {
	d := drivertest.New(drivertest.Config{Devices: []drivertest.DeviceConfig{
		drivertest.T4(),
		{Name: "toy", Memory: 1 << 20, Attributes: map[driver.DeviceAttribute]int32{driver.DeviceAttributeECCEnabled: 7}},
	}})
	require.Equal(t, driver.Success, d.Init(0))
	count, _ := d.DeviceGetCount()
	assert.EqualValues(t, 2, count)
	name, _ := d.DeviceGetName(1)
	assert.Equal(t, "toy", name)
	bytes, _ := d.DeviceTotalMem(1)
	assert.EqualValues(t, 1<<20, bytes)
	sms, _ := d.DeviceGetAttribute(driver.DeviceAttributeMultiprocessorCount, 0)
	assert.EqualValues(t, 40, sms)
	ecc, _ := d.DeviceGetAttribute(driver.DeviceAttributeECCEnabled, 1)
	assert.EqualValues(t, 7, ecc)
	a, _ := d.DeviceGetUUID(0)
	b, _ := d.DeviceGetUUID(1)
	assert.NotEqual(t, a, b)
}

func TestOldDriversLackFunctions(t *testing.T) {
	g := start(t, drivertest.Config{Version: 11000})
	_, r := g.MemAllocAsync(16, 0)
	g.is(driver.ResultSymbolMissing, r)
	_, _, r = g.LibraryLoadData([]byte(ptx), driver.JIT{})
	g.is(driver.ResultSymbolMissing, r)
	_, r = g.DeviceGetAttribute(driver.DeviceAttributeMemoryPoolsSupported, 0)
	g.is(driver.ResultInvalidValue, r)

	g = start(t, drivertest.Config{Missing: []string{"cuStreamGetId"}})
	_, r = g.StreamGetID(g.stream())
	g.is(driver.ResultSymbolMissing, r)
}

func TestEveryFunctionCanFail(t *testing.T) {
	for _, e := range driver.Entries() {
		d := drivertest.New(drivertest.Config{})
		assert.NotPanics(t, func() { d.Fail(e.Name, 1, driver.ResultUnknown) }, e.Name)
	}
}

func TestFaultsByPlan(t *testing.T) {
	g := start(t, drivertest.Config{})
	g.Fail("cuMemAlloc", 2, driver.ResultOutOfMemory)
	g.alloc(16)
	_, r := g.MemAlloc(16)
	g.is(driver.ResultOutOfMemory, r)
	g.alloc(16)
	assert.Equal(t, 3, g.Calls("cuMemAlloc"))
	g.ResetCalls()
	assert.Zero(t, g.Calls("cuMemAlloc"))
	assert.Panics(t, func() { g.Fail("cuMemAloc", 1, driver.ResultUnknown) })
	assert.Panics(t, func() { g.Fail("cuMemAlloc", 0, driver.ResultUnknown) })
	assert.Panics(t, func() { g.Calls("cuMemAloc") })
}

func TestFaultsByHook(t *testing.T) {
	var seen []string
	g := start(t, drivertest.Config{OnCall: func(op string) driver.Result {
		seen = append(seen, op)
		if op == "cuStreamCreate" {
			return driver.ResultOperatingSystem
		}
		return driver.Success
	}})
	_, r := g.StreamCreate(0)
	g.is(driver.ResultOperatingSystem, r)
	assert.Equal(t, []string{"cuInit", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuStreamCreate"}, seen)
}

func TestInjectedStickyResultPoisons(t *testing.T) {
	g := start(t, drivertest.Config{})
	s := g.stream()
	g.Fail("cuStreamSynchronize", 1, driver.ResultLaunchFailed)
	g.is(driver.ResultLaunchFailed, g.StreamSynchronize(s))
	_, r := g.MemAlloc(16)
	g.is(driver.ResultLaunchFailed, r)
	g.is(driver.ResultLaunchFailed, g.Sticky())
}

func TestHotPathNeedsContext(t *testing.T) {
	g := start(t, drivertest.Config{HotPathNeedsContext: true})
	s := g.stream()
	g.ok(g.StreamQuery(s))
	_, r := g.CtxPopCurrent()
	g.ok(r)
	g.is(driver.ResultInvalidContext, g.StreamQuery(s))
	g.is(driver.ResultInvalidContext, g.MemsetD8Async(0, 0, 0, s))
	_, _, r = g.LibraryLoadData([]byte(ptx), driver.JIT{})
	g.ok(r)
}

func TestUnsupported(t *testing.T) {
	g := start(t, drivertest.Config{})
	_, r := g.IpcGetEventHandle(0)
	g.is(driver.ResultNotSupported, r)
	_, r = g.IpcOpenEventHandle(driver.IpcEventHandle{})
	g.is(driver.ResultNotSupported, r)
	_, r = g.OccupancyMaxActiveClusters(0, driver.Dim3{}, driver.Dim3{}, 0, nil)
	g.is(driver.ResultNotSupported, r)
	_, r = g.OccupancyMaxPotentialClusterSize(0, driver.Dim3{}, driver.Dim3{}, 0, nil)
	g.is(driver.ResultNotSupported, r)
}
