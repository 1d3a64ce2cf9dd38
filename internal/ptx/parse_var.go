package ptx

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// pendingReloc is a relocation whose symbol is looked up at the end of the module.
type pendingReloc struct {
	v    *Variable
	r    Reloc
	name token
}

func (p *parser) space() (Space, bool) {
	if p.tok.kind != tokDot {
		return 0, false
	}
	var s Space
	switch p.tok.text {
	case "global", "tex":
		s = Global
	case "const":
		s = Const
	case "shared":
		s = Shared
	case "local":
		s = Local
	case "param":
		s = ParamSpace
	case "reg":
		s = RegSpace
	default:
		return 0, false
	}
	p.advance()
	return s, true
}

// variables reads `.space attributes .type name[n] = init, name, ...;`.
func (p *parser) variables(link Linkage) {
	space, ok := p.space()
	if !ok {
		p.fail(p.tok, "expected a state space")
		return
	}
	proto := Variable{Space: space, Linkage: link, Vector: 1, Line: p.tok.line}
	if p.tok.kind == tokPunct && p.accept('[') { // .const[bank]
		p.constant()
		p.expect(']')
	}
	for proto.Type == TypeNone && p.err == nil {
		p.varAttribute(&proto)
	}
	if proto.Align == 0 {
		proto.Align = uint64(proto.Type.Size() * proto.Vector)
	}
	if proto.Type == Pred {
		p.fail(p.tok, "a predicate cannot live in memory")
	}
	for p.err == nil {
		v := proto
		p.variable(&v)
		if !p.accept(',') {
			break
		}
	}
	p.expect(';')
}

// varAttribute reads one of the directives between the state space and the name, of
// which the type is the last.
func (p *parser) varAttribute(v *Variable) {
	t := p.tok
	if t.kind != tokDot {
		p.fail(t, "expected a type")
		return
	}
	p.advance()
	switch t.text {
	case "align":
		a := p.tok
		v.Align = p.constant()
		if v.Align == 0 || v.Align&(v.Align-1) != 0 || v.Align > 1<<16 {
			p.fail(a, "alignment must be a power of two")
		}
	case "v2":
		v.Vector = 2
	case "v4":
		v.Vector = 4
	case "v8":
		v.Vector = 8
	case "attribute":
		p.expect('(')
		for first := true; first || p.accept(','); first = false {
			if p.isDot("managed") {
				v.Managed = true
			}
			p.advance()
			if p.accept('(') { // .unified(a, b)
				for first := true; first || p.accept(','); first = false {
					p.constant()
				}
				p.expect(')')
			}
		}
		p.expect(')')
	default:
		typ, ok := ParseType(t.text)
		if !ok {
			p.fail(t, "expected a type")
		}
		v.Type = typ
	}
}

func (p *parser) variable(v *Variable) {
	t := p.tok
	v.Name = p.ident("a variable name")
	v.Line = t.line
	n, known := p.dimensions(v)
	elem := uint64(v.Type.Size() * v.Vector)
	parameterised := uint64(1)
	if p.isPunct('<') { // name<n>: n variables name0 ... name(n-1)
		p.advance()
		parameterised = p.sum()
		p.expect('>')
		// Each costs what it costs to write it out, and a few bytes of source declare thousands.
		p.named += min(parameterised, maxNamed+1)
		if parameterised == 0 || p.named > maxNamed {
			p.fail(t, "too many variables")
			return
		}
	}
	hi, size := bits.Mul64(n, elem)
	if hi != 0 || size > math.MaxInt64/2 {
		p.fail(t, "variable is too large")
		return
	}
	v.Size = size
	if p.accept('=') {
		p.initialiser(v, t)
		if !known {
			v.Size = uint64(len(v.Init))
		}
	} else if !known && v.Linkage != Extern && v.Space != Shared {
		p.fail(t, "array without a size")
	}
	if p.err != nil {
		return
	}
	if parameterised == 1 {
		p.declareVar(t, v)
		return
	}
	for i := range parameterised {
		w := *v
		w.Name += utoa(i)
		p.declareVar(t, &w)
	}
}

// dimensions reads [a][b]...; known is false for a first [].
func (p *parser) dimensions(v *Variable) (n uint64, known bool) {
	n, known = 1, true
	for first := true; p.isPunct('['); first = false {
		t := p.tok
		p.advance()
		v.Array = true
		if first && p.accept(']') {
			n, known = 0, false
			continue
		}
		d := p.constant()
		p.expect(']')
		hi, lo := bits.Mul64(n, d)
		if known {
			n = lo
		}
		if hi != 0 || d > math.MaxInt64 {
			p.fail(t, "array is too large")
			return 0, true
		}
	}
	return n, known
}

func (p *parser) declareVar(t token, v *Variable) {
	if p.f != nil {
		p.f.Variables = append(p.f.Variables, v)
		p.declare(t, v.Name, symbol{kind: symVar, v: v})
		return
	}
	if old, ok := p.m.symbols[v.Name]; ok {
		ov, isVar := old.(*Variable)
		if !isVar || ov.Space != v.Space || ov.Linkage == Internal && v.Linkage == Internal {
			p.fail(t, "symbol is declared twice")
			return
		}
		// A declaration and its definition are one variable: references may already
		// hold the earlier one, so that the definition's content moves there.
		if v.Linkage != Extern {
			*ov = *v
			for i := range p.relocs {
				if p.relocs[i].v == v {
					p.relocs[i].v = ov
				}
			}
		}
		return
	}
	p.m.symbols[v.Name] = v
	p.m.Variables = append(p.m.Variables, v)
}

// initialiser reads `{ {a, b}, c }` or a scalar into v.Init, flattened.
func (p *parser) initialiser(v *Variable, at token) {
	if v.Space == Shared || v.Space == ParamSpace {
		p.fail(p.tok, "variable of this state space cannot have an initial value")
		return
	}
	p.initValue(v, at)
	if v.Size != 0 && uint64(len(v.Init)) > v.Size {
		p.fail(at, "initial value is larger than the variable")
	}
}

func (p *parser) initValue(v *Variable, at token) {
	if !p.enter() {
		return
	}
	defer p.leave()
	if p.accept('{') {
		for !p.isPunct('}') && p.err == nil {
			p.initValue(v, at)
			if !p.accept(',') {
				break
			}
		}
		p.expect('}')
		return
	}
	size := v.Type.Size()
	off := len(v.Init)
	var word [16]byte
	binary.LittleEndian.PutUint64(word[:], p.initScalar(v, uint64(off), size))
	v.Init = append(v.Init, word[:size]...)
}

func (p *parser) initScalar(v *Variable, off uint64, size int) uint64 {
	t := p.tok
	r := Reloc{Offset: off, Size: size, Mask: math.MaxUint64}
	switch {
	case t.kind == tokIdent && t.text == "generic" && p.peek.kind == tokPunct && p.peek.ch == '(':
		p.advance()
		p.advance()
		r.Generic = true
		p.relocSum(v, r)
		p.expect(')')
		p.relocTail()
		return 0
	case t.kind == tokIdent && t.text != "WARP_SZ":
		p.relocSum(v, r)
		return 0
	case t.kind == tokInt && p.peek.kind == tokPunct && p.peek.ch == '(': // mask(address)
		r.Mask = t.val
		r.Shift = uint(bits.TrailingZeros64(t.val)) & 63
		p.advance()
		p.advance()
		if p.tok.kind == tokIdent && p.tok.text == "generic" && p.peek.kind == tokPunct && p.peek.ch == '(' {
			p.advance()
			p.advance()
			r.Generic = true
			p.relocSum(v, r)
			p.expect(')')
			p.relocTail()
		} else {
			p.relocSum(v, r)
		}
		p.expect(')')
		return 0
	}
	neg := false
	for p.tok.kind == tokPunct && p.isPunct('-') && (p.peek.kind == tokF32 || p.peek.kind == tokF64) {
		neg = !neg
		p.advance()
	}
	if t = p.tok; t.kind == tokF32 || t.kind == tokF64 {
		p.advance()
		return floatBits(t, v.Type, neg)
	}
	return p.constant()
}

// relocSum reads `symbol + n`.
func (p *parser) relocSum(v *Variable, r Reloc) {
	t := p.tok
	p.ident("a symbol")
	p.relocs = append(p.relocs, pendingReloc{v, r, t})
	p.relocTail()
}

// relocTail reads the `+ n` that follows a symbol into the last relocation.
func (p *parser) relocTail() {
	if len(p.relocs) > 0 && (p.isPunct('+') || p.isPunct('-')) {
		neg := p.isPunct('-')
		p.advance()
		n := int64(p.sum())
		if neg {
			n = -n
		}
		p.relocs[len(p.relocs)-1].r.Addend += n
	}
}

// floatBits converts a floating-point constant to the bits of a type: 0f constants
// keep theirs in 32 bits, 0d in 64, and each is converted to the other width.
func floatBits(t token, typ Type, neg bool) uint64 {
	var b uint64
	switch {
	case t.kind == tokF32 && typ.Bits() == 64:
		b = math.Float64bits(float64(math.Float32frombits(uint32(t.val))))
		if neg {
			b ^= 1 << 63
		}
	case t.kind == tokF64 && typ.Bits() == 32:
		b = uint64(math.Float32bits(float32(math.Float64frombits(t.val))))
		if neg {
			b ^= 1 << 31
		}
	case t.kind == tokF32:
		b = t.val
		if neg {
			b ^= 1 << 31
		}
	default:
		b = t.val
		if neg {
			b ^= 1 << 63
		}
	}
	return b
}

func utoa(n uint64) string {
	var b [20]byte
	i := len(b)
	for {
		i--
		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}

// resolveModule finds the symbols that were used before they were declared.
func (p *parser) resolveModule() {
	for i := range p.relocs {
		pr := &p.relocs[i]
		switch s := p.m.symbols[pr.name.text].(type) {
		case *Variable:
			pr.r.Var = s
		case *Function:
			pr.r.Func = s
		default:
			p.fail(pr.name, "symbol is not declared")
			return
		}
		pr.v.Relocs = append(pr.v.Relocs, pr.r)
	}
	for _, o := range p.fixups {
		switch s := p.m.symbols[o.Name].(type) {
		case *Variable:
			o.Kind, o.Var = OperandVar, s
		case *Function:
			o.Kind, o.Func = OperandFunc, s
		default:
			p.failAt(o.line, o.col, o.Name, "symbol is not declared")
			return
		}
	}
}
