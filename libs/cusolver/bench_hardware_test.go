package cusolver_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/runtime"
)

// How long cuSOLVER takes for 4096 x 4096, for comparison with the same calls from C or PyTorch. Each run starts with a
// copy of the matrix, which is in the time.
func BenchmarkHardwareCholesky4096(b *testing.B) {
	b.Run("float32", func(b *testing.B) { benchmarkCholesky[float32](b, 4096) })
	b.Run("float64", func(b *testing.B) { benchmarkCholesky[float64](b, 4096) })
}

func BenchmarkHardwareSVD4096(b *testing.B) {
	b.Run("float32", func(b *testing.B) { benchmarkSVD[float32](b, 4096) })
	b.Run("float64", func(b *testing.B) { benchmarkSVD[float64](b, 4096) })
}

// benchmark runs f on copies of a random matrix with a strong diagonal.
func benchmark[T cublas.Real](t *testing.B, n int, f func(b bench, a cublas.Matrix[T]) (*cusolver.Result, error)) {
	b := real(t)
	r := rand.New(rand.NewPCG(1, 1))
	host := make([]T, n*n)
	for i := range n {
		for j := range i {
			host[i*n+j] = T(r.Float64())
			host[j*n+i] = host[i*n+j]
		}
		host[i*n+i] = T(n)
	}
	original, a := upload(b, host), upload(b, host)
	for t.Loop() {
		require.NoError(t, runtime.Copy(b.s, a, original))
		done(b)(f(b, cublas.Dense(a, n, n)))
	}
}

func benchmarkCholesky[T cublas.Real](t *testing.B, n int) {
	benchmark(t, n, func(b bench, a cublas.Matrix[T]) (*cusolver.Result, error) {
		return cusolver.Cholesky(b.h, cublas.Lower, a)
	})
}

func benchmarkSVD[T cublas.Real](t *testing.B, n int) {
	var u, vt cublas.Matrix[T]
	var s *runtime.Ref[T]
	benchmark(t, n, func(b bench, a cublas.Matrix[T]) (*cusolver.Result, error) {
		if s == nil {
			u, vt, s = cublas.Dense(upload(b, make([]T, n*n)), n, n), cublas.Dense(upload(b, make([]T, n*n)), n, n), upload(b, make([]T, n))
		}
		return cusolver.SVD(b.h, a, u, s, vt)
	})
}
