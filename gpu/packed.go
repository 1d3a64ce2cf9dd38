package gpu

// Float16x2 and BFloat16x2 are two floats of 16 bits in one register. A GPU computes both with one instruction, where it has
// one for a float of 16 bits. [View] makes a slice of them of one of Float16, and View[[4]Float16x2] loads 16 bytes at once.
type (
	Float16x2  struct{ bits uint32 }
	BFloat16x2 struct{ bits uint32 }
)

// ToFloat16x2 rounds two numbers. It is one instruction from sm_80 on.
func ToFloat16x2(low, high float32) Float16x2 { return Float16x2{PackHalves[Float16](low, high)} }

// ToBFloat16x2 rounds two numbers. It is one instruction from sm_80 on.
func ToBFloat16x2(low, high float32) BFloat16x2 { return BFloat16x2{PackHalves[BFloat16](low, high)} }

// Low is the first of the two: of a slice, that with the even index.
func (x Float16x2) Low() Float16 { return Float16{uint16(x.bits)} }

// High is the second of the two.
func (x Float16x2) High() Float16 { return Float16{uint16(x.bits >> 16)} }

// Low is the first of the two: of a slice, that with the even index.
func (x BFloat16x2) Low() BFloat16 { return BFloat16{uint16(x.bits)} }

// High is the second of the two.
func (x BFloat16x2) High() BFloat16 { return BFloat16{uint16(x.bits >> 16)} }

// Float32 is both, exactly.
func (x Float16x2) Float32() (low, high float32) { return x.Low().Float32(), x.High().Float32() }

// Float32 is both, exactly.
func (x BFloat16x2) Float32() (low, high float32) { return x.Low().Float32(), x.High().Float32() }

func packFloat16(low, high Float16) Float16x2 {
	return Float16x2{uint32(low.bits) | uint32(high.bits)<<16}
}

func packBFloat16(low, high BFloat16) BFloat16x2 {
	return BFloat16x2{uint32(low.bits) | uint32(high.bits)<<16}
}

// Add is x+y, each rounded once.
func (x Float16x2) Add(y Float16x2) Float16x2 {
	return packFloat16(x.Low().Add(y.Low()), x.High().Add(y.High()))
}

// Sub is x-y, each rounded once.
func (x Float16x2) Sub(y Float16x2) Float16x2 {
	return packFloat16(x.Low().Sub(y.Low()), x.High().Sub(y.High()))
}

// Mul is x*y, each rounded once.
func (x Float16x2) Mul(y Float16x2) Float16x2 {
	return packFloat16(x.Low().Mul(y.Low()), x.High().Mul(y.High()))
}

// FMA is x*y+z, each rounded once.
func (x Float16x2) FMA(y, z Float16x2) Float16x2 {
	return packFloat16(x.Low().FMA(y.Low(), z.Low()), x.High().FMA(y.High(), z.High()))
}

// Add is x+y, each rounded once.
func (x BFloat16x2) Add(y BFloat16x2) BFloat16x2 {
	return packBFloat16(x.Low().Add(y.Low()), x.High().Add(y.High()))
}

// Sub is x-y, each rounded once.
func (x BFloat16x2) Sub(y BFloat16x2) BFloat16x2 {
	return packBFloat16(x.Low().Sub(y.Low()), x.High().Sub(y.High()))
}

// Mul is x*y, each rounded once.
func (x BFloat16x2) Mul(y BFloat16x2) BFloat16x2 {
	return packBFloat16(x.Low().Mul(y.Low()), x.High().Mul(y.High()))
}

// FMA is x*y+z, each rounded once.
func (x BFloat16x2) FMA(y, z BFloat16x2) BFloat16x2 {
	return packBFloat16(x.Low().FMA(y.Low(), z.Low()), x.High().FMA(y.High(), z.High()))
}
