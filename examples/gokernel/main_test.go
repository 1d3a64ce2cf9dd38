package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// TestSaxpy runs the kernel on a GPU, and the same function on the CPU.
func TestSaxpy(t *testing.T) {
	t.Run("simulated", func(t *testing.T) {
		rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})))
		require.NoError(t, err)
		defer func() { assert.NoError(t, rt.Close()) }()
		compare(t, rt)
	})
	t.Run("hardware", func(t *testing.T) {
		if _, err := runtime.Probe("test"); errors.Is(err, driver.ErrDriverLibraryUnavailable) {
			t.Skip(err)
		}
		compare(t, runtime.Global())
	})
}

func compare(t *testing.T, rt *runtime.Runtime) {
	shape := runtime.Linear(1000, 256)
	x, onGPU, onCPU := make([]float32, 1000), make([]float32, 1000), make([]float32, 1000)
	for i := range x {
		x[i] = float32(i) / 3
	}
	place, err := SaxpyAuto(context.Background(), rt, shape, 2, x, onGPU)
	require.NoError(t, err)
	assert.True(t, place.GPU)
	require.NoError(t, SaxpyCPU(shape, 2, x, onCPU))
	assert.Equal(t, onCPU, onGPU)
}
