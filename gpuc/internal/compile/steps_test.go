package compile_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/steps"
	"github.com/purecuda/purecuda/kernels"
)

// stepsDevice has the kernels of testdata/steps.
func stepsDevice(t *testing.T) *device.Device {
	t.Helper()
	load := func() *compile.Program { return program(t, "../testdata/steps") }
	return device.Open(t, device.Compile(t, load, "steps", compile.Options{Arch: 80, Checks: compile.ChecksReport}))
}

// stepShape is the shape of a step that computes m x n elements in tiles, by blocks of threads.
func stepShape(m, n, tile int, block gpu.Dim3) gpu.Shape {
	return gpu.Shape{Grid: gpu.Dim3{X: n / tile, Y: m / tile}, Block: block}
}

// TestSteps runs the kernels of docs/matrix-product.md. Their sums are exact, so each has the bits of kernels.GemmCPU.
func TestSteps(t *testing.T) {
	d := stepsDevice(t)
	plain := func(f func(t *gpu.Thread, a, b, c []gpu.BFloat16, n, k int)) func(t *gpu.Thread, a []any) {
		return func(t *gpu.Thread, a []any) {
			f(t, as[[]gpu.BFloat16](a, 0), as[[]gpu.BFloat16](a, 1), as[[]gpu.BFloat16](a, 2), as[int](a, 3), as[int](a, 4))
		}
	}
	chunks := func(f func(t *gpu.Thread, a, b []gpu.Uint4, c []gpu.BFloat16, n, k int)) func(t *gpu.Thread, a []any) {
		return func(t *gpu.Thread, a []any) {
			f(t, as[[]gpu.Uint4](a, 0), as[[]gpu.Uint4](a, 1), as[[]gpu.BFloat16](a, 2), as[int](a, 3), as[int](a, 4))
		}
	}
	for name, step := range map[string]struct {
		tile  int
		block gpu.Dim3
		cpu   func(t *gpu.Thread, a []any)
	}{
		"Loop":      {16, gpu.Dim3{X: 16, Y: 16}, plain(steps.Loop)},
		"Tiles":     {16, gpu.Dim3{X: 16, Y: 16}, plain(steps.Tiles)},
		"Fragments": {64, gpu.Dim3{X: 128}, chunks(steps.Fragments)},
		"Pipeline":  {64, gpu.Dim3{X: 128}, chunks(steps.Pipeline)},
	} {
		for _, size := range [][3]int{{64, 64, 32}, {64, 128, 64}, {128, 64, 160}} {
			m, n, k := size[0], size[1], size[2]
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				half := func(r *rand.Rand) gpu.BFloat16 { return gpu.ToBFloat16(eighths(r)) }
				a, b, want := numbers(m*k, half), numbers(n*k, half), make([]gpu.BFloat16, m*n)
				require.NoError(t, kernels.GemmCPU(m, n, k, a, b, want))
				shape := stepShape(m, n, step.tile, step.block)
				c := make([]gpu.BFloat16, m*n)
				args := []any{a, b, c, n, k}
				if step.tile == 64 {
					args[0], args[1] = gpu.View[gpu.Uint4](a), gpu.View[gpu.Uint4](b)
				}
				d.Same(t, name, shape, step.cpu, args...)
				_, err := d.Run(name, shape, args...)
				require.NoError(t, err)
				assert.Equal(t, want, c)
			})
		}
	}
}

// TestTimesOfStepsOnHardware prints how fast each step is: the median of 3 launches, at the size that libs/cublas times cuBLAS at.
func TestTimesOfStepsOnHardware(t *testing.T) {
	if !device.Hardware() {
		t.Skip(hardware.RequireVariable + " is not set, so that the kernels run on the simulated driver")
	}
	const n = 8192
	d := stepsDevice(t)
	x := numbers(n*n, func(r *rand.Rand) gpu.BFloat16 { return gpu.ToBFloat16(eighths(r)) }) // zeros would need less power
	a, err := d.Upload(x, x, make([]gpu.BFloat16, n*n), n, n)
	require.NoError(t, err)
	defer a.Close()
	quads, err := d.Upload(gpu.View[gpu.Uint4](x), gpu.View[gpu.Uint4](x), make([]gpu.BFloat16, n*n), n, n)
	require.NoError(t, err)
	defer quads.Close()
	for _, step := range []struct {
		name  string
		shape gpu.Shape
		args  *device.Args
	}{
		{"Loop", stepShape(n, n, 16, gpu.Dim3{X: 16, Y: 16}), a}, {"Tiles", stepShape(n, n, 16, gpu.Dim3{X: 16, Y: 16}), a},
		{"Fragments", stepShape(n, n, 64, gpu.Dim3{X: 128}), quads}, {"Pipeline", stepShape(n, n, 64, gpu.Dim3{X: 128}), quads},
	} {
		var all []float64
		for range 3 {
			took, err := d.Time(1, step.name, step.shape, step.args)
			require.NoError(t, err)
			all = append(all, 2*n*n*n/took.Seconds()/1e12)
		}
		slices.Sort(all)
		fmt.Printf("step %-10s %d: %.2f TFLOP/s\n", step.name, n, all[len(all)/2])
	}
}

// TestStepsAreDocumented looks that the page shows these kernels.
func TestStepsAreDocumented(t *testing.T) {
	source, err := os.ReadFile("../testdata/steps/steps.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../../docs/matrix-product.md")
	require.NoError(t, err)
	shown := 0
	for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1) {
		if strings.Contains(string(block[1]), "gpu.") {
			shown++
			assert.Contains(t, string(source), string(block[1]))
		}
	}
	assert.Equal(t, 4, shown)
}
