// Package cuffttest is a simulated cuFFT for tests without a GPU. Each transform becomes the launch of a kernel on the simulated
// driver, with its mathematics in plain Go. So order, captures, faults and the checks of memory are those of the driver. Memory or
// a work area that is too small, or was freed, is a finding that names the call and the allocation. So is an output that overlaps
// the input in part. What cuFFT may overwrite becomes NaN.
//
//	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cuffttest.Kernels()})
//	h, err := cufft.New(cuffttest.New(gpu), s, cufft.Options{}) // s is of a runtime.WithDriver(gpu)
package cuffttest

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/libs/internal/simulated"
)

// Library is a simulated cuFFT. It implements [cufft.API] and is safe for concurrent use.
type Library struct {
	gpu driver.API

	mu      sync.Mutex
	plans   map[cufft.RawPlan]*plan
	last    cufft.RawPlan
	version [3]int
	faults  map[string]cufft.Status
}

var _ cufft.API = (*Library)(nil)

// plan is what a cufftHandle stands for.
type plan struct {
	context     driver.Context
	module      driver.Module
	description cufft.Description
	stream      driver.Stream
	workArea    driver.DevicePtr
}

// New makes a cuFFT on a simulated driver, which was made with [Kernels]. Without them its first call fails, and says so.
func New(gpu driver.API) *Library {
	return &Library{gpu: gpu, plans: map[cufft.RawPlan]*plan{}, version: [3]int{12, 0, 0}, faults: map[string]cufft.Status{}}
}

// Fail makes a method, such as "Plan", return a status from now on. StatusSuccess ends that.
func (l *Library) Fail(method string, s cufft.Status) {
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

// Left is how many plans were not destroyed.
func (l *Library) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.plans)
}

// Made is how many plans were made.
func (l *Library) Made() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.last)
}

// Version implements [cufft.API].
func (l *Library) Version() [3]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// Plan implements [cufft.API].
func (l *Library) Plan(d *cufft.Description) (cufft.RawPlan, uint64, cufft.Status) {
	context, r := l.gpu.CtxGetCurrent()
	if r != driver.Success || context == 0 {
		return 0, 0, cufft.StatusSetupFailed
	}
	if s := l.fault("Plan"); s != cufft.StatusSuccess {
		return 0, 0, s
	}
	if s := valid(d); s != cufft.StatusSuccess {
		return 0, 0, s
	}
	module, s := simulated.Load(l.gpu, image(), cufft.StatusSetupFailed)
	if s != cufft.StatusSuccess {
		return 0, 0, s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	l.plans[l.last] = &plan{context: context, module: module, description: *d}
	return l.last, needs(d), cufft.StatusSuccess
}

// valid tells whether cuFFT takes a description.
func valid(d *cufft.Description) cufft.Status {
	switch d.Type {
	case cufft.TypeR2C, cufft.TypeC2R, cufft.TypeC2C, cufft.TypeD2Z, cufft.TypeZ2D, cufft.TypeZ2Z:
	default:
		return cufft.StatusInvalidType
	}
	if d.Rank < 1 || d.Rank > 3 || d.Batch < 1 || min(d.InStride, d.InDistance, d.OutStride, d.OutDistance) < 1 {
		return cufft.StatusInvalidSize
	}
	in, out := sides(d)
	for i := range d.Rank {
		if d.N[i] < 1 || d.InEmbed[i] < in.n[i+1] || d.OutEmbed[i] < out.n[i+1] {
			return cufft.StatusInvalidSize
		}
	}
	return cufft.StatusSuccess
}

// image is a module with the signatures of the kernels. Their parameter is the call.
func image() string {
	var text strings.Builder
	text.WriteString(".version 6.4\n.target sm_75\n.address_size 64\n")
	for t := range kernels {
		fmt.Fprintf(&text, ".visible .entry %v(.param .align 8 .b8 call[%d]) %s\n", t, unsafe.Sizeof(launched{}), simulated.Body)
	}
	return text.String()
}

func (l *Library) fault(method string) cufft.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults[method]
}

// of is a plan whose context is current.
func (l *Library) of(p cufft.RawPlan) (*plan, cufft.Status) {
	current, r := l.gpu.CtxGetCurrent()
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.plans[p]
	if known == nil || r != driver.Success || known.context != current {
		return nil, cufft.StatusInvalidPlan
	}
	return known, cufft.StatusSuccess
}

// Destroy implements [cufft.API].
func (l *Library) Destroy(p cufft.RawPlan) cufft.Status {
	known, s := l.of(p)
	if s != cufft.StatusSuccess {
		return s
	}
	l.mu.Lock()
	delete(l.plans, p)
	l.mu.Unlock()
	if l.gpu.ModuleUnload(known.module) != driver.Success {
		return cufft.StatusInternalError
	}
	return l.fault("Destroy")
}

// SetStream implements [cufft.API].
func (l *Library) SetStream(p cufft.RawPlan, s driver.Stream, workArea driver.DevicePtr) cufft.Status {
	known, status := l.of(p)
	if status != cufft.StatusSuccess {
		return status
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known.stream, known.workArea = s, workArea
	return l.faults["SetStream"]
}

// needs is the size of the work area. Small powers of 2 have none, as on hardware.
func needs(d *cufft.Description) uint64 {
	n := d.N[0] * max(d.N[1], 1) * max(d.N[2], 1)
	if d.Rank == 1 && n <= 4096 && n&(n-1) == 0 {
		return 0
	}
	return uint64(16 * n * d.Batch)
}

// launched is a transform as its kernel gets it.
type launched struct {
	cufft.Description
	Direction         cufft.Direction
	In, Out, WorkArea driver.DevicePtr
}

// Exec implements [cufft.API].
func (l *Library) Exec(p cufft.RawPlan, t cufft.Type, d cufft.Direction, in, out driver.DevicePtr) cufft.Status {
	known, s := l.of(p)
	if s != cufft.StatusSuccess {
		return s
	}
	l.mu.Lock()
	call, stream := launched{known.description, d, in, out, known.workArea}, known.stream
	l.mu.Unlock()
	switch {
	case call.Type != t:
		return cufft.StatusInvalidType
	case in == 0 || out == 0 || d != cufft.Forward && d != cufft.Inverse:
		return cufft.StatusInvalidValue
	case call.WorkArea == 0 && needs(&call.Description) > 0:
		return cufft.StatusNoWorkspace
	}
	if s := l.fault("Exec"); s != cufft.StatusSuccess {
		return s
	}
	f, r := l.gpu.ModuleGetFunction(known.module, t.String())
	if r != driver.Success {
		return cufft.StatusInternalError
	}
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	if l.gpu.LaunchKernel(f, one, one, 0, stream, []unsafe.Pointer{unsafe.Pointer(&call)}) != driver.Success {
		return cufft.StatusExecFailed
	}
	return cufft.StatusSuccess
}

// Kernels are the kernels of the simulated cuFFT, for drivertest.Config.
func Kernels() map[string]drivertest.KernelFunc {
	all := map[string]drivertest.KernelFunc{}
	for t, f := range kernels {
		all[t.String()] = f
	}
	return all
}
