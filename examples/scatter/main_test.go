package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

func check(t *testing.T, where pool.Place, options ...runtime.Option) pool.Report {
	t.Helper()
	rt, err := runtime.Open(options...)
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	x := make([]float32, 50_000)
	for i := range x {
		x[i] = float32(i)
	}
	y, report, err := compute(context.Background(), rt, x)
	require.NoError(t, err)
	assert.Equal(t, where, report.Where)
	for i := range y {
		require.Equal(t, float32(3*i+1), y[i])
	}
	return report
}

func TestOnFourDevices(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(4, drivertest.T4())})
	report := check(t, pool.OnGPU, runtime.WithDriver(gpu))
	used := map[int]bool{}
	for _, tile := range report.Tiles {
		used[tile.Device] = true
	}
	assert.Len(t, used, 4)
}

func TestOnTheCPU(t *testing.T) {
	report := check(t, pool.OnCPU, runtime.WithPolicy(runtime.PolicyOff))
	assert.ErrorIs(t, report.Err, driver.ErrDriverLibraryUnavailable)
}

// One device fails every time: the others do its part.
func TestWithADeviceThatFails(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.T4())})
	gpu.Fail("cuLaunchKernel", 1, driver.ResultLaunchOutOfResources)
	check(t, pool.OnGPU, runtime.WithDriver(gpu))
}

func TestOnHardware(t *testing.T) {
	if _, err := runtime.Probe("test"); errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		t.Skip(err)
	}
	check(t, pool.OnGPU)
}
