package nvrtc_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
)

func ExampleOpen() {
	lib, err := nvrtc.Open("/nonexistent/libnvrtc.so.13")
	if errors.Is(err, driver.ErrUnsupported) {
		fmt.Println("no NVRTC: use the PTX that the program ships")
		return
	}
	if err != nil {
		log.Fatal(err) // NVRTC is there and broken: say so
	}
	fmt.Println(lib.Path())
	// Output: no NVRTC: use the PTX that the program ships
}

// In a program, api is what nvrtc.Open returns. This one is simulated, so that the example
// runs without NVRTC.
func ExampleCompiler() {
	const source = `template <class T> __global__ void scale(T *x) { *x *= 2; }`
	api := nvrtctest.New(nvrtctest.Config{})
	api.Add(source, ".version 7.8\n.target sm_90\n.address_size 64\n")
	dir, err := os.MkdirTemp("", "cache")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	compiler, err := nvrtc.NewCompiler(api, nvrtc.Config{CacheDir: dir})
	if err != nil {
		log.Fatal(err)
	}
	target, err := compiler.TargetFor(90, 13000) // compute capability 9.0, driver 13.0
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		image, err := compiler.Compile(context.Background(), nvrtc.Program{
			Source:          source,
			NameExpressions: []string{"scale<float>"},
		}, target)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(image.Kind, image.Target, image.LoweredNames["scale<float>"], "cached:", image.Cached)
	}
	// Output:
	// cubin sm_90 scalefloat cached: false
	// cubin sm_90 scalefloat cached: true
}

func ExampleCompile_error() {
	const source = "__global__ void k() {\n  oops();\n}\n"
	api := nvrtctest.New(nvrtctest.Config{})
	api.AddFailure(source, nvrtc.ResultCompilation, `k.cu(2): error: identifier "oops" is undefined`)
	_, err := nvrtc.Compile(context.Background(), api, nvrtc.Program{Source: source, Name: "k.cu"}, nvrtc.Target{Kind: nvrtc.PTX, Arch: 75})
	var e *driver.Error
	if errors.As(err, &e) {
		fmt.Println(e.Log)
	}
	// Output:
	// k.cu(2): error: identifier "oops" is undefined
	//
	// k.cu:2: error: identifier "oops" is undefined
	//      1 | __global__ void k() {
	// >    2 |   oops();
	//      3 | }
	//      4 |
}
