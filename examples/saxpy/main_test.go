package main

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

func TestOnGPU(t *testing.T) {
	check := func(t *testing.T, b *runtime.Backend) {
		x, y := []float32{1, 2, 3, 4}, []float32{10, 20, 30, 40}
		require.NoError(t, onGPU(b, x, y))
		assert.Equal(t, []float32{12, 24, 36, 48}, y)
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
	assert.Contains(t, string(out), "not on a GPU: DriverLibraryUnavailable: saxpy backend: no CUDA runtime available")
	assert.Contains(t, string(out), "CPU [12 24 36 48]\n")
}
