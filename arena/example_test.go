package arena_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// A Go slice goes to the device and comes back. Workers and page-locked memory are shared
// by all copiers of a process.
func ExampleCopier() {
	gpu := drivertest.New(drivertest.Config{})
	defer gpu.Close()
	gpu.Init(0)
	primary, _ := gpu.DevicePrimaryCtxRetain(0)
	binding := &driver.Binding{API: gpu, Context: primary}
	workers := arena.NewWorkers(0)
	defer workers.Close()
	pinned := arena.NewPinned(binding, arena.PinnedConfig{})
	defer pinned.Close()
	copier := arena.NewCopier(binding, workers, pinned, nil)
	defer copier.Close()

	data := bytes.Repeat([]byte("gopher"), 1<<20)
	back := make([]byte, len(data))
	var stream driver.Stream
	var memory driver.DevicePtr
	err := binding.Do(func() error {
		var r driver.Result
		if stream, r = binding.API.StreamCreate(driver.StreamNonBlocking); r != driver.Success {
			return binding.Failed("cuStreamCreate", r)
		}
		memory, r = binding.API.MemAlloc(uint64(len(data)))
		return binding.Failed("cuMemAlloc", r)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := copier.Upload(ctx, stream, memory, data); err != nil {
		fmt.Println(err)
		return
	}
	if err := copier.Download(ctx, stream, back, memory); err != nil { // behind the upload
		fmt.Println(err)
		return
	}
	fmt.Println(len(back), bytes.Equal(data, back))
	// Output: 6291456 true
}
