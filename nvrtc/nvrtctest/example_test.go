package nvrtctest_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
	"github.com/purecuda/purecuda/runtime"
)

// A test of code that compiles kernels needs neither NVRTC nor a GPU: it says what the
// source compiles to, and the simulated driver runs that. A source that was not added does
// not compile.
func Example() {
	const source = `extern "C" __global__ void nothing() {}`
	sim := nvrtctest.New(nvrtctest.Config{})
	sim.Add(source, ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n")
	compiler, err := nvrtc.NewCompiler(sim, nvrtc.Config{CacheDir: "off"})
	if err != nil {
		fmt.Println(err)
		return
	}
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithCompiler(compiler),
		runtime.WithDriver(drivertest.New(drivertest.Config{})))
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

	for range 2 { // the second one finds the module loaded
		module, err := backend.Context.Compile(context.Background(), nvrtc.Program{Source: source})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer module.Close()
		kernel, err := module.Kernel("nothing")
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(kernel.Name(), kernel.Launch(backend.Stream, runtime.Shape1D(1, 32)))
	}
	fmt.Println(len(sim.Compiles()), "compile")
	_, err = backend.Context.Compile(context.Background(), nvrtc.Program{Source: "oops"})
	fmt.Println(errors.Is(err, driver.ErrKernelCompileFailed))
	// Output:
	// nothing <nil>
	// nothing <nil>
	// 1 compile
	// true
}
