package gpu

import (
	"math"
	"strconv"
)

// Float8E4M3 is a float with 4 bits of exponent and 3 of fraction: up to 448, with no infinity. Float8E5M2 has 5 and 2: up to
// 57344. TF32 is a float32 of which tensor cores read 10 bits of the fraction. Tensor cores multiply them.
type (
	Float8E4M3 struct{ bits uint8 }
	Float8E5M2 struct{ bits uint8 }
	TF32       struct{ bits uint32 }
)

// Float8E4M3FromBits is the Float8E4M3 with these bits.
func Float8E4M3FromBits(bits uint8) Float8E4M3 { return Float8E4M3{bits} }

// Float8E5M2FromBits is the Float8E5M2 with these bits.
func Float8E5M2FromBits(bits uint8) Float8E5M2 { return Float8E5M2{bits} }

// Bits are the bits of x.
func (x Float8E4M3) Bits() uint8 { return x.bits }

// Bits are the bits of x.
func (x Float8E5M2) Bits() uint8 { return x.bits }

// ToFloat8E4M3 rounds x to the nearest Float8E4M3, to the even one in the middle. What is larger than all becomes the largest.
func ToFloat8E4M3(x float32) Float8E4M3 { return Float8E4M3{toFloat8(x, 20, 0x1p-6, 0x7e)} }

// ToFloat8E5M2 rounds x to the nearest Float8E5M2, to the even one in the middle. What is larger than all becomes the largest.
func ToFloat8E5M2(x float32) Float8E5M2 { return Float8E5M2{toFloat8(x, 21, 0x1p-14, 0x7b)} }

// toFloat8 rounds x to a float that leaves the last bits of a float32 out. normal is its least normal number, and
// most are the bits of its largest.
func toFloat8(x float32, bits uint32, normal float32, most uint32) uint8 {
	b := math.Float32bits(x)
	sign := uint8(b >> 24 & 0x80)
	b &^= 1 << 31
	switch {
	case b > 0x7f800000: // a NaN
		return 0x7f
	case b < math.Float32bits(normal): // as those of the next binade
		last := normal * float32(uint32(1)<<bits) // whose last bit is that of ours
		return sign | uint8(math.Float32bits(math.Float32frombits(b)+last)-math.Float32bits(last))
	}
	b += 1<<(bits-1) - 1 + b>>bits&1
	b = b>>bits - math.Float32bits(normal)>>bits + 1<<(23-bits)
	return sign | uint8(min(b, most))
}

// Float32 is x, exactly.
func (x Float8E4M3) Float32() float32 {
	if x.bits&0x7f == 0x7f {
		return math.Float32frombits(0x7fffffff)
	}
	return Float16{uint16(x.bits&0x80)<<8 | uint16(x.bits&0x7f)<<7}.Float32() * 256
}

// Float32 is x, exactly.
func (x Float8E5M2) Float32() float32 { return Float16{uint16(x.bits) << 8}.Float32() }

// String is x as a float32.
func (x Float8E4M3) String() string { return strconv.FormatFloat(float64(x.Float32()), 'g', -1, 32) }

// String is x as a float32.
func (x Float8E5M2) String() string { return strconv.FormatFloat(float64(x.Float32()), 'g', -1, 32) }

// ToTF32 rounds x to the nearest TF32, away from zero in the middle.
func ToTF32(x float32) TF32 {
	b := math.Float32bits(x)
	if b&0x7f800000 == 0x7f800000 {
		return TF32{b}
	}
	return TF32{(b + 0x1000) &^ 0x1fff}
}

// Float32 is x, exactly.
func (x TF32) Float32() float32 { return math.Float32frombits(x.bits) }

// String is x as a float32.
func (x TF32) String() string { return strconv.FormatFloat(float64(x.Float32()), 'g', -1, 32) }
