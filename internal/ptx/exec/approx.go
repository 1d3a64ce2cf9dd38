package exec

import (
	"math"

	"github.com/purecuda/purecuda/internal/ptx"
)

// The approximate functions have a stated error, not stated bits (PTX ISA, "rcp",
// "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh"). Here they are computed in
// float64 and rounded, which is well within it.

func rsqrtOp(a, _, _ float64) float64 {
	if a == 0 {
		return math.Inf(1) * math.Copysign(1, a)
	}
	return 1 / math.Sqrt(a)
}

func sinOp(a, _, _ float64) float64 { return math.Sin(a) }
func cosOp(a, _, _ float64) float64 { return math.Cos(a) }
func ex2Op(a, _, _ float64) float64 { return math.Exp2(a) }
func lg2Op(a, _, _ float64) float64 { return math.Log2(a) }
func thOp(a, _, _ float64) float64  { return math.Tanh(a) }
func rcpOp(a, _, _ float64) float64 { return divOdd(1, a) }
func sqrtOp(a, _, _ float64) float64 {
	return sqrtOdd(a)
}

// approx64 computes in float64 and drops the lower half of the result, as the
// .approx.ftz.f64 forms do.
func approx64(f func(a float64) float64) aluFn {
	return lift1(func(a uint64) uint64 {
		if a&(0x7ff<<52) == 0 {
			a &= 1 << 63
		}
		v := math.Float64bits(f(f64(a)))
		if v&(0x7ff<<52) == 0 {
			v &= 1 << 63
		}
		if f64(v) != f64(v) {
			return 0x7fffffff << 32
		}
		return v &^ 0xffffffff
	})
}

func decodeRcp(x *fnc, in *ptx.Instruction, m *mods) error {
	f, t := m.float(), m.typ()
	switch {
	case t == ptx.F64 && f.approx.approx:
		return x.emitFloat(in, t, approx64(func(a float64) float64 { return 1 / a }))
	case t == ptx.F64:
		return x.emitFloat(in, t, lift1(func(a uint64) uint64 { return math.Float64bits(div64(1, f64(a), f.round)) }))
	case t == ptx.F32:
		return x.emitFloat(in, t, f.make(t, rcpOp))
	}
	return x.unsupported("")
}

func decodeSqrt(x *fnc, in *ptx.Instruction, m *mods) error {
	f, t := m.float(), m.typ()
	switch t {
	case ptx.F64:
		return x.emitFloat(in, t, lift1(func(a uint64) uint64 { return math.Float64bits(sqrt64(f64(a), f.round)) }))
	case ptx.F32:
		return x.emitFloat(in, t, f.make(t, sqrtOp))
	}
	return x.unsupported("")
}

var approxOps = map[string]op3{
	"rsqrt": rsqrtOp, "sin": sinOp, "cos": cosOp, "ex2": ex2Op, "lg2": lg2Op, "tanh": thOp,
}

// decodeApprox covers the functions of one argument. Their f16 and bf16 forms exist for
// ex2 and tanh.
func decodeApprox(x *fnc, in *ptx.Instruction, m *mods) error {
	f, t := m.float(), m.typ()
	op := approxOps[in.Op]
	if t == ptx.F64 {
		if in.Op != "rsqrt" {
			return x.unsupported("")
		}
		if f.ftz {
			return x.emitFloat(in, t, approx64(func(a float64) float64 { return rsqrtOp(a, 0, 0) }))
		}
		return x.emitFloat(in, t, lift1(func(a uint64) uint64 { return math.Float64bits(rsqrtOp(f64(a), 0, 0)) }))
	}
	if t != ptx.F32 && in.Op != "ex2" && in.Op != "tanh" {
		return x.unsupported("")
	}
	return x.emitFloat(in, t, f.make(t, op))
}
