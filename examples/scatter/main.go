// Scatter computes 3x + 1 over all GPUs of the machine, and over all cores where there are
// none.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

func main() {
	rt, err := runtime.Open() // no GPU is no error; a broken one is
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	x := make([]float32, 10_000_000)
	for i := range x {
		x[i] = float32(i)
	}
	y, report, err := compute(context.Background(), rt, x)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Where, y[:4], report.Wall) // [1 4 7 10]
	if report.Err != nil {
		fmt.Println("not on a GPU:", report.Err)
	}
	for _, t := range report.Tiles {
		on := "a core"
		if t.Device != driver.NoDevice {
			on = fmt.Sprintf("device %d", t.Device)
		}
		fmt.Printf("%s: items %8d to %8d in %v\n", on, t.Lo, t.Hi, t.Time())
	}
}

// compute keeps nothing; a service would open its pool once.
func compute(ctx context.Context, rt *runtime.Runtime, x []float32) (y []float32, report pool.Report, err error) {
	p, err := pool.Open(rt, pool.Options{Setup: []pool.Setup{saxpy}})
	if err != nil {
		return nil, report, err
	}
	defer p.Close()
	y = make([]float32, len(x))
	report, err = pool.Map(ctx, p, x, y, onGPU, pool.MapOptions[float32, float32]{
		Fallback: onCPU,
		Retry:    1, // a piece that fails is repeated on another device
	})
	return y, report, err
}

// saxpy is loaded once for each device, and the pool closes it.
var saxpy = pool.PerDevice(kernels.Load[kernels.Saxpy])

// onGPU does one piece on the device of the worker.
func onGPU(w *pool.Worker, x, y []float32) error {
	s := w.Stream()
	var scope runtime.Scope
	defer scope.Close()
	w.Phase(pool.Upload)
	dx := runtime.Keep(runtime.UploadNew(w.CallContext(), s, x))(&scope)
	dy := runtime.Keep(runtime.Alloc[float32](s, len(y)))(&scope)
	if err := scope.Err(); err != nil {
		return err
	}
	w.Phase(pool.Compute)
	if err := runtime.Fill(s, dy, 1); err != nil {
		return err
	}
	if err := saxpy.Of(w).Launch(s, 3, dx, dy); err != nil {
		return err
	}
	w.Phase(pool.Download)
	return runtime.Download(w.CallContext(), s, y, dy)
}

// onCPU does one piece on a core.
func onCPU(_ context.Context, x, y []float32) error {
	for i := range y {
		y[i] = 1
	}
	return kernels.SaxpyCPU(3, x, y)
}
