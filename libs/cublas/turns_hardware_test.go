package cublas_test

import (
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/internal/beside"
	"github.com/purecuda/purecuda/runtime"
)

// BenchmarkHardwareTurns is a small product in C, by the library, and by a handle.
func BenchmarkHardwareTurns(b *testing.B) {
	lib := real(b)
	bench := on(b, hardware.Open(b), lib, cublas.Options{})
	m := dense[float32](b, bench.s, 64*64)
	workspace, err := runtime.Alloc[byte](bench.s, 32<<20)
	require.NoError(b, err)
	defer workspace.Close()
	var raw cublas.RawHandle
	h, err := bench.s.Context().NewLibraryHandle("cublasCreate", func() (func() error, error) {
		var status cublas.Status
		raw, status = lib.Create()
		require.Equal(b, cublas.StatusSuccess, status)
		require.Equal(b, cublas.StatusSuccess, lib.SetStream(raw, bench.s.Handle(), workspace.Core().Ptr(), workspace.Bytes()))
		return func() error { lib.Destroy(raw); return nil }, nil
	})
	require.NoError(b, err)
	defer h.Close()
	const n, float32Type, compute32, algorithm = 64, 0, 68, 1<<32 - 1 // CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT
	scalars := &[2]float32{1, 0}
	call := cublas.GemmCall{M: n, N: n, K: n, Alpha: 1, Batch: 1, Compute: cublas.Compute32}
	for i, o := range []*cublas.Operand{&call.A, &call.B, &call.C} {
		*o = cublas.Operand{At: m[i].Core().Ptr(), LD: n}
	}
	at := func(i int) uint64 { return uint64(m[i].Core().Ptr()) }
	x, y, z := cublas.Dense(m[0], n, n), cublas.Dense(m[1], n, n), cublas.Dense(m[2], n, n)
	function, words := "cublasGemmEx", []uint64{uint64(raw), 0, 0, n, n, n, beside.Address(&scalars[0]),
		at(0), float32Type, n, at(1), float32Type, n, beside.Address(&scalars[1]), at(2), float32Type, n, compute32, algorithm}
	library := func() error {
		if status := lib.Gemm(raw, &call); status != cublas.StatusSuccess {
			return status
		}
		return nil
	}
	sides := []beside.Side{beside.Repeat("library", library), beside.Repeat("handle", func() error { return cublas.Gemm(bench.h, 1, x, y, 0, z) })}
	beside.Turns(b, bench.s, lib.Path(), function, words, sides...)
	goruntime.KeepAlive(scalars)
}
