package promises_test

import (
	"context"
	"os"
	"testing"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// TestMain is also that of the children of an isolate.Group, and of the processes that answer for a policy.
func TestMain(m *testing.M) {
	isolate.Main(openChild)
	leaks.Main(m, 0)
}

// here is the file with the tests of the doors of this module.
const here = "internal/promises/promises_test.go"

// TestPromises runs all cells of the doors of this module.
func TestPromises(t *testing.T) {
	programs := programs(t)
	for _, row := range promises.Doors {
		if row.Test != here {
			continue
		}
		t.Run(row.Name, func(t *testing.T) {
			cells := map[string]func(t *testing.T){}
			d, known := doors[row.Name]
			switch {
			case row.Folder != "":
				cells = promises.Program(row.Folder, programs, arguments[row.Folder]...)
			case !known:
				t.Fatalf("doors_test.go does not say how the tests come through %s", row.Name)
			}
			for _, p := range promises.Promises {
				if test := tests[p.Name]; known && test != nil && row.Not[p.Name]+row.Broken[p.Name] == "" {
					cells[p.Name] = func(t *testing.T) { test(t, row.Name, d) }
				}
				if own := d.own[p.Name]; own != nil && row.Broken[p.Name] == "" {
					cells[p.Name] = own
				}
			}
			promises.Test(t, row.Name, cells)
		})
	}
}

// tests hold the promises that are tested in the same way at all doors. The others are in door.own.
var tests = map[string]func(t *testing.T, name string, d door){
	"off":             off,
	"absent":          absent,
	"faulty":          faulty,
	"lost":            lost,
	"required-absent": requiredAbsent,
	"required-faulty": requiredFaulty,
	"required-lost":   requiredLost,
	"says-so":         saysSo,
	"ctx":             endedContext,
	"bound":           bound,
	"own-error":       ownError,
	"panic":           panics,
	"nil-error":       nilError,
	"goexit":          goexit,
	"leak":            leak,
}

// door says how the tests come through a door.
type door struct {
	// open makes what requests share, on a runtime, and returns a function that does a request.
	open func(t testing.TB, rt *runtime.Runtime, l limits) func(context.Context, functions) answer
	// way is where the work goes without a driver, and broken where it goes if the driver is broken and a fallback is given.
	way, broken way
	// running is how many requests run at the same time with limits of two streams on one device.
	running int
	// own are the tests of promises that are like no other.
	own map[string]func(t *testing.T)
}

// way is where work goes that no device can do.
type way int

const (
	fails  way = iota // to nobody: it is an error
	onCPU             // to the fallback
	always            // to the CPU: the door asks for no device
	tells             // no work: the door has only to tell
)

// limits are those of the door. Zeros are its defaults.
type limits struct{ streams, queue int }

func (l limits) pool() (options pool.Options) {
	if l.streams > 0 {
		options = pool.Options{Streams: l.streams, Queue: l.queue}
	}
	return options
}

// functions are those of the user. Nil ones do nothing, and a nil cpu is no fallback.
type functions struct {
	gpu func(ctx context.Context, s *runtime.Stream) error
	cpu func(ctx context.Context) error
}

func (f functions) onGPU(w *pool.Worker) error {
	if f.gpu == nil {
		return nil
	}
	return f.gpu(w.CallContext(), w.Stream())
}

// answer is what the user learns of a request.
type answer struct {
	Where pool.Place // that did the work
	Why   error      // why no device did it
	Err   error
}

// openChild opens the runtime of a child process.
func openChild() (*runtime.Runtime, error) {
	if os.Getenv(simulated) == "" {
		return runtime.Open()
	}
	return runtime.Open(runtime.WithDriver(simulate(1)), runtime.WithMemory(arena.DeviceConfig{Sites: true}))
}
