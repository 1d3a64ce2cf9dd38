package ptx

// Constant expressions (PTX ISA, "Constant Expressions"): integers only, 64 bits wide,
// C's operators and precedence. A value is signed unless an operand was written with U
// or does not fit, as the standard says; only /, %, >> and comparisons tell the
// difference.

type constValue struct {
	v        uint64
	unsigned bool
}

var binaryPrec = map[string]int{
	"*": 10, "/": 10, "%": 10,
	"+": 9, "-": 9,
	"<<": 8, ">>": 8,
	"<": 7, "<=": 7, ">": 7, ">=": 7,
	"==": 6, "!=": 6,
	"&": 5, "^": 4, "|": 3,
	"&&": 2, "||": 1,
}

// constant reads an expression and gives its bits.
func (p *parser) constant() uint64 { return p.ternary(0).v }

// sum reads an expression of the operators that bind at least like + and -, as address
// offsets and operands have it. A following | or < is not part of it.
func (p *parser) sum() uint64 { return p.ternary(9).v }

func (p *parser) ternary(minPrec int) constValue {
	if !p.enter() {
		return constValue{}
	}
	defer p.leave()
	a := p.binary(minPrec)
	if minPrec == 0 && p.accept('?') {
		b := p.ternary(0)
		p.expect(':')
		c := p.ternary(0)
		if a.v != 0 {
			return b
		}
		return c
	}
	return a
}

// operator returns the binary operator at the current token and the tokens it takes.
func (p *parser) operator() (string, int) {
	if p.tok.kind != tokPunct {
		return "", 0
	}
	if p.peek.kind == tokPunct && p.peek.pos == p.tok.end {
		two := p.lex.src[p.tok.pos:p.peek.end]
		if _, ok := binaryPrec[two]; ok {
			return two, 2
		}
	}
	return p.tok.text, 1
}

func (p *parser) binary(minPrec int) constValue {
	a := p.unary()
	for {
		op, n := p.operator()
		prec, ok := binaryPrec[op]
		if !ok || prec < minPrec || n == 0 {
			return a
		}
		if !p.enter() {
			return a
		}
		t := p.tok
		for range n {
			p.advance()
		}
		b := p.binary(prec + 1)
		p.leave()
		if (op == "/" || op == "%") && b.v == 0 {
			p.fail(t, "division by zero")
			return a
		}
		a = foldConst(op, a, b)
	}
}

func foldConst(op string, a, b constValue) constValue {
	u := a.unsigned || b.unsigned
	truth := func(t bool) constValue {
		if t {
			return constValue{v: 1}
		}
		return constValue{}
	}
	less := func(x, y uint64) bool {
		if u {
			return x < y
		}
		return int64(x) < int64(y)
	}
	switch op {
	case "*":
		return constValue{a.v * b.v, u}
	case "/":
		if u {
			return constValue{a.v / b.v, u}
		}
		return constValue{uint64(int64(a.v) / int64(b.v)), u}
	case "%":
		if u {
			return constValue{a.v % b.v, u}
		}
		return constValue{uint64(int64(a.v) % int64(b.v)), u}
	case "+":
		return constValue{a.v + b.v, u}
	case "-":
		return constValue{a.v - b.v, u}
	case "<<":
		return constValue{a.v << (b.v & 63), a.unsigned}
	case ">>":
		if a.unsigned {
			return constValue{a.v >> (b.v & 63), true}
		}
		return constValue{uint64(int64(a.v) >> (b.v & 63)), false}
	case "<":
		return truth(less(a.v, b.v))
	case "<=":
		return truth(!less(b.v, a.v))
	case ">":
		return truth(less(b.v, a.v))
	case ">=":
		return truth(!less(a.v, b.v))
	case "==":
		return truth(a.v == b.v)
	case "!=":
		return truth(a.v != b.v)
	case "&":
		return constValue{a.v & b.v, u}
	case "^":
		return constValue{a.v ^ b.v, u}
	case "|":
		return constValue{a.v | b.v, u}
	case "&&":
		return truth(a.v != 0 && b.v != 0)
	default: // ||
		return truth(a.v != 0 || b.v != 0)
	}
}

func (p *parser) unary() constValue {
	if !p.enter() {
		return constValue{}
	}
	defer p.leave()
	switch {
	case p.accept('-'):
		a := p.unary()
		return constValue{-a.v, a.unsigned}
	case p.accept('+'):
		return p.unary()
	case p.accept('~'):
		a := p.unary()
		return constValue{^a.v, a.unsigned}
	case p.accept('!'):
		if p.unary().v == 0 {
			return constValue{v: 1}
		}
		return constValue{}
	case p.isPunct('('):
		p.advance()
		if p.tok.kind == tokDot && (p.tok.text == "s64" || p.tok.text == "u64") { // a cast
			u := p.tok.text == "u64"
			p.advance()
			p.expect(')')
			return constValue{p.unary().v, u}
		}
		a := p.ternary(0)
		p.expect(')')
		return a
	case p.tok.kind == tokInt:
		t := p.tok
		p.advance()
		last := t.text[len(t.text)-1]
		return constValue{t.val, last == 'U' || last == 'u' || int64(t.val) < 0}
	case p.tok.kind == tokIdent && p.tok.text == "WARP_SZ":
		p.advance()
		return constValue{v: 32}
	}
	p.fail(p.tok, "expected a constant")
	return constValue{}
}
