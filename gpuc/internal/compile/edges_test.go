package compile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/float8"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/fused"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/products"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// behindJunk is a matrix of exactly its memory, in the middle of junk. own begins before elements behind all.
func behindJunk[T any](p *primitivesIn, r *rand.Rand, v []T, junk T) (all, own *runtime.Ref[T], before int) {
	before = 16 * (1 + r.IntN(3))
	after := 1 + r.IntN(40)
	wide := make([]T, 0, before+len(v)+after)
	for range before {
		wide = append(wide, junk)
	}
	wide = append(wide, v...)
	for range after {
		wide = append(wide, junk)
	}
	all = onDevice(p, wide, 0)
	return all, all.Slice(before, before+len(v)), before
}

// edge compares a product of a random shape near the ends of tiles with the CPU, bit for bit. All that is no matrix is junk, and what lies around C and between its
// rows stays as it is, up to the next multiple of 8.
func edge[T gpu.Element, R gpu.Element | gpu.Sum](p *primitivesIn, r *rand.Rand, name string, element func(r *rand.Rand) T, junkT T, junkR R,
	launch func(a, b kernels.Matrix[T], c kernels.Matrix[R], bias *runtime.Ref[float32], g kernels.GemmShape) error,
	cpu func(m, n, k int, a, b []T, c []R, bias []float32, g kernels.GemmShape) error) {
	t := p.t
	size := int(unsafe.Sizeof(*new(T)))
	pick := func(of ...int) int { return of[r.IntN(len(of))] }
	m, n := pick(1, 2, 3, 7, 8, 9, 63, 64, 65, 127, 128, 129, 130, 191, 193), pick(1, 2, 3, 7, 8, 9, 31, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)
	k := pick(1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 97, 127, 128, 129, 160, 192, 193, 255, 256, 257, 320)
	g := kernels.GemmShape{Batch: pick(0, 1, 1, 2, 3), TransposedA: r.IntN(3) == 0, TransposedB: r.IntN(3) == 0, InParts: r.IntN(2) == 0}
	if g.InParts && r.IntN(3) == 0 {
		k = pick(2048, 2049, 2100, 2303, 2560)
		m, n = min(m, 65), min(n, 129)
	}
	batch := max(1, g.Batch)
	unit := max(8, 16/size)
	up := func(n int) int { return (n + unit - 1) / unit * unit }
	operand := func(rows, cols int, turned bool) (dense []T, mat kernels.Matrix[T], stride int) {
		odd := 0
		if turned {
			rows, cols = cols, rows
			odd = -cols & (4/size - 1)
		}
		pitch := up(cols) + unit*r.IntN(2)
		stride = up((rows-1)*pitch+cols) + unit*r.IntN(2)
		count := batch
		if batch > 1 && r.IntN(4) == 0 {
			stride, count = 0, 1
		}
		v := elements((count-1)*stride+(rows-1)*pitch+cols+odd, func() T { return junkT })
		for of := range count {
			for i := range rows {
				for j := range cols {
					v[of*stride+i*pitch+j] = element(r)
				}
				dense = append(dense, v[of*stride+i*pitch:][:cols]...)
			}
		}
		_, own, _ := behindJunk(p, r, v, junkT)
		return dense, kernels.Matrix[T]{Ref: own, Rows: rows, Cols: cols, Pitch: pitch}, stride
	}
	a, ma, strideA := operand(m, k, g.TransposedA)
	b, mb, strideB := operand(n, k, g.TransposedB)
	unit = max(8, 16/int(unsafe.Sizeof(*new(R))))
	pitch := up(n) + unit*r.IntN(2)
	strideC := up((m-1)*pitch+n) + unit*r.IntN(2)
	if batch > 1 && r.IntN(2) == 0 { // side by side
		strideC = up(n) + unit*r.IntN(2)
		pitch = batch*strideC + unit*r.IntN(2)
	}
	out := elements((batch-1)*strideC+(m-1)*pitch+n+-n&7, func() R { return junkR })
	all, own, begin := behindJunk(p, r, out, junkR)
	mc := kernels.Matrix[R]{Ref: own, Rows: m, Cols: n, Pitch: pitch}
	bias := elements(n, func() float32 { return float32(1+r.IntN(7)) / 4 })
	_, ownBias, _ := behindJunk(p, r, bias, float32(math.NaN()))
	dense, wide := g, g
	dense.StrideA, dense.StrideB, dense.StrideC = m*k*min(1, strideA), n*k*min(1, strideB), m*n
	wide.StrideA, wide.StrideB, wide.StrideC = strideA, strideB, strideC
	what := fmt.Sprintf("%s %d x %d x %d %+v, pitches %d %d %d", name, m, n, k, wide, ma.Pitch, mb.Pitch, pitch)
	want := make([]R, batch*m*n)
	require.NoError(t, cpu(m, n, k, a, b, want, bias, dense), what)
	require.NoError(t, launch(ma, mb, mc, ownBias, wide), what)
	require.NoError(t, p.s.Synchronize(t.Context()), what)
	got := onHost(p, all)
	at := make([]int8, len(got)) // 1: an element, 2: may change
	for of := range batch {
		for i := range m {
			for j := range (n + 7) / 8 * 8 {
				if x := begin + of*strideC + i*pitch + j; j < n {
					at[x] = 1
					if !equalBits(want[(of*m+i)*n+j], got[x]) {
						require.Failf(t, "differs", "%s: %d, row %d, column %d: %v, want %v", what, of, i, j, got[x], want[(of*m+i)*n+j])
					}
				} else {
					at[x] = 2
				}
			}
		}
	}
	for x, is := range at {
		if is == 0 && !equalBits(got[x], junkR) {
			require.Failf(t, "written", "%s: element %d of what is not C: %v", what, x-begin, got[x])
		}
	}
}

func equalBits[R any](x, y R) bool {
	switch x := any(x).(type) {
	case float32:
		return math.Float32bits(x) == math.Float32bits(any(y).(float32))
	}
	return any(x) == any(y)
}

func edgesTo[T kernels.Factor, S gpu.Sum, R gpu.Element | gpu.Sum, F kernels.Finish[S, R]](t *testing.T, library, name string, f F, element func(r *rand.Rand) T, junkT T, junkR R) {
	edges(t, library, name, func(p *primitivesIn, r *rand.Rand) {
		k := kernels.GemmTo[T, S, R, F]{}.Of(p.of(name))
		edge(p, r, name, element, junkT, junkR,
			func(a, b kernels.Matrix[T], c kernels.Matrix[R], bias *runtime.Ref[float32], g kernels.GemmShape) error {
				return k.Launch(p.s, f, a, b, c, bias, g)
			},
			func(m, n, k int, a, b []T, c []R, bias []float32, g kernels.GemmShape) error {
				return kernels.GemmToCPU[T, S, R](f, m, n, k, a, b, c, bias, g)
			})
	})
}

func edgesWith[T gpu.Half, F kernels.Activation](t *testing.T, library, name string, f F) {
	edges(t, library, name, func(p *primitivesIn, r *rand.Rand) {
		k := kernels.GemmWith[T, F]{}.Of(p.of(name))
		edge(p, r, name, func(r *rand.Rand) T { return gpu.ToHalf[T](float32(r.IntN(15)-7) / 8) }, gpu.ToHalf[T](float32(math.NaN())), gpu.ToHalf[T](float32(math.NaN())),
			func(a, b kernels.Matrix[T], c kernels.Matrix[T], bias *runtime.Ref[float32], g kernels.GemmShape) error {
				return k.Launch(p.s, f, a, b, c, bias, g)
			},
			func(m, n, k int, a, b, c []T, bias []float32, g kernels.GemmShape) error {
				return kernels.GemmWithCPU(f, m, n, k, a, b, c, bias, g)
			})
	})
}

func edgesOf(t *testing.T, library string) {
	edges(t, library, "Gemm", func(p *primitivesIn, r *rand.Rand) {
		k, err := kernels.Load[kernels.Gemm[gpu.BFloat16]](p.k.Context())
		require.NoError(t, err)
		defer k.Close()
		edge(p, r, "Gemm", func(r *rand.Rand) gpu.BFloat16 { return gpu.ToBFloat16(float32(r.IntN(15)-7) / 8) }, gpu.ToBFloat16(float32(math.NaN())), gpu.ToBFloat16(float32(math.NaN())),
			func(a, b kernels.Matrix[gpu.BFloat16], c kernels.Matrix[gpu.BFloat16], _ *runtime.Ref[float32], g kernels.GemmShape) error {
				return k.Launch(p.s, a, b, c, g)
			},
			func(m, n, k int, a, b, c []gpu.BFloat16, _ []float32, g kernels.GemmShape) error {
				return kernels.GemmCPU(m, n, k, a, b, c, g)
			})
	})
}

// edges has devices of few and of many multiprocessors, so that tiles of all sizes have their turn.
func edges(t *testing.T, library, name string, try func(p *primitivesIn, r *rand.Rand)) {
	t.Run(library+" "+name, func(t *testing.T) {
		for _, processors := range []int{1, 5, 132} {
			d := drivertest.H100()
			if !strings.HasSuffix(library, "sm_90a") {
				d = drivertest.A100()
				if strings.HasPrefix(library, "float8") {
					d = drivertest.H100()
				}
			}
			d.SMs = processors
			t.Run(fmt.Sprint(processors), func(t *testing.T) {
				p := openLibraryOn(t, library, drivertest.Config{Devices: drivertest.Devices(1, d)})
				seeds.Each(t, seeds.Count(1, 4, 1), func(t *testing.T, seed uint64) {
					p := *p
					p.t = t
					try(&p, rand.New(rand.NewPCG(seed, uint64(processors))))
				})
			})
			if !strings.HasSuffix(library, "sm_90a") && name != "Gemm" {
				break // tiles are of one size
			}
		}
	})
}

// TestEdges has products near the ends of tiles, through all doors.
func TestEdges(t *testing.T) {
	if device.Hardware() {
		t.Skip("the hardware tests have shapes of their own")
	}
	eighth := func(r *rand.Rand) float32 { return float32(r.IntN(15)-7) / 8 }
	nan := float32(math.NaN())
	for _, target := range []string{"", " sm_90a"} {
		edgesTo[int8, int32](t, "products"+target, "GemmToInt8Int32Int32SameInt32", products.Same[int32]{}, func(r *rand.Rand) int8 { return int8(r.Uint32()) }, 127, int32(-77))
		edgesTo[uint8, int32](t, "products"+target, "GemmToUint8Int32Int8Narrow", products.Narrow{Shift: 14}, func(r *rand.Rand) uint8 { return uint8(r.Uint32()) }, 255, int8(-77))
		edgesTo[gpu.TF32, float32](t, "products"+target, "GemmToTF32Float32Float32SameFloat32", products.Same[float32]{}, func(r *rand.Rand) gpu.TF32 { return gpu.ToTF32(eighth(r)) }, gpu.ToTF32(nan), nan)
		edgesTo[gpu.BFloat16, float32](t, "products"+target, "GemmToBFloat16Float32Float32SameFloat32", products.Same[float32]{}, func(r *rand.Rand) gpu.BFloat16 { return gpu.ToBFloat16(eighth(r)) }, gpu.ToBFloat16(nan), nan)
		edgesTo[gpu.Float8E4M3, float32](t, "float8"+target, "GemmToFloat8E4M3Float32Float8E4M3Round", float8.Round{}, func(r *rand.Rand) gpu.Float8E4M3 { return gpu.ToFloat8E4M3(eighth(r)) }, gpu.ToFloat8E4M3(nan), gpu.ToFloat8E4M3(nan))
		edgesTo[gpu.Float8E4M3, float32](t, "float8"+target, "GemmToFloat8E4M3Float32BFloat16Scaled", float8.Scaled{By: 0.5}, func(r *rand.Rand) gpu.Float8E4M3 { return gpu.ToFloat8E4M3(eighth(r)) }, gpu.ToFloat8E4M3(nan), gpu.ToBFloat16(nan))
		edgesTo[gpu.Float8E5M2, float32](t, "float8"+target, "GemmToFloat8E5M2Float32Float32Add", float8.Add{}, func(r *rand.Rand) gpu.Float8E5M2 { return gpu.ToFloat8E5M2(float32(r.IntN(7)-3) / 4) }, gpu.ToFloat8E5M2(nan), nan)
	}
	for _, target := range []string{" sm_80", " sm_90a"} {
		edgesWith[gpu.BFloat16](t, "fused"+target, "GemmWithBFloat16Leaky", fused.Leaky{Slope: 0.25})
		edgesWith[gpu.Float16](t, "fused"+target, "GemmWithFloat16Leaky", fused.Leaky{Slope: 0.25})
		edgesWith[gpu.BFloat16](t, "fused"+target, "GemmWithBFloat16Clip", fused.Clip{Low: -2, High: 3})
		edgesOf(t, "fused"+target)
	}
}

// TestAttentionEdges has rows and keys around the ends of teams, blocks and tiles.
func TestAttentionEdges(t *testing.T) {
	if device.Hardware() {
		t.Skip("the hardware test has shapes of its own")
	}
	p := openLibrary(t, "fused sm_90a")
	seeds.Each(t, seeds.Count(6, 24, 2), func(t *testing.T, seed uint64) {
		p := *p
		p.t = t
		r := rand.New(rand.NewPCG(seed, 22))
		pick := func(of ...int) int { return of[r.IntN(len(of))] }
		h := kernels.Heads{Width: pick(64, 64, 128, 256), Keys: 1, Causal: r.IntN(3) > 0}
		h.Heads = 1 + r.IntN(2)
		rows, keys := pick(1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 257, 383, 384, 385), pick(1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 383, 384, 385)
		if h.Causal && keys < rows {
			rows, keys = keys, rows
		}
		cols, keyCols := h.Heads*h.Width, h.Keys*h.Width
		q, k, v, want := floatsOf[gpu.BFloat16](r, rows*cols, 0, 1), floatsOf[gpu.BFloat16](r, keys*keyCols, 0, 1), floatsOf[gpu.BFloat16](r, keys*keyCols, 0, 1), make([]gpu.BFloat16, rows*cols)
		out := matrixOf(&p, r, want, rows, cols)
		require.NoError(t, kernels.Attention[gpu.BFloat16]{}.Of(p.of("AttentionBFloat16")).Launch(p.s, matrixOf(&p, r, q, rows, cols), matrixOf(&p, r, k, keys, keyCols), matrixOf(&p, r, v, keys, keyCols), out, h))
		require.NoError(t, kernels.AttentionCPU(rows, keys, q, k, v, want, h))
		for i, x := range rowsOf(&p, out) {
			require.InDelta(t, want[i].Float32(), x.Float32(), 0.03, "%d rows, %d keys, %+v: row %d, column %d", rows, keys, h, i/cols, i%cols)
		}
	})
}
