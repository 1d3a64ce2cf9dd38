// Package curandtest is a simulated cuRAND for tests without a GPU. Each call becomes the launch of a kernel on the simulated
// driver, which computes the numbers of curand.CPU. So order, faults and the checks of memory are those of the driver.
// Memory that is too small, or was freed, is a finding that names the call and the allocation. The states are in device
// memory: a replay of a graph goes on in the sequence.
//
//	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: curandtest.Kernels()})
//	g, err := curand.New(curandtest.New(gpu), s, curand.Options{}) // s is of a runtime.WithDriver(gpu)
package curandtest

import (
	"sync"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/curand/internal/philox"
	"github.com/purecuda/purecuda/libs/internal/simulated"
)

// Library is a simulated cuRAND. It has the kind Philox alone, implements [curand.API], and is safe for concurrent use.
type Library struct {
	gpu driver.API

	mu         sync.Mutex
	generators map[curand.RawGenerator]*generator
	last       curand.RawGenerator
	version    [3]int
	faults     map[string]curand.Status
}

var _ curand.API = (*Library)(nil)

// generator is what a curandGenerator_t stands for.
type generator struct {
	context      driver.Context
	module       driver.Module
	stream       driver.Stream
	state        driver.DevicePtr
	seed, offset uint64
	stale        bool // the state is not that of seed and offset yet
}

// New makes a cuRAND on a simulated driver, which was made with [Kernels]. Without them its first call fails, and says so.
func New(gpu driver.API) *Library {
	return &Library{gpu: gpu, generators: map[curand.RawGenerator]*generator{}, version: [3]int{10, 4, 0}, faults: map[string]curand.Status{}}
}

// Fail makes a method, such as "Create", or a function, such as "curandGenerateUniform", return a status from now
// on. StatusSuccess ends that.
func (l *Library) Fail(method string, s curand.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[method] = s
}

// SetVersion makes it another version.
func (l *Library) SetVersion(v [3]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = v
}

// Left is how many generators were not destroyed.
func (l *Library) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.generators)
}

// Version implements [curand.API].
func (l *Library) Version() [3]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

func (l *Library) fault(method string) curand.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults[method]
}

// of is a generator whose context is current.
func (l *Library) of(g curand.RawGenerator) (*generator, curand.Status) {
	current, r := l.gpu.CtxGetCurrent()
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.generators[g]
	if known == nil || r != driver.Success || known.context != current {
		return nil, curand.StatusNotInitialized
	}
	return known, curand.StatusSuccess
}

// Create implements [curand.API].
func (l *Library) Create(k curand.Kind) (curand.RawGenerator, curand.Status) {
	context, r := l.gpu.CtxGetCurrent()
	if r != driver.Success || context == 0 {
		return 0, curand.StatusInitializationFailed
	}
	if k != curand.Philox {
		return 0, curand.StatusTypeError
	}
	if s := l.fault("Create"); s != curand.StatusSuccess {
		return 0, s
	}
	module, s := simulated.Load(l.gpu, image(), curand.StatusInitializationFailed)
	if s != curand.StatusSuccess {
		return 0, s
	}
	state, r := l.gpu.MemAlloc(uint64(unsafe.Sizeof(philox.State{})))
	if r != driver.Success {
		l.gpu.ModuleUnload(module)
		return 0, curand.StatusAllocationFailed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.generators[l.last] = &generator{context: context, module: module, state: state, stale: true}
	return l.last, curand.StatusSuccess
}

// Destroy implements [curand.API].
func (l *Library) Destroy(g curand.RawGenerator) curand.Status {
	known, s := l.of(g)
	if s != curand.StatusSuccess {
		return s
	}
	l.mu.Lock()
	delete(l.generators, g)
	l.mu.Unlock()
	if max(l.gpu.MemFree(known.state), l.gpu.ModuleUnload(known.module)) != driver.Success {
		return curand.StatusInternalError
	}
	return l.fault("Destroy")
}

// set changes a generator.
func (l *Library) set(g curand.RawGenerator, method string, f func(g *generator)) curand.Status {
	known, s := l.of(g)
	if s != curand.StatusSuccess {
		return s
	}
	if s := l.fault(method); s != curand.StatusSuccess {
		return s
	}
	f(known)
	return curand.StatusSuccess
}

// SetStream implements [curand.API].
func (l *Library) SetStream(g curand.RawGenerator, s driver.Stream) curand.Status {
	return l.set(g, "SetStream", func(g *generator) { g.stream = s })
}

// SetOrdering implements [curand.API].
func (l *Library) SetOrdering(g curand.RawGenerator, o curand.Ordering) curand.Status {
	if _, err := curand.NewCPU(curand.Options{Ordering: o}); err != nil || o == 0 {
		return curand.StatusOutOfRange
	}
	return l.set(g, "SetOrdering", func(*generator) {})
}

// SetSeed implements [curand.API].
func (l *Library) SetSeed(g curand.RawGenerator, seed uint64) curand.Status {
	return l.set(g, "SetSeed", func(g *generator) { g.seed, g.stale = seed, true })
}

// SetOffset implements [curand.API].
func (l *Library) SetOffset(g curand.RawGenerator, offset uint64) curand.Status {
	return l.set(g, "SetOffset", func(g *generator) { g.offset, g.stale = offset, true })
}

// GenerateSeeds implements [curand.API].
func (l *Library) GenerateSeeds(g curand.RawGenerator) curand.Status {
	known, s := l.of(g)
	if s != curand.StatusSuccess {
		return s
	}
	if s := l.fault("GenerateSeeds"); s != curand.StatusSuccess {
		return s
	}
	if !known.stale {
		return curand.StatusSuccess
	}
	s = l.launch(known, seeds, launched{State: known.state, Seed: known.seed, Offset: known.offset})
	known.stale = s != curand.StatusSuccess
	return s
}

// Generate implements [curand.API].
func (l *Library) Generate(g curand.RawGenerator, c *curand.Call) curand.Status {
	if s := l.GenerateSeeds(g); s != curand.StatusSuccess {
		return s
	}
	known, _ := l.of(g)
	switch d := c.Distribution; {
	case d < curand.Uint32 || d > curand.Poisson || c.To == 0 || d == curand.Poisson && !(c.A > 0 && c.A <= 400_000):
		return curand.StatusOutOfRange
	case d >= curand.Normal && d <= curand.LogNormalDouble && c.N%2 != 0:
		return curand.StatusLengthNotMultiple
	}
	if s := l.fault(c.Distribution.String()); s != curand.StatusSuccess {
		return s
	}
	return l.launch(known, c.Distribution.String(), launched{Call: *c, State: known.state})
}

// launch puts a kernel on the stream of a generator.
func (l *Library) launch(g *generator, kernel string, call launched) curand.Status {
	f, r := l.gpu.ModuleGetFunction(g.module, kernel)
	if r != driver.Success {
		return curand.StatusInternalError
	}
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	if l.gpu.LaunchKernel(f, one, one, 0, g.stream, []unsafe.Pointer{unsafe.Pointer(&call)}) != driver.Success {
		return curand.StatusLaunchFailure
	}
	return curand.StatusSuccess
}
