package curandtest

import (
	"math"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/curand/internal/philox"
)

// launched is a call as its kernel gets it.
type launched struct {
	curand.Call
	State        driver.DevicePtr
	Seed, Offset uint64
}

// seeds is the kernel that sets up a state.
const seeds = "curandGenerateSeeds"

// Kernels are the kernels of the simulated cuRAND, for drivertest.Config.
func Kernels() map[string]drivertest.KernelFunc {
	all := map[string]drivertest.KernelFunc{seeds: func(k *drivertest.Launch) error {
		c, s, err := arguments(k)
		if err == nil {
			s.Reset(c.Seed, c.Offset)
		}
		return err
	}}
	for d, f := range map[curand.Distribution]drivertest.KernelFunc{
		curand.Uint32:  kernel(func(s *philox.State, to []uint32, _ *launched) { s.Uint32(to) }),
		curand.Uniform: kernel(func(s *philox.State, to []float32, _ *launched) { s.Uniform(to) }),
		curand.Normal:  kernel(func(s *philox.State, to []float32, c *launched) { s.Normal(to, float32(c.A), float32(c.B)) }),
		curand.LogNormal: kernel(func(s *philox.State, to []float32, c *launched) {
			s.LogNormal(to, float32(c.A), float32(c.B))
		}),
		curand.UniformDouble:   kernel(func(s *philox.State, to []float64, _ *launched) { s.UniformDouble(to) }),
		curand.NormalDouble:    kernel(func(s *philox.State, to []float64, c *launched) { s.NormalDouble(to, c.A, c.B) }),
		curand.LogNormalDouble: kernel(func(s *philox.State, to []float64, c *launched) { s.LogNormalDouble(to, c.A, c.B) }),
		curand.Poisson: kernel(func(s *philox.State, to []uint32, c *launched) {
			s.Uint32(to)
			for i, x := range to {
				to[i] = poisson((float64(x)+0.5)*0x1p-32, c.A)
			}
		}),
	} {
		all[d.String()] = f
	}
	return all
}

// kernel reaches the memory of a call and fills it.
func kernel[T uint32 | float32 | float64](fill func(s *philox.State, to []T, c *launched)) drivertest.KernelFunc {
	return func(k *drivertest.Launch) error {
		c, s, err := arguments(k)
		if err != nil {
			return err
		}
		to, err := drivertest.Slice[T](k, c.To, c.N)
		if err == nil {
			fill(s, to, c)
		}
		return err
	}
}

// arguments are the call, and the state of its generator.
func arguments(k *drivertest.Launch) (*launched, *philox.State, error) {
	c := drivertest.Param[launched](k, 0)
	s, err := drivertest.Slice[philox.State](k, c.State, 1)
	if err != nil {
		return nil, nil, err
	}
	return &c, &s[0], nil
}

// poisson is the number of a Poisson distribution that a uniform number stands for. The numbers of cuRAND are others.
func poisson(u, lambda float64) uint32 {
	if lambda > 500 { // close to a normal distribution
		return uint32(max(math.Round(lambda+math.Sqrt(2*lambda)*math.Erfinv(2*u-1)), 0))
	}
	n, p := uint32(0), math.Exp(-lambda)
	for sum := p; sum < u && p > 0; sum += p {
		n++
		p *= lambda / float64(n)
	}
	return n
}
