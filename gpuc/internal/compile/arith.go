package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"math"
	"math/bits"
)

var cmpName = map[token.Token]string{token.EQL: "eq", token.NEQ: "ne", token.LSS: "lt", token.LEQ: "le", token.GTR: "gt", token.GEQ: "ge"}

// narrow brings a register to the form of an 8- or 16-bit type.
func (k *kctx) narrow(b *types.Basic, v val) val {
	if v.isC {
		return cst(v.k, norm(b, v.c))
	}
	switch b.Kind() {
	case types.Uint8:
		return k.pure("and.b32", k32, v.r, "255")
	case types.Uint16:
		return k.pure("and.b32", k32, v.r, "65535")
	case types.Int8:
		return k.pure("cvt.s32.s8", k32, v.r)
	case types.Int16:
		return k.pure("cvt.s32.s16", k32, v.r)
	}
	return v
}

// bin is an operation on two values.
func (k *kctx) bin(op token.Token, xb, yb *types.Basic, x, y val, pos token.Pos) val {
	if x.isC && y.isC {
		if v, ok := fold(op, xb, yb, x, y); ok {
			return v
		}
	}
	sum := k.sum(op, x, y)
	v, ok := k.known(sum)
	if !ok && op == token.MUL {
		v, ok = k.apart(sum)
	}
	if !ok {
		v = k.operate(op, xb, yb, x, y, pos)
	}
	if hi, ok := k.resultBound(op, xb, x, y); ok && (v.k == k32 || v.k == k64) && !v.isC {
		v = bounded(xb, v, hi)
	}
	return k.keep(v, sum)
}

// operate writes an operation on two values.
func (k *kctx) operate(op token.Token, xb, yb *types.Basic, x, y val, pos token.Pos) val {
	t := num(xb)
	if name, ok := cmpName[op]; ok {
		switch {
		case x.k == kPred:
			if x.isC || y.isC {
				c, r := x, y
				if y.isC {
					c, r = y, x
				}
				if (c.c != 0) == (op == token.EQL) {
					return r
				}
				return k.pure("not.pred", kPred, r.r)
			}
			v := k.pure("xor.pred", kPred, x.r, y.r)
			if op == token.EQL {
				return k.pure("not.pred", kPred, v.r)
			}
			return v
		case isFloat(x.k) && op == token.NEQ:
			name = "neu"
		}
		if x.k == kPtr || x.k == kAgg || x.k == kNone {
			k.fail(pos, "a kernel compares numbers and bools: compare the fields, or an index in place of a pointer")
		}
		return k.pure("setp."+name+"."+t, kPred, x.String(), y.String())
	}
	if isFloat(x.k) {
		switch op {
		case token.ADD:
			return k.pure("add.rn."+t, x.k, x.String(), y.String())
		case token.SUB:
			return k.pure("sub.rn."+t, x.k, x.String(), y.String())
		case token.MUL:
			return k.pure("mul.rn."+t, x.k, x.String(), y.String())
		case token.QUO:
			return k.pure("div.rn."+t, x.k, x.String(), y.String())
		}
	}
	w := "b32"
	if x.k == k64 {
		w = "b64"
	}
	// what changes nothing
	if y.isC {
		switch {
		case y.c == 0 && (op == token.ADD || op == token.SUB || op == token.OR || op == token.XOR || op == token.SHL || op == token.SHR):
			return x
		case y.c == 1 && (op == token.MUL || op == token.QUO):
			return x
		case y.c == 0 && (op == token.MUL || op == token.AND):
			return y
		}
	}
	if x.isC && x.c == 0 && (op == token.MUL || op == token.AND) {
		return x
	}
	if x.isC && x.c == 0 && (op == token.ADD || op == token.OR || op == token.XOR) {
		return y
	}
	switch op {
	case token.ADD:
		return k.narrow(xb, k.pure("add."+t, x.k, x.String(), y.String()))
	case token.SUB:
		if y.isC {
			return k.narrow(xb, k.pure("add."+t, x.k, x.String(), cst(x.k, norm(xb, -y.c)).String()))
		}
		if x.isC && x.c == 0 {
			return k.negate(xb, y)
		}
		return k.narrow(xb, k.pure("sub."+t, x.k, x.String(), y.String()))
	case token.MUL:
		if x.isC {
			x, y = y, x
		}
		if y.isC && (x.k == k32 && uint32(y.c) == math.MaxUint32 || y.c == math.MaxUint64) {
			return k.negate(xb, x)
		}
		if x.k == k64 && x.n32 != "" && !x.n32s {
			if y.n32 != "" && !y.n32s {
				return k.pure("mul.wide.u32", k64, x.n32, y.n32)
			}
			if y.isC && y.c < 1<<32 {
				return k.pure("mul.wide.u32", k64, x.n32, fmt.Sprint(y.c))
			}
		}
		if y.isC && y.c&(y.c-1) == 0 && y.c != 0 {
			return k.narrow(xb, k.pure("shl."+w, x.k, x.String(), fmt.Sprint(bits.TrailingZeros64(y.c))))
		}
		return k.narrow(xb, k.pure("mul.lo."+t, x.k, x.String(), y.String()))
	case token.AND:
		return k.pure("and."+w, x.k, x.String(), y.String())
	case token.OR:
		return k.pure("or."+w, x.k, x.String(), y.String())
	case token.XOR:
		if y.isC && !x.isC && (x.k == k32 && uint32(y.c) == math.MaxUint32 || y.c == math.MaxUint64) {
			return k.pure("not."+w, x.k, x.String())
		}
		return k.narrow(xb, k.pure("xor."+w, x.k, x.String(), y.String()))
	case token.AND_NOT:
		if y.isC {
			return k.pure("and."+w, x.k, x.String(), cst(x.k, ^y.c).String())
		}
		return k.pure("and."+w, x.k, x.String(), k.pure("not."+w, x.k, y.String()).r)
	case token.QUO, token.REM:
		if y.isC && y.c == 0 {
			if !k.off() {
				k.trap(pos, "integer divide by zero", "0", "0", k.holds())
			}
			return cst(x.k, 0)
		}
		if !y.isC && !k.off() {
			k.trap(pos, "integer divide by zero", "0", "0", k.pure("setp.eq."+t, kPred, y.String(), "0").r)
		}
		xh, low := k.bound(x)
		yh, divides := k.bound(y)
		if y.isC && y.c&(y.c-1) == 0 && (unsigned(xb) || divides) {
			return k.power(op, xb, x, y, low || unsigned(xb))
		}
		if x.k == k64 && low && divides && xh <= math.MaxUint32 && yh <= math.MaxUint32 {
			t, o := types.Typ[types.Uint32], map[token.Token]string{token.QUO: "div.u32", token.REM: "rem.u32"}[op]
			return k.convert(t, xb, k.pure(o, k32, k.convert(xb, t, x).String(), k.convert(xb, t, y).String()))
		}
		o := "div."
		if op == token.REM {
			o = "rem."
		}
		return k.narrow(xb, k.pure(o+t, x.k, x.String(), y.String()))
	case token.SHL, token.SHR:
		if y.k == k64 && !y.isC { // PTX takes 32 bits and stops at the width, as Go wants
			y = k.pure("cvt.u32.u64", k32, k.pure("min.u64", k64, y.String(), "64").r)
		} else if y.isC { // ptxas of driver 580 makes 0 of some negative numbers that a constant beyond the width shifts
			width := uint64(64)
			if x.k == k32 {
				width = 32
			}
			switch {
			case y.c < width:
				y = cst(k32, y.c)
			case op == token.SHR && !unsigned(xb):
				y = cst(k32, width-1)
			default:
				return cst(x.k, 0)
			}
		}
		if op == token.SHL {
			return k.narrow(xb, k.pure("shl."+w, x.k, x.String(), y.String()))
		}
		return k.pure("shr."+t, x.k, x.String(), y.String())
	}
	k.fail(pos, "a kernel has no %s of %s", op, xb)
	return val{}
}

// negate writes -x as ^x + 1: ptxas of driver 580 loses the sign of -x in (-x)>>n + y and in min(min(-x, y), z).
func (k *kctx) negate(b *types.Basic, x val) val {
	w := "b32"
	if x.k == k64 {
		w = "b64"
	}
	return k.narrow(b, k.pure("add."+num(b), x.k, k.pure("not."+w, x.k, x.String()).r, "1"))
}

// power divides by a power of two. What can be negative is rounded to zero.
func (k *kctx) power(op token.Token, b *types.Basic, x, y val, low bool) val {
	width, n := 8*sizes.Sizeof(b), bits.TrailingZeros64(y.c)
	if x.k == k32 {
		width = 32 // of the register
	}
	w, count := fmt.Sprint(width), fmt.Sprint(n)
	rest := cst(x.k, norm(b, y.c-1)).String()
	if low && op == token.QUO {
		return k.pure("shr.u"+w, x.k, x.String(), count)
	}
	if low {
		return k.pure("and.b"+w, x.k, x.String(), rest)
	}
	sign := k.pure("shr.s"+w, x.k, x.String(), fmt.Sprint(width-1))
	up := k.pure("add.s"+w, x.k, x.String(), k.pure("and.b"+w, x.k, sign.r, rest).r)
	if op == token.QUO {
		return k.pure("shr.s"+w, x.k, up.r, count)
	}
	return k.pure("sub.s"+w, x.k, x.String(), k.pure("and.b"+w, x.k, up.r, cst(x.k, ^(y.c-1)).String()).r)
}

// convert converts between numbers.
func (k *kctx) convert(from, to *types.Basic, x val) val {
	v := k.converted(from, to, x)
	hi, ok := k.bound(x)
	if !ok && unsigned(from) && sizes.Sizeof(from) < 8 {
		hi, ok = limit(from), true
	}
	if !ok && unsigned(to) && sizes.Sizeof(to) < 4 {
		hi, ok = limit(to), true
	}
	if ok && (x.k == k32 || x.k == k64) && (v.k == k32 || v.k == k64) && !v.isC {
		v = bounded(to, v, hi)
	}
	return v
}

func (k *kctx) converted(from, to *types.Basic, x val) val {
	kf, kt := kindOf(from), kindOf(to)
	if x.isC {
		if v, ok := foldConvert(from, to, x); ok {
			return v
		}
	}
	switch {
	case isFloat(kf) && isFloat(kt):
		if kf == kt {
			return x
		}
		if kt == kF64 {
			return k.pure("cvt.f64.f32", kt, x.String())
		}
		return k.pure("cvt.rn.f32.f64", kt, x.String())
	case isFloat(kf):
		return k.narrow(to, k.pure("cvt.rzi."+num(to)+"."+num(from), kt, x.String()))
	case isFloat(kt):
		return k.pure("cvt.rn."+num(to)+"."+num(from), kt, x.String())
	case kf == k32 && kt == k64:
		if _, low := k.bound(x); low || unsigned(from) {
			return k.pure("cvt.u64.u32", kt, x.String())
		}
		return k.pure("cvt.s64.s32", kt, x.String())
	case kf == k64 && kt == k32:
		if x.n32 != "" {
			return k.narrow(to, val{k: k32, r: x.n32})
		}
		return k.narrow(to, k.pure("cvt.u32.u64", kt, x.String()))
	case kf == k32:
		if sizes.Sizeof(to) < sizes.Sizeof(from) || sizes.Sizeof(to) < 4 && unsigned(from) != unsigned(to) {
			return k.narrow(to, x)
		}
	}
	x.k, x.hi = kt, 0
	return x
}
