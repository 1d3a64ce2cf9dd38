package compile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/tensor"
)

var warp = gpu.Shape{Grid: gpu.Dim3{X: 1}, Block: gpu.Dim3{X: 32}}

// tensorDevice has one kernel of testdata/tensor, compiled for a target.
func tensorDevice(t *testing.T, o compile.Options, kernel string) *device.Device {
	t.Helper()
	load := func() *compile.Program { return program(t, "../testdata/tensor") }
	return device.Open(t, device.Compile(t, load, "tensor_"+kernel, o, kernel))
}

// onTargets runs a test for a kernel on each target from the first that has it, and tries that older ones refuse it by name.
func onTargets(t *testing.T, kernel string, first int, missing string, f func(t *testing.T, d *device.Device, arch int)) {
	for _, arch := range []int{75, 80, 89, 90} {
		t.Run(fmt.Sprintf("%s sm_%d", kernel, arch), func(t *testing.T) {
			o := compile.Options{Arch: arch, Checks: compile.ChecksReport, Plain: arch == 89 && first < 89}
			if arch >= first {
				f(t, tensorDevice(t, o, kernel), arch)
				return
			}
			_, err := program(t, "../testdata/tensor").Compile(o, kernel)
			require.ErrorContains(t, err, fmt.Sprintf("%s needs sm_%d, and this is compiled for sm_%d: give gpuc -arch sm_%d", missing, first, arch, first))
		})
	}
}

// numbers makes numbers.
func numbers[T any](n int, f func(r *rand.Rand) T) []T {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	v := make([]T, n)
	for i := range v {
		v[i] = f(r)
	}
	return v
}

// sameProduct compares a product of three steps with that of gpu.Run. The simulated driver has the same bits. Hardware has what
// gpu.MMAError allows in each step.
func sameProduct[E gpu.Element, T, S any](t *testing.T, name string, first, k int, element func(r *rand.Rand) T, sum func(r *rand.Rand) S, f func(t *gpu.Thread, a, b []T, c []S, k int)) {
	kernel := "Multiply" + name
	onTargets(t, kernel, first, "gpu.MMA of "+strings.Replace(name, "Float64", "float64", 1), func(t *testing.T, d *device.Device, arch int) {
		a, b, c := numbers(16*k, element), numbers(8*k, element), numbers(16*8, sum)
		if !device.Hardware() || gpu.MMAError[E]() == 0 {
			d.Same(t, kernel, warp, func(t *gpu.Thread, a []any) { f(t, as[[]T](a, 0), as[[]T](a, 1), as[[]S](a, 2), as[int](a, 3)) }, a, b, c, k)
			return
		}
		got, want := slices.Clone(c), slices.Clone(c)
		report, err := d.Run(kernel, warp, a, b, got, k)
		require.NoError(t, err)
		require.Zero(t, report[0], "a check failed")
		require.NoError(t, gpu.Run(warp, func(t *gpu.Thread) { f(t, a, b, want, k) }))
		for i := range c {
			all := math.Abs(float(c[i]))
			for j := range k {
				all += math.Abs(float(a[i/8*k+j]) * float(b[i%8*k+j]))
			}
			require.InDelta(t, float(want[i]), float(got[i]), 3*gpu.MMAError[E]()*all, "row %d, column %d", i/8, i%8)
		}
	})
}

// float is a number of any type.
func float(x any) float64 {
	if h, ok := x.(interface{ Float32() float32 }); ok {
		return float64(h.Float32())
	}
	return reflect.ValueOf(x).Convert(reflect.TypeFor[float64]()).Float()
}

func normal32(r *rand.Rand) float32 { return float32(r.NormFloat64()) }

// eighths are numbers whose products and sums are exact: sm_75 adds the products of 8 at a time.
func eighths(r *rand.Rand) float32 { return float32(r.IntN(65)-32) / 8 }

// TestMMA compares what tensor cores compute with the CPU. Sums of float64 tell the order of their products by their last bits, and
// a device that takes small numbers for zero.
func TestMMA(t *testing.T) {
	int32s := func(r *rand.Rand) int32 { return int32(r.Uint32()) }
	sameProduct[gpu.Float16](t, "Float16", 75, 48, func(r *rand.Rand) gpu.Float16 { return gpu.ToFloat16(eighths(r)) }, eighths, tensor.MultiplyFloat16)
	sameProduct[gpu.BFloat16](t, "BFloat16", 80, 48, func(r *rand.Rand) gpu.BFloat16 { return gpu.ToBFloat16(normal32(r)) }, normal32, tensor.MultiplyBFloat16)
	sameProduct[int8](t, "Int8", 75, 96, func(r *rand.Rand) int8 { return int8(r.Uint32()) }, int32s, tensor.MultiplyInt8)
	sameProduct[uint8](t, "Uint8", 75, 96, func(r *rand.Rand) uint8 { return uint8(r.Uint32()) }, int32s, tensor.MultiplyUint8)
	sameProduct[gpu.TF32](t, "TF32", 80, 24, normal32, normal32, func(t *gpu.Thread, a, b, c []float32, k int) { tensor.MultiplyTF32(t, a, b, c, k) })
	scaled := func(by float64) func(r *rand.Rand) float64 {
		return func(r *rand.Rand) float64 { return r.NormFloat64() * by }
	}
	sameProduct[float64](t, "Float64", 80, 12, scaled(1), scaled(1), tensor.MultiplyFloat64)
	sameProduct[float64](t, "Float64", 80, 12, scaled(0x1p-530), scaled(0x1p-1060), tensor.MultiplyFloat64)
	sameProduct[gpu.Float8E4M3](t, "Float8E4M3", 89, 96, func(r *rand.Rand) gpu.Float8E4M3 { return gpu.ToFloat8E4M3(normal32(r)) }, normal32, tensor.MultiplyFloat8E4M3)
	sameProduct[gpu.Float8E5M2](t, "Float8E5M2", 89, 96, func(r *rand.Rand) gpu.Float8E5M2 { return gpu.ToFloat8E5M2(normal32(r)) }, normal32, tensor.MultiplyFloat8E5M2)
}

func TestFragments(t *testing.T) {
	onTargets(t, "Fragments", 75, "", func(t *testing.T, d *device.Device, _ int) {
		d.Same(t, "Fragments", warp, func(t *gpu.Thread, a []any) { tensor.Fragments(t, as[[]gpu.Uint4](a, 0), as[[]gpu.Float16](a, 1)) },
			quads(32), make([]gpu.Float16, 32*32))
	})
	onTargets(t, "Convert", 75, "", func(t *testing.T, d *device.Device, _ int) {
		x := append(floats(500, 3), 0, 448, 449, 57344, 1e9, -1e9, 0x1p-9, 0x1p-16, 0x1p-17, 3e38)
		d.Same(t, "Convert", gpu.Shape1D(len(x), 64), func(t *gpu.Thread, a []any) {
			tensor.Convert(t, as[f32](a, 0), as[[]gpu.Float8E4M3](a, 1), as[[]gpu.Float8E5M2](a, 2), as[[]gpu.TF32](a, 3))
		}, x, make([]gpu.Float8E4M3, len(x)), make([]gpu.Float8E5M2, len(x)), make([]gpu.TF32, len(x)))
	})
}

func TestPackHalves(t *testing.T) {
	onTargets(t, "Pack", 75, "", func(t *testing.T, d *device.Device, _ int) {
		d.Same(t, "Pack", gpu.Shape1D(500, 64), func(t *gpu.Thread, a []any) { tensor.Pack(t, as[f32](a, 0), as[[]uint32](a, 1), as[[]uint32](a, 2)) },
			floats(500, 3), make([]uint32, 500), make([]uint32, 500))
	})
}

// TestCopyAsync compares copies on the simulated driver with the CPU, and looks that both find a wait that is too short.
func TestCopyAsync(t *testing.T) {
	for _, left := range []int{0, 1, 6, 15, 16} {
		onTargets(t, "Copies", 80, "gpu.CopyAsync", func(t *testing.T, d *device.Device, _ int) {
			d.Same(t, "Copies", warp, func(t *gpu.Thread, a []any) {
				tensor.Copies(t, as[[]gpu.Uint4](a, 0), as[[]uint32](a, 1), as[int](a, 2))
			}, quads(32*7), make([]uint32, 32), left)
		})
	}
	if device.Hardware() {
		return // its data may come early
	}
	x, sums := quads(64), make([]uint32, 32)
	_, err := tensorDevice(t, compile.Options{Arch: 80, Checks: compile.ChecksReport}, "Hurried").Run("Hurried", warp, x, sums)
	require.NoError(t, err)
	assert.NotEqual(t, x[32].X, sums[0], "the data are there before the wait")
	require.NoError(t, gpu.Run(warp, func(t *gpu.Thread) { tensor.Hurried(t, x, sums) }))
	assert.NotEqual(t, x[32].X, sums[0], "the data are there before the wait")
}

func TestTensorErrors(t *testing.T) {
	for source, want := range map[string]string{
		"var c gpu.FragmentC[float64]; gpu.MMA(t, &c, gpu.FragmentA[int8]{}, gpu.FragmentB[int8]{}); x[0] = c[0]": "gpu.MMA: the sums of int8 are int32, not float64",
		"gpu.LoadMatrixA[float64](t, &gpu.Shared[[32]gpu.Uint4](t)[0])":                                           "the elements of float64 are wider than a word",
		"gpu.LoadMatrixA[int8](t, &y[0])":                                                                         "gpu.LoadMatrixA takes a pointer to shared memory here",
		"gpu.CopyAsync(t, &y[0], &y[1])":                                                                          "gpu.CopyAsync takes a pointer to shared memory here",
		"gpu.CopyWait(t, len(x))":                                                                                 "the number that gpu.CopyWait takes is a constant",
	} {
		p, err := load(t, "//purecuda:kernel\nfunc K(t *gpu.Thread, x []float64, y []gpu.Uint4) { "+strings.ReplaceAll(source, ";", "\n")+" }\n")
		require.NoError(t, err, source)
		_, err = p.Compile(compile.Options{Arch: 80, Checks: compile.ChecksOff})
		assert.ErrorContains(t, err, want, source)
	}
}

// TestShapes looks that a product of float64 is one instruction where the target has it, and two elsewhere.
func TestShapes(t *testing.T) {
	for arch, want := range map[int][2]int{80: {2, 0}, 89: {2, 0}, 90: {0, 1}} {
		m, err := program(t, "../testdata/tensor").Compile(compile.Options{Arch: arch, Checks: compile.ChecksOff}, "MultiplyFloat64")
		require.NoError(t, err)
		count := func(shape string) int {
			return strings.Count(m.PTX, "mma.sync.aligned."+shape+".row.col.f64.f64.f64.f64")
		}
		assert.Equal(t, want, [2]int{count("m8n8k4"), count("m16n8k4")}, "sm_%d", arch)
	}
}

// TestVersion looks that a target of an old version of PTX names the newer one that a kernel needs.
func TestVersion(t *testing.T) {
	for kernel, want := range map[string]string{"MultiplyFloat8E4M3": "8.4", "MultiplyBFloat16": "7.8"} {
		m, err := program(t, "../testdata/tensor").Compile(compile.Options{Arch: 90, Checks: compile.ChecksOff}, kernel)
		require.NoError(t, err)
		assert.Contains(t, m.PTX, "\n.version "+want+"\n", kernel)
	}
}
