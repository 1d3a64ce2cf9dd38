package kernels

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

func gemmDevice(t *testing.T, d drivertest.DeviceConfig) *runtime.Backend {
	t.Helper()
	b, _ := gemmDriver(t, d)
	return b
}

func gemmDriver(t *testing.T, d drivertest.DeviceConfig) (*runtime.Backend, *drivertest.Driver) {
	t.Helper()
	g := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(1, d)})
	rt, err := runtime.Open(runtime.WithDriver(g))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	b, err := rt.Probe("test")
	require.NoError(t, err)
	return b, g
}

// TestGemm compares products of random shapes on the simulated driver with those on the CPU, bit for bit.
func TestGemm(t *testing.T) {
	one := drivertest.H100()
	one.Name, one.SMs = "one multiprocessor", 1 // it takes wide tiles, one after another
	for _, d := range []drivertest.DeviceConfig{drivertest.A100(), drivertest.H100(), one} {
		b := gemmDevice(t, d)
		t.Run(d.Name+"/Float16", func(t *testing.T) { testGemm[gpu.Float16](t, b) })
		t.Run(d.Name+"/BFloat16", func(t *testing.T) { testGemm[gpu.BFloat16](t, b) })
	}
}

func testGemm[T gpu.Half](t *testing.T, b *runtime.Backend) {
	ctx, s := context.Background(), b.Stream
	var k Gemm[T]
	var err error
	switch p := any(&k).(type) {
	case *Gemm[gpu.Float16]:
		*p, err = Load[Gemm[gpu.Float16]](b.Context)
	case *Gemm[gpu.BFloat16]:
		*p, err = Load[Gemm[gpu.BFloat16]](b.Context)
	}
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Close()) }()
	r := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		m, n, depth := 1+r.IntN(200), 1+r.IntN(200), 1+r.IntN(150)
		t.Run(fmt.Sprint(m, n, depth), func(t *testing.T) {
			matrix := func(rows, cols int) []T {
				v := make([]T, rows*cols)
				for i := range v {
					v[i] = gpu.ToHalf[T](float32(r.NormFloat64()))
				}
				return v
			}
			up := func(v []T, rows, cols int) Matrix[T] {
				pitch := (cols+7)/8*8 + 8*r.IntN(2)
				ref, err := runtime.Alloc[T](s, rows*pitch)
				require.NoError(t, err)
				require.NoError(t, runtime.Upload2D(ctx, s, ref, pitch, v, cols, cols, rows))
				return Matrix[T]{ref, rows, cols, pitch}
			}
			a, w, want, got := matrix(m, depth), matrix(n, depth), make([]T, m*n), make([]T, m*n)
			da, dw, dc := up(a, m, depth), up(w, n, depth), up(got, m, n)
			require.NoError(t, k.Launch(s, da, dw, dc))
			require.NoError(t, runtime.Download2D(ctx, s, got, n, dc.Ref, dc.Pitch, n, m))
			require.NoError(t, GemmCPU(m, n, depth, a, w, want))
			assert.Equal(t, want, got)
			for _, x := range []Matrix[T]{da, dw, dc} {
				assert.NoError(t, x.Ref.Close())
			}
		})
	}
}

// TestGemmOfLargeNumbers has products that no float32 holds, whose sum it does.
func TestGemmOfLargeNumbers(t *testing.T) {
	for _, d := range []drivertest.DeviceConfig{drivertest.A100(), drivertest.H100()} {
		b := gemmDevice(t, d)
		k, err := Load[Gemm[gpu.BFloat16]](b.Context)
		require.NoError(t, err)
		large, one := gpu.ToBFloat16(1e30), gpu.ToBFloat16(1)
		x, w, got := []gpu.BFloat16{large, large, one, 7: {}}, []gpu.BFloat16{large, gpu.ToBFloat16(-1e30), one, 7: {}}, make([]gpu.BFloat16, 1)
		matrix := func(ref *runtime.Ref[gpu.BFloat16], cols int) Matrix[gpu.BFloat16] {
			return Matrix[gpu.BFloat16]{ref, 1, cols, 8}
		}
		dc := upload(t, b.Stream, make([]gpu.BFloat16, 8))
		require.NoError(t, k.Launch(b.Stream, matrix(upload(t, b.Stream, x), 3), matrix(upload(t, b.Stream, w), 3), matrix(dc, 1)))
		require.NoError(t, GemmCPU(1, 1, 3, x[:3], w[:3], got))
		assert.Equal(t, one, got[0])
		assert.Equal(t, one, download(t, b.Stream, dc)[0])
		require.NoError(t, k.Close())
	}
}

func TestGemmRefuses(t *testing.T) {
	b := gemmDevice(t, drivertest.T4())
	_, err := Load[Gemm[gpu.Float16]](b.Context)
	assert.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "kernels.Gemm needs compute capability 8.0, and the device has 7.5: take another device, or kernels.GemmCPU")

	b = gemmDevice(t, drivertest.A100())
	k, err := Load[Gemm[gpu.BFloat16]](b.Context)
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Close()) }()
	ref, err := runtime.Alloc[gpu.BFloat16](b.Stream, 1024)
	require.NoError(t, err)
	other, err := runtime.Alloc[gpu.BFloat16](b.Stream, 1024)
	require.NoError(t, err)
	m := func(ref *runtime.Ref[gpu.BFloat16], rows, cols, pitch int) Matrix[gpu.BFloat16] {
		return Matrix[gpu.BFloat16]{ref, rows, cols, pitch}
	}
	good := m(ref, 16, 16, 16)
	for _, c := range []struct {
		a, b, c Matrix[gpu.BFloat16]
		want    string
	}{
		{good, m(ref, 16, 8, 16), m(other, 16, 16, 16), "A has 16 columns and B 8"},
		{good, good, m(other, 16, 8, 16), "C is 16 x 8, want 16 x 16"},
		{m(ref, 16, 0, 16), m(ref, 16, 0, 16), m(other, 16, 16, 16), "A has 0 columns: want 0 to 2147483135, and at least one of those"},
		{m(nil, 16, 16, 16), good, m(other, 16, 16, 16), "A has no memory"},
		{m(ref, 16, 16, 12), good, m(other, 16, 16, 16), "the pitch of A is 12"},
		{good, m(ref, 16, 16, 8), m(other, 16, 16, 16), "the pitch of B is 8"},
		{good, good, m(other, 16, 16, 1024), "C has 1024 elements, too few for 16 rows of 16 with a pitch of 1024"},
		{m(ref, 17, 16, math.MaxInt32&^15), good, m(other, 17, 16, 16), "A has 1024 elements, too few for 17 rows of 16"},
		{good, good, m(other, 16, 16, 1<<32), "the pitch of C is 4294967296, want 2147483647 at most"},                     // kernels count in 32 bits
		{m(ref, 1, 16, 16), m(ref, 6, 16, 16), m(other.Slice(0, 7), 1, 6, 8), "C has 7 elements, too few for 1 rows of 8"}, // which are stored together
		{good, good, good, "overlap"},
		{m(ref.Slice(1, 1000), 16, 16, 16), good, m(other, 16, 16, 16), "want a multiple of 16"},
	} {
		assert.ErrorContains(t, k.Launch(b.Stream, c.a, c.b, c.c), c.want)
	}
	assert.NoError(t, k.Launch(b.Stream, m(ref, 0, 16, 16), good, m(other, 0, 16, 16)))
	assert.ErrorContains(t, GemmCPU(2, 2, 2, make([]gpu.Float16, 4), make([]gpu.Float16, 4), make([]gpu.Float16, 5)), "5 elements are not")
	assert.NoError(t, ref.Close())
	assert.NoError(t, other.Close())
}

// TestGemmBatch compares batches with plain loops, which have the same bits for exact sums. What lies between the results stays as it is.
func TestGemmBatch(t *testing.T) {
	one := drivertest.H100()
	one.Name, one.SMs = "one multiprocessor", 1 // each product fills it
	for _, d := range []drivertest.DeviceConfig{drivertest.A100(), drivertest.H100(), one} {
		t.Run(d.Name, func(t *testing.T) {
			b, sim := gemmDriver(t, d)
			batches(t, b, func() int { return sim.Calls("cuLaunchKernel") })
		})
	}
}

// batches compares batches with plain loops. launches counts them.
func batches(t *testing.T, b *runtime.Backend, launches func() int) {
	k, err := Load[Gemm[gpu.BFloat16]](b.Context)
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Close()) }()
	for i, c := range []struct {
		m, n, k, batch int
		side, same     bool // results side by side; one B for all
	}{{1, 1, 1, 2, false, false}, {70, 36, 45, 3, false, false}, {9, 17, 20, 4, true, false}, {130, 132, 33, 2, false, true}, {16, 64, 64, 3, true, true}, {5, 6, 7, 1, false, false}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(i), 7))
			up := func(n int) int { return (n + 7) / 8 * 8 }
			pa, pb, pc := up(c.k), up(c.k)+8, up(c.n)+8
			g := GemmShape{Batch: c.batch, StrideA: c.m*pa + 8, StrideB: c.n * pb, StrideC: c.m*pc + 16}
			if c.side {
				g.StrideC, pc = up(c.n), up(c.n)*c.batch+8
			}
			if c.same {
				g.StrideB = 0
			}
			x := exact[gpu.BFloat16](r, (c.batch-1)*g.StrideA+c.m*pa)
			w := exact[gpu.BFloat16](r, (c.batch-1)*g.StrideB+c.n*pb)
			want := exact[gpu.BFloat16](r, (c.batch-1)*g.StrideC+c.m*pc)
			dx, dw, dc := upload(t, b.Stream, x), upload(t, b.Stream, w), upload(t, b.Stream, want)
			defer func() { assert.NoError(t, errors.Join(dx.Close(), dw.Close(), dc.Close())) }()
			before := launches()
			require.NoError(t, k.Launch(b.Stream, Matrix[gpu.BFloat16]{dx, c.m, c.k, pa}, Matrix[gpu.BFloat16]{dw, c.n, c.k, pb}, Matrix[gpu.BFloat16]{dc, c.m, c.n, pc}, g))
			require.Equal(t, before+1, launches())
			got := download(t, b.Stream, dc)
			for of := range c.batch {
				for i := range c.m {
					for j := range c.n {
						var sum float32
						for e := range c.k {
							sum += x[of*g.StrideA+i*pa+e].Float32() * w[of*g.StrideB+j*pb+e].Float32()
						}
						want[of*g.StrideC+i*pc+j] = gpu.ToBFloat16(sum)
					}
					for after := of*g.StrideC + i*pc + c.n; after < of*g.StrideC+i*pc+up(c.n); after++ {
						if got[after].Float32() == 0 { // stored with the last column
							want[after] = got[after]
						}
					}
				}
			}
			require.Equal(t, want, got)
		})
	}
}

// TestGemmCPUBatch compares a batch with its products, one after another.
func TestGemmCPUBatch(t *testing.T) {
	const m, n, k, batch = 3, 5, 7, 4
	r := rand.New(rand.NewPCG(3, 4))
	for _, g := range []GemmShape{{Batch: batch, StrideA: m*k + 3, StrideB: 0, StrideC: m*n + 1}, {Batch: batch, StrideA: 1, StrideB: n * k, StrideC: m * n}} {
		a, b := exact[gpu.Float16](r, (batch-1)*g.StrideA+m*k), exact[gpu.Float16](r, (batch-1)*g.StrideB+n*k)
		got, want := make([]gpu.Float16, (batch-1)*g.StrideC+m*n), make([]gpu.Float16, (batch-1)*g.StrideC+m*n)
		require.NoError(t, GemmCPU(m, n, k, a, b, got, g))
		for i := range batch {
			require.NoError(t, GemmCPU(m, n, k, a[i*g.StrideA:][:m*k], b[i*g.StrideB:][:n*k], want[i*g.StrideC:][:m*n]))
		}
		require.Equal(t, want, got)
	}
	v := func(n int) []gpu.Float16 { return make([]gpu.Float16, n) }
	assert.NoError(t, GemmCPU(0, 2, 2, nil, v(12), nil, GemmShape{Batch: 3, StrideB: 4}))
	assert.ErrorContains(t, GemmCPU(2, 2, 2, v(8), v(8), v(8), GemmShape{Batch: 2, StrideA: 4, StrideB: 4, StrideC: 3}), "C: 8 elements are not 2 of 2 x 2, 3 apart: want 7")
	assert.ErrorContains(t, GemmCPU(2, 2, 2, v(8), v(8), v(7), GemmShape{Batch: 2, StrideA: 4, StrideB: 4, StrideC: 3}), "the stride of C is 3: 2 results of 2 x 2 with a pitch of 2 overlap: want 4 and more")
	assert.ErrorContains(t, GemmCPU(2, 2, 2, v(8), v(8), v(8), GemmShape{Batch: 2, StrideA: 5, StrideB: 4, StrideC: 4}), "the stride of A is 5: 4 elements behind the first of 2 matrices have room for 0 to 4")
	assert.ErrorContains(t, GemmCPU(2, 2, 2, v(3), v(8), v(8), GemmShape{Batch: 2, StrideA: 4, StrideB: 4, StrideC: 4}), "A has 3 elements, too few for 2 x 2")
}

func TestGemmBatchRefuses(t *testing.T) {
	b := gemmDevice(t, drivertest.A100())
	k, err := Load[Gemm[gpu.BFloat16]](b.Context)
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Close()) }()
	m := func() Matrix[gpu.BFloat16] {
		return Matrix[gpu.BFloat16]{upload(t, b.Stream, make([]gpu.BFloat16, 1024)), 16, 16, 16}
	}
	x, w, y := m(), m(), m()
	for _, c := range []struct {
		shape []GemmShape
		want  string
	}{
		{[]GemmShape{{}, {}}, "2 shapes, want one at most"},
		{[]GemmShape{{Batch: -1}}, "a batch of -1 products, want 0 to 65535"},
		{[]GemmShape{{Batch: 65536}}, "a batch of 65536 products, want 0 to 65535: divide a larger one"},
		{[]GemmShape{{Batch: 2, StrideA: 12, StrideB: 0, StrideC: 256}}, "the stride of A is 12, want a multiple of 8"},
		{[]GemmShape{{Batch: 2, StrideA: 0, StrideB: -8, StrideC: 256}}, "the stride of B is -8"},
		{[]GemmShape{{Batch: 5, StrideA: 0, StrideB: 0, StrideC: 256}}, "the stride of C is 256: 768 elements behind the first of 5 matrices have room for 0 to 192: want 4 x the stride there"},
		{[]GemmShape{{Batch: 65535, StrideA: 0, StrideB: 1 << 30, StrideC: 0}}, "the stride of B is 1073741824"},
		{[]GemmShape{{Batch: 2, StrideA: 0, StrideB: 0, StrideC: 0}}, "the stride of C is 0: 2 results of 16 x 16 with a pitch of 16 overlap: want 256 and more"},
		{[]GemmShape{{Batch: 2, StrideA: 0, StrideB: 0, StrideC: 16}}, "the stride of C is 16"},
	} {
		assert.ErrorContains(t, k.Launch(b.Stream, x, w, y, c.shape...), c.want)
	}
	assert.NoError(t, k.Launch(b.Stream, x, w, y, GemmShape{Batch: 4, StrideA: 256, StrideB: 0, StrideC: 256}))
	assert.NoError(t, k.Launch(b.Stream, x, w, y, GemmShape{}))
}

// TestGemmTransposed compares all four combinations with plain loops, which have the same bits for exact sums: single products and batches.
func TestGemmTransposed(t *testing.T) {
	one := drivertest.H100()
	one.Name, one.SMs = "one multiprocessor", 1 // each product fills it
	for _, d := range []drivertest.DeviceConfig{drivertest.A100(), drivertest.H100(), one} {
		b := gemmDevice(t, d)
		k, err := Load[Gemm[gpu.Float16]](b.Context)
		require.NoError(t, err)
		for i, c := range []struct {
			m, n, k, batch int
			same           bool // one A for all
		}{{1, 1, 1, 1, false}, {70, 38, 45, 1, false}, {65, 129, 66, 3, false}, {64, 64, 63, 2, true}, {131, 2, 128, 2, false}} {
			for turn := range 4 {
				t.Run(fmt.Sprint(d.Name, c, turn), func(t *testing.T) {
					r := rand.New(rand.NewPCG(uint64(i), 8))
					g := GemmShape{Batch: c.batch, TransposedA: turn&1 == 1, TransposedB: turn&2 == 2}
					matrix := func(rows int, turned, same bool) (v, tight []gpu.Float16, m Matrix[gpu.Float16], stride, packed int, at func(of, row, e int) float32) {
						m.Rows, m.Cols = rows, c.k
						if turned {
							m.Rows, m.Cols = c.k, rows
						}
						m.Pitch, packed = (m.Cols+15)/8*8, m.Rows*m.Cols
						if stride = m.Rows*m.Pitch + 8; same {
							stride, packed = 0, 0
						}
						v = exact[gpu.Float16](r, (c.batch-1)*stride+m.Rows*m.Pitch)
						tight = make([]gpu.Float16, (c.batch-1)*packed+m.Rows*m.Cols)
						for of := range c.batch {
							for i := range m.Rows {
								copy(tight[of*packed+i*m.Cols:][:m.Cols], v[of*stride+i*m.Pitch:])
							}
						}
						m.Ref = upload(t, b.Stream, v)
						return v, tight, m, stride, packed, func(of, row, e int) float32 {
							if turned {
								row, e = e, row
							}
							return v[of*stride+row*m.Pitch+e].Float32()
						}
					}
					_, tx, dx, sx, px, x := matrix(c.m, g.TransposedA, c.same)
					_, tw, dw, sw, pw, w := matrix(c.n, g.TransposedB, false)
					pitch := (c.n + 7) / 8 * 8
					dc := Matrix[gpu.Float16]{upload(t, b.Stream, exact[gpu.Float16](r, c.batch*c.m*pitch+1)), c.m, c.n, pitch}
					g.StrideA, g.StrideB, g.StrideC = sx, sw, c.m*pitch
					require.NoError(t, k.Launch(b.Stream, dx, dw, dc, g))
					got := download(t, b.Stream, dc.Ref)
					host := make([]gpu.Float16, c.batch*c.m*c.n)
					g.StrideA, g.StrideB, g.StrideC = px, pw, c.m*c.n
					require.NoError(t, GemmCPU(c.m, c.n, c.k, tx, tw, host, g))
					for of := range c.batch {
						for i := range c.m {
							for j := range c.n {
								var sum float32
								for e := range c.k {
									sum += x(of, i, e) * w(of, j, e)
								}
								want := gpu.ToFloat16(sum)
								require.Equal(t, want, got[(of*c.m+i)*pitch+j], "%d: %d %d", of, i, j)
								require.Equal(t, want, host[(of*c.m+i)*c.n+j], "%d: %d %d on the CPU", of, i, j)
							}
						}
					}
				})
			}
		}
		require.NoError(t, k.Close())
	}
}

func TestGemmTransposedRefuses(t *testing.T) {
	b := gemmDevice(t, drivertest.A100())
	k, err := Load[Gemm[gpu.BFloat16]](b.Context)
	require.NoError(t, err)
	defer func() { assert.NoError(t, k.Close()) }()
	m := func(rows, cols, length int) Matrix[gpu.BFloat16] {
		return Matrix[gpu.BFloat16]{upload(t, b.Stream, make([]gpu.BFloat16, length)), rows, cols, 16}
	}
	for _, c := range []struct {
		a, b, c Matrix[gpu.BFloat16]
		shape   GemmShape
		want    string
	}{
		{m(8, 16, 128), m(16, 9, 256), m(16, 16, 256), GemmShape{TransposedA: true}, "A has 8 rows and B 9 columns, want as many"},
		{m(8, 16, 128), m(9, 16, 256), m(16, 16, 256), GemmShape{TransposedA: true, TransposedB: true}, "A has 8 rows and B 9 rows, want as many"},
		{m(16, 8, 256), m(8, 16, 128), m(16, 8, 256), GemmShape{TransposedB: true}, "C is 16 x 8, want 16 x 16: the rows of A, and the columns of B"},
		{m(2, 3, 19), m(8, 2, 128), m(3, 8, 64), GemmShape{TransposedA: true}, "A has 19 elements, too few for 2 rows of 4 with a pitch of 16"},
	} {
		assert.ErrorContains(t, k.Launch(b.Stream, c.a, c.b, c.c, c.shape), c.want)
	}
	assert.NoError(t, k.Launch(b.Stream, m(2, 3, 20), m(8, 2, 128), m(3, 8, 64), GemmShape{TransposedA: true}))
}

// TestGemmInParts has few tiles and many columns, with plain loops, which have the same bits for exact sums, and on the CPU.
// Where sums are not exact, numbers that cancel between parts show their order.
func TestGemmInParts(t *testing.T) {
	for _, d := range []drivertest.DeviceConfig{drivertest.A100(), drivertest.H100()} {
		b := gemmDevice(t, d)
		k, err := Load[Gemm[gpu.BFloat16]](b.Context)
		require.NoError(t, err)
		for _, c := range [][4]int{{3, 5, 2048, 1}, {130, 6, 2100, 2}, {1, 1, 8200, 3}, {3, 70, 2100, 2}, {5, 130, 2048, 1}} {
			m, n, depth, batch := c[0], c[1], c[2], c[3]
			for _, sharp := range []bool{true, false} {
				t.Run(fmt.Sprint(d.Name, c, sharp), func(t *testing.T) {
					r := rand.New(rand.NewPCG(uint64(m), uint64(depth)))
					up := func(n int) int { return (n + 7) / 8 * 8 }
					parts, part := GemmShape{Batch: batch, InParts: true}.parts(m, n, depth, 2)
					require.Greater(t, parts, 3)
					matrix := func(rows int, sign float32) (tight []gpu.BFloat16, x Matrix[gpu.BFloat16]) {
						v := make([]gpu.BFloat16, batch*rows*up(depth))
						for i := range v {
							v[i] = gpu.ToBFloat16(float32(r.IntN(15)-7) / 8)
							if at := i % up(depth); !sharp && at == 0 {
								v[i] = gpu.ToBFloat16(1 << 13)
							} else if !sharp && at == part {
								v[i] = gpu.ToBFloat16(sign * (1 << 13))
							}
						}
						for i := range batch * rows {
							tight = append(tight, v[i*up(depth):][:depth]...)
						}
						return tight, Matrix[gpu.BFloat16]{upload(t, b.Stream, v), rows, depth, up(depth)}
					}
					x, dx := matrix(m, -1)
					w, dw := matrix(n, 1)
					dc := Matrix[gpu.BFloat16]{upload(t, b.Stream, make([]gpu.BFloat16, batch*m*up(n))), m, n, up(n)}
					require.NoError(t, k.Launch(b.Stream, dx, dw, dc, GemmShape{InParts: true, Batch: batch, StrideA: m * up(depth), StrideB: n * up(depth), StrideC: m * up(n)}))
					got, host := download(t, b.Stream, dc.Ref), make([]gpu.BFloat16, batch*m*n)
					require.NoError(t, GemmCPU(m, n, depth, x, w, host, GemmShape{InParts: true, Batch: batch, StrideA: m * depth, StrideB: n * depth, StrideC: m * n}))
					for i := range batch * m {
						for j := range n {
							require.Equal(t, host[i*n+j], got[i*up(n)+j], "%d %d", i, j)
							var sum float32
							for e := range depth {
								sum += x[i*depth+e].Float32() * w[(i/m*n+j)*depth+e].Float32()
							}
							if sharp {
								require.Equal(t, gpu.ToBFloat16(sum), got[i*up(n)+j], "%d %d", i, j)
							}
						}
					}
				})
			}
		}
		require.NoError(t, k.Close())
	}
	for _, c := range []struct{ batch, m, n, k, parts, part int }{{1, 128, 128, 2047, 1, 2047}, {1, 1, 1, 2048, 4, 512}, {1, 128, 4096, 1 << 15, 4, 1 << 13}, {33, 1, 1, 4096, 1, 4096},
		{1, 1, 1, maxGemm, 16, 1 << 27}, {maxBatch, maxGemm, maxGemm, 4096, 1, 4096}, {1, 1, 1, 2049, 4, 640}} {
		parts, part := GemmShape{Batch: c.batch, InParts: true}.parts(c.m, c.n, c.k, 2)
		assert.Equal(t, [2]int{c.parts, c.part}, [2]int{parts, part}, c)
	}
}

// TestGemmInACapture replays products with new data. What needs scratch memory takes that of the caller, of no byte more than Scratch says.
func TestGemmInACapture(t *testing.T) {
	const m, n, depth = 4, 8, 4096
	for _, d := range []drivertest.DeviceConfig{drivertest.A100(), drivertest.H100()} {
		b := gemmDevice(t, d)
		k, err := Load[Gemm[gpu.BFloat16]](b.Context)
		require.NoError(t, err)
		for _, shape := range []GemmShape{{}, {TransposedA: true}, {TransposedB: true, InParts: true}, {Batch: 2, StrideB: n * depth, StrideC: m * n, TransposedA: true, TransposedB: true, InParts: true}} {
			t.Run(fmt.Sprintf("%s %+v", d.Name, shape), func(t *testing.T) {
				batch := max(1, shape.Batch)
				r := rand.New(rand.NewPCG(1, 9))
				x, w, want := exact[gpu.BFloat16](r, m*depth), exact[gpu.BFloat16](r, batch*n*depth), make([]gpu.BFloat16, batch*m*n)
				dx, dw, dc := upload(t, b.Stream, make([]gpu.BFloat16, 2*m*depth)), upload(t, b.Stream, w), upload(t, b.Stream, want)
				matrix := func(ref *runtime.Ref[gpu.BFloat16], turned bool, rows int) Matrix[gpu.BFloat16] {
					if turned {
						return Matrix[gpu.BFloat16]{ref, depth, rows, 8}
					}
					return Matrix[gpu.BFloat16]{ref, rows, depth, depth}
				}
				launch := func(s *runtime.Stream, g GemmShape) error {
					return k.Launch(s, matrix(dx, g.TransposedA, m), matrix(dw, g.TransposedB, n), Matrix[gpu.BFloat16]{dc, m, n, n}, g)
				}
				if bytes := k.Scratch(m, n, depth, shape); bytes > 0 {
					_, err := b.Stream.Capture(func(s *runtime.Stream) error { return launch(s, shape) })
					require.ErrorContains(t, err, "Alloc while the stream is captured")
					short := shape
					short.Scratch = upload(t, b.Stream, make([]byte, bytes-1))
					require.ErrorContains(t, launch(b.Stream, short), fmt.Sprintf("the scratch memory has %d bytes, and Scratch says %d", bytes-1, bytes))
					short.Scratch, err = runtime.Cast[byte](dc)
					require.NoError(t, err)
					require.ErrorContains(t, launch(b.Stream, short), "C and scratch overlap")
					shape.Scratch = upload(t, b.Stream, make([]byte, bytes))
				} else {
					require.False(t, shape.InParts || d.Name != drivertest.H100().Name && (shape.TransposedA || shape.TransposedB))
				}
				g, err := b.Stream.Capture(func(s *runtime.Stream) error { return launch(s, shape) })
				require.NoError(t, err)
				exec, err := g.Instantiate()
				require.NoError(t, err)
				wide := make([]gpu.BFloat16, 2*m*depth)
				for i, v := range x {
					if shape.TransposedA {
						i = i/m*8 + i%m
					}
					wide[i] = v
				}
				require.NoError(t, runtime.Upload(t.Context(), b.Stream, dx, wide))
				require.NoError(t, exec.Launch(b.Stream))
				require.NoError(t, GemmCPU(m, n, depth, x, w, want, shape))
				require.Equal(t, want, download(t, b.Stream, dc))
				require.NoError(t, exec.Close())
				require.NoError(t, g.Close())
			})
		}
		require.NoError(t, k.Close())
	}
}

func TestGemmScratch(t *testing.T) {
	var k Gemm[gpu.Float16]
	all := GemmShape{Batch: 3, StrideA: 8, StrideB: 8, StrideC: 8, TransposedA: true, TransposedB: true, InParts: true}
	for _, c := range []struct {
		m, n, k int
		shape   GemmShape
		want    int
	}{
		{5, 7, 9, GemmShape{}, 0}, {5, 7, 9, GemmShape{InParts: true}, 0}, {5, 7, 9, GemmShape{TransposedA: true, StrideA: 8}, 256}, {100, 7, 9, GemmShape{TransposedA: true}, 3328},
		{100, 10, 9, GemmShape{TransposedB: true, TransposedA: true}, 3328 + 512}, {1, 3, 2048, GemmShape{InParts: true}, 256}, {100, 3, 2048, GemmShape{InParts: true}, 4 * 100 * 4 * 4}, {3, 70, 2048, GemmShape{InParts: true}, 4608},
		{100, 3, 2048, all, 3*100*2048*2 + 3*3*2048*2 + 3*4*100*4*4},
		{0, 7, 9, all, 0}, {5, 7, 0, all, 0}, {5, 7, -1, all, 0}, {5, 7, 9, GemmShape{Batch: -1, TransposedA: true}, 0}, {maxGemm, maxGemm, maxGemm, GemmShape{TransposedA: true, Batch: maxBatch, StrideA: 8}, math.MaxInt},
	} {
		assert.Equal(t, c.want, k.Scratch(c.m, c.n, c.k, c.shape), c)
		assert.Equal(t, c.want, GemmWith[gpu.BFloat16, relu]{}.Scratch(c.m, c.n, c.k, c.shape), c)
	}
}

// TestGemmThatNobodyLoaded looks that it returns an error from each call.
func TestGemmThatNobodyLoaded(t *testing.T) {
	b := gemmDevice(t, drivertest.H100())
	m := func() Matrix[gpu.Float16] {
		return Matrix[gpu.Float16]{upload(t, b.Stream, make([]gpu.Float16, 16*2048)), 8, 2048, 2048}
	}
	x, y := m(), m()
	c := Matrix[gpu.Float16]{upload(t, b.Stream, make([]gpu.Float16, 64)), 8, 8, 8}
	sq := func(x Matrix[gpu.Float16]) Matrix[gpu.Float16] { x.Cols = 8; return x }
	for _, g := range []GemmShape{{}, {InParts: true}} {
		assert.NotPanics(t, func() { assert.Error(t, Gemm[gpu.Float16]{}.Launch(b.Stream, x, y, c, g)) }, g)
	}
	for _, g := range []GemmShape{{TransposedA: true}, {TransposedB: true}} {
		assert.NotPanics(t, func() { assert.Error(t, Gemm[gpu.Float16]{}.Launch(b.Stream, sq(x), sq(y), c, g)) }, g)
	}
}
