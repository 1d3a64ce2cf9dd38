package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
)

// A slice is two parameters of the kernel: its address and its length. A struct or an array is one, by value; but
// where it has slices, each of its parts is a parameter.

// HoldsSlice reports whether a struct or an array has a slice.
func HoldsSlice(t types.Type) bool {
	if IsTiles(t) {
		return false
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if _, ok := f.Type().Underlying().(*types.Slice); ok || HoldsSlice(f.Type()) {
				return true
			}
		}
	case *types.Array:
		_, ok := u.Elem().Underlying().(*types.Slice)
		return ok || HoldsSlice(u.Elem())
	}
	return false
}

// IsTiles reports whether a type is gpu.Tiles, which is a tensor map on a device.
func IsTiles(t types.Type) bool { return fromGPU(t, "Tiles") }

// Part is a part of a parameter: a field or an element.
type Part struct {
	Name string // of its parameter in PTX
	Path string // in Go: m.Rows
	Type types.Type
}

// Parts are the parts of a struct or an array that are parameters of their own. A field without a name is none.
func (p Part) Parts() (parts []Part) {
	switch u := p.Type.Underlying().(type) {
	case *types.Struct:
		for i := range u.NumFields() {
			if f := u.Field(i); f.Name() != "_" {
				parts = append(parts, Part{fmt.Sprint(p.Name, "$", i), p.Path + "." + f.Name(), f.Type()})
			}
		}
	case *types.Array:
		for i := range u.Len() {
			parts = append(parts, Part{fmt.Sprint(p.Name, "$", i), fmt.Sprintf("%s[%d]", p.Path, i), u.Elem()})
		}
	}
	return parts
}

// Param is parameter i of a kernel after the thread, under the name that it has in Go or another.
func (s *Source) Param(i int, name string) Part {
	return Part{fmt.Sprintf("%s_%d", s.Symbol(), i), name, s.Sig.Params().At(i + 1).Type()}
}

// params returns the values of a parameter's parts.
func (k *kctx) parts(p Part, pos token.Pos, lengths map[string]val) val {
	if !HoldsSlice(p.Type) {
		v := k.param(p.Name, p.Type, pos)
		if _, ok := p.Type.Underlying().(*types.Slice); ok {
			lengths[p.Path] = v.e[1]
			for _, names := range k.src.Equal {
				if slices.Contains(names, p.Path) { // the launch has compared them
					v.e[1] = first(lengths, names)
				}
			}
		}
		return v
	}
	v := val{k: kAgg}
	parts := p.Parts()
	if u, ok := p.Type.Underlying().(*types.Struct); ok {
		for i := range u.NumFields() {
			f := u.Field(i)
			switch {
			case f.Name() == "_":
				v.e = append(v.e, k.zero(f.Type()))
				continue
			case !f.Exported() && f.Pkg() != k.p.Types:
				k.fail(pos, "a launch cannot set the field %s of %s, which belongs to another package: give what it holds as a parameter", f.Name(), p.Type)
			}
			v.e = append(v.e, k.parts(parts[0], pos, lengths))
			parts = parts[1:]
		}
		return v
	}
	if len(parts) > 64 {
		k.fail(pos, "a kernel takes at most 64 slices in an array, not %s", p.Type)
	}
	for _, e := range parts {
		v.e = append(v.e, k.parts(e, pos, lengths))
	}
	return v
}

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

// param returns the value of a parameter.
func (k *kctx) param(name string, t types.Type, pos token.Pos) val {
	if IsTiles(t) { // a tensor map stays where it is: its address is what counts
		v := k.pure("cvta.param.u64", k64, k.pure("mov.b64", k64, name).r)
		v.param = name
		if k.o.Arch >= 90 { // the first copy need not wait for it
			k.funcs.version = max(k.funcs.version, "8.0")
			k.emit("prefetch.tensormap", nil, "["+v.r+"]").side = true
		}
		return v
	}
	if b, ok := t.Underlying().(*types.Basic); ok && b.Kind() == types.Uintptr {
		k.fail(pos, "a launch takes no %s, since an address of the CPU means nothing on a GPU: write uint64", t)
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		if b, ok := u.Elem().Underlying().(*types.Basic); ok && b.Kind() == types.Uintptr {
			k.fail(pos, "a launch takes no slice of %s, since an address of the CPU means nothing on a GPU: write []uint64", u.Elem())
		}
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
	v := val{k: kAgg, param: name, off: off}
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
	var part func(p Part)
	part = func(p Part) {
		switch u := p.Type.Underlying().(type) {
		case *types.Slice:
			list = append(list, ".param .u64 "+p.Name, ".param .u64 "+p.Name+"n")
		case *types.Basic:
			list = append(list, ".param ."+mem(u)+" "+p.Name)
		default:
			if IsTiles(p.Type) {
				list = append(list, ".param .align 64 .b8 "+p.Name+"[128]")
				return
			}
			if HoldsSlice(u) {
				for _, e := range p.Parts() {
					part(e)
				}
				return
			}
			list = append(list, fmt.Sprintf(".param .align %d .b8 %s[%d]", sizes.Alignof(u), p.Name, max(1, sizes.Sizeof(u))))
		}
	}
	for i := range k.params()[1:] {
		part(k.src.Param(i, ""))
	}
	if k.reports() {
		list = append(list, ".param .u64 "+k.name+"_report")
	}
	return list
}
