package cublas_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/runtime"
)

// scalars are factors that tests use.
func scalars(r *rand.Rand) (alpha, beta float64) {
	return []float64{1, -0.5, 2, 0}[r.IntN(4)], []float64{0, 1, -1.5}[r.IntN(3)]
}

func gemm[T, C cublas.Element](b bench, seed uint64, sums float64) {
	r := rand.New(rand.NewPCG(seed, 1))
	m, n, k := r.IntN(18), r.IntN(18), r.IntN(18)
	multiply[T, C](b, r, m, n, k, sums)
}

func multiply[T, C cublas.Element](b bench, r *rand.Rand, m, n, k int, sums float64) {
	b.Helper()
	x, y, z := random[T](b, r, m, k), random[T](b, r, k, n), random[C](b, r, m, n)
	alpha, beta := scalars(r)
	require.NoError(b, cublas.Gemm(b.h, alpha, x.Matrix, y.Matrix, beta, z.Matrix))
	z.expect(b, product(alpha, x, y, beta, z, sums))
}

func TestGemm(t *testing.T) {
	conform(t, cublas.Options{}, func(t *testing.T, b bench) {
		seeds.Each(t, 25, func(t *testing.T, seed uint64) {
			b := bench{t, b.api, b.s, b.h}
			gemm[float64, float64](b, seed, 0x1p-52)
			gemm[float32, float32](b, seed, 0x1p-23)
			gemm[gpu.Float16, gpu.Float16](b, seed, 0x1p-23)
			gemm[gpu.Float16, float32](b, seed, 0x1p-23)
			gemm[gpu.BFloat16, gpu.BFloat16](b, seed, 0x1p-23)
			gemm[gpu.BFloat16, float32](b, seed, 0x1p-23)
		})
	})
}

// TF32 rounds the operands. The numbers of these tests have few bits, and stay as they are.
func TestTF32(t *testing.T) {
	conform(t, cublas.Options{TF32: true}, func(t *testing.T, b bench) {
		seeds.Each(t, 5, func(t *testing.T, seed uint64) {
			gemm[float32, float32](bench{t, b.api, b.s, b.h}, seed, 0x1p-11)
			gemm[float64, float64](bench{t, b.api, b.s, b.h}, seed, 0x1p-52)
		})
	})
	b, _, _ := simulated(t)
	tf32, err := cublas.New(b.api, b.s, cublas.Options{TF32: true})
	require.NoError(t, err)
	defer tf32.Close()
	x := randomAs[float32](b, rand.New(rand.NewPCG(1, 1)), 1, 1, false, 0, 0)
	require.NoError(t, runtime.Upload(bg, b.s, x.Ref, []float32{1 + 0x1p-12, 0}))
	for h, want := range map[*cublas.Handle]float32{b.h: (1 + 0x1p-12) * (1 + 0x1p-12), tf32: 1} {
		z := randomAs[float32](b, rand.New(rand.NewPCG(1, 1)), 1, 1, false, 0, 0)
		require.NoError(t, cublas.Gemm(h, 1, x.Matrix, x.Matrix, 0, z.Matrix))
		got, err := runtime.DownloadNew(bg, b.s, z.Ref)
		require.NoError(t, err)
		assert.Equal(t, want, got[0])
	}
}

// FuzzGemm compares with the plain triple loop.
func FuzzGemm(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(4), uint8(5), false)
	f.Add(uint64(2), uint8(0), uint8(1), uint8(33), true)
	f.Add(uint64(3), uint8(40), uint8(1), uint8(0), true)
	f.Fuzz(func(t *testing.T, seed uint64, m, n, k uint8, double bool) {
		b, _, _ := simulated(t)
		r := rand.New(rand.NewPCG(seed, 3))
		if double {
			multiply[float64, float64](b, r, int(m), int(n), int(k), 0x1p-52)
		} else {
			multiply[float32, float32](b, r, int(m), int(n), int(k), 0x1p-23)
		}
	})
}

func TestBatches(t *testing.T) {
	conform(t, cublas.Options{}, func(t *testing.T, b bench) {
		seeds.Each(t, 10, func(t *testing.T, seed uint64) {
			b := bench{t, b.api, b.s, b.h}
			r := rand.New(rand.NewPCG(seed, 5))
			m, n, k, count := 1+r.IntN(9), 1+r.IntN(9), 1+r.IntN(9), 1+r.IntN(5)
			x, y, z := random[float32](b, r, count*m, k), random[float32](b, r, k, n), randomAs[float32](b, r, count*m, n, false, 2, 3)
			for x.isTransposed() {
				x = random[float32](b, r, count*m, k)
			}
			part := func(o operand[float32], i int) operand[float32] {
				return operand[float32]{o.Slice(i*m, (i+1)*m, 0, o.Cols), o.host}
			}
			alpha, beta := scalars(r)
			each := func(i, j int) (float64, float64, bool) {
				return product(alpha, part(x, i/m), y, beta, part(z, i/m), 0x1p-23)(i%m, j)
			}
			first := func(o operand[float32]) cublas.Batch[float32] {
				return cublas.Batch[float32]{Matrix: part(o, 0).Matrix, Count: count, Step: m * o.Stride}
			}
			require.NoError(t, cublas.GemmBatch(b.h, alpha, first(x), cublas.Batch[float32]{Matrix: y.Matrix, Count: count}, beta, first(z)))
			z.expect(b, each)

			require.NoError(t, runtime.Upload(bg, b.s, z.Ref, z.host))
			var xs, ys, zs []cublas.Matrix[float32]
			for i := range count {
				xs, ys, zs = append(xs, part(x, i).Matrix), append(ys, y.Matrix), append(zs, part(z, i).Matrix)
			}
			require.NoError(t, cublas.GemmEach(b.h, alpha, xs, ys, beta, zs))
			z.expect(b, each)

			// The transposed product is the same.
			require.NoError(t, runtime.Upload(bg, b.s, z.Ref, z.host))
			for i := range count {
				xs[i], ys[i], zs[i] = ys[i].T(), xs[i].T(), zs[i].T()
			}
			require.NoError(t, cublas.GemmEach(b.h, alpha, xs, ys, beta, zs))
			z.expect(b, each)
		})
	})
}

// Each seed is a shape of a layer: a bias, an activation, 8 bits.
func TestMatmul(t *testing.T) {
	conform(t, cublas.Options{}, func(t *testing.T, b bench) {
		seeds.Each(t, 12, func(t *testing.T, seed uint64) {
			b := bench{t, b.api, b.s, b.h}
			layer[float32, float32](b, seed, false)
			layer[gpu.Float16, gpu.Float16](b, seed, false)
			layer[gpu.BFloat16, gpu.BFloat16](b, seed, false)
			layer[gpu.BFloat16, float32](b, seed, false)
			if c := b.s.Context().Device().Capability; c.Major*10+c.Minor < 89 {
				t.Skipf("no fp8: it needs compute capability 8.9, found %v", c)
			}
			layer[cublas.Float8E4M3, gpu.BFloat16](b, seed, true)
			layer[cublas.Float8E4M3, gpu.Float16](b, seed, true)
		})
	})
}

func layer[T cublas.Stored, D cublas.Element](b bench, seed uint64, float8 bool) {
	b.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	step, gap, offset := 8, r.IntN(2)*8, r.IntN(2)*8 // the tensor cores of half floats want 16 bytes
	if float8 {
		step, gap, offset = 16, r.IntN(2)*16, []int{0, 16, 256}[r.IntN(3)] // addresses of all alignments from 16 to more than 256
	}
	m, n, k := step*(1+r.IntN(3)), step*(1+r.IntN(3)), step*(1+r.IntN(3))
	x := randomAs[T](b, r, m, k, !float8 && r.IntN(2) == 0, offset, gap)
	y := randomAs[T](b, r, k, n, float8 || r.IntN(2) == 0, offset, gap)
	z := randomAs[D](b, r, m, n, false, offset, gap)
	p := cublas.Product[T, D]{A: x.Matrix, B: y.Matrix, D: z.Matrix, Activation: cublas.Activation(r.IntN(3))}
	p.Alpha, p.Beta = scalars(r)
	var bias []float64
	if r.IntN(2) == 0 {
		values := make([]D, n)
		for i := range values {
			values[i] = to[D](number(r))
			bias = append(bias, from(values[i]))
		}
		ref, err := runtime.UploadNew(bg, b.s, values)
		require.NoError(b, err)
		defer ref.Close()
		p.Bias = ref
	}
	scale := 1.0
	if float8 {
		scale = 0.25
		ref, err := runtime.UploadNew(bg, b.s, []float32{0.5})
		require.NoError(b, err)
		defer ref.Close()
		p.ScaleA, p.ScaleB = ref, ref
	}
	require.NoError(b, cublas.Matmul(b.h, p))
	plain := product(p.Alpha*scale, x, y, p.Beta, z, 0x1p-23)
	z.expect(b, func(i, j int) (float64, float64, bool) {
		value, tolerance, _ := plain(i, j)
		if bias != nil {
			value += bias[j]
			tolerance += math.Abs(value) * epsilon[D]()
		}
		switch p.Activation {
		case cublas.ReLU:
			value = max(value, 0)
		case cublas.GELU:
			value = value / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(value+0.044715*value*value*value)))
			tolerance = 2*tolerance + 0x1p-9 // the tanh of the device
		}
		return value, tolerance, true
	})
}

func TestPlansAreKept(t *testing.T) {
	b, _, lib := simulated(t)
	r := rand.New(rand.NewPCG(1, 9))
	x, y, z := randomAs[float32](b, r, 8, 8, false, 0, 0), randomAs[float32](b, r, 8, 8, false, 0, 0), randomAs[float32](b, r, 8, 8, false, 0, 0)
	p := cublas.Product[float32, float32]{Alpha: 1, A: x.Matrix, B: y.Matrix, D: z.Matrix}
	for range 10 {
		require.NoError(t, cublas.Matmul(b.h, p))
	}
	assert.Equal(t, 1, lib.Plans())
	for i := range 300 { // more shapes than are kept
		p.A, p.B = x.Slice(0, 1+i%8, 0, 1), y.Slice(0, 1, 0, 1+i/8%8)
		p.D = z.Slice(0, 1+i%8, 0, 1+i/8%8)
		p.Activation = cublas.Activation(i / 64 % 3)
		if i >= 192 {
			p.A, p.B = x.Slice(0, 1+i%8, 0, 2), y.Slice(0, 2, 0, 1+i/8%8)
		}
		require.NoError(t, cublas.Matmul(b.h, p))
	}
	_, plans := lib.Left()
	assert.Equal(t, 256, plans)
	assert.Equal(t, 301, lib.Plans())
}

func TestFloat8(t *testing.T) {
	for bits := range 256 {
		for _, x := range []interface{ Float32() float32 }{cublas.Float8E4M3(bits), cublas.Float8E5M2(bits)} {
			v := x.Float32()
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				continue
			}
			switch x := x.(type) {
			case cublas.Float8E4M3:
				assert.Equal(t, x, cublas.ToFloat8E4M3(v), "%v", v)
			case cublas.Float8E5M2:
				assert.Equal(t, x, cublas.ToFloat8E5M2(v), "%v", v)
			}
		}
	}
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	for _, c := range []struct{ from, e4m3, e5m2 float32 }{
		{1e9, 448, 57344}, {inf, -448, -57344}, {1.0625, 1, 1}, {1.1875, 1.25, 1.25}, {0x1p-10, 0, 0x1p-10}, {0x1.8p-9, 0x1p-8, 0x1.8p-9},
		{0x1p-17, 0, 0}, {-0x1.8p-17, 0, -0x1p-16},
	} {
		assert.Equal(t, c.e4m3, cublas.ToFloat8E4M3(c.from).Float32()+0, "%v", c.from)
		assert.Equal(t, c.e5m2, cublas.ToFloat8E5M2(c.from).Float32()+0, "%v", c.from)
	}
	assert.True(t, math.IsNaN(float64(cublas.ToFloat8E4M3(nan).Float32())))
	assert.True(t, math.IsNaN(float64(cublas.ToFloat8E5M2(nan).Float32())))
	assert.True(t, math.IsInf(float64(cublas.Float8E5M2(0xfc).Float32()), -1))
}

func TestWrongShapes(t *testing.T) {
	b, _, _ := simulated(t)
	ref, err := runtime.Alloc[float32](b.s, 12)
	require.NoError(t, err)
	defer ref.Close()
	m := func(rows, cols int) cublas.Matrix[float32] { return cublas.Dense(ref, rows, cols) }
	for name, c := range map[string]struct {
		a, b, c cublas.Matrix[float32]
		want    string
	}{
		"shapes":       {m(3, 4), m(3, 4), m(3, 4), "a is 3 x 4, b is 3 x 4 and c is 3 x 4: want m x k, k x n and m x n"},
		"too large":    {m(4, 4), m(4, 1), m(4, 1), "a is too large for its memory: 1 matrices of 4 x 4"},
		"nil":          {cublas.Matrix[float32]{Rows: 1, Cols: 1, Stride: 1}, m(1, 1), m(1, 1), "a has no memory: Ref is nil"},
		"negative":     {m(-1, 1), m(1, 1), m(-1, 1), "a has -1 rows"},
		"stride":       {cublas.Matrix[float32]{Ref: ref, Rows: 2, Cols: 2, Stride: 1}, m(2, 2), m(2, 2), "a has a stride of 1: want at least 2"},
		"offset":       {cublas.Matrix[float32]{Ref: ref, Offset: 12, Rows: 1, Cols: 1, Stride: 1}, m(1, 1), m(1, 1), "a is too large for its memory"},
		"before":       {cublas.Matrix[float32]{Ref: ref, Offset: -1, Rows: 1, Cols: 1, Stride: 1}, m(1, 1), m(1, 1), "a begins at element -1"},
		"slice":        {m(2, 2).Slice(0, 3, 0, 1), m(1, 1), m(3, 1), "a has -1 rows"},
		"enormous":     {m(1, math.MaxInt), m(math.MaxInt, 1), m(1, 1), "a has 1 rows"},
		"result small": {m(3, 1), m(1, 4), cublas.Matrix[float32]{Ref: ref, Offset: 1, Rows: 3, Cols: 4, Stride: 4}, "c is too large for its memory"},
	} {
		t.Run(name, func(t *testing.T) {
			err := cublas.Gemm(b.h, 1, c.a, c.b, 0, c.c)
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, c.want)
		})
	}
	half, err := runtime.Alloc[gpu.Float16](b.s, 12)
	require.NoError(t, err)
	defer half.Close()
	h := func(rows, cols int) cublas.Matrix[gpu.Float16] { return cublas.Dense(half, rows, cols) }
	batch := func(m cublas.Matrix[float32], count, step int) cublas.Batch[float32] {
		return cublas.Batch[float32]{Matrix: m, Count: count, Step: step}
	}
	v := cublas.Elements(ref)
	none := cublas.Vector[float32]{Ref: ref, N: 3, Inc: 0}
	for want, err := range map[string]error{
		"products of two types":             cublas.Gemm(b.h, 1, m(1, 1), m(1, 1), 0, h(1, 1)),
		"want as many of each":              cublas.GemmBatch(b.h, 1, batch(m(1, 1), 2, 1), batch(m(1, 1), 1, 1), 0, batch(m(1, 1), 2, 1)),
		"the matrices of c overlap":         cublas.GemmBatch(b.h, 1, batch(m(2, 1), 2, 2), batch(m(1, 2), 2, 2), 0, batch(m(2, 2), 2, 3)),
		"behind element 0 need":             cublas.GemmBatch(b.h, 1, batch(m(2, 2), 4, 4), batch(m(2, 1), 4, 2), 0, batch(m(2, 1), 4, 2)),
		"no handle":                         cublas.Gemm(nil, 1, m(1, 1), m(1, 1), 0, m(1, 2).Slice(0, 1, 1, 2)),
		"GemmEach with no":                  cublas.GemmEach(nil, 1, []cublas.Matrix[float32]{m(1, 1)}, []cublas.Matrix[float32]{m(1, 1)}, 0, []cublas.Matrix[float32]{m(1, 1)}),
		"another shape or stride":           cublas.GemmEach(b.h, 1, []cublas.Matrix[float32]{m(1, 1), m(1, 2)}, []cublas.Matrix[float32]{m(1, 1), m(1, 1)}, 0, []cublas.Matrix[float32]{m(1, 1), m(1, 1)}),
		"want m x n, n and m":               cublas.Gemv(b.h, 1, m(3, 4), v, 0, v),
		"an increment of at least 1":        cublas.Scal(b.h, 1, none),
		"x has 12 elements and y has 6":     cublas.Axpy(b.h, 1, v, cublas.Vector[float32]{Ref: ref, N: 6, Inc: 2}),
		"too long for its memory":           cublas.Scal(b.h, 1, cublas.Vector[float32]{Ref: ref, N: 7, Inc: 2}),
		"memory for one element":            cublas.Dot(b.h, v, v, nil),
		"want n x k and n x n":              cublas.Syrk(b.h, cublas.Lower, 1, m(3, 2), 0, m(2, 2)),
		"want Lower or Upper":               cublas.Syrk(b.h, 7, 1, m(2, 2), 0, m(2, 2)),
		"want a of 3 x 3":                   cublas.Trsm(b.h, cublas.Left, cublas.Lower, cublas.Unit, 1, m(2, 2), m(3, 2)),
		"want Left or Right":                cublas.Trsm(b.h, 5, cublas.Lower, cublas.Unit, 1, m(2, 2), m(2, 2)),
		"want 4, one for each":              cublas.Matmul(b.h, cublas.Product[float32, float32]{A: m(1, 1), B: m(1, 4), D: m(1, 4), Bias: ref.Slice(0, 3)}),
		"is not a multiple of 16":           cublas.Matmul(b.h, cublas.Product[float32, float32]{A: m(1, 1), B: m(1, 4), D: m(1, 4), Bias: ref.Slice(1, 5)}),
		"D is a transposed view":            cublas.Matmul(b.h, cublas.Product[float32, float32]{A: m(1, 1), B: m(1, 1), D: m(1, 1).T()}),
		"want None, ReLU or GELU":           cublas.Matmul(b.h, cublas.Product[float32, float32]{A: m(1, 1), B: m(1, 1), D: m(1, 1), Activation: 9}),
		"scales are for operands of 8 bits": cublas.Matmul(b.h, cublas.Product[float32, float32]{A: m(1, 1), B: m(1, 1), D: m(1, 1), ScaleA: ref}),
		"Matmul with no handle":             cublas.Matmul(nil, cublas.Product[float32, float32]{A: m(1, 1), B: m(1, 1), D: m(1, 1)}),
		"needs memory for one element":      cublas.Nrm2(b.h, v, nil),
		"cublasDotEx with no handle":        cublas.Dot(nil, cublas.Vector[float32]{Ref: ref, N: 2, Inc: 1}, cublas.Vector[float32]{Ref: ref, N: 2, Inc: 1}, ref.Slice(2, 3)),
		"y has no memory":                   cublas.Axpy(b.h, 1, v, cublas.Vector[float32]{}),
		"c has no memory":                   cublas.Syrk(b.h, cublas.Lower, 1, m(2, 2), 0, cublas.Matrix[float32]{}),
		"b has no memory":                   cublas.Trsm(b.h, cublas.Left, cublas.Lower, cublas.Unit, 1, m(2, 2), cublas.Matrix[float32]{}),
		"batches of 0, 0 and 1 matrices":    cublas.GemmEach[float32](b.h, 1, nil, nil, 0, []cublas.Matrix[float32]{m(1, 1)}),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, want)
		assert.ErrorContains(t, err, want)
	}
}

// A result that overlaps an operand is an error that names both, and one that only lies between its rows is none.
func TestOverlap(t *testing.T) {
	conform(t, cublas.Options{}, func(t *testing.T, b bench) {
		ref, err := runtime.Alloc[float32](b.s, 400)
		require.NoError(t, err)
		defer ref.Close()
		require.NoError(t, runtime.Zero(b.s, ref))
		all := cublas.Dense(ref, 20, 20)
		at := func(i, k int) cublas.Matrix[float32] { return all.Slice(i, i+4, k, k+4) }
		list := func(m ...cublas.Matrix[float32]) []cublas.Matrix[float32] { return m }
		row := func(i int) cublas.Vector[float32] {
			return cublas.Vector[float32]{Ref: ref, Offset: 20 * i, N: 4, Inc: 1}
		}
		column := func(k int) cublas.Vector[float32] {
			return cublas.Vector[float32]{Ref: ref, Offset: k, N: 4, Inc: 20}
		}
		steps := func(i, k, step int) cublas.Batch[float32] {
			return cublas.Batch[float32]{Matrix: at(i, k), Count: 2, Step: step}
		}
		scalar := ref.Slice(3, 4)
		for name, c := range map[string]struct {
			err  error
			want []string // nothing of it: no error
		}{
			"gemm, c is a":              {cublas.Gemm(b.h, 1, at(0, 0), at(4, 4), 0, at(0, 0)), []string{"writes c", "overlaps a"}},
			"gemm, c is a part of b":    {cublas.Gemm(b.h, 1, at(12, 12), at(0, 0), 0, at(3, 3)), []string{"writes c", "overlaps b"}},
			"gemm, c transposed":        {cublas.Gemm(b.h, 1, at(0, 0), at(4, 4), 0, at(0, 0).T()), []string{"writes c", "overlaps a"}},
			"gemm, columns of one":      {cublas.Gemm(b.h, 1, at(0, 0), at(0, 4), 1, at(0, 8)), nil},
			"gemm, a is b":              {cublas.Gemm(b.h, 1, at(0, 0), at(0, 0), 1, at(0, 8).T()), nil},
			"batch, later ones":         {cublas.GemmBatch(b.h, 1, steps(0, 0, 80), steps(0, 4, 80), 0, steps(4, 0, 80)), []string{"writes c", "overlaps a"}},
			"batch, one a":              {cublas.GemmBatch(b.h, 1, steps(4, 0, 0), steps(0, 4, 80), 0, steps(0, 0, 80)), []string{"writes c", "overlaps a"}},
			"batch, between each other": {cublas.GemmBatch(b.h, 1, steps(0, 0, 80), steps(0, 4, 80), 0, steps(0, 8, 80)), nil},
			"each, c twice":             {cublas.GemmEach(b.h, 1, list(at(0, 0), at(0, 0)), list(at(0, 4), at(0, 4)), 0, list(at(8, 8), at(8, 8))), []string{"writes c[", "overlaps c["}},
			"each, of another one":      {cublas.GemmEach(b.h, 1, list(at(0, 0), at(4, 0)), list(at(0, 4), at(12, 4)), 0, list(at(5, 1), at(8, 8))), []string{"writes c[0]", "overlaps a[1]"}},
			"each, transposed":          {cublas.GemmEach(b.h, 1, list(at(0, 0), at(4, 0)), list(at(0, 4), at(12, 4)), 0, list(at(5, 1).T(), at(8, 8).T())), []string{"writes c[0]", "overlaps a[1]"}},
			"each, tiles":               {cublas.GemmEach(b.h, 1, list(at(0, 0), at(0, 0)), list(at(0, 4), at(4, 4)), 0, list(at(8, 8), at(8, 12))), nil},
			"gemv, y in a":              {cublas.Gemv(b.h, 1, at(0, 0), row(8), 0, column(3)), []string{"writes y", "overlaps a"}},
			"gemv, y is x":              {cublas.Gemv(b.h, 1, at(8, 8), row(0), 0, column(0)), []string{"writes y", "overlaps x"}},
			"gemv, a column beside a":   {cublas.Gemv(b.h, 1, at(0, 0), row(8), 0, column(4)), nil},
			"axpy, x is y":              {cublas.Axpy(b.h, 1, row(0), row(0)), nil},
			"axpy, another direction":   {cublas.Axpy(b.h, 1, row(0), column(0)), []string{"writes y", "overlaps x"}},
			"axpy, a part":              {cublas.Axpy(b.h, 1, row(0), cublas.Vector[float32]{Ref: ref, Offset: 3, N: 4, Inc: 1}), []string{"writes y", "overlaps x"}},
			"dot":                       {cublas.Dot(b.h, row(0), row(1), scalar), []string{"writes result", "overlaps x"}},
			"nrm2":                      {cublas.Nrm2(b.h, row(0), scalar), []string{"writes result", "overlaps x"}},
			"nrm2, beside":              {cublas.Nrm2(b.h, row(1), scalar), nil},
			"syrk":                      {cublas.Syrk(b.h, cublas.Lower, 1, at(0, 0), 0, at(3, 3)), []string{"writes c", "overlaps a"}},
			"trsm":                      {cublas.Trsm(b.h, cublas.Left, cublas.Lower, cublas.Unit, 1, at(0, 0), at(3, 3)), []string{"writes b", "overlaps a"}},
			"trsm, blocks of one":       {cublas.Trsm(b.h, cublas.Left, cublas.Lower, cublas.Unit, 1, at(0, 0), at(0, 4)), nil},
			"matmul, D is B":            {cublas.Matmul(b.h, cublas.Product[float32, float32]{Alpha: 1, A: at(0, 0), B: at(4, 4), D: at(4, 4)}), []string{"writes D", "overlaps B"}},
			"matmul, D has the bias":    {cublas.Matmul(b.h, cublas.Product[float32, float32]{Alpha: 1, A: at(8, 8), B: at(4, 4), D: at(0, 0), Bias: ref.Slice(0, 4)}), []string{"writes D", "overlaps Bias"}},
		} {
			if len(c.want) == 0 {
				assert.NoError(t, c.err, name)
				continue
			}
			assert.ErrorIs(t, c.err, driver.ErrInvalidArgument, name)
			for _, want := range c.want {
				assert.ErrorContains(t, c.err, want, name)
			}
		}
		assert.NoError(t, b.s.Synchronize(bg), "the device is not lost")
	})
}
