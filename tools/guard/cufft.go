package main

import (
	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/libs/cufft/cuffttest"
	"github.com/purecuda/purecuda/runtime"
)

func init() {
	addKernels(cuffttest.Kernels())
	suites = append(suites, func(m *machine) *suite {
		api, path, failed := openCUFFT(m)
		var (
			h       *cufft.Handle
			in, out *runtime.Ref[complex64]
			largest = 1 << 24
		)
		if m.simulated != nil {
			largest = 64
		}
		transform := func(n, times int) func() error {
			shape := cufft.Shape{N: []int{min(n, largest)}, Batch: min(times, largest/min(n, largest))}
			return func() error { return cufft.C2C(h, cufft.Forward, shape, in, out) }
		}
		return librarySuite(m, "cufft", path, func(l *launcher, c *closers) (err error) {
			if failed != nil {
				return failed
			}
			if in, err = dense[complex64](l, c, largest); err != nil {
				return err
			}
			if out, err = dense[complex64](l, c, largest); err != nil {
				return err
			}
			handle, err := cufft.New(api, l.stream, cufft.Options{})
			h, err = opened(c, handle, err)
			return err
		}, []libraryCall{
			{"small", 512, false, transform(64, 1)},
			{"c2c-1x16777216", 8, true, transform(1<<24, 1)},
			{"c2c-1024x4096", 64, true, transform(4096, 1024)},
		})
	})
}

func openCUFFT(m *machine) (cufft.API, string, error) {
	if m.simulated != nil {
		return cuffttest.New(m.simulated), "", nil
	}
	lib, err := cufft.Open()
	if err != nil {
		return nil, "", err
	}
	return lib, lib.Path(), nil
}
