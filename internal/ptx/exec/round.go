package exec

import (
	"math"
	"math/big"
	"math/bits"
)

// Rounding modes (PTX ISA, "Rounding Modifiers").
type rounding uint8

const (
	rn  rounding = iota // to nearest, ties to even
	rz                  // towards zero
	rm                  // towards minus infinity
	rp                  // towards plus infinity
	rna                 // to nearest, ties away from zero
)

var roundingNames = []string{"rn", "rz", "rm", "rp"}

func roundingOf(name string) rounding {
	switch name {
	case "rz":
		return rz
	case "rm":
		return rm
	case "rp":
		return rp
	case "rna":
		return rna
	}
	return rn
}

// Narrow formats are computed in float64, rounded to odd: the last bit of the float64 is set when
// anything was lost. Such a value still knows on which side of every representable number and every
// tie of a format of up to 51 bits it lies. So one further rounding gives the right result in any
// mode.

// oddFix turns s, the rounded value of s+e, into the value rounded to odd.
func oddFix(s, e float64) float64 {
	b := math.Float64bits(s)
	if e == 0 || b&1 != 0 || b&0x7ff0000000000000 == 0x7ff0000000000000 || e != e {
		return s
	}
	if s == 0 {
		return math.Copysign(math.SmallestNonzeroFloat64, e)
	}
	if (e > 0) == (s > 0) {
		return math.Float64frombits(b + 1)
	}
	return math.Float64frombits(b - 1)
}

// addOdd is a+b rounded to odd (Knuth's TwoSum gives the error exactly).
func addOdd(a, b float64) float64 {
	s := a + b
	bb := s - a
	e := (a - (s - bb)) + (b - bb)
	return oddFix(s, e)
}

// fmaOdd is a*b+c rounded to odd, for a and b whose product is exact in float64.
func fmaOdd(a, b, c float64) float64 { return addOdd(float64(a*b), c) }

// divOdd is a/b rounded to odd for a and b of narrow formats.
func divOdd(a, b float64) float64 {
	q := a / b
	if q == 0 || math.IsInf(q, 0) || q != q {
		return q
	}
	r := math.FMA(-q, b, a) // exact: the remainder is representable
	if b < 0 {
		r = -r
	}
	return oddFix(q, r)
}

// sqrtOdd is the square root rounded to odd for a of a narrow format.
func sqrtOdd(a float64) float64 {
	q := math.Sqrt(a)
	if q == 0 || math.IsInf(q, 0) || q != q {
		return q
	}
	return oddFix(q, math.FMA(-q, q, a))
}

// format is a binary floating-point format of at most 32 bits.
type format struct {
	exp, man uint // bits of exponent and mantissa
	inf      bool // has infinities; e4m3 has none
	nan      uint64
	max      uint64 // largest finite value
}

var (
	fmtF16  = format{5, 10, true, 0x7fff, 0x7bff}
	fmtBF16 = format{8, 7, true, 0x7fff, 0x7f7f}
	fmtTF32 = format{8, 10, true, 0x7fffffff >> 13, 0x3fbff}
	fmtF32  = format{8, 23, true, 0x7fffffff, 0x7f7fffff}
	fmtE4M3 = format{4, 3, false, 0x7f, 0x7e}
	fmtE5M2 = format{5, 2, true, 0x7f, 0x7b}
)

func (f *format) sign() uint64 { return 1 << (f.exp + f.man) }

// unpack returns the value.
func (f *format) unpack(v uint64) float64 {
	bias := 1<<(f.exp-1) - 1
	e := int(v >> f.man & (1<<f.exp - 1))
	m := v & (1<<f.man - 1)
	var x float64
	switch {
	case f.inf && e == 1<<f.exp-1 && m != 0, !f.inf && v&(f.sign()-1) == f.nan:
		return math.NaN()
	case f.inf && e == 1<<f.exp-1:
		x = math.Inf(1)
	case e == 0:
		x = math.Ldexp(float64(m), 1-bias-int(f.man))
	default:
		x = math.Float64frombits(uint64(e-bias+1023)<<52 | m<<(52-f.man))
	}
	if v&f.sign() != 0 {
		x = -x
	}
	return x
}

// pack rounds x, which is exact or rounded to odd, to the format.
func (f *format) pack(x float64, r rounding) uint64 {
	b := math.Float64bits(x)
	var sign uint64
	neg := b>>63 != 0
	if neg {
		sign = f.sign()
	}
	b &^= 1 << 63
	switch {
	case b > 0x7ff<<52:
		return f.nan
	case b == 0x7ff<<52:
		if f.inf {
			return sign | (1<<f.exp-1)<<f.man
		}
		return sign | f.nan
	case b == 0:
		return sign
	}
	e := int(b>>52) - 1023
	m := b & (1<<52 - 1)
	if e == -1023 { // subnormal float64: far below every format here
		e = -1022
	} else {
		m |= 1 << 52
	}
	bias := 1<<(f.exp-1) - 1
	shift := 52 - f.man
	biased := e + bias
	if biased <= 0 { // subnormal in the format
		shift += uint(1 - biased)
		biased = 0
	}
	var q, rest, half uint64
	if shift > 63 {
		q, rest, half = 0, 1, 2
	} else {
		q = m >> shift
		rest = m & (1<<shift - 1)
		half = 1 << (shift - 1)
	}
	up := false
	switch r {
	case rn:
		up = rest > half || rest == half && q&1 != 0
	case rna:
		up = rest >= half
	case rm:
		up = neg && rest != 0
	case rp:
		up = !neg && rest != 0
	}
	if up {
		q++
	}
	// A carry out of the mantissa moves the exponent by itself.
	var v uint64
	if biased == 0 {
		v = q
	} else {
		v = uint64(biased-1)<<f.man + q
	}
	if v > f.max {
		switch {
		case r == rz, r == rm && !neg, r == rp && neg:
			v = f.max
		case f.inf:
			v = (1<<f.exp - 1) << f.man
		default:
			v = f.nan
		}
	}
	return sign | v
}

// packSat is pack with overflow to the largest finite value.
func (f *format) packSat(x float64, r rounding) uint64 {
	v := f.pack(x, r)
	if x == x && v&(f.sign()-1) > f.max {
		v = v&f.sign() | f.max
	}
	return v
}

const nan32 = 0x7fffffff // the NaN of all .f32 results

func f32(v uint64) float64 { return float64(math.Float32frombits(uint32(v))) }
func f64(v uint64) float64 { return math.Float64frombits(v) }

// round32 rounds x, exact or rounded to odd, to float32.
func round32(x float64, r rounding) uint64 {
	if x != x {
		return nan32
	}
	if r == rn {
		return uint64(math.Float32bits(float32(x)))
	}
	return fmtF32.pack(x, r)
}

// direct64 is float64 arithmetic in a directed mode: y is the result rounded to
// nearest, sign the sign of exact-y.
func direct64(y float64, sign int, r rounding) float64 {
	b := math.Float64bits(y)
	switch {
	case sign == 0 || y != y:
		return y
	case math.IsInf(y, 0): // the exact value is finite
		if r == rz || r == rm && y > 0 || r == rp && y < 0 {
			return math.Copysign(math.MaxFloat64, y)
		}
		return y
	case sign > 0 && (r == rp || r == rz && y < 0):
		if y == 0 {
			return math.SmallestNonzeroFloat64
		}
		if y > 0 {
			return math.Float64frombits(b + 1)
		}
		return math.Float64frombits(b - 1)
	case sign < 0 && (r == rm || r == rz && y > 0):
		if y == 0 {
			return -math.SmallestNonzeroFloat64
		}
		if y > 0 {
			return math.Float64frombits(b - 1)
		}
		return math.Float64frombits(b + 1)
	}
	return y
}

func finite(xs ...float64) bool {
	for _, x := range xs {
		if math.IsInf(x, 0) || x != x {
			return false
		}
	}
	return true
}

func exactBig(x float64) *big.Float { return new(big.Float).SetMode(big.ToNearestEven).SetFloat64(x) }

// sum64 is the exact sum, with enough bits for any two doubles or their products.
func sumBig(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(4400).Add(a, b) }

// maxBig stands for infinity in comparisons with exact values.
var maxBig = new(big.Float).SetMantExp(big.NewFloat(1), 5000)

func cmpExact(exact *big.Float, y float64) int {
	if math.IsInf(y, 1) {
		return exact.Cmp(maxBig)
	}
	if math.IsInf(y, -1) {
		return exact.Cmp(new(big.Float).Neg(maxBig))
	}
	return exact.Cmp(exactBig(y))
}

// Directed rounding of float64 is rare in kernels: the sign of the error comes from
// math/big, which allocates.
func add64(a, b float64, r rounding) float64 {
	y := a + b
	if r == rn || !finite(a, b) {
		return y
	}
	if y == 0 && (a != 0 || math.Signbit(a) != math.Signbit(b)) { // x-x is -0 in rm only
		if r == rm {
			return math.Copysign(0, -1)
		}
		return 0
	}
	return direct64(y, cmpExact(sumBig(exactBig(a), exactBig(b)), y), r)
}

func mul64(a, b float64, r rounding) float64 {
	y := a * b
	if r == rn || !finite(a, b) || a == 0 || b == 0 {
		return y
	}
	return direct64(y, cmpExact(new(big.Float).SetPrec(120).Mul(exactBig(a), exactBig(b)), y), r)
}

func fma64(a, b, c float64, r rounding) float64 {
	y := math.FMA(a, b, c)
	if r == rn || !finite(a, b, c) {
		return y
	}
	if a == 0 || b == 0 {
		return add64(a*b, c, r)
	}
	exact := sumBig(new(big.Float).SetPrec(120).Mul(exactBig(a), exactBig(b)), exactBig(c))
	if exact.Sign() == 0 {
		if r == rm {
			return math.Copysign(0, -1)
		}
		return 0
	}
	return direct64(y, cmpExact(exact, y), r)
}

func div64(a, b float64, r rounding) float64 {
	y := a / b
	if r == rn || !finite(a, b) || b == 0 || a == 0 {
		return y
	}
	var sign int
	if math.IsInf(y, 0) {
		sign = -1
		if y < 0 {
			sign = 1
		}
	} else {
		sign = exactBig(a).Cmp(new(big.Float).SetPrec(120).Mul(exactBig(y), exactBig(b)))
		if b < 0 {
			sign = -sign
		}
	}
	return direct64(y, sign, r)
}

func sqrt64(a float64, r rounding) float64 {
	y := math.Sqrt(a)
	if r == rn || y != y || y == 0 || math.IsInf(y, 0) {
		return y
	}
	return direct64(y, exactBig(a).Cmp(new(big.Float).SetPrec(120).Mul(exactBig(y), exactBig(y))), r)
}

// fma32 is fma.f32: a*b is exact in float64; the sum is rounded to odd where rounding
// it twice could go wrong.
func fma32(a, b, c float64) float32 {
	p := float64(a * b)
	s := p + c
	t := math.Float64bits(s)
	if e := t >> 52 & 0x7ff; t&0x1fffffff == 0x10000000 || e < 1023-125 {
		return float32(addOdd(p, c))
	}
	return float32(s)
}

// uintToFloat returns v rounded to odd.
func uintToFloat(v uint64) float64 {
	n := 64 - bits.LeadingZeros64(v)
	if n <= 53 {
		return float64(v)
	}
	s := uint(n - 53)
	q := v >> s
	if v&(1<<s-1) != 0 {
		q |= 1
	}
	return math.Ldexp(float64(q), int(s))
}

func intToFloat(v int64) float64 {
	if v < 0 {
		return -uintToFloat(-uint64(v))
	}
	return uintToFloat(uint64(v))
}
