package compile

import (
	"go/token"
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// place begins at a label. What variables hold is known if one way alone leads there.
func (k *kctx) place(l string, header bool) {
	k.out = append(k.out, ins{label: l})
	if k.jumps[l] == 1 && !header {
		k.cells = k.saved[l]
	} else {
		k.cells = map[string]val{}
	}
}

func (k *kctx) jump(l string) {
	k.jumps[l]++
	k.saved[l] = maps.Clone(k.cells)
}

func (k *kctx) bra(l string) {
	k.jump(l)
	k.out = append(k.out, ins{op: "bra", text: l, target: l, side: true})
}

func (k *kctx) cbra(p string, not bool, l string) {
	k.jump(l)
	k.out = append(k.out, ins{op: "bra", text: l, target: l, side: true, guard: p, guardNot: not})
}

func (k *kctx) phis(f *frame, s *scope, b *ssa.BasicBlock) {
	for _, in := range b.Instrs {
		p, ok := in.(*ssa.Phi)
		if !ok {
			return
		}
		if _, ok := s.m[p]; !ok {
			s.m[p] = k.home(p.Type(), f.path+"/"+p.Name()+"@"+f.fn.Name())
		}
	}
}

func (s *scope) label(k *kctx, b *ssa.BasicBlock) string {
	l, ok := s.labels[b]
	if !ok {
		l = k.label()
		s.labels[b] = l
	}
	return l
}

// moves does what an edge does, and gives the label to jump to.
func (k *kctx) moves(f *frame, s *scope, from, to *ssa.BasicBlock) string {
	at := s
	// Out of copies of loops.
	for at.loop != nil && !at.loop.blocks[to] {
		for _, v := range at.loop.live {
			x, ok := at.m[v]
			if !ok {
				continue
			}
			if x.k == kThread || x.k == kFunc {
				at.up.m[v] = x
				continue
			}
			h, ok := at.up.m[v]
			if !ok {
				h = k.home(v.Type(), f.path+"/live "+v.Name()+"@"+f.fn.Name())
				at.up.m[v] = h
			}
			k.meet(h, x)
			k.mov(h, x)
		}
		at = at.up
	}
	if at.last && to == at.loop.head {
		at = at.up
	}
	edge := -1
	for i, p := range to.Preds {
		if p == from {
			edge = i
		}
	}
	var ps []*ssa.Phi
	for _, in := range to.Instrs {
		p, ok := in.(*ssa.Phi)
		if !ok {
			break
		}
		ps = append(ps, p)
	}
	k.keeps(f, s, from, to, ps, edge)
	if at.loop != nil && to == at.loop.head { // to the next copy
		if at.nextL == "" {
			at.nextL = k.label()
			at.next = map[*ssa.Phi]val{}
		}
		at.reach, at.nextT = true, k.cur
		if at.loop.latches == 1 {
			for _, p := range ps {
				at.next[p] = k.get(s, p.Edges[edge])
			}
			return at.nextL
		}
		at.nextT = at.done[at.loop.head]
		var dst, src []val
		for _, p := range ps {
			v := k.get(s, p.Edges[edge])
			if at.loop.fixed[p] {
				at.next[p] = v
				continue
			}
			h, ok := at.next[p]
			if !ok {
				h = k.home(p.Type(), f.path+"/"+p.Name()+"@"+f.fn.Name())
				at.next[p] = h
			}
			dst, src = append(dst, h), append(src, v)
		}
		k.parallel(dst, src)
		return at.nextL
	}
	k.phis(f, at, to)
	var dst, src []val
	for _, p := range ps {
		dst, src = append(dst, at.m[p]), append(src, k.get(s, p.Edges[edge]))
	}
	k.parallel(dst, src)
	return at.label(k, to)
}

// parallel moves all at once.
func (k *kctx) parallel(dst, src []val) {
	var d, s []val
	var flat func(a, b val)
	flat = func(a, b val) {
		switch a.k {
		case kAgg:
			for i := range a.e {
				flat(a.e[i], b.e[i])
			}
		case kThread, kNone:
		case kFunc:
			k.meet(a, b)
		case kPtr:
			k.meet(a, b)
			d, s = append(d, val{k: k64, r: a.p.base}), append(s, k.addressIn(a.p.sp, b))
		default:
			if b.isC || a.r != b.r {
				d, s = append(d, a), append(s, b)
			}
		}
	}
	for i := range dst {
		flat(dst[i], src[i])
	}
	for len(d) > 0 {
		ready := -1
		for i := range d {
			used := false
			for j := range s {
				used = used || j != i && !s[j].isC && s[j].r == d[i].r
			}
			if !used {
				ready = i
				break
			}
		}
		if ready < 0 { // a cycle
			t := k.reg(s[0].k)
			k.mov(t, s[0])
			s[0] = t
			continue
		}
		k.mov(d[ready], s[ready])
		d, s = append(d[:ready:ready], d[ready+1:]...), append(s[:ready:ready], s[ready+1:]...)
	}
}

// region emits the blocks of a scope.
func (k *kctx) region(f *frame, s *scope, reached map[*ssa.BasicBlock]bool) {
	skip := map[*ssa.BasicBlock]bool{}
	for _, b := range f.rpo {
		if skip[b] || s.loop != nil && !s.loop.blocks[b] {
			continue
		}
		l, ok := s.labels[b]
		if !ok && !reached[b] {
			continue
		}
		lp := f.loops[b]
		own := lp != nil && lp != s.loop
		un := own && k.unrolls(f, s, lp)
		if ok {
			k.place(l, own && !un)
		}
		if n := 1; own {
			if u := k.p.unrollOf(f, lp); u != nil && !k.o.Plain {
				n = u.n
			} else if c := k.counting(f, lp); !un && c != nil && k.several(f, s, lp, c) {
				k.place(c.rest, true)
			}
			if un || n > 1 {
				if un {
					k.unroll(f, s, lp)
				} else {
					k.copies(f, s, lp, n)
				}
				for x := range lp.blocks {
					skip[x] = true
				}
				continue
			}
		}
		k.block(f, s, b)
	}
}

func (k *kctx) dom(s *scope, b *ssa.BasicBlock) *table {
	for d := b.Idom(); d != nil; d = d.Idom() {
		for x := s; x != nil; x = x.up {
			if t, ok := x.done[d]; ok {
				return t
			}
		}
	}
	return nil
}

func (k *kctx) block(f *frame, s *scope, b *ssa.BasicBlock) {
	if s.done[b] == nil {
		up := k.dom(s, b)
		if up == nil {
			up = k.cur
		}
		s.done[b] = newTable(up)
	}
	k.cur = s.done[b]
	k.nblock++
	k.blockID = k.nblock
	if len(b.Preds) == 1 {
		if br, ok := last(b.Preds[0]).(*ssa.If); ok && b.Preds[0].Succs[0] != b.Preds[0].Succs[1] {
			yes := b.Preds[0].Succs[0] == b
			k.learn(s, br.Cond, yes)
		}
	}
	k.loops[len(k.loops)-1] = f.depth(b)
	if a := k.ahead; a != nil && a.f == f {
		a.copy, a.sure = s.number, b.Dominates(a.latch)
	}
	k.phis(f, s, b)
	at := k.pos
	for _, in := range b.Instrs {
		if s.early[in] {
			continue
		}
		if in.Pos().IsValid() {
			at = in.Pos()
		}
		k.pos = at
		begin := len(k.out)
		switch in := in.(type) {
		case *ssa.Phi, *ssa.DebugRef:
		case *ssa.Jump:
			k.bra(k.moves(f, s, b, b.Succs[0]))
		case *ssa.If:
			if s.loop != nil && s.loop.counted != nil && b == s.loop.head {
				k.inside(f, s, b)
				break
			}
			c := k.get(s, in.Cond)
			if c.isC {
				i := 1
				if c.c != 0 {
					i = 0
				}
				k.bra(k.moves(f, s, b, b.Succs[i]))
				break
			}
			c, yes, no := k.join(f, s, b, c)
			mark := len(k.out)
			keep := k.cur
			k.cur = newTable(keep)
			lt := k.moves(f, s, yes, yes.Succs[0])
			if len(k.out) == mark {
				k.cbra(c.r, false, lt)
				k.cur = newTable(keep)
				k.bra(k.moves(f, s, no, no.Succs[1]))
			} else {
				other := k.label()
				tail := append([]ins{}, k.out[mark:]...)
				k.out = append(k.out[:mark], ins{op: "bra", text: other, target: other, side: true, guard: c.r, guardNot: true})
				k.jump(other)
				k.out = append(k.out, tail...)
				k.bra(lt)
				k.place(other, false)
				k.cur = newTable(keep)
				k.bra(k.moves(f, s, no, no.Succs[1]))
			}
			k.cur = keep
		case *ssa.Return:
			k.ret(f, s, in)
		case *ssa.Panic:
			k.trap(in.Pos(), "panic", "0", "0", "")
		default:
			k.instr(f, s, in)
		}
		for i := begin; i < len(k.out); i++ {
			if !k.out[i].pos.IsValid() {
				k.out[i].pos = at
			}
		}
	}
}

func (k *kctx) ret(f *frame, s *scope, in *ssa.Return) {
	if f.ret == "" {
		if k.callee != nil {
			v := val{k: kAgg}
			for _, r := range in.Results {
				v.e = append(v.e, k.get(s, r))
			}
			k.callee.store(k, v)
		}
		k.out = append(k.out, ins{op: "ret", side: true})
		return
	}
	var v val
	if len(in.Results) == 1 {
		v = k.get(s, in.Results[0])
	} else if len(in.Results) > 1 {
		v.k = kAgg
		for _, r := range in.Results {
			v.e = append(v.e, k.get(s, r))
		}
	}
	if f.nret == 1 && s.up == nil {
		f.res, f.hasRes = v, true
	} else if len(in.Results) > 0 {
		if !f.hasRes {
			t := types.Type(f.fn.Signature.Results())
			if len(in.Results) == 1 {
				t = f.fn.Signature.Results().At(0).Type()
			}
			f.res, f.hasRes = k.home(t, f.path+"/result "+f.fn.Name()), true
		}
		k.meet(f.res, v)
		k.mov(f.res, v)
	}
	k.bra(f.ret)
}

// maxDepth is how deep calls are nested.
const maxDepth = 24

// call inlines a function.
func (k *kctx) call(fn *ssa.Function, args []val, path string, caller *ssa.Function, pos token.Pos) val {
	k.enter(caller, pos)
	if len(k.calls)-k.base > maxDepth {
		for i, r := range k.stack {
			if slices.ContainsFunc(k.stack[i+1:], func(again running) bool { return again.fn == r.fn }) {
				k.endless(pos, r.fn)
			}
		}
		k.fail(pos, "calls are nested more than %d deep: put //go:noinline before one of the functions, so that it is not inlined", maxDepth)
	}
	bound := args[len(fn.Params):]
	if slices.ContainsFunc(k.stack, func(r running) bool { return r.is(fn, bound) }) {
		k.recursion(fn)
	}
	k.stack = append(k.stack, running{fn, bound})
	begin, shared := len(k.out), len(k.shared)
	if k.ahead != nil && len(fn.Blocks) > 1 {
		k.ahead.calls++
		defer func(a *ahead) { a.calls-- }(k.ahead)
	}
	k.ordered(fn)
	f := k.newFrame(fn, path)
	f.ret = k.label()
	for _, b := range f.rpo {
		if _, ok := last(b).(*ssa.Return); ok {
			f.nret++
		}
	}
	s := newScope(nil, nil)
	bind(s, fn, args)
	base, block := k.cur, k.blockID
	s.done[fn.Blocks[0]] = newTable(base)
	k.region(f, s, map[*ssa.BasicBlock]bool{fn.Blocks[0]: true})
	k.place(f.ret, false)
	k.blockID = block
	k.leave()
	k.stack = k.stack[:len(k.stack)-1]
	if len(k.out)-begin > large {
		if k.inlined[fn] && shared == len(k.shared) && !holdsPointer(fn.Signature.Results()) {
			k.outlined.large[fn] = true
			panic(restart{})
		}
		k.inlined[fn] = true
	}
	k.cur = newTable(base)
	if f.nret == 1 { // what is known at the return holds after the call
		for _, b := range f.rpo {
			if _, ok := last(b).(*ssa.Return); ok && s.done[b] != nil {
				k.cur = newTable(s.done[b])
			}
		}
	}
	return f.res
}

// keeps rejects a pointer to a variable of one pass of a loop that the next pass gets. There is one such variable in the
// kernel, where Go has a new one in each pass.
func (k *kctx) keeps(f *frame, s *scope, from, to *ssa.BasicBlock, phis []*ssa.Phi, edge int) {
	if l := f.loops[to]; l == nil || !l.blocks[from] {
		return
	}
	depth := k.around() - k.loops[len(k.loops)-1] + f.depth(to)
	for _, p := range phis {
		for _, v := range flat(k.get(s, p.Edges[edge]), nil) {
			if v.k == kPtr && v.p.depth >= depth {
				k.fail(p.Pos(), "a loop takes a pointer to a variable of one pass to the next: declare the variable before the loop, or keep an index")
			}
		}
	}
}
