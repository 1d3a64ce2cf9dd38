package compile

import (
	"fmt"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// global returns the initial scalars of a package-level variable by byte offset.
func (p *Program) global(g *ssa.Global) map[int64]ssa.Value {
	p.mu.Lock()
	defer p.mu.Unlock()
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
	t := elem(g.Type())
	if sizes.Sizeof(t) == 0 { // nobody can set it: binary.LittleEndian
		return val{k: kPtr, p: &ptr{sp: spConst, base: tableMark + plainName(g.Name()), t: t, align: 16}}
	}
	k.constant(g)
	for _, l := range scalars(t, 0, nil) {
		if l.k == kNone && holdsFunction(t) {
			k.fail(token.NoPos, "%s is a variable, which may hold another function: call the function by its name", g.Name())
		}
		if l.k == kNone {
			k.fail(token.NoPos, "%s has the type %s: a kernel reads tables of numbers%s", g.Name(), t, insteadOfTable(t))
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
	return val{k: kPtr, p: &ptr{sp: spConst, base: tableMark + plainName(g.Pkg.Pkg.Name()) + "$" + plainName(g.Name()), g: m, t: t, align: 16}}
}

// insteadOfTable says what to write in place of a variable that is no table.
func insteadOfTable(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Slice:
		return "; a slice has to be an array"
	case *types.Array:
		if b, ok := u.Elem().Underlying().(*types.Basic); ok && isText(b) {
			return "; write a switch with a constant string in each case, or one string and an array of where its parts begin"
		}
		return insteadOfTable(u.Elem())
	case *types.Map:
		return "; a map has to be an array or a switch"
	case *types.Interface:
		if types.Identical(t, types.Universe.Lookup("error").Type()) {
			return "; " + instead["errors"]
		}
		return "; call a function by its name, or a generic one"
	case *types.Basic: // a string
		return "; make the string a constant"
	}
	return "; give it as a parameter"
}

// tableMark is before the name of a table that the module does not hold as yet: where each index is constant, it never does.
const tableMark = "g:"

// maxConst is how much constant memory a module has.
const maxConst = 64 << 10

// table writes a table into the module, and gives its name.
func (k *kctx) table(p *ptr) string {
	name := strings.TrimPrefix(p.base, tableMark)
	size := sizes.Sizeof(p.t)
	if size > maxConst {
		k.fail(token.NoPos, "the table %s has %d bytes; constant memory has %d: give it as a parameter", tableName(name), size, maxConst)
	}
	data := make([]byte, size)
	for _, l := range scalars(p.t, 0, nil) {
		for i := range l.size {
			data[l.off+i] = byte(p.g[l.off].c >> (8 * i))
		}
	}
	tail := fmt.Sprintf("[%d] = {%s};", size, strings.Trim(strings.ReplaceAll(fmt.Sprint(data), " ", ", "), "[]"))
	d := decl{head: ".const .align 16 .b8 ", name: name, tail: tail, size: size, at: k.errorAt(token.NoPos, "")}
	return name + mark(markDecl, find(&k.unit.decls, d, func(o decl) bool { return o.size > 0 && o.name == name && o.tail == tail }))
}

// tableName is the name of a table in Go.
func tableName(name string) string { return strings.Replace(name, "$", ".", 1) }
