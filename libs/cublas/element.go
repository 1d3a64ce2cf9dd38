package cublas

import (
	"math"

	"github.com/purecuda/purecuda/gpu"
)

// Real are the types of elements that every routine takes.
type Real interface{ float32 | float64 }

// Element are the types of elements that can be computed with.
type Element interface {
	Real | gpu.Float16 | gpu.BFloat16
}

// Stored are the types that matrices can have. Those of 8 bits are operands of [Matmul] only.
type Stored interface {
	Element | Float8E4M3 | Float8E5M2
}

// Float8E4M3 is a float with 4 bits of exponent and 3 of fraction, as bits. It has no infinity; the largest is 448.
type Float8E4M3 uint8

// Float8E5M2 is a float with 5 bits of exponent and 2 of fraction, as bits. The largest is 57344.
type Float8E5M2 uint8

// ToFloat8E4M3 rounds to the nearest, to the even one in the middle. What is too large becomes the largest.
func ToFloat8E4M3(x float32) Float8E4M3 { return Float8E4M3(toFloat8(x, 3, 7, 448, 0x7f)) }

// ToFloat8E5M2 rounds to the nearest, to the even one in the middle. What is too large becomes the largest.
func ToFloat8E5M2(x float32) Float8E5M2 { return Float8E5M2(toFloat8(x, 2, 15, 57344, 0x7f)) }

// Float32 is the same number.
func (x Float8E4M3) Float32() float32 {
	if x&0x7f == 0x7f {
		return float32(math.NaN())
	}
	return fromFloat8(uint8(x), 3, 7)
}

// Float32 is the same number.
func (x Float8E5M2) Float32() float32 {
	switch {
	case x&0x7f > 0x7c:
		return float32(math.NaN())
	case x&0x7f == 0x7c:
		return float32(math.Copysign(math.Inf(1), float64(int8(x))))
	}
	return fromFloat8(uint8(x), 2, 15)
}

func toFloat8(x float32, fraction, bias int, most float64, nan uint8) uint8 {
	v := math.Abs(float64(x))
	if math.IsNaN(v) {
		return nan
	}
	var sign uint8
	if math.Signbit(float64(x)) {
		sign = 0x80
	}
	if v == 0 {
		return sign
	}
	v = min(v, most)
	_, exponent := math.Frexp(v)
	exponent = max(exponent-1, 1-bias) // below that the steps are equal
	steps := math.RoundToEven(math.Ldexp(v, fraction-exponent))
	// A carry into the exponent comes out right: the exponent stands above the fraction.
	return sign | (uint8((exponent+bias-1)<<fraction) + uint8(steps))
}

func fromFloat8(bits uint8, fraction, bias int) float32 {
	exponent, steps := int(bits&0x7f)>>fraction, float64(bits&(1<<fraction-1))
	if exponent > 0 {
		steps += float64(int(1) << fraction)
	}
	return float32(math.Copysign(math.Ldexp(steps, max(exponent, 1)-bias-fraction), float64(int8(bits))))
}

// typeOf is the DataType of T, and its bytes.
func typeOf[T Stored]() (DataType, int) {
	var zero T
	switch any(zero).(type) {
	case float32:
		return TypeFloat32, 4
	case float64:
		return TypeFloat64, 8
	case gpu.Float16:
		return TypeFloat16, 2
	case gpu.BFloat16:
		return TypeBFloat16, 2
	case Float8E4M3:
		return TypeE4M3, 1
	}
	return TypeE5M2, 1
}
