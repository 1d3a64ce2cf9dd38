package ptx

// function reads a kernel or a device function after .entry or .func.
func (p *parser) function(link Linkage, entry bool) {
	f := &Function{IsEntry: entry, Linkage: link, Line: p.tok.line}
	p.f = f
	p.openScope()
	defer func() { p.f = nil }()
	if !entry {
		p.acceptAttributes()
		if p.isPunct('(') {
			p.params(&f.Returns, true)
		}
	}
	t := p.tok
	f.Name = p.ident("a function name")
	if p.isPunct('(') {
		p.params(&f.Params, !entry)
	}
	for i := range f.Params {
		if end := f.Params[i].Offset + f.Params[i].Size; end > f.ParamBytes {
			f.ParamBytes = end
		}
	}
	if entry && f.ParamBytes > maxParams {
		p.fail(t, "parameters are too large")
	}
	p.directives(f)
	f = p.defineFunction(t, f)
	if p.err != nil {
		return
	}
	switch {
	case p.isPunct('{') && p.skipBodies:
		p.skipBody()
		p.closeScope()
	case p.isPunct('{'):
		p.body(f)
	default:
		p.expect(';')
		f.Declared = true
		p.closeScope()
	}
}

// skipBody skips to what stands behind the body of a function.
func (p *parser) skipBody() {
	for n := 0; ; p.advance() {
		switch {
		case p.tok.kind == tokEOF:
			p.fail(p.tok, "function body is not closed")
			return
		case p.isPunct('{'):
			n++
		case p.isPunct('}'):
			if n--; n == 0 {
				p.advance()
				return
			}
		}
	}
}

// acceptAttributes skips .attribute(...) before a function's name.
func (p *parser) acceptAttributes() {
	for p.acceptDot("attribute") {
		p.expect('(')
		for n := 1; n > 0 && p.tok.kind != tokEOF; p.advance() {
			if p.isPunct('(') {
				n++
			} else if p.isPunct(')') {
				n--
			}
		}
	}
}

// defineFunction enters the function among the symbols. A definition that follows its
// declaration takes the declaration's place, so that calls that were read before reach it.
func (p *parser) defineFunction(t token, f *Function) *Function {
	if p.err != nil {
		return f
	}
	old, ok := p.m.symbols[f.Name]
	if !ok {
		p.m.symbols[f.Name] = f
		if f.IsEntry {
			p.m.Entries = append(p.m.Entries, f)
		} else {
			p.m.Functions = append(p.m.Functions, f)
		}
		return f
	}
	of, isFunc := old.(*Function)
	if !isFunc || of.IsEntry != f.IsEntry || !of.Declared && p.isPunct('{') {
		p.fail(t, "symbol is declared twice")
		return f
	}
	if !of.Declared { // a declaration after the definition
		return f
	}
	*of = *f
	p.f = of
	return of
}

// directives reads the performance directives of a function.
func (p *parser) directives(f *Function) {
	for p.tok.kind == tokDot {
		name := p.tok.text
		t := p.tok
		switch name {
		case "maxntid":
			p.advance()
			p.dim3(&f.MaxNTID)
		case "reqntid":
			p.advance()
			p.dim3(&f.ReqNTID)
		case "reqnctapercluster":
			p.advance()
			p.dim3(&f.ReqNCluster)
		case "minnctapersm":
			p.advance()
			f.MinNCTAPerSM = p.uint32(name)
		case "maxnreg":
			p.advance()
			f.MaxNReg = p.uint32(name)
		case "maxnctapersm", "maxclusterrank", "abi_preserve", "abi_preserve_control", "local_maxnreg":
			p.advance()
			p.uint32(name)
		case "noreturn":
			p.advance()
			f.NoReturn = true
		case "explicitcluster", "blocksareclusters", "noinline", "unified":
			p.advance()
		case "pragma":
			p.skipStatement()
		default:
			p.fail(t, "unknown function directive")
			return
		}
	}
}

func (p *parser) dim3(d *[3]uint32) {
	*d = [3]uint32{1, 1, 1}
	for i := range d {
		d[i] = p.uint32("dimension")
		if !p.accept(',') {
			return
		}
	}
}

// params reads a parameter list and lays the parameters out one after another, each
// at its alignment, as the driver expects them in the launch buffer.
func (p *parser) params(list *[]Param, allowReg bool) {
	p.expect('(')
	var offset uint64
	for !p.isPunct(')') && p.err == nil {
		prm := p.param(allowReg)
		if prm.Reg < 0 && prm.Align > 0 {
			offset = (offset + prm.Align - 1) &^ (prm.Align - 1)
			prm.Offset = offset
			offset += prm.Size
			if offset > 1<<30 {
				p.fail(p.tok, "parameters are too large")
			}
		}
		*list = append(*list, prm)
		if !p.accept(',') {
			break
		}
	}
	p.expect(')')
}

func (p *parser) param(allowReg bool) Param {
	prm := Param{Reg: -1}
	isReg := p.isDot("reg")
	if isReg && allowReg {
		p.advance()
	} else if !p.acceptDot("param") {
		p.fail(p.tok, "expected .param")
		return prm
	}
	v := Variable{Space: ParamSpace, Vector: 1}
	for v.Type == TypeNone && p.err == nil {
		p.varAttribute(&v)
	}
	for p.acceptDot("ptr") {
		prm.Ptr = true
	}
	for p.tok.kind == tokDot && p.err == nil {
		t := p.tok
		if s, ok := p.space(); ok {
			prm.PtrSpace = s
			continue
		}
		p.advance()
		switch t.text {
		case "ptr":
			prm.Ptr = true
		case "align":
			prm.PtrAlign = p.constant()
		default:
			p.fail(t, "unknown parameter attribute")
		}
	}
	t := p.tok
	prm.Name = p.ident("a parameter name")
	prm.Type = v.Type
	if v.Type == Pred && !isReg {
		p.fail(t, "a predicate cannot live in memory")
		return prm
	}
	n, known := p.dimensions(&v)
	if p.accept('<') { // an old form: name<n> of a prototype
		n *= p.sum()
		p.expect('>')
	}
	if !known {
		n = 0 // variadic: the last formal parameter of an external function
	}
	elem := uint64(v.Type.Size() * v.Vector)
	if n > 1<<28 {
		p.fail(t, "parameter is too large")
		return prm
	}
	prm.Array = v.Array
	prm.Size = n * elem
	prm.Align = max(v.Align, uint64(v.Type.Size()*v.Vector), 1)
	if v.Align != 0 {
		prm.Align = max(v.Align, uint64(v.Type.Size()))
	}
	if p.f == nil || prm.Name == "_" {
		return prm
	}
	if isReg {
		sym := p.newRegister(prm.Name, v.Type, v.Vector)
		prm.Reg = sym.index
		p.declare(t, prm.Name, sym)
		return prm
	}
	p.declare(t, prm.Name, symbol{kind: symVar, v: &Variable{
		Name: prm.Name, Space: ParamSpace, Type: v.Type, Vector: v.Vector, Size: prm.Size, Align: prm.Align,
		Array: v.Array, Line: t.line,
	}})
	return prm
}

// body reads { ... } and resolves what it names.
func (p *parser) body(f *Function) {
	// The variables after the parameters, in the order of the lists.
	f.ReturnVars = p.paramVars(f.Returns)
	f.ParamVars = p.paramVars(f.Params)
	p.statements()
	p.closeScope()
}

func (p *parser) paramVars(list []Param) []*Variable {
	vars := make([]*Variable, len(list))
	for i := range list {
		if sym, ok := p.scope.names[list[i].Name]; ok && sym.kind == symVar {
			vars[i] = sym.v
		}
	}
	return vars
}

// statements reads one scope.
func (p *parser) statements() {
	if !p.enter() {
		return
	}
	defer p.leave()
	p.expect('{')
	p.openScope()
	for !p.isPunct('}') {
		if p.tok.kind == tokEOF {
			p.fail(p.tok, "function body is not closed")
			return
		}
		p.statement()
	}
	p.advance()
	p.closeScope()
}

func (p *parser) statement() {
	t := p.tok
	switch {
	case p.accept(';'):
	case p.isPunct('{'):
		p.statements()
	case p.debugDirective():
	case p.isPunct('@'):
		p.instruction()
	case t.kind == tokIdent && p.peek.kind == tokPunct && p.peek.ch == ':':
		p.advance()
		p.advance()
		p.label(t)
	case t.kind == tokIdent:
		p.instruction()
	case p.acceptDot("reg"):
		p.regs()
	case p.isDot("shared"), p.isDot("local"), p.isDot("param"), p.isDot("global"), p.isDot("const"):
		p.variables(Internal)
	case p.isDot("extern"), p.isDot("visible"), p.isDot("weak"):
		link := map[string]Linkage{"extern": Extern, "visible": Visible, "weak": Weak}[t.text]
		p.advance()
		p.variables(link)
	default:
		p.fail(t, "expected an instruction, a label or a directive")
	}
}

// label reads what a label names: a place, a table of targets or a prototype.
func (p *parser) label(t token) {
	f := p.f
	switch {
	case p.acceptDot("branchtargets"), p.acceptDot("calltargets"):
		table := Table{Name: t.text}
		for first := true; (first || p.accept(',')) && p.err == nil; first = false {
			n := p.tok
			table.Targets = append(table.Targets, Operand{
				Kind: OperandName, Name: p.ident("a label or a function"), line: n.line, col: n.col})
		}
		p.expect(';')
		p.declare(t, t.text, symbol{kind: symTable, index: len(f.Tables)})
		f.Tables = append(f.Tables, table)
		for i := range table.Targets { // the slice is shared with the table
			p.scope.fixups = append(p.scope.fixups, &table.Targets[i])
		}
	case p.acceptDot("callprototype"):
		proto := Proto{Name: t.text}
		p.f = nil // the names of a prototype's parameters mean nothing
		if p.isPunct('(') {
			p.params(&proto.Returns, true)
		}
		p.ident("_")
		if p.isPunct('(') {
			p.params(&proto.Params, true)
		}
		p.f = f
		p.directives(&Function{})
		p.expect(';')
		p.declare(t, t.text, symbol{kind: symProto, index: len(f.Protos)})
		f.Protos = append(f.Protos, proto)
	default:
		p.declare(t, t.text, symbol{kind: symLabel, index: len(f.Labels)})
		f.Labels = append(f.Labels, Label{t.text, len(f.Body)})
	}
}
