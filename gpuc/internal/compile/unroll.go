package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"math"

	"golang.org/x/tools/go/ssa"
)

// maxTrips and maxWork bound what is unrolled by itself, and the others what a directive asks for.
const maxTrips, maxWork, maxTripsAsked, maxWorkAsked = 128, 12000, 1024, 60000

// maxPlain and maxIndexing bound how many instructions the passes of a loop become that is unrolled by itself. Where the
// passes take other elements of an array of the thread, it is worth more: then the array is registers.
const maxPlain, maxIndexing = 1024, 8000

// unrolls reports whether a loop runs a known number of times that is small.
func (k *kctx) unrolls(f *frame, s *scope, l *loop) bool {
	asked := k.p.unrollOf(f, l)
	if k.o.Plain || asked != nil && asked.n > 0 || asked == nil && k.rolled[f.loopKey(l)] {
		return false
	}
	trips, work := maxTrips, maxWork
	if asked != nil {
		trips, work = maxTripsAsked, maxWorkAsked
	}
	if !k.ends(f, s, l, trips, work) {
		if asked != nil {
			k.fail(asked.pos, "the compiler does not see that this loop runs at most %d times, with %d operations in all: write %s 4, which makes 4 copies of it", trips, work, unrollDirective)
		}
		return false
	}
	return true
}

// loopKey names a loop, the same in each attempt.
func (f *frame) loopKey(l *loop) string {
	return fmt.Sprint(f.path, "/", l.head.Index, "@", f.fn.Name())
}

// budget is how many instructions the passes of a loop may become.
func (k *kctx) budget(f *frame, s *scope, l *loop) int {
	if asked := k.p.unrollOf(f, l); asked != nil {
		return math.MaxInt
	}
	if k.indexes(s, l) {
		return maxIndexing >> k.shrink
	}
	return maxPlain >> k.shrink
}

// indexes reports whether passes of a loop take other elements of an array of the thread, or of a parameter.
func (k *kctx) indexes(s *scope, l *loop) bool {
	known := map[ssa.Value]bool{}
	var varies func(v ssa.Value) bool
	varies = func(v ssa.Value) bool {
		in, ok := v.(ssa.Instruction)
		if !ok || !l.blocks[in.Block()] {
			return false
		}
		if y, ok := known[v]; ok {
			return y
		}
		p, ok := v.(*ssa.Phi)
		known[v] = ok && p.Block() == l.head
		for _, op := range in.Operands(nil) {
			if *op != nil && varies(*op) {
				known[v] = true
			}
		}
		return known[v]
	}
	// own reports whether an address or a value is in registers, as far as no index varies.
	var own func(v ssa.Value) bool
	own = func(v ssa.Value) bool {
		if x, ok := k.tryGet(s, v); ok {
			return x.k == kPtr && x.p.sp == spCell || x.k == kAgg && (len(x.e) == 0 || x.e[0].k != kPtr || x.e[0].p.sp == spCell)
		}
		switch v := v.(type) {
		case *ssa.Alloc:
			return true
		case *ssa.FieldAddr:
			return own(v.X)
		case *ssa.IndexAddr:
			return own(v.X)
		case *ssa.Slice:
			return own(v.X)
		case *ssa.UnOp:
			return v.Op == token.MUL && own(v.X)
		}
		return false
	}
	for b := range l.blocks {
		for _, in := range b.Instrs {
			switch in := in.(type) {
			case *ssa.IndexAddr:
				if varies(in.Index) && own(in.X) {
					return true
				}
			case *ssa.Index:
				if varies(in.Index) {
					return true
				}
			case *ssa.Call: // of a function with such an array
				for _, a := range in.Call.Args {
					if _, ok := a.Type().Underlying().(*types.Pointer); ok && !isThread(a.Type()) && own(a) {
						for _, b := range in.Call.Args {
							if varies(b) {
								return true
							}
						}
					}
				}
			}
		}
	}
	return false
}

// ends reports whether it is known how often a loop runs.
func (k *kctx) ends(f *frame, s *scope, l *loop, trips, work int) bool {
	n := 0
	for b := range l.blocks {
		n += len(b.Instrs)
	}
	type st = map[ssa.Value]val
	fixed := map[*ssa.Phi]bool{}
	first := st{}
	pre := -1
	for i, p := range l.head.Preds {
		if !l.blocks[p] {
			if pre >= 0 {
				return false
			}
			pre = i
		}
	}
	for _, in := range l.head.Instrs {
		if p, ok := in.(*ssa.Phi); ok {
			// the value at the entry was moved to the phi's home: look at where it came from
			if v, ok := k.tryGet(s, p.Edges[pre]); ok && v.isC {
				fixed[p] = true
				first[p] = v
			}
		}
	}
again:
	cur := st{}
	for p, v := range first {
		if fixed[p.(*ssa.Phi)] {
			cur[p] = v
		}
	}
	if len(cur) == 0 {
		return false
	}
	for trip := 0; trip <= trips && trip*n <= work; trip++ {
		look := func(v ssa.Value) (val, bool) {
			if x, ok := cur[v]; ok {
				return x, true
			}
			if in, ok := v.(ssa.Instruction); ok && l.blocks[in.Block()] {
				return val{}, false
			}
			x, ok := k.tryGet(s, v)
			return x, ok && x.isC
		}
		for _, b := range f.rpo {
			if !l.blocks[b] {
				continue
			}
			for _, in := range b.Instrs {
				if v, ok := in.(ssa.Value); ok {
					if x, ok := k.foldInstr(v, look); ok {
						cur[v] = x
					}
				}
			}
			if br, ok := last(b).(*ssa.If); ok && (l.blocks[b.Succs[0]] != l.blocks[b.Succs[1]]) {
				dominates := true
				for _, p := range l.head.Preds {
					dominates = dominates && (!l.blocks[p] || b.Dominates(p))
				}
				if c, ok := look(br.Cond); ok && dominates {
					to := b.Succs[1]
					if c.c != 0 {
						to = b.Succs[0]
					}
					if !l.blocks[to] {
						l.fixed = fixed
						return true
					}
				}
			}
		}
		nxt := st{}
		for p := range first {
			p := p.(*ssa.Phi)
			if !fixed[p] {
				continue
			}
			var got *val
			for i, e := range p.Edges {
				if i == pre {
					continue
				}
				x, ok := look(e)
				if !ok || got != nil && got.c != x.c {
					fixed[p] = false
					goto again
				}
				got = &x
			}
			nxt[p] = *got
		}
		cur = nxt
	}
	return false
}

func (k *kctx) tryGet(s *scope, v ssa.Value) (val, bool) {
	switch v.(type) {
	case *ssa.Const:
		if kindOf(v.Type()) == kAgg || kindOf(v.Type()) == kPtr || kindOf(v.Type()) == kNone {
			return val{}, false
		}
		return k.get(s, v), true
	}
	return s.get(v)
}

func (k *kctx) foldInstr(v ssa.Value, look func(ssa.Value) (val, bool)) (val, bool) {
	switch v := v.(type) {
	case *ssa.BinOp:
		x, ok1 := look(v.X)
		y, ok2 := look(v.Y)
		if ok1 && ok2 && x.isC && y.isC {
			if xb, ok := v.X.Type().Underlying().(*types.Basic); ok {
				yb := v.Y.Type().Underlying().(*types.Basic)
				return fold(v.Op, xb, yb, x, y)
			}
		}
	case *ssa.Convert:
		if x, ok := look(v.X); ok && x.isC {
			from, ok1 := v.X.Type().Underlying().(*types.Basic)
			to, ok2 := v.Type().Underlying().(*types.Basic)
			if ok1 && ok2 {
				return foldConvert(from, to, x)
			}
		}
	case *ssa.ChangeType:
		return look(v.X)
	}
	return val{}, false
}

// exit is where the head of a loop leaves it, if nothing else does.
func (l *loop) exit() (to *ssa.BasicBlock) {
	for b := range l.blocks {
		for _, next := range b.Succs {
			if !l.blocks[next] {
				if b != l.head || to != nil {
					return nil
				}
				to = next
			}
		}
	}
	return to
}

func (k *kctx) unroll(f *frame, s *scope, l *loop) {
	pre := 0
	for i, p := range l.head.Preds {
		if !l.blocks[p] {
			pre = i
		}
	}
	bind := map[*ssa.Phi]val{}
	for _, in := range l.head.Instrs {
		if p, ok := in.(*ssa.Phi); ok {
			v, ok := k.tryGet(s, p.Edges[pre])
			if !ok {
				v = k.get(s, p.Edges[pre])
			}
			bind[p] = v
		}
	}
	most, begin := k.budget(f, s, l), len(k.out)
	k.unrolled = k.unrolled || most < math.MaxInt
	if u := k.p.unrollOf(f, l); u != nil && !k.asked.IsValid() {
		k.asked = u.pos
		defer func() { k.asked = token.NoPos }()
	}
	end := k.repeat(f, s, l, bind, func(i int) bool {
		if len(k.out)-begin > most { // begin again without
			k.rolled[f.loopKey(l)] = true
			panic(restart{})
		}
		if i > maxTripsAsked+1 {
			k.fail(l.head.Instrs[0].Pos(), "internal error: the loop does not end")
		}
		return false
	})
	if to, ok := s.labels[l.exit()]; ok && k.jumps[to] == 1 { // one way leads through all copies: what they know holds after it
		s.done[l.head] = end.done[l.head]
	}
}
