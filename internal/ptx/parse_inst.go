package ptx

// instruction reads `@p op.mods operands;`.
func (p *parser) instruction() {
	in := Instruction{Line: p.tok.line, Guard: -1}
	if p.accept('@') {
		in.GuardNot = p.accept('!')
		t := p.tok
		sym, ok := p.lookup(p.ident("a predicate"))
		if p.err == nil && (!ok || sym.kind != symReg || p.f.Registers[sym.index].Type != Pred) {
			p.fail(t, "not a predicate register")
			return
		}
		in.Guard = sym.index
		in.Line = p.tok.line
	}
	if p.accept('{') { // `@p { ... }` is not PTX
		p.fail(p.tok, "expected an instruction")
		return
	}
	in.Op = p.ident("an instruction")
	for p.tok.kind == tokDot {
		if len(in.Mods) == maxNesting {
			p.fail(p.tok, "too many modifiers")
			return
		}
		in.Mods = append(in.Mods, p.tok.text)
		p.advance()
	}
	if in.Op == "call" {
		p.callOperands(&in)
	} else if !p.isPunct(';') {
		p.operands(&in.Operands)
	}
	p.expect(';')
	if p.err != nil {
		return
	}
	p.f.Body = append(p.f.Body, in)
	p.collect(in.Operands)
}

// collect enters the operands whose names are not known yet into the scope's list.
// The slices are final, so that pointers into them stay good.
func (p *parser) collect(list []Operand) {
	for i := range list {
		if o := &list[i]; o.Kind == OperandName {
			p.scope.fixups = append(p.scope.fixups, o)
		} else if len(o.Elems) > 0 {
			p.collect(o.Elems)
		}
	}
}

func (p *parser) operands(list *[]Operand) {
	for first := true; (first || p.accept(',')) && p.err == nil; first = false {
		if len(*list) >= maxOperand {
			p.fail(p.tok, "too many operands")
			return
		}
		o := p.operand()
		if p.isPunct('|') { // d|p: a second destination
			p.advance()
			o = Operand{Kind: OperandPair, Elems: []Operand{o, p.operand()}}
		}
		*list = append(*list, o)
	}
}

// callOperands reads `call (ret, ...), f, (arg, ...), prototype;` with its optional parts.
func (p *parser) callOperands(in *Instruction) {
	for first := true; (first || p.accept(',')) && p.err == nil; first = false {
		if !p.isPunct('(') {
			in.Operands = append(in.Operands, p.operand())
			continue
		}
		p.advance()
		o := Operand{Kind: OperandList}
		if !p.isPunct(')') {
			p.operands(&o.Elems)
		}
		p.expect(')')
		in.Operands = append(in.Operands, o)
	}
}

func (p *parser) operand() Operand {
	if !p.enter() {
		return Operand{}
	}
	defer p.leave()
	t := p.tok
	switch {
	case p.accept('['):
		return p.memOperand(t)
	case p.accept('{'):
		o := Operand{Kind: OperandVector}
		if !p.isPunct('}') {
			p.operands(&o.Elems)
		}
		p.expect('}')
		return o
	case p.isPunct('!') && p.peek.kind == tokIdent:
		p.advance()
		o := p.operand()
		o.Not = !o.Not
		return o
	case p.isPunct('-') && (p.peek.kind == tokF32 || p.peek.kind == tokF64):
		p.advance()
		o := p.operand()
		if o.Kind == OperandF32 {
			o.Bits ^= 1 << 31
		} else {
			o.Bits ^= 1 << 63
		}
		return o
	case p.isPunct('-') && p.peek.kind == tokIdent && p.peek.text != "WARP_SZ":
		p.advance()
		o := p.operand()
		o.Neg = !o.Neg
		return o
	case t.kind == tokF32:
		p.advance()
		return Operand{Kind: OperandF32, Bits: t.val}
	case t.kind == tokF64:
		p.advance()
		return Operand{Kind: OperandF64, Bits: t.val}
	case t.kind == tokIdent && t.text != "WARP_SZ":
		return p.nameOperand()
	}
	return Operand{Kind: OperandInt, Bits: p.sum()}
}

// memOperand reads the rest of `[a]`, `[a+n]`, `[a, {c, d}]`.
func (p *parser) memOperand(t token) Operand {
	o := Operand{Kind: OperandMem, line: t.line, col: t.col}
	base := p.operand()
	if base.Kind == OperandInt { // [16]: an address in full
		base, o.Bits = Operand{Kind: OperandInt}, base.Bits
	}
	if base.Kind == OperandReg {
		o.Bits, base.Bits = base.Bits, 0
	}
	o.Elems = append(o.Elems, base)
	o.Bits += p.offset()
	for p.accept(',') && p.err == nil {
		if len(o.Elems) > 16 {
			p.fail(p.tok, "too many operands")
		}
		o.Elems = append(o.Elems, p.operand())
	}
	p.expect(']')
	return o
}

// offset reads `+ n` or `- n` after an address; `+-4` and `+ -4` are common.
func (p *parser) offset() uint64 {
	switch {
	case p.accept('+'):
		return p.sum()
	case p.isPunct('-'):
		return p.sum()
	}
	return 0
}

// nameOperand reads an operand that begins with an identifier.
func (p *parser) nameOperand() Operand {
	t := p.tok
	p.advance()
	if t.text == "_" {
		return Operand{Kind: OperandSink}
	}
	sym, ok := p.lookup(t.text)
	if !ok {
		if s, isSpecial := specials[t.text]; isSpecial {
			return p.specialOperand(s)
		}
		if t.text == "true" || t.text == "false" {
			p.fail(t, "name is not declared")
		}
		return Operand{Kind: OperandName, Name: t.text, line: t.line, col: t.col, Bits: p.addend()}
	}
	switch sym.kind {
	case symReg:
		return Operand{Kind: OperandReg, Reg: sym.index, Bits: p.addend()}
	case symVector:
		if p.tok.kind == tokDot {
			c := component(p.tok.text)
			if c < 0 || c >= sym.n {
				p.fail(p.tok, "the vector has no such component")
				return Operand{}
			}
			p.advance()
			return Operand{Kind: OperandReg, Reg: sym.index + c}
		}
		o := Operand{Kind: OperandVector}
		for i := range sym.n {
			o.Elems = append(o.Elems, Operand{Kind: OperandReg, Reg: sym.index + i})
		}
		return o
	case symVar:
		return Operand{Kind: OperandVar, Var: sym.v, Bits: p.addend()}
	}
	o := Operand{line: t.line, col: t.col}
	p.resolveLocal(&o, sym)
	return o
}

// addend reads the `+ n` of `symbol + n`.
func (p *parser) addend() uint64 {
	if p.isPunct('+') || p.isPunct('-') {
		return p.offset()
	}
	return 0
}

func (p *parser) specialOperand(s specialInfo) Operand {
	o := Operand{Kind: OperandSpecial, Special: s.id, Dim: s.dim}
	if !s.vector {
		return o
	}
	if p.tok.kind != tokDot { // mov.v4.u32 v, %tid
		v := Operand{Kind: OperandVector}
		for i := range 4 {
			v.Elems = append(v.Elems, Operand{Kind: OperandSpecial, Special: s.id, Dim: uint8(i)})
		}
		return v
	}
	c := component(p.tok.text)
	if c < 0 {
		p.fail(p.tok, "the special register has no such component")
		return o
	}
	p.advance()
	o.Dim = uint8(c)
	return o
}

func component(s string) int {
	switch s {
	case "x", "r":
		return 0
	case "y", "g":
		return 1
	case "z", "b":
		return 2
	case "w", "a":
		return 3
	}
	return -1
}
