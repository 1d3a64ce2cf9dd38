package cusolver_test

import (
	"fmt"
	"math"
	goruntime "runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/internal/beside"
	"github.com/purecuda/purecuda/runtime"
)

// inC is what the calls cost in C, by name: in all, and on the device. It runs once.
var inC = sync.OnceValues(func() (map[string][2]float64, error) {
	lib, err := cusolver.Open()
	if err != nil {
		return nil, err
	}
	return beside.Run("cusolver", lib.Path())
})

// How long cuSOLVER takes for 4096 x 4096, beside the same calls in C. Each run starts with a copy of the matrix, which is in
// the time. device-ns/op is the time between two events around the call alone. lower and upper are the triangles of the memory
// by columns: by rows they are the other ones.

func BenchmarkHardwareCholesky4096(b *testing.B) {
	b.Run("float32", benchmarkCholesky[float32])
	b.Run("float64", benchmarkCholesky[float64])
}

func BenchmarkHardwareSVD4096(b *testing.B) {
	b.Run("float32", benchmarkSVD[float32])
	b.Run("float64", benchmarkSVD[float64])
}

const order = 4096

// call is what is measured.
type call[T cublas.Real] func(a cublas.Matrix[T]) (*cusolver.Result, error)

// benchmark runs what prepare returns on copies of a random matrix with a strong diagonal, and reports what C takes for the call
// of that name.
func benchmark[T cublas.Real](t *testing.B, name string, prepare func(b bench) call[T]) {
	t.Run("impl=go", func(t *testing.B) {
		b := real(t)
		host, x := make([]T, order*order), uint64(1)
		for i := range order {
			for j := range i + 1 {
				x = x*6364136223846793005 + 1442695040888963407
				v := T(x>>40) / (1 << 24)
				if i == j {
					v = order
				}
				host[i*order+j], host[j*order+i] = v, v
			}
		}
		f, original, a := prepare(b), upload(b, host), upload(b, host)
		start, err := b.s.Context().NewTimingEvent()
		require.NoError(t, err)
		end, err := b.s.Context().NewTimingEvent()
		require.NoError(t, err)
		run := func() time.Duration {
			require.NoError(t, runtime.Copy(b.s, a, original))
			require.NoError(t, start.Record(b.s))
			result, err := f(cublas.Dense(a, order, order))
			require.NoError(t, err)
			require.NoError(t, end.Record(b.s))
			require.NoError(t, result.Wait(bg))
			took, err := end.Since(start)
			require.NoError(t, err)
			return took
		}
		run() // which loads kernels
		var device time.Duration
		for t.Loop() {
			device += run()
		}
		t.ReportMetric(float64(device.Nanoseconds())/float64(t.N), "device-ns/op")
	})
	t.Run("impl=c", func(t *testing.B) {
		reportC(t, fmt.Sprintf("%s/float%d", name, 8*unsafe.Sizeof(*new(T))))
	})
}

// reportC reports what C takes for the call of a name.
func reportC(t *testing.B, name string) {
	times, err := inC()
	ns, known := times[name]
	if !known {
		fmt.Printf("--- SKIP: %s: not measured in C: %v\n", t.Name(), err)
		t.SkipNow()
	}
	t.ReportMetric(ns[0], "ns/op")
	t.ReportMetric(ns[1], "device-ns/op")
}

func benchmarkCholesky[T cublas.Real](t *testing.B) {
	for _, c := range []struct {
		name string
		rows cublas.Fill
		from int
		inC  string
	}{{"lower", cublas.Upper, math.MaxInt, "lower"}, {"upper", cublas.Lower, math.MaxInt, "upper"}, {"turned", cublas.Lower, 1, "lower"}} {
		t.Run(c.name, func(t *testing.B) {
			defer func(n int) { *cusolver.TurnedFrom = n }(*cusolver.TurnedFrom)
			*cusolver.TurnedFrom = c.from
			benchmark(t, "cholesky4096-"+c.inC, func(b bench) call[T] {
				return func(a cublas.Matrix[T]) (*cusolver.Result, error) { return cusolver.Cholesky(b.h, c.rows, a) }
			})
		})
	}
}

func benchmarkSVD[T cublas.Real](t *testing.B) {
	benchmark(t, "svd4096", func(b bench) call[T] {
		square := func() cublas.Matrix[T] { return cublas.Dense(upload(b, make([]T, order*order)), order, order) }
		u, vt, s := square(), square(), upload(b, make([]T, order))
		return func(a cublas.Matrix[T]) (*cusolver.Result, error) { return cusolver.SVD(b.h, a, u, s, vt) }
	})
}

// BenchmarkHardwareBatch factors 100,000 matrices of float64 and solves for a column each, beside C and beside gonum on all cores.
func BenchmarkHardwareBatch(b *testing.B) {
	for _, n := range []int{16, 32} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) { benchmarkBatch(b, n) })
	}
}

func benchmarkBatch(t *testing.B, n int) {
	const count = 100_000
	host, columns := make([]float64, count*n*n), count*n
	for i := range host {
		host[i] = 1 / float64(1+i/n%n+i%n)
		if i/n%n == i%n {
			host[i] = float64(n)
		}
	}
	t.Run("impl=go", func(t *testing.B) {
		b := real(t)
		original, a := upload(b, host), upload(b, host)
		right, x := upload(b, host[:columns]), upload(b, host[:columns])
		start, err := b.s.Context().NewTimingEvent()
		require.NoError(t, err)
		end, err := b.s.Context().NewTimingEvent()
		require.NoError(t, err)
		var results [2]*cusolver.Result
		run := func() time.Duration {
			require.NoError(t, runtime.Copy(b.s, a, original))
			require.NoError(t, runtime.Copy(b.s, x, right))
			require.NoError(t, start.Record(b.s))
			matrices := cublas.Batch[float64]{Matrix: cublas.Dense(a, n, n), Count: count, Step: n * n}
			solutions := cublas.Batch[float64]{Matrix: cublas.Dense(x, n, 1), Count: count, Step: n}
			var err error
			results[0], err = cusolver.CholeskyBatch(b.h, cublas.Upper, matrices)
			require.NoError(t, err)
			results[1], err = cusolver.CholeskySolveBatch(b.h, cublas.Upper, matrices, solutions)
			require.NoError(t, err)
			require.NoError(t, end.Record(b.s))
			require.NoError(t, b.s.Synchronize(bg))
			took, err := end.Since(start)
			require.NoError(t, err)
			return took
		}
		wait := func() {
			for _, r := range results {
				require.NoError(t, r.Wait(bg))
			}
		}
		run() // which loads kernels
		wait()
		var device time.Duration
		t.ResetTimer()
		for range t.N {
			device += run()
			t.StopTimer() // C does not look either
			wait()
			t.StartTimer()
		}
		t.ReportMetric(float64(device.Nanoseconds())/float64(t.N), "device-ns/op")
	})
	t.Run("impl=c", func(t *testing.B) { reportC(t, fmt.Sprintf("batch%d/float64", n)) })
	t.Run("impl=gonum", func(t *testing.B) {
		cores := goruntime.GOMAXPROCS(0)
		for t.Loop() {
			var all sync.WaitGroup
			for core := range cores {
				all.Go(func() {
					a, x := make([]float64, n*n), make([]float64, n)
					for i := core; i < count; i += cores {
						copy(a, host[i*n*n:])
						copy(x, host[i*n:])
						lapack64.Potrf(blas64.Symmetric{N: n, Data: a, Stride: n, Uplo: blas.Upper})
						lapack64.Potrs(blas64.Triangular{N: n, Data: a, Stride: n, Uplo: blas.Upper, Diag: blas.NonUnit},
							blas64.General{Rows: n, Cols: 1, Stride: 1, Data: x})
					}
				})
			}
			all.Wait()
		}
	})
}
