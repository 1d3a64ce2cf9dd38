package cufft_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/cmplx"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/libs/cufft/cuffttest"
	"github.com/purecuda/purecuda/runtime"
)

// spectrum transforms a signal, and back again.
func spectrum(ctx context.Context, api cufft.API, s *runtime.Stream, signal []float32) (spectrum []complex64, same []float32, err error) {
	h, err := cufft.New(api, s, cufft.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer h.Close()
	x, err := runtime.UploadNew(ctx, s, signal)
	if err != nil {
		return nil, nil, err
	}
	defer x.Close()
	y, err := runtime.Alloc[complex64](s, len(signal)/2+1) // the other half are the conjugates
	if err != nil {
		return nil, nil, err
	}
	defer y.Close()
	shape := cufft.Shape{N: []int{len(signal)}}
	if err := cufft.R2C(h, shape, x, y); err != nil {
		return nil, nil, err
	}
	if spectrum, err = runtime.DownloadNew(ctx, s, y); err != nil {
		return nil, nil, err
	}
	shape.Scale = true // cuFFT does not: without it the signal comes back n times as large
	if err := cufft.C2R(h, shape, y, x); err != nil {
		return nil, nil, err
	}
	same, err = runtime.DownloadNew(ctx, s, x)
	return spectrum, same, err
}

// A program calls cufft.Open and runtime.Open without options. Here both are simulated.
func Example() {
	gpu := drivertest.New(drivertest.Config{Kernels: cuffttest.Kernels()})
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
	signal := make([]float32, 100) // a tone of 7 periods
	for i := range signal {
		signal[i] = float32(math.Cos(2 * math.Pi * 7 * float64(i) / 100))
	}
	y, same, err := spectrum(context.Background(), cuffttest.New(gpu), s, signal)
	if errors.Is(err, driver.ErrLibraryUnavailable) {
		fmt.Println("the CPU has to compute")
		return
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	for k, v := range y {
		if size := cmplx.Abs(complex128(v)); size > 1e-3 {
			fmt.Printf("frequency %d: %.1f\n", k, size)
		}
	}
	fmt.Printf("%.3f %.3f\n", signal[3], same[3])
	// Output:
	// frequency 7: 50.0
	// 0.249 0.249
}
