package compile_test

import (
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	lang "github.com/purecuda/purecuda/gpuc/internal/testdata/language"
	"github.com/purecuda/purecuda/runtime"
)

const langFolder = "../testdata/language"

// generic runs an instance of the kernel Generic.
func generic[T float32 | float64 | int8, U int32 | uint64](t *testing.T, d *device.Device, name string, z T) {
	r := rand.New(rand.NewPCG(9, 9))
	d.Same(t, name, gpu.Shape1D(100, 64), func(t *gpu.Thread, a []any) { lang.Generic(t, as[[]T](a, 0), as[[]U](a, 1), as[T](a, 2)) },
		many(300, func() T { return T(r.IntN(20)) }), many(300, func() U { return U(r.IntN(60)) }), z)
}

func TestGenericKernels(t *testing.T) {
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		generic[float32, int32](t, d, "GenericFloat32Int32", 1.5)
		generic[float32, uint64](t, d, "GenericFloat32Uint64", 1.5)
		generic[float64, int32](t, d, "GenericFloat64Int32", 2.5)
		generic[float64, uint64](t, d, "GenericFloat64Uint64", 2.5)
		generic[int8, int32](t, d, "GenericInt8Int32", 1)
		generic[int8, uint64](t, d, "GenericInt8Uint64", 1)
	})
	_, err := load(t, "//purecuda:kernel T=int,string\nfunc K[T int|uint](t *gpu.Thread, x []T) { x[0]++ }\n")
	assert.ErrorContains(t, err, "k.go:5:")
	assert.ErrorContains(t, err, "string does not satisfy int | uint")
	p, err := load(t, "type Wide uint64\n//purecuda:kernel T=Wide\nfunc K[T ~int|~uint64](t *gpu.Thread, x []T) { x[0]++ }\n")
	require.NoError(t, err)
	m, err := p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksOff})
	require.NoError(t, err)
	assert.Contains(t, m.PTX, ".visible .entry KWide(")
}

func TestStructsWithSlices(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		const rows, cols = 7, 9
		d.Same(t, "Transpose", plane(2, 2, 4, 2), func(t *gpu.Thread, a []any) {
			lang.Transpose(t, lang.Matrix{Data: as[f32](a, 0), Rows: cols, Cols: rows}, lang.Matrix{Data: as[f32](a, 3), Rows: rows, Cols: cols})
		}, make(f32, rows*cols), cols, rows, floats(rows*cols, 1), rows, cols)
		d.Same(t, "Nest", gpu.Shape1D(8, 8), func(t *gpu.Thread, a []any) {
			lang.Nest(t, lang.Nested{
				In: lang.Matrix{Data: as[f32](a, 0), Rows: rows, Cols: cols}, Out: lang.Matrix{Data: as[f32](a, 3), Rows: rows, Cols: 2},
				Parts: [2]lang.Inner{{Scale: [2]float32{1, 2}, Bias: as[f32](a, 8)}, {Scale: [2]float32{3, 4}, Flip: true, Bias: as[f32](a, 11)}}, N: 41,
			})
		}, floats(rows*cols, 1), rows, cols, make(f32, rows*2), rows, 2,
			runtime.Struct(&[2]float32{1, 2}), false, floats(cols, 3), runtime.Struct(&[2]float32{3, 4}), true, floats(cols, 4), int32(41))
		d.Same(t, "Walk", gpu.Shape1D(16, 16), func(t *gpu.Thread, a []any) { lang.Walk(t, as[[]int32](a, 0), as[[]int32](a, 1)) },
			make([]int32, 16), many(40, func() int32 { return r.Int32N(50) }))
		d.Same(t, "Bools", gpu.Shape1D(200, 64), func(t *gpu.Thread, a []any) { lang.Bools(t, as[[]bool](a, 0), as[[]int32](a, 1)) },
			make([]bool, 200), many(200, r.Int32))
	})
}

// ptx is the code of one kernel.
func ptx(t *testing.T, folder string, o compile.Options, name string) string {
	t.Helper()
	m, err := program(t, folder).Compile(o, name)
	require.NoError(t, err)
	return m.PTX
}

func TestDirectivesOfKernels(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 11))
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		d.Same(t, "Contract", gpu.Shape1D(300, 64), func(t *gpu.Thread, a []any) {
			lang.Fused(t, as[f32](a, 0), as[f32](a, 1), as[f32](a, 2), as[[]float64](a, 3))
		}, make(f32, 8*300), floats(304, 5), floats(304, 6), doubles(300, 7))
		d.Same(t, "Apart", gpu.Shape1D(100, 64), func(t *gpu.Thread, a []any) {
			lang.Apart(t, as[f32](a, 0), as[f32](a, 1), as[f32](a, 2), as[[]gpu.Float4](a, 3))
		}, floats(100, 1), floats(100, 2), floats(100, 3), many(100, func() gpu.Float4 { return gpu.Float4{X: r.Float32(), W: r.Float32()} }))
		d.Same(t, "Unrolled", gpu.Shape1D(20, 32), func(t *gpu.Thread, a []any) {
			lang.Unrolled(t, as[[]int32](a, 0), as[[]int32](a, 1), as[int32](a, 2))
		}, make([]int32, 20), many(20, func() int32 { return []int32{7, 1, 2, r.Int32N(920)}[r.IntN(4)] }), int32(5))
	})
	o := compile.Options{Arch: 75, Checks: compile.ChecksOff}
	code := ptx(t, langFolder, o, "Contract")
	assert.Equal(t, 10, strings.Count(code, "fma.rn."), code)
	code = ptx(t, langFolder, o, "Apart")
	assert.Equal(t, 3, strings.Count(code, "ld.global.nc."), code)
	assert.Equal(t, 3, strings.Count(code, "ld.global.f32"), code)
	code = ptx(t, langFolder, o, "Unrolled")
	assert.Equal(t, 3, strings.Count(code, "ld.global."), code)
	assert.Equal(t, 390, len(regexp.MustCompile(`mul.lo.s32 %r\d+, %r\d+, 3;`).FindAllString(code, -1)), code)
	for source, want := range map[string]string{
		"//purecuda:unroll\n\tfor i := range x { x[i]++ }":    "k.go:7:2: the compiler does not see that this loop runs at most 1024 times",
		"//purecuda:unroll 65\n\tfor i := range x { x[i]++ }": "k.go:7:2: //purecuda:unroll 65: write //purecuda:unroll, or //purecuda:unroll 4 with 1 to 64 copies",
		"//purecuda:unroll\n\tx[0]++":                         "k.go:7:2: //purecuda:unroll stands on the line before a for",
	} {
		p, err := load(t, "//purecuda:kernel\nfunc K(t *gpu.Thread, x []int) {\n\t"+source+"\n}\n")
		if err == nil {
			_, err = p.Compile(o)
		}
		assert.ErrorContains(t, err, want)
	}
}

func TestFunctions(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 12))
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		d.Same(t, "Functions", gpu.Shape1D(6, 4), func(t *gpu.Thread, a []any) {
			lang.Functions(t, as[[]float64](a, 0), lang.Matrix{Data: as[f32](a, 1), Rows: as[int](a, 2), Cols: as[int](a, 3)}, as[[]int32](a, 4))
		}, make([]float64, 24), floats(6*7, 1), 6, 7, many(11, r.Int32))
		d.Same(t, "Recursive", gpu.Shape1D(32, 16), func(t *gpu.Thread, a []any) { lang.Recursive(t, as[[]int32](a, 0), as[[]int32](a, 1)) },
			make([]int32, 32), make([]int32, 32*20))
		d.Same(t, "Returning", gpu.Shape1D(8*128, 128), func(t *gpu.Thread, a []any) { lang.Returning(t, as[[]int32](a, 0)) }, make([]int32, 8*128))
	})
	together := regexp.MustCompile(`%lanemask_gt;\s*or.b32 [^;]*;\s*bar.warp.sync [^;]*;(\s*\.loc [^\n]*)?\s*(bar|shfl).sync`)
	assert.Contains(t, ptx(t, langFolder, compile.Options{Arch: 75}, "Returning"), ", Returning$fib$0;", "its address is taken")
	assert.Len(t, together.FindAllString(ptx(t, langFolder, compile.Options{Arch: 75, Checks: compile.ChecksReport}, "Returning"), -1), 60, "two barriers and a shuffle in 20 passes")
	m, err := program(t, langFolder).Compile(compile.Options{Arch: 75}, "Closures")
	require.NoError(t, err)
	assert.Greater(t, m.Kernels[0].Stack, 400*4*4+20*64, "what the kernel itself keeps in memory is on the stack too")
	code := ptx(t, langFolder, compile.Options{Arch: 75, Checks: compile.ChecksReport}, "Functions")
	for name, calls := range map[string]int{"measure": 2, "put": 4, "accumulate": 1} {
		assert.Equal(t, calls, len(regexp.MustCompile(`call .*Functions\$`+name).FindAllString(code, -1)), "%s", name)
	}
}

func TestLargeFunctions(t *testing.T) {
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		d.Same(t, "Large", gpu.Shape1D(40, 16), func(t *gpu.Thread, a []any) { lang.Large(t, as[[]uint32](a, 0)) }, make([]uint32, 80))
	})
	o := compile.Options{Arch: 75, Checks: compile.ChecksReport}
	assert.Equal(t, 2, strings.Count(ptx(t, langFolder, o, "Large"), "call (r), Large$mix$0, "))
	m, err := program(t, "../testdata/kernels").Compile(o)
	require.NoError(t, err)
	assert.NotContains(t, m.PTX, ".func", "what is called once or small is inlined")
}

// TestLoops runs loops that become several, with what they count from and to at the ends of an int as well.
func TestLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 15))
	const n = 96
	bounds, first := make([][2]int64, n), make([]int32, n+1)
	for i := range bounds {
		from := []int64{r.Int64N(40) - 20, math.MinInt64 + r.Int64N(3), math.MaxInt64 - 60 + r.Int64N(10), math.MaxInt32 - r.Int64N(9)}[r.IntN(4)]
		bounds[i] = [2]int64{from, max(from, math.MinInt64+20) + r.Int64N(40) - 20}
		if from > 1<<40 || from < -1<<40 {
			bounds[i][1] = from + r.Int64N(40)
		}
		first[i+1] = first[i] + r.Int32N(11)
	}
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		d.Same(t, "Counted", gpu.Shape1D(n+3, 32), func(t *gpu.Thread, a []any) {
			lang.Counted(t, as[[]int64](a, 0), as[[]int32](a, 1), as[[][2]int64](a, 2), as[[]int32](a, 3))
		}, make([]int64, 12*n), many(11*n, func() int32 { return r.Int32N(900) }), bounds, first)
		for passes := range 10 {
			d.Same(t, "Tally", gpu.Shape1D(1, 1), func(t *gpu.Thread, a []any) { lang.Tally(t, as[f32](a, 0), as[f32](a, 1), as[int](a, 2)) },
				many(10, r.Float32), make(f32, 4), passes)
		}
		d.Same(t, "Boxed", gpu.Shape1D(8, 8), func(t *gpu.Thread, a []any) { lang.Boxed(t, as[[]uint32](a, 0)) }, make([]uint32, 8))
	})
	code := ptx(t, langFolder, compile.Options{Arch: 75, Checks: compile.ChecksOff}, "Boxed")
	products := func(by string) int { return strings.Count(code, ", "+by+";") }
	assert.Equal(t, 8, products("4097"), "a line before the outer loop is not for the inner one")
	assert.Equal(t, 8, products("4099"), "a line before the inner loop is not for the outer one")
	assert.Less(t, products("4101"), 1025, "passes of loops in loops multiply")
	assert.Equal(t, 1, products("4103"), "passes with barriers are large")
}

// TestWide moves what is larger than one load, and reads parameters by index.
func TestWide(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 16))
	table := many(40, func() int32 { return r.Int32N(1000) })
	var w [40]int32
	copy(w[:], table)
	setting := lang.Setting{Scale: 3, Flags: [5]bool{true, false, true, true}}
	for i := range setting.Table {
		setting.Table[i] = [3]float32{float32(r.IntN(99)), float32(r.IntN(99)), float32(r.IntN(99))}
	}
	for i := range setting.Pairs {
		setting.Pairs[i].A, setting.Pairs[i].B = uint8(i), uint8(r.Uint32())
	}
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		d.Same(t, "Indexed", gpu.Shape1D(200, 64), func(t *gpu.Thread, a []any) {
			lang.Indexed(t, as[[]int32](a, 0), as[[]int32](a, 1), w, w, w, setting)
		}, make([]int32, 200), many(200, r.Int32), runtime.Struct(&w), runtime.Struct(&w), runtime.Struct(&w), runtime.Struct(&setting))
		f := r.Float32
		d.Same(t, "Wide", gpu.Shape1D(64, 32), func(t *gpu.Thread, a []any) {
			lang.Wide(t, as[[][8]float32](a, 0), as[[][6]uint64](a, 1), as[[]lang.Filled](a, 2), as[[][3]float64](a, 3))
		}, many(64, func() [8]float32 { return [8]float32{f(), f(), f(), f(), f(), f(), f(), f()} }),
			many(64, func() [6]uint64 { return [6]uint64{r.Uint64(), r.Uint64(), r.Uint64(), 4, 5, r.Uint64()} }),
			many(64, func() lang.Filled {
				return lang.Filled{A: [3]float32{f(), f(), f()}, C: [6]float32{f(), f(), f(), f(), f(), f()}}
			}),
			many(64, func() [3]float64 { return [3]float64{r.Float64(), r.Float64(), r.Float64()} }))
	})
	code := ptx(t, langFolder, compile.Options{Arch: 75, Checks: compile.ChecksOff}, "Wide")
	assert.Equal(t, 2, strings.Count(code, "ld.global.v4.f32"), "eight numbers are two loads")
	assert.Equal(t, 3, strings.Count(code, "ld.global.v2.u64"), "six of 64 bits are three loads")
}

// halves runs the kernel Halves on bits that are no NaN.
func halves[T lang.Half[T]](t *testing.T, d *device.Device, name string, from func(bits uint16) T) {
	r := rand.New(rand.NewPCG(9, 13))
	value := func() T {
		for {
			v := from(uint16(r.Uint32()) & []uint16{0xffff, 0x83ff, 0xbfff}[r.IntN(3)])
			if v.Float32() == v.Float32() {
				return v
			}
		}
	}
	z := value()
	d.Same(t, name, gpu.Shape1D(2000, 64), func(t *gpu.Thread, a []any) {
		lang.Halves(t, as[[]T](a, 0), as[[]T](a, 1), as[[]T](a, 2), z, as[f32](a, 4))
	}, make([]T, 8*2000), many(2000, value), many(2000, value), runtime.Struct(&z), make(f32, 2000))
}

func TestHalves(t *testing.T) {
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		halves(t, d, "HalvesFloat16", gpu.Float16FromBits)
		halves(t, d, "HalvesBFloat16", gpu.BFloat16FromBits)
		r := rand.New(rand.NewPCG(9, 14))
		x := many(2048, func() float32 { return math.Float32frombits(r.Uint32()&0xdfffffff + 0x10000000) })
		d.Same(t, "Narrow", gpu.Shape1D(2048, 32), func(t *gpu.Thread, a []any) {
			lang.Narrow(t, as[[]gpu.Float16](a, 0), as[[]gpu.BFloat16](a, 1), as[f32](a, 2))
		}, make([]gpu.Float16, 2048), make([]gpu.BFloat16, 2048), x)
		d.Same(t, "Eight", gpu.Shape1D(64, 32), func(t *gpu.Thread, a []any) {
			lang.Eight(t, as[[][8]gpu.Float16](a, 0), as[[][8]uint16](a, 1))
		}, many(64, func() (v [8]gpu.Float16) {
			for e := range v {
				v[e] = gpu.Float16FromBits(uint16(r.Uint32()))
			}
			return v
		}), many(64, func() (v [8]uint16) {
			for e := range v {
				v[e] = uint16(r.Uint32())
			}
			return v
		}))
		d.Same(t, "Quarters", gpu.Shape1D(64, 32), func(t *gpu.Thread, a []any) {
			lang.Quarters(t, as[[][4]int8](a, 0), as[[][2]uint8](a, 1))
		}, many(64, func() [4]int8 { b := r.Uint32(); return [4]int8{int8(b), int8(b >> 8), int8(b >> 16), int8(b >> 24)} }),
			many(64, func() [2]uint8 { b := r.Uint32(); return [2]uint8{uint8(b), uint8(b >> 8)} }))
		small := func() float32 { return float32(r.NormFloat64()) * 4 }
		d.Same(t, "Packed", gpu.Shape1D(256, 32), func(t *gpu.Thread, a []any) {
			lang.Packed(t, as[[]gpu.Float16](a, 0), as[[]gpu.Float16](a, 1), as[[]gpu.BFloat16](a, 2), as[[]gpu.BFloat16](a, 3))
		}, make([]gpu.Float16, 2048), many(2048, func() gpu.Float16 { return gpu.ToFloat16(small()) }),
			make([]gpu.BFloat16, 2048), many(2048, func() gpu.BFloat16 { return gpu.ToBFloat16(small()) }))
	})
	code := ptx(t, langFolder, compile.Options{Arch: 75, Checks: compile.ChecksOff}, "Eight")
	assert.Equal(t, 2, strings.Count(code, "ld.global.v4.u32"), "eight numbers of 16 bits are one load")
	assert.Equal(t, 2, strings.Count(code, "st.global.v4.u32"), "and one store")
	code = ptx(t, langFolder, compile.Options{Arch: 75, Checks: compile.ChecksOff}, "Quarters")
	for _, op := range []string{"ld.global.v4.s8", "st.global.v4.s8", "ld.global.v2.u8", "st.global.v2.u8"} {
		assert.Equal(t, 1, strings.Count(code, op), op)
	}
	code = ptx(t, langFolder, compile.Options{Arch: 90, Checks: compile.ChecksOff}, "Packed")
	assert.Contains(t, code, "ld.global.v4.u32")
	for _, op := range []string{"add.rn.f16x2", "sub.rn.bf16x2", "mul.rn.bf16x2", "fma.rn.f16x2", "fma.rn.bf16x2", "cvt.rn.f16x2.f32", "cvt.rn.bf16x2.f32"} {
		assert.Equal(t, 1, strings.Count(code, op), op)
	}
}
