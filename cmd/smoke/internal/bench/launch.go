package bench

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// emptyKernels has two kernels that do nothing, "empty" without and "empty4" with arguments, and
// "spin", which takes so many nanoseconds. It is
// the text of drivertest/hardware, which programs cannot import: it is for tests.
//
//go:embed empty.ptx
var emptyKernels []byte

const (
	batch      = 512 // entries on a stream before it is emptied
	graphNodes = 10  // launches in a graph
	graphBatch = 50  // graphs on a stream before it is emptied
)

var oneWarp = runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 32}}

// launcher is a stream of the first device with kernels that do nothing.
type launcher struct {
	context       *runtime.Context
	stream        *runtime.Stream
	kernel        func(name string) (*runtime.Kernel, error)
	empty, empty4 *runtime.Kernel
	x             *runtime.Ref[float32]
}

func openLauncher(m *Machine, c *closers) (l launcher, err error) {
	if l.context, err = m.Runtime.Context(m.Devices[0].Ordinal); err != nil {
		return l, err
	}
	stream, err := l.context.NewStream()
	if l.stream, err = opened(c, stream, err); err != nil {
		return l, err
	}
	module, err := l.context.LoadModule(runtime.Image{Code: emptyKernels})
	if module, err = opened(c, module, err); err != nil {
		return l, err
	}
	l.kernel = module.Kernel
	if l.empty, err = module.Kernel("empty"); err != nil {
		return l, err
	}
	if l.empty4, err = module.Kernel("empty4"); err != nil {
		return l, err
	}
	x, err := runtime.Alloc[float32](l.stream, 1)
	l.x, err = opened(c, x, err)
	return l, err
}

func (l *launcher) launch() error { return l.empty.Launch(l.stream, oneWarp) }

func (l *launcher) launch4() error {
	return l.empty4.Launch(l.stream, oneWarp,
		runtime.InOut(l.x), runtime.InOut(l.x), runtime.Value(float32(2)), runtime.Value(uint64(1)))
}

func (l *launcher) wait() error { return l.stream.Synchronize(context.Background()) }

// enqueue is the operation of what f puts on the stream, without the waiting between batches.
func (l *launcher) enqueue(batch int, f func() error) op {
	return func(_ context.Context, n int) (timed time.Duration, err error) {
		for left := n; left > 0; left -= batch {
			start := time.Now()
			for range min(left, batch) {
				if err := f(); err != nil {
					return 0, errors.Join(err, l.wait())
				}
			}
			timed += time.Since(start)
			if err := l.wait(); err != nil {
				return 0, err
			}
		}
		return timed, nil
	}
}

// calls are the bare cost of a call, of a launch, and of a launch that is waited for.
func calls(m *Machine) *suite {
	var l launcher
	s := &suite{open: func(_ context.Context, c *closers) (err error) { l, err = openLauncher(m, c); return err }}
	s.add(Case{Name: "Call/fn=cuDriverGetVersion", op: each(func() error {
		if _, r := m.Runtime.Driver().DriverGetVersion(); r != driver.Success {
			return driver.Failed("cuDriverGetVersion", r)
		}
		return nil
	})})
	s.add(Case{Name: "Call/fn=cuStreamQuery", op: each(func() error { _, err := l.stream.Query(); return err })})
	// The methods are looked up when they run: l is there only then.
	s.add(Case{Name: "Launch/args=0", op: func(ctx context.Context, n int) (time.Duration, error) {
		return l.enqueue(batch, l.launch)(ctx, n)
	}})
	s.add(Case{Name: "Launch/args=4", op: func(ctx context.Context, n int) (time.Duration, error) {
		return l.enqueue(batch, l.launch4)(ctx, n)
	}})
	s.add(Case{Name: "LaunchSync/args=0", op: each(func() error {
		if err := l.launch(); err != nil {
			return err
		}
		return l.wait()
	})})
	return s
}

// graphs are ten launches, one by one and as a graph.
func graphs(m *Machine) *suite {
	var (
		l     launcher
		graph *runtime.GraphExec
	)
	launches := func() error {
		for range graphNodes {
			if err := l.launch(); err != nil {
				return err
			}
		}
		return nil
	}
	s := &suite{open: func(_ context.Context, c *closers) (err error) {
		if l, err = openLauncher(m, c); err != nil {
			return err
		}
		captured, err := l.stream.Capture(func(*runtime.Stream) error { return launches() })
		if captured, err = opened(c, captured, err); err != nil {
			return err
		}
		graph, err = captured.Instantiate()
		if graph, err = opened(c, graph, err); err != nil {
			return err
		}
		return graph.Upload(l.stream)
	}}
	s.add(Case{Name: "Graph/do=launches/nodes=10", op: func(ctx context.Context, n int) (time.Duration, error) {
		return l.enqueue(graphBatch, launches)(ctx, n)
	}})
	s.add(Case{Name: "Graph/do=replay/nodes=10", op: func(ctx context.Context, n int) (time.Duration, error) {
		return l.enqueue(graphBatch, func() error { return graph.Launch(l.stream) })(ctx, n)
	}})
	return s
}
