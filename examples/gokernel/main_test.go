package main

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/gputest"
	"github.com/purecuda/purecuda/runtime"
)

func TestReadmeShowsThisProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	assert.Contains(t, string(readme), "```go\n"+string(program)+"```\n")
}

// TestSaxpy runs the kernel on a GPU, and compares with the function itself.
func TestSaxpy(t *testing.T) {
	t.Run("simulated", func(t *testing.T) { compare(t, gputest.Runtime(t)) })
	t.Run("hardware", func(t *testing.T) {
		if _, err := runtime.Probe("test"); errors.Is(err, driver.ErrDriverLibraryUnavailable) {
			t.Skip(err)
		}
		compare(t, runtime.Global())
	})
}

func compare(t *testing.T, rt *runtime.Runtime) {
	x, want := make([]float32, 1000), make([]float32, 1000)
	for i := range x {
		x[i] = float32(i) / 3
	}
	require.NoError(t, gpu.Run(gpu.Shape1D(1000, 256), func(t *gpu.Thread) { Saxpy(t, 2, x, want) }))
	onGPU, onCPU := make([]float32, 1000), make([]float32, 1000)
	place, err := SaxpyAuto(t.Context(), rt, runtime.Shape1D(1000, 256), 2, x, onGPU)
	require.NoError(t, err)
	assert.True(t, place.GPU)
	assert.Equal(t, want, onGPU)
	require.NoError(t, SaxpyCPU(runtime.Shape1D(1000, 256), 2, x, onCPU))
	assert.Equal(t, want, onCPU)
}
