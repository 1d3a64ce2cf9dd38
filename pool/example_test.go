package pool_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// On a machine without CUDA the fallback does the work, on all cores.
func ExampleMap() {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff)) // or runtime.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	p, err := pool.Open(rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	onGPU := func(w *pool.Worker, in, out []int) error {
		// Upload in to w.Context(), launch on w.Stream(), download to out, wait.
		return errors.New("not in this example")
	}
	onCPU := func(_ context.Context, in, out []int) error {
		for i, x := range in {
			out[i] = x * x
		}
		return nil
	}
	in := []int{1, 2, 3, 4}
	out := make([]int, len(in))
	report, err := pool.Map(context.Background(), p, in, out, onGPU, pool.MapOptions[int, int]{Fallback: onCPU})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out, report.Where, errors.Is(report.Err, driver.ErrDriverLibraryUnavailable))
	// Output: [1 4 9 16] cpu true
}

// The squares of numbers that come one after the other. On a machine without CUDA the fallback does the work.
func ExampleStream() {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff)) // or runtime.Open()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	p, err := pool.Open(rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	numbers := func(yield func(int, error) bool) {
		for i := range 4 {
			if !yield(i, nil) {
				return
			}
		}
	}
	onGPU := func(w *pool.Worker, in int, _ *runtime.HostBuffer[byte]) (int, error) {
		return 0, errors.New("not in this example")
	}
	onCPU := func(_ context.Context, in int, _ []byte) (int, error) { return in * in, nil }
	for square, err := range pool.Stream(context.Background(), p, numbers, onGPU, pool.StreamOptions[int, int]{Fallback: onCPU}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(square)
	}
	// Output:
	// 0
	// 1
	// 4
	// 9
}

// Two simulated devices.
func ExamplePool_Scatter() {
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(gpu))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	p, err := pool.Open(rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	report, err := p.Scatter(context.Background(), 300, func(w *pool.Worker, t pool.Tile) error {
		// Work on the items from t.Lo to t.Hi, on w.Stream().
		return w.Stream().Synchronize(w.CallContext())
	}, pool.ScatterOptions{Chunk: 150}) // no tile is longer: one piece each
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range report.Tiles {
		fmt.Printf("device %d: items [%d, %d)\n", t.Device, t.Lo, t.Hi)
	}
	// Output:
	// device 0: items [0, 150)
	// device 1: items [150, 300)
}

func ExamplePartition() {
	for _, t := range pool.Partition([]float64{1, 1, 1}, 100) {
		fmt.Println(t.Index, t.Lo, t.Hi)
	}
	// Output:
	// 0 0 34
	// 1 34 67
	// 2 67 100
}

func ExampleParallel() {
	squares := make([]int, 5)
	_, err := pool.Parallel(context.Background(), len(squares), func(_ context.Context, lo, hi int) error {
		for i := lo; i < hi; i++ {
			squares[i] = i * i
		}
		return nil
	})
	fmt.Println(squares, err)
	// Output: [0 1 4 9 16] <nil>
}

// What a block is does not depend on the devices, and neither does the order in which the
// results are combined.
func ExampleReduce() {
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(3, drivertest.H100())})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(gpu))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	p, err := pool.Open(rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Close()

	const block = 10
	name := func(w *pool.Worker, lo, hi int, out []string) error {
		for i := range out {
			out[i] = fmt.Sprint(lo + i*block) // on w.Stream(), something that takes longer
		}
		return nil
	}
	join := func(a, b string) string { return "(" + a + " " + b + ")" }
	order, _, err := pool.Reduce(context.Background(), p, 45, block, name, join, pool.ReduceOptions[string]{MinPerDevice: 1})
	fmt.Println(order, err)
	// Output: (((0 10) (20 30)) 40) <nil>
}
