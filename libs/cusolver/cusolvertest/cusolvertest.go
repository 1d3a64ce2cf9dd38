// Package cusolvertest is a simulated cuSOLVER for tests without a GPU. Each call becomes the launch of a kernel on the simulated
// driver, with gonum as its mathematics. So order, faults and the checks of memory are the driver's.
// An operand or a workspace that is too small, or was freed, is a finding that names the call and the allocation.
//
//	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cusolvertest.Kernels()})
//	h, err := cusolver.New(cusolvertest.New(gpu), s) // s is of a runtime.WithDriver(gpu)
package cusolvertest

import (
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cublas"
	"github.com/purecuda/purecuda/libs/cusolver"
	"github.com/purecuda/purecuda/libs/cusolver/internal/lapack"
	"github.com/purecuda/purecuda/libs/internal/simulated"
)

// Library is a simulated cuSOLVER. It implements [cusolver.API] and is safe for concurrent use.
type Library struct {
	table   *simulated.Table[cusolver.RawHandle, struct{}, cusolver.Status]
	diverge atomic.Bool
}

// New makes a cuSOLVER on a simulated driver, which was made with [Kernels]. Without them its first call fails, and says so.
func New(gpu driver.API) *Library {
	image := simulated.Image(Kernels(), func(string) uintptr { return unsafe.Sizeof(launched{}) })
	return &Library{table: simulated.NewTable[cusolver.RawHandle, struct{}](gpu, [3]int{12, 0, 0}, image,
		func(n int) cusolver.RawHandle { return cusolver.RawHandle{Handle: uintptr(n), Params: uintptr(n)} },
		simulated.Failures[cusolver.Status]{NoContext: cusolver.StatusNotInitialized, NoHandle: cusolver.StatusNotInitialized,
			NoLaunch: cusolver.StatusExecutionFailed, Internal: cusolver.StatusInternalError})}
}

// Diverge makes the routines that iterate end without a result.
func (l *Library) Diverge(yes bool) { l.diverge.Store(yes) }

// Left is how many handles were not destroyed.
func (l *Library) Left() int { return l.table.Left() }

// Create implements [cusolver.API].
func (l *Library) Create() (cusolver.RawHandle, cusolver.Status) {
	return l.table.Create("Create", struct{}{}, nil)
}

// Destroy implements [cusolver.API].
func (l *Library) Destroy(h cusolver.RawHandle) cusolver.Status { return l.table.Destroy(h, nil) }

// SetStream implements [cusolver.API].
func (l *Library) SetStream(h cusolver.RawHandle, s driver.Stream) cusolver.Status {
	return l.table.Set(h, "SetStream", func(h *simulated.Handle[struct{}]) { h.Stream = s })
}

// hostBytes is the workspace on the host of routines that have one.
const hostBytes = 100

// needs are the bytes of the workspaces. They depend on the shape.
func needs(c *cusolver.Call) (device, host uint64) {
	switch c.Routine {
	case cusolver.SyevjBatched:
		return uint64(8 * c.N * c.Batch), 0
	case cusolver.Potrs, cusolver.Getrs, cusolver.PotrfBatched, cusolver.PotrsBatched, cusolver.GetrfBatched, cusolver.GetrsBatched,
		cusolver.GetriBatched, cusolver.GelsBatched:
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
	if !lapack.Known(c.Routine) || c.Type != cublas.TypeFloat32 && c.Type != cublas.TypeFloat64 || min(c.M, c.N, c.K, c.Batch) < 0 {
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
	case cusolver.GelsBatched:
		return c.M >= c.N
	case cusolver.Potrf, cusolver.Potrs, cusolver.PotrfBatched, cusolver.PotrsBatched:
		return true
	}
	return c.Vector != 0
}

// Workspace implements [cusolver.API].
func (l *Library) Workspace(h cusolver.RawHandle, c *cusolver.Call) (device, host uint64, s cusolver.Status) {
	if _, s := l.table.Of(h); s != cusolver.StatusSuccess {
		return 0, 0, s
	}
	if !valid(c) {
		return 0, 0, cusolver.StatusInvalidValue
	}
	device, host = needs(c)
	return device, host, l.table.Fault("Workspace")
}

// launched is a call as its kernel gets it.
type launched struct {
	cusolver.Call
	diverge bool
}

// Run implements [cusolver.API].
func (l *Library) Run(h cusolver.RawHandle, c *cusolver.Call) cusolver.Status {
	if _, s := l.table.Of(h); s != cusolver.StatusSuccess {
		return s
	}
	if !valid(c) || c.Info == 0 && c.Routine != cusolver.GetrsBatched {
		return cusolver.StatusInvalidValue
	}
	if device, host := needs(c); c.DeviceBytes < device || c.HostBytes < host || host > 0 && c.Host == nil || device > 0 && c.Device%256 != 0 {
		return cusolver.StatusInvalidWorkspace
	} else if host > 0 {
		clear(unsafe.Slice((*byte)(c.Host), host)) // as on hardware: it belongs to the call
	}
	call := launched{*c, l.diverge.Load()}
	call.Host = nil
	return l.table.Launch(h, c.Routine.String(), unsafe.Pointer(&call))
}

// Kernels are the kernels of the simulated cuSOLVER, for drivertest.Config.
func Kernels() map[string]drivertest.KernelFunc {
	all := map[string]drivertest.KernelFunc{}
	for r := cusolver.Potrf; lapack.Known(r); r++ {
		all[r.String()] = run
	}
	return all
}
