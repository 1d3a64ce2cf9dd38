package main

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/runtime"
)

func init() {
	addKernels(cublastest.Kernels())
	suites = append(suites, func(m *machine) *suite {
		api, path, failed := openCUBLAS(m)
		var (
			h        *cublas.Handle
			f32      [3]*runtime.Ref[float32]
			bf16     [3]*runtime.Ref[gpu.BFloat16]
			big, mid = 8192, 4096
		)
		if m.simulated != nil {
			big, mid = 16, 16
		}
		square := func(i, n int) cublas.Matrix[float32] { return cublas.Dense(f32[i], n, n) }
		batch := func(i int) cublas.Batch[float32] {
			return cublas.Batch[float32]{Matrix: square(i, mid/8), Count: 64, Step: mid / 8 * mid / 8}
		}
		gemm := func(n int) func() error {
			return func() error { return cublas.Gemm(h, 1, square(0, n), square(1, n), 0, square(2, n)) }
		}
		return librarySuite(m, "cublas", path, func(l *launcher, c *closers) (err error) {
			if failed != nil {
				return failed
			}
			for i := range 3 {
				if f32[i], err = dense[float32](l, c, max(mid, 64)*max(mid, 64)); err != nil {
					return err
				}
				if bf16[i], err = dense[gpu.BFloat16](l, c, big*big); err != nil {
					return err
				}
			}
			handle, err := cublas.New(api, l.stream, cublas.Options{})
			h, err = opened(c, handle, err)
			return err
		}, []libraryCall{
			{"small", 512, false, gemm(64)},
			{"sgemm4096", 8, true, gemm(mid)},
			{"bf16-8192", 8, true, func() error {
				at := func(i int) cublas.Matrix[gpu.BFloat16] { return cublas.Dense(bf16[i], big, big) }
				return cublas.Gemm(h, 1, at(0), at(1), 0, at(2))
			}},
			{"batch64x512", 8, true, func() error { return cublas.GemmBatch(h, 1, batch(0), batch(1), 0, batch(2)) }},
		})
	})
}

func openCUBLAS(m *machine) (cublas.API, string, error) {
	if m.simulated != nil {
		return cublastest.New(m.simulated), "", nil
	}
	lib, err := cublas.Open()
	if err != nil {
		return nil, "", err
	}
	return lib, lib.Path(), nil
}
