package cublas_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/runtime"
)

// column is a matrix of one column as a vector.
func column[T cublas.Element](o operand[T]) cublas.Vector[T] {
	return cublas.Vector[T]{Ref: o.Ref, Offset: o.Offset, N: o.Rows, Inc: o.Stride}
}

// vector makes a vector, with gaps.
func vector[T cublas.Element](b bench, r *rand.Rand, n int) operand[T] {
	return randomAs[T](b, r, n, 1, false, r.IntN(4), r.IntN(3))
}

func TestVectors(t *testing.T) {
	conform(t, cublas.Options{}, func(t *testing.T, b bench) {
		seeds.Each(t, 12, func(t *testing.T, seed uint64) {
			b := bench{t, b.api, b.s, b.h}
			vectors[float64](b, seed, 0x1p-52)
			vectors[float32](b, seed, 0x1p-23)
			vectors[gpu.Float16](b, seed, 0x1p-23)
			vectors[gpu.BFloat16](b, seed, 0x1p-23)
			gemv[float32](b, seed)
			gemv[float64](b, seed)
		})
	})
}

func vectors[T cublas.Element](b bench, seed uint64, sums float64) {
	b.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	n := r.IntN(70)
	alpha, _ := scalars(r)
	x, y := vector[T](b, r, n), vector[T](b, r, n)
	result, err := runtime.UploadNew(bg, b.s, []T{to[T](7), to[T](8)})
	require.NoError(b, err)
	defer result.Close()
	sum, size, squares := 0.0, 0.0, 0.0
	for i := range n {
		p := x.at(i, 0) * y.at(i, 0)
		sum, size, squares = sum+p, size+math.Abs(p), squares+x.at(i, 0)*x.at(i, 0)
	}
	near := func(want, tolerance float64) {
		b.Helper()
		got, err := runtime.DownloadNew(bg, b.s, result)
		require.NoError(b, err)
		assert.InDelta(b, want, from(got[0]), tolerance+math.Abs(want)*epsilon[T]())
		assert.EqualValues(b, 8, from(got[1]))
	}
	require.NoError(b, cublas.Dot(b.h, column(x), column(y), result))
	near(sum, size*float64(n+1)*sums)
	require.NoError(b, cublas.Nrm2(b.h, column(x), result))
	near(math.Sqrt(squares), math.Sqrt(squares)*float64(n+1)*sums)

	require.NoError(b, cublas.Axpy(b.h, alpha, column(x), column(y)))
	y.expect(b, func(i, _ int) (float64, float64, bool) {
		want := alpha*x.at(i, 0) + y.at(i, 0)
		return want, math.Abs(want)*epsilon[T]() + 2*sums, true
	})
	require.NoError(b, cublas.Scal(b.h, alpha, column(x)))
	x.expect(b, func(i, _ int) (float64, float64, bool) {
		want := alpha * x.at(i, 0)
		return want, math.Abs(want) * epsilon[T](), true
	})
}

func gemv[T cublas.Real](b bench, seed uint64) {
	b.Helper()
	r := rand.New(rand.NewPCG(seed, 13))
	m, n := r.IntN(12), r.IntN(12)
	alpha, beta := scalars(r)
	a, x, y := random[T](b, r, m, n), vector[T](b, r, n), vector[T](b, r, m)
	require.NoError(b, cublas.Gemv(b.h, alpha, a.Matrix, column(x), beta, column(y)))
	y.expect(b, product(alpha, a, x, beta, y, epsilon[T]()))
}

func TestTriangles(t *testing.T) {
	conform(t, cublas.Options{}, func(t *testing.T, b bench) {
		seeds.Each(t, 20, func(t *testing.T, seed uint64) {
			b := bench{t, b.api, b.s, b.h}
			syrk[float32](b, seed)
			syrk[float64](b, seed)
			trsm[float32](b, seed)
			trsm[float64](b, seed)
		})
	})
}

func within(fill cublas.Fill, i, j int) bool {
	if fill == cublas.Lower {
		return j <= i
	}
	return j >= i
}

func syrk[T cublas.Real](b bench, seed uint64) {
	b.Helper()
	r := rand.New(rand.NewPCG(seed, 17))
	n, k, fill := r.IntN(12), r.IntN(12), cublas.Fill(r.IntN(2))
	alpha, beta := scalars(r)
	a, c := random[T](b, r, n, k), random[T](b, r, n, n)
	require.NoError(b, cublas.Syrk(b.h, fill, alpha, a.Matrix, beta, c.Matrix))
	full := product(alpha, a, operand[T]{a.T(), a.host}, beta, c, epsilon[T]())
	c.expect(b, func(i, j int) (float64, float64, bool) {
		if !within(fill, i, j) {
			return 0, 0, false
		}
		return full(i, j)
	})
}

// trsm multiplies the solution with the triangle again.
func trsm[T cublas.Real](b bench, seed uint64) {
	b.Helper()
	r := rand.New(rand.NewPCG(seed, 19))
	m, n := 1+r.IntN(10), 1+r.IntN(10)
	side, fill, diag := cublas.Side(r.IntN(2)), cublas.Fill(r.IntN(2)), cublas.Diag(r.IntN(2))
	order := m
	if side == cublas.Right {
		order = n
	}
	a, x := random[T](b, r, order, order), random[T](b, r, m, n)
	// A triangle that is easy to solve; what is not of it is NaN.
	element := func(i, j int) float64 {
		switch {
		case i == j && diag == cublas.Unit:
			return 1
		case within(fill, i, j):
			return a.at(i, j)
		}
		return 0
	}
	for i := range order {
		for j := range order {
			v := number(r) / 8
			if i == j {
				v = 2
			}
			if !within(fill, i, j) || i == j && diag == cublas.Unit {
				v = math.NaN()
			}
			a.host[a.index(i, j)] = to[T](v)
		}
	}
	require.NoError(b, runtime.Upload(bg, b.s, a.Ref, a.host))
	require.NoError(b, cublas.Trsm(b.h, side, fill, diag, 2, a.Matrix, x.Matrix))
	got, err := runtime.DownloadNew(bg, b.s, x.Ref)
	require.NoError(b, err)
	solution := operand[T]{x.Matrix, got}
	for i := range m {
		for j := range n {
			sum := 0.0
			for k := range order {
				if side == cublas.Left {
					sum += element(i, k) * solution.at(k, j)
				} else {
					sum += solution.at(i, k) * element(k, j)
				}
			}
			require.InDelta(b, 2*x.at(i, j), sum, 100*epsilon[T](), "element %d, %d", i, j)
		}
	}
	x.expect(b, func(i, j int) (float64, float64, bool) { return solution.at(i, j), 0, true }) // and nothing else is written
}
