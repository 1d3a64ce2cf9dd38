package compile

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// A loop that counts to a number that is not known here, with a small body that loads, is two loops. One makes several
// passes with one test, so that their loads are on their way at once. The other makes those that are left.

// counter is such a loop: it goes on while x < n, and each pass adds step to x.
type counter struct {
	x      ssa.Value // the phi, or the phi and a constant
	t      *types.Basic
	n      ssa.Value
	step   ssa.Value
	inside int // the way out of the head that stays in the loop
	copies int

	limit val    // x below it: all copies run
	rest  string // the label of the other loop
}

// maxSeveral4 and maxSeveral2 are how many instructions of go/ssa a body has at most of which there are four or two.
const maxSeveral4, maxSeveral2 = 24, 40

// counting looks whether a loop is one that counts.
func (k *kctx) counting(f *frame, l *loop) *counter {
	br, ok := last(l.head).(*ssa.If)
	if !ok || k.o.Plain || l.latches != 1 || l.blocks[l.head.Succs[0]] == l.blocks[l.head.Succs[1]] {
		return nil
	}
	for b := range l.blocks {
		if f.loops[b] != nil && b != l.head {
			return nil
		}
		for _, to := range b.Succs {
			if b != l.head && !l.blocks[to] {
				return nil
			}
		}
	}
	cond, ok := br.Cond.(*ssa.BinOp)
	if !ok || cond.Block() != l.head {
		return nil
	}
	c := &counter{x: cond.X, n: cond.Y}
	op := cond.Op
	if !l.blocks[l.head.Succs[0]] {
		c.inside = 1
		op = map[token.Token]token.Token{token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR}[op]
	}
	if op == token.GTR || op == token.GEQ {
		c.x, c.n, op = c.n, c.x, map[token.Token]token.Token{token.GTR: token.LSS, token.GEQ: token.LEQ}[op]
	}
	c.t, ok = c.x.Type().Underlying().(*types.Basic)
	if op != token.LSS && op != token.LEQ || !ok || c.t.Info()&types.IsInteger == 0 || sizes.Sizeof(c.t) < 4 || !c.steps(l) {
		return nil
	}
	_, fixedN := c.n.(*ssa.Const)
	_, fixedStep := c.step.(*ssa.Const)
	work, loads, again := k.work(l)
	switch {
	case again: // the rest begins with the head once more
		return nil
	case fixedN && !fixedStep: // the threads of a block share some work: a pass or two for each
		return nil
	case !loads || work > maxSeveral2 || !l.before(c.n) || !l.before(c.step):
		return nil
	case work <= maxSeveral4:
		c.copies = 4
	default:
		c.copies = 2
	}
	return c
}

// steps finds what each pass adds.
func (c *counter) steps(l *loop) bool {
	phi, ok := c.x.(*ssa.Phi)
	if b, isSum := c.x.(*ssa.BinOp); isSum && b.Op == token.ADD && b.Block() == l.head {
		if _, isConst := b.Y.(*ssa.Const); isConst {
			phi, ok = b.X.(*ssa.Phi)
		}
	}
	if !ok || phi.Block() != l.head {
		return false
	}
	for i, p := range l.head.Preds {
		if next, ok := phi.Edges[i].(*ssa.BinOp); l.blocks[p] {
			if !ok || next.Op != token.ADD || next.X != phi {
				return false
			}
			c.step = next.Y
		}
	}
	return true
}

// before reports whether a value can be computed before the loop: what a pass computes has to be the same in each, and
// in the head or without effect. The loop stores nothing.
func (l *loop) before(v ssa.Value) bool {
	in, ok := v.(ssa.Instruction)
	if !ok || !l.blocks[in.Block()] {
		return true
	}
	switch in := in.(type) {
	case *ssa.UnOp:
		if in.Op == token.MUL && in.Block() != l.head {
			return false
		}
	case *ssa.IndexAddr:
		if in.Block() != l.head {
			return false
		}
	case *ssa.BinOp:
		if in.Op == token.QUO || in.Op == token.REM {
			return false
		}
	case *ssa.Call:
		b, ok := in.Call.Value.(*ssa.Builtin)
		fn := in.Call.StaticCallee()
		if !(ok && b.Name() == "len" || fn != nil && fn.Signature.Recv() != nil && isThread(fn.Signature.Recv().Type()) && fn.Signature.Results().Len() == 1) {
			return false
		}
	case *ssa.Convert, *ssa.FieldAddr, *ssa.ChangeType:
	default:
		return false
	}
	for _, op := range in.Operands(nil) {
		if !l.before(*op) {
			return false
		}
	}
	return true
}

// compute computes a value before the loop, in scope s.
func (k *kctx) compute(f *frame, s *scope, l *loop, v ssa.Value) val {
	if in, ok := v.(ssa.Instruction); ok && l.blocks[in.Block()] {
		if _, done := s.m[v]; !done {
			for _, op := range in.Operands(nil) {
				k.compute(f, s, l, *op)
			}
			k.instr(f, s, in)
		}
	}
	if _, ok := v.(*ssa.Builtin); ok {
		return val{}
	}
	if _, ok := v.(*ssa.Function); ok {
		return val{}
	}
	return k.get(s, v)
}

// work is how many instructions a loop has, with the functions that it calls, and whether it loads. They are too many where
// it stores: loads do not pass a store. again says whether its head changes a variable that
// lasts, as the body of for i := range n can, which is one block with the test at its end.
func (k *kctx) work(l *loop) (n int, loads, again bool) {
	const tooMany = 1 << 20
	var function func(fn *ssa.Function, depth int)
	head := false
	instr := func(in ssa.Instruction, depth int) {
		switch in := in.(type) {
		case *ssa.Phi, *ssa.DebugRef, *ssa.Jump:
		case *ssa.UnOp:
			n++
			loads = loads || in.Op == token.MUL && !local(in.X)
		case *ssa.Store:
			again = again || head && depth == 0 && !l.makes(in.Addr)
			if n++; !local(in.Addr) {
				n = tooMany
			}
		case *ssa.BinOp:
			n++
			if _, ok := in.Y.(*ssa.Const); !ok && (in.Op == token.QUO || in.Op == token.REM) {
				n += maxSeveral4
			}
		case *ssa.Convert, *ssa.ChangeType, *ssa.IndexAddr, *ssa.FieldAddr, *ssa.Field, *ssa.Index, *ssa.Extract, *ssa.If, *ssa.Slice, *ssa.Alloc, *ssa.Return:
			n++
		case *ssa.Call:
			n++
			fn := in.Call.StaticCallee()
			if _, ok := in.Call.Value.(*ssa.Builtin); ok {
				return
			}
			path := ""
			if fn != nil && fn.Pkg != nil {
				path = fn.Pkg.Pkg.Path()
			}
			if fn != nil && fn.Origin() != nil && fn.Origin().Pkg != nil {
				path = fn.Origin().Pkg.Pkg.Path()
			}
			switch {
			case fn == nil, k.outlines(fn):
				n = tooMany
			case path == gpuPackage:
				name := fn.Name()
				if o := fn.Origin(); o != nil {
					name = o.Name()
				}
				if r := fn.Signature.Recv(); !(r != nil && isThread(r.Type()) && fn.Signature.Results().Len() == 1) && float32Ops[name] == "" {
					n = tooMany
				}
			case path == "math" && mathOps[fn.Name()].op == "":
				n = tooMany
			case path == "math", path == "math/bits":
			default:
				function(fn, depth+1)
			}
		default:
			n = tooMany
		}
	}
	function = func(fn *ssa.Function, depth int) {
		blocks := k.p.blocks(fn)
		if len(blocks) == 0 || depth > 4 { // it may call itself
			n = tooMany
			return
		}
		for _, b := range blocks {
			for _, to := range b.Succs {
				if to.Dominates(b) {
					n = tooMany
				}
			}
			for _, in := range b.Instrs {
				instr(in, depth)
			}
		}
	}
	for b := range l.blocks {
		head = b == l.head
		for _, in := range b.Instrs {
			instr(in, 0)
		}
	}
	return n, loads, again
}

// makes reports whether a variable is one of each pass.
func (l *loop) makes(addr ssa.Value) bool {
	for {
		switch a := addr.(type) {
		case *ssa.FieldAddr:
			addr = a.X
		case *ssa.IndexAddr:
			addr = a.X
		case *ssa.Alloc:
			return l.blocks[a.Block()]
		default:
			return false
		}
	}
}

// several writes the loop that makes several passes with one test. The label of its head is placed; that of the other
// loop comes next.
func (k *kctx) several(f *frame, s *scope, l *loop, c *counter) bool {
	up := k.dom(s, l.head)
	if up == nil {
		up = k.cur
	}
	k.cur = newTable(up)
	mark := len(k.out)
	before := newScope(s, nil)
	n, step := k.compute(f, before, l, c.n), k.compute(f, before, l, c.step)
	most, ok := k.bound(step)
	if !ok || most == 0 || most > 1<<(8*sizes.Sizeof(c.t)-8) { // so that no product with the number of copies overflows
		k.out = k.out[:mark]
		return false
	}
	span := k.bin(token.MUL, c.t, c.t, step, cst(step.k, uint64(c.copies-1)), token.NoPos)
	low := span // the least n from which span can be taken
	if !unsigned(c.t) {
		low = k.bin(token.ADD, c.t, c.t, span, cst(step.k, norm(c.t, 1<<(8*sizes.Sizeof(c.t)-1))), token.NoPos)
	}
	c.limit = k.bin(token.SUB, c.t, c.t, k.minMax("max", c.t, n, low), span, token.NoPos)
	c.rest = k.label()
	pre := k.cur
	k.phis(f, s, l.head)
	k.askAhead(f, s, l, c, step)

	s.labels[l.head] = k.label()
	k.place(s.labels[l.head], true)
	if k.ahead != nil && k.ahead.c == c {
		k.ahead.widen(k)
	}
	bind := map[*ssa.Phi]val{}
	for _, in := range l.head.Instrs {
		if p, ok := in.(*ssa.Phi); ok {
			bind[p] = s.m[p]
		}
	}
	l.counted = c
	k.repeat(f, s, l, bind, func(i int) bool { return i == c.copies-1 })
	l.counted = nil
	if k.ahead != nil && k.ahead.c == c {
		k.askedAhead(l, n, step, pre)
	}
	s.labels[l.head] = c.rest
	return true
}

// inside goes from the head of a counted loop into its body. The first copy asks for all.
func (k *kctx) inside(f *frame, s *scope, b *ssa.BasicBlock) {
	c := s.loop.counted
	if s.number == 0 {
		p := k.pure("setp.lt."+num(c.t), kPred, k.get(s, c.x).String(), c.limit.String())
		k.cbra(p.r, true, c.rest)
	}
	k.bra(k.moves(f, s, b, b.Succs[c.inside]))
}
