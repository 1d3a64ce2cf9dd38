//go:build linux && (amd64 || arm64)

package runtime_test

import (
	"errors"
	"os"
	goruntime "runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
	"github.com/purecuda/purecuda/runtime"
)

// turnsVariable names the library built from scripts/baseline/turns.c.
const turnsVariable = "PURECUDA_TURNS_LIBRARY"

// BenchmarkHardwareTurns compares a loop in C with one over package driver and one
// over package runtime, in one process and in turns. A turn is as many calls as fit
// the queue of a stream, which is emptied outside of the timed part. The figures are
// medians over the turns.
func BenchmarkHardwareTurns(b *testing.B) {
	lib := hardware.Open(b)
	path := os.Getenv(turnsVariable)
	if path == "" {
		b.Skipf("%s is not set: it names the library of scripts/baseline/turns.c", turnsVariable)
	}
	loops, _, err := dl.Open(path)
	require.NoError(b, err)
	cuda, _, err := dl.Open(lib.Path())
	require.NoError(b, err)

	rt := openOn(b, lib)
	c := contextOf(b, rt)
	s := newStream(b, c)
	m, err := c.LoadModule(runtime.Image{Code: hardware.EmptyKernels})
	require.NoError(b, err)
	empty, err := m.Kernel("empty")
	require.NoError(b, err)
	empty4, err := m.Kernel("empty4")
	require.NoError(b, err)
	event, err := c.NewEvent()
	require.NoError(b, err)

	// What C is handed lives on the heap, where it does not move.
	values := &[4]uint64{1, 2, 3, 4}
	params := make([]unsafe.Pointer, len(values))
	for i := range values {
		params[i] = unsafe.Pointer(&values[i])
	}
	pin = params
	one, warp := driver.Dim3{X: 1, Y: 1, Z: 1}, driver.Dim3{X: 32, Y: 1, Z: 1}
	shape := runtime.Shape{Grid: one, Block: warp}
	stream := uintptr(s.Handle())
	inC := func(loop string, args ...uintptr) func(n int) {
		fn := loops.Symbol(loop)
		require.NotZero(b, fn, loop)
		return func(n int) {
			var w struct {
				ffi.Frame
				args [ffi.RegisterWords]uintptr
			}
			copy(w.args[:], args)
			w.args[len(args)] = uintptr(n)
			if w.Call(fn, len(args)+1) != 0 {
				b.Error("a call in C failed")
			}
		}
	}
	repeat := func(f func() bool) func(n int) {
		return func(n int) {
			for range n {
				if !f() {
					b.Error("a call failed")
				}
			}
		}
	}
	// A graph of ten launches, replayed and as launches.
	launch4 := func(s *runtime.Stream) error {
		return empty4.Launch(s, shape, runtime.Value(values[0]), runtime.Value(values[1]),
			runtime.Value(float32(2)), runtime.Value(values[3]))
	}
	graph := instantiate(b, capture(b, s, func(s *runtime.Stream) (err error) {
		for range graphNodes {
			err = errors.Join(err, launch4(s))
		}
		return err
	}))
	require.NoError(b, graph.Upload(s))
	times := func(n int, f func(int)) func(int) { return func(calls int) { f(n * calls) } }

	launch, record, version := cuda.Symbol("cuLaunchKernel"), cuda.Symbol("cuEventRecord"), cuda.Symbol("cuDriverGetVersion")
	replay := cuda.Symbol("cuGraphLaunch")
	launch4InC := inC("turn_launch", launch, uintptr(empty4.Handle()), stream, uintptr(unsafe.Pointer(unsafe.SliceData(params))))
	launch4ByDriver := repeat(func() bool {
		return lib.LaunchKernel(empty4.Handle(), one, warp, 0, s.Handle(), params) == driver.Success
	})
	launch4ByRuntime := repeat(func() bool { return launch4(s) == nil })
	for _, t := range []struct {
		name  string
		calls int
		sides map[string]func(n int)
	}{
		{"Call", 5000, map[string]func(n int){
			"C":      inC("turn_version", version),
			"driver": repeat(func() bool { _, r := lib.DriverGetVersion(); return r == driver.Success }),
		}},
		{"EventRecord", 500, map[string]func(n int){
			"C":       inC("turn_two", record, uintptr(event.Handle()), stream),
			"driver":  repeat(func() bool { return lib.EventRecord(event.Handle(), s.Handle()) == driver.Success }),
			"runtime": repeat(func() bool { return event.Record(s) == nil }),
		}},
		{"Launch/args=0", 512, map[string]func(n int){
			"C": inC("turn_launch", launch, uintptr(empty.Handle()), stream, 0),
			"driver": repeat(func() bool {
				return lib.LaunchKernel(empty.Handle(), one, warp, 0, s.Handle(), nil) == driver.Success
			}),
			"runtime": repeat(func() bool { return empty.Launch(s, shape) == nil }),
		}},
		{"Launch/args=4", 512, map[string]func(n int){
			"C": launch4InC, "driver": launch4ByDriver, "runtime": launch4ByRuntime,
		}},
		{"Ten/as=launches", 50, map[string]func(n int){
			"C": times(graphNodes, launch4InC), "driver": times(graphNodes, launch4ByDriver), "runtime": times(graphNodes, launch4ByRuntime),
		}},
		{"Ten/as=graph", 50, map[string]func(n int){
			"C":       inC("turn_two", replay, uintptr(graph.Handle()), stream),
			"driver":  repeat(func() bool { return lib.GraphLaunch(graph.Handle(), s.Handle()) == driver.Success }),
			"runtime": repeat(func() bool { return graph.Launch(s) == nil }),
		}},
	} {
		b.Run(t.name, func(b *testing.B) { turns(b, lib, s, t.calls, t.sides) })
	}
	goruntime.KeepAlive(values)
}

// pin keeps the arguments of C on the heap.
var pin []unsafe.Pointer

func turns(b *testing.B, lib *driver.Library, s *runtime.Stream, calls int, sides map[string]func(n int)) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	names := []string{"C", "driver", "runtime"}
	took := map[string][]float64{}
	for turn := 0; b.Loop(); turn++ {
		for i := range names {
			name := names[(turn+i)%len(names)]
			if sides[name] == nil {
				continue
			}
			start := time.Now()
			sides[name](calls)
			took[name] = append(took[name], float64(time.Since(start).Nanoseconds())/float64(calls))
			lib.StreamSynchronize(s.Handle())
		}
	}
	b.ReportMetric(0, "ns/op") // of a turn, which means nothing
	median := func(name string) float64 {
		slices.Sort(took[name])
		return took[name][len(took[name])/2]
	}
	for _, name := range names {
		if took[name] != nil {
			b.ReportMetric(median(name), name+"-ns")
			if name != "C" {
				b.ReportMetric(median(name)/median("C"), name+"/C")
			}
		}
	}
}
