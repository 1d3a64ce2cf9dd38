// Compile runs a cellular automaton with a kernel of its own. The kernel is compiled from CUDA C++
// while the program runs. Without NVRTC it comes from the PTX that the program ships, and without a
// GPU the CPU does the work. One step is launched by itself, the others as a graph.
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/nvrtc"
	"github.com/purecuda/purecuda/runtime"
)

//go:embed rule.cu
var source string

//go:embed rule.ptx
var ptx []byte

const (
	rule   = 110
	pairs  = 10 // of steps, in a graph
	rounds = 5  // of the graph
	steps  = 1 + 2*pairs*rounds
)

func main() {
	cells := make([]uint8, 64)
	cells[len(cells)-1] = 1
	where := "GPU"
	backend, err := runtime.Probe("compile")
	if err == nil {
		err = onGPU(context.Background(), backend, cells)
	}
	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		fmt.Println("not on a GPU:", err)
		where, err = "CPU", nil
		onCPU(cells)
	}
	if err != nil {
		log.Fatal(err) // CUDA or the kernel is there and broken: say so
	}
	fmt.Println(where, strings.NewReplacer("0", ".", "1", "#", " ", "").Replace(fmt.Sprint(cells)))
}

// load returns the module with the kernel. A second caller, here or in the next process, gets
// what was compiled for the first one.
func load(ctx context.Context, c *runtime.Context) (*runtime.Module, error) {
	m, err := c.Compile(ctx, nvrtc.Program{Source: source, Name: "rule.cu"})
	if errors.Is(err, driver.ErrUnsupported) {
		return c.CachedModule(runtime.Image{Code: ptx}) // no NVRTC; the error says what to install
	}
	return m, err
}

func onGPU(ctx context.Context, b *runtime.Backend, cells []uint8) error {
	s := b.Stream
	module, err := load(ctx, b.Context)
	if err != nil {
		return err
	}
	defer module.Close()
	kernel, err := module.Kernel("step")
	if err != nil {
		return err
	}
	shape, err := kernel.Shape(len(cells))
	if err != nil {
		return err
	}
	here, err := runtime.Alloc[uint8](s, len(cells))
	if err != nil {
		return err
	}
	defer here.Close()
	there, err := runtime.Alloc[uint8](s, len(cells))
	if err != nil {
		return err
	}
	defer there.Close()
	step := func(s *runtime.Stream, to, from *runtime.Ref[uint8]) error {
		return kernel.Launch(s, shape, runtime.InOut(to), runtime.In(from), runtime.Value(uint32(len(cells))), runtime.Value(uint32(rule)))
	}

	// One launch, and then a graph of many that goes there and back.
	if err := runtime.Upload(ctx, s, there, cells); err != nil {
		return err
	}
	if err := step(s, here, there); err != nil {
		return err
	}
	graph, err := s.Capture(func(s *runtime.Stream) error {
		for range pairs {
			if err := step(s, there, here); err != nil {
				return err
			}
			if err := step(s, here, there); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer graph.Close()
	exec, err := graph.Instantiate()
	if err != nil {
		return err
	}
	defer exec.Close()
	for range rounds {
		if err := exec.Launch(s); err != nil {
			return err
		}
	}
	return runtime.Download(ctx, s, cells, here)
}

func onCPU(cells []uint8) {
	n := len(cells)
	for range steps {
		from := append([]uint8(nil), cells...)
		for i := range cells {
			cells[i] = rule >> (4*from[(i+n-1)%n] + 2*from[i] + from[(i+1)%n]) & 1
		}
	}
}
