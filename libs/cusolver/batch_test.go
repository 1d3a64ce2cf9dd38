package cusolver_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/runtime"
)

// group are matrices on the device, and what they were.
type group[T cublas.Real] struct {
	cublas.Batch[T]
	was []*mat.Dense
}

// placeBatch puts matrices somewhere in memory, by rows or as transposed views, with gaps. What does not belong to them is NaN.
func placeBatch[T cublas.Real](b bench, r *rand.Rand, transposed, gaps bool, all []*mat.Dense) group[T] {
	b.Helper()
	rows, cols := all[0].Dims()
	if transposed {
		rows, cols = cols, rows
	}
	g := group[T]{}
	g.Rows, g.Cols, g.Stride, g.Count = rows, cols, max(cols, 1), len(all)
	if gaps {
		g.Stride, g.Offset = g.Stride+r.IntN(3), r.IntN(5)
	}
	g.Step = g.Stride * rows
	if gaps {
		g.Step += r.IntN(4)
	}
	host := make([]T, g.Offset+g.Step*len(all))
	for i := range host {
		host[i] = T(math.NaN())
	}
	if transposed {
		g.Batch = g.T()
	}
	for k, m := range all {
		m.Apply(func(_, _ int, v float64) float64 { return float64(T(v)) }, m)
		for i := range g.Rows {
			for j := range g.Cols {
				host[g.at(k, i, j)] = T(m.At(i, j))
			}
		}
		g.was = append(g.was, mat.DenseCopyOf(m))
	}
	g.Ref = upload(b, host)
	return g
}

// at is the place of element i, j of matrix k.
func (g group[T]) at(k, i, j int) int {
	if g.Transposed() {
		i, j = j, i
	}
	return g.Offset + k*g.Step + i*g.Stride + j
}

// is reads the matrices. What lies around them must be as it was.
func (g group[T]) is(b bench) (all []*mat.Dense) {
	b.Helper()
	got := numbers(b, g.Ref)
	inside := make([]bool, len(got))
	for k := range g.Count {
		m := mat.NewDense(g.Rows, g.Cols, nil)
		m.Apply(func(i, j int, _ float64) float64 {
			inside[g.at(k, i, j)] = true
			return float64(got[g.at(k, i, j)])
		}, m)
		all = append(all, m)
	}
	for i, x := range got {
		require.True(b, inside[i] || math.IsNaN(float64(x)), "element %d of the memory is %v: it belongs to no matrix", i, x)
	}
	return all
}

// many makes matrices.
func many(count int, f func() *mat.Dense) (all []*mat.Dense) {
	for range count {
		all = append(all, f())
	}
	return all
}

// positive is a matrix that is positive definite.
func positive(r *rand.Rand, n int) *mat.Dense {
	half := random(r, n, n)
	full := times(half, half.T())
	for i := range n {
		full.Set(i, i, full.At(i, i)+float64(n))
	}
	full.Apply(func(_, _ int, v float64) float64 { return float64(float32(v)) }, full)
	return full
}

func TestCholeskyBatch(t *testing.T) { each(t, 15, choleskyBatch[float32], choleskyBatch[float64]) }

func choleskyBatch[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 11)
	n, k, count, fill := 1+r.IntN(12), 1+r.IntN(4), 1+r.IntN(30), cublas.Fill(r.IntN(2))
	a := placeBatch[T](b, r, r.IntN(2) == 0, true, many(count, func() *mat.Dense { return positive(r, n) }))
	x := placeBatch[T](b, r, r.IntN(2) == 0, true, many(count, func() *mat.Dense { return random(r, n, k) }))
	done(b)(cusolver.CholeskyBatch(b.h, fill, a.Batch))
	factors := a.is(b)
	done(b)(cusolver.CholeskySolveBatch(b.h, fill, a.Batch, x.Batch))
	tolerance := ulps * float64(n) * float64(n) * epsilon[T]()
	for i, got := range x.is(b) {
		near(b, x.was[i], times(a.was[i], got), tolerance, "a*x")
		factor := part(factors[i], func(i, j int) bool { return within(fill, i, j) })
		if fill == cublas.Lower {
			near(b, a.was[i], times(factor, factor.T()), tolerance, "l*l^T")
		} else {
			near(b, a.was[i], times(factor.T(), factor), tolerance, "u^T*u")
		}
	}
}

func TestLUBatch(t *testing.T) { each(t, 15, luBatch[float32], luBatch[float64]) }

func luBatch[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 12)
	n, k, count := 1+r.IntN(12), 1+r.IntN(4), 1+r.IntN(30)
	matrix := func() *mat.Dense {
		m := random(r, n, n)
		for i := range n {
			m.Set(i, (i+1)%n, m.At(i, (i+1)%n)+float64(n)) // far from singular, with exchanged rows
		}
		return m
	}
	a := placeBatch[T](b, r, r.IntN(2) == 0, true, many(count, matrix))
	x := placeBatch[T](b, r, r.IntN(2) == 0, true, many(count, func() *mat.Dense { return random(r, n, k) }))
	out := placeBatch[T](b, r, a.Transposed(), true, many(count, func() *mat.Dense { return random(r, n, n) }))
	pivots := upload(b, make([]int32, n*count))
	done(b)(cusolver.LUBatch(b.h, a.Batch, pivots))
	done(b)(cusolver.LUSolveBatch(b.h, a.Batch, pivots, x.Batch))
	done(b)(cusolver.InverseBatch(b.h, a.Batch, pivots, out.Batch))
	tolerance := ulps * float64(n) * float64(n) * epsilon[T]()
	inverses := out.is(b)
	for i, got := range x.is(b) {
		near(b, x.was[i], times(a.was[i], got), tolerance, "a*x")
		near(b, identity(n), times(a.was[i], inverses[i]), tolerance, "a*inverse")
	}
}

func TestLeastSquaresBatch(t *testing.T) {
	each(t, 15, leastSquaresBatch[float32], leastSquaresBatch[float64])
}

func leastSquaresBatch[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 13)
	n, k, count := 1+r.IntN(8), 1+r.IntN(4), 1+r.IntN(20)
	m := n + r.IntN(8)
	a := placeBatch[T](b, r, r.IntN(2) == 0, true, many(count, func() *mat.Dense {
		x := random(r, m, n)
		for i := range n {
			x.Set(i, i, x.At(i, i)+2)
		}
		return x
	}))
	x := placeBatch[T](b, r, r.IntN(2) == 0, true, many(count, func() *mat.Dense { return random(r, m, k) }))
	done(b)(cusolver.LeastSquaresBatch(b.h, a.Batch, x.Batch))
	for i, got := range x.is(b) {
		var want mat.Dense
		require.NoError(b, want.Solve(a.was[i], x.was[i]))
		near(b, &want, got.Slice(0, n, 0, k), ulps*float64(m)*float64(m)*epsilon[T](), "x of gonum")
	}
}

func TestEigenBatch(t *testing.T) { each(t, 15, eigenBatch[float32], eigenBatch[float64]) }

func eigenBatch[T cublas.Real](b bench, seed uint64) {
	r := generator(seed, 14)
	n, count, fill := 1+r.IntN(12), 1+r.IntN(20), cublas.Fill(r.IntN(2))
	a := placeBatch[T](b, r, r.IntN(2) == 0, false, many(count, func() *mat.Dense {
		half := random(r, n, n)
		half.Add(half, mat.DenseCopyOf(half.T()))
		return half
	}))
	values := upload(b, make([]T, n*count))
	done(b)(cusolver.EigenBatch(b.h, fill, true, a.Batch, values))
	got := numbers(b, values)
	tolerance := 10 * ulps * float64(n) * float64(n) * epsilon[T]()
	for i, vectors := range a.is(b) {
		if !a.Transposed() { // by rows, as Eigen has them
			vectors = mat.DenseCopyOf(vectors.T())
		}
		diagonal := mat.NewDense(n, n, nil)
		for j := range n {
			diagonal.Set(j, j, float64(got[i*n+j]))
		}
		assert.True(b, slices.IsSorted(got[i*n:(i+1)*n]), "the eigenvalues rise")
		near(b, a.was[i], times(vectors, diagonal, vectors.T()), tolerance, "v*d*v^T")
		near(b, identity(n), times(vectors.T(), vectors), tolerance, "v^T*v")
	}
}

// A failure of some matrices says which, and the others are right.
func TestMatricesThatFail(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		r := generator(1, 15)
		const n, count = 4, 50
		matrices := many(count, func() *mat.Dense { return positive(r, n) })
		for _, i := range []int{17, 40} {
			matrices[i].Set(3, 3, -1)
		}
		a := placeBatch[float64](b, r, false, false, matrices)
		x := placeBatch[float64](b, r, true, false, many(count, func() *mat.Dense { return random(r, n, 1) }))
		result, err := cusolver.CholeskyBatch(b.h, cublas.Lower, a.Batch)
		require.NoError(t, err)
		done(b)(cusolver.CholeskySolveBatch(b.h, cublas.Lower, a.Batch, x.Batch))
		for range 2 {
			err = result.Wait(bg)
			var batch *cusolver.BatchError
			require.ErrorAs(t, err, &batch)
			assert.Equal(t, []int{17, 40}, batch.Matrices)
			assert.ErrorIs(t, err, cusolver.ErrNotPositiveDefinite)
			assert.ErrorContains(t, err, "2 of 50 matrices failed, the first is number 17: InvalidArgument: cusolverDnPotrfBatched: the matrix is not positive definite: row 3")
		}
		for i, got := range x.is(b) {
			if i != 17 && i != 40 {
				near(b, x.was[i], times(a.was[i], got), 1e-12, "a*x")
			}
		}

		singular := many(3, func() *mat.Dense { return positive(r, n) })
		singular[1] = mat.NewDense(n, n, nil)
		s := placeBatch[float32](b, r, false, false, singular)
		result, err = cusolver.LUBatch(b.h, s.Batch, upload(b, make([]int32, 3*n)))
		require.NoError(t, err)
		assert.ErrorIs(t, result.Wait(bg), cusolver.ErrSingular)
		assert.ErrorContains(t, result.Wait(bg), "1 of 3 matrices failed, the first is number 1")
	})
}

// What has run once can be captured, and each launch solves what is in the memory then.
func TestBatchesInGraphs(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		r := generator(1, 16)
		const n, count = 5, 20
		a := placeBatch[float64](b, r, false, false, many(count, func() *mat.Dense { return positive(r, n) }))
		x := placeBatch[float64](b, r, true, false, many(count, func() *mat.Dense { return random(r, n, 1) }))
		hostA, hostX := numbers(b, a.Ref), numbers(b, x.Ref)
		call := func() (*cusolver.Result, error) {
			result, err := cusolver.CholeskyBatch(b.h, cublas.Upper, a.Batch)
			if err == nil {
				_, err = cusolver.CholeskySolveBatch(b.h, cublas.Upper, a.Batch, x.Batch)
			}
			return result, err
		}
		done(b)(call())
		var result *cusolver.Result
		graph, err := b.s.Capture(func(*runtime.Stream) (err error) {
			result, err = call()
			return err
		})
		require.NoError(t, err)
		exec, err := graph.Instantiate()
		require.NoError(t, err)
		other := placeBatch[float64](b, r, false, true, many(3, func() *mat.Dense { return positive(r, n) }))
		for _, wrong := range []bool{false, true, false} {
			again := slices.Clone(hostA)
			if wrong {
				again[7*n*n] = -1
			}
			require.NoError(t, runtime.Upload(bg, b.s, a.Ref, again))
			require.NoError(t, runtime.Upload(bg, b.s, x.Ref, hostX))
			_, err := cusolver.CholeskyBatch(b.h, cublas.Upper, other.Batch) // uses the addresses of the handle for itself
			require.NoError(t, err)
			require.NoError(t, exec.Launch(b.s))
			if wrong {
				assert.ErrorContains(t, result.Wait(bg), "the first is number 7")
				continue
			}
			require.NoError(t, result.Wait(bg))
			for i, got := range x.is(b) {
				near(b, x.was[i], times(a.was[i], got), 1e-12, "a*x")
			}
		}
		require.NoError(t, exec.Close())
		require.NoError(t, graph.Close())
	})
}

func TestWrongBatches(t *testing.T) {
	b, _, lib := simulated(t)
	ref, small := upload(b, make([]float64, 64)), upload(b, make([]float64, 63))
	pivots := upload(b, make([]int32, 16))
	batch := func(ref *runtime.Ref[float64], rows, cols, count, step int) cublas.Batch[float64] {
		return cublas.Batch[float64]{Matrix: cublas.Dense(ref, rows, cols), Count: count, Step: step}
	}
	a, x := batch(ref, 4, 4, 4, 16), batch(upload(b, make([]float64, 16)), 4, 1, 4, 4)
	gap := a
	gap.Offset, gap.Count = 1, 3
	for text, call := range map[string]func() (*cusolver.Result, error){
		"fill 7":           func() (*cusolver.Result, error) { return cusolver.CholeskyBatch(b.h, 7, a) },
		"are 4 x 3: want":  func() (*cusolver.Result, error) { return cusolver.CholeskyBatch(b.h, 0, batch(ref, 4, 3, 4, 16)) },
		"a is -1 matrices": func() (*cusolver.Result, error) { return cusolver.CholeskyBatch(b.h, 0, batch(ref, 4, 4, -1, 16)) },
		"too large for":    func() (*cusolver.Result, error) { return cusolver.CholeskyBatch(b.h, 0, batch(small, 4, 4, 4, 16)) },
		"overlap: they are 15 elements apart and span 16": func() (*cusolver.Result, error) {
			return cusolver.CholeskyBatch(b.h, 0, batch(ref, 4, 4, 4, 15))
		},
		"want as many, with as many rows": func() (*cusolver.Result, error) {
			return cusolver.CholeskySolveBatch(b.h, 0, a, batch(x.Ref, 4, 1, 3, 4))
		},
		"the call writes b": func() (*cusolver.Result, error) {
			return cusolver.CholeskySolveBatch(b.h, 0, a, batch(ref, 4, 1, 4, 16))
		},
		"pivots has 16 elements: want 20": func() (*cusolver.Result, error) {
			return cusolver.LUBatch(b.h, batch(upload(b, make([]float64, 80)), 4, 4, 5, 16), pivots)
		},
		"pivots has no memory":  func() (*cusolver.Result, error) { return cusolver.LUSolveBatch(b.h, a, nil, x) },
		"both by rows or both":  func() (*cusolver.Result, error) { return cusolver.InverseBatch(b.h, a, pivots, a.T()) },
		"the call writes out":   func() (*cusolver.Result, error) { return cusolver.InverseBatch(b.h, a, pivots, a) },
		"at least as many rows": func() (*cusolver.Result, error) { return cusolver.LeastSquaresBatch(b.h, batch(ref, 3, 4, 4, 12), x) },
		"17 elements apart: want 16": func() (*cusolver.Result, error) {
			return cusolver.EigenBatch(b.h, 0, true, batch(ref, 4, 4, 3, 17), x.Ref)
		},
		"values has 16 elements: want 20": func() (*cusolver.Result, error) {
			return cusolver.EigenBatch(b.h, 0, true, batch(upload(b, make([]float64, 80)), 4, 4, 5, 16), x.Ref)
		},
		"PotrfBatched with no handle": func() (*cusolver.Result, error) { return cusolver.CholeskyBatch(nil, 0, a) },
		"SyevjBatched with no handle": func() (*cusolver.Result, error) { return cusolver.EigenBatch(nil, 0, true, a, x.Ref) },
		"a has no memory": func() (*cusolver.Result, error) {
			return cusolver.CholeskyBatch(b.h, 0, batch(nil, 4, 4, 4, 16))
		},
	} {
		_, err := call()
		require.ErrorIs(t, err, driver.ErrInvalidArgument, text)
		assert.ErrorContains(t, err, text)
	}
	done(b)(cusolver.CholeskyBatch(b.h, 0, batch(ref, 4, 4, 0, 16)))
	done(b)(cusolver.EigenBatch(b.h, 0, false, batch(ref, 0, 0, 4, 0), x.Ref))
	lib.Fail("cublasGetrfBatched", cusolver.StatusSymbolMissing)
	_, err := cusolver.LUBatch(b.h, a, pivots)
	assert.ErrorIs(t, err, driver.ErrSymbolMissing)
	lib.Fail("cublasGetrfBatched", 0)
	lib.Diverge(true)
	result, err := cusolver.EigenBatch(b.h, 0, true, a, x.Ref)
	require.NoError(t, err)
	assert.ErrorIs(t, result.Wait(bg), cusolver.ErrNotConverged)
}
