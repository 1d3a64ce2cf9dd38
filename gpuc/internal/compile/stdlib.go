package compile

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// mathOps are functions of package math that are one instruction.
var mathOps = map[string]struct {
	op string
	k  kind
}{
	"Sqrt": {"sqrt.rn.f64", kF64}, "sqrt": {"sqrt.rn.f64", kF64},
	"Abs":   {"abs.f64", kF64},
	"Floor": {"cvt.rmi.f64.f64", kF64}, "floor": {"cvt.rmi.f64.f64", kF64},
	"Ceil": {"cvt.rpi.f64.f64", kF64}, "ceil": {"cvt.rpi.f64.f64", kF64},
	"Trunc": {"cvt.rzi.f64.f64", kF64}, "trunc": {"cvt.rzi.f64.f64", kF64},
	"RoundToEven": {"cvt.rni.f64.f64", kF64},
	"Float64bits": {"mov.b64", k64}, "Float64frombits": {"mov.b64", kF64},
	"Float32bits": {"mov.b32", k32}, "Float32frombits": {"mov.b32", kF32},
	"FMA": {"fma.rn.f64", kF64},
}

// math is a call of package math that needs no source. All others are compiled from it.
func (k *kctx) math(name string, a []val) (val, bool) {
	if name == "Modf" || name == "modf" {
		whole := k.pure("cvt.rzi.f64.f64", kF64, a[0].String())
		frac := k.pure("sub.rn.f64", kF64, a[0].String(), whole.r)
		p := k.pure("testp.infinite.f64", kPred, k.register(a[0]).r) // of an infinity it is NaN in Go
		nan := cF(kF64, math.NaN())
		frac = k.pure("copysign.f64", kF64, a[0].String(), frac.r)
		return val{k: kAgg, e: []val{whole, k.pure("selp.f64", kF64, nan.String(), frac.r, p.r)}}, true
	}
	op, ok := mathOps[name]
	if !ok {
		return val{}, false
	}
	if a[0].isC && op.op[:4] == "mov." {
		return cst(op.k, a[0].c), true
	}
	if a[0].isC && op.op == "sqrt.rn.f64" {
		return cF(kF64, math.Sqrt(a[0].f())), true
	}
	args := make([]string, len(a))
	for i := range a {
		args[i] = a[i].String()
	}
	return k.pure(op.op, op.k, args...), true
}

// register puts a constant into a register.
func (k *kctx) register(v val) val {
	if !v.isC {
		return v
	}
	if v.k == kPred {
		r := k.reg(kPred)
		k.mov(r, v)
		return r
	}
	return k.pure("mov."+suffix(v.k), v.k, v.String())
}

// low32 is a count of bits, as a register or constant of 32 bits.
func (k *kctx) low32(v val, mask uint64) string {
	if v.isC {
		return fmt.Sprint(v.c & mask)
	}
	if v.k == k32 {
		return v.r
	}
	return k.pure("cvt.u32.u64", k32, v.r).r
}

// count is what a function of package math/bits gives for a constant, where its source reads strings.
func count(name string, x uint64) (val, bool) {
	short, width := strings.TrimRight(name, "0123456789"), 64
	if n, err := strconv.Atoi(name[len(short):]); err == nil {
		width = n
	}
	switch short {
	case "Len":
		return cst(k64, uint64(bits.Len64(x))), true
	case "LeadingZeros":
		return cst(k64, uint64(width-bits.Len64(x))), true
	case "TrailingZeros":
		return cst(k64, uint64(min(width, bits.TrailingZeros64(x)))), true
	case "OnesCount":
		return cst(k64, uint64(bits.OnesCount64(x))), true
	case "Reverse":
		kd := k64
		if width < 64 {
			kd = k32
		}
		return cst(kd, bits.Reverse64(x)>>(64-width)), true
	}
	return val{}, false // the source folds
}

// bits is a call of package math/bits that is an instruction or two. All others are compiled from source.
func (k *kctx) bits(name string, a []val) (val, bool) {
	constant := true
	for _, x := range a {
		constant = constant && x.isC
	}
	if constant {
		return count(name, a[0].c)
	}
	if v, ok := k.rotate(name, a); ok {
		return v, true
	}
	if v, ok := k.carry(name, a); ok {
		return v, true
	}
	for i := range a {
		a[i] = k.register(a[i])
	}
	counts := func(op string, x val) val { return k.pure("cvt.u64.u32", k64, k.pure(op, k32, x.r).r) }
	x := a[0]
	switch name {
	case "ReverseBytes32":
		return k.pure("prmt.b32", k32, x.r, "0", "291"), true
	case "ReverseBytes16":
		return k.pure("prmt.b32", k32, x.r, "0", "17409"), true
	case "ReverseBytes64", "ReverseBytes":
		lo, hi := k.halves(x)
		high, low := k.pure("prmt.b32", k32, lo, "0", "291"), k.pure("prmt.b32", k32, hi, "0", "291")
		return k.pure("mov.b64", k64, "{"+low.r+", "+high.r+"}"), true
	case "Reverse32":
		return k.pure("brev.b32", k32, x.r), true
	case "Reverse64", "Reverse":
		return k.pure("brev.b64", k64, x.r), true
	case "Reverse8":
		return k.pure("shr.u32", k32, k.pure("brev.b32", k32, x.r).r, "24"), true
	case "Reverse16":
		return k.pure("shr.u32", k32, k.pure("brev.b32", k32, x.r).r, "16"), true
	case "LeadingZeros8":
		return k.pure("sub.s64", k64, counts("clz.b32", x).r, "24"), true
	case "LeadingZeros16":
		return k.pure("sub.s64", k64, counts("clz.b32", x).r, "16"), true
	case "TrailingZeros8":
		return counts("clz.b32", k.pure("brev.b32", k32, k.pure("or.b32", k32, x.r, "256").r)), true
	case "TrailingZeros16":
		return counts("clz.b32", k.pure("brev.b32", k32, k.pure("or.b32", k32, x.r, "65536").r)), true
	case "OnesCount8", "OnesCount16", "OnesCount32":
		return counts("popc.b32", x), true
	case "OnesCount64", "OnesCount":
		return counts("popc.b64", x), true
	case "LeadingZeros32":
		return counts("clz.b32", x), true
	case "LeadingZeros64", "LeadingZeros":
		return counts("clz.b64", x), true
	case "Len8", "Len16", "Len32":
		return k.pure("sub.s64", k64, "32", counts("clz.b32", x).r), true
	case "Len64", "Len":
		return k.pure("sub.s64", k64, "64", counts("clz.b64", x).r), true
	case "TrailingZeros32":
		return counts("clz.b32", k.pure("brev.b32", k32, x.r)), true
	case "TrailingZeros64", "TrailingZeros":
		return counts("clz.b64", k.pure("brev.b64", k64, x.r)), true
	case "Mul64", "Mul":
		if a[1].r < x.r { // so that x*y and y*x are one
			x, a[1] = a[1], x
		}
		return val{k: kAgg, e: []val{k.pure("mul.hi.u64", k64, x.r, a[1].r), k.pure("mul.lo.u64", k64, x.r, a[1].r)}}, true
	}
	return val{}, false
}
