// Package curandtest is a simulated cuRAND for tests without a GPU. Each call becomes the launch of a kernel on the simulated
// driver, which computes the numbers of curand.CPU. So order, faults and the checks of memory are the driver's.
// Memory that is too small, or was freed, is a finding that names the call and the allocation. The states are in device
// memory: a replay of a graph goes on in the sequence.
//
//	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: curandtest.Kernels()})
//	g, err := curand.New(curandtest.New(gpu), s, curand.Options{}) // s is of a runtime.WithDriver(gpu)
package curandtest

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/curand"
	"github.com/purecuda/purecuda/libs/curand/internal/philox"
	"github.com/purecuda/purecuda/libs/internal/simulated"
)

// Library is a simulated cuRAND. It has the kind Philox alone, implements [curand.API], and is safe for concurrent use.
type Library struct {
	gpu   driver.API
	table *simulated.Table[curand.RawGenerator, generator, curand.Status]
}

// generator is what a curandGenerator_t stands for.
type generator struct {
	state        driver.DevicePtr
	seed, offset uint64
	stale        bool // the state is not at seed and offset yet
}

// New makes a cuRAND on a simulated driver, which was made with [Kernels]. Without them its first call fails, and says so.
func New(gpu driver.API) *Library {
	image := simulated.Image(Kernels(), func(string) uintptr { return unsafe.Sizeof(launched{}) })
	return &Library{gpu, simulated.NewTable[curand.RawGenerator, generator](gpu, [3]int{10, 4, 0}, image,
		func(n int) curand.RawGenerator { return curand.RawGenerator(n) },
		simulated.Failures[curand.Status]{NoContext: curand.StatusInitializationFailed, NoHandle: curand.StatusNotInitialized,
			NoLaunch: curand.StatusLaunchFailure, Internal: curand.StatusInternalError})}
}

// Left is how many generators were not destroyed.
func (l *Library) Left() int { return l.table.Left() }

// Create implements [curand.API].
func (l *Library) Create(k curand.Kind) (curand.RawGenerator, curand.Status) {
	if k != curand.Philox {
		return 0, curand.StatusTypeError
	}
	return l.table.Create("Create", generator{stale: true}, func(g *generator) curand.Status {
		var r driver.Result
		if g.state, r = l.gpu.MemAlloc(uint64(unsafe.Sizeof(philox.State{}))); r != driver.Success {
			return curand.StatusAllocationFailed
		}
		return curand.StatusSuccess
	})
}

// Destroy implements [curand.API].
func (l *Library) Destroy(g curand.RawGenerator) curand.Status {
	return l.table.Destroy(g, func(g *generator) driver.Result { return l.gpu.MemFree(g.state) })
}

// SetStream implements [curand.API].
func (l *Library) SetStream(g curand.RawGenerator, s driver.Stream) curand.Status {
	return l.table.Set(g, "SetStream", func(h *simulated.Handle[generator]) { h.Stream = s })
}

// SetOrdering implements [curand.API].
func (l *Library) SetOrdering(g curand.RawGenerator, o curand.Ordering) curand.Status {
	if _, err := curand.NewCPU(curand.Options{Ordering: o}); err != nil || o == 0 {
		return curand.StatusOutOfRange
	}
	return l.table.Set(g, "SetOrdering", func(*simulated.Handle[generator]) {})
}

// SetSeed implements [curand.API].
func (l *Library) SetSeed(g curand.RawGenerator, seed uint64) curand.Status {
	return l.table.Set(g, "SetSeed", func(h *simulated.Handle[generator]) { h.Own.seed, h.Own.stale = seed, true })
}

// SetOffset implements [curand.API].
func (l *Library) SetOffset(g curand.RawGenerator, offset uint64) curand.Status {
	return l.table.Set(g, "SetOffset", func(h *simulated.Handle[generator]) { h.Own.offset, h.Own.stale = offset, true })
}

// GenerateSeeds implements [curand.API].
func (l *Library) GenerateSeeds(g curand.RawGenerator) curand.Status {
	known, s := l.table.Of(g)
	if s != curand.StatusSuccess {
		return s
	}
	if s := l.table.Fault("GenerateSeeds"); s != curand.StatusSuccess || !known.Own.stale {
		return s
	}
	s = l.table.Launch(g, seeds, unsafe.Pointer(&launched{State: known.Own.state, Seed: known.Own.seed, Offset: known.Own.offset}))
	known.Own.stale = s != curand.StatusSuccess
	return s
}

// Generate implements [curand.API].
func (l *Library) Generate(g curand.RawGenerator, c *curand.Call) curand.Status {
	if s := l.GenerateSeeds(g); s != curand.StatusSuccess {
		return s
	}
	known, _ := l.table.Of(g)
	switch d := c.Distribution; {
	case d < curand.Uint32 || d > curand.Poisson || c.To == 0 || d == curand.Poisson && !(c.A > 0 && c.A <= 400_000):
		return curand.StatusOutOfRange
	case d >= curand.Normal && d <= curand.LogNormalDouble && c.N%2 != 0:
		return curand.StatusLengthNotMultiple
	}
	return l.table.Launch(g, c.Distribution.String(), unsafe.Pointer(&launched{Call: *c, State: known.Own.state}))
}
