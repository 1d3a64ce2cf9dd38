package gpu

import (
	"math"
	"strconv"
)

// Float16 is a float with 5 bits of exponent and 10 of fraction: half of CUDA C. BFloat16 is one with the 8 bits of
// exponent of a float32 and 7 of fraction. Their operations are rounded once, to the nearest, as a GPU rounds. Compare
// them as float32, which holds each of them.
type (
	Float16  struct{ bits uint16 }
	BFloat16 struct{ bits uint16 }
)

// Float16FromBits is the Float16 with these bits.
func Float16FromBits(bits uint16) Float16 { return Float16{bits} }

// BFloat16FromBits is the BFloat16 with these bits.
func BFloat16FromBits(bits uint16) BFloat16 { return BFloat16{bits} }

// Bits are the bits of x.
func (x Float16) Bits() uint16 { return x.bits }

// Bits are the bits of x.
func (x BFloat16) Bits() uint16 { return x.bits }

// ToFloat16 rounds x to the nearest Float16, to the even one in the middle.
func ToFloat16(x float32) Float16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &^= 1 << 31
	switch {
	case b > 0x7f800000: // a NaN
		return Float16{0x7fff}
	case b >= 0x47800000: // 65536 and more
		return Float16{sign | 0x7c00}
	case b < 0x38800000: // below 2^-14 the last bit is 2^-24, as of a float32 from 0.5 on
		return Float16{sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))}
	}
	b += 0xfff + b>>13&1
	return Float16{sign | uint16((b-0x38000000)>>13)}
}

// ToBFloat16 rounds x to the nearest BFloat16, to the even one in the middle.
func ToBFloat16(x float32) BFloat16 {
	b := math.Float32bits(x)
	if x != x {
		return BFloat16{0x7fff}
	}
	return BFloat16{uint16((b + 0x7fff + b>>16&1) >> 16)}
}

// Half is a float of 16 bits.
type Half interface {
	Float16 | BFloat16
	Float32() float32
}

// ToHalf is ToFloat16 or ToBFloat16, for a type parameter.
func ToHalf[T Half](x float32) T {
	if ofBFloat16[T]() {
		return elementFrom[T](uint64(ToBFloat16(x).bits))
	}
	return elementFrom[T](uint64(ToFloat16(x).bits))
}

// Float is a float of 16 or 32 bits.
type Float interface{ float32 | Float16 | BFloat16 }

// ToFloat rounds x as [ToHalf] does. A float32 stays as it is.
func ToFloat[T Float](x float32) T {
	switch {
	case elementSize[T]() == 4:
		return FromBits[T](uint64(math.Float32bits(x)))
	case ofBFloat16[T]():
		return elementFrom[T](uint64(ToBFloat16(x).bits))
	}
	return elementFrom[T](uint64(ToFloat16(x).bits))
}

// Float32 is x, exactly.
func Float32[T Float](x T) float32 {
	switch {
	case elementSize[T]() == 4:
		return FromBits[float32](Bits(x))
	case ofBFloat16[T]():
		return BFloat16{uint16(elementBits(x))}.Float32()
	}
	return Float16{uint16(elementBits(x))}.Float32()
}

// PackHalves rounds two numbers, the first to the low half of the bits. It is one instruction from sm_80 on.
func PackHalves[T Half](x, y float32) uint32 {
	return uint32(elementBits(ToHalf[T](x))) | uint32(elementBits(ToHalf[T](y)))<<16
}

func ofBFloat16[T Float]() bool {
	var v T
	_, ok := any(v).(BFloat16)
	return ok
}

// Float32 is x, exactly.
func (x Float16) Float32() float32 {
	sign, b := uint32(x.bits&0x8000)<<16, uint32(x.bits&0x7fff)<<13
	switch {
	case b >= 0x7c00<<13: // an infinity or a NaN
		b += 0x70000000
	case b < 1<<23: // the last bit is 2^-24
		b = math.Float32bits(float32(b>>13) * 0x1p-24)
	default:
		b += 0x38000000
	}
	return math.Float32frombits(sign | b)
}

// Float32 is x, exactly.
func (x BFloat16) Float32() float32 { return math.Float32frombits(uint32(x.bits) << 16) }

// What is rounded to float32 first is right for Float16: the bits of a float32 are more than twice as many, and it has
// the range. For a product of BFloat16 it has not: odd32 keeps what decides.

// Add is x+y.
func (x Float16) Add(y Float16) Float16 { return ToFloat16(x.Float32() + y.Float32()) }

// Sub is x-y.
func (x Float16) Sub(y Float16) Float16 { return ToFloat16(x.Float32() - y.Float32()) }

// Mul is x*y.
func (x Float16) Mul(y Float16) Float16 { return ToFloat16(x.Float32() * y.Float32()) }

// Div is x/y.
func (x Float16) Div(y Float16) Float16 { return ToFloat16(x.Float32() / y.Float32()) }

// Neg is -x.
func (x Float16) Neg() Float16 { return Float16{x.bits ^ 0x8000} }

// FMA is x*y+z, rounded once.
func (x Float16) FMA(y, z Float16) Float16 {
	return ToFloat16(fmaOdd(x.Float32(), y.Float32(), z.Float32()))
}

// Add is x+y.
func (x BFloat16) Add(y BFloat16) BFloat16 { return ToBFloat16(x.Float32() + y.Float32()) }

// Sub is x-y.
func (x BFloat16) Sub(y BFloat16) BFloat16 { return ToBFloat16(x.Float32() - y.Float32()) }

// Mul is x*y.
func (x BFloat16) Mul(y BFloat16) BFloat16 {
	return ToBFloat16(odd32(float64(x.Float32()) * float64(y.Float32())))
}

// Div is x/y.
func (x BFloat16) Div(y BFloat16) BFloat16 {
	return ToBFloat16(odd32(float64(x.Float32()) / float64(y.Float32())))
}

// Neg is -x.
func (x BFloat16) Neg() BFloat16 { return BFloat16{x.bits ^ 0x8000} }

// FMA is x*y+z, rounded once.
func (x BFloat16) FMA(y, z BFloat16) BFloat16 {
	return ToBFloat16(fmaOdd(x.Float32(), y.Float32(), z.Float32()))
}

// String is x as a float32.
func (x Float16) String() string { return strconv.FormatFloat(float64(x.Float32()), 'g', -1, 32) }

// String is x as a float32.
func (x BFloat16) String() string { return strconv.FormatFloat(float64(x.Float32()), 'g', -1, 32) }

// odd32 rounds x to float32 so that a second rounding, to fewer bits, gives what one rounding of x gives. Where x is
// none, it is to the neighbour whose last bit is set.
func odd32(x float64) float32 {
	f := float32(x)
	b, d := math.Float32bits(f), float64(f)
	if d != x && b&1 == 0 && x == x {
		if math.Abs(d) < math.Abs(x) {
			b++
		} else {
			b--
		}
	}
	return math.Float32frombits(b)
}

// fmaOdd is x*y+z, rounded as by odd32. The product has to be exact in float64.
func fmaOdd(x, y, z float32) float32 {
	p, q := float64(x)*float64(y), float64(z)
	return odd32(sumOdd(p, q, p+q))
}

// sumOdd is p+q, whose nearest float64 is s, rounded to the neighbour whose last bit is set where s is not exact.
func sumOdd(p, q, s float64) float64 {
	b := math.Float64bits(s)
	d := s - p
	if e := (p - (s - d)) + (q - d); e != 0 && e == e && b&1 == 0 {
		if (e > 0) == (s > 0) {
			b++
		} else {
			b--
		}
	}
	return math.Float64frombits(b)
}
