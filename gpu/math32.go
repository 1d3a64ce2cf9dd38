package gpu

import "math"

// FMA32 is x*y+z, rounded once. math.FMA is the one for float64.
func FMA32(x, y, z float32) float32 {
	// The product of two float32 is exact in float64. The sum is not: where it lies in the middle between two
	// float32, what was rounded off decides. Below 2^-126 a float32 has fewer bits, and middles lie elsewhere.
	p, q := float64(x)*float64(y), float64(z)
	s := p + q
	b := math.Float64bits(s)
	if b&(1<<29-1) == 1<<28 || math.Abs(s) < 0x1p-126 {
		s = sumOdd(p, q, s)
	}
	return float32(s)
}

// These are exact: the float64 result, rounded to float32, is the right float32.

// Sqrt32 is the square root of x.
func Sqrt32(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// Abs32 is x without its sign.
func Abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// Copysign32 is x with the sign of sign.
func Copysign32(x, sign float32) float32 {
	return math.Float32frombits(math.Float32bits(x)&^(1<<31) | math.Float32bits(sign)&(1<<31))
}

// Floor32 is the greatest integer that is at most x.
func Floor32(x float32) float32 { return float32(math.Floor(float64(x))) }

// Ceil32 is the least integer that is at least x.
func Ceil32(x float32) float32 { return float32(math.Ceil(float64(x))) }

// Trunc32 is x without its fraction.
func Trunc32(x float32) float32 { return float32(math.Trunc(float64(x))) }

// RoundToEven32 is the integer nearest to x, the even one in the middle.
func RoundToEven32(x float32) float32 { return float32(math.RoundToEven(float64(x))) }

// The Fast functions are single instructions of a GPU. They are approximate: the result differs from the CPU's
// in the last bits. FastSin32 and FastCos32 differ by up to 2^-20.5 between -pi and pi, and more outside.

// FastDiv32 is x/y.
func FastDiv32(x, y float32) float32 { return x / y }

// FastSqrt32 is the square root of x.
func FastSqrt32(x float32) float32 { return Sqrt32(x) }

// FastRsqrt32 is 1 divided by the square root of x.
func FastRsqrt32(x float32) float32 { return float32(1 / math.Sqrt(float64(x))) }

// FastRcp32 is 1/x.
func FastRcp32(x float32) float32 { return 1 / x }

// FastSin32 is the sine of x.
func FastSin32(x float32) float32 { return float32(math.Sin(float64(x))) }

// FastCos32 is the cosine of x.
func FastCos32(x float32) float32 { return float32(math.Cos(float64(x))) }

// FastTanh32 is the hyperbolic tangent of x.
func FastTanh32(x float32) float32 { return float32(math.Tanh(float64(x))) }

// FastExp2 is 2 to the power x, and 0 where that is less than 2^-126: floats below it would take four times as many instructions.
func FastExp2(x float32) float32 {
	if y := float32(math.Exp2(float64(x))); !(y < 0x1p-126) {
		return y
	}
	return 0
}

// FastLog2 is the logarithm of x to the base 2.
func FastLog2(x float32) float32 { return float32(math.Log2(float64(x))) }

// FastExp32 is e to the power x, and 0 where that is less than 2^-126.
func FastExp32(x float32) float32 { return FastExp2(x * math.Log2E) }

// FastLog32 is the natural logarithm of x.
func FastLog32(x float32) float32 { return FastLog2(x) * math.Ln2 }
