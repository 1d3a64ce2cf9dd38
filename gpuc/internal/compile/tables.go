package compile

import (
	"fmt"
	"go/token"
	"strings"

	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// global returns the initial scalars of a package-level variable by byte offset.
func (p *Program) global(g *ssa.Global) map[int64]ssa.Value {
	if m, ok := p.inits[g]; ok {
		return m
	}
	m := map[int64]ssa.Value{}
	p.inits[g] = m
	var collect func(addr ssa.Value, off int64, users []ssa.Instruction)
	collect = func(addr ssa.Value, off int64, users []ssa.Instruction) {
		for _, in := range users {
			switch in := in.(type) {
			case *ssa.IndexAddr:
				if c, ok := in.Index.(*ssa.Const); ok && in.X == addr {
					collect(in, off+c.Int64()*sizes.Sizeof(elem(in.Type())), *in.Referrers())
				}
			case *ssa.FieldAddr:
				if in.X == addr {
					collect(in, off+fieldOffset(elem(addr.Type()), in.Field), *in.Referrers())
				}
			case *ssa.Store:
				if in.Addr != addr {
					continue
				}
				if u, ok := in.Val.(*ssa.UnOp); ok {
					if a, ok := u.X.(*ssa.Alloc); ok { // made elsewhere and copied
						collect(a, off, *a.Referrers())
						continue
					}
				}
				if c, ok := in.Val.(*ssa.Const); !ok || c.Value != nil { // not zero
					m[off] = in.Val
				}
			}
		}
	}
	for _, b := range g.Pkg.Func("init").Blocks {
		collect(g, 0, b.Instrs)
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
					if g, ok := (*op).(*ssa.Global); ok && !reads(in, g, 0) {
						written[g] = in.Pos()
					}
				}
			}
		}
	}
	return written
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
	case *ssa.Range:
		return true
	case *ssa.Call:
		fn := in.Call.StaticCallee()
		if fn == nil || len(fn.Blocks) == 0 || depth > 8 {
			return in.Call.Value.Name() == "len"
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
