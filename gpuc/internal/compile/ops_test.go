package compile_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	ops "github.com/purecuda/purecuda/gpuc/internal/testdata/ops"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/sm90"
)

const opsFolder = "../testdata/ops"

// many makes values.
func many[T any](n int, f func() T) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = f()
	}
	return v
}

// operands makes pairs of values, some of them equal.
func operands[T any](n int, gen func() T) (x, y []T) {
	x, y = many(n, gen), many(n, gen)
	for i := 0; i < n; i += 8 {
		y[i] = x[i]
	}
	return x, y
}

// pairs runs a kernel that makes n results of each pair of values.
func pairs[T any](t *testing.T, d *device.Device, name string, n int, f func(t *gpu.Thread, out, a, b []T), gen func() T) {
	const items = 512
	x, y := operands(items, gen)
	d.Same(t, name, gpu.Shape1D(items, 128), func(t *gpu.Thread, a []any) { f(t, as[[]T](a, 0), as[[]T](a, 1), as[[]T](a, 2)) },
		make([]T, items*n), x, y)
}

// TestOperations compares every operation on every type with Go's own.
func TestOperations(t *testing.T) {
	inModes(t, opsFolder, func(t *testing.T, d *device.Device) {
		r := rand.New(rand.NewPCG(1, 2))
		u := func() uint64 {
			if r.Uint32()&7 == 0 {
				return [...]uint64{0, 1, math.MaxUint64, 1 << 63, 1 << 31, 1<<31 - 1, 1 << 15, 1 << 7}[r.IntN(8)]
			}
			return r.Uint64() >> (r.Uint64() % 64)
		}
		pairs(t, d, "Int8", ops.N, ops.Int8, func() int8 { return int8(u()) })
		pairs(t, d, "Int16", ops.N, ops.Int16, func() int16 { return int16(u()) })
		pairs(t, d, "Int32", ops.N, ops.Int32, func() int32 { return int32(u()) })
		pairs(t, d, "Int64", ops.N, ops.Int64, func() int64 { return int64(u()) })
		pairs(t, d, "Uint8", ops.N, ops.Uint8, func() uint8 { return uint8(u()) })
		pairs(t, d, "Uint16", ops.N, ops.Uint16, func() uint16 { return uint16(u()) })
		pairs(t, d, "Uint32", ops.N, ops.Uint32, func() uint32 { return uint32(u()) })
		pairs(t, d, "Uint64", ops.N, ops.Uint64, func() uint64 { return u() })
		pairs(t, d, "Int", ops.N, ops.Int, func() int { return int(u()) })
		pairs(t, d, "Uint", ops.N, ops.Uint, func() uint { return uint(u()) })
		pairs(t, d, "NarrowBits", 8, ops.NarrowBits, u)
		pairs(t, d, "Bits", 8, ops.Bits, func() uint32 { return uint32(u()) })
		pairs(t, d, "Signs", 8, ops.Signs, func() int64 { return int64(u()) })
		pairs(t, d, "Counts", 8, ops.Counts, u)
		special := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2.5, -3.5, math.Inf(1), math.Inf(-1), math.NaN(), 1e300, 1e-310, 1e-40, 3e38}
		f := func() float64 {
			if r.Uint32()&3 == 0 {
				return special[r.IntN(len(special))]
			}
			return r.NormFloat64() * math.Exp2(float64(r.IntN(60)-30))
		}
		pairs(t, d, "Floats", 18, ops.Floats, f)
		pairs(t, d, "Floats32", 12, ops.Floats32, func() float32 { return float32(f()) })
		pairs(t, d, "F32", 8, ops.F32, func() float32 { return float32(int8(r.Uint32())) / 4 })
		pairs(t, d, "Words", 16, ops.Words, u)
		pairs(t, d, "Quotients", 8, ops.Quotients, u)
	})
}

func TestThreads(t *testing.T) {
	inModes(t, opsFolder, func(t *testing.T, d *device.Device) {
		r := rand.New(rand.NewPCG(3, 4))
		d.Same(t, "Places", gpu.Shape{Grid: gpu.Dim3{X: 3, Y: 2, Z: 2}, Block: gpu.Dim3{X: 5, Y: 3, Z: 4}},
			func(t *gpu.Thread, a []any) { ops.Places(t, as[[]int](a, 0)) }, make([]int, 12*60*8))
		d.Same(t, "Tables", gpu.Shape1D(1, 1), func(t *gpu.Thread, a []any) { ops.Tables(t, as[[]int](a, 0), as[int](a, 1)) }, make([]int, 26), 1)
		d.Same(t, "Sites", gpu.Shape1D(192, 64), func(t *gpu.Thread, a []any) { ops.Sites(t, as[[]int32](a, 0), as[[]int32](a, 1)) },
			make([]int32, 192), many(64*70, r.Int32))
		d.Same(t, "Grid", gpu.Shape1D(9*48, 48), func(t *gpu.Thread, a []any) { ops.Grid(t, as[[]int32](a, 0), as[[]uint32](a, 1)) },
			many(9*48, r.Int32), []uint32{0})
		d.Same(t, "Times", gpu.Shape1D(100, 64), func(t *gpu.Thread, a []any) { ops.Times(t, as[[]int32](a, 0), as[[]uint32](a, 1)) },
			make([]int32, 100), many(100, r.Uint32))
		d.Same(t, "Dynamic", gpu.Shape{Grid: gpu.Dim3{X: 3}, Block: gpu.Dim3{X: 40}, SharedBytes: 160},
			func(t *gpu.Thread, a []any) { ops.Dynamic(t, as[[]int32](a, 0)) }, many(120, r.Int32))
		d.Same(t, "Parts", gpu.Shape{Grid: gpu.Dim3{X: 3}, Block: gpu.Dim3{X: 64}, SharedBytes: 640},
			func(t *gpu.Thread, a []any) { ops.Parts(t, as[[]int64](a, 0), as[[]int16](a, 1)) }, make([]int64, 192), many(192, func() int16 { return int16(r.Uint32()) }))
		d.Same(t, "Warps", gpu.Shape1D(128, 64), func(t *gpu.Thread, a []any) {
			ops.Warps(t, as[[]uint32](a, 0), as[f32](a, 1), as[[]float64](a, 2), as[[]int64](a, 3))
		}, many(128, r.Uint32), many(128, func() float32 { return float32(r.IntN(9)) }), many(128, r.Float64), many(128, r.Int64))
		points := many(64, func() ops.Point {
			return ops.Point{P: [3]int16{int16(r.Uint32()), int16(r.Uint32()), int16(r.Uint32())}, F: r.Float64(), OK: r.Uint32()&1 == 0, R: r.Int32()}
		})
		d.Same(t, "Structs", gpu.Shape1D(64, 32), func(t *gpu.Thread, a []any) { ops.Structs(t, as[[]ops.Point](a, 0), as[[]int32](a, 1)) },
			points, make([]int32, 64))
		type odd = struct {
			A uint32
			V gpu.Uint4
		}
		d.Same(t, "Vectors", gpu.Shape1D(64, 32), func(t *gpu.Thread, a []any) {
			ops.Vectors(t, as[[]gpu.Uint4](a, 0), as[[]gpu.Int4](a, 1), as[[]gpu.Float4](a, 2), as[[]gpu.Uint64x2](a, 3), as[[]gpu.Float64x2](a, 4), as[[]odd](a, 5))
		}, quads(64), many(64, func() gpu.Int4 { return gpu.Int4{X: r.Int32(), Z: r.Int32()} }),
			many(64, func() gpu.Float4 { return gpu.Float4{X: r.Float32(), Y: r.Float32()} }),
			many(64, func() gpu.Uint64x2 { return gpu.Uint64x2{X: r.Uint64(), Y: r.Uint64()} }),
			many(64, func() gpu.Float64x2 { return gpu.Float64x2{X: r.Float64(), Y: r.Float64()} }),
			many(64, func() odd { return odd{A: r.Uint32(), V: gpu.Uint4{X: r.Uint32(), Y: r.Uint32()}} }))
	})
}

// atomics runs a kernel with atomics on small integers, whose sums are exact in each order.
func atomics[T gpu.AtomicNumber](t *testing.T, d *device.Device, name string, f func(t *gpu.Thread, g, v []T)) {
	r := rand.New(rand.NewPCG(5, 6))
	d.Same(t, name, gpu.Shape1D(128, 64), func(t *gpu.Thread, a []any) { f(t, as[[]T](a, 0), as[[]T](a, 1)) },
		make([]T, 16), many(128, func() T { return T(r.IntN(1000)) }))
}

func TestAtomics(t *testing.T) {
	inModes(t, opsFolder, func(t *testing.T, d *device.Device) {
		r := rand.New(rand.NewPCG(13, 14))
		atomics(t, d, "AtomicInt16", ops.AtomicInt16)
		atomics(t, d, "AtomicUint16", ops.AtomicUint16)
		d.Same(t, "AtomicHalves", gpu.Shape1D(256, 64), func(t *gpu.Thread, a []any) { ops.AtomicHalves(t, as[[]gpu.Float16](a, 0), as[[]gpu.Float16](a, 1)) },
			make([]gpu.Float16, 8), many(256, func() gpu.Float16 { return gpu.ToFloat16(float32(r.IntN(9))) }))
		atomics(t, d, "AtomicInt32", ops.AtomicInt32)
		atomics(t, d, "AtomicUint32", ops.AtomicUint32)
		atomics(t, d, "AtomicInt64", ops.AtomicInt64)
		atomics(t, d, "AtomicUint64", ops.AtomicUint64)
		atomics(t, d, "AtomicInt", ops.AtomicInt)
		atomics(t, d, "AtomicUint", ops.AtomicUint)
		atomics(t, d, "AtomicFloat32", ops.AtomicFloat32)
		atomics(t, d, "AtomicFloat64", ops.AtomicFloat64)
		d.Same(t, "Orders", gpu.Shape1D(128, 64), func(t *gpu.Thread, a []any) {
			ops.Orders(t, as[[]int32](a, 0), as[[]int32](a, 1), as[[]uint64](a, 2), as[[]uint64](a, 3), as[f32](a, 4), as[f32](a, 5),
				as[[]float64](a, 6), as[[]float64](a, 7), as[[]gpu.Uint64x2](a, 8), as[[]gpu.Uint64x2](a, 9), as[[]gpu.Float4](a, 10))
		}, make([]int32, 128), many(128, r.Int32), make([]uint64, 128), many(128, r.Uint64), make(f32, 128), floats(128, 3), make([]float64, 128), doubles(128, 4),
			make([]gpu.Uint64x2, 128), many(128, func() gpu.Uint64x2 { return gpu.Uint64x2{X: r.Uint64(), Y: r.Uint64()} }),
			many(128, func() gpu.Float4 { return gpu.Float4{X: r.Float32(), W: r.Float32()} }))
		d.Same(t, "Chain", gpu.Shape1D(200*64, 64), func(t *gpu.Thread, a []any) {
			ops.Chain(t, as[[]uint64](a, 0), as[[]uint32](a, 1), as[[]uint64](a, 2))
		}, many(200, r.Uint64), make([]uint32, 200), make([]uint64, 1))
		d.Same(t, "Counters", gpu.Shape1D(128, 64), func(t *gpu.Thread, a []any) { ops.Counters(t, as[[]uint32](a, 0)) }, []uint32{3, 4})
	})
}

// TestSM90 runs what needs sm_90.
func TestSM90(t *testing.T) {
	const folder = "../testdata/sm90"
	for _, checks := range []compile.Checks{compile.ChecksOff, compile.ChecksReport} {
		r := rand.New(rand.NewPCG(15, 16))
		d := device.Open(t, device.Compile(t, func() *compile.Program { return program(t, folder) }, "sm90", compile.Options{Arch: 90, Checks: checks}))
		d.Same(t, "Pairs", gpu.Shape1D(128, 64), func(t *gpu.Thread, a []any) { sm90.Pairs(t, as[[]gpu.Uint64x2](a, 0), as[[]uint64](a, 1)) },
			make([]gpu.Uint64x2, 2), many(128, r.Uint64))
		d.Same(t, "AtomicBrains", gpu.Shape1D(128, 64), func(t *gpu.Thread, a []any) {
			sm90.AtomicBrains(t, as[[]gpu.BFloat16](a, 0), as[[]gpu.BFloat16](a, 1))
		},
			make([]gpu.BFloat16, 4), many(128, func() gpu.BFloat16 { return gpu.ToBFloat16(float32(r.IntN(5))) }))
	}
	if !device.Hardware() {
		for kernel, what := range map[string]string{"Pairs": "gpu.AtomicCompareAndSwapPair of gpu.Uint64x2", "AtomicBrains": "gpu.AtomicAddHalf"} {
			_, err := program(t, folder).Compile(compile.Options{Arch: 89, Checks: compile.ChecksOff}, kernel)
			require.ErrorContains(t, err, what)
			require.ErrorContains(t, err, "needs sm_90, and the target is sm_89: write gpuc -arch sm_90")
		}
	}
}

// TestFast compares what is approximate within its bound.
func TestFast(t *testing.T) {
	inModes(t, opsFolder, func(t *testing.T, d *device.Device) {
		r := rand.New(rand.NewPCG(7, 8))
		in := many(128, func() float32 { return r.Float32()*3 + 0.01 })
		got, want := make(f32, 128*11), make(f32, 128*11)
		_, err := d.Run("Fast", gpu.Shape1D(128, 64), got, in)
		require.NoError(t, err)
		require.NoError(t, gpu.Run(gpu.Shape1D(128, 64), func(t *gpu.Thread) { ops.Fast(t, want, in) }))
		for i := range want {
			assert.InDelta(t, want[i], got[i], 1e-5*(1+math.Abs(float64(want[i]))), "%d of %v", i%11, in[i/11])
		}
	})
}
