package clamp

import (
	"context"
	_ "embed"

	"github.com/purecuda/purecuda/runtime"
)

//go:embed clamp.ptx
var ptx []byte

// Clamp moves every element of x into [low, high], on the best device of the runtime.
func Clamp(ctx context.Context, rt *runtime.Runtime, x []float32, low, high float32) error {
	return clamp(ctx, rt, ptx, x, low, high)
}

func clamp(ctx context.Context, rt *runtime.Runtime, ptx []byte, x []float32, low, high float32) error {
	backend, err := rt.Probe("clamp")
	if err != nil {
		return err
	}
	c, s := backend.Context, backend.Stream
	module, err := c.LoadModule(runtime.Image{Code: ptx})
	if err != nil {
		return err
	}
	defer module.Close()
	kernel, err := module.Kernel("clamp")
	if err != nil {
		return err
	}
	device, err := runtime.Alloc[float32](s, len(x))
	if err != nil {
		return err
	}
	defer device.Close()
	if err := runtime.Upload(ctx, s, device, x); err != nil {
		return err
	}
	err = kernel.Launch(s, runtime.Shape1D(len(x), 256),
		runtime.InOut(device), runtime.Value(uint64(len(x))), runtime.Value(low), runtime.Value(high))
	if err != nil {
		return err
	}
	return runtime.Download(ctx, s, x, device)
}
