package compile

import (
	"fmt"
	"go/token"
	"go/types"
)

// A slice is two parameters of the kernel: its address and its length. A struct or an array is one, by value.

// loadParam reads a scalar parameter, or a part of one.
func (k *kctx) loadParam(at string, b *types.Basic) val {
	kd := kindOf(b)
	if kd == kPred {
		w := k.reg(k32)
		k.emit("ld.param.u8", []string{w.r}, "["+at+"]")
		return k.pure("setp.ne.u32", kPred, w.r, "0")
	}
	v := k.reg(kd)
	k.emit("ld.param."+mem(b), []string{v.r}, "["+at+"]")
	return v
}

// param gives the value of a parameter.
func (k *kctx) param(name string, t types.Type, pos token.Pos) val {
	switch u := t.Underlying().(type) {
	case *types.Slice:
		for _, l := range scalars(u.Elem(), 0, nil) {
			if l.k == kNone {
				k.fail(pos, "a kernel takes no slice of %s: its elements are numbers, bools, or structs and arrays of them", u.Elem())
			}
		}
		k64t := types.Typ[types.Uint64]
		g := k.pure("cvta.to.global.u64", k64, k.loadParam(name, k64t).r)
		p := &ptr{sp: spGlobal, base: g.r, align: natural(u.Elem()), root: name}
		return val{k: kAgg, e: []val{{k: kPtr, p: p}, k.loadParam(name+"n", k64t)}}
	case *types.Basic, *types.Struct, *types.Array:
		for _, l := range scalars(u, 0, nil) {
			if l.k == kNone {
				k.fail(pos, "a kernel takes no %s: its parameters are numbers, bools, slices, and structs and arrays of numbers", t)
			}
		}
		return k.paramPart(name, 0, t)
	}
	k.fail(pos, "a kernel takes no %s: its parameters are numbers, bools, slices, and structs and arrays of numbers", t)
	return val{}
}

// paramPart reads what lies at an offset of a parameter.
func (k *kctx) paramPart(name string, off int64, t types.Type) val {
	v := val{k: kAgg}
	switch u := t.Underlying().(type) {
	case *types.Array:
		for i := range u.Len() {
			v.e = append(v.e, k.paramPart(name, off+i*sizes.Sizeof(u.Elem()), u.Elem()))
		}
	case *types.Struct:
		for i := range u.NumFields() {
			v.e = append(v.e, k.paramPart(name, off+fieldOffset(u, i), u.Field(i).Type()))
		}
	case *types.Basic:
		if off == 0 {
			return k.loadParam(name, u)
		}
		return k.loadParam(fmt.Sprintf("%s+%d", name, off), u)
	}
	return v
}

// declare lists the parameters for the head of the kernel.
func (k *kctx) declare() (list []string) {
	for i, p := range k.fn.Params[1:] {
		n := k.paramName(i)
		switch u := p.Type().Underlying().(type) {
		case *types.Slice:
			list = append(list, ".param .u64 "+n, ".param .u64 "+n+"n")
		case *types.Basic:
			list = append(list, ".param ."+mem(u)+" "+n)
		default:
			list = append(list, fmt.Sprintf(".param .align %d .b8 %s[%d]", sizes.Alignof(u), n, max(1, sizes.Sizeof(u))))
		}
	}
	if k.reports() {
		list = append(list, ".param .u64 "+k.name+"_report")
	}
	return list
}
