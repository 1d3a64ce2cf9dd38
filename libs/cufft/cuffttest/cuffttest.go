// Package cuffttest is a simulated cuFFT for tests without a GPU. Each transform becomes the launch of a kernel on the simulated
// driver, with its mathematics in plain Go. So order, captures, faults and the checks of memory are the driver's. Memory or
// a work area that is too small, or was freed, is a finding that names the call and the allocation. So is an output that overlaps
// the input in part. What cuFFT may overwrite becomes NaN.
//
//	gpu := drivertest.ForTest(t, drivertest.Config{Kernels: cuffttest.Kernels()})
//	h, err := cufft.New(cuffttest.New(gpu), s, cufft.Options{}) // s is of a runtime.WithDriver(gpu)
package cuffttest

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/cufft"
	"github.com/purecuda/purecuda/libs/internal/simulated"
)

// Library is a simulated cuFFT. It implements [cufft.API] and is safe for concurrent use.
type Library struct {
	table *simulated.Table[cufft.RawPlan, plan, cufft.Status]
}

// plan is what a cufftHandle stands for.
type plan struct {
	description cufft.Description
	workArea    driver.DevicePtr
}

// New makes a cuFFT on a simulated driver, which was made with [Kernels]. Without them its first call fails, and says so.
func New(gpu driver.API) *Library {
	image := simulated.Image(Kernels(), func(string) uintptr { return unsafe.Sizeof(launched{}) })
	return &Library{simulated.NewTable[cufft.RawPlan, plan](gpu, [3]int{12, 0, 0}, image,
		func(n int) cufft.RawPlan { return cufft.RawPlan(n) },
		simulated.Failures[cufft.Status]{NoContext: cufft.StatusSetupFailed, NoHandle: cufft.StatusInvalidPlan,
			NoLaunch: cufft.StatusExecFailed, Internal: cufft.StatusInternalError})}
}

// Left is how many plans were not destroyed.
func (l *Library) Left() int { return l.table.Left() }

// Made is how many plans were made.
func (l *Library) Made() int { return l.table.Made() }

// Plan implements [cufft.API].
func (l *Library) Plan(d *cufft.Description) (cufft.RawPlan, uint64, cufft.Status) {
	if s := valid(d); s != cufft.StatusSuccess {
		return 0, 0, s
	}
	p, s := l.table.Create("Plan", plan{description: *d}, nil)
	if s != cufft.StatusSuccess {
		return 0, 0, s
	}
	return p, needs(d), cufft.StatusSuccess
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

// Destroy implements [cufft.API].
func (l *Library) Destroy(p cufft.RawPlan) cufft.Status { return l.table.Destroy(p, nil) }

// SetStream implements [cufft.API].
func (l *Library) SetStream(p cufft.RawPlan, s driver.Stream, workArea driver.DevicePtr) cufft.Status {
	return l.table.Set(p, "SetStream", func(h *simulated.Handle[plan]) { h.Stream, h.Own.workArea = s, workArea })
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
	known, s := l.table.Of(p)
	if s != cufft.StatusSuccess {
		return s
	}
	call := launched{known.Own.description, d, in, out, known.Own.workArea}
	switch {
	case call.Type != t:
		return cufft.StatusInvalidType
	case in == 0 || out == 0 || d != cufft.Forward && d != cufft.Inverse:
		return cufft.StatusInvalidValue
	case call.WorkArea == 0 && needs(&call.Description) > 0:
		return cufft.StatusNoWorkspace
	}
	if s := l.table.Fault("Exec"); s != cufft.StatusSuccess {
		return s
	}
	return l.table.Launch(p, t.String(), unsafe.Pointer(&call))
}

// Kernels are the kernels of the simulated cuFFT, for drivertest.Config.
func Kernels() map[string]drivertest.KernelFunc {
	all := map[string]drivertest.KernelFunc{}
	for t, f := range kernels {
		all[t.String()] = f
	}
	return all
}
