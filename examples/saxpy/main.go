// Saxpy computes y = 2x + y on a GPU if there is one, and on the CPU if not.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

func main() {
	x, y := []float32{1, 2, 3, 4}, []float32{10, 20, 30, 40}
	where := "GPU"
	backend, err := runtime.Probe("saxpy")
	if err == nil {
		err = onGPU(backend, x, y)
	}
	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		log.Print("not on a GPU: ", err)
		where, err = "CPU", kernels.SaxpyCPU(2, x, y)
	}
	if err != nil {
		log.Fatal(err) // CUDA is there and broken: say so
	}
	fmt.Println(where, y) // [12 24 36 48]
}

func onGPU(backend *runtime.Backend, x, y []float32) error {
	ctx, s := context.Background(), backend.Stream
	var scope runtime.Scope
	defer scope.Close()
	saxpy := runtime.Keep(kernels.Load[kernels.Saxpy](backend.Context))(&scope)
	dx := runtime.Keep(runtime.UploadNew(ctx, s, x))(&scope)
	dy := runtime.Keep(runtime.UploadNew(ctx, s, y))(&scope)
	if err := scope.Err(); err != nil {
		return err
	}
	if err := saxpy.Launch(s, 2, dx, dy); err != nil {
		return err
	}
	return runtime.Download(ctx, s, y, dy)
}
