package cusolver_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/cusolvertest"
	"github.com/purecuda/purecuda/runtime"
)

// diagonal is a matrix with numbers on its diagonal alone.
func diagonal(values ...float64) *mat.Dense {
	return mat.DenseCopyOf(mat.NewDiagDense(len(values), values))
}

// What is wrong with the numbers comes with Wait, again and again, and names the place.
func TestNumbersThatDoNotDo(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		for _, transposed := range []bool{false, true} {
			indefinite := placeAs[float64](b, diagonal(1, 2, 3, -4, 5), transposed, 0, 0)
			r, err := cusolver.Cholesky(b.h, cublas.Lower, indefinite.Matrix)
			require.NoError(t, err)
			for range 2 {
				err = r.Wait(bg)
				require.ErrorIs(t, err, cusolver.ErrNotPositiveDefinite)
				assert.ErrorIs(t, err, driver.ErrInvalidArgument)
				assert.ErrorContains(t, err, "cusolverDnXpotrf: the matrix is not positive definite: row 3")
			}
			singular := placeAs[float32](b, diagonal(1, 2, 0, 4), transposed, 0, 0)
			r, err = cusolver.LU(b.h, singular.Matrix, upload(b, make([]int64, 4)))
			require.NoError(t, err)
			err = r.Wait(bg)
			require.ErrorIs(t, err, cusolver.ErrSingular)
			assert.ErrorContains(t, err, "element 2 of the diagonal")
		}
	})
	b, _, lib := simulated(t)
	lib.Diverge(true)
	a := placeAs[float64](b, diagonal(1, 2), false, 0, 0)
	r, err := cusolver.Eigen(b.h, cublas.Lower, true, a.Matrix, upload(b, make([]float64, 2)))
	require.NoError(t, err)
	assert.ErrorIs(t, r.Wait(bg), cusolver.ErrNotConverged)
	r, err = cusolver.SVD(b.h, a.Matrix, cublas.Matrix[float64]{}, upload(b, make([]float64, 2)), cublas.Matrix[float64]{})
	require.NoError(t, err)
	assert.ErrorIs(t, r.Wait(bg), cusolver.ErrNotConverged)
}

func TestWait(t *testing.T) {
	b, _, _ := simulated(t)
	a := placeAs[float64](b, diagonal(1, -2), false, 0, 0)
	r, err := cusolver.Cholesky(b.h, cublas.Lower, a.Matrix)
	require.NoError(t, err)
	ended, end := context.WithCancelCause(bg)
	end(assert.AnError)
	require.ErrorIs(t, r.Wait(ended), assert.AnError)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { assert.ErrorIs(t, r.Wait(bg), cusolver.ErrNotPositiveDefinite) })
	}
	wg.Wait()
	require.ErrorIs(t, r.Wait(ended), cusolver.ErrNotPositiveDefinite, "it is known")
	assert.ErrorIs(t, (*cusolver.Result)(nil).Wait(bg), driver.ErrInvalidArgument)
	assert.NoError(t, new(cusolver.Result).Wait(bg))
}

func TestConcurrentUseOfAHandle(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		var wg sync.WaitGroup
		for i := range 6 {
			r := rand.New(rand.NewPCG(uint64(i), 8))
			good, bad := placeAs[float32](b, diagonal(4, 9, 16), i%2 == 0, 0, 0), placeAs[float32](b, diagonal(4, -9, 16), false, 0, 0)
			svd := place[float32](b, r, random(r, 5, 3))
			s := upload(b, make([]float32, 3))
			wg.Go(func() {
				first, err := cusolver.Cholesky(b.h, cublas.Lower, good.Matrix)
				if !assert.NoError(t, err) {
					return
				}
				second, err := cusolver.Cholesky(b.h, cublas.Upper, bad.Matrix)
				if !assert.NoError(t, err) {
					return
				}
				third, err := cusolver.SVD(b.h, svd.Matrix, cublas.Matrix[float32]{}, s, cublas.Matrix[float32]{})
				if !assert.NoError(t, err) {
					return
				}
				assert.NoError(t, third.Wait(bg))
				assert.ErrorIs(t, second.Wait(bg), cusolver.ErrNotPositiveDefinite)
				assert.NoError(t, first.Wait(bg), "each has its own")
			})
		}
		wg.Wait()
	})
}

// Each call is ordered with the work of other streams by its Refs, and Refs may be closed behind it.
func TestOrderAcrossStreams(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		other, err := b.s.Context().NewStream()
		require.NoError(t, err)
		defer other.Close()
		a, x := placeAs[float64](b, diagonal(4, 9, 16), false, 0, 0), placeAs[float64](b, diagonal(8, 27, 64), false, 0, 0)
		between, err := runtime.Alloc[float64](other, 9)
		require.NoError(t, err)
		require.NoError(t, runtime.Copy(other, between, a.Ref.Slice(0, 9)))
		factor := cublas.Dense(between, 3, 3)
		_, err = cusolver.Cholesky(b.h, cublas.Lower, factor)
		require.NoError(t, err)
		done(b)(cusolver.CholeskySolve(b.h, cublas.Lower, factor, x.Matrix))
		require.NoError(t, between.Close())
		near(b, diagonal(2, 3, 4), x.is(b), 1e-12, "x")
	})
}

func TestCaptureIsRefused(t *testing.T) {
	b, _, _ := simulated(t)
	a := placeAs[float64](b, diagonal(4, 9), false, 0, 0)
	_, err := b.s.Capture(func(*runtime.Stream) error {
		_, err := cusolver.Cholesky(b.h, cublas.Lower, a.Matrix)
		return err
	})
	require.ErrorIs(t, err, driver.ErrCaptureFailed)
	done(b)(cusolver.Cholesky(b.h, cublas.Lower, a.Matrix))
	near(b, diagonal(2, 3), a.is(b), 0, "the factor")
}

// What ran before can be captured. Each launch of the graph computes again, and Wait is about the last one.
func TestCapture(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		a, x := placeAs[float64](b, diagonal(4, 9), false, 0, 0), placeAs[float64](b, diagonal(8, 18), false, 0, 0)
		solve := func() (*cusolver.Result, error) {
			r, err := cusolver.Cholesky(b.h, cublas.Lower, a.Matrix)
			if err == nil {
				_, err = cusolver.CholeskySolve(b.h, cublas.Lower, a.Matrix, x.Matrix)
			}
			return r, err
		}
		done(b)(solve())
		var r *cusolver.Result
		graph, err := b.s.Capture(func(*runtime.Stream) (err error) {
			r, err = solve()
			return err
		})
		require.NoError(t, err)
		defer graph.Close()
		run, err := graph.Instantiate()
		require.NoError(t, err)
		defer run.Close()
		for i := range 4 {
			host := []float64{4, 0, 0, 9}
			if i == 2 {
				host[3] = -9
			}
			require.NoError(t, runtime.Upload(bg, b.s, a.Ref.Slice(0, 4), host))
			require.NoError(t, runtime.Upload(bg, b.s, x.Ref.Slice(0, 4), []float64{8, 0, 0, 18}))
			require.NoError(t, run.Launch(b.s))
			// What runs beside it has a result of its own.
			done(b)(cusolver.Cholesky(b.h, cublas.Upper, placeAs[float64](b, diagonal(4, 9), false, 0, 0).Matrix))
			for range 2 {
				if i == 2 {
					require.ErrorIs(t, r.Wait(bg), cusolver.ErrNotPositiveDefinite)
					continue
				}
				require.NoError(t, r.Wait(bg))
				near(b, diagonal(2, 2), x.is(b), 1e-12, "x")
			}
		}
	})
}

// A triangle that is turned around gives the same factor, and leaves the other one as it is.
func TestTurnedTriangles(t *testing.T) {
	defer func(n int) { *cusolver.TurnedFrom = n }(*cusolver.TurnedFrom)
	*cusolver.TurnedFrom = 1
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		for seed := range uint64(8) {
			r := rand.New(rand.NewPCG(seed, 4))
			n := 1 + r.IntN(70)
			l := part(random(r, n, n), func(i, j int) bool { return i >= j })
			for i := range n {
				l.Set(i, i, float64(n))
			}
			for _, fill := range []cublas.Fill{cublas.Lower, cublas.Upper} {
				a := place[float64](b, r, times(l, l.T()))
				was, want := a.was(), mat.Matrix(l)
				if fill == cublas.Upper {
					want = l.T()
				}
				done(b)(cusolver.Cholesky(b.h, fill, a.Matrix))
				got := a.is(b)
				in := func(i, j int) bool { return within(fill, i, j) }
				out := func(i, j int) bool { return !in(i, j) }
				near(b, want, part(got, in), 1e-9*float64(n), "the factor")
				near(b, part(was, out), part(got, out), 0, "the other triangle")
			}
		}
	})
}

// Calls that need no more than one before allocate nothing on the device. Concurrent ones have memory each.
func TestMemoryIsKept(t *testing.T) {
	b, _, _ := simulated(t)
	r := rand.New(rand.NewPCG(3, 3))
	call := func(n int) func() {
		a := placeAs[float64](b, random(r, n, n/2), false, 0, 0)
		s := upload(b, make([]float64, n))
		return func() {
			done(b)(cusolver.SVD(b.h, a.Matrix, cublas.Matrix[float64]{}, s, cublas.Matrix[float64]{}))
			done(b)(cusolver.QR(b.h, a.Matrix, s))
		}
	}
	large, small := call(40), call(9)
	live := func() int { return int(b.s.Context().Stats().Refs) }
	large()
	kept := live()
	for range 3 {
		small()
		large()
		assert.Equal(t, kept, live())
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(small)
	}
	wg.Wait()
	large()
	require.NoError(t, b.h.Close())
	assert.Less(t, live(), kept)
	require.NoError(t, b.h.Close())
}

func TestHandleEnds(t *testing.T) {
	b, _, lib := simulated(t)
	factor := func(h *cusolver.Handle, b bench) error {
		r, err := cusolver.Cholesky(h, cublas.Lower, placeAs[float32](b, diagonal(4, 9), false, 0, 0).Matrix)
		if err != nil {
			return err
		}
		return r.Wait(bg)
	}
	h, err := cusolver.New(lib, b.s)
	require.NoError(t, err)
	assert.Same(t, b.s, h.Stream())
	require.NoError(t, factor(h, b))
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())
	require.ErrorIs(t, factor(h, b), driver.ErrClosed)
	var none *cusolver.Handle
	assert.NoError(t, none.Close())
	assert.NoError(t, new(cusolver.Handle).Close())
	assert.Nil(t, none.Stream())

	pending, err := cusolver.Cholesky(b.h, cublas.Lower, placeAs[float32](b, diagonal(4, 9), false, 0, 0).Matrix)
	require.NoError(t, err)
	require.NoError(t, b.s.Context().Reset(bg))
	assert.Zero(t, lib.Left(), "they end with the context")
	assert.ErrorIs(t, pending.Wait(bg), driver.ErrRefStale)
	s, err := b.s.Context().NewStream()
	require.NoError(t, err)
	defer s.Close()
	after := bench{t, s, nil, nil}
	assert.ErrorIs(t, factor(b.h, after), driver.ErrRefStale)
	h, err = cusolver.New(lib, s)
	require.NoError(t, err)
	defer h.Close()
	require.NoError(t, factor(h, after))
}

func TestHandleThatCannotBeMade(t *testing.T) {
	b, _, lib := simulated(t)
	for name, c := range map[string]struct {
		api cusolver.API
		s   *runtime.Stream
	}{"no library": {nil, b.s}, "no stream": {lib, nil}, "empty stream": {lib, new(runtime.Stream)}} {
		_, err := cusolver.New(c.api, c.s)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
	}
	for method, name := range map[string]string{"Create": "cusolverDnCreate", "SetStream": "cusolverDnSetStream"} {
		lib.Fail(method, cusolver.StatusAllocFailed)
		_, err := cusolver.New(lib, b.s)
		require.ErrorIs(t, err, cusolver.StatusAllocFailed)
		assert.ErrorIs(t, err, driver.ErrOutOfMemory)
		assert.ErrorContains(t, err, name+": ")
		lib.Fail(method, cusolver.StatusSuccess)
	}
	gpu := drivertest.ForTest(t, config())
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	ctx, err := rt.Context(0)
	require.NoError(t, err)
	s, err := ctx.NewStream()
	require.NoError(t, err)
	gpu.Fail("cuModuleLoadDataEx", 1, driver.ResultOutOfMemory)
	_, err = cusolver.New(cusolvertest.New(gpu), s)
	assert.ErrorIs(t, err, driver.ErrOutOfMemory, "the kernel that turns matrices around")
}

func TestFailures(t *testing.T) {
	b, gpu, lib := simulated(t)
	a, values := placeAs[float64](b, diagonal(4, 9), false, 0, 0), upload(b, make([]float64, 2))
	eigen := func() error {
		r, err := cusolver.Eigen(b.h, cublas.Lower, true, a.Matrix, values)
		if err != nil {
			assert.Nil(t, r)
			return err
		}
		return r.Wait(bg)
	}
	for _, where := range []string{"Workspace", "cusolverDnXsyevd"} {
		for status, kind := range map[cusolver.Status]driver.Kind{
			cusolver.StatusNotSupported: driver.ErrUnsupported, cusolver.StatusArchMismatch: driver.ErrUnsupported, cusolver.StatusMatrixTypeNotSupported: driver.ErrUnsupported,
			cusolver.StatusAllocFailed: driver.ErrOutOfMemory, cusolver.StatusInternalError: driver.ErrDriverCallFailed,
			cusolver.StatusSymbolMissing: driver.ErrSymbolMissing, 99: driver.ErrDriverCallFailed,
		} {
			lib.Fail(where, status)
			err := eigen()
			require.ErrorIs(t, err, status)
			assert.ErrorIs(t, err, kind)
			assert.ErrorContains(t, err, "cusolverDnXsyevd: ")
		}
		lib.SetVersion([3]int{10, 6, 0})
		lib.Fail(where, cusolver.StatusSymbolMissing)
		assert.ErrorContains(t, eigen(), "cusolverDnXsyevd needs cuSOLVER 11.0, found 10.6.0")
		lib.Fail(where, cusolver.StatusSuccess)
	}
	require.NoError(t, eigen())
	require.NoError(t, b.s.Context().TrimPinned(0))
	for nth := range 2 { // it tries again
		gpu.Fail("cuMemHostAlloc", nth+1, driver.ResultOutOfMemory)
	}
	assert.ErrorIs(t, eigen(), driver.ErrOutOfMemory, "the workspace on the host")
	require.NoError(t, eigen())
}

func TestWrongShapes(t *testing.T) {
	b, _, _ := simulated(t)
	ref, pivots := upload(b, make([]float32, 12)), upload(b, make([]int64, 2))
	m := func(rows, cols int) cublas.Matrix[float32] { return cublas.Dense(ref, rows, cols) }
	tooMany := math.MaxInt32 // one less, and an int of 32 bits has no more
	tooMany++
	var none cublas.Matrix[float32]
	view := func(offset, rows, cols, stride int) cublas.Matrix[float32] {
		return cublas.Matrix[float32]{Ref: ref, Offset: offset, Rows: rows, Cols: cols, Stride: stride}
	}
	cholesky := func(a cublas.Matrix[float32]) error { return failed(cusolver.Cholesky(b.h, cublas.Lower, a)) }
	svd := func(a, u, vt cublas.Matrix[float32]) error { return failed(cusolver.SVD(b.h, a, u, ref, vt)) }
	for want, err := range map[string]error{
		"a is 3 x 4: want n x n":                            cholesky(m(3, 4)),
		"a is too large for its memory: 1 matrices of":      cholesky(m(4, 4)),
		"behind element 9 need more than the 12":            cholesky(view(9, 2, 2, 2)),
		"a has no memory: Ref is nil":                       cholesky(cublas.Matrix[float32]{Rows: 1, Cols: 1, Stride: 1}),
		"a has -1 rows":                                     cholesky(m(-1, -1)),
		"a has a stride of 1: want at least 2":              cholesky(view(0, 2, 2, 1)),
		"a begins at element -1":                            cholesky(view(-1, 1, 1, 1)),
		"a has 2147483648 rows":                             cholesky(m(tooMany, tooMany)),
		"want Lower or Upper":                               failed(cusolver.Cholesky(b.h, 7, m(2, 2))),
		"fill 9: want Lower":                                failed(cusolver.Eigen(b.h, 9, true, m(2, 2), ref)),
		"cusolverDnXpotrf with no handle":                   failed(cusolver.Cholesky(nil, cublas.Lower, m(2, 2))),
		"cusolverDnXgetrf with no handle":                   failed(cusolver.LU(new(cusolver.Handle), m(2, 2), pivots)),
		"no handle: see cusolver.New":                       failed(cusolver.QR(nil, m(2, 2), ref.Slice(4, 6))),
		"b is 3 x 1: want n x n and n x k":                  failed(cusolver.CholeskySolve(b.h, cublas.Lower, m(2, 2), m(3, 1))),
		"b has no memory":                                   failed(cusolver.CholeskySolve(b.h, cublas.Lower, m(2, 2), none)),
		"pivots has 2 elements: want 3":                     failed(cusolver.LU(b.h, m(3, 4), pivots)),
		"pivots has no memory: want 2 elements":             failed(cusolver.LU(b.h, m(2, 4), nil)),
		"a is 2 x 3: want n x n":                            failed(cusolver.LUSolve(b.h, m(2, 3), pivots, m(2, 1))),
		"tau has 1 elements: want 2":                        failed(cusolver.QR(b.h, m(3, 2), ref.Slice(0, 1))),
		"c is 2 x 3, and Q is 3 x 3":                        failed(cusolver.ApplyQ(b.h, cublas.Left, cublas.Transpose, m(3, 2), ref, m(2, 3))),
		"c is 3 x 2, and Q is 3 x 3":                        failed(cusolver.ApplyQ(b.h, cublas.Right, cublas.Transpose, m(3, 2), ref, m(3, 2))),
		"want Left or Right, NoTranspose":                   failed(cusolver.ApplyQ(b.h, 5, cublas.Transpose, m(3, 2), ref, m(3, 2))),
		"c has no memory":                                   failed(cusolver.ApplyQ(b.h, cublas.Left, cublas.Transpose, m(3, 2), ref, none)),
		"want m x n and m x k, with m at least n":           failed(cusolver.LeastSquares(b.h, b.blas, m(2, 3), m(2, 1))),
		"with no handle of cuBLAS":                          failed(cusolver.LeastSquares(b.h, nil, m(3, 2), m(3, 1))),
		"values has 1 elements: want 2":                     failed(cusolver.Eigen(b.h, cublas.Lower, true, m(2, 2), ref.Slice(0, 1))),
		"u is 3 x 1: want the length of a side of a, 3,":    svd(m(3, 2), m(3, 1), none),
		"vt is 2 x 3: want the length of a side of a, 2,":   svd(m(3, 2), none, m(2, 3)),
		"for each of 2 or of 4 vectors":                     svd(m(2, 4), none, m(3, 4)),
		"u has no memory":                                   svd(m(2, 2), cublas.Matrix[float32]{Rows: 2, Cols: 2, Stride: 2}, none),
		"s has 1 elements: want 2":                          failed(cusolver.SVD(b.h, m(2, 2), none, ref.Slice(0, 1), none)),
		"vt is too large for its memory: 1":                 svd(m(2, 4), none, m(4, 4)),
		"is 2 x 3 and b is 1 x 1: want m x n and m x k":     failed(cusolver.LeastSquares(b.h, b.blas, m(2, 3), m(1, 1))),
		"a is 2 x 2 and b is 3 x 1: want n x n and n x k":   failed(cusolver.LUSolve(b.h, m(2, 2), pivots, m(3, 1))),
		"Slice within its matrix":                           cholesky(m(2, 2).Slice(0, 3, 0, 3)),
		"a has -1 rows, 2 columns":                          failed(cusolver.QR(b.h, m(2, 2).Slice(1, 3, 0, 2), ref)),
		"a has no memory":                                   failed(cusolver.LU(b.h, none, pivots)),
		"c is 1 x 1, and Q is 2 x 2":                        failed(cusolver.ApplyQ(b.h, cublas.Left, cublas.NoTranspose, m(2, 2), ref, m(1, 1))),
		"LeastSquares with no handle of cuBLAS: see cublas": failed(cusolver.LeastSquares(b.h, new(cublas.Handle), m(2, 2), m(2, 1))),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, want)
		assert.ErrorContains(t, err, want)
	}
}

// A result that overlaps an operand is an error that names both, and one that only lies between its rows is none.
func TestOverlap(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		ref, err := runtime.Alloc[float32](b.s, 400)
		require.NoError(t, err)
		defer ref.Close()
		require.NoError(t, runtime.Zero(b.s, ref))
		numbers, err := runtime.Cast[int64](ref)
		require.NoError(t, err)
		all := cublas.Dense(ref, 20, 20)
		at := func(i, k int) cublas.Matrix[float32] { return all.Slice(i, i+4, k, k+4) }
		pivots := numbers.Slice(190, 194) // of the last row
		vector := ref.Slice(380, 390)
		for name, c := range map[string]struct {
			err  error
			want []string
		}{
			"cholesky":      {failed(cusolver.CholeskySolve(b.h, cublas.Lower, at(0, 0), at(3, 3))), []string{"writes b", "overlaps a"}},
			"lu":            {failed(cusolver.LU(b.h, at(16, 0), pivots)), []string{"writes a", "overlaps pivots"}},
			"lu, b":         {failed(cusolver.LUSolve(b.h, at(0, 0), pivots, at(16, 0))), []string{"writes b", "overlaps pivots"}},
			"qr":            {failed(cusolver.QR(b.h, at(16, 0), vector)), []string{"writes a", "overlaps tau"}},
			"q":             {failed(cusolver.ApplyQ(b.h, cublas.Left, cublas.Transpose, at(0, 0), vector, at(0, 3))), []string{"writes c", "overlaps a"}},
			"least squares": {failed(cusolver.LeastSquares(b.h, b.blas, at(0, 0), at(0, 3))), []string{"writes b", "overlaps a"}},
			"eigen":         {failed(cusolver.Eigen(b.h, cublas.Lower, true, at(16, 0), vector)), []string{"writes a", "overlaps values"}},
			"svd":           {failed(cusolver.SVD(b.h, at(0, 0), at(4, 4), vector, at(5, 5))), []string{"writes u", "overlaps vt"}},
			"beside":        {failed(cusolver.ApplyQ(b.h, cublas.Left, cublas.Transpose, at(0, 0), vector, at(0, 4))), nil},
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
	})
}

func failed(r *cusolver.Result, err error) error {
	if err == nil {
		return r.Wait(bg)
	}
	return err
}

// Nothing is computed of matrices without elements.
func TestEmpty(t *testing.T) {
	b, gpu, _ := simulated(t)
	ref, pivots := upload(b, make([]float32, 12)), upload(b, []int64{7})
	m := func(rows, cols int) cublas.Matrix[float32] { return cublas.Dense(ref, rows, cols) }
	var none cublas.Matrix[float32]
	before := gpu.Calls("cuLaunchKernel")
	for _, err := range []error{
		failed(cusolver.Cholesky(b.h, cublas.Lower, m(0, 0))),
		failed(cusolver.CholeskySolve(b.h, cublas.Lower, m(2, 2), m(2, 0))),
		failed(cusolver.LU(b.h, m(0, 3), pivots)),
		failed(cusolver.LUSolve(b.h, m(0, 0), pivots, m(0, 2))),
		failed(cusolver.QR(b.h, m(3, 0), ref)),
		failed(cusolver.ApplyQ(b.h, cublas.Left, cublas.Transpose, m(3, 0), ref, m(3, 2))),
		failed(cusolver.LeastSquares(b.h, b.blas, m(3, 0), m(3, 1))),
		failed(cusolver.Eigen(b.h, cublas.Upper, true, m(0, 0), ref)),
		failed(cusolver.SVD(b.h, m(0, 3), none, ref, none)),
	} {
		assert.NoError(t, err)
	}
	assert.Equal(t, before, gpu.Calls("cuLaunchKernel"))
}

// Memory of another device is refused by name.
func TestWrongDevice(t *testing.T) {
	c := config()
	c.Devices = []drivertest.DeviceConfig{drivertest.A100(), drivertest.A100()}
	gpu := drivertest.ForTest(t, c)
	b := on(t, gpu, cusolvertest.New(gpu), cublastest.New(gpu))
	other, err := b.s.Context().Runtime().Context(1)
	require.NoError(t, err)
	s, err := other.NewStream()
	require.NoError(t, err)
	defer s.Close()
	there, err := runtime.UploadNew(bg, s, []float64{4, 0, 0, 9})
	require.NoError(t, err)
	defer there.Close()
	_, err = cusolver.Cholesky(b.h, cublas.Lower, cublas.Dense(there, 2, 2))
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "cusolverDnXpotrf uses memory of device 1")
}

// What goes around the checks of this package the simulated library finds: memory that is too small or was
// freed is a fault of the device, as on hardware, and names the allocation.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*cusolver.Call)
		freed bool
		want  string
	}{
		"small":           {func(c *cusolver.Call) { c.N, c.A.LD, c.DeviceBytes = 5, 5, 256 }, false, "beyond the end of the allocation"},
		"stride":          {func(c *cusolver.Call) { c.A.LD = 9 }, false, "beyond the end of the allocation"},
		"small workspace": {func(c *cusolver.Call) { c.DeviceBytes = 1 << 20 }, false, "beyond the end of the allocation"},
		"misaligned":      {func(c *cusolver.Call) { c.A.At += 2 }, false, "is not a multiple of 4"},
		"after a free":    {func(*cusolver.Call) {}, true, "freed"},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.New(drivertest.Config{Kernels: cusolvertest.Kernels()})
			defer gpu.Close()
			lib := cusolvertest.New(gpu)
			rt, err := runtime.Open(runtime.WithDriver(gpu))
			require.NoError(t, err)
			defer rt.Close()
			ctx, err := rt.Context(0)
			require.NoError(t, err)
			require.NoError(t, ctx.Do(func() error {
				h, status := lib.Create()
				require.Equal(t, cusolver.StatusSuccess, status)
				s, r := gpu.StreamCreate(driver.StreamNonBlocking)
				require.Equal(t, driver.Success, r)
				require.Equal(t, cusolver.StatusSuccess, lib.SetStream(h, s))
				alloc := func(n uint64) driver.DevicePtr {
					at, r := gpu.MemAlloc(n)
					require.Equal(t, driver.Success, r)
					return at
				}
				call := cusolver.Call{Routine: cusolver.Potrf, N: 4, A: cusolver.Operand{At: alloc(64), LD: 4}, Info: alloc(4)}
				device, host, status := lib.Workspace(h, &call)
				require.Equal(t, cusolver.StatusSuccess, status)
				require.Zero(t, host)
				call.Device, call.DeviceBytes = alloc(256), device
				for wrong, spoil := range map[string]func(c *cusolver.Call){
					"leading dimension": func(c *cusolver.Call) { c.A.LD = 3 }, "no memory": func(c *cusolver.Call) { c.A.At = 0 },
					"no info": func(c *cusolver.Call) { c.Info = 0 }, "type": func(c *cusolver.Call) { c.Type = cublas.TypeFloat16 },
					"routine": func(c *cusolver.Call) { c.Routine = 99 }, "wide": func(c *cusolver.Call) { c.Routine, c.M = cusolver.Gesvd, 3 },
				} {
					spoiled := call
					spoil(&spoiled)
					assert.Equal(t, cusolver.StatusInvalidValue, lib.Run(h, &spoiled), wrong)
				}
				short := call
				short.DeviceBytes--
				assert.Equal(t, cusolver.StatusInvalidWorkspace, lib.Run(h, &short))
				noHost := call
				noHost.Routine, noHost.Vector, noHost.DeviceBytes = cusolver.Syevd, call.A.At, 256
				assert.Equal(t, cusolver.StatusInvalidWorkspace, lib.Run(h, &noHost))
				noHost.Host, noHost.HostBytes = unsafe.Pointer(new([8]byte)), 8
				assert.Equal(t, cusolver.StatusInvalidWorkspace, lib.Run(h, &noHost))
				if c.freed {
					require.Equal(t, driver.Success, gpu.MemFree(call.A.At))
				}
				c.spoil(&call)
				assert.Equal(t, cusolver.StatusSuccess, lib.Run(h, &call), "as on hardware: the fault comes later")
				assert.True(t, gpu.StreamSynchronize(s).Sticky())
				return nil
			}))
			require.NotEmpty(t, gpu.Findings())
			assert.Contains(t, gpu.Findings()[0].Detail, c.want)
		})
	}
}

// After a loss nothing is submitted any more, and the error has the first cause.
func TestAfterALoss(t *testing.T) {
	gpu := drivertest.New(config())
	defer gpu.Close()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	ctx, err := rt.Context(0)
	require.NoError(t, err)
	s, err := ctx.NewStream()
	require.NoError(t, err)
	h, err := cusolver.New(cusolvertest.New(gpu), s)
	require.NoError(t, err)
	x, err := runtime.UploadNew(bg, s, []float32{4, 0, 0, 9})
	require.NoError(t, err)
	m := cublas.Dense(x, 2, 2)
	pending, err := cusolver.Cholesky(h, cublas.Lower, m)
	require.NoError(t, err)
	gpu.Fail("cuMemsetD8Async", 1, driver.ResultIllegalAddress)
	require.Error(t, runtime.Zero(s, x))
	assert.ErrorIs(t, pending.Wait(bg), driver.ErrDeviceLost)
	_, err = cusolver.Cholesky(h, cublas.Lower, m)
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	assert.ErrorIs(t, err, driver.ResultIllegalAddress)
	assert.NoError(t, h.Close())
}

// Matrices of several tiles are turned around with all that lies in between left as it is.
func TestSeveralTiles(t *testing.T) {
	conform(t, func(t *testing.T, b bench) {
		b.TB = t
		r := rand.New(rand.NewPCG(9, 9))
		all[float32](b, r, 70, 33)
		all[float64](b, r, 33, 65)
	})
}

// A 0 on the diagonal gives infinities, and no fault.
func TestSolvingASingularSystem(t *testing.T) {
	b, _, _ := simulated(t)
	a, x, pivots := placeAs[float64](b, diagonal(1, 0), true, 0, 0), placeAs[float64](b, diagonal(1, 1), false, 0, 0), upload(b, make([]int64, 2))
	r, err := cusolver.LU(b.h, a.Matrix, pivots)
	require.NoError(t, err)
	done(b)(cusolver.LUSolve(b.h, a.Matrix, pivots, x.Matrix))
	assert.True(t, math.IsInf(x.is(b).At(1, 1), 1))
	assert.ErrorIs(t, r.Wait(bg), cusolver.ErrSingular)
}
