package main

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

func TestOnGPU(t *testing.T) {
	rod := make([]float32, 60)
	rod[0], rod[59] = 100, 50
	want := slices.Clone(rod)
	onCPU(want, 0.25, 0.4)
	check := func(t *testing.T, b *runtime.Backend) {
		got := slices.Clone(rod)
		require.NoError(t, onGPU(b, got, 0.25, 0.4))
		assert.InDeltaSlice(t, want, got, 1e-3)
	}
	t.Run("simulated", func(t *testing.T) {
		rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})))
		require.NoError(t, err)
		defer func() { assert.NoError(t, rt.Close()) }()
		b, err := rt.Probe("test")
		require.NoError(t, err)
		check(t, b)
	})
	t.Run("hardware", func(t *testing.T) {
		b, err := runtime.Probe("test")
		if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
			t.Skip(err)
		}
		require.NoError(t, err)
		check(t, b)
	})
}

// Every call can fail, and nothing is left behind then.
func TestOnGPUWithFaults(t *testing.T) {
	for _, op := range []string{"cuStreamBeginCapture", "cuLaunchKernel", "cuStreamEndCapture",
		"cuGraphInstantiateWithFlags", "cuGraphLaunch", "cuGraphExecUpdate"} {
		gpu := drivertest.ForTest(t, drivertest.Config{})
		rt, err := runtime.Open(runtime.WithDriver(gpu))
		require.NoError(t, err)
		b, err := rt.Probe("test")
		require.NoError(t, err)
		gpu.Fail(op, 1, driver.ErrorUnknown)
		assert.ErrorIs(t, onGPU(b, make([]float32, 10), 0.1, 0.1), driver.ErrorUnknown, op)
		require.NoError(t, rt.Close())
	}
}
