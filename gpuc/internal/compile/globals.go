package compile

import (
	"bytes"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// A kernel reads a package-level variable as a constant. So nobody in the whole program may set it. That is no function,
// method or initialiser of its package, and nobody who gets its address from there. Since an exported variable is
// everybody's, no other package.

// constant rejects a package-level variable that somebody may set.
func (k *kctx) constant(g *ssa.Global) {
	const instead = "make it a constant or a table that nobody sets, or give it as a parameter"
	pkg := g.Pkg.Pkg
	pos, set := k.p.setting(g)
	switch {
	case set:
		k.fail(token.NoPos, "%s is a variable, which %s sets, or gives the address of: %s", g.Name(), k.p.fset.Position(pos), instead)
	case len(k.p.blocks(g.Pkg.Func("init"))) == 0:
		k.fail(token.NoPos, "%s.%s is a variable of a package that gpuc does not read: %s", pkg.Name(), g.Name(), instead)
	case token.IsExported(g.Name()) && pkg.Name() != "main":
		k.fail(token.NoPos, "%s is an exported variable, which every package can set: make it unexported, or a constant, or give it as a parameter", g.Name())
	}
	for _, file := range k.p.assembly[pkg.Path()] {
		if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("·"+g.Name()+"(")) || bytes.Contains(text, []byte("·"+g.Name()+"+")) {
			k.fail(token.NoPos, "%s is a variable that assembly may set, in %s: %s", g.Name(), filepath.Base(file), instead)
		}
	}
}

// setting is where a variable is set, or its address is given, if that is so anywhere in its package.
func (p *Program) setting(g *ssa.Global) (pos token.Pos, set bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.Pkg.Build()
	pos, set = p.settings(g.Pkg)[g]
	return pos, set
}

// settings are the package-level variables that functions of a package set or give the address of, and where.
func (p *Program) settings(pkg *ssa.Package) map[*ssa.Global]token.Pos {
	if m, ok := p.set[pkg]; ok {
		return m
	}
	m := map[*ssa.Global]token.Pos{}
	p.set[pkg] = m
	for _, fn := range functionsOf(pkg) {
		first := fn == pkg.Func("init") // where each variable gets its first value
		for _, b := range fn.Blocks {
			for _, in := range b.Instrs {
				for _, op := range in.Operands(nil) {
					g, ok := (*op).(*ssa.Global)
					if ok && g.Pkg == pkg && !reads(in, g, 0) && !(first && initialises(in, g)) {
						m[g] = in.Pos()
						if !in.Pos().IsValid() {
							m[g] = g.Pos()
						}
					}
				}
			}
		}
	}
	return m
}

// functionsOf lists all functions with source in a package: with methods, init functions, function literals and those
// that nobody calls.
func functionsOf(pkg *ssa.Package) (list []*ssa.Function) {
	var add func(fn *ssa.Function)
	add = func(fn *ssa.Function) {
		if fn == nil {
			return
		}
		list = append(list, fn)
		for _, a := range fn.AnonFuncs {
			add(a)
		}
	}
	for _, m := range pkg.Members {
		switch m := m.(type) {
		case *ssa.Function:
			add(m)
		case *ssa.Type:
			if n, ok := types.Unalias(m.Type()).(*types.Named); ok {
				for f := range n.Methods() {
					add(pkg.Prog.FuncValue(f))
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b *ssa.Function) int { return int(a.Pos() - b.Pos()) }) // the same place each time
	return list
}

// initialises reports whether an instruction of the initialiser sets a variable, or a part of one, and does no more
// with its address.
func initialises(in ssa.Instruction, addr ssa.Value) bool {
	switch in := in.(type) {
	case *ssa.Store:
		return in.Addr == addr && in.Val != addr
	case *ssa.IndexAddr, *ssa.FieldAddr:
		for _, r := range *in.(ssa.Value).Referrers() {
			if !reads(r, in.(ssa.Value), 0) && !initialises(r, in.(ssa.Value)) {
				return false
			}
		}
		return true
	}
	return false
}

// reads reports whether an instruction does no more with an address than to load from it, or from a part of it.
func reads(in ssa.Instruction, addr ssa.Value, depth int) bool {
	switch in := in.(type) {
	case *ssa.UnOp, *ssa.DebugRef:
		return true
	case *ssa.IndexAddr, *ssa.FieldAddr, *ssa.Slice:
		for _, r := range *in.(ssa.Value).Referrers() {
			if !reads(r, in.(ssa.Value), depth) {
				return false
			}
		}
		return true
	case *ssa.Call:
		if b, ok := in.Call.Value.(*ssa.Builtin); ok {
			return b.Name() == "len" || b.Name() == "cap" || b.Name() == "copy" && in.Call.Args[0] != addr
		}
		fn := in.Call.StaticCallee()
		if fn == nil || len(fn.Blocks) == 0 || depth > 8 {
			return false
		}
		for i, a := range in.Call.Args {
			if a != addr {
				continue
			}
			for _, r := range *fn.Params[i].Referrers() {
				if !reads(r, fn.Params[i], depth+1) {
					return false
				}
			}
		}
		return true
	}
	return false
}
