// Package cusolvertest is a simulated cuSOLVER for tests without a GPU. Each call becomes the launch of a kernel on the simulated
// driver, with gonum as its mathematics. So order, faults and the checks of memory are those of the driver.
// An operand or a workspace that is too small, or was freed, is a finding that names the call and the allocation.
//
//	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cusolvertest.Kernels()})
//	h, err := cusolver.New(cusolvertest.New(gpu), s) // s is of a runtime.WithDriver(gpu)
package cusolvertest

import (
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/internal/simulated"
)

// Library is a simulated cuSOLVER. It implements [cusolver.API] and is safe for concurrent use.
type Library struct {
	gpu driver.API

	mu      sync.Mutex
	handles map[cusolver.RawHandle]*handle
	last    cusolver.RawHandle
	version [3]int
	faults  map[string]cusolver.Status
	diverge bool
}

var _ cusolver.API = (*Library)(nil)

// handle is what a cusolverDnHandle_t stands for.
type handle struct {
	context driver.Context
	module  driver.Module
	stream  driver.Stream
}

// New makes a cuSOLVER on a simulated driver, which was made with [Kernels]. Without them its first call fails, and says so.
func New(gpu driver.API) *Library {
	return &Library{gpu: gpu, handles: map[cusolver.RawHandle]*handle{}, version: [3]int{12, 0, 0}, faults: map[string]cusolver.Status{}}
}

// Fail makes a method, such as "Create", or a routine, such as "cusolverDnXpotrf", return a status from now
// on. StatusSuccess ends that.
func (l *Library) Fail(method string, s cusolver.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults[method] = s
}

// Diverge makes the routines that iterate end without a result.
func (l *Library) Diverge(yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.diverge = yes
}

// SetVersion makes it another version.
func (l *Library) SetVersion(v [3]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version = v
}

// Left is how many handles were not destroyed.
func (l *Library) Left() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.handles)
}

// Version implements [cusolver.API].
func (l *Library) Version() [3]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version
}

// Create implements [cusolver.API].
func (l *Library) Create() (cusolver.RawHandle, cusolver.Status) {
	context, r := l.gpu.CtxGetCurrent()
	if r != driver.Success || context == 0 {
		return cusolver.RawHandle{}, cusolver.StatusNotInitialized
	}
	if s := l.fault("Create"); s != cusolver.StatusSuccess {
		return cusolver.RawHandle{}, s
	}
	module, s := simulated.Load(l.gpu, image(), cusolver.StatusNotInitialized)
	if s != cusolver.StatusSuccess {
		return cusolver.RawHandle{}, s
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last.Handle++
	l.last.Params++
	l.handles[l.last] = &handle{context: context, module: module}
	return l.last, cusolver.StatusSuccess
}

// image is a module with the signatures of the kernels. Their parameter is the call.
func image() string {
	var text strings.Builder
	text.WriteString(".version 6.4\n.target sm_75\n.address_size 64\n")
	for r := range routines {
		fmt.Fprintf(&text, ".visible .entry %v(.param .align 8 .b8 call[%d]) %s\n", cusolver.Routine(r), unsafe.Sizeof(launched{}), simulated.Body)
	}
	return text.String()
}

func (l *Library) fault(method string) cusolver.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faults[method]
}

// of is a handle whose context is current.
func (l *Library) of(h cusolver.RawHandle) (*handle, cusolver.Status) {
	current, r := l.gpu.CtxGetCurrent()
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.handles[h]
	if known == nil || r != driver.Success || known.context != current {
		return nil, cusolver.StatusNotInitialized
	}
	return known, cusolver.StatusSuccess
}

// Destroy implements [cusolver.API].
func (l *Library) Destroy(h cusolver.RawHandle) cusolver.Status {
	known, s := l.of(h)
	if s != cusolver.StatusSuccess {
		return s
	}
	l.mu.Lock()
	delete(l.handles, h)
	l.mu.Unlock()
	if l.gpu.ModuleUnload(known.module) != driver.Success {
		return cusolver.StatusInternalError
	}
	return l.fault("Destroy")
}

// SetStream implements [cusolver.API].
func (l *Library) SetStream(h cusolver.RawHandle, s driver.Stream) cusolver.Status {
	known, status := l.of(h)
	if status != cusolver.StatusSuccess {
		return status
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known.stream = s
	return l.faults["SetStream"]
}

// hostBytes is the workspace on the host of routines that have one.
const hostBytes = 100

// needs are the bytes of the workspaces. They depend on the shape.
func needs(c *cusolver.Call) (device, host uint64) {
	switch c.Routine {
	case cusolver.Potrs, cusolver.Getrs:
		return 0, 0
	case cusolver.Ormqr:
		return uint64(8 * (c.M + c.N)), 0
	case cusolver.Syevd, cusolver.Gesvd:
		return uint64(8 * (c.M + 3*c.N)), hostBytes
	}
	return uint64(8 * (c.M + c.N)), 0
}

// valid tells whether cuSOLVER takes the shape of a call.
func valid(c *cusolver.Call) bool {
	if c.Routine < 0 || int(c.Routine) >= len(routines) || c.Type != cublas.TypeFloat32 && c.Type != cublas.TypeFloat64 || min(c.M, c.N, c.K) < 0 {
		return false
	}
	for _, o := range operands(c) {
		if o.At == 0 || o.LD < max(o.rows, 1) {
			return false
		}
	}
	switch c.Routine {
	case cusolver.Ormqr:
		return c.K <= map[cublas.Side]int64{cublas.Left: c.M, cublas.Right: c.N}[c.Side] && c.Vector != 0
	case cusolver.Gesvd:
		return c.M >= c.N && c.Vector != 0 && c.U.LD >= c.M && c.VT.LD >= c.N
	case cusolver.Potrf, cusolver.Potrs:
		return true
	}
	return c.Vector != 0
}

// Workspace implements [cusolver.API].
func (l *Library) Workspace(h cusolver.RawHandle, c *cusolver.Call) (device, host uint64, s cusolver.Status) {
	if _, s := l.of(h); s != cusolver.StatusSuccess {
		return 0, 0, s
	}
	if !valid(c) {
		return 0, 0, cusolver.StatusInvalidValue
	}
	device, host = needs(c)
	return device, host, l.fault("Workspace")
}

// launched is a call as its kernel gets it.
type launched struct {
	cusolver.Call
	diverge bool
}

// Run implements [cusolver.API].
func (l *Library) Run(h cusolver.RawHandle, c *cusolver.Call) cusolver.Status {
	known, s := l.of(h)
	if s != cusolver.StatusSuccess {
		return s
	}
	if !valid(c) || c.Info == 0 {
		return cusolver.StatusInvalidValue
	}
	if device, host := needs(c); c.DeviceBytes < device || c.HostBytes < host || host > 0 && c.Host == nil || device > 0 && c.Device%256 != 0 {
		return cusolver.StatusInvalidWorkspace
	} else if host > 0 {
		clear(unsafe.Slice((*byte)(c.Host), host)) // as on hardware: it belongs to the call
	}
	if s := l.fault(c.Routine.String()); s != cusolver.StatusSuccess {
		return s
	}
	f, r := l.gpu.ModuleGetFunction(known.module, c.Routine.String())
	if r != driver.Success {
		return cusolver.StatusInternalError
	}
	l.mu.Lock()
	call := launched{*c, l.diverge}
	l.mu.Unlock()
	call.Host = nil
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	if l.gpu.LaunchKernel(f, one, one, 0, known.stream, []unsafe.Pointer{unsafe.Pointer(&call)}) != driver.Success {
		return cusolver.StatusExecutionFailed
	}
	return cusolver.StatusSuccess
}

// Kernels are the kernels of the simulated cuSOLVER, for drivertest.Config.
func Kernels() map[string]drivertest.KernelFunc {
	all := map[string]drivertest.KernelFunc{}
	for r, f := range routines {
		all[cusolver.Routine(r).String()] = func(k *drivertest.Launch) error { return run(k, f) }
	}
	return all
}
