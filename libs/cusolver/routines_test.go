package cusolver_test

import (
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
)

// The tolerances are a few units of the last place for each row, of numbers from -1 to 1: errors of sums of n products.
const ulps = 20

// each runs a routine with shapes of seeds, for both types.
func each(t *testing.T, n int, single, double func(b bench, seed uint64)) {
	conform(t, func(t *testing.T, b bench) {
		seeds.Each(t, n, func(t *testing.T, seed uint64) {
			b := bench{t, b.s, b.h, b.blas}
			single(b, seed)
			double(b, seed)
		})
	})
}

func generator(seed, of uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, of)) }

func TestCholesky(t *testing.T) {
	each(t, 20, cholesky[float32], cholesky[float64])
}

func cholesky[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 1)
	choleskyOf[T](b, r, 1+r.IntN(20), 1+r.IntN(5))
}

func choleskyOf[T cublas.Real](b bench, r *rand.Rand, n, k int) {
	b.Helper()
	fill := cublas.Fill(r.IntN(2))
	half := random(r, n, n)
	full := times(half, half.T())
	for i := range n {
		full.Set(i, i, full.At(i, i)+float64(n))
	}
	full.Apply(func(_, _ int, v float64) float64 { return float64(T(v)) }, full)
	triangle := part(full, func(i, j int) bool { return within(fill, i, j) })
	triangle.Apply(func(i, j int, v float64) float64 { // the other triangle is another matrix's
		if within(fill, i, j) {
			return v
		}
		return 7
	}, triangle)
	a := place[T](b, r, triangle)
	done(b)(cusolver.Cholesky(b.h, fill, a.Matrix))
	tolerance := ulps * float64(n) * float64(n) * epsilon[T]()
	stored := a.is(b)
	factor := part(stored, func(i, j int) bool { return within(fill, i, j) })
	if fill == cublas.Lower {
		near(b, full, times(factor, factor.T()), tolerance, "l*l^T")
	} else {
		near(b, full, times(factor.T(), factor), tolerance, "u^T*u")
	}
	for i := range n {
		for j := range n {
			if !within(fill, i, j) {
				require.EqualValues(b, 7, stored.At(i, j), "the other triangle")
			}
		}
	}
	right := place[T](b, r, random(r, n, k))
	done(b)(cusolver.CholeskySolve(b.h, fill, a.Matrix, right.Matrix))
	near(b, right.was(), times(full, right.is(b)), tolerance, "a*x")

	var reference mat.Cholesky
	require.True(b, reference.Factorize(mat.NewSymDense(n, full.RawMatrix().Data)))
	var want mat.Dense
	require.NoError(b, reference.SolveTo(&want, right.was()))
	near(b, &want, right.is(b), tolerance, "x of gonum")
}

func TestLU(t *testing.T) {
	each(t, 20, lu[float32], lu[float64])
}

func lu[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 2)
	luOf[T](b, r, 1+r.IntN(20), 1+r.IntN(20))
	n := 1 + r.IntN(20)
	luOf[T](b, r, n, n)
}

func luOf[T cublas.Real](b bench, r *rand.Rand, m, n int) {
	b.Helper()
	k := min(m, n)
	matrix := random(r, m, n)
	for i := range k {
		matrix.Set(i, i, matrix.At(i, i)+2) // far from singular
	}
	a := place[T](b, r, matrix)
	pivots := upload(b, make([]int64, k))
	done(b)(cusolver.LU(b.h, a.Matrix, pivots))
	tolerance := ulps * float64(max(m, n)) * float64(max(m, n)) * epsilon[T]()
	stored, exchanged := a.is(b), a.was()
	unitLower := a.transposed
	lower := mat.DenseCopyOf(stored.Slice(0, m, 0, k))
	lower = part(lower, func(i, j int) bool { return i > j || i == j && !unitLower })
	upper := part(stored.Slice(0, k, 0, n), func(i, j int) bool { return j > i || i == j && unitLower })
	for i := range k {
		if unitLower {
			lower.Set(i, i, 1)
		} else {
			upper.Set(i, i, 1)
		}
	}
	for i, p := range numbers(b, pivots) {
		p := int(p) - 1
		require.GreaterOrEqual(b, p, i)
		if a.transposed {
			row, other := mat.Row(nil, i, exchanged), mat.Row(nil, p, exchanged)
			exchanged.SetRow(i, other)
			exchanged.SetRow(p, row)
		} else {
			col, other := mat.Col(nil, i, exchanged), mat.Col(nil, p, exchanged)
			exchanged.SetCol(i, other)
			exchanged.SetCol(p, col)
		}
	}
	near(b, exchanged, times(lower, upper), tolerance, "L*U")
	if m != n {
		return
	}
	right := place[T](b, r, random(r, n, 1+r.IntN(4)))
	done(b)(cusolver.LUSolve(b.h, a.Matrix, pivots, right.Matrix))
	var reference mat.LU
	reference.Factorize(a.was())
	condition := reference.Cond()
	near(b, right.was(), times(a.was(), right.is(b)), tolerance*condition, "a*x")
	var want mat.Dense
	require.NoError(b, reference.SolveTo(&want, false, right.was()))
	near(b, &want, right.is(b), tolerance*condition, "x of gonum")
}

func TestQR(t *testing.T) {
	each(t, 15, qr[float32], qr[float64])
}

func qr[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 3)
	qrOf[T](b, r, 1+r.IntN(15), 1+r.IntN(15))
}

func qrOf[T cublas.Real](b bench, r *rand.Rand, m, n int) {
	b.Helper()
	k := min(m, n)
	a := place[T](b, r, random(r, m, n))
	tau := upload(b, make([]T, k))
	done(b)(cusolver.QR(b.h, a.Matrix, tau))
	upper := part(a.is(b), func(i, j int) bool { return j >= i })
	tolerance := ulps * float64(max(m, n)) * epsilon[T]()

	q := place[T](b, r, identity(m))
	done(b)(cusolver.ApplyQ(b.h, cublas.Left, cublas.NoTranspose, a.Matrix, tau, q.Matrix))
	orthogonal := q.is(b)
	near(b, identity(m), times(orthogonal.T(), orthogonal), tolerance, "Q^T*Q")
	near(b, a.was(), times(orthogonal, upper), tolerance, "Q*R")

	for _, c := range []struct {
		side  cublas.Side
		trans cublas.Operation
		want  func(c mat.Matrix) *mat.Dense
	}{
		{cublas.Left, cublas.NoTranspose, func(c mat.Matrix) *mat.Dense { return times(orthogonal, c) }},
		{cublas.Left, cublas.Transpose, func(c mat.Matrix) *mat.Dense { return times(orthogonal.T(), c) }},
		{cublas.Right, cublas.NoTranspose, func(c mat.Matrix) *mat.Dense { return times(c, orthogonal) }},
		{cublas.Right, cublas.Transpose, func(c mat.Matrix) *mat.Dense { return times(c, orthogonal.T()) }},
	} {
		rows, cols := m, 1+r.IntN(9)
		if c.side == cublas.Right {
			rows, cols = cols, rows
		}
		x := place[T](b, r, random(r, rows, cols))
		done(b)(cusolver.ApplyQ(b.h, c.side, c.trans, a.Matrix, tau, x.Matrix))
		near(b, c.want(x.was()), x.is(b), tolerance, "c with Q")
	}
}

func TestLeastSquares(t *testing.T) {
	each(t, 15, leastSquares[float32], leastSquares[float64])
}

func leastSquares[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 4)
	n := 1 + r.IntN(10)
	leastSquaresOf[T](b, r, n+r.IntN(10), n)
}

func leastSquaresOf[T cublas.Real](b bench, r *rand.Rand, m, n int) {
	b.Helper()
	matrix := random(r, m, n)
	for i := range n {
		matrix.Set(i, i, matrix.At(i, i)+3)
	}
	a, right := place[T](b, r, matrix), place[T](b, r, random(r, m, 1+r.IntN(4)))
	done(b)(cusolver.LeastSquares(b.h, b.blas, a.Matrix, right.Matrix))
	var reference mat.QR
	reference.Factorize(a.was())
	var want mat.Dense
	require.NoError(b, reference.SolveTo(&want, false, right.was()))
	near(b, &want, right.is(b).Slice(0, n, 0, right.Cols), ulps*float64(m)*reference.Cond()*epsilon[T](), "x of gonum")
	a.is(b) // nothing beside it has changed
}

func TestEigen(t *testing.T) {
	each(t, 15, eigen[float32], eigen[float64])
}

func eigen[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 5)
	eigenOf[T](b, r, 1+r.IntN(20))
}

func eigenOf[T cublas.Real](b bench, r *rand.Rand, n int) {
	b.Helper()
	fill := cublas.Fill(r.IntN(2))
	half := random(r, n, n)
	var full mat.Dense
	full.Add(half, half.T())
	full.Apply(func(_, _ int, v float64) float64 { return float64(T(v)) }, &full)
	triangle := part(&full, func(i, j int) bool { return within(fill, i, j) })
	a := place[T](b, r, triangle)
	values := upload(b, make([]T, n))
	done(b)(cusolver.Eigen(b.h, fill, true, a.Matrix, values))
	var vectors mat.Matrix = a.is(b)
	if !a.transposed {
		vectors = vectors.T()
	}
	lambda := mat.NewDiagDense(n, floats(numbers(b, values)))
	tolerance := ulps * float64(n) * epsilon[T]() * 2
	near(b, identity(n), times(vectors.T(), vectors), tolerance, "V^T*V")
	near(b, times(&full, vectors), times(vectors, lambda), tolerance, "a*V")

	alone := place[T](b, r, triangle)
	without := upload(b, make([]T, n))
	done(b)(cusolver.Eigen(b.h, fill, false, alone.Matrix, without))
	alone.is(b)
	var reference mat.EigenSym
	require.True(b, reference.Factorize(mat.NewSymDense(n, full.RawMatrix().Data), false))
	want := reference.Values(nil)
	for _, got := range [][]float64{floats(numbers(b, values)), floats(numbers(b, without))} {
		assert.True(b, sort.Float64sAreSorted(got), "they rise")
		assert.InDeltaSlice(b, want, got, tolerance)
	}
}

func floats[T cublas.Real](x []T) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

func TestSVD(t *testing.T) {
	each(t, 20, svd[float32], svd[float64])
}

func svd[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 6)
	svdOf[T](b, r, 1+r.IntN(15), 1+r.IntN(15))
}

func svdOf[T cublas.Real](b bench, r *rand.Rand, m, n int) {
	b.Helper()
	k := min(m, n)
	widths := []int{0, k, m}
	heights := []int{0, k, n}
	columns, rows := widths[r.IntN(3)], heights[r.IntN(3)]
	a := place[T](b, r, random(r, m, n))
	var u, vt operand[T]
	if columns > 0 {
		u = place[T](b, r, random(r, m, columns))
	}
	if rows > 0 {
		vt = place[T](b, r, random(r, rows, n))
	}
	s := upload(b, make([]T, k))
	done(b)(cusolver.SVD(b.h, a.Matrix, u.Matrix, s, vt.Matrix))
	a.is(b)
	values := floats(numbers(b, s))
	tolerance := ulps * float64(max(m, n)) * epsilon[T]()
	var reference mat.SVD
	require.True(b, reference.Factorize(a.was(), mat.SVDNone))
	assert.InDeltaSlice(b, reference.Values(nil), values, tolerance)
	if columns > 0 {
		left := u.is(b)
		near(b, identity(columns), times(left.T(), left), tolerance, "U^T*U")
	}
	if rows > 0 {
		right := vt.is(b)
		near(b, identity(rows), times(right, right.T()), tolerance, "V^T*V")
	}
	if columns > 0 && rows > 0 {
		near(b, a.was(), times(u.is(b).Slice(0, m, 0, k), mat.NewDiagDense(k, values), vt.is(b).Slice(0, k, 0, n)), tolerance, "U*S*V^T")
	}
}

// FuzzRoutines compares with gonum, and checks what each routine promises.
func FuzzRoutines(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(4), false)
	f.Add(uint64(2), uint8(33), uint8(1), true)
	f.Add(uint64(3), uint8(1), uint8(40), true)
	f.Add(uint64(4), uint8(40), uint8(36), false)
	f.Fuzz(func(t *testing.T, seed uint64, m, n uint8, double bool) {
		b, _, _ := simulated(t)
		r, m1, n1 := generator(seed, 7), 1+int(m)%48, 1+int(n)%48
		if double {
			all[float64](b, r, m1, n1)
		} else {
			all[float32](b, r, m1, n1)
		}
	})
}

func all[T cublas.Real](b bench, r *rand.Rand, m, n int) {
	choleskyOf[T](b, r, m, n)
	luOf[T](b, r, m, n)
	luOf[T](b, r, m, m)
	qrOf[T](b, r, m, n)
	leastSquaresOf[T](b, r, max(m, n), min(m, n))
	eigenOf[T](b, r, m)
	svdOf[T](b, r, m, n)
}
