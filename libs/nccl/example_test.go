package nccl_test

import (
	"context"
	"fmt"
	"log"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/nccl"
	"github.com/purecuda/purecuda/libs/nccl/nccltest"
	"github.com/purecuda/purecuda/runtime"
)

// The gradients of four devices become their average, on each of them. Here the devices are simulated; on a machine with
// GPUs the library comes from nccl.Open, and the runtime from runtime.Open().
func Example() {
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(4, drivertest.H100()), Kernels: nccltest.Kernels()})
	defer gpu.Close()
	if err := averages(gpu, nccltest.New(gpu)); err != nil {
		log.Fatal(err)
	}
	// Output:
	// rank 0: [1.5 3]
	// rank 1: [1.5 3]
	// rank 2: [1.5 3]
	// rank 3: [1.5 3]
}

func averages(gpu *drivertest.Driver, lib nccl.API) error {
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	if err != nil {
		return err
	}
	defer rt.Close()
	ctx := context.Background()
	var streams []*runtime.Stream
	var gradients []*runtime.Ref[float32]
	for i := range rt.Devices() {
		c, err := rt.Context(i)
		if err != nil {
			return err
		}
		s, err := c.NewStream()
		if err != nil {
			return err
		}
		g, err := runtime.UploadNew(ctx, s, []float32{float32(i), float32(2 * i)})
		if err != nil {
			return err
		}
		streams, gradients = append(streams, s), append(gradients, g)
	}
	c, err := nccl.All(lib, streams, nccl.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Do(ctx, nccl.AllReduce(nccl.Avg, gradients, gradients)); err != nil {
		return err
	}
	for i, g := range gradients {
		x, err := runtime.DownloadNew(ctx, streams[i], g)
		if err != nil {
			return err
		}
		fmt.Printf("rank %d: %v\n", i, x)
	}
	return c.Wait(ctx)
}
