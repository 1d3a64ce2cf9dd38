package ptx

import (
	"strconv"
	"strings"
)

// Limits that keep hostile sources cheap.
const (
	maxSource  = 256 << 20 // bytes
	maxNesting = 200       // scopes, initialisers, expressions
	maxOperand = 1 << 12   // operands of one instruction or list, except jump tables
	maxNamed   = 1 << 14   // variables of a module that a<n> declares
	maxReached = 1 << 21   // functions and variables that kernels reach, counted for each kernel
	maxParams  = 32764     // bytes of the parameters of a kernel; the ISA's own limit
)

// parser is a recursive descent parser with one token of lookahead. The first error
// sticks: it turns every later token into the end of the source, so that all loops end.
type parser struct {
	lex  lexer
	tok  token // current
	peek token // the one after it
	err  error

	m          *Module
	f          *Function
	scope      *scope
	depth      int
	skipBodies bool   // of functions
	named      uint64 // variables that a<n> has declared

	fixups []*Operand // names to be found among the module's symbols at the end
	relocs []pendingReloc
}

// Parse reads a module. The error is a *SyntaxError. The module holds on to no part
// of src, which the caller may reuse. Source that ends with a zero byte, as the driver
// API passes it, is fine.
func Parse(src []byte) (*Module, error) { return read(src, false) }

// ParseSignatures is Parse that skips the bodies of functions, whose instructions it need not know. The functions have their
// names, parameters and directives.
func ParseSignatures(src []byte) (*Module, error) { return read(src, true) }

func read(src []byte, skipBodies bool) (*Module, error) {
	if len(src) > maxSource {
		return nil, &SyntaxError{Line: 1, Column: 1, Msg: "source is larger than " + strconv.Itoa(maxSource) + " bytes"}
	}
	p := newParser(src)
	p.skipBodies = skipBodies
	p.module()
	if p.err != nil {
		return nil, p.err
	}
	return p.m, nil
}

func newParser(src []byte) *parser {
	p := &parser{
		lex: lexer{src: string(src), line: 1},
		m:   &Module{AddressSize: 32, symbols: map[string]any{}},
	}
	p.advance()
	p.advance()
	return p
}

// fail records the first error, at token t.
func (p *parser) fail(t token, msg string) {
	if p.err == nil {
		text := ""
		if t.end > t.pos {
			text = p.lex.src[t.pos:t.end]
			if len(text) > 40 {
				text = text[:40]
			}
		}
		p.err = &SyntaxError{Line: t.line, Column: t.col, Token: text, Msg: msg}
	}
	p.stop()
}

func (p *parser) failAt(line, col int, name, msg string) {
	if p.err == nil {
		p.err = &SyntaxError{Line: line, Column: col, Token: name, Msg: msg}
	}
	p.stop()
}

func (p *parser) stop() {
	p.lex.pos = len(p.lex.src)
	p.tok = token{line: p.lex.line}
	p.peek = p.tok
}

// advance moves on by one token.
func (p *parser) advance() {
	p.tok = p.peek
	t, err := p.lex.next()
	if err != nil {
		if p.err == nil {
			p.err = err
		}
		p.stop()
		return
	}
	p.peek = t
}

func (p *parser) isPunct(c byte) bool { return p.tok.kind == tokPunct && p.tok.ch == c }
func (p *parser) isDot(name string) bool {
	return p.tok.kind == tokDot && p.tok.text == name
}

// accept takes the punctuation c if it is next.
func (p *parser) accept(c byte) bool {
	if p.isPunct(c) {
		p.advance()
		return true
	}
	return false
}

func (p *parser) acceptDot(name string) bool {
	if p.isDot(name) {
		p.advance()
		return true
	}
	return false
}

func (p *parser) expect(c byte) {
	if !p.accept(c) {
		p.fail(p.tok, "expected '"+string(rune(c))+"'")
	}
}

func (p *parser) ident(what string) string {
	if p.tok.kind != tokIdent {
		p.fail(p.tok, "expected "+what)
		return ""
	}
	s := p.tok.text
	p.advance()
	return s
}

// enter and leave bound the recursion.
func (p *parser) enter() bool {
	if p.depth++; p.depth > maxNesting {
		p.fail(p.tok, "nested too deeply")
		return false
	}
	return true
}

func (p *parser) leave() { p.depth-- }

// skipLines drops the tokens of the current line: .loc and .file end with it.
func (p *parser) skipLines() {
	for line := p.tok.line; p.tok.kind != tokEOF && p.tok.line == line; {
		p.advance()
	}
}

// skipBraces drops a block with balanced braces.
func (p *parser) skipBraces() {
	p.expect('{')
	for n := 1; n > 0; p.advance() {
		switch {
		case p.tok.kind == tokEOF:
			p.fail(p.tok, "section is not closed")
			return
		case p.isPunct('{'):
			n++
		case p.isPunct('}'):
			n--
		}
	}
}

func (p *parser) skipStatement() {
	for p.tok.kind != tokEOF && !p.isPunct(';') {
		p.advance()
	}
	p.expect(';')
}

// debugDirective skips what only debuggers and the assembler's tuning read.
func (p *parser) debugDirective() bool {
	switch {
	case p.tok.kind == tokDot:
		switch p.tok.text {
		case "loc", "file":
			p.skipLines()
		case "section":
			p.advance()
			if p.tok.kind == tokIdent || p.tok.kind == tokDot || p.tok.kind == tokString {
				p.advance()
			}
			p.skipBraces()
		case "pragma":
			p.skipStatement()
		default:
			return false
		}
	case p.isPunct('@') && p.peek.kind == tokPunct && p.peek.ch == '@': // @@DWARF
		p.skipLines()
	default:
		return false
	}
	return true
}

func (p *parser) module() {
	if !p.isDot("version") {
		p.fail(p.tok, "a module begins with .version")
		return
	}
	for p.tok.kind != tokEOF {
		switch {
		case p.accept(';'):
		case p.debugDirective():
		case p.tok.kind != tokDot:
			p.fail(p.tok, "expected a directive")
		case p.acceptDot("version"):
			p.version()
		case p.acceptDot("target"):
			p.target()
		case p.acceptDot("address_size"):
			t := p.tok
			if n := p.uint32("address size"); n != 32 && n != 64 {
				p.fail(t, "address size must be 32 or 64")
			} else {
				p.m.AddressSize = int(n)
			}
		case p.acceptDot("alias"):
			p.alias()
		default:
			p.declaration()
		}
	}
	if p.err == nil {
		p.resolveModule()
	}
	if p.err == nil {
		p.m.countShared(p)
	}
}

func (p *parser) version() {
	t := p.tok
	major, minor, ok := strings.Cut(t.text, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if t.kind != tokF64 || !ok || err1 != nil || err2 != nil {
		p.fail(t, "expected a version such as 7.8")
		return
	}
	p.m.Version = Version{a, b}
	p.advance()
}

func (p *parser) target() {
	for first := true; first || p.accept(','); first = false {
		name := p.ident("a target such as sm_75")
		if first {
			p.m.Target = name
		} else {
			p.m.TargetOptions = append(p.m.TargetOptions, name)
		}
	}
}

// alias gives a function a second name.
func (p *parser) alias() {
	t := p.tok
	name := p.ident("a name")
	p.expect(',')
	f := p.m.Function(p.ident("a function"))
	p.expect(';')
	if f == nil {
		p.fail(t, "alias of an unknown function")
		return
	}
	if old := p.m.Function(name); old != nil && !old.Declared {
		p.fail(t, "alias of a function that is already defined")
		return
	} else if old != nil {
		p.removeFunction(old)
	}
	p.m.symbols[name] = f
}

func (p *parser) removeFunction(old *Function) {
	for i, f := range p.m.Functions {
		if f == old {
			p.m.Functions = append(p.m.Functions[:i], p.m.Functions[i+1:]...)
			return
		}
	}
}

// declaration reads a variable or a function with its linkage.
func (p *parser) declaration() {
	link := Internal
	for {
		switch {
		case p.acceptDot("visible"):
			link = Visible
		case p.acceptDot("extern"):
			link = Extern
		case p.acceptDot("weak"):
			link = Weak
		case p.acceptDot("common"):
			link = Common
		case p.acceptDot("entry"):
			p.function(link, true)
			return
		case p.acceptDot("func"):
			p.function(link, false)
			return
		case p.isDot("global"), p.isDot("const"), p.isDot("shared"), p.isDot("tex"):
			p.variables(link)
			return
		default:
			p.fail(p.tok, "unknown directive")
			return
		}
	}
}

// uint32 reads a constant expression that fits 32 bits.
func (p *parser) uint32(what string) uint32 {
	t := p.tok
	v := p.constant()
	if v>>32 != 0 {
		p.fail(t, what+" is out of range")
		return 0
	}
	return uint32(v)
}
