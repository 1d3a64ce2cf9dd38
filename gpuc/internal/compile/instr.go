package compile

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"math"

	"golang.org/x/tools/go/ssa"
)

func (k *kctx) get(s *scope, v ssa.Value) val {
	switch v := v.(type) {
	case *ssa.Const:
		if v.Value == nil {
			return k.zero(v.Type())
		}
		kd := kindOf(v.Type())
		switch kd {
		case kPred:
			return cst(kd, b2u(constant.BoolVal(v.Value)))
		case kF32, kF64:
			f, _ := constant.Float64Val(constant.ToFloat(v.Value))
			if kd == kF32 {
				g, _ := constant.Float32Val(constant.ToFloat(v.Value))
				f = float64(g)
			}
			return cF(kd, f)
		case k32, k64:
			b := v.Type().Underlying().(*types.Basic)
			x := constant.ToInt(v.Value)
			u, ok := constant.Uint64Val(x)
			if !ok {
				i, _ := constant.Int64Val(x)
				u = uint64(i)
			}
			return cst(kd, norm(b, u))
		}
		if kd == kAgg {
			return k.constantText(constant.StringVal(v.Value))
		}
		return val{} // a complex number
	case *ssa.Global:
		return k.globalVar(v)
	}
	if fn, ok := v.(*ssa.Function); ok {
		return val{k: kFunc, fn: fn}
	}
	x, ok := s.get(v)
	if !ok {
		k.fail(v.Pos(), "a kernel has no value %s of type %s here", v, v.Type())
	}
	return x
}

// elements returns the address and the length of what an instruction takes an element of.
func (k *kctx) elements(in *ssa.IndexAddr, x val) (p, n val) {
	if x.k == kAgg { // a slice
		return present(x.e[0]), x.e[1]
	}
	return present(k.notNil(x, in.Pos())), cst(k64, uint64(elem(in.X.Type()).Underlying().(*types.Array).Len()))
}

func (k *kctx) instr(f *frame, s *scope, in ssa.Instruction) {
	if v, ok := in.(ssa.Value); ofPrintf(in) || ok && ofPanic(v) {
		return
	}
	switch in := in.(type) {
	case *ssa.BinOp:
		xb, ok := in.X.Type().Underlying().(*types.Basic)
		if !ok || isText(xb) {
			if in.Op != token.EQL && in.Op != token.NEQ {
				k.fail(in.Pos(), "a kernel has no %s of strings: they are constants, whose bytes it reads", in.Op)
			}
			s.m[in] = k.compare(s, in)
			return
		}
		x, y := k.get(s, in.X), k.get(s, in.Y)
		if v, ok := k.contract(f, in, x, y); ok {
			s.m[in] = v
			return
		}
		s.m[in] = k.bin(in.Op, xb, in.Y.Type().Underlying().(*types.Basic), x, y, in.Pos())
	case *ssa.UnOp:
		x := k.get(s, in.X)
		switch in.Op {
		case token.MUL:
			s.m[in] = k.load(k.notNil(x, in.Pos()), in.Type(), in.Pos())
		case token.SUB:
			b := in.X.Type().Underlying().(*types.Basic)
			if x.isC && isFloat(x.k) {
				s.m[in] = cF(x.k, -x.f())
			} else if isFloat(x.k) {
				s.m[in] = k.pure("neg."+suffix(x.k), x.k, x.String())
			} else {
				s.m[in] = k.bin(token.SUB, b, b, cst(x.k, 0), x, in.Pos())
			}
		case token.XOR:
			b := in.X.Type().Underlying().(*types.Basic)
			s.m[in] = k.bin(token.XOR, b, b, x, cst(x.k, norm(b, math.MaxUint64)), in.Pos())
		case token.NOT:
			if x.isC {
				s.m[in] = cst(kPred, 1-x.c)
			} else {
				s.m[in] = k.pure("not.pred", kPred, x.r)
			}
		default:
			k.fail(in.Pos(), "a kernel has no %s: a GPU has no channels", in.Op)
		}
	case *ssa.Convert:
		from, ok1 := in.X.Type().Underlying().(*types.Basic)
		to, ok2 := in.Type().Underlying().(*types.Basic)
		if !ok1 || !ok2 || kindOf(from) == kNone || kindOf(to) == kNone || isText(from) || isText(to) {
			k.fail(in.Pos(), "a kernel converts numbers, not %s to %s%s", in.X.Type(), in.Type(), insteadOf(in))
		}
		x, ok := k.widened(s, in.X)
		if !ok || kindOf(to) != k64 {
			x = k.convert(from, to, k.get(s, in.X))
		}
		s.m[in] = x
	case *ssa.ChangeType:
		s.m[in] = k.get(s, in.X)
	case *ssa.Alloc:
		s.m[in] = k.alloc(f, in)
	case *ssa.Store:
		k.store(k.notNil(k.get(s, in.Addr), in.Pos()), k.get(s, in.Val), in.Val.Type(), in.Pos())
	case *ssa.FieldAddr:
		x := present(k.notNil(k.get(s, in.X), in.Pos()))
		s.m[in] = offset(x, fieldOffset(elem(in.X.Type()), in.Field))
	case *ssa.Field:
		s.m[in] = k.get(s, in.X).e[in.Field]
	case *ssa.Extract:
		s.m[in] = k.get(s, in.Tuple).e[in.Index]
	case *ssa.IndexAddr:
		x, n := k.elements(in, k.get(s, in.X))
		i, early := k.check(k.index(s, in.Index), n, in.Pos())
		early = early || x.p.early && i.isC
		x = k.at(x, i, sizes.Sizeof(elem(in.Type())))
		x.p.early = early
		s.m[in] = x
	case *ssa.Index:
		x, i := k.get(s, in.X), k.index(s, in.Index)
		if _, ok := in.X.Type().Underlying().(*types.Array); !ok { // a string
			i, _ = k.check(i, x.e[1], in.Pos())
			s.m[in] = k.load(k.at(x.e[0], i, 1), types.Typ[types.Byte], in.Pos())
			return
		}
		i, _ = k.check(i, cst(k64, uint64(len(x.e))), in.Pos())
		if x.k == kAgg && len(x.e) == 0 { // the check has failed
			s.m[in] = k.zero(in.Type())
			return
		}
		if x.param != "" && !i.isC {
			p := val{k: kPtr, p: &ptr{sp: spCell, al: &alloca{t: in.X.Type(), value: &x}}}
			s.m[in] = k.load(k.at(p, i, sizes.Sizeof(in.Type())), in.Type(), in.Pos())
			return
		}
		if load, ok := in.X.(*ssa.UnOp); ok && !i.isC {
			if g, ok := load.X.(*ssa.Global); ok { // which nobody sets
				s.m[in] = k.load(k.at(k.globalVar(g), i, sizes.Sizeof(in.Type())), in.Type(), in.Pos())
				return
			}
		}
		if x.k == kAgg && !i.isC && len(x.e) > 0 && len(x.e) <= 32 {
			v := x.e[0]
			for j := 1; j < len(x.e); j++ {
				v = k.choose(k.pure("setp.eq.s64", kPred, i.String(), fmt.Sprint(j)), x.e[j], v, in.Pos())
			}
			s.m[in] = v
			return
		}
		if !i.isC || x.k != kAgg {
			k.fail(in.Pos(), "this array has an index that is not constant: put the array into a variable first")
		}
		s.m[in] = x.e[i.c]
	case *ssa.Slice:
		s.m[in] = k.slice(s, in)
	case *ssa.SliceToArrayPointer:
		s.m[in] = k.arrayOf(in, k.get(s, in.X))
	case *ssa.Range:
		s.m[in] = k.rangeText(in, k.get(s, in.X))
	case *ssa.Next:
		s.m[in] = k.nextRune(k.get(s, in.Iter))
	case *ssa.Call:
		s.m[in] = k.callInstr(f, s, in)
	case *ssa.MakeInterface: // of a panic
		s.m[in] = val{}
	case *ssa.Go:
		k.fail(in.Pos(), "a kernel starts no goroutines: launch more threads")
	case *ssa.Defer, *ssa.RunDefers: // a return before the first one runs them too, and has no place
		for _, b := range f.fn.Blocks {
			for _, d := range b.Instrs {
				if d, ok := d.(*ssa.Defer); ok {
					k.fail(d.Pos(), "a kernel has no defer: call the function where the kernel ends")
				}
			}
		}
	case *ssa.MakeSlice:
		k.fail(in.Pos(), "a kernel allocates no memory: use an array, gpu.Shared or a parameter")
	case *ssa.MakeMap, *ssa.Lookup, *ssa.MapUpdate:
		k.fail(in.Pos(), "a kernel has no maps: use an array")
	case *ssa.MakeChan, *ssa.Send, *ssa.Select:
		k.fail(in.Pos(), "a kernel has no channels: threads of a block share memory, with t.Barrier() between")
	case *ssa.MakeClosure:
		v := val{k: kFunc, fn: in.Fn.(*ssa.Function)}
		for _, b := range in.Bindings {
			v.e = append(v.e, k.get(s, b))
		}
		s.m[in] = v
	case *ssa.TypeAssert, *ssa.ChangeInterface:
		k.fail(in.Pos(), "a kernel has no interfaces: call a function by its name, or a generic one")
	default:
		k.fail(in.Pos(), "a kernel cannot do this (%T): %s", in, in)
	}
}

// ofPanic reports whether a value is read for panics alone, as the error of bits.Div64 is.
func ofPanic(v ssa.Value) bool {
	if _, call := v.(*ssa.Call); call || !types.IsInterface(v.Type()) {
		return false
	}
	for _, r := range *v.Referrers() {
		c, ok := r.(*ssa.ChangeInterface)
		if _, ends := r.(*ssa.Panic); !ends && !(ok && ofPanic(c)) {
			return false
		}
	}
	return true
}

// choose is a where p holds, and b else.
func (k *kctx) choose(p, a, b val, pos token.Pos) val {
	switch a.k {
	case kAgg:
		v := val{k: kAgg}
		for i := range a.e {
			v.e = append(v.e, k.choose(p, a.e[i], b.e[i], pos))
		}
		return v
	case kFunc:
		if a.fn != b.fn || len(a.e) > 0 {
			k.fail(pos, "which function is called here depends on a condition or an index, %s or %s: call each in its own branch", nameOf(a.fn), nameOf(b.fn))
		}
		return a
	case kPtr:
		k.fail(pos, "an array of slices or pointers has an index that is not constant: put the array into a variable first")
	case kPred:
		x, y := k.register(a), k.register(b)
		x = k.pure("and.pred", kPred, p.r, x.r)
		y = k.pure("and.pred", kPred, k.pure("not.pred", kPred, p.r).r, y.r)
		return k.pure("or.pred", kPred, x.r, y.r)
	case kThread:
		return a
	}
	return k.pure("selp."+suffix(a.k), a.k, a.String(), b.String(), p.r)
}

// insteadOf says what to write in place of a conversion.
func insteadOf(in *ssa.Convert) string {
	b, ok := in.X.Type().Underlying().(*types.Basic)
	c, ok2 := in.Type().Underlying().(*types.Basic)
	switch {
	case ok && isText(b):
		return ": take the bytes of the string by index, or by copy"
	case ok2 && isText(c):
		return ": a kernel has constant strings alone; keep the bytes"
	case ok && b.Kind() == types.UnsafePointer || ok2 && c.Kind() == types.UnsafePointer:
		return ": use math.Float64bits and its brothers, or a slice of the other type"
	}
	return ""
}
