package kernels

import (
	_ "embed"
	"math"
)

var (
	//go:embed cuda/saxpy.cu
	saxpyCUDA string
	//go:embed ptx/saxpy.sm_75.ptx
	saxpySM75 string
	//go:embed ptx/saxpy.sm_90.ptx
	saxpySM90 string
)

// SaxpyBlock is the block size of saxpy, in threads. Its grid is Grid(n, SaxpyBlock); any
// other gives the same result.
const SaxpyBlock = 256

// SaxpyCPU is the reference of saxpy: y[i] = a*x[i] + y[i] in float32, rounded once. The
// GPU's result is the same bit for bit, except for the payload of NaNs. x may be y. It fails
// with driver.ErrInvalidArgument when the lengths differ.
func SaxpyCPU(a float32, x, y []float32) error {
	if len(x) != len(y) {
		return invalidArgument("saxpy: lengths %d and %d differ", len(x), len(y))
	}
	for i := range y {
		y[i] = fma32(a, x[i], y[i])
	}
	return nil
}

// fma32 is a*x+y rounded once to float32.
//
// The product of two float32 is exact in float64 (24+24 bits of 53). The sum is not, and
// rounding it to float64 first and to float32 then would round twice: a sum that the first
// step moves onto the middle between two float32 goes the wrong way in the second. So the
// float64 is rounded to odd: if inexact, to the neighbour whose last bit is 1. That
// remembers on which side of the middle the exact sum lies, and the second rounding is
// right because float64 has more than 2 bits to spare. (Boldo and Melquiond, "Emulation of
// FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.)
func fma32(a, x, y float32) float32 {
	product, addend := float64(a)*float64(x), float64(y)
	sum := product + addend
	if math.IsInf(sum, 0) || math.IsNaN(sum) {
		return float32(sum) // from an infinite or NaN operand: finite ones stay below 2^257
	}
	// The rounding error, exactly (Knuth's TwoSum).
	virtual := sum - product
	residue := (product - (sum - virtual)) + (addend - virtual)
	if bits := math.Float64bits(sum); residue != 0 && bits&1 == 0 {
		if (residue > 0) == (sum > 0) {
			bits++ // the exact sum is further from zero
		} else {
			bits--
		}
		sum = math.Float64frombits(bits)
	}
	return float32(sum)
}
