package compile

import (
	"go/token"

	"golang.org/x/tools/go/ssa"
)

// maxEarly is how many instructions of a block are computed before it is known whether it runs.
const maxEarly = 24

// join makes one branch of conditions that lead to one place, such as a && b. It computes what the block after them
// needs before the branch. What stays there are loads and stores, which ptxas does without a branch, many at once. yes
// and no are the blocks that the two edges come from. The blocks between are not written any more.
func (k *kctx) join(f *frame, s *scope, b *ssa.BasicBlock, cond val) (c val, yes, no *ssa.BasicBlock) {
	if k.o.Plain || f.loops[b] != nil {
		return cond, b, b
	}
	for side, op := range []string{"and.pred", "or.pred"} {
		exit, from, known := b.Succs[1-side], b, k.cur
		next := func() *ssa.BasicBlock {
			if t := from.Succs[side]; len(t.Preds) == 1 && t != exit && len(t.Instrs) <= maxEarly && f.sameLoops(b, t) {
				return t
			}
			return nil
		}
		for t := next(); t != nil && k.decides(f, s, b, t, side); t = next() {
			k.early(f, s, t)
			with := k.get(s, last(t).(*ssa.If).Cond)
			if with.isC {
				break
			}
			known = k.after(known, s, from, side == 0)
			s.done[t] = known
			cond, from = k.pure(op, kPred, cond.r, with.r), t
		}
		if t := next(); t != nil && len(t.Succs) == 1 && t.Succs[0] == exit {
			if k.guard = cond; side == 1 {
				k.guard = k.pure("not.pred", kPred, cond.r)
			}
			k.facts = k.after(known, s, from, side == 0)
			k.early(f, s, t)
			k.guard, k.facts = val{}, nil
		}
		if from != b && side == 0 {
			return cond, from, b
		} else if from != b {
			return cond, b, from
		}
	}
	return cond, b, b
}

// after is what is known where the condition of a block holds, or does not.
func (k *kctx) after(up *table, s *scope, b *ssa.BasicBlock, holds bool) *table {
	keep := k.cur
	defer func() { k.cur = keep }()
	k.cur = newTable(up)
	k.learn(s, last(b).(*ssa.If).Cond, holds)
	return k.cur
}

// decides reports whether a block has nothing but a condition, which leads to where the condition of b leads, and with the same.
func (k *kctx) decides(f *frame, s *scope, b, t *ssa.BasicBlock, side int) bool {
	exit := b.Succs[1-side]
	if _, ok := last(t).(*ssa.If); !ok || t.Succs[1-side] != exit || t.Succs[side] == exit {
		return false
	}
	edges := map[*ssa.BasicBlock]int{}
	for i, p := range exit.Preds {
		edges[p] = i
	}
	for _, in := range exit.Instrs {
		if p, ok := in.(*ssa.Phi); ok && p.Edges[edges[b]] != p.Edges[edges[t]] {
			return false
		}
	}
	can := map[ssa.Value]bool{}
	for _, in := range t.Instrs[:len(t.Instrs)-1] {
		if !k.canEarly(s, in, can) {
			return false
		}
	}
	return true
}

// early computes what a block needs, as far as that has no effect and cannot fail.
func (k *kctx) early(f *frame, s *scope, b *ssa.BasicBlock) {
	can := map[ssa.Value]bool{}
	for _, in := range b.Instrs[:len(b.Instrs)-1] {
		if k.canEarly(s, in, can) {
			k.pos = in.Pos()
			k.instr(f, s, in)
			s.early[in] = true
		}
	}
}

// canEarly reports whether an instruction can be computed before it is known that it is needed; can has those before it
// in its block that can.
func (k *kctx) canEarly(s *scope, in ssa.Instruction, can map[ssa.Value]bool) bool {
	v, ok := in.(ssa.Value)
	if !ok {
		return false
	}
	for _, op := range in.Operands(nil) {
		if d, ok := (*op).(ssa.Instruction); ok && d.Block() == in.Block() && !can[*op] {
			return false
		}
	}
	switch in := in.(type) {
	case *ssa.BinOp:
		y, known := in.Y.(*ssa.Const)
		ok = kindOf(in.X.Type()) != kAgg && kindOf(in.X.Type()) != kPtr &&
			(in.Op != token.QUO && in.Op != token.REM || known && kindOf(y.Type()) == k64 && y.Int64() != 0)
	case *ssa.UnOp:
		ok = in.Op == token.SUB || in.Op == token.XOR || in.Op == token.NOT
	case *ssa.Convert:
		ok = true
	case *ssa.FieldAddr:
		x, okX := k.tryGet(s, in.X)
		ok = k.off() || k.guard.r != "" || okX && !k.mayBeNil(x)
	case *ssa.IndexAddr:
		x, okX := k.tryGet(s, in.X)
		_, okI := k.tryGet(s, in.Index)
		if ok = k.off() || k.guard.r != ""; !ok && okX && okI && !k.mayBeNil(x) {
			_, n := k.elements(in, x)
			ok = k.within(k.index(s, in.Index), n)
		}
	case *ssa.Call:
		fn := in.Call.StaticCallee()
		ok = fn != nil && fn.Signature.Recv() != nil && isThread(fn.Signature.Recv().Type()) && fn.Signature.Results().Len() == 1
	default:
		ok = false
	}
	can[v] = ok
	return ok
}

// sameLoops reports whether two blocks are in the same loops.
func (f *frame) sameLoops(a, b *ssa.BasicBlock) bool {
	for _, l := range f.loops {
		if l.blocks[a] != l.blocks[b] {
			return false
		}
	}
	return true
}
