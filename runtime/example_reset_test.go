package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
	"github.com/purecuda/purecuda/runtime"
)

// A context is taken down and made again. What belonged to the old one is stale, and says so.
func ExampleContext_Reset() {
	rt, err := runtime.Open(runtime.WithDriver(drivertest.New(drivertest.Config{})))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	b, err := rt.Probe("example")
	if err != nil {
		fmt.Println(err)
		return
	}
	old, err := runtime.Alloc[float32](b.Stream, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer old.Close() // harmless after the reset

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := b.Context.Reset(ctx); err != nil {
		fmt.Println(err)
		return
	}

	_, err = old.Access()
	fmt.Println(err)
	b, err = rt.Probe("example") // a new stream, in the new context
	if err != nil {
		fmt.Println(err)
		return
	}
	fresh, err := runtime.Alloc[float32](b.Stream, 1000)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer fresh.Close()
	fmt.Println("generation", b.Context.Stats().Generation, "works:", runtime.Zero(b.Stream, fresh) == nil)
	// Output:
	// RefStale: context rebuilt [device 0]
	// generation 2 works: true
}

// A service hears that the device is lost, and goes on with the CPU.
func ExampleWithStateHook() {
	gpu := drivertest.New(drivertest.Config{})
	rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithStateHook(func(c refs.Change) {
		fmt.Printf("device %d: from %v to %v\n", c.Device, c.From, c.To)
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	b, err := rt.Probe("example")
	if err != nil {
		fmt.Println(err)
		return
	}
	gpu.Fail("cuStreamWriteValue64", 1, driver.ResultIllegalAddress) // what a kernel that goes astray leads to
	if err := b.Stream.Synchronize(context.Background()); errors.Is(err, driver.ErrDeviceLost) {
		fmt.Println("on the CPU from now on")
	}
	_, err = rt.Probe("example")
	fmt.Println(rt.Outcome(), errors.Is(err, driver.ResultIllegalAddress))
	// Output:
	// device 0: from accepting to lost
	// on the CPU from now on
	// fault true
	// device 0: from lost to closed
}
