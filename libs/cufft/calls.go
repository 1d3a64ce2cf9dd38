package cufft

import (
	"strconv"

	"github.com/purecuda/purecuda/driver"
)

// execs are the functions that run the transforms of a type.
var execs = map[Type]function{
	TypeR2C: fnExecR2C, TypeC2R: fnExecC2R, TypeC2C: fnExecC2C,
	TypeD2Z: fnExecD2Z, TypeZ2D: fnExecZ2D, TypeZ2Z: fnExecZ2Z,
}

// String is the function of cuFFT that runs such a transform.
func (t Type) String() string {
	if f, ok := execs[t]; ok {
		return functions[f]
	}
	return "type " + strconv.Itoa(int(t))
}

// real says which side has real numbers.
func (t Type) real() (in, out bool) {
	return t == TypeR2C || t == TypeD2Z, t == TypeC2R || t == TypeZ2D
}

// complexBytes is the size of a complex number.
func (t Type) complexBytes() int64 {
	if t >= TypeZ2Z {
		return 16
	}
	return 8
}

// Description is what a plan is made for: the arguments of cufftMakePlanMany64. What is above Rank is 0.
type Description struct {
	Type                   Type
	Rank                   int32
	N                      [3]int64
	InEmbed, OutEmbed      [3]int64
	InStride, InDistance   int64
	OutStride, OutDistance int64
	Batch                  int64
}

// Plan implements [API].
func (l *Library) Plan(d *Description) (p RawPlan, workArea uint64, s Status) {
	if p, s = l.create(); s != StatusSuccess {
		return 0, 0, s
	}
	if s = l.setAutoAllocation(p, 0); s == StatusSuccess {
		workArea, s = l.makePlan(p, d.Rank, &d.N[0], &d.InEmbed[0], d.InStride, d.InDistance,
			&d.OutEmbed[0], d.OutStride, d.OutDistance, d.Type, d.Batch)
	}
	if s != StatusSuccess {
		l.Destroy(p)
		return 0, 0, s
	}
	return p, workArea, StatusSuccess
}

// SetStream implements [API].
func (l *Library) SetStream(p RawPlan, s driver.Stream, workArea driver.DevicePtr) Status {
	if status := l.setStream(p, s); status != StatusSuccess || workArea == 0 {
		return status
	}
	return l.setWorkArea(p, workArea)
}

// Exec implements [API].
func (l *Library) Exec(p RawPlan, t Type, d Direction, in, out driver.DevicePtr) Status {
	switch t {
	case TypeC2C:
		return l.execC2C(p, in, out, int32(d))
	case TypeZ2Z:
		return l.execZ2Z(p, in, out, int32(d))
	case TypeR2C:
		return l.execR2C(p, in, out)
	case TypeC2R:
		return l.execC2R(p, in, out)
	case TypeD2Z:
		return l.execD2Z(p, in, out)
	case TypeZ2D:
		return l.execZ2D(p, in, out)
	}
	return StatusInvalidType
}
