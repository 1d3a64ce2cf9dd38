package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

func (k *kctx) alloc(f *frame, in *ssa.Alloc) val {
	t := elem(in.Type())
	key := f.path + "/" + in.Name() + "@" + f.fn.Name()
	a := &alloca{key: key, t: t}
	depth := k.around()
	if k.p.isOfPass(in) {
		depth++
	}
	if onlyStore(in) != nil {
		a.value = &val{}
	}
	if !k.demoted[key] && (a.value != nil || k.cellsFor(a, in.Pos())) {
		return val{k: kPtr, p: &ptr{sp: spCell, al: a, depth: depth}}
	}
	for _, l := range cellsOf(t, 0, nil) {
		switch l.k {
		case kNone:
			k.noVariable(in.Pos(), t)
		case kFunc:
			a.functions(k, l.off)
		}
	}
	name := fmt.Sprintf("local_%s_%d", k.name, len(k.decls))
	for i, d := range k.decls {
		if strings.HasSuffix(d, "// "+key) {
			name = fmt.Sprintf("local_%s_%d", k.name, i)
			goto declared
		}
	}
	if k.localSize = (k.localSize+15)&^15 + sizes.Sizeof(t); k.localSize > maxLocal {
		k.fail(in.Pos(), "with this %s, the variables of a thread have %d bytes; at most %d: give it as a parameter", t, k.localSize, maxLocal)
	}
	k.decls = append(k.decls, fmt.Sprintf(".local .align 16 .b8 %s[%d]; // %s", name, sizes.Sizeof(t), key))
declared:
	v := val{k: kPtr, p: &ptr{sp: spLocal, base: name, align: 16, holds: key + "*", depth: depth}}
	if a.value != nil || a.funcs != nil { // memory is for an index that is not constant, and for what has no functions
		v.p.al = a
	}
	if a.value != nil {
		return v
	}
	k.store(v, k.zero(t), t, in.Pos())
	return v
}

// maxLocal is how much memory a thread can have for its variables.
const maxLocal = 512 << 10

// cellsFor makes registers for a variable; false says that they would be too many.
func (k *kctx) cellsFor(a *alloca, pos token.Pos) bool {
	list := cellsOf(a.t, 0, nil)
	if len(list) > 256 {
		return false
	}
	a.cells, a.kinds, a.ptrs = map[int64]string{}, map[int64]kind{}, map[int64]val{}
	for _, l := range list {
		a.kinds[l.off] = l.k
		switch l.k {
		case kNone:
			k.noVariable(pos, a.t)
		case kThread:
		case kFunc:
			a.functions(k, l.off)
		case kPtr:
			name := fmt.Sprint(a.key, "*", l.off)
			h, ok := k.cellPtrs[name]
			if !ok {
				k.nilAt(name)
				h = k.homePtr(name)
				k.cellPtrs[name] = h
			}
			a.ptrs[l.off] = h
			k.mov(h, k.null())
			k.cells[h.p.base] = k.null()
		default:
			r := k.cellReg(a.key, l)
			a.cells[l.off] = r
			z := cst(l.k, 0)
			k.mov(val{k: l.k, r: r}, z)
			k.cells[r] = z
		}
	}
	return true
}

// cellsOf lists the leaves of a variable in registers: as scalars, and pointers.
func cellsOf(t types.Type, off int64, out []scalar) []scalar {
	switch u := t.Underlying().(type) {
	case *types.Pointer:
		if isThread(t) {
			return append(out, scalar{off, nil, kThread, 8})
		}
		return append(out, scalar{off, nil, kPtr, 8})
	case *types.Slice:
		return append(out, scalar{off, nil, kPtr, 8}, scalar{off + 8, types.Typ[types.Int], k64, 8})
	case *types.Signature:
		return append(out, scalar{off, nil, kFunc, 8})
	case *types.Basic:
		if isText(u) {
			return append(out, scalar{off, nil, kPtr, 8}, scalar{off + 8, types.Typ[types.Int], k64, 8})
		}
	case *types.Array:
		n := sizes.Sizeof(u.Elem())
		for i := range u.Len() {
			out = cellsOf(u.Elem(), off+i*n, out)
			if len(out) > 256 {
				break
			}
		}
		return out
	case *types.Struct:
		for i := range u.NumFields() {
			out = cellsOf(u.Field(i).Type(), off+fieldOffset(u, i), out)
		}
		return out
	}
	return scalars(t, off, out)
}

// onlyStore is the one store to a variable that is only read after it. The variable is then its value.
func onlyStore(in *ssa.Alloc) (store *ssa.Store) {
	for _, r := range *in.Referrers() {
		if s, ok := r.(*ssa.Store); ok {
			if store != nil || s.Val == ssa.Value(in) || s.Block() != in.Block() {
				return nil
			}
			store = s
		} else if !reads(r, in, 0) {
			return nil
		}
	}
	for _, i := range in.Block().Instrs {
		if i == ssa.Instruction(store) {
			return store
		}
		if i != ssa.Instruction(in) && slices.Contains(*in.Referrers(), i) {
			return nil
		}
	}
	return nil
}

// part is what lies at an offset in a value.
func part(v val, t types.Type, off int64, want types.Type) (val, bool) {
	if off == 0 && types.Identical(t.Underlying(), want.Underlying()) {
		return v, true
	}
	switch u := t.Underlying().(type) {
	case *types.Array:
		if n := sizes.Sizeof(u.Elem()); n > 0 && off/n < u.Len() && off >= 0 {
			return part(v.e[off/n], u.Elem(), off%n, want)
		}
	case *types.Struct:
		for i := range u.NumFields() {
			f := u.Field(i).Type()
			at, size := off-fieldOffset(u, i), sizes.Sizeof(f)
			if at == 0 && size == 0 && types.Identical(f.Underlying(), want.Underlying()) {
				return v.e[i], true
			}
			if at >= 0 && at < size {
				return part(v.e[i], f, at, want)
			}
		}
	}
	return val{}, false
}

// loadPtr is a pointer in a variable, or the begin of a slice. In memory all pointers of a variable meet.
func (k *kctx) loadPtr(p *ptr) val {
	if p.sp != spCell {
		v := k.homePtr(p.holds)
		k.emit("ld"+spaceName[p.sp]+".u64", []string{v.p.base}, k.memOperand(p))
		return v
	}
	h, ok := p.al.ptrs[p.off]
	if !ok {
		k.demote(p.al)
	}
	if v, ok := k.cells[h.p.base]; ok {
		return v
	}
	q := *h.p
	q.base = k.reg(k64).r
	k.emit("mov.b64", []string{q.base}, h.p.base)
	v := val{k: kPtr, p: &q}
	k.cells[h.p.base] = v
	return v
}

// storePtr stores a pointer.
func (k *kctx) storePtr(p *ptr, v val) {
	if v.p.depth > p.depth {
		k.fail(token.NoPos, "a variable from before the loop keeps a pointer to a variable of one pass: declare that one before the loop too, or keep an index")
	}
	if p.sp != spCell {
		k.meet(val{k: kPtr, r: p.holds}, v)
		k.emit("st"+spaceName[p.sp]+".u64", nil, k.memOperand(p), k.addressIn(k.met[p.holds].sp, v).r).side = true
		return
	}
	h, ok := p.al.ptrs[p.off]
	if !ok {
		k.demote(p.al)
	}
	k.meet(h, v)
	k.mov(h, v)
	k.cells[h.p.base] = v
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
	if x.p.al != nil && x.p.al.value != nil && x.p.sp != spParam {
		v, ok := part(*x.p.al.value, x.p.al.t, x.p.off, t)
		if ok {
			return v
		}
		if x.p.sp == spCell {
			k.demote(x.p.al)
		}
	}
	if list := x.p.vectors(t); list != nil {
		var leaves []val
		for _, p := range list {
			var rs []string
			for range min(p.n, 4) {
				r := k.reg(kindOf(p.t))
				leaves, rs = append(leaves, r), append(rs, r.r)
			}
			k.emitLoad(p.of(), rs, offset(x, p.off).p)
			if p.n == 8 {
				leaves = leaves[:len(leaves)-4]
				for _, r := range rs {
					leaves = append(leaves, k.pure("and.b32", k32, r, "65535"), k.pure("shr.u32", k32, r, "16"))
				}
			}
		}
		return rebuild(k.zero(t), &leaves)
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		if x.p.sp == spCell || x.p.holds != "" {
			return val{k: kAgg, e: []val{k.loadPtr(x.p), k.load(offset(x, 8), types.Typ[types.Int], pos)}}
		}
	case *types.Pointer:
		if isThread(t) {
			return val{k: kThread}
		}
		if x.p.sp == spCell || x.p.holds != "" {
			return k.loadPtr(x.p)
		}
	case *types.Signature:
		return k.loadFunc(x, pos)
	case *types.Struct:
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
		if isText(u) && (x.p.sp == spCell || x.p.holds != "") {
			return val{k: kAgg, e: []val{k.loadPtr(x.p), k.load(offset(x, 8), types.Typ[types.Int], pos)}}
		}
		kd := kindOf(u)
		if kd == kNone || kd == kAgg {
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
			k.emit("ld"+spaceName[p.sp]+".u8", []string{w.r}, k.memOperand(p)).root = p.root
			k.emit("setp.ne.u32", []string{v.r}, w.r, "0")
			return v
		}
		k.emitLoad("."+mem(u), []string{v.r}, p)
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
	if x.p.al != nil && x.p.al.value != nil {
		*x.p.al.value = v
		if x.p.sp == spCell {
			return
		}
		x = offset(x, 0)
		x.p.al = &alloca{funcs: x.p.al.funcs, block: x.p.al.block}
	}
	if list := x.p.vectors(t); list != nil {
		leaves := flat(v, nil)
		for _, p := range list {
			var rs []string
			for _, e := range leaves[:p.n] {
				rs = append(rs, k.register(e).r)
			}
			leaves = leaves[p.n:]
			for i := range p.n / 8 * 4 { // 0x5410: the lower halves of two registers are a word
				rs[i] = k.pure("prmt.b32", k32, rs[2*i], rs[2*i+1], "21520").r
			}
			rs = rs[:min(p.n, 4)]
			text := rs[0]
			if p.n > 1 {
				text = "{" + strings.Join(rs, ", ") + "}"
			}
			k.emit(k.access("st", x.p.sp)+p.of(), nil, k.memOperand(offset(x, p.off).p), text).side = true
		}
		return
	}
	switch u := t.Underlying().(type) {
	case *types.Slice:
		if x.p.sp == spCell || x.p.holds != "" {
			k.storePtr(x.p, v.e[0])
			k.store(offset(x, 8), v.e[1], types.Typ[types.Int], pos)
			return
		}
		k.noStore(pos, t)
	case *types.Pointer:
		if isThread(t) {
			return
		}
		if x.p.sp == spCell || x.p.holds != "" {
			k.storePtr(x.p, v)
			return
		}
		k.noStore(pos, t)
	case *types.Signature:
		k.storeFunc(x, v, pos)
	case *types.Struct:
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
		if isText(u) {
			if p.sp != spCell && p.holds == "" {
				k.noStore(pos, t)
			}
			k.storePtr(p, v.e[0])
			k.store(offset(x, 8), v.e[1], types.Typ[types.Int], pos)
			return
		}
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
		k.emit(k.access("st", p.sp)+"."+mem(u), nil, k.memOperand(p), v.String()).side = true
	default:
		k.noStore(pos, t)
	}
}

func (k *kctx) noStore(pos token.Pos, t types.Type) {
	k.fail(pos, "a kernel stores no %s: pointers and slices stay in variables and parameters", t)
}

func (k *kctx) writes(p *ptr) {
	if p.sp == spGlobal {
		k.written[p.root] = true
	}
}

// noVariable says why no variable can have a type.
func (k *kctx) noVariable(pos token.Pos, t types.Type) {
	text := "a kernel has no variables of type %s: numbers, bools, slices, pointers, and structs and arrays of them"
	switch u := t.Underlying().(type) {
	case *types.Interface:
		k.fail(pos, "a kernel has no interfaces: call a function by its name, or a generic one")
	case *types.Array:
		if _, ok := u.Elem().Underlying().(*types.Interface); ok {
			k.fail(pos, "a kernel has no interfaces: call a function by its name, or a generic one; to print, call t.Printf with the arguments")
		}
	case *types.Basic:
		text = "a kernel has no values of type %s: numbers and bools"
	case *types.Struct:
		text = "a variable of type %s holds what a kernel has not: numbers, bools, slices, pointers, and structs and arrays of them"
	}
	k.fail(pos, text, t)
}

// quads divides a slice of bytes at 16-byte boundaries: gpu.Quads.
func (k *kctx) quads(x val) val {
	at, n := k.address(x.e[0]), x.e[1].String()
	part := func(from, n val, align int64) val {
		p := &ptr{sp: x.e[0].p.sp, base: from.r, align: align, root: x.e[0].p.root}
		return val{k: kAgg, e: []val{{k: kPtr, p: p}, n}}
	}
	before := k.pure("and.b64", k64, k.pure("neg.s64", k64, at.r).r, "15")
	head := k.pure("min.u64", k64, before.r, n)
	rest := k.pure("sub.s64", k64, n, head.r)
	count := k.pure("shr.u64", k64, rest.r, "4")
	size := k.pure("shl.b64", k64, count.r, "4")
	middle := k.pure("add.s64", k64, at.r, head.r)
	tail := k.pure("add.s64", k64, middle.r, size.r)
	return val{k: kAgg, e: []val{
		part(at, head, 1), part(middle, count, 16), part(tail, k.pure("sub.s64", k64, rest.r, size.r), 1),
	}}
}

// view is a slice as one of another element: gpu.View. Its begin is aligned for that, as it says.
func (k *kctx) view(fn *ssa.Function, x val) val {
	from := fn.Signature.Params().At(0).Type().Underlying().(*types.Slice).Elem()
	to := fn.Signature.Results().At(0).Type().Underlying().(*types.Slice).Elem()
	if x.e[0].p == nil || sizes.Sizeof(to) == 0 {
		return val{k: kAgg, e: []val{x.e[0], cst(k64, 0)}}
	}
	p, b := *x.e[0].p, types.Typ[types.Int]
	p.align = max(p.align, min(16, sizes.Sizeof(to)&-sizes.Sizeof(to)))
	n := k.bin(token.MUL, b, b, x.e[1], cst(k64, uint64(sizes.Sizeof(from))), token.NoPos)
	n = k.bin(token.QUO, b, b, n, cst(k64, uint64(sizes.Sizeof(to))), token.NoPos)
	return val{k: kAgg, e: []val{{k: kPtr, p: &p}, n}}
}
