package compile_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	k "github.com/purecuda/purecuda/gpuc/internal/testdata/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// modes are the ways to compile that must not differ.
var modes = []compile.Options{
	{Arch: 75, Checks: compile.ChecksOff},
	{Arch: 80, Checks: compile.ChecksTrap},
	{Arch: 90, Checks: compile.ChecksReport},
	{Arch: 90, Checks: compile.ChecksReport, Plain: true},
}

// program loads a package once for all tests.
var program = func() func(t testing.TB, dir string) *compile.Program {
	var mu sync.Mutex
	loaded := map[string]*compile.Program{}
	return func(t testing.TB, dir string) *compile.Program {
		t.Helper()
		device.NeedsGo(t)
		mu.Lock()
		defer mu.Unlock()
		if loaded[dir] == nil {
			p, err := compile.Load(compile.Config{Dir: dir, Pattern: "."})
			require.NoError(t, err)
			loaded[dir] = p
		}
		return loaded[dir]
	}
}()

// inModes runs a test with a package compiled in each way.
func inModes(t *testing.T, dir string, f func(t *testing.T, d *device.Device)) {
	for _, o := range modes {
		t.Run(fmt.Sprintf("sm_%d %s plain=%v", o.Arch, o.Checks, o.Plain), func(t *testing.T) {
			load := func() *compile.Program { return program(t, dir) }
			m := device.Compile(t, load, filepath.Base(dir), o)
			if device.Writing() {
				t.Skip("the module is written for a GPU host")
			}
			f(t, device.Open(t, m))
		})
	}
}

func floats(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func doubles(n int, seed uint64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float64, n)
	for i := range v {
		v[i] = 3 * r.NormFloat64()
	}
	return v
}

func quads(n int) []gpu.Uint4 {
	r := rand.New(rand.NewPCG(3, 4))
	v := make([]gpu.Uint4, n)
	for i := range v {
		v[i] = gpu.Uint4{X: r.Uint32(), Y: r.Uint32(), Z: r.Uint32(), W: r.Uint32()}
	}
	return v
}

func plane(gx, gy, bx, by int) gpu.Shape {
	return gpu.Shape{Grid: gpu.Dim3{X: gx, Y: gy}, Block: gpu.Dim3{X: bx, Y: by}}
}

// as returns argument i as what it is.
func as[T any](args []any, i int) T { return args[i].(T) }

type f32 = []float32

// TestKernels compares kernels on the simulated driver with the same functions on the CPU, bit for bit.
func TestKernels(t *testing.T) {
	view := k.View{X: -2, Y: -1.2, Step: 0.05, Width: 70, Height: 50, Limit: 60}
	bigView := runtime.Struct(&view)
	poly := [4]float32{1, 2, 3, 4}
	inModes(t, "../testdata/kernels", func(t *testing.T, d *device.Device) {
		d.Same(t, "Saxpy", gpu.Shape1D(1500, 128), func(t *gpu.Thread, a []any) { k.Saxpy(t, as[float32](a, 0), as[f32](a, 1), as[f32](a, 2)) },
			float32(1.7), floats(3001, 1), floats(3001, 2))
		d.Same(t, "VecAdd", gpu.Shape1D(3001, 128), func(t *gpu.Thread, a []any) { k.VecAdd(t, as[f32](a, 0), as[f32](a, 1), as[f32](a, 2)) },
			make(f32, 3001), floats(3001, 1), floats(3001, 2))
		d.Same(t, "Stencil", plane(7, 7, 16, 8), func(t *gpu.Thread, a []any) { k.Stencil(t, as[f32](a, 0), as[f32](a, 1), as[int](a, 2), as[int](a, 3)) },
			make(f32, 5000), floats(5000, 1), 100, 50)
		d.Same(t, "Dot", gpu.Shape1D(256, 256), func(t *gpu.Thread, a []any) { k.Dot(t, as[f32](a, 0), as[f32](a, 1), as[f32](a, 2)) },
			floats(3001, 1), floats(3001, 2), make(f32, 1))
		d.Same(t, "Sum", gpu.Shape1D(512, 128), func(t *gpu.Thread, a []any) { k.Sum(t, as[f32](a, 0), as[f32](a, 1)) },
			floats(3001, 1), make(f32, 16))
		d.Same(t, "Histogram", gpu.Shape1D(512, 256), func(t *gpu.Thread, a []any) { k.Histogram(t, as[[]gpu.Uint4](a, 0), as[[]uint64](a, 1)) },
			quads(1000), make([]uint64, 256))
		d.Same(t, "Mandelbrot", plane(5, 7, 16, 8), func(t *gpu.Thread, a []any) { k.Mandelbrot(t, view, as[[]uint32](a, 1)) },
			bigView, make([]uint32, 3500))
		d.Same(t, "Sgemm", plane(2, 2, 16, 16), func(t *gpu.Thread, a []any) { k.Sgemm(t, as[f32](a, 0), as[f32](a, 1), as[f32](a, 2), as[int](a, 3)) },
			make(f32, 1024), floats(1024, 1), floats(1024, 2), 32)
		d.Same(t, "Xorshift", gpu.Shape1D(300, 128), func(t *gpu.Thread, a []any) { k.Xorshift(t, as[[]uint64](a, 0), as[uint64](a, 1), as[int](a, 2)) },
			make([]uint64, 300), uint64(12345), 17)
		d.Same(t, "Philox", gpu.Shape1D(300, 128), func(t *gpu.Thread, a []any) { k.Philox(t, as[[]gpu.Uint4](a, 0), as[uint64](a, 1)) },
			make([]gpu.Uint4, 300), uint64(99))
		d.Same(t, "SHA256", gpu.Shape1D(20, 32), func(t *gpu.Thread, a []any) { k.SHA256(t, as[[]gpu.Uint4](a, 0), as[[]gpu.Uint4](a, 1), as[int](a, 2)) },
			quads(20*12), make([]gpu.Uint4, 40), 192)
		d.Same(t, "Poly32", gpu.Shape1D(500, 64), func(t *gpu.Thread, a []any) { k.Poly32(t, as[f32](a, 0), as[f32](a, 1), poly) },
			make(f32, 500), floats(500, 1), runtime.Struct(&poly))
		d.Same(t, "Waves", gpu.Shape1D(500, 64), func(t *gpu.Thread, a []any) { k.Waves(t, as[[]float64](a, 0), as[[]float64](a, 1)) },
			make([]float64, 500), doubles(500, 1))
	})
}
