package compile

import (
	"fmt"
	"go/token"
	"strings"

	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// global gives the initial scalars of a package-level variable by byte offset.
func (p *Program) global(g *ssa.Global) map[int64]ssa.Value {
	if m, ok := p.inits[g]; ok {
		return m
	}
	m := map[int64]ssa.Value{}
	p.inits[g] = m
	var root ssa.Value = g
	init := g.Pkg.Func("init")
	var addr func(v ssa.Value) (int64, bool)
	addr = func(v ssa.Value) (int64, bool) {
		switch v := v.(type) {
		case *ssa.Global:
			return 0, v == root
		case *ssa.Alloc:
			return 0, v == root
		case *ssa.IndexAddr:
			base, ok := addr(v.X)
			c, isC := v.Index.(*ssa.Const)
			if !ok || !isC {
				return 0, false
			}
			return base + c.Int64()*sizes.Sizeof(elem(v.Type())), true
		case *ssa.FieldAddr:
			base, ok := addr(v.X)
			return base + fieldOffset(elem(v.X.Type()), v.Field), ok
		}
		return 0, false
	}
collect:
	for _, b := range init.Blocks {
		for _, in := range b.Instrs {
			if s, ok := in.(*ssa.Store); ok {
				if off, ok := addr(s.Addr); ok {
					m[off] = s.Val
				}
			}
		}
	}
	if u, ok := m[0].(*ssa.UnOp); ok && root == ssa.Value(g) { // made elsewhere and copied
		root = u.X
		clear(m)
		goto collect
	}
	return m
}

// globalVar is a package-level variable: a table of constants.
func (k *kctx) globalVar(g *ssa.Global) val {
	if pos, ok := k.p.written[g]; ok {
		k.fail(token.NoPos, "%s is a variable, which %s sets: a kernel reads tables of constants; give it as a parameter", g.Name(), k.p.fset.Position(pos))
	}
	t := elem(g.Type())
	for _, l := range scalars(t, 0, nil) {
		if l.k == kNone {
			k.fail(token.NoPos, "%s is a %s: a kernel reads tables of numbers; a slice has to be an array", g.Name(), t)
		}
	}
	m := map[int64]val{}
	for off, v := range k.p.global(g) {
		c, ok := v.(*ssa.Const)
		if !ok {
			k.fail(token.NoPos, "%s is computed when the program starts: a kernel reads tables of constants; give it as a parameter", g.Name())
		}
		m[off] = k.get(nil, c)
	}
	return val{k: kPtr, p: &ptr{sp: spConst, base: tableMark + g.Pkg.Pkg.Name() + "_" + g.Name(), g: m, t: t, align: 16}}
}

// tableMark is before the name of a table that the module does not hold as yet: where each index is constant, it never does.
const tableMark = "g:"

// table writes a table into the module, and gives its name.
func (k *kctx) table(p *ptr) string {
	name := strings.TrimPrefix(p.base, tableMark)
	size := sizes.Sizeof(p.t)
	if size > 64<<10 {
		k.fail(token.NoPos, "the table %s has %d bytes; constant memory has %d: give it as a parameter", name, size, 64<<10)
	}
	decl := fmt.Sprintf(".const .align 16 .b8 %s[%d] = {", name, size)
	for _, d := range *k.moduleD {
		if strings.HasPrefix(d, decl) {
			return name
		}
	}
	data := make([]byte, size)
	for _, l := range scalars(p.t, 0, nil) {
		for i := range l.size {
			data[l.off+i] = byte(p.g[l.off].c >> (8 * i))
		}
	}
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(data), " ", ", "), "[]")
	*k.moduleD = append(*k.moduleD, decl+text+"};")
	return name
}

// writtenGlobals are the package-level variables that functions of a package set or take the address of.
func writtenGlobals(pkg *ssa.Package) map[*ssa.Global]token.Pos {
	written := map[*ssa.Global]token.Pos{}
	for fn := range ssautil.AllFunctions(pkg.Prog) {
		if fn.Pkg != pkg || fn.Name() == "init" {
			continue
		}
		for _, b := range fn.Blocks {
			for _, in := range b.Instrs {
				for _, op := range in.Operands(nil) {
					if g, ok := (*op).(*ssa.Global); ok && !reads(in, g) {
						written[g] = in.Pos()
					}
				}
			}
		}
	}
	return written
}

// reads tells whether an instruction does no more with an address than to load from it, or from a part of it.
func reads(in ssa.Instruction, addr ssa.Value) bool {
	switch in := in.(type) {
	case *ssa.UnOp, *ssa.DebugRef:
		return true
	case *ssa.IndexAddr, *ssa.FieldAddr, *ssa.Slice:
		for _, r := range *in.(ssa.Value).Referrers() {
			if !reads(r, in.(ssa.Value)) {
				return false
			}
		}
		return true
	case *ssa.Range:
		return true
	case *ssa.Call:
		return in.Call.Value.Name() == "len"
	}
	return false
}
