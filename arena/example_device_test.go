package arena_test

import (
	"fmt"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// A program allocates and frees in the order of a stream.
func ExampleDevice() {
	gpu := drivertest.New(drivertest.Config{})
	defer gpu.Close()
	gpu.Init(0)
	context, _ := gpu.DevicePrimaryCtxRetain(0)
	binding := &driver.Binding{API: gpu, Context: context}
	memory, err := arena.NewDevice(binding, arena.DeviceConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer memory.Close()
	var handle driver.Stream
	err = binding.Do(func() error {
		var r driver.Result
		handle, r = binding.API.StreamCreate(driver.StreamNonBlocking)
		return binding.Failed("cuStreamCreate", r)
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	stream := memory.NewStream(handle)
	for range 3 {
		block, err := stream.Alloc(100_000)
		if err != nil {
			fmt.Println(err)
			return
		}
		binding.MemsetD8Async(block.Ptr(), 1, block.Bytes(), stream.Handle())
		if err := stream.Free(block); err != nil {
			fmt.Println(err)
			return
		}
	}
	stats := memory.Stats()
	fmt.Println(stats.Hits, "hits,", stats.Misses, "miss,", stats.Cached, "bytes cached")
	// Output: 2 hits, 1 miss, 106496 bytes cached
}
