package cufft

import (
	"strconv"

	"github.com/purecuda/purecuda/driver"
)

// RawPlan is a cufftHandle. It belongs to the context that was current when it was made.
type RawPlan int32

// API is cuFFT as this package calls it: [*Library] is the real one, and package cuffttest has one that is simulated. A function
// that this cuFFT lacks returns [StatusSymbolMissing].
//
// No two methods may run at the same time with one plan. All but Version need the context of the plan
// current. https://docs.nvidia.com/cuda/cufft
type API interface {
	// Version returns the version of cuFFT: major, minor, patch; 0 where it is not known.
	Version() [3]int
	// Plan makes a plan, which Destroy frees. It has no work area, and says how many bytes that needs.
	Plan(d *Description) (p RawPlan, workArea uint64, s Status)
	Destroy(p RawPlan) Status
	// SetStream sets the stream, and the work area, which is 0 where none is needed.
	SetStream(p RawPlan, s driver.Stream, workArea driver.DevicePtr) Status
	// Exec puts a transform on the stream of the plan. t is that of its description. The direction is for complex numbers on both sides.
	Exec(p RawPlan, t Type, d Direction, in, out driver.DevicePtr) Status
}

// Type says what numbers a transform takes and makes, by the numbers of cufft.h.
type Type int32

// The types.
const (
	TypeR2C Type = 0x2a // float32 to complex64
	TypeC2R Type = 0x2c // complex64 to float32
	TypeC2C Type = 0x29 // complex64 to complex64
	TypeD2Z Type = 0x6a // float64 to complex128
	TypeZ2D Type = 0x6c // complex128 to float64
	TypeZ2Z Type = 0x69 // complex128 to complex128
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

// Direction is the sign of the exponent.
type Direction int32

// The directions. Neither is scaled: one after the other multiplies by how many numbers there are.
const (
	Forward Direction = -1
	Inverse Direction = 1
)

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
