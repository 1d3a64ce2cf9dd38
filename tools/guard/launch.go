package main

import (
	_ "embed"

	"github.com/purecuda/purecuda/runtime"
)

// emptyKernels is the text of drivertest/hardware, which older commits have without "spin".
//
//go:embed empty.ptx
var emptyKernels []byte

const (
	batch      = 512 // entries on a stream before it is emptied
	graphNodes = 10  // launches in a graph
	graphBatch = 50  // graphs on a stream before it is emptied
)

var (
	oneWarp  = runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 32}}
	baseline = []string{"baseline", "-ptx", "empty.ptx"}
)

// launcher is a stream of the first device with kernels that do nothing.
type launcher struct {
	context             *runtime.Context
	stream              *runtime.Stream
	empty, empty4, spin *runtime.Kernel
	x                   *runtime.Ref[float32]
}

func (l *launcher) open(m *machine, c *closers) (err error) {
	if l.context, err = m.rt.Context(m.rt.Devices()[0].Ordinal); err != nil {
		return err
	}
	stream, err := l.context.NewStream()
	if l.stream, err = opened(c, stream, err); err != nil {
		return err
	}
	module, err := l.context.LoadModule(runtime.Image{Code: emptyKernels})
	if module, err = opened(c, module, err); err != nil {
		return err
	}
	for name, k := range map[string]**runtime.Kernel{"empty": &l.empty, "empty4": &l.empty4, "spin": &l.spin} {
		if *k, err = module.Kernel(name); err != nil {
			return err
		}
	}
	x, err := runtime.Alloc[float32](l.stream, 1)
	l.x, err = opened(c, x, err)
	return err
}

func (l *launcher) launch() error { return l.empty.Launch(l.stream, oneWarp) }

func (l *launcher) launch4() error {
	return l.empty4.Launch(l.stream, oneWarp, runtime.InOut(l.x), runtime.InOut(l.x), runtime.Value(float32(2)), runtime.Value(uint64(1)))
}

// Launches: a call of the driver, what a launch costs, and until it has run.
func init() {
	suites = append(suites, func(m *machine) *suite {
		var l launcher
		s := &suite{open: func(c *closers) error { return l.open(m, c) }}
		inBaseline := func(name string) inC { return inC{baseline, "HardwareLaunch" + name} }
		s.add(benchmark{"Launch/args=0", inBaseline("/args=0"), loop(enqueue(&l.stream, batch, false, func() error { return l.launch() }))})
		s.add(benchmark{"Launch/args=4", inBaseline("/args=4"), loop(enqueue(&l.stream, batch, false, func() error { return l.launch4() }))})
		s.add(benchmark{"Launch/do=wait", inBaseline("Sync/args=0"), loop(enqueue(&l.stream, 1, true, func() error { return l.launch() }))})
		s.add(benchmark{"Stream/do=query", inC{baseline, "HardwareCall/fn=cuStreamQuery"},
			loop(each(func() error { _, err := l.stream.Query(); return err }))})
		return s
	})
}
