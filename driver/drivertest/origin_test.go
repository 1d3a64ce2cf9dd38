package drivertest_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// What a program made through package runtime leaks with the program's line.
func TestLeaksNameTheProgram(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	c, err := rt.Context(0)
	require.NoError(t, err)
	image, err := os.ReadFile("../../runtime/testdata/kernels.ptx")
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	_, err = c.NewEvent()
	require.NoError(t, err)
	_, err = c.LoadModule(runtime.Image{Code: image})
	require.NoError(t, err)
	_, err = runtime.AllocHost[byte](c, 100)
	require.NoError(t, err)
	_, err = runtime.Alloc[byte](s, 100)
	require.NoError(t, err)
	g, err := s.Capture(func(*runtime.Stream) error { return nil })
	require.NoError(t, err)
	_, err = g.Instantiate()
	require.NoError(t, err)

	leaks := gpu.Leaks()
	for _, what := range []string{"stream", "event", "module", "host memory", "device memory", "executable graph", "memory pool", "primary context"} {
		contains(t, leaks, what)
	}
	for _, leak := range leaks {
		assert.Contains(t, leak, " at origin_test.go:", leak)
	}
	gpu.Close()
}

// What a device took when it vanished is no leak. What the program closed on another one is
// none either, and what it did not is.
func TestLeaksAfterADeviceVanished(t *testing.T) {
	g := start(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	healthy, r := g.DevicePrimaryCtxRetain(1)
	g.ok(r)
	make3 := func() (driver.DevicePtr, driver.Stream, driver.MemPool) {
		ordinal, r := g.CtxGetDevice()
		g.ok(r)
		pool, r := g.MemPoolCreate(driver.MemPoolProps{AllocType: driver.MemAllocationPinned,
			Location: driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(ordinal)}})
		g.ok(r)
		return g.alloc(100), g.stream(), pool
	}
	make3() // on device 0
	g.ok(g.CtxPushCurrent(healthy))
	ptr, s, pool := make3()
	g.Vanish(0)
	leaks := g.Leaks()
	assert.Len(t, leaks, 4)
	contains(t, leaks, "primary context of device 1")
	g.ok(g.MemFree(ptr))
	g.ok(g.StreamDestroy(s))
	g.ok(g.MemPoolDestroy(pool))
	g.ok(g.DevicePrimaryCtxRelease(1))
	assert.Empty(t, g.Leaks())
}
