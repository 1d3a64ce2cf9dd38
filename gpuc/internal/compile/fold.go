package compile

import (
	"go/token"
	"go/types"
	"math"
)

// fold computes an operation on constants as Go does.
func fold(op token.Token, xb, yb *types.Basic, x, y val) (val, bool) {
	if x.k == kPred {
		switch op {
		case token.EQL:
			return cst(kPred, b2u(x.c == y.c)), true
		case token.NEQ:
			return cst(kPred, b2u(x.c != y.c)), true
		}
		return val{}, false
	}
	if isFloat(x.k) {
		a, b := x.f(), y.f()
		switch op {
		case token.ADD:
			return cF(x.k, a+b), true
		case token.SUB:
			return cF(x.k, a-b), true
		case token.MUL:
			return cF(x.k, a*b), true // exact in float64 before it is rounded to float32
		case token.QUO:
			return cF(x.k, a/b), true
		case token.LSS:
			return cst(kPred, b2u(a < b)), true
		case token.LEQ:
			return cst(kPred, b2u(a <= b)), true
		case token.GTR:
			return cst(kPred, b2u(a > b)), true
		case token.GEQ:
			return cst(kPred, b2u(a >= b)), true
		case token.EQL:
			return cst(kPred, b2u(a == b)), true
		case token.NEQ:
			return cst(kPred, b2u(a != b)), true
		}
		return val{}, false
	}
	if x.k != k32 && x.k != k64 {
		return val{}, false
	}
	a, b := signedC(xb, x.c), signedC(yb, y.c)
	r := uint64(0)
	u := unsigned(xb)
	cmp := func(lt bool) (val, bool) { return cst(kPred, b2u(lt)), true }
	switch op {
	case token.ADD:
		r = a + b
	case token.SUB:
		r = a - b
	case token.MUL:
		r = a * b
	case token.AND:
		r = a & b
	case token.OR:
		r = a | b
	case token.XOR:
		r = a ^ b
	case token.AND_NOT:
		r = a &^ b
	case token.SHL:
		r = a << b
	case token.SHR:
		if u {
			r = a >> b
		} else {
			r = uint64(int64(a) >> b)
		}
	case token.QUO, token.REM:
		if b == 0 {
			return val{}, false
		}
		switch {
		case u && op == token.QUO:
			r = a / b
		case u:
			r = a % b
		case op == token.QUO:
			r = uint64(int64(a) / int64(b))
		default:
			r = uint64(int64(a) % int64(b))
		}
	case token.EQL:
		return cmp(a == b)
	case token.NEQ:
		return cmp(a != b)
	case token.LSS:
		return cmp(u && a < b || !u && int64(a) < int64(b))
	case token.LEQ:
		return cmp(u && a <= b || !u && int64(a) <= int64(b))
	case token.GTR:
		return cmp(u && a > b || !u && int64(a) > int64(b))
	case token.GEQ:
		return cmp(u && a >= b || !u && int64(a) >= int64(b))
	default:
		return val{}, false
	}
	return cst(x.k, norm(xb, r)), true
}

func foldConvert(from, to *types.Basic, x val) (val, bool) {
	kf, kt := kindOf(from), kindOf(to)
	switch {
	case kt == kNone || kf == kNone:
		return val{}, false
	case isFloat(kf) && isFloat(kt):
		return cF(kt, x.f()), true
	case isFloat(kf):
		if f := x.f(); math.Abs(f) < 1<<31 {
			return cst(kt, norm(to, uint64(int64(f)))), true
		}
		return val{}, false
	case isFloat(kt):
		c := signedC(from, x.c)
		if unsigned(from) {
			if kt == kF32 {
				return cF(kt, float64(float32(c))), true
			}
			return cF(kt, float64(c)), true
		}
		if kt == kF32 {
			return cF(kt, float64(float32(int64(c)))), true
		}
		return cF(kt, float64(int64(c))), true
	}
	return cst(kt, norm(to, signedC(from, x.c))), true
}
