package refs_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

// device is what package runtime makes for a program: an arena, a state and streams.
func device() (state *refs.State, streams []*arena.Stream) {
	gpu := drivertest.New(drivertest.Config{})
	gpu.Init(0)
	ctx, _ := gpu.DevicePrimaryCtxRetain(0)
	binding := &driver.Binding{API: gpu, Context: ctx}
	memory, err := arena.NewDevice(binding, arena.DeviceConfig{})
	if err != nil {
		panic(err)
	}
	for range 2 {
		_ = binding.Do(func() error {
			h, _ := gpu.StreamCreate(driver.StreamNonBlocking)
			streams = append(streams, memory.NewStream(h))
			return nil
		})
	}
	return refs.NewState(0, refs.StateConfig{}), streams
}

// A rebuild makes the Refs of the old context stale, and no others.
func ExampleState_Rebuild() {
	state, streams := device()
	old, _ := refs.New[float32](state, streams[0], 1000)

	state.Suspend()
	_, err := old.Access()
	fmt.Println(err)
	if err := state.Drain(context.Background()); err != nil { // until nobody has a lease
		fmt.Println(err)
	}
	// Here the arena and the context are taken down and made again.
	if err := state.Rebuild(); err != nil {
		fmt.Println(err)
	}
	_, err = old.Access()
	fmt.Println(err, errors.Is(err, driver.ErrRefStale))
	fresh, _ := refs.New[float32](state, streams[0], 1000)
	_, err = fresh.Access()
	fmt.Println(fresh.Core().Generation(), err)
	// Output:
	// RefStale: device shutting down [device 0]
	// RefStale: context rebuilt [device 0] true
	// 2 <nil>
}

// After a sticky error all that is asked shows the first cause.
func ExampleState_Lose() {
	_, streams := device()
	state := refs.NewState(0, refs.StateConfig{OnChange: func(c refs.Change) {
		fmt.Println(c.From, "->", c.To)
	}})
	r, _ := refs.New[float32](state, streams[0], 1000)
	state.Lose(driver.Failed("cuStreamSynchronize", driver.ResultIllegalAddress))
	_, err := r.Access()
	fmt.Println(errors.Is(err, driver.ErrDeviceLost), errors.Is(err, driver.ResultIllegalAddress))
	fmt.Println(r.Close())
	fmt.Println(state.Stats().Gone, "block gone with its context")
	// Output:
	// accepting -> lost
	// true true
	// <nil>
	// 1 block gone with its context
}

// Work on a stream is put there under a lease, after its order was set.
func ExampleCore() {
	state, streams := device()
	r, _ := refs.New[float32](state, streams[0], 1000)
	defer r.Close()
	put := func(on *arena.Stream, writes bool, args ...*refs.Core) error {
		for i, c := range args {
			if _, err := c.Acquire(); err != nil {
				return err
			}
			defer args[i].Release()
			if err := c.Use(on, writes); err != nil {
				return err
			}
		}
		return nil // here the work is put on the stream
	}
	fmt.Println(put(streams[0], true, r.Core()))
	fmt.Println(put(streams[1], false, r.Core(), r.Slice(0, 10).Core())) // after the other one
	fmt.Println(put(streams[1], false, r.Slice(0, 2000).Core()))
	// Output:
	// <nil>
	// <nil>
	// InvalidArgument: slice [0:2000] of a Ref of 1000 elements [device 0]
}

// References are counted, and views share the count of the Ref that they are of.
func ExampleRef_Retain() {
	state, streams := device()
	r, _ := refs.New[float32](state, streams[0], 1000)
	tail := r.Slice(900, 1000)
	kept := tail.Retain()
	r.Close()
	_, err := tail.Access()
	fmt.Println(err)
	_, err = kept.Access()
	fmt.Println(kept.Len(), err)
	kept.Close()
	fmt.Println(state.Stats().Freed, "freed")
	// Output:
	// Closed: the Ref was closed before [device 0]
	// 100 <nil>
	// 1 freed
}
