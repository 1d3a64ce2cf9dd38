package cublas_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/runtime"
)

var bg = context.Background()

// TestMain fails when the tests leave goroutines behind.
func TestMain(m *testing.M) { leaks.Main(m, 0) }

// bench is what a test computes with.
type bench struct {
	testing.TB
	api cublas.API
	s   *runtime.Stream
	h   *cublas.Handle
}

// on opens a runtime and a handle.
func on(t testing.TB, gpu driver.API, api cublas.API, o cublas.Options) bench {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	h, err := cublas.New(api, s, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	return bench{t, api, s, h}
}

// simulated opens a handle on the simulated library.
func simulated(t testing.TB) (bench, *drivertest.Driver, *cublastest.Library) {
	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cublastest.Kernels()})
	lib := cublastest.New(gpu)
	t.Cleanup(func() {
		handles, plans := lib.Left()
		assert.Zero(t, handles, "handles")
		assert.Zero(t, plans, "plans")
	})
	return on(t, gpu, lib, cublas.Options{}), gpu, lib
}

// conform runs a test on the simulated library and on the real one.
func conform(t *testing.T, o cublas.Options, f func(t *testing.T, b bench)) {
	t.Run("simulated", func(t *testing.T) {
		gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cublastest.Kernels()})
		f(t, on(t, gpu, cublastest.New(gpu), o))
	})
	t.Run("hardware", func(t *testing.T) {
		gpu := hardware.Open(t)
		f(t, on(t, gpu, real(t), o))
	})
}

// real is the cuBLAS of this machine. With a GPU and without it the test is skipped.
func real(t testing.TB) *cublas.Library {
	t.Helper()
	lib, err := cublas.Open()
	if errors.Is(err, driver.ErrLibraryUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return lib
}

// to and from convert elements.
func to[T cublas.Stored](x float64) T {
	var out T
	switch p := any(&out).(type) {
	case *float32:
		*p = float32(x)
	case *float64:
		*p = x
	case *gpu.Float16:
		*p = gpu.ToFloat16(float32(x))
	case *gpu.BFloat16:
		*p = gpu.ToBFloat16(float32(x))
	case *cublas.Float8E4M3:
		*p = cublas.ToFloat8E4M3(float32(x))
	case *cublas.Float8E5M2:
		*p = cublas.ToFloat8E5M2(float32(x))
	}
	return out
}

func from[T cublas.Stored](x T) float64 {
	switch v := any(x).(type) {
	case float32:
		return float64(v)
	case float64:
		return v
	case interface{ Float32() float32 }:
		return float64(v.Float32())
	}
	panic("no element")
}

// epsilon is the distance from 1 to the next number of a type.
func epsilon[T cublas.Stored]() float64 {
	var zero T
	switch any(zero).(type) {
	case float64:
		return 0x1p-52
	case float32:
		return 0x1p-23
	case gpu.Float16:
		return 0x1p-10
	case gpu.BFloat16:
		return 0x1p-7
	}
	return 0x1p-2
}

// operand is a matrix on the device and on the host.
type operand[T cublas.Stored] struct {
	cublas.Matrix[T]
	host []T
}

// number is one that all types have.
func number(r *rand.Rand) float64 { return float64(r.IntN(7)-3) / 2 }

// random makes a matrix of random numbers, somewhere in its memory, by rows or transposed. What does not belong to it
// is NaN, which spoils what reads it.
func random[T cublas.Stored](b bench, r *rand.Rand, rows, cols int) operand[T] {
	return randomAs[T](b, r, rows, cols, r.IntN(2) == 0, r.IntN(5), r.IntN(5))
}

func randomAs[T cublas.Stored](b bench, r *rand.Rand, rows, cols int, transposed bool, offset, gap int) operand[T] {
	b.Helper()
	n, m := rows, cols
	if transposed {
		n, m = cols, rows
	}
	view := cublas.Matrix[T]{Offset: offset, Rows: n, Cols: m, Stride: max(m+gap, 1)}
	host := make([]T, offset+n*view.Stride+1)
	for i := range host {
		host[i] = to[T](math.NaN())
	}
	for i := range n {
		for j := range m {
			host[offset+i*view.Stride+j] = to[T](number(r))
		}
	}
	ref, err := runtime.UploadNew(bg, b.s, host)
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, ref.Close()) })
	view.Ref = ref
	if transposed {
		view = view.T()
	}
	return operand[T]{view, host}
}

// index is the place of an element.
func (o operand[T]) index(i, j int) int {
	if o.T().Stride != o.Stride {
		panic("views have one stride")
	}
	if o.isTransposed() {
		i, j = j, i
	}
	return o.Offset + i*o.Stride + j
}

// isTransposed asks a Slice, which moves by what it leaves out.
func (o operand[T]) isTransposed() bool {
	return o.Rows > 0 && o.Slice(1, o.Rows, 0, o.Cols).Offset-o.Offset == 1 && o.Stride != 1 || o.Stride == 1 && o.Cols > 1
}

func (o operand[T]) at(i, j int) float64 { return from(o.host[o.index(i, j)]) }

// expect compares the device with what want computes of each element, within a tolerance. Elements that
// want does not compute, and what lies around the matrix, are as they were.
func (o operand[T]) expect(b bench, want func(i, j int) (value, tolerance float64, computed bool)) {
	b.Helper()
	got, err := runtime.DownloadNew(bg, b.s, o.Ref)
	require.NoError(b, err)
	rest := map[int]bool{}
	for i := range got {
		rest[i] = true
	}
	for i := range o.Rows {
		for j := range o.Cols {
			value, tolerance, computed := want(i, j)
			if !computed {
				continue
			}
			at := o.index(i, j)
			delete(rest, at)
			if v := from(got[at]); !(math.Abs(v-value) <= tolerance) {
				b.Fatalf("element %d, %d of %d x %d is %v: want %v within %v", i, j, o.Rows, o.Cols, v, value, tolerance)
			}
		}
	}
	for i := range rest {
		if was, is := from(o.host[i]), from(got[i]); was != is && !(math.IsNaN(was) && math.IsNaN(is)) {
			b.Fatalf("element %d of the memory was %v and is %v: it does not belong to the result", i, was, is)
		}
	}
}

// product is the triple loop: alpha*a*b + beta*c, with what rounding may add.
func product[T cublas.Stored, C cublas.Element](alpha float64, a, b operand[T], beta float64, c operand[C], sums float64) func(i, j int) (float64, float64, bool) {
	return func(i, j int) (float64, float64, bool) {
		sum, size := 0.0, 0.0
		for k := range a.Cols {
			x := a.at(i, k) * b.at(k, j)
			sum, size = sum+x, size+math.Abs(x)
		}
		value, bound := alpha*sum, math.Abs(alpha)*size
		if beta != 0 {
			value, bound = value+beta*c.at(i, j), bound+math.Abs(beta*c.at(i, j))
		}
		return value, bound*float64(a.Cols+2)*sums + math.Abs(value)*epsilon[C](), true
	}
}
