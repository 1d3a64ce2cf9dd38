package main

import (
	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/curand/curandtest"
	"github.com/purecuda/purecuda/runtime"
)

func init() {
	addKernels(curandtest.Kernels())
	suites = append(suites, func(m *machine) *suite {
		api, path, failed := openCURAND(m)
		var (
			g        *curand.Generator
			few, all *runtime.Ref[float32]
			many     = 1 << 26
		)
		if m.simulated != nil {
			many = 1 << 10
		}
		return librarySuite(m, "curand", path, func(l *launcher, c *closers) (err error) {
			if failed != nil {
				return failed
			}
			if all, err = dense[float32](l, c, many); err != nil {
				return err
			}
			few = all.Slice(0, 1<<10)
			c.later(few.Close)
			generator, err := curand.New(api, l.stream, curand.Options{Seed: 1234})
			g, err = opened(c, generator, err)
			return err
		}, []libraryCall{
			{"small", 512, false, func() error { return g.Uniform(few) }},
			{"uniform2^26", 8, true, func() error { return g.Uniform(all) }},
			{"normal2^26", 8, true, func() error { return g.Normal(all, 0, 1) }},
		})
	})
}

func openCURAND(m *machine) (curand.API, string, error) {
	if m.simulated != nil {
		return curandtest.New(m.simulated), "", nil
	}
	lib, err := curand.Open()
	if err != nil {
		return nil, "", err
	}
	return lib, lib.Path(), nil
}
