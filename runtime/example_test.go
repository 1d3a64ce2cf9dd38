package runtime_test

import (
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// Programs leave WithDriver out and get the driver of the machine. This one runs
// anywhere.
func ExampleOpen() {
	gpus := drivertest.New(drivertest.Config{
		Devices: []drivertest.DeviceConfig{drivertest.T4(), drivertest.A100()},
	})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpus))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	fmt.Println(rt.Outcome(), rt.Version())
	for _, d := range rt.Devices() {
		fmt.Printf("%v, %d multiprocessors, score %.0f\n", d, d.Multiprocessors, d.Score)
	}
	// Output:
	// available 13.0
	// 1: NVIDIA A100-SXM4-40GB (8.0), 108 multiprocessors, score 418
	// 0: Tesla T4 (7.5), 40 multiprocessors, score 104
}

// A module of a program asks for its backend and falls back to the CPU where there is
// none.
func ExampleRuntime_Probe() {
	total := func(rt *runtime.Runtime, x []float32) {
		backend, err := rt.Probe("total")
		switch {
		case err == nil:
			fmt.Println("on", backend.Device().Name)
		case errors.Is(err, driver.ErrDriverLibraryUnavailable):
			fmt.Println("on the CPU:", err.(*driver.Error).Detail)
		default:
			fmt.Println("there is a GPU, and it does not work:", err)
		}
	}
	for _, machine := range []drivertest.Config{
		{},
		{InitResult: driver.ResultNoDevice},
	} {
		rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.New(machine)))
		if err != nil {
			fmt.Println(err)
			return
		}
		total(rt, []float32{1, 2, 3})
		rt.Close()
	}
	// Output:
	// on NVIDIA H100 80GB HBM3
	// on the CPU: total backend: no CUDA runtime available
}

func ExampleKernel_Launch() {
	if err := launch(); err != nil {
		fmt.Println(err)
	}
	// Output: [11 12 13 14]
}

func launch() error {
	gpu := drivertest.New(drivertest.Config{})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(gpu))
	if err != nil {
		return err
	}
	defer rt.Close()
	backend, err := rt.Probe("example")
	if err != nil {
		return err
	}
	module, err := backend.Context.LoadModule(runtime.Image{Code: kernelsPTX})
	if err != nil {
		return err
	}
	add, err := module.Kernel("add") // add(uint32 *x, uint64 n, uint32 amount)
	if err != nil {
		return err
	}

	data := []uint32{1, 2, 3, 4}
	x, err := runtime.Alloc[uint32](backend.Stream, len(data))
	if err != nil {
		return err
	}
	defer x.Close()
	if err := runtime.Upload(bg, backend.Stream, x, data); err != nil {
		return err
	}
	shape := runtime.Shape1D(len(data), 128)
	err = add.Launch(backend.Stream, shape, runtime.InOut(x), runtime.Value(uint64(len(data))), runtime.Value(uint32(10)))
	if err != nil {
		return err
	}
	if err := runtime.Download(bg, backend.Stream, data, x); err != nil {
		return err
	}
	fmt.Println(data)
	return nil
}

// Launch checks the arguments against the kernel and the shape against the device, before
// the driver is called.
func ExampleKernel_Launch_checks() {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(drivertest.New(drivertest.Config{})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	backend, err := rt.Probe("example")
	if err != nil {
		fmt.Println(err)
		return
	}
	module, err := backend.Context.LoadModule(runtime.Image{Code: kernelsPTX})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer module.Close()
	_, err = module.Kernel("ad")
	fmt.Println(err)
	add, err := module.Kernel("add") // add(uint32 *x, uint64 n, uint32 amount)
	if err != nil {
		fmt.Println(err)
		return
	}
	s := backend.Stream
	x, err := runtime.Alloc[uint32](s, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer x.Close()
	n, amount := runtime.Value(uint64(1000)), runtime.Value(uint32(1))
	fmt.Println(add.Launch(s, runtime.Shape1D(1000, 256), runtime.InOut(x), n))
	fmt.Println(add.Launch(s, runtime.Shape1D(1000, 256), runtime.InOut(x), runtime.Value(uint32(1000)), amount))
	fmt.Println(add.Launch(s, runtime.Shape1D(1000, 2048), runtime.InOut(x), n, amount))
	tall := runtime.Shape{Grid: runtime.Dim3{X: 1, Y: 70_000}, Block: runtime.Dim3{X: 256}}
	fmt.Println(add.Launch(s, tall, runtime.InOut(x), n, amount))
	// Output:
	// InvalidArgument: the module has no kernel "ad"; a kernel in CUDA C needs extern "C" to keep its name [kernel ad]
	// InvalidArgument: kernel add takes 3 arguments of (8, 8, 4) bytes, got 2 of (8, 8) [device 0, kernel add]
	// InvalidArgument: kernel add takes 3 arguments of (8, 8, 4) bytes, got 3 of (8, 4, 4) [device 0, kernel add]
	// InvalidArgument: block 2048x1x1: the device takes at most 1024x1024x64 threads [device 0, kernel add]
	// InvalidArgument: grid 1x70000x1: the device takes at most 2147483647x65535x65535 blocks [device 0, kernel add]
}
