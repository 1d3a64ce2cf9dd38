package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

func (k *kctx) alloc(f *frame, in *ssa.Alloc) val {
	t := elem(in.Type())
	key := f.path + "/" + in.Name() + "@" + f.fn.Name()
	list := scalars(t, 0, nil)
	for _, l := range list {
		if l.k == kNone && len(list) > 0 {
			// pointers and slices in variables whose address is taken
			k.fail(in.Pos(), "%s", noVariable(t))
		}
	}
	if !k.demoted[key] && len(list) <= 256 {
		a := &alloca{key: key, cells: map[int64]string{}, kinds: map[int64]kind{}}
		for _, l := range list {
			r := k.cellReg(key, l)
			a.cells[l.off], a.kinds[l.off] = r, l.k
			z := cst(l.k, 0)
			k.mov(val{k: l.k, r: r}, z)
			k.cells[r] = z
		}
		return val{k: kPtr, p: &ptr{sp: spCell, al: a}}
	}
	name := fmt.Sprintf("local_%s_%d", k.name, len(k.decls))
	for i, d := range k.decls {
		if strings.HasSuffix(d, "// "+key) {
			name = fmt.Sprintf("local_%s_%d", k.name, i)
			goto declared
		}
	}
	k.decls = append(k.decls, fmt.Sprintf(".local .align 16 .b8 %s[%d]; // %s", name, sizes.Sizeof(t), key))
declared:
	v := val{k: kPtr, p: &ptr{sp: spLocal, base: name, align: 16}}
	k.store(v, k.zero(t), t, in.Pos())
	return v
}

func (k *kctx) cellReg(key string, l scalar) string {
	name := fmt.Sprint(key, "+", l.off)
	if v, ok := k.cur.get("cellreg " + name); ok {
		return v.r
	}
	if v, ok := k.cellRegs[name]; ok {
		return v
	}
	r := k.reg(l.k).r
	k.cellRegs[name] = r
	return r
}

func (k *kctx) load(x val, t types.Type, pos token.Pos) val {
	if x.k != kPtr || x.p == nil {
		k.fail(pos, "a kernel cannot load this %s: it is nil, or not known here", t)
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		if isVec(t) && x.p.sp != spCell && x.p.sp != spConst && x.p.aligned() {
			b := u.Field(0).Type().Underlying().(*types.Basic)
			v := val{k: kAgg}
			var rs []string
			for range u.NumFields() {
				r := k.reg(kindOf(b))
				v.e, rs = append(v.e, r), append(rs, r.r)
			}
			k.emit(fmt.Sprintf("ld%s.v%d.%s", spaceName[x.p.sp], len(rs), mem(b)), rs, k.memOperand(x.p))
			return v
		}
		v := val{k: kAgg}
		for i := range u.NumFields() {
			v.e = append(v.e, k.load(offset(x, fieldOffset(u, i)), u.Field(i).Type(), pos))
		}
		return v
	case *types.Array:
		v := val{k: kAgg}
		n := sizes.Sizeof(u.Elem())
		for i := range u.Len() {
			v.e = append(v.e, k.load(offset(x, i*n), u.Elem(), pos))
		}
		return v
	case *types.Basic:
		kd := kindOf(u)
		if kd == kNone {
			k.fail(pos, "a kernel has no values of type %s", t)
		}
		p := x.p
		if p.sp == spCell {
			r, ok := p.al.cells[p.off]
			if !ok || p.al.kinds[p.off] != kd {
				k.demote(p.al)
			}
			if v, ok := k.cells[r]; ok {
				return v
			}
			v := k.reg(kd)
			k.mov(v, val{k: kd, r: r})
			k.cells[r] = v
			return v
		}
		if p.sp == spConst && p.g != nil {
			if v, ok := p.g[p.off]; ok {
				return v
			}
			return cst(kd, 0)
		}
		v := k.reg(kd)
		if kd == kPred {
			w := k.reg(k32)
			k.emit("ld"+spaceName[p.sp]+".u8", []string{w.r}, k.memOperand(p))
			k.emit("setp.ne.u32", []string{v.r}, w.r, "0")
			return v
		}
		k.emit("ld"+spaceName[p.sp]+"."+mem(u), []string{v.r}, k.memOperand(p))
		return v
	}
	k.fail(pos, "a kernel loads no %s: pointers and slices stay in variables and parameters", t)
	return val{}
}

func (k *kctx) store(x, v val, t types.Type, pos token.Pos) {
	if x.k != kPtr || x.p == nil || x.p.sp == spConst {
		k.fail(pos, "a kernel cannot write here: package-level variables are constant, and nil is nowhere")
	}
	k.writes(x.p)
	switch u := t.Underlying().(type) {
	case *types.Struct:
		if isVec(t) && x.p.sp != spCell && x.p.aligned() {
			b := u.Field(0).Type().Underlying().(*types.Basic)
			var rs []string
			for _, e := range v.e {
				rs = append(rs, e.String())
			}
			k.emit(fmt.Sprintf("st%s.v%d.%s", spaceName[x.p.sp], len(rs), mem(b)), nil, k.memOperand(x.p), "{"+strings.Join(rs, ", ")+"}").side = true
			return
		}
		for i := range u.NumFields() {
			k.store(offset(x, fieldOffset(u, i)), v.e[i], u.Field(i).Type(), pos)
		}
	case *types.Array:
		n := sizes.Sizeof(u.Elem())
		for i := range u.Len() {
			k.store(offset(x, i*n), v.e[i], u.Elem(), pos)
		}
	case *types.Basic:
		p := x.p
		if p.sp == spCell {
			r, ok := p.al.cells[p.off]
			if !ok || p.al.kinds[p.off] != v.k {
				k.demote(p.al)
			}
			k.mov(val{k: v.k, r: r}, v)
			k.cells[r] = v
			return
		}
		if v.k == kPred {
			w := k.reg(k32)
			if v.isC {
				w = cst(k32, v.c)
			} else {
				k.emit("selp.u32", []string{w.r}, "1", "0", v.r)
			}
			k.emit("st"+spaceName[p.sp]+".u8", nil, k.memOperand(p), w.String()).side = true
			return
		}
		k.emit("st"+spaceName[p.sp]+"."+mem(u), nil, k.memOperand(p), v.String()).side = true
	default:
		k.fail(pos, "a kernel stores no %s: pointers and slices stay in variables and parameters", t)
	}
}

func (k *kctx) writes(p *ptr) {
	if p.sp == spGlobal {
		k.written[p.root] = true
	}
}

// noVariable says why a variable that lies in memory cannot have a type.
func noVariable(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Interface:
		return "a kernel has no interfaces: call a function by its name, or a generic one"
	case *types.Array:
		if _, ok := u.Elem().Underlying().(*types.Interface); ok {
			return "a kernel has no interfaces: call a function by its name, or a generic one"
		}
	case *types.Basic:
		return fmt.Sprintf("a kernel has no values of type %s: numbers and bools", t)
	case *types.Struct:
		return fmt.Sprintf("a variable of type %s holds more than numbers and its address is taken: use a variable for each field, or give the parts as parameters", t)
	}
	return fmt.Sprintf("the address of a variable of type %s is taken, or a closure or a goroutine uses it: pointers and slices stay in plain variables", t)
}
