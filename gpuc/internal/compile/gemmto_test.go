package compile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/float8"
	"github.com/purecuda/purecuda/gpuc/internal/testdata/products"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// productTo compares products with the CPU, bit for bit, and with plain loops where number says what an element is: then sums are exact. It has
// all shapes of a call. What lies between the results stays as it is, but for the element behind a row.
func productTo[T kernels.Factor, S gpu.Sum, R gpu.Element | gpu.Sum, F kernels.Finish[S, R]](t *testing.T, library, name string, f F, element func(r *rand.Rand) T, number func(T) S) {
	p := openProducts(t, library)
	k := kernels.GemmTo[T, S, R, F]{}.Of(p.of(name))
	shapes := [][3]int{{1, 1, 1}, {67, 131, 45}, {130, 7, 200}, {9, 21, 2100}, {33, 34, 64}}
	if strings.HasSuffix(library, "sm_90a") { // tiles of each width
		shapes = [][3]int{{70, 37, 300}, {33, 121, 145}, {130, 250, 200}, {9, 70, 2100}}
	}
	loops := number != nil && !device.Hardware() // which take long for what is large
	if device.Hardware() {
		shapes = append(shapes, [3]int{35, 662, 658}, [3]int{1333, 733, 838}, [3]int{512, 256, 8192})
	}
	for i, c := range shapes {
		m, n, depth, r := c[0], c[1], c[2], rand.New(rand.NewPCG(uint64(i), 5))
		for _, g := range []kernels.GemmShape{{}, {InParts: true, TransposedA: true}, {TransposedB: true, Batch: 2}, {InParts: true, Batch: 3, TransposedA: true, TransposedB: true}} {
			what := fmt.Sprintf("%s %v %+v", name, c, g)
			batch := max(1, g.Batch)
			// matrix makes matrices with gaps, and the same without.
			matrix := func(rows, cols int, turned bool) (dense []T, at func(of, row, col int) T, m kernels.Matrix[T], stride int) {
				if turned {
					rows, cols = cols, rows
				}
				m = kernels.Matrix[T]{Rows: rows, Cols: cols, Pitch: (cols+15)/16*16 + 16*r.IntN(2)}
				stride = rows*m.Pitch + 16*r.IntN(2)
				v := elements(batch*stride, func() T { return element(r) })
				m.Ref = onDevice(p, v, 0)
				for i := range batch * rows {
					dense = append(dense, v[i/rows*stride+i%rows*m.Pitch:][:cols]...)
				}
				return dense, func(of, row, col int) T {
					if turned {
						row, col = col, row
					}
					return dense[(of*rows+row)*cols+col]
				}, m, stride
			}
			a, atA, da, strideA := matrix(m, depth, g.TransposedA)
			b, atB, db, strideB := matrix(n, depth, g.TransposedB)
			pitch := (n+15)/16*16 + 16*r.IntN(2)
			host, out, bias := make([]R, batch*m*n), make([]R, batch*m*pitch), elements(n, func() float32 { return float32(r.IntN(15)-7) / 4 })
			dense, wide := g, g
			dense.StrideA, dense.StrideB, dense.StrideC = m*depth, n*depth, m*n
			wide.StrideA, wide.StrideB, wide.StrideC = strideA, strideB, m*pitch
			dc := kernels.Matrix[R]{Ref: onDevice(p, out, 0), Rows: m, Cols: n, Pitch: pitch}
			dBias := onDevice(p, bias, 0)
			require.NoError(t, kernels.GemmToCPU(f, m, n, depth, a, b, host, bias, dense), what)
			// A capture has memory of its own for what needs some, and is replayed.
			wide.Scratch = onDevice(p, make([]byte, k.Scratch(m, n, depth, wide)), 0)
			graph, err := p.s.Capture(func(s *runtime.Stream) error { return k.Launch(s, f, da, db, dc, dBias, wide) })
			require.NoError(t, err, what)
			exec, err := graph.Instantiate()
			require.NoError(t, err)
			require.NoError(t, exec.Launch(p.s))
			got := onHost(p, dc.Ref)
			require.NoError(t, exec.Close())
			require.NoError(t, graph.Close())
			wide.Scratch = nil
			require.NoError(t, runtime.Upload(t.Context(), p.s, dc.Ref, out))
			require.NoError(t, k.Launch(p.s, f, da, db, dc, dBias, wide), what)
			same(t, got, onHost(p, dc.Ref), what)
			for of := range batch {
				for row := range m {
					line := got[(of*m+row)*pitch:][:pitch]
					require.Equal(t, host[(of*m+row)*n:][:n], line[:n], "%s: %d, row %d", what, of, row)
					require.Equal(t, make([]R, pitch)[:pitch-(n+1)/2*2], line[(n+1)/2*2:], "%s: a gap was written", what)
					for col := 0; loops && col < n; col++ {
						var sum S
						for e := range depth {
							sum += number(atA(of, row, e)) * number(atB(of, col, e))
						}
						require.Equal(t, f.Apply(sum, bias[col]), line[col], "%s: %d, row %d, column %d", what, of, row, col)
					}
				}
			}
		}
	}
}

// openProducts has a device of one multiprocessor for sm_90a, so that the widest tiles have their turn.
func openProducts(t *testing.T, library string) *primitivesIn {
	d := drivertest.H100()
	if strings.HasSuffix(library, "sm_90a") {
		d.SMs = 1
	}
	return openLibraryOn(t, library, drivertest.Config{Devices: drivertest.Devices(1, d)})
}

// TestGemmTo has all kinds of elements. Numbers are such that sums of floats are exact in any order.
func TestGemmTo(t *testing.T) {
	eighth := func(r *rand.Rand) float32 { return float32(r.IntN(15)-7) / 8 }
	int8s, uint8s := func(r *rand.Rand) int8 { return int8(r.Uint32()) }, func(r *rand.Rand) uint8 { return uint8(r.Uint32()) }
	for _, target := range []string{"", " sm_90a"} {
		productTo(t, "products"+target, "GemmToInt8Int32Int32SameInt32", products.Same[int32]{}, int8s, func(x int8) int32 { return int32(x) })
		productTo(t, "products"+target, "GemmToInt8Int32BFloat16Scaled", products.Scaled{By: 0x1p-7}, int8s, func(x int8) int32 { return int32(x) })
		productTo(t, "products"+target, "GemmToUint8Int32Int8Narrow", products.Narrow{Shift: 14}, uint8s, func(x uint8) int32 { return int32(x) })
		productTo(t, "products"+target, "GemmToTF32Float32Float32SameFloat32", products.Same[float32]{}, func(r *rand.Rand) gpu.TF32 { return gpu.ToTF32(eighth(r)) }, gpu.TF32.Float32)
		productTo(t, "products"+target, "GemmToBFloat16Float32Float32SameFloat32", products.Same[float32]{}, func(r *rand.Rand) gpu.BFloat16 { return gpu.ToBFloat16(eighth(r)) }, gpu.BFloat16.Float32)
		productTo(t, "float8"+target, "GemmToFloat8E4M3Float32Float8E4M3Round", float8.Round{}, func(r *rand.Rand) gpu.Float8E4M3 { return gpu.ToFloat8E4M3(eighth(r)) }, gpu.Float8E4M3.Float32)
		productTo(t, "float8"+target, "GemmToFloat8E4M3Float32BFloat16Scaled", float8.Scaled{By: 0.5}, func(r *rand.Rand) gpu.Float8E4M3 { return gpu.ToFloat8E4M3(eighth(r)) }, gpu.Float8E4M3.Float32)
		productTo(t, "float8"+target, "GemmToFloat8E5M2Float32Float32Add", float8.Add{}, func(r *rand.Rand) gpu.Float8E5M2 { return gpu.ToFloat8E5M2(float32(r.IntN(7)-3) / 4) }, gpu.Float8E5M2.Float32)
	}
}

// TestGemmToOrder has sums that are not exact: the simulated driver adds in the order of the CPU.
func TestGemmToOrder(t *testing.T) {
	if device.Hardware() {
		t.Skip("a GPU adds in another order")
	}
	normal := func(r *rand.Rand) float32 { return float32(r.NormFloat64()) }
	for _, target := range []string{"", " sm_90a"} {
		productTo(t, "products"+target, "GemmToTF32Float32Float32SameFloat32", products.Same[float32]{}, func(r *rand.Rand) gpu.TF32 { return gpu.View[gpu.TF32]([]float32{normal(r)})[0] }, nil) // not rounded
		productTo(t, "products"+target, "GemmToBFloat16Float32Float32SameFloat32", products.Same[float32]{}, func(r *rand.Rand) gpu.BFloat16 { return gpu.ToBFloat16(normal(r)) }, nil)
	}
	productTo(t, "float8", "GemmToFloat8E5M2Float32Float32Add", float8.Add{}, func(r *rand.Rand) gpu.Float8E5M2 { return gpu.ToFloat8E5M2(normal(r)) }, nil)
}

// TestGemmToOfFloat8 has sums that are not exact on sm_90a, which adds the sums of 128 columns: they differ from the CPU by no more than gpu.MMAError says.
func TestGemmToOfFloat8(t *testing.T) {
	p := openProducts(t, "float8 sm_90a")
	for _, c := range [][3]int{{70, 37, 300}, {130, 250, 700}} {
		m, n, depth, r := c[0], c[1], c[2], rand.New(rand.NewPCG(3, 5))
		pitch := (depth + 15) / 16 * 16
		normal := func() gpu.Float8E5M2 { return gpu.ToFloat8E5M2(float32(r.NormFloat64())) }
		a, b := elements(m*pitch, normal), elements(n*pitch, normal)
		wide := (n + 7) / 8 * 8
		to := kernels.Matrix[float32]{Ref: onDevice(p, make([]float32, m*wide), 0), Rows: m, Cols: n, Pitch: wide}
		k := kernels.GemmTo[gpu.Float8E5M2, float32, float32, float8.Add]{}.Of(p.of("GemmToFloat8E5M2Float32Float32Add"))
		of := func(x []gpu.Float8E5M2, rows int) kernels.Matrix[gpu.Float8E5M2] {
			return kernels.Matrix[gpu.Float8E5M2]{Ref: onDevice(p, x, 0), Rows: rows, Cols: depth, Pitch: pitch}
		}
		require.NoError(t, k.Launch(p.s, float8.Add{}, of(a, m), of(b, n), to, nil))
		got := onHost(p, to.Ref)
		for i := range m {
			for j := range n {
				sum, all := 0.0, 0.0
				for e := range depth {
					x := float64(a[i*pitch+e].Float32()) * float64(b[j*pitch+e].Float32())
					sum, all = sum+x, all+math.Abs(x)
				}
				require.InDelta(t, sum, float64(got[i*to.Pitch+j]), all*gpu.MMAError[gpu.Float8E5M2](), "row %d, column %d", i, j)
			}
		}
	}
}

// TestTimesOfGemmToOnHardware prints how fast squares are, as the median of 7 launches. run libs has those of cuBLAS, and of PyTorch for int8.
func TestTimesOfGemmToOnHardware(t *testing.T) {
	n := 8192
	if !device.Hardware() {
		n = 48 // so that what the hardware runs is tried
	}
	for _, target := range []string{"", " sm_90a"} {
		timeTo(t, n, "products"+target, "GemmToInt8Int32Int32SameInt32", products.Same[int32]{}, func(r *rand.Rand) int8 { return int8(r.Uint32()) })
		timeTo(t, n, "products"+target, "GemmToInt8Int32BFloat16Scaled", products.Scaled{By: 1}, func(r *rand.Rand) int8 { return int8(r.Uint32()) })
		timeTo(t, n, "products"+target, "GemmToTF32Float32Float32SameFloat32", products.Same[float32]{}, func(r *rand.Rand) gpu.TF32 { return gpu.ToTF32(eighths(r)) })
		timeTo(t, n, "products"+target, "GemmToBFloat16Float32Float32SameFloat32", products.Same[float32]{}, func(r *rand.Rand) gpu.BFloat16 { return gpu.ToBFloat16(eighths(r)) })
		timeTo(t, n, "float8"+target, "GemmToFloat8E4M3Float32BFloat16Scaled", float8.Scaled{By: 1}, func(r *rand.Rand) gpu.Float8E4M3 { return gpu.ToFloat8E4M3(eighths(r)) })
		timeTo(t, n, "float8"+target, "GemmToFloat8E4M3Float32Float8E4M3Round", float8.Round{}, func(r *rand.Rand) gpu.Float8E4M3 { return gpu.ToFloat8E4M3(eighths(r)) })
	}
}

func timeTo[T kernels.Factor, S gpu.Sum, R gpu.Element | gpu.Sum, F kernels.Finish[S, R]](t *testing.T, n int, library, name string, f F, element func(r *rand.Rand) T) {
	p := openLibrary(t, library)
	x := numbers(n*n, element) // zeros would need less power
	a, b := kernels.Matrix[T]{Ref: onDevice(p, x, 0), Rows: n, Cols: n, Pitch: n}, kernels.Matrix[T]{Ref: onDevice(p, x, 0), Rows: n, Cols: n, Pitch: n}
	c, bias := kernels.Matrix[R]{Ref: onDevice(p, make([]R, n*n), 0), Rows: n, Cols: n, Pitch: n}, onDevice(p, make([]float32, n), 0)
	k := kernels.GemmTo[T, S, R, F]{}.Of(p.of(name))
	start, err := p.s.Context().NewTimingEvent()
	require.NoError(t, err)
	defer start.Close()
	end, err := p.s.Context().NewTimingEvent()
	require.NoError(t, err)
	defer end.Close()
	var all []float64
	for range 8 {
		require.NoError(t, start.Record(p.s))
		require.NoError(t, k.Launch(p.s, f, a, b, c, bias))
		require.NoError(t, end.Record(p.s))
		require.NoError(t, p.s.Synchronize(t.Context()))
		took, err := end.Since(start)
		require.NoError(t, err)
		all = append(all, 2*float64(n)*float64(n)*float64(n)/took.Seconds()/1e12)
	}
	slices.Sort(all[1:]) // the first one warms up
	fmt.Printf("%-40s %-16s %d: %.2f TFLOP/s\n", name, library, n, all[4])
}

func TestGemmToRefuses(t *testing.T) {
	p := openLibrary(t, "products")
	k := kernels.GemmTo[int8, int32, int32, products.Same[int32]]{}.Of(p.of("GemmToInt8Int32Int32SameInt32"))
	a, c := onDevice(p, make([]int8, 512), 0), onDevice(p, make([]int32, 512), 0)
	of := func(pitch int) kernels.Matrix[int8] {
		return kernels.Matrix[int8]{Ref: a, Rows: 8, Cols: 9, Pitch: pitch}
	}
	to := kernels.Matrix[int32]{Ref: c, Rows: 8, Cols: 8, Pitch: 8}
	for want, err := range map[string]error{
		"the pitch of A is 24: want a multiple of 16, at least its 9 columns": k.Launch(p.s, products.Same[int32]{}, of(24), of(16), to, nil),
		"the stride of B is 8, want a multiple of 16":                         k.Launch(p.s, products.Same[int32]{}, of(16), of(16), to, nil, kernels.GemmShape{Batch: 2, StrideB: 8, StrideC: 64}),
		"A has 123 elements, too few for 8 rows of 12":                        k.Launch(p.s, products.Same[int32]{}, kernels.Matrix[int8]{Ref: a.Slice(0, 123), Rows: 8, Cols: 9, Pitch: 16}, kernels.Matrix[int8]{Ref: a, Rows: 8, Cols: 8, Pitch: 16}, kernels.Matrix[int32]{Ref: c, Rows: 9, Cols: 8, Pitch: 8}, nil, kernels.GemmShape{TransposedA: true}),
		"the bias has 7 elements":                                             k.Launch(p.s, products.Same[int32]{}, of(16), of(16), to, onDevice(p, make([]float32, 7), 0)),
		"products of int8 are added up in int32, not float32":                 kernels.GemmToCPU(products.Same[float32]{}, 1, 1, 1, []int8{1}, []int8{1}, []float32{1}, nil),
		"products of gpu.Float16 are added up in float32, not int32":          kernels.GemmToCPU(products.Same[int32]{}, 1, 1, 1, make([]gpu.Float16, 1), make([]gpu.Float16, 1), []int32{1}, nil),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, want)
		assert.ErrorContains(t, err, want)
	}
	require.NoError(t, k.Launch(p.s, products.Same[int32]{}, kernels.Matrix[int8]{Ref: a.Slice(0, 124), Rows: 8, Cols: 9, Pitch: 16}, kernels.Matrix[int8]{Ref: a, Rows: 8, Cols: 8, Pitch: 16}, kernels.Matrix[int32]{Ref: c, Rows: 9, Cols: 8, Pitch: 8}, nil, kernels.GemmShape{TransposedA: true}))
	require.NoError(t, p.s.Synchronize(t.Context()))
	sum := make([]int32, 1) // integers wrap around
	n := 1 << 18
	require.NoError(t, kernels.GemmToCPU(products.Same[int32]{}, 1, 1, n, elements(n, func() int8 { return -128 }), elements(n, func() int8 { return -128 }), sum, nil))
	require.Equal(t, int32(0), sum[0])
}
