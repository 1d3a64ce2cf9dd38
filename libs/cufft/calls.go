package cufft

import (
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// The functions in the argument order of cufft.h.

// Plan implements [API].
func (l *Library) Plan(d *Description) (p RawPlan, workArea uint64, s Status) {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	b.plan = -1
	if s = l.call(fnCreate, b, uintptr(unsafe.Pointer(&b.plan))); s != StatusSuccess {
		return 0, 0, s
	}
	if p = RawPlan(b.plan); p < 0 {
		return 0, 0, StatusImpossibleValue
	}
	b.n, b.inEmbed, b.outEmbed, b.workArea = d.N, d.InEmbed, d.OutEmbed, 0
	if s = l.call(fnSetAutoAllocation, b, uintptr(p), 0); s == StatusSuccess {
		s = l.call(fnMakePlan, b, uintptr(p), uintptr(d.Rank), uintptr(unsafe.Pointer(&b.n)),
			uintptr(unsafe.Pointer(&b.inEmbed)), uintptr(d.InStride), uintptr(d.InDistance),
			uintptr(unsafe.Pointer(&b.outEmbed)), uintptr(d.OutStride), uintptr(d.OutDistance),
			uintptr(d.Type), uintptr(d.Batch), uintptr(unsafe.Pointer(&b.workArea)))
	}
	if s == StatusSuccess && b.workArea > math.MaxInt64 {
		s = StatusImpossibleValue
	}
	if s != StatusSuccess {
		l.Destroy(p)
		return 0, 0, s
	}
	return p, b.workArea, StatusSuccess
}

// Destroy implements [API].
func (l *Library) Destroy(p RawPlan) Status { return l.do(fnDestroy, uintptr(p)) }

// SetStream implements [API].
func (l *Library) SetStream(p RawPlan, s driver.Stream, workArea driver.DevicePtr) Status {
	if status := l.do(fnSetStream, uintptr(p), uintptr(s)); status != StatusSuccess || workArea == 0 {
		return status
	}
	return l.do(fnSetWorkArea, uintptr(p), uintptr(workArea))
}

// Exec implements [API].
func (l *Library) Exec(p RawPlan, t Type, d Direction, in, out driver.DevicePtr) Status {
	exec, ok := execs[t]
	switch {
	case !ok:
		return StatusInvalidType
	case t == TypeC2C || t == TypeZ2Z:
		return l.do(exec, uintptr(p), uintptr(in), uintptr(out), uintptr(d))
	}
	return l.do(exec, uintptr(p), uintptr(in), uintptr(out))
}
