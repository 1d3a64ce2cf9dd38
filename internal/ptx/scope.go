package ptx

import "strconv"

type symbolKind uint8

const (
	symReg symbolKind = iota
	symVector
	symVar
	symLabel
	symTable
	symProto
)

// symbol is what a name means inside a function.
type symbol struct {
	kind  symbolKind
	index int // register, label, table, prototype; first register of a vector
	n     int // registers of a vector
	v     *Variable
}

// regRange is `.reg .b32 %r<n>`: the registers come into being when they are named, so
// that a range costs nothing.
type regRange struct {
	n      uint64
	typ    Type
	vector int
}

// scope is a { } block: names in it hide those outside (PTX ISA, "Scoping").
type scope struct {
	parent *scope
	names  map[string]symbol
	ranges map[string]regRange
	fixups []*Operand // names that were not known yet: labels, or symbols of the module
}

func (p *parser) openScope() {
	p.scope = &scope{parent: p.scope}
}

// closeScope resolves the labels of the scope and hands what is left to the outer one.
func (p *parser) closeScope() {
	s := p.scope
	p.scope = s.parent
	rest := s.fixups[:0]
	for _, o := range s.fixups {
		if sym, ok := s.names[o.Name]; ok && p.resolveLocal(o, sym) {
			continue
		}
		rest = append(rest, o)
	}
	if p.scope != nil {
		if len(p.scope.fixups) == 0 {
			p.scope.fixups = rest
		} else {
			p.scope.fixups = append(p.scope.fixups, rest...)
		}
		return
	}
	p.fixups = append(p.fixups, rest...)
}

func (p *parser) resolveLocal(o *Operand, sym symbol) bool {
	switch sym.kind {
	case symLabel:
		o.Kind, o.Index = OperandLabel, sym.index
	case symTable:
		o.Kind, o.Index = OperandTable, sym.index
	case symProto:
		o.Kind, o.Index = OperandProto, sym.index
	case symVar:
		o.Kind, o.Var = OperandVar, sym.v
	default:
		return false
	}
	return true
}

func (p *parser) declare(t token, name string, sym symbol) {
	if p.err != nil {
		return
	}
	if _, ok := p.scope.names[name]; ok {
		p.fail(t, "name is declared twice in this scope")
		return
	}
	if p.scope.names == nil {
		p.scope.names = map[string]symbol{}
	}
	p.scope.names[name] = sym
}

// lookup finds a name in the scopes from the inside out.
func (p *parser) lookup(name string) (symbol, bool) {
	for s := p.scope; s != nil; s = s.parent {
		if sym, ok := s.names[name]; ok {
			return sym, true
		}
		if s.ranges == nil {
			continue
		}
		// The prefix of a range may itself end in digits: %r12 is number 2 of %r1<5>
		// where there is no %r<n> that holds it.
		for i := len(name) - 1; i > 0 && isDigit(name[i]) && len(name)-i <= 10; i-- {
			if name[i] == '0' && i+1 < len(name) {
				continue
			}
			r, ok := s.ranges[name[:i]]
			if n, err := strconv.ParseUint(name[i:], 10, 64); !ok || err != nil || n >= r.n {
				continue
			}
			sym := p.newRegister(name, r.typ, r.vector)
			if s.names == nil {
				s.names = map[string]symbol{}
			}
			s.names[name] = sym
			return sym, true
		}
	}
	return symbol{}, false
}

func (p *parser) newRegister(name string, typ Type, vector int) symbol {
	f := p.f
	first := len(f.Registers)
	if vector == 1 {
		f.Registers = append(f.Registers, Register{name, typ})
		return symbol{kind: symReg, index: first}
	}
	for i := range vector {
		f.Registers = append(f.Registers, Register{name + "." + "xyzw"[i&3:i&3+1], typ})
	}
	return symbol{kind: symVector, index: first, n: vector}
}

// regs reads `.reg attributes .type name, name<n>, ...;`.
func (p *parser) regs() {
	proto := Variable{Space: RegSpace, Vector: 1}
	for proto.Type == TypeNone && p.err == nil {
		p.varAttribute(&proto)
	}
	if c := proto.Type.Class(); c == ClassOpaque {
		p.fail(p.tok, "register of an opaque type")
	}
	for p.err == nil {
		t := p.tok
		name := p.ident("a register name")
		if p.accept('<') {
			n := p.sum()
			p.expect('>')
			if _, ok := p.scope.ranges[name]; ok {
				p.fail(t, "register range is declared twice in this scope")
			}
			if p.scope.ranges == nil {
				p.scope.ranges = map[string]regRange{}
			}
			p.scope.ranges[name] = regRange{n, proto.Type, proto.Vector}
		} else if p.err == nil {
			p.declare(t, name, p.newRegister(name, proto.Type, proto.Vector))
		}
		if !p.accept(',') {
			break
		}
	}
	p.expect(';')
}
