package drivertest

import (
	gocontext "context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// Driver is a simulated CUDA driver. Make it with [New]. It is safe for concurrent use.
type Driver struct {
	driver.API // what programs call
	simulated  *simulated
}

// simulated has the functions of a Driver and its state.
type simulated struct {
	config Config
	absent map[string]bool // functions that this driver does not have

	mu   sync.Mutex // guards all below, and all objects
	idle *sync.Cond // told whenever an operation has ended

	running    gocontext.Context // of the kernels
	endKernels gocontext.CancelFunc
	printf     io.Writer // of the kernels, or nil

	initialised, closed bool
	devices             []*device
	threads             map[threadID]*thread

	lastHandle uintptr
	lastID     uint64 // of streams, contexts and buffers: never used twice
	contexts   table[driver.Context, *context]
	streams    table[driver.Stream, *stream]
	events     table[driver.Event, *event]
	modules    table[driver.Module, *module]
	functions  table[driver.Function, *function]
	libraries  table[driver.KernelLibrary, *library]
	kernels    table[driver.Kernel, *kernel]
	graphs     table[driver.Graph, *graph]
	numbers    sync.Map // of conditional nodes, by driver.GraphConditionalHandle: kernels set them without mu
	execs      table[driver.GraphExec, *graphExec]
	pools      table[driver.MemPool, *pool]
	blocks     table[driver.MemHandle, *block]
	arrays     table[driver.Array, *array]
	gone       history // handles that were destroyed

	captures map[*capture]struct{}

	memory   space
	hostUsed uint64 // bytes of page-locked and managed memory
	shared   []*sharedMemory

	calls    map[string]int // since the last reset
	nth      map[string]int // since the beginning, for Chaos
	total    int            // of all functions, for VanishAt
	plans    map[string][]plan
	injected []Injection
	findings []Finding
	lost     []string // what was dropped together with its context

	// sticky is the code that poisoned the process, or 0. Streams read it without
	// the lock.
	sticky atomic.Int32

	read, written, atomics atomic.Uint64 // bytes, by kernels
}

// New makes a driver. It starts no goroutine and allocates no device memory.
func New(config Config) *Driver {
	d := &simulated{
		config:   config.complete(),
		absent:   map[string]bool{},
		threads:  map[threadID]*thread{},
		captures: map[*capture]struct{}{},
		calls:    map[string]int{},
		nth:      map[string]int{},
		plans:    map[string][]plan{},
	}
	d.idle = sync.NewCond(&d.mu)
	d.running, d.endKernels = gocontext.WithCancel(gocontext.Background())
	if config.Printf != nil {
		d.printf = &printer{w: config.Printf}
	}
	for _, name := range d.config.Missing {
		mustBeFunction(name)
		d.absent[name] = true
	}
	for name, e := range entries {
		if e.Since() > d.config.Version {
			d.absent[name] = true
		}
	}
	d.initTables()
	for i, c := range d.config.Devices {
		d.devices = append(d.devices, d.newDevice(i, c))
	}
	return &Driver{d, d}
}

func (d *simulated) initTables() {
	d.contexts.init("context")
	d.streams.init("stream")
	d.events.init("event")
	d.modules.init("module")
	d.functions.init("function")
	d.libraries.init("library")
	d.kernels.init("kernel")
	d.graphs.init("graph")
	d.execs.init("executable graph")
	d.pools.init("memory pool")
	d.blocks.init("handle of physical memory")
	d.arrays.init("array")
	d.memory.init()
}

// mustBeFunction panics on a name that no function of the driver has: it is a
// mistyped word in a test, which would otherwise test nothing.
func mustBeFunction(name string) {
	if _, ok := entries[name]; !ok {
		panic(fmt.Sprintf("drivertest: the driver API of this package has no function %q", name))
	}
}

// Close waits for the work of all streams and ends the simulation: later calls
// return ResultDeinitialized. Leaks, Findings and Calls still answer. A kernel that
// still runs after a second is ended, which is a [Finding].
func (of *Driver) Close() error {
	d := of.simulated
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	defer d.endKernels()
	defer time.AfterFunc(endOfKernels, d.endKernels).Stop()
	for d.unfinished() > 0 {
		d.idle.Wait()
	}
	for _, s := range d.shared {
		s.close()
	}
	d.shared = nil
	return nil
}

func (d *simulated) unfinished() (ops int) {
	for _, ctx := range d.contexts.live {
		ops += ctx.unfinished
	}
	return ops
}

func (d *simulated) Init(flags uint32) driver.Result {
	return d.do("cuInit", func(_ call) driver.Result {
		switch {
		case flags != 0:
			return driver.ResultInvalidValue
		case d.config.InitResult != driver.Success:
			return d.config.InitResult
		}
		d.initialised = true
		return driver.Success
	})
}

func (d *simulated) DriverGetVersion() (driver.Version, driver.Result) {
	return get(d, "cuDriverGetVersion", func(_ call) (driver.Version, driver.Result) { return d.config.Version, driver.Success })
}

func (d *simulated) GetErrorName(result driver.Result) (string, driver.Result) {
	return get(d, "cuGetErrorName", func(_ call) (string, driver.Result) { return errorWord(result, result.Name()) })
}

func (d *simulated) GetErrorString(result driver.Result) (string, driver.Result) {
	return get(d, "cuGetErrorString", func(_ call) (string, driver.Result) { return errorWord(result, result.Text()) })
}

// errorWord refuses codes that driver's table does not have: it names those after
// their number.
func errorWord(result driver.Result, word string) (string, driver.Result) {
	if result == driver.ResultSymbolMissing || result.Name() == fmt.Sprintf("CUDA_ERROR_%d", int(result)) {
		return "", driver.ResultInvalidValue
	}
	return word, driver.Success
}
