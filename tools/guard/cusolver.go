package main

import (
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/cusolvertest"
	"github.com/purecuda/purecuda/runtime"
)

func init() {
	addKernels(cusolvertest.Kernels())
	suites = append(suites, func(m *machine) *suite {
		api, path, failed := openCUSOLVER(m)
		var (
			h           *cusolver.Handle
			s           *runtime.Stream
			original, a *runtime.Ref[float32]
			order       = 4096
		)
		if m.simulated != nil {
			order = 16
		}
		return librarySuite(m, "cusolver", path, func(l *launcher, c *closers) (err error) {
			if failed != nil {
				return failed
			}
			s = l.stream
			for _, ref := range []**runtime.Ref[float32]{&original, &a} {
				if *ref, err = dense[float32](l, c, order*order); err != nil {
					return err
				}
			}
			matrix := make([]float32, order*order)
			for i := range order {
				matrix[i*order+i] = float32(order)
			}
			if err := runtime.Upload(bg, s, original, matrix); err != nil {
				return err
			}
			handle, err := cusolver.New(api, s)
			h, err = opened(c, handle, err)
			return err
		}, []libraryCall{{"cholesky4096-lower/float32", 1, true, func() error {
			if err := runtime.Copy(s, a, original); err != nil {
				return err
			}
			result, err := cusolver.Cholesky(h, cublas.Upper, cublas.Dense(a, order, order))
			if err != nil {
				return err
			}
			return result.Wait(bg)
		}}})
	})
}

func openCUSOLVER(m *machine) (cusolver.API, string, error) {
	if m.simulated != nil {
		return cusolvertest.New(m.simulated), "", nil
	}
	lib, err := cusolver.Open()
	if err != nil {
		return nil, "", err
	}
	return lib, lib.Path(), nil
}
