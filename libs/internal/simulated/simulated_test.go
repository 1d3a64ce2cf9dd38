package simulated_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cublas/cublastest"
	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/libs/cufft/cuffttest"
	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/curand/curandtest"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/cusolvertest"
	"github.com/purecuda/purecuda/libs/nccl"
	"github.com/purecuda/purecuda/libs/nccl/nccltest"
	"github.com/purecuda/purecuda/runtime"
)

// A simulated library on a driver without its kernels would compute nothing. It says so, and what to pass.
func TestWithoutKernels(t *testing.T) {
	for name, open := range map[string]func(gpu driver.API, s *runtime.Stream) error{
		"cublastest": func(gpu driver.API, s *runtime.Stream) error {
			_, err := cublas.New(cublastest.New(gpu), s, cublas.Options{})
			return err
		},
		"cuffttest": func(gpu driver.API, s *runtime.Stream) error {
			h, err := cufft.New(cuffttest.New(gpu), s, cufft.Options{})
			require.NoError(t, err)
			defer func() { assert.NoError(t, h.Close()) }()
			return h.Prepare(cufft.TypeC2C, cufft.Shape{N: []int{8}})
		},
		"curandtest": func(gpu driver.API, s *runtime.Stream) error {
			_, err := curand.New(curandtest.New(gpu), s, curand.Options{})
			return err
		},
		"cusolvertest": func(gpu driver.API, s *runtime.Stream) error {
			_, err := cusolver.New(cusolvertest.New(gpu), s)
			return err
		},
		"nccltest": func(gpu driver.API, s *runtime.Stream) error {
			_, err := nccl.All(nccltest.New(gpu), []*runtime.Stream{s}, nccl.Options{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.New(drivertest.Config{Kernels: map[string]drivertest.KernelFunc{}})
			defer func() { assert.NoError(t, gpu.Close()) }()
			rt, err := runtime.Open(runtime.WithDriver(gpu))
			require.NoError(t, err)
			defer func() { assert.NoError(t, rt.Close()) }()
			c, err := rt.Context(0)
			require.NoError(t, err)
			s, err := c.NewStream()
			require.NoError(t, err)
			err = open(gpu, s)
			assert.ErrorContains(t, err, "drivertest.Config{Kernels: "+name+".Kernels()}")
			assert.ErrorIs(t, err, driver.ErrDriverCallFailed)
			assert.Empty(t, gpu.Findings())
		})
	}
}
