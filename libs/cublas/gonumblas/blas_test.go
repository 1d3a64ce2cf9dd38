package gonumblas_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/blas/testblas"
	"gonum.org/v1/gonum/mat"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/libs/cublas/gonumblas"
	"github.com/purecuda/purecuda/runtime"
)

// TestMain fails when the tests leave goroutines behind.
func TestMain(m *testing.M) { leaks.Main(m, 0) }

func on(t testing.TB, gpu driver.API, api cublas.API, o gonumblas.Options) (*gonumblas.BLAS, *runtime.Context) {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	c, err := rt.Context(0)
	require.NoError(t, err)
	b := gonumblas.New(c, api, o)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return b, c
}

func simulated(t testing.TB, o gonumblas.Options) (*gonumblas.BLAS, *runtime.Context, *cublastest.Library) {
	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cublastest.Kernels()})
	lib := cublastest.New(gpu)
	b, c := on(t, gpu, lib, o)
	return b, c, lib
}

// gonum's own tests pass on the CPU, on the simulated library and on hardware, with everything on the GPU.
func TestGonumsOwnTests(t *testing.T) {
	always := gonumblas.Options{BreakEven: 1, OnError: func(err error) { t.Error(err) }}
	for name, make := range map[string]func(t *testing.T) (b *gonumblas.BLAS, onGPU bool){
		"CPU":       func(*testing.T) (*gonumblas.BLAS, bool) { return gonumblas.New(nil, nil, always), false },
		"simulated": func(t *testing.T) (*gonumblas.BLAS, bool) { b, _, _ := simulated(t, always); return b, true },
		"hardware": func(t *testing.T) (*gonumblas.BLAS, bool) {
			gpu := hardware.Open(t)
			lib, err := cublas.Open()
			if errors.Is(err, driver.ErrLibraryUnavailable) {
				t.Skip(err)
			}
			require.NoError(t, err)
			b, _ := on(t, gpu, lib, always)
			return b, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, onGPU := make(t)
			for routine, test := range map[string]func(t *testing.T){
				"Dgemm":  func(t *testing.T) { testblas.TestDgemm(t, b) },
				"Dsyrk":  func(t *testing.T) { testblas.DsyrkTest(t, b) },
				"Dtrsm":  func(t *testing.T) { testblas.DtrsmTest(t, b) },
				"Dsymm":  func(t *testing.T) { testblas.DsymmTest(t, b) },
				"Dsyr2k": func(t *testing.T) { testblas.Dsyr2kTest(t, b) },
				"Dtrmm":  func(t *testing.T) { testblas.DtrmmTest(t, b) },
				"Dgemv":  func(t *testing.T) { testblas.DgemvTest(t, b) },
				"Dger":   func(t *testing.T) { testblas.DgerTest(t, b) },
				"Dtrsv":  func(t *testing.T) { testblas.DtrsvTest(t, b) },
				"Dsymv":  func(t *testing.T) { testblas.DsymvTest(t, b) },
				"Ddot":   func(t *testing.T) { testblas.DdotTest(t, b) },
				"Dnrm2":  func(t *testing.T) { testblas.Dnrm2Test(t, b) },
				"Daxpy":  func(t *testing.T) { testblas.DaxpyTest(t, b) },
				"Dscal":  func(t *testing.T) { testblas.DscalTest(t, b) },
			} {
				t.Run(routine, test)
			}
			assert.Equal(t, onGPU, b.OnGPU() > 100, "%d calls ran on the GPU", b.OnGPU())
		})
	}
}

// The routines of float32 give what gonum gives.
func TestFloat32(t *testing.T) {
	b, _, _ := simulated(t, gonumblas.Options{BreakEven: 1})
	var cpu gonum.Implementation
	r := rand.New(rand.NewPCG(1, 2))
	values := func(n int) []float32 {
		all := make([]float32, n)
		for i := range all {
			all[i] = float32(r.IntN(9)-4) / 4
		}
		return all
	}
	compare := func(name string, f func(impl blas.Float32Level3, c []float32), c []float32) {
		t.Helper()
		got, want := append([]float32(nil), c...), append([]float32(nil), c...)
		before := b.OnGPU()
		f(b, got)
		f(cpu, want)
		assert.InDeltaSlice(t, want, got, 1e-4, name)
		assert.Equal(t, before+1, b.OnGPU(), name)
	}
	both := []blas.Transpose{blas.NoTrans, blas.Trans}
	for _, tA := range both {
		for _, tB := range both {
			a, y := values(200), values(200)
			compare("Sgemm", func(impl blas.Float32Level3, c []float32) { impl.Sgemm(tA, tB, 7, 8, 9, 2, a, 11, y, 12, -1, c, 10) }, values(80))
		}
		for _, ul := range []blas.Uplo{blas.Lower, blas.Upper} {
			a := values(200)
			compare("Ssyrk", func(impl blas.Float32Level3, c []float32) { impl.Ssyrk(ul, tA, 7, 8, 2, a, 11, 0, c, 10) }, values(80))
			for i := range 11 {
				a[12*i] = 8
			}
			for _, s := range []blas.Side{blas.Left, blas.Right} {
				compare("Strsm", func(impl blas.Float32Level3, c []float32) { impl.Strsm(s, ul, tA, blas.NonUnit, 7, 8, 2, a, 11, c, 10) }, values(80))
			}
		}
	}
}

func TestBreakEven(t *testing.T) {
	b, _, _ := simulated(t, gonumblas.Options{BreakEven: 10})
	c := make([]float64, 400)
	for _, s := range []struct {
		m, n, k int
		gpu     bool
	}{{10, 10, 10, true}, {10, 10, 9, false}, {1, 100, 10, true}, {20, 20, 2, false}, {0, 100, 100, false}} {
		before := b.OnGPU()
		x := make([]float64, 20_000)
		b.Dgemm(blas.NoTrans, blas.NoTrans, s.m, s.n, s.k, 1, x, max(s.k, 1), x, s.n, 0, append(c, x...), s.n)
		assert.Equal(t, s.gpu, b.OnGPU() > before, "%v", s)
	}
	assert.Panics(t, func() { b.Dgemm('x', blas.NoTrans, 100, 100, 100, 1, nil, 100, nil, 100, 0, nil, 100) }, "as gonum does")
	assert.Panics(t, func() { b.Dgemm(blas.NoTrans, blas.NoTrans, 100, 100, 100, 1, c, 100, c, 100, 0, c, 100) }, "short slices, as gonum does")
}

// What the GPU cannot compute the CPU computes, and somebody hears of it.
func TestTheCPUTakesOver(t *testing.T) {
	var mu sync.Mutex
	var heard []error
	b, c, lib := simulated(t, gonumblas.Options{BreakEven: 1, OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, err)
	}})
	product := func() []float64 {
		z := []float64{1, 1, 1, 1}
		b.Dgemm(blas.NoTrans, blas.NoTrans, 2, 2, 2, 1, []float64{1, 2, 3, 4}, 2, []float64{5, 6, 7, 8}, 2, 1, z, 2)
		return z
	}
	want := []float64{20, 23, 44, 51}
	assert.Equal(t, want, product())
	assert.NoError(t, b.Err())
	for _, c := range []struct {
		method string
		status cublas.Status
	}{{"Gemm", cublas.StatusInternalError}, {"Create", cublas.StatusNotInitialized}} {
		lib.Fail(c.method, c.status)
		assert.Equal(t, want, product(), "a result that was added to is right as well")
		assert.ErrorIs(t, b.Err(), c.status)
	}
	assert.Len(t, heard, 2)
	lib.Fail("Gemm", cublas.StatusSuccess)
	lib.Fail("Create", cublas.StatusSuccess)
	before := b.OnGPU()
	assert.Equal(t, want, product())
	require.NoError(t, c.Reset(t.Context()))
	assert.Equal(t, want, product(), "on the CPU: the handle was of the old context")
	assert.Equal(t, want, product(), "and on the GPU again")
	assert.Equal(t, before+2, b.OnGPU())

	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	assert.Equal(t, want, product())
	assert.Equal(t, before+2, b.OnGPU())
	handles, _ := lib.Left()
	assert.Zero(t, handles)
}

// gonum calls from many goroutines.
func TestConcurrentCalls(t *testing.T) {
	b, _, _ := simulated(t, gonumblas.Options{BreakEven: 1})
	blas64.Use(b)
	defer blas64.Use(gonum.Implementation{})
	r := rand.New(rand.NewPCG(3, 4))
	a := mat.NewDense(20, 20, nil)
	for i := range 20 {
		for j := range 20 {
			a.Set(i, j, r.Float64())
		}
		a.Set(i, i, 30)
	}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			var inverse, one mat.Dense
			if assert.NoError(t, inverse.Inverse(a)) {
				one.Mul(a, &inverse)
				assert.True(t, mat.EqualApprox(mat.NewDiagDense(20, ones(20)), &one, 1e-12))
			}
		})
	}
	wg.Wait()
	assert.NoError(t, b.Err())
	assert.Positive(t, b.OnGPU())
}

func ones(n int) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = 1
	}
	return all
}

// Without a driver or a library gonum computes, with the same results.
func TestWithoutADriver(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{InitResult: driver.ResultNoDevice})
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	for _, rt := range []*runtime.Runtime{rt, nil} {
		b, err := gonumblas.Open(rt, gonumblas.Options{BreakEven: 1})
		require.Error(t, err)
		z := make([]float64, 1)
		b.Dgemm(blas.NoTrans, blas.NoTrans, 1, 1, 2, 1, []float64{2, 3}, 2, []float64{4, 5}, 1, 0, z, 1)
		assert.Equal(t, []float64{23}, z)
		assert.Zero(t, b.OnGPU())
		assert.NoError(t, b.Close())
	}
	for _, b := range []*gonumblas.BLAS{nil, {}} {
		assert.NoError(t, b.Close())
		assert.NoError(t, b.Err())
		assert.Zero(t, b.OnGPU())
	}
	z := make([]float64, 1)
	new(gonumblas.BLAS).Dgemm(blas.NoTrans, blas.NoTrans, 1, 1, 1, 1, []float64{2}, 1, []float64{3}, 1, 0, z, 1)
	assert.Equal(t, []float64{6}, z, "the zero value computes on the CPU")
	gpu = drivertest.ForTest(t, drivertest.Config{})
	there, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer there.Close()
	t.Setenv(cublas.PathVariable, "/nonexistent/libcublas.so.12")
	_, err = gonumblas.Open(there, gonumblas.Options{})
	assert.ErrorIs(t, err, driver.ErrLibraryUnavailable)
}
