// Graph lets heat flow along a rod, in steps that are recorded once and replayed as a graph. It
// runs on a GPU if there is one, and on the CPU if not.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

//go:embed heat.ptx
var ptx []byte

// A rod of points, hot at one end, and how long it is watched: rounds of recorded steps.
const (
	points = 1000
	steps  = 100 // in a graph, an even number
	rounds = 50
)

func main() {
	rod := make([]float32, points)
	rod[0] = 100
	where := "GPU"
	backend, err := runtime.Probe("graph")
	if err == nil {
		err = onGPU(backend, rod, 0.25, 0.4)
	}
	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		fmt.Println("not on a GPU:", err)
		where, err = "CPU", nil
		onCPU(rod, 0.25, 0.4)
	}
	if err != nil {
		log.Fatal(err) // CUDA is there and broken: say so
	}
	fmt.Printf("%s %.2f\n", where, rod[:5]) // [100.00 99.01 98.02 97.03 96.04]
}

// onGPU replays the graph with one rate of flow, and then with the other one.
func onGPU(b *runtime.Backend, rod []float32, first, second float32) error {
	c, s := b.Context, b.Stream
	module, err := c.LoadModule(runtime.Image{Code: ptx})
	if err != nil {
		return err
	}
	defer module.Close()
	step, err := module.Kernel("step")
	if err != nil {
		return err
	}
	shape, err := step.Shape(len(rod))
	if err != nil {
		return err
	}
	here, err := runtime.Alloc[float32](s, len(rod))
	if err != nil {
		return err
	}
	defer here.Close()
	there, err := runtime.Alloc[float32](s, len(rod))
	if err != nil {
		return err
	}
	defer there.Close()

	// Capture runs nothing: it records what is put on the stream.
	record := func(rate float32) (*runtime.Graph, error) {
		return s.Capture(func(s *runtime.Stream) error {
			from, to := here, there
			for range steps {
				err := step.Launch(s, shape, runtime.InOut(to), runtime.In(from), runtime.Value(uint64(len(rod))), runtime.Value(rate))
				if err != nil {
					return err
				}
				from, to = to, from
			}
			return nil
		})
	}
	graph, err := record(first)
	if err != nil {
		return err
	}
	defer graph.Close()
	exec, err := graph.Instantiate()
	if err != nil {
		return err
	}
	defer exec.Close()

	if err := runtime.Upload(context.Background(), s, here, rod); err != nil {
		return err
	}
	for range rounds {
		if err := exec.Launch(s); err != nil {
			return err
		}
	}
	// The same steps with another argument take the place of the first ones.
	changed, err := record(second)
	if err != nil {
		return err
	}
	defer changed.Close()
	if err := exec.Update(changed); err != nil {
		return err
	}
	for range rounds {
		if err := exec.Launch(s); err != nil {
			return err
		}
	}
	return runtime.Download(context.Background(), s, rod, here)
}

func onCPU(rod []float32, first, second float32) {
	from, to := rod, append([]float32(nil), rod...)
	for i := range 2 * rounds * steps {
		rate := first
		if i >= rounds*steps {
			rate = second
		}
		for j := 1; j < len(rod)-1; j++ {
			to[j] = from[j] + rate*(from[j-1]-2*from[j]+from[j+1])
		}
		from, to = to, from
	}
}
