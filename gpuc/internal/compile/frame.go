package compile

import "golang.org/x/tools/go/ssa"

// frame is a call that is inlined; scope is one copy of a loop's body in it, or all of it.
type frame struct {
	fn     *ssa.Function
	path   string
	rpo    []*ssa.BasicBlock
	loops  map[*ssa.BasicBlock]*loop
	ret    string
	res    val
	hasRes bool
	nret   int
}

type loop struct {
	head    *ssa.BasicBlock
	blocks  map[*ssa.BasicBlock]bool
	latches int
	live    []ssa.Value       // defined within, used outside
	fixed   map[*ssa.Phi]bool // constant in each copy
	counted *counter          // while several passes with one test are written
}

type scope struct {
	up     *scope
	loop   *loop
	m      map[ssa.Value]val
	labels map[*ssa.BasicBlock]string
	next   map[*ssa.Phi]val // what the next copy begins with
	nextL  string
	nextT  *table
	reach  bool
	number int  // of a copy of a loop
	last   bool // of some copies of a loop: the next pass is one of the first
	done   map[*ssa.BasicBlock]*table
	early  map[ssa.Instruction]bool // computed before their block
}

func (k *kctx) newFrame(fn *ssa.Function, path string) *frame {
	f := &frame{fn: fn, path: path, loops: map[*ssa.BasicBlock]*loop{}}
	seen := map[*ssa.BasicBlock]bool{}
	var post []*ssa.BasicBlock
	var walk func(b *ssa.BasicBlock)
	walk = func(b *ssa.BasicBlock) {
		seen[b] = true
		for i := len(b.Succs) - 1; i >= 0; i-- {
			if !seen[b.Succs[i]] {
				walk(b.Succs[i])
			}
		}
		post = append(post, b)
	}
	walk(k.p.blocks(fn)[0])
	for i := len(post) - 1; i >= 0; i-- {
		f.rpo = append(f.rpo, post[i])
	}
	for _, b := range f.rpo {
		for _, h := range b.Succs {
			if !h.Dominates(b) {
				continue
			}
			l := f.loops[h]
			if l == nil {
				l = &loop{head: h, blocks: map[*ssa.BasicBlock]bool{h: true}}
				f.loops[h] = l
			}
			l.latches++
			work := []*ssa.BasicBlock{b}
			for len(work) > 0 {
				x := work[len(work)-1]
				work = work[:len(work)-1]
				if l.blocks[x] {
					continue
				}
				l.blocks[x] = true
				work = append(work, x.Preds...)
			}
		}
	}
	for _, l := range f.loops {
		for _, b := range f.rpo {
			if !l.blocks[b] {
				continue
			}
			for _, in := range b.Instrs {
				v, ok := in.(ssa.Value)
				if !ok || v.Referrers() == nil {
					continue
				}
				for _, r := range *v.Referrers() {
					out := !l.blocks[r.Block()]
					if p, ok := r.(*ssa.Phi); ok && out { // moved on the edge
						out = false
						for i, e := range p.Edges {
							if e == v && !l.blocks[p.Block().Preds[i]] {
								out = true
							}
						}
					}
					if out {
						l.live = append(l.live, v)
						break
					}
				}
			}
		}
	}
	return f
}

func newScope(up *scope, l *loop) *scope {
	return &scope{up: up, loop: l, m: map[ssa.Value]val{}, labels: map[*ssa.BasicBlock]string{}, done: map[*ssa.BasicBlock]*table{}, early: map[ssa.Instruction]bool{}}
}

func (s *scope) get(v ssa.Value) (val, bool) {
	for ; s != nil; s = s.up {
		if x, ok := s.m[v]; ok {
			return x, true
		}
	}
	return val{}, false
}

func last(b *ssa.BasicBlock) ssa.Instruction { return b.Instrs[len(b.Instrs)-1] }

// depth is how many loops of the function a block is in.
func (f *frame) depth(b *ssa.BasicBlock) (n int) {
	for _, l := range f.loops {
		if l.blocks[b] {
			n++
		}
	}
	return n
}

// around is how many loops there are around the instruction, those around the calls among them.
func (k *kctx) around() (n int) {
	for _, l := range k.loops {
		n += l
	}
	return n
}
