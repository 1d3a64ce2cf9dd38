package compile

import (
	"fmt"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// compare is == or != of what is no number and no bool.
func (k *kctx) compare(s *scope, in *ssa.BinOp) val {
	v := k.equal(in, in.X.Type(), k.get(s, in.X), k.get(s, in.Y))
	if in.Op == token.EQL {
		return v
	}
	if v.isC {
		return cst(kPred, 1-v.c)
	}
	return k.pure("not.pred", kPred, v.r)
}

// equal is a == b of a type.
func (k *kctx) equal(in *ssa.BinOp, t types.Type, a, b val) val {
	var all []val
	switch u := t.Underlying().(type) {
	case *types.Basic:
		if isText(u) {
			return k.equalText(in, a, b)
		}
		return k.bin(token.EQL, u, u, a, b, in.Pos())
	case *types.Struct:
		for i := range u.NumFields() {
			if u.Field(i).Name() != "_" {
				all = append(all, k.equal(in, u.Field(i).Type(), a.e[i], b.e[i]))
			}
		}
	case *types.Array:
		for i := range a.e {
			all = append(all, k.equal(in, u.Elem(), a.e[i], b.e[i]))
		}
	case *types.Pointer:
		return k.samePointer(a, b)
	case *types.Slice: // one of them is nil
		x := a.e[0]
		if x.p.null {
			x = b.e[0]
		}
		if x.p.sp == spGlobal && !x.p.null {
			k.fail(in.Pos(), "a slice that a kernel gets as a parameter is never nil on a GPU: compare len with 0")
		}
		return k.isNil(x)
	case *types.Signature:
		return cst(kPred, b2u(a.fn == b.fn))
	default:
		if t == types.Universe.Lookup("error").Type() {
			k.fail(in.Pos(), "%s", instead["errors"])
		}
		k.fail(in.Pos(), "a kernel compares no %s: numbers, bools, strings, pointers, and structs and arrays of them", t)
	}
	v := cst(kPred, 1)
	for _, e := range all {
		switch {
		case e.isC && e.c == 0:
			return e
		case e.isC:
		case v.isC:
			v = e
		default:
			v = k.pure("and.pred", kPred, v.r, e.r)
		}
	}
	return v
}

// nilOf is the address that is nil in a space. Shared and local memory begin at 0.
func nilOf(sp space) string {
	if sp == spGlobal {
		return "0"
	}
	return "-1"
}

// isNil reports whether a pointer is nil.
func (k *kctx) isNil(x val) val {
	if x.p.null || !x.p.maybe {
		return cst(kPred, b2u(x.p.null))
	}
	return k.pure("setp.eq.s64", kPred, k.addressIn(x.p.sp, x).r, nilOf(x.p.sp))
}

// addressIn is a pointer as a register, for a variable that has pointers of a space.
func (k *kctx) addressIn(sp space, x val) val {
	if x.p.null && sp != spGlobal {
		return k.pure("mov.b64", k64, nilOf(sp))
	}
	return k.address(x)
}

// samePointer compares pointers.
func (k *kctx) samePointer(a, b val) val {
	if a.k == kThread || b.k == kThread {
		return cst(kPred, 1)
	}
	switch {
	case a.p.null:
		return k.isNil(b)
	case b.p.null:
		return k.isNil(a)
	case a.p.sp == spCell && b.p.sp == spCell:
		return cst(kPred, b2u(a.p.al.key == b.p.al.key && a.p.off == b.p.off))
	}
	x, y := k.inMemory(a), k.inMemory(b)
	if x.p.sp != y.p.sp { // at most both are nil
		x, y := k.isNil(x), k.isNil(y)
		if x.isC || y.isC {
			return cst(kPred, 0)
		}
		return k.pure("and.pred", kPred, x.r, y.r)
	}
	return k.pure("setp.eq.s64", kPred, k.address(x).r, k.address(y).r)
}

// notNil fails where a pointer is nil, and gives the pointer.
func (k *kctx) notNil(x val, pos token.Pos) val {
	if !k.mayBeNil(x) {
		return x
	}
	const text = "invalid memory address or nil pointer dereference"
	if x.p.null {
		k.trap(pos, text, "0", "0", k.pure("setp.eq.s64", kPred, x.p.base, "0").r)
		return x
	}
	key := fmt.Sprint("not nil ", x.p.base)
	known := k.cur
	if k.facts != nil {
		known = k.facts
	}
	if _, ok := known.get(key); !ok {
		k.trap(pos, text, "0", "0", k.isNil(x).r)
		if k.guard.r == "" { // else only those know for whom the guard holds
			k.cur.m[key] = val{}
		}
	}
	return x
}

func (k *kctx) mayBeNil(x val) bool {
	return x.k == kPtr && x.p != nil && (x.p.null || x.p.maybe) && !k.off()
}

// learnNil notes what a comparison with nil says.
func (k *kctx) learnNil(s *scope, c *ssa.BinOp, holds bool) {
	if _, ok := c.X.Type().Underlying().(*types.Pointer); !ok || (c.Op == token.NEQ) != holds {
		return
	}
	for _, v := range []ssa.Value{c.X, c.Y} {
		if x, ok := s.get(v); ok && x.k == kPtr && x.p != nil && x.p.maybe && x.p.off == 0 {
			k.cur.m[fmt.Sprint("not nil ", x.p.base)] = val{}
		}
	}
}
