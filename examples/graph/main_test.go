package main

import (
	"errors"
	"os"
	"os/exec"
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
		gpu.Fail(op, 1, driver.ResultUnknown)
		assert.ErrorIs(t, onGPU(b, make([]float32, 10), 0.1, 0.1), driver.ResultUnknown, op)
		left := rt.Stats() // before Close gives back what was forgotten
		assert.Zero(t, left.Refs+left.Modules+left.Graphs+left.GraphExecs, "%s: %+v", op, left)
		require.NoError(t, rt.Close())
	}
}

// The program itself, in a process that does not look for a driver.
func TestWithoutDriver(t *testing.T) {
	if os.Getenv("TEST_MAIN") != "" {
		main()
		return
	}
	self, err := os.Executable()
	require.NoError(t, err)
	program := exec.Command(self, "-test.run=^TestWithoutDriver$")
	program.Env = append(os.Environ(), "TEST_MAIN=1", "PURECUDA_POLICY=off")
	out, err := program.CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "not on a GPU: DriverLibraryUnavailable: graph backend: no CUDA runtime available")
	assert.Contains(t, string(out), "CPU [100.00 99.01 98.02 97.03 96.04]\n")
}
