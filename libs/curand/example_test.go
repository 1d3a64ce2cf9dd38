package curand_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/curand/curandtest"
	"github.com/purecuda/purecuda/runtime"
)

// numbers makes n uniform numbers, on the device if there is a cuRAND. On the CPU they are the same.
func numbers(ctx context.Context, api curand.API, s *runtime.Stream, n int) ([]float32, error) {
	o := curand.Options{Seed: 1234}
	g, err := curand.New(api, s, o)
	if err != nil {
		cpu, cpuErr := curand.NewCPU(o)
		if cpuErr != nil {
			return nil, errors.Join(err, cpuErr)
		}
		host := make([]float32, n)
		cpu.Uniform(host)
		return host, nil
	}
	defer g.Close()
	device, err := runtime.Alloc[float32](s, n)
	if err != nil {
		return nil, err
	}
	defer device.Close()
	if err := g.Uniform(device); err != nil {
		return nil, err
	}
	return runtime.DownloadNew(ctx, s, device)
}

// A program calls curand.Open and runtime.Open without options. Here both are simulated, and the second library has
// no memory left.
func Example() {
	gpu := drivertest.New(drivertest.Config{Kernels: curandtest.Kernels()})
	defer gpu.Close()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	c, err := rt.Context(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := c.NewStream()
	if err != nil {
		fmt.Println(err)
		return
	}
	full := curandtest.New(gpu)
	full.Fail("Create", curand.StatusAllocationFailed)
	for _, api := range []curand.API{curandtest.New(gpu), full} {
		x, err := numbers(context.Background(), api, s, 4)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(x)
	}
	// Output:
	// [0.12720795 0.85346895 0.26564887 0.79605526]
	// [0.12720795 0.85346895 0.26564887 0.79605526]
}
