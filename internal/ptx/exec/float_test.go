package exec

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// refFormat is an independent model of a floating-point format: exact numbers are
// big.Float, rounding is that of an integer multiple of a power of two.
type refFormat struct {
	bits, exp, man int
	nan            uint64
}

var (
	ref16  = refFormat{16, 5, 10, 0x7fff}
	refB16 = refFormat{16, 8, 7, 0x7fff}
	ref32  = refFormat{32, 8, 23, 0x7fffffff}
	ref64  = refFormat{64, 11, 52, 0x7ff8000000000000}
)

func (f refFormat) bias() int { return 1<<(f.exp-1) - 1 }

// value reads bits: the number, or its class.
func (f refFormat) value(v uint64) (x *big.Float, inf, nan, neg bool) {
	neg = v>>(f.bits-1)&1 != 0
	e := int(v >> f.man & (1<<f.exp - 1))
	m := v & (1<<f.man - 1)
	if e == 1<<f.exp-1 {
		return new(big.Float), m == 0, m != 0, neg
	}
	if e == 0 {
		e = 1
	} else {
		m |= 1 << f.man
	}
	x = new(big.Float).SetMantExp(new(big.Float).SetUint64(m), e-f.bias()-f.man)
	if neg {
		x.Neg(x)
	}
	return x, false, false, neg
}

// round returns the bits of an exact number that is not zero, or of zero with a sign.
func (f refFormat) round(x *big.Float, mode string, zeroNeg bool) uint64 {
	neg := x.Sign() < 0
	if x.Sign() == 0 {
		neg = zeroNeg
	}
	sign := uint64(b2i(neg)) << (f.bits - 1)
	if x.Sign() == 0 {
		return sign
	}
	abs := new(big.Float).SetPrec(5000).Abs(x)
	q := max(abs.MantExp(nil)-1, 1-f.bias()) - f.man // exponent of the last place
	scaled := new(big.Float).SetPrec(5000).SetMantExp(abs, -q)
	n, acc := scaled.Int(nil)
	if acc != big.Exact {
		rest := new(big.Float).SetPrec(5000).Sub(scaled, new(big.Float).SetPrec(5000).SetInt(n))
		c := rest.Cmp(big.NewFloat(0.5))
		up := false
		switch mode {
		case "rn":
			up = c > 0 || c == 0 && n.Bit(0) == 1
		case "rp":
			up = !neg
		case "rm":
			up = neg
		}
		if up {
			n.Add(n, big.NewInt(1))
		}
	}
	top := new(big.Float).SetMantExp(big.NewFloat(1), f.bias()+1)
	if new(big.Float).SetPrec(5000).SetMantExp(new(big.Float).SetPrec(5000).SetInt(n), q).Cmp(top) >= 0 {
		inf := uint64(1<<f.exp-1) << f.man
		if mode == "rz" || mode == "rm" && !neg || mode == "rp" && neg {
			return sign | (inf - 1)
		}
		return sign | inf
	}
	m := n.Uint64()
	if m>>f.man == 0 {
		return sign | m
	}
	for m>>(f.man+1) != 0 {
		m >>= 1
		q++
	}
	return sign | uint64(q+f.man+f.bias())<<f.man | m&(1<<f.man-1)
}

// op computes a op b (op c) exactly and rounds.
func (f refFormat) op(op, mode string, a, b, c uint64) (r uint64, isNaN bool) {
	x, xi, xn, xs := f.value(a)
	y, yi, yn, ys := f.value(b)
	z, zi, zn, zs := f.value(c)
	inf := func(neg bool) (uint64, bool) {
		return uint64(b2i(neg))<<(f.bits-1) | uint64(1<<f.exp-1)<<f.man, false
	}
	big0 := func() *big.Float { return new(big.Float).SetPrec(5000) }
	sumZero := func(s1, s2 bool) bool { return s1 && s2 || s1 != s2 && mode == "rm" }
	switch op {
	case "sub":
		if !yn {
			return f.op("add", mode, a, b^1<<(f.bits-1), 0)
		}
		return 0, true
	case "add":
		switch {
		case xn || yn || xi && yi && xs != ys:
			return 0, true
		case xi:
			return inf(xs)
		case yi:
			return inf(ys)
		}
		s := big0().Add(x, y)
		zero := sumZero(xs, ys)
		if x.Sign() != 0 {
			zero = mode == "rm"
		}
		return f.round(s, mode, zero), false
	case "mul":
		switch {
		case xn || yn || xi && y.Sign() == 0 && !yi || yi && x.Sign() == 0 && !xi:
			return 0, true
		case xi || yi:
			return inf(xs != ys)
		}
		return f.round(big0().Mul(x, y), mode, xs != ys), false
	case "div":
		switch {
		case xn || yn || xi && yi || !xi && !yi && x.Sign() == 0 && y.Sign() == 0:
			return 0, true
		case xi || !yi && y.Sign() == 0:
			return inf(xs != ys)
		case yi:
			return f.round(big0(), mode, xs != ys), false
		}
		return f.round(big0().Quo(x, y), mode, xs != ys), false
	case "sqrt":
		switch {
		case xn || xs && (xi || x.Sign() != 0):
			return 0, true
		case xi:
			return inf(false)
		case x.Sign() == 0:
			return a, false
		}
		return f.round(big0().Sqrt(x), mode, false), false
	default: // fma
		ps := xs != ys
		switch {
		case xn || yn || zn || xi && y.Sign() == 0 && !yi || yi && x.Sign() == 0 && !xi:
			return 0, true
		case xi || yi:
			if zi && zs != ps {
				return 0, true
			}
			return inf(ps)
		case zi:
			return inf(zs)
		}
		p := big0().Mul(x, y)
		zero := mode == "rm"
		if p.Sign() == 0 && z.Sign() == 0 {
			zero = sumZero(ps, zs)
		}
		return f.round(big0().Add(p, z), mode, zero), false
	}
}

func (f refFormat) inputs(n int) [][3]uint64 {
	r := rand.New(rand.NewPCG(11, uint64(f.exp)))
	inf := uint64(1<<f.exp-1) << f.man
	one := uint64(f.bias()) << f.man
	special := []uint64{
		0, 1, 2, 1 << f.man, 1<<f.man - 1, 1<<f.man + 1, inf - 1, inf, inf | 1<<(f.man-1), one, one + 1, one - 1, one + 1<<f.man, one - 1<<f.man,
	}
	pick := func() uint64 {
		sign := uint64(r.IntN(2)) << (f.bits - 1)
		switch r.IntN(5) {
		case 0:
			return sign | special[r.IntN(len(special))]
		case 1: // near one, few bits
			return sign | (one + uint64(r.IntN(4)-2)<<f.man | uint64(r.IntN(16))<<(f.man-4))
		case 2: // near one
			return sign | (one + uint64(r.IntN(8)-4)<<f.man | r.Uint64()&(1<<f.man-1))
		}
		return r.Uint64() & widthMask(f.bits)
	}
	var rows [][3]uint64
	for _, a := range special {
		for _, b := range special {
			rows = append(rows, [3]uint64{a, b, pick()}, [3]uint64{a | 1<<(f.bits-1), b, pick()},
				[3]uint64{a, b | 1<<(f.bits-1), pick()})
		}
	}
	for range n {
		rows = append(rows, [3]uint64{pick(), pick(), pick()})
	}
	// Products that are a tie which c breaks: (1+2^-k)^2 with k = (man+1)/2.
	for k := f.man / 2; k <= f.man/2+1; k++ {
		x := one | 1<<(f.man-k)
		for _, c := range []uint64{0, 1, 2, 1 << f.man} {
			rows = append(rows, [3]uint64{x, x, c}, [3]uint64{x, x, c | 1<<(f.bits-1)}, [3]uint64{x | 1, x, c}, [3]uint64{x, x | 1<<(f.bits-1), c})
		}
	}
	// Sums that cancel or lie just beside a tie.
	for range n / 4 {
		a := pick()
		rows = append(rows, [3]uint64{a, a ^ 1<<(f.bits-1), pick()}, [3]uint64{a, one, a ^ 1<<(f.bits-1)}, [3]uint64{a, one + 1, a ^ 1<<(f.bits-1)})
	}
	return rows
}

func TestFloatRounding(t *testing.T) {
	for _, c := range []struct {
		name  string
		f     refFormat
		modes []string
		ops   []string
	}{
		{"f32", ref32, []string{"rn", "rz", "rm", "rp"}, []string{"add", "sub", "mul", "fma", "div", "sqrt"}},
		{"f64", ref64, []string{"rn", "rz", "rm", "rp"}, []string{"add", "sub", "mul", "fma", "div", "sqrt"}},
		{"f16", ref16, []string{"rn"}, []string{"add", "sub", "mul", "fma"}},
		{"bf16", refB16, []string{"rn"}, []string{"add", "sub", "mul", "fma"}},
	} {
		rows := c.f.inputs(600)
		for _, mode := range c.modes {
			for _, op := range c.ops {
				w := fmt.Sprint(c.f.bits)
				code := fmt.Sprintf("%s.%s.%s %%d, %%a, %%b;", op, mode, c.name)
				width := w + " " + w + " " + w
				switch op {
				case "fma":
					code = fmt.Sprintf("fma.%s.%s %%d, %%a, %%b, %%c;", mode, c.name)
					width += " " + w
				case "sqrt":
					code = fmt.Sprintf("sqrt.%s.%s %%d, %%a;", mode, c.name)
					width = w + " " + w
				}
				got, _ := runOp(t, code, width, rows)
				for i, r := range rows {
					a, b, z := r[0], r[1], r[2]
					want, nan := c.f.op(op, mode, a, b, z)
					if nan {
						_, _, isNaN, _ := c.f.value(got[i])
						require.True(t, isNaN, "%s a=%#x b=%#x c=%#x: got %#x, want NaN", code, a, b, z, got[i])
						if c.f.bits != 64 {
							require.Equal(t, c.f.nan, got[i])
						}
						continue
					}
					if want != got[i] {
						require.Failf(t, "wrong", "%s a=%#x b=%#x c=%#x: got %#x, want %#x", code, a, b, z, got[i], want)
					}
				}
			}
		}
	}
}

// TestFloatModifiers spells out single cases of .ftz, .sat, .relu, min, max, ...
func TestFloatModifiers(t *testing.T) {
	const (
		one, two, half, neg1 = 0x3f800000, 0x40000000, 0x3f000000, 0xbf800000
		tiny, negTiny        = 0x00000123, 0x80000123
		inf, negInf, nan     = 0x7f800000, 0xff800000, 0x7fc00001
		negZero              = 0x80000000
		h1, h2, hNeg         = 0x3c00, 0x4000, 0xbc00
	)
	for _, c := range []struct {
		code    string
		width   string
		a, b, c uint64
		want    uint64
	}{
		{"add.ftz.f32 %d, %a, %b;", "32 32 32", tiny, tiny, 0, 0},
		{"add.f32 %d, %a, %b;", "32 32 32", tiny, tiny, 0, 0x246},
		{"mul.ftz.f32 %d, %a, %b;", "32 32 32", negTiny, one, 0, negZero},
		{"add.sat.f32 %d, %a, %b;", "32 32 32", one, one, 0, one},
		{"sub.sat.f32 %d, %a, %b;", "32 32 32", half, one, 0, 0},
		{"add.sat.f32 %d, %a, %b;", "32 32 32", nan, one, 0, 0},
		{"add.f32 %d, %a, %b;", "32 32 32", nan, one, 0, nan32},
		{"min.f32 %d, %a, %b;", "32 32 32", nan, one, 0, one},
		{"min.NaN.f32 %d, %a, %b;", "32 32 32", nan, one, 0, nan32},
		{"max.f32 %d, %a, %b;", "32 32 32", nan, nan, 0, nan32},
		{"min.f32 %d, %a, %b;", "32 32 32", 0, negZero, 0, negZero},
		{"max.f32 %d, %a, %b;", "32 32 32", negZero, 0, 0, 0},
		{"max.ftz.f32 %d, %a, %b;", "32 32 32", tiny, negTiny, 0, 0},
		{"max.xorsign.abs.f32 %d, %a, %b;", "32 32 32", 0xc0000000, one, 0, 0xc0000000},
		{"min.f32 %d, %a, %b, %c;", "32 32 32 32", two, one, half, half},
		{"min.f64 %d, %a, %b;", "64 64 64", 0x7ff8000000000000, 0x3ff0000000000000, 0, 0x3ff0000000000000},
		{"max.f16 %d, %a, %b;", "16 16 16", 0x7e00, h1, 0, h1},
		{"max.NaN.f16x2 %d, %a, %b;", "32 32 32", 0x7e003c00, 0x3c004000, 0, 0x7fff4000},
		{"min.bf16x2 %d, %a, %b;", "32 32 32", 0x3f803f80, 0x40003f00, 0, 0x3f803f00},
		{"fma.rn.relu.f16 %d, %a, %b, %c;", "16 16 16 16", h1, hNeg, 0, 0},
		{"fma.rn.f16x2 %d, %a, %b, %c;", "32 32 32 32", 0x3c004000, 0x40004000, 0x3c003c00, 0x42004500},
		{"fma.rn.sat.f16 %d, %a, %b, %c;", "16 16 16 16", h2, h2, 0, h1},
		{"add.bf16x2 %d, %a, %b;", "32 32 32", 0x3f803f80, 0x3f804000, 0, 0x40004040},
		{"neg.f32 %d, %a;", "32 32", nan, 0, 0, nan | 1<<31},
		{"abs.ftz.f32 %d, %a;", "32 32", negTiny, 0, 0, 0},
		{"neg.f16x2 %d, %a;", "32 32", 0x3c00bc00, 0, 0, 0xbc003c00},
		{"copysign.f32 %d, %a, %b;", "32 32 32", negZero, one, 0, neg1},
		{"div.approx.f32 %d, %a, %b;", "32 32 32", one, 0x7f000001, 0, 0},
		{"div.full.f32 %d, %a, %b;", "32 32 32", one, two, 0, half},
		{"rcp.approx.f32 %d, %a;", "32 32", negZero, 0, 0, negInf},
		{"rcp.approx.ftz.f32 %d, %a;", "32 32", tiny, 0, 0, inf},
		{"rsqrt.approx.f32 %d, %a;", "32 32", negZero, 0, 0, negInf},
		{"rsqrt.approx.f32 %d, %a;", "32 32", neg1, 0, 0, nan32},
		{"sqrt.approx.f32 %d, %a;", "32 32", negZero, 0, 0, negZero},
		{"ex2.approx.f32 %d, %a;", "32 32", negInf, 0, 0, 0},
		{"ex2.approx.ftz.f32 %d, %a;", "32 32", tiny, 0, 0, one},
		{"lg2.approx.f32 %d, %a;", "32 32", 0, 0, 0, negInf},
		{"lg2.approx.f32 %d, %a;", "32 32", neg1, 0, 0, nan32},
		{"tanh.approx.f32 %d, %a;", "32 32", negInf, 0, 0, neg1},
		{"ex2.approx.ftz.bf16 %d, %a;", "16 16", 0x3f80, 0, 0, 0x4000},
		{"rcp.approx.ftz.f64 %d, %a;", "64 64", 0x4000000000000000, 0, 0, 0x3fe0000000000000},
		{"testp.subnormal.f32 %p, %a; selp.u32 %d, 1, 0, %p;", "32 32", tiny, 0, 0, 1},
		{"testp.notanumber.f32 %p, %a; selp.u32 %d, 1, 0, %p;", "32 32", nan, 0, 0, 1},
		{"testp.infinite.f64 %p, %a; selp.u32 %d, 1, 0, %p;", "32 64", 0xfff0000000000000, 0, 0, 1},
		{"setp.lt.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", "32 32 32", nan, one, 0, 0},
		{"setp.ltu.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", "32 32 32", nan, one, 0, 1},
		{"setp.neu.f64 %p, %a, %b; selp.u32 %d, 1, 0, %p;", "32 64 64", 0x7ff8000000000000, 0, 0, 1},
		{"setp.num.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", "32 32 32", nan, one, 0, 0},
		{"setp.eq.ftz.f32 %p, %a, %b; selp.u32 %d, 1, 0, %p;", "32 32 32", tiny, negTiny, 0, 1},
		{"setp.gt.f16x2 %p|%q, %a, %b; selp.u32 %d, 1, 0, %p; @%q add.u32 %d, %d, 2;", "32 32 32", 0x3c004000, 0x40003c00, 0, 1},
		{"set.eq.f16x2.f16x2 %d, %a, %b;", "32 32 32", 0x3c004000, 0x3c003c00, 0, 0x3c000000},
		{"set.gtu.u32.f16x2 %d, %a, %b;", "32 32 32", 0x7e004000, 0x3c004000, 0, 0xffff0000},
		{"slct.f32.f32 %d, %a, %b, %c;", "32 32 32 32", one, two, negZero, one},
		{"slct.f32.f32 %d, %a, %b, %c;", "32 32 32 32", one, two, nan, two},
		{"mov.f32 %d, 0f3FC00000;", "32 32", 0, 0, 0, 0x3fc00000},
		{"add.f32 %d, %a, 1.5;", "32 32", one, 0, 0, 0x40200000},
		{"add.f64 %d, %a, -0d3FF0000000000000;", "64 64", 0x4000000000000000, 0, 0, 0x3ff0000000000000},
		{"add.f16 %d, %a, 0x3C00;", "16 16", h1, 0, 0, h2},
	} {
		got, _ := runOp(t, c.code, c.width, [][3]uint64{{c.a, c.b, c.c}})
		require.Equal(t, c.want, got[0], "%s a=%#x b=%#x c=%#x: got %#x, want %#x", c.code, c.a, c.b, c.c, got[0], c.want)
	}
}

// TestApproximations checks the errors that PTX states.
func TestApproximations(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 13))
	for _, c := range []struct {
		op     string
		lo, hi float64
		f      func(float64) float64
		abs    float64
		rel    float64
	}{
		{"sin.approx.f32", -math.Pi, math.Pi, math.Sin, math.Exp2(-20.5), 0},
		{"cos.approx.f32", -math.Pi, math.Pi, math.Cos, math.Exp2(-20.5), 0},
		{"ex2.approx.f32", -100, 100, math.Exp2, 0, math.Exp2(-22)},
		{"lg2.approx.f32", 0.01, 100, math.Log2, math.Exp2(-22), math.Exp2(-22)},
		{"tanh.approx.f32", -4, 4, math.Tanh, 0, math.Exp2(-11)},
		{"rcp.approx.f32", 0.01, 100, func(x float64) float64 { return 1 / x }, 0, math.Exp2(-23)},
		{"rsqrt.approx.f32", 0.01, 100, func(x float64) float64 { return 1 / math.Sqrt(x) }, 0, math.Exp2(-22.9)},
		{"sqrt.approx.f32", 0.01, 100, math.Sqrt, 0, math.Exp2(-23)},
	} {
		var rows [][3]uint64
		for range 500 {
			x := float32(c.lo + r.Float64()*(c.hi-c.lo))
			rows = append(rows, [3]uint64{uint64(math.Float32bits(x))})
		}
		got, _ := runOp(t, c.op+" %d, %a;", "32 32", rows)
		for i := range rows {
			x, y := f32(rows[i][0]), f32(got[i])
			want := c.f(x)
			require.LessOrEqual(t, math.Abs(y-want), c.abs+c.rel*math.Abs(want), "%s(%v) = %v, want %v", c.op, x, y, want)
		}
	}
}

func TestConversions(t *testing.T) {
	for _, c := range []struct {
		code    string
		width   string
		a, b    uint64
		want    uint64
		comment string
	}{
		{"cvt.rzi.s32.f32 %d, %a;", "32 32", 0xc0200000, 0, 0xfffffffe, "-2.5"},
		{"cvt.rni.s32.f32 %d, %a;", "32 32", 0xc0200000, 0, 0xfffffffe, "ties to even"},
		{"cvt.rmi.s32.f32 %d, %a;", "32 32", 0xc0200000, 0, 0xfffffffd, ""},
		{"cvt.rpi.s32.f32 %d, %a;", "32 32", 0xc0200000, 0, 0xfffffffe, ""},
		{"cvt.rzi.u32.f32 %d, %a;", "32 32", 0xc0200000, 0, 0, "negative to unsigned"},
		{"cvt.rzi.s32.f32 %d, %a;", "32 32", 0x4f800000, 0, 0x7fffffff, "2^32"},
		{"cvt.rzi.s32.f32 %d, %a;", "32 32", 0xff800000, 0, 0x80000000, "-inf"},
		{"cvt.rzi.s32.f32 %d, %a;", "32 32", 0x7fc00000, 0, 0, "NaN"},
		{"cvt.rzi.s64.f32 %d, %a;", "64 32", 0x7fc00000, 0, 1 << 63, "NaN"},
		{"cvt.rzi.u64.f64 %d, %a;", "64 64", 0x43e8000000000000, 0, 0xc000000000000000, "1.5 * 2^63"},
		{"cvt.rzi.u64.f64 %d, %a;", "64 64", 0x4400000000000000, 0, math.MaxUint64, "2^65"},
		{"cvt.rzi.u8.f32 %d, %a;", "32 32", 0x43ff0000, 0, 255, "510"},
		{"cvt.rzi.s8.f32 %d, %a;", "32 32", 0xc3800000, 0, 0xffffff80, "-256 sign-extended"},
		{"cvt.rn.f32.s32 %d, %a;", "32 32", 0x7fffffff, 0, 0x4f000000, ""},
		{"cvt.rz.f32.s32 %d, %a;", "32 32", 0x7fffffff, 0, 0x4effffff, ""},
		{"cvt.rm.f32.s32 %d, %a;", "32 32", 0x80000001, 0, 0xcf000000, ""},
		{"cvt.rn.f32.u64 %d, %a;", "32 64", 1<<63 | 1<<39 | 1, 0, 0x5f000001, "no double rounding"},
		{"cvt.rn.f64.u64 %d, %a;", "64 64", math.MaxUint64, 0, 0x43f0000000000000, ""},
		{"cvt.rz.f64.u64 %d, %a;", "64 64", math.MaxUint64, 0, 0x43efffffffffffff, ""},
		{"cvt.rm.f64.s64 %d, %a;", "64 64", 1<<63 + 1, 0, 0xc3e0000000000000, ""},
		{"cvt.rn.f16.f32 %d, %a;", "16 32", 0x477ff000, 0, 0x7c00, "65520 overflows"},
		{"cvt.rz.f16.f32 %d, %a;", "16 32", 0x477ff000, 0, 0x7bff, ""},
		{"cvt.rn.satfinite.f16.f32 %d, %a;", "16 32", 0x477ff000, 0, 0x7bff, ""},
		{"cvt.rn.f16.f32 %d, %a;", "16 32", 0x33000001, 0, 0x0001, "just above half the smallest"},
		{"cvt.rn.f16.f32 %d, %a;", "16 32", 0x33000000, 0, 0x0000, "half the smallest"},
		{"cvt.f32.f16 %d, %a;", "32 16", 0x0001, 0, 0x33800000, ""},
		{"cvt.f32.f16 %d, %a;", "32 16", 0xfc00, 0, 0xff800000, ""},
		{"cvt.f32.bf16 %d, %a;", "32 16", 0x3f80, 0, 0x3f800000, ""},
		{"cvt.rn.bf16.f32 %d, %a;", "16 32", 0x3f808000, 0, 0x3f80, "tie"},
		{"cvt.rn.relu.bf16.f32 %d, %a;", "16 32", 0xbf808000, 0, 0, ""},
		{"cvt.rna.tf32.f32 %d, %a;", "32 32", 0x3f801000, 0, 0x3f802000, "tie away"},
		{"cvt.rn.f16x2.f32 %d, %a, %b;", "32 32 32", 0x3f800000, 0x40000000, 0x3c004000, ""},
		{"cvt.rn.bf16x2.f32 %d, %a, %b;", "32 32 32", 0x3f800000, 0x40000000, 0x3f804000, ""},
		{"cvt.rn.satfinite.e4m3x2.f32 %d, %a, %b;", "16 32 32", 0x47000000, 0x3f800000, 0x7e38, ""},
		{"cvt.rn.satfinite.e5m2x2.f32 %d, %a, %b;", "16 32 32", 0xbf800000, 0x3f800000, 0xbc3c, ""},
		{"cvt.rn.f16x2.e4m3x2 %d, %a;", "32 16", 0x7e38, 0, 0x5f003c00, ""},
		{"cvt.rn.f16x2.e5m2x2 %d, %a;", "32 16", 0xbc3c, 0, 0xbc003c00, ""},
		{"cvt.rn.f32.f64 %d, %a;", "32 64", 0x3ff0000010000000, 0, 0x3f800000, "tie to even"},
		{"cvt.rp.f32.f64 %d, %a;", "32 64", 0x3ff0000000000001, 0, 0x3f800001, ""},
		{"cvt.rn.ftz.f32.f64 %d, %a;", "32 64", 0x3690000000000000, 0, 0, "subnormal result"},
		{"cvt.f64.f32 %d, %a;", "64 32", 1, 0, 0x36a0000000000000, ""},
		{"cvt.rmi.f32.f32 %d, %a;", "32 32", 0xbf000000, 0, 0xbf800000, "floor"},
		{"cvt.rni.f64.f64 %d, %a;", "64 64", 0x3fe0000000000000, 0, 0, "0.5 to even"},
		{"cvt.sat.f32.f32 %d, %a;", "32 32", 0x40000000, 0, 0x3f800000, ""},
		{"cvt.sat.u8.s32 %d, %a;", "32 32", 0xfffffff0, 0, 0, ""},
		{"cvt.sat.s8.s32 %d, %a;", "32 32", 0x7fff, 0, 127, ""},
		{"cvt.sat.s16.u32 %d, %a;", "16 32", 0xffffffff, 0, 0x7fff, ""},
		{"cvt.sat.u64.s64 %d, %a;", "64 64", math.MaxUint64, 0, 0, ""},
		{"cvt.u64.u32 %d, %a;", "64 32", 0xffffffff, 0, 0xffffffff, ""},
		{"cvt.s64.s32 %d, %a;", "64 32", 0xffffffff, 0, math.MaxUint64, ""},
		{"cvt.u16.u32 %d, %a;", "16 32", 0x12345, 0, 0x2345, ""},
		{"cvt.u32.u8 %d, %a;", "32 32", 0x1ff, 0, 0xff, ""},
		{"cvt.pack.sat.s16.s32 %d, %a, %b;", "32 32 32", 0x12345, 0xffff0000, 0x7fff8000, ""},
		{"cvt.pack.sat.u8.s32.b32 %d, %a, %b, %a;", "32 32 32", 0x123, 0xffffffff, 0x0123ff00, ""},
	} {
		got, _ := runOp(t, c.code, c.width, [][3]uint64{{c.a, c.b, 0}})
		require.Equal(t, c.want, got[0], "%s of %#x %s: got %#x, want %#x", c.code, c.a, c.comment, got[0], c.want)
	}
}

// TestNarrowFormats packs every value of the narrow formats and the points around and
// between them.
func TestNarrowFormats(t *testing.T) {
	for _, f := range []*format{&fmtF16, &fmtBF16, &fmtE4M3, &fmtE5M2, &fmtTF32} {
		for v := uint64(0); v < f.max; v++ {
			x, y := f.unpack(v), f.unpack(v+1)
			require.Equal(t, v, f.pack(x, rn))
			require.Equal(t, v|f.sign(), f.pack(-x, rz))
			mid := (x + y) / 2
			require.Equal(t, v+v&1, f.pack(mid, rn), "%#x", v)
			require.Equal(t, v+1, f.pack(mid, rna))
			require.Equal(t, v, f.pack(mid, rm))
			require.Equal(t, v+1, f.pack(mid, rp))
			require.Equal(t, v, f.pack(math.Nextafter(mid, 0), rn))
			require.Equal(t, v+1, f.pack(math.Nextafter(mid, 1e300), rn))
			if f.man > 10 && v > 20000 {
				break
			}
		}
	}
}

// TestHalfShortcuts compares the fast conversions of f16 with the general ones.
func TestHalfShortcuts(t *testing.T) {
	for v := range uint64(1 << 16) {
		want := fmtF16.unpack(v)
		require.Equal(t, math.Float64bits(want)|math.Float64bits(f16(v))&b2u(want != want), math.Float64bits(f16(v))|b2u(want != want)&math.Float64bits(want), "%#x", v)
		if want == want && v&0x7fff < 0x7c00 {
			for _, x := range []float64{want, math.Nextafter(want, 1e9), math.Nextafter(want, -1e9), want * (1 + 0x1p-11), want * (1 + 0x3p-12)} {
				if packF16(x) != fmtF16.pack(x, rn) {
					t.Fatalf("%v: %#x, want %#x", x, packF16(x), fmtF16.pack(x, rn))
				}
			}
		}
	}
}

func b2u(b bool) uint64 { return -uint64(b2i(b)) }
