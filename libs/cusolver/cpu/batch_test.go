package cpu_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/cpu"
	"github.com/purecuda/purecuda/libs/cusolver/cusolvertest"
	"github.com/purecuda/purecuda/runtime"
)

var bg = context.Background()

// TestMain fails when the tests leave goroutines behind.
func TestMain(m *testing.M) { leaks.Main(m, 0) }

// pair is the same matrices on the CPU and on a simulated device.
type pair[T cublas.Real] struct {
	cpu    cpu.Batch[T]
	device cublas.Batch[T]
}

type bench struct {
	testing.TB
	s *runtime.Stream
	h *cusolver.Handle
}

func open(t *testing.T) bench {
	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cusolvertest.Kernels()})
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	h, err := cusolver.New(cusolvertest.New(gpu), s)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close()) })
	return bench{t, s, h}
}

func upload[T any](b bench, v []T) *runtime.Ref[T] {
	b.Helper()
	ref, err := runtime.UploadNew(bg, b.s, v)
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, ref.Close()) })
	return ref
}

// place makes matrices of numbers from -1 to 1, with more on the diagonal, by rows or transposed. What lies between them is NaN.
func place[T cublas.Real](b bench, r *rand.Rand, transposed bool, rows, cols, count int, diagonal float64, symmetric bool) (p pair[T]) {
	b.Helper()
	if transposed {
		rows, cols = cols, rows
	}
	stride := cols
	p.cpu = cpu.Batch[T]{Rows: rows, Cols: cols, Stride: stride, Count: count, Step: stride * rows}
	p.cpu.Data = make([]T, p.cpu.Step*count)
	for k := range count {
		for i := range rows {
			for j := range cols {
				v := 2*r.Float64() - 1
				if i == j {
					v += diagonal
				}
				if symmetric && j < i {
					v = float64(p.cpu.Data[k*p.cpu.Step+j*stride+i])
				}
				p.cpu.Data[k*p.cpu.Step+i*stride+j] = T(v)
			}
		}
	}
	p.device = cublas.Batch[T]{Matrix: cublas.Dense(upload(b, p.cpu.Data), rows, cols), Count: count, Step: p.cpu.Step}
	if transposed {
		p.cpu, p.device = p.cpu.T(), p.device.T()
	}
	return p
}

// same fails unless the memory of both is the same.
func (p pair[T]) same(b bench, what string) {
	b.Helper()
	sameNumbers(b, p.device.Ref, p.cpu.Data, what)
}

func sameNumbers[T any](b bench, ref *runtime.Ref[T], want []T, what string) {
	b.Helper()
	got, err := runtime.DownloadNew(bg, b.s, ref)
	require.NoError(b, err)
	require.Equal(b, want, got, what)
}

// Both leave the same numbers in the same places: the simulated cuSOLVER computes as the CPU does.
func TestSameAsOnTheDevice(t *testing.T) {
	b := open(t)
	seeds.Each(t, 20, func(t *testing.T, seed uint64) {
		b := bench{t, b.s, b.h}
		same[float32](b, rand.New(rand.NewPCG(seed, 1)))
		same[float64](b, rand.New(rand.NewPCG(seed, 2)))
	})
}

func same[T cublas.Real](b bench, r *rand.Rand) {
	both := func(onCPU error) func(result *cusolver.Result, err error) {
		return func(result *cusolver.Result, err error) {
			b.Helper()
			require.NoError(b, onCPU)
			require.NoError(b, err)
			require.NoError(b, result.Wait(bg))
		}
	}
	n, k, count, fill := 1+r.IntN(8), 1+r.IntN(3), 1+r.IntN(20), cublas.Fill(r.IntN(2))
	turned := func() bool { return r.IntN(2) == 0 }

	a, x := place[T](b, r, turned(), n, n, count, float64(n)+1, true), place[T](b, r, turned(), n, k, count, 0, false)
	both(cpu.CholeskyBatch(bg, fill, a.cpu))(cusolver.CholeskyBatch(b.h, fill, a.device))
	a.same(b, "the factors")
	both(cpu.CholeskySolveBatch(bg, fill, a.cpu, x.cpu))(cusolver.CholeskySolveBatch(b.h, fill, a.device, x.device))
	x.same(b, "the solutions")

	a, x = place[T](b, r, turned(), n, n, count, 3, false), place[T](b, r, turned(), n, k, count, 0, false)
	out := place[T](b, r, a.device.Transposed(), n, n, count, 0, false)
	pivots := make([]int32, n*count)
	onDevice := upload(b, pivots)
	both(cpu.LUBatch(bg, a.cpu, pivots))(cusolver.LUBatch(b.h, a.device, onDevice))
	a.same(b, "L and U")
	sameNumbers(b, onDevice, pivots, "the pivots")
	both(cpu.LUSolveBatch(bg, a.cpu, pivots, x.cpu))(cusolver.LUSolveBatch(b.h, a.device, onDevice, x.device))
	x.same(b, "the solutions")
	both(cpu.InverseBatch(bg, a.cpu, pivots, out.cpu))(cusolver.InverseBatch(b.h, a.device, onDevice, out.device))
	out.same(b, "the inverses")

	m := n + r.IntN(5)
	a, x = place[T](b, r, turned(), m, n, count, 3, false), place[T](b, r, turned(), m, k, count, 0, false)
	both(cpu.LeastSquaresBatch(bg, a.cpu, x.cpu))(cusolver.LeastSquaresBatch(b.h, a.device, x.device))
	x.same(b, "least squares")

	a = place[T](b, r, turned(), n, n, count, 0, true)
	values := make([]T, n*count)
	valuesOnDevice := upload(b, values)
	both(cpu.EigenBatch(bg, fill, true, a.cpu, values))(cusolver.EigenBatch(b.h, fill, true, a.device, valuesOnDevice))
	a.same(b, "the eigenvectors")
	sameNumbers(b, valuesOnDevice, values, "the eigenvalues")
}

func TestMatricesThatFail(t *testing.T) {
	a := cpu.Batch[float64]{Data: []float64{4, 0, 0, 4, 4, 0, 0, -1, 4, 0, 0, 4}, Rows: 2, Cols: 2, Stride: 2, Count: 3, Step: 4}
	err := cpu.CholeskyBatch(bg, cublas.Lower, a)
	batch, ok := errors.AsType[*cusolver.BatchError](err)
	require.True(t, ok, err)
	assert.Equal(t, []int{1}, batch.Matrices)
	assert.ErrorIs(t, err, cusolver.ErrNotPositiveDefinite)
	assert.Equal(t, []float64{2, 0, 0, 2}, a.Data[8:], "the others are right")

	a.Data = make([]float64, 12)
	assert.ErrorIs(t, cpu.LUBatch(bg, a, make([]int32, 6)), cusolver.ErrSingular)
	a.Data[3] = math.NaN()
	assert.NotPanics(t, func() { _ = cpu.EigenBatch(bg, cublas.Lower, true, a, make([]float64, 6)) })
}

func TestWrongUse(t *testing.T) {
	data, pivots := make([]float64, 64), []int32{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 9}
	batch := func(rows, cols, count, step int) cpu.Batch[float64] {
		return cpu.Batch[float64]{Data: data, Rows: rows, Cols: cols, Stride: cols, Count: count, Step: step}
	}
	a := batch(4, 4, 4, 16)
	x := cpu.Batch[float64]{Data: make([]float64, 16), Rows: 4, Cols: 1, Stride: 1, Count: 4, Step: 4}
	var none context.Context
	narrow := a
	narrow.Stride = 3
	for text, err := range map[string]error{
		"fill 7":                     cpu.CholeskyBatch(bg, 7, a),
		"are 4 x 3: want":            cpu.CholeskyBatch(bg, 0, batch(4, 3, 4, 16)),
		"want none below 0":          cpu.CholeskyBatch(bg, 0, batch(4, 4, -1, 16)),
		"-4 x -4":                    cpu.LUSolveBatch(bg, batch(-4, -4, 4, 16), pivots, x),
		"a stride of 3":              cpu.CholeskyBatch(bg, 0, narrow),
		"too large for its memory":   cpu.CholeskyBatch(bg, 0, batch(4, 4, 5, 16)),
		"and 64 elements":            cpu.CholeskyBatch(bg, 0, batch(4, 4, math.MaxInt, 16)),
		"too large":                  cpu.CholeskyBatch(bg, 0, batch(math.MaxInt32, math.MaxInt32, 1, 0)),
		"elements apart and span 16": cpu.CholeskyBatch(bg, 0, batch(4, 4, 4, 15)),
		"with as many rows":          cpu.CholeskySolveBatch(bg, 0, a, batch(4, 1, 3, 4)),
		"the call writes b":          cpu.CholeskySolveBatch(bg, 0, a, batch(4, 1, 4, 16)),
		"want 4 for each of 4":       cpu.LUBatch(bg, a, pivots[:15]),
		"pivots[15] is 9":            cpu.LUSolveBatch(bg, a, pivots, x),
		"both by rows or both":       cpu.InverseBatch(bg, a, slices.Repeat([]int32{1}, 16), a.T()),
		"at least as many rows":      cpu.LeastSquaresBatch(bg, batch(3, 4, 4, 12), cpu.Batch[float64]{Data: x.Data, Rows: 3, Cols: 1, Stride: 1, Count: 4, Step: 4}),
		"values has 15 elements":     cpu.EigenBatch(bg, 0, true, a, x.Data[:15]),
		"a context that is not nil":  cpu.CholeskyBatch(none, 0, a),
	} {
		require.ErrorIs(t, err, driver.ErrInvalidArgument, text)
		assert.ErrorContains(t, err, text)
	}
	assert.NoError(t, cpu.CholeskyBatch(bg, 0, cpu.Batch[float32]{}))
	assert.NoError(t, cpu.CholeskyBatch(bg, 0, batch(4, 4, 0, 16)))
	assert.NoError(t, cpu.EigenBatch(bg, 0, true, batch(0, 0, 4, 0), nil))
	ended, end := context.WithCancelCause(bg)
	end(errors.New("it is over"))
	assert.ErrorContains(t, cpu.CholeskyBatch(ended, 0, a), "it is over")
	assert.ErrorContains(t, cpu.CholeskyBatch(ended, 0, batch(4, 4, 0, 16)), "it is over")
}
