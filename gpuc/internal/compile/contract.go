package compile

import (
	"go/ast"
	"go/token"

	"golang.org/x/tools/go/ssa"
)

// With contract, x*y+z is rounded once. As Go has it, a conversion such as float32(x*y) rounds the product before. go/ssa
// drops that conversion, so the source is asked.

// contract does an operation on floats as contract wants it; false says that it is one like any other.
func (k *kctx) contract(f *frame, in *ssa.BinOp, x, y val) (val, bool) {
	if !k.src.Contract || !isFloat(x.k) || x.isC && y.isC {
		return val{}, false
	}
	t := suffix(x.k)
	switch in.Op {
	case token.MUL:
		v := k.reg(x.k) // not shared with a product that is rounded otherwise
		k.emit("mul.rn."+t, []string{v.r}, x.String(), y.String())
		if !k.p.rounds(f.fn, in.Pos()) {
			k.cur.m["product "+v.r] = val{e: []val{x, y}}
		}
		return v, true
	case token.ADD, token.SUB:
		neg := func(v val) val {
			if v.isC {
				return cF(v.k, -v.f())
			}
			return k.pure("neg."+t, v.k, v.r)
		}
		if p, ok := k.cur.get("product " + x.r); ok && !x.isC {
			if in.Op == token.SUB {
				y = neg(y)
			}
			return k.pure("fma.rn."+t, x.k, p.e[0].String(), p.e[1].String(), y.String()), true
		}
		if p, ok := k.cur.get("product " + y.r); ok && !y.isC {
			a := p.e[0]
			if in.Op == token.SUB {
				a = neg(a)
			}
			return k.pure("fma.rn."+t, x.k, a.String(), p.e[1].String(), x.String()), true
		}
	}
	return val{}, false
}

// rounds reports whether the product at a place of a function is an argument: of a conversion, as far as syntax tells.
func (p *Program) rounds(fn *ssa.Function, pos token.Pos) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	places, ok := p.rounded[fn]
	if !ok {
		places = map[token.Pos]bool{}
		p.rounded[fn] = places
		if fn.Syntax() != nil {
			ast.Inspect(fn.Syntax(), func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok && len(c.Args) == 1 {
					if b, ok := ast.Unparen(c.Args[0]).(*ast.BinaryExpr); ok {
						places[b.OpPos] = true
					}
				}
				return true
			})
		}
	}
	return places[pos]
}

// readOnly makes loads from slices that the kernel does not write, and that overlap none that it writes, go through
// the cache for what does not change.
func (k *kctx) readOnly(code []ins) {
	if !k.src.NoAlias || k.written[""] {
		return
	}
	for i := range code {
		if r := code[i].root; r != "" && !k.written[r] {
			code[i].op = "ld.global.nc" + code[i].op[len("ld.global"):]
		}
	}
}
