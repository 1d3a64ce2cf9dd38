package compile

import "golang.org/x/tools/go/ssa"

// Go has a new variable for each pass of a loop whose variable's address is taken. go/ssa makes a second variable for
// the next pass, and a phi of the two addresses. Here all passes have one: no address goes from one pass to the next
// (see kctx.keeps), so that nobody sees a difference.

// blocks are those of a function; none where it has no source. Packages are built when a kernel first needs one of their functions.
// Several kernels are compiled at once: who reads the blocks of a function has called this before.
func (p *Program) blocks(fn *ssa.Function) []*ssa.BasicBlock {
	p.mu.Lock()
	defer p.mu.Unlock()
	pkg := fn.Pkg
	if fn.Origin() != nil {
		pkg = fn.Origin().Pkg
	}
	if len(fn.Blocks) == 0 && pkg != nil {
		pkg.Build()
	}
	if len(fn.Blocks) > 0 && !p.joined[fn] {
		p.joined[fn] = true
		p.joinLoopVariables(fn)
	}
	return fn.Blocks
}

// isOfPass reports whether Go has a variable anew in each pass of a loop.
func (p *Program) isOfPass(v *ssa.Alloc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ofPass[v]
}

// joinLoopVariables makes one variable of those that go/ssa has for the passes of a loop.
func (p *Program) joinLoopVariables(fn *ssa.Function) {
	replace := map[ssa.Value]*ssa.Alloc{}
	for _, b := range fn.Blocks {
		for _, in := range b.Instrs {
			phi, ok := in.(*ssa.Phi)
			if !ok {
				break
			}
			if outer, next := passes(phi); next != nil {
				replace[phi], replace[next] = outer, outer
				p.ofPass[outer] = true
			}
		}
	}
	if len(replace) == 0 {
		return
	}
	for _, b := range fn.Blocks {
		rest := b.Instrs[:0:0]
		for _, in := range b.Instrs {
			if v, ok := in.(ssa.Value); ok && replace[v] != nil {
				continue
			}
			rest = append(rest, in)
			for _, op := range in.Operands(nil) {
				if outer := replace[*op]; *op != nil && outer != nil {
					*op = outer
					*outer.Referrers() = append(*outer.Referrers(), in)
				}
			}
		}
		b.Instrs = rest
	}
}

// passes are the variables of the first and of the next pass, where a phi has their addresses and no others.
func passes(phi *ssa.Phi) (outer, next *ssa.Alloc) {
	if len(phi.Edges) != 2 {
		return nil, nil
	}
	for i, e := range phi.Edges {
		a, ok := e.(*ssa.Alloc)
		if !ok || a.Comment != phi.Comment {
			return nil, nil
		}
		if phi.Block().Dominates(phi.Block().Preds[i]) {
			next = a
		} else {
			outer = a
		}
	}
	if outer == nil || next == nil {
		return nil, nil
	}
	for _, r := range *next.Referrers() { // the next pass begins with what this one has left
		if s, ok := r.(*ssa.Store); ok && s.Addr == next {
			if load, ok := s.Val.(*ssa.UnOp); ok && load.X == ssa.Value(phi) {
				return outer, next
			}
		}
	}
	return nil, nil
}
