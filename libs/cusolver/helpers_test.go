package cusolver_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/cusolvertest"
	"github.com/purecuda/purecuda/runtime"
)

var bg = context.Background()

// TestMain fails when the tests leave goroutines behind.
func TestMain(m *testing.M) { leaks.Main(m, 0) }

// bench is what a test computes with.
type bench struct {
	testing.TB
	s    *runtime.Stream
	h    *cusolver.Handle
	blas *cublas.Handle
}

// on opens a runtime and handles.
func on(t testing.TB, gpu driver.API, api cusolver.API, blas cublas.API) bench {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	h, err := cusolver.New(api, s)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	b, err := cublas.New(blas, s, cublas.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.Close()) })
	return bench{t, s, h, b}
}

// config has the kernels of both libraries.
func config() drivertest.Config {
	c := drivertest.Config{Kernels: cusolvertest.Kernels()}
	for name, f := range cublastest.Kernels() {
		c.Kernels[name] = f
	}
	return c
}

// simulated opens handles on the simulated libraries.
func simulated(t testing.TB) (bench, *drivertest.Driver, *cusolvertest.Library) {
	gpu := drivertest.ForTest(t, config())
	lib := cusolvertest.New(gpu)
	t.Cleanup(func() { assert.Zero(t, lib.Left(), "handles") })
	return on(t, gpu, lib, cublastest.New(gpu)), gpu, lib
}

// conform runs a test on the simulated library and on the real one.
func conform(t *testing.T, f func(t *testing.T, b bench)) {
	t.Run("simulated", func(t *testing.T) {
		b, _, _ := simulated(t)
		f(t, b)
	})
	t.Run("hardware", func(t *testing.T) { f(t, real(t)) })
}

// real opens handles on the GPU and the libraries of this machine. Without them the test is skipped.
func real(t testing.TB) bench {
	t.Helper()
	gpu := hardware.Open(t)
	lib, err := cusolver.Open()
	if errors.Is(err, driver.ErrLibraryUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	blas, err := cublas.Open()
	if errors.Is(err, driver.ErrLibraryUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return on(t, gpu, lib, blas)
}

// epsilon is the distance from 1 to the next number of a type.
func epsilon[T cublas.Real]() float64 {
	if _, ok := any(*new(T)).(float64); ok {
		return 0x1p-52
	}
	return 0x1p-23
}

// operand is a matrix on the device, and what its memory was.
type operand[T cublas.Real] struct {
	cublas.Matrix[T]
	host       []T
	transposed bool
}

// place puts a matrix somewhere in memory, by rows or transposed. What does not belong to it is NaN, which spoils what reads it.
func place[T cublas.Real](b bench, r *rand.Rand, m mat.Matrix) operand[T] {
	return placeAs[T](b, m, r.IntN(2) == 0, r.IntN(5), r.IntN(5)*r.IntN(2))
}

func placeAs[T cublas.Real](b bench, m mat.Matrix, transposed bool, offset, gap int) operand[T] {
	b.Helper()
	rows, cols := m.Dims()
	view := cublas.Matrix[T]{Offset: offset, Rows: rows, Cols: cols, Stride: max(cols+gap, 1)}
	if transposed {
		view = cublas.Matrix[T]{Offset: offset, Rows: cols, Cols: rows, Stride: max(rows+gap, 1)}
	}
	o := operand[T]{view, make([]T, offset+view.Rows*view.Stride+1), transposed}
	for i := range o.host {
		o.host[i] = T(math.NaN())
	}
	for i := range rows {
		for j := range cols {
			o.host[o.index(i, j)] = T(m.At(i, j))
		}
	}
	o.Ref = upload(b, o.host)
	if transposed {
		o.Matrix = o.T()
	}
	return o
}

func upload[T any](b bench, host []T) *runtime.Ref[T] {
	b.Helper()
	ref, err := runtime.UploadNew(bg, b.s, host)
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, ref.Close()) })
	return ref
}

// index is the place of an element.
func (o operand[T]) index(i, j int) int {
	if o.transposed {
		i, j = j, i
	}
	return o.Offset + i*o.Stride + j
}

// was is the matrix as it was.
func (o operand[T]) was() *mat.Dense { return o.dense(o.host) }

func (o operand[T]) dense(host []T) *mat.Dense {
	if o.Rows == 0 || o.Cols == 0 {
		return new(mat.Dense)
	}
	m := mat.NewDense(o.Rows, o.Cols, nil)
	m.Apply(func(i, j int, _ float64) float64 { return float64(host[o.index(i, j)]) }, m)
	return m
}

// is reads the matrix. What lies around it must be as it was.
func (o operand[T]) is(b bench) *mat.Dense {
	b.Helper()
	got, err := runtime.DownloadNew(bg, b.s, o.Ref)
	require.NoError(b, err)
	inside := map[int]bool{}
	for i := range o.Rows {
		for j := range o.Cols {
			inside[o.index(i, j)] = true
		}
	}
	for i, x := range got {
		if !inside[i] && !math.IsNaN(float64(x)) {
			b.Fatalf("element %d of the memory is %v: it does not belong to the matrix", i, x)
		}
	}
	return o.dense(got)
}

// random is a matrix of numbers from -1 to 1.
func random(r *rand.Rand, rows, cols int) *mat.Dense {
	if rows == 0 || cols == 0 {
		return new(mat.Dense)
	}
	m := mat.NewDense(rows, cols, nil)
	m.Apply(func(int, int, float64) float64 { return float64(float32(2*r.Float64() - 1)) }, m)
	return m
}

// near compares matrices, within a tolerance for numbers of size 1.
func near(b bench, want, got mat.Matrix, tolerance float64, what string) {
	b.Helper()
	rows, cols := want.Dims()
	gotRows, gotCols := got.Dims()
	require.Equal(b, []int{rows, cols}, []int{gotRows, gotCols}, what)
	for i := range rows {
		for j := range cols {
			w, g := want.At(i, j), got.At(i, j)
			if !(math.Abs(w-g) <= tolerance) {
				b.Fatalf("%s: element %d, %d of %d x %d is %v: want %v within %v", what, i, j, rows, cols, g, w, tolerance)
			}
		}
	}
}

// times is the product of matrices.
func times(factors ...mat.Matrix) *mat.Dense {
	product := mat.DenseCopyOf(factors[0])
	for _, f := range factors[1:] {
		var next mat.Dense
		next.Mul(product, f)
		product = &next
	}
	return product
}

// part is the matrix with zeros where keep does not hold.
func part(m mat.Matrix, keep func(i, j int) bool) *mat.Dense {
	out := mat.DenseCopyOf(m)
	out.Apply(func(i, j int, v float64) float64 {
		if keep(i, j) {
			return v
		}
		return 0
	}, out)
	return out
}

func identity(n int) *mat.Dense {
	m := mat.NewDense(n, n, nil)
	for i := range n {
		m.Set(i, i, 1)
	}
	return m
}

// within tells whether an element is of a triangle.
func within(fill cublas.Fill, i, j int) bool {
	return i == j || i > j == (fill == cublas.Lower)
}

// numbers reads a Ref.
func numbers[T any](b bench, ref *runtime.Ref[T]) []T {
	b.Helper()
	got, err := runtime.DownloadNew(bg, b.s, ref)
	require.NoError(b, err)
	return got
}

// done fails unless a call and its result are right.
func done(b bench) func(r *cusolver.Result, err error) {
	return func(r *cusolver.Result, err error) {
		b.Helper()
		require.NoError(b, err)
		require.NoError(b, r.Wait(bg))
	}
}
