package ptx

import (
	"math"
	"strconv"
	"strings"
)

type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokIdent            // add, %r1, $L_1, _
	tokDot              // .u32: text is without the dot
	tokInt              // val
	tokF32              // val: bits of 0f...
	tokF64              // val: bits of 0d... or of a decimal fraction
	tokString           // text is the content, escapes untouched
	tokPunct            // ch
)

type token struct {
	kind     tokenKind
	ch       byte // tokPunct
	text     string
	val      uint64
	line     int
	col      int
	pos, end int
}

// lexer cuts PTX into tokens. Comments are C's and C++'s; a line directive of the C
// preprocessor is skipped.
type lexer struct {
	src       string
	pos       int
	line      int
	lineStart int
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isFollow(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c == '$' }

func (l *lexer) errorAt(pos, end int, msg string) *SyntaxError {
	if end > len(l.src) {
		end = len(l.src)
	}
	if end-pos > 40 {
		end = pos + 40
	}
	return &SyntaxError{Line: l.line, Column: pos - l.lineStart + 1, Token: l.src[pos:end], Msg: msg}
}

// skip moves to the next token.
func (l *lexer) skip() error {
	for l.pos < len(l.src) {
		switch c := l.src[l.pos]; {
		case c == '\n':
			l.pos++
			l.line++
			l.lineStart = l.pos
		case c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f' || c == 0:
			// A trailing zero byte ends the image that cuModuleLoadData takes.
			l.pos++
		case c == '#' && strings.TrimLeft(l.src[l.lineStart:l.pos], " \t") == "":
			l.skipLine()
		case c == '/' && l.pos+1 < len(l.src) && l.src[l.pos+1] == '/':
			l.skipLine()
		case c == '/' && l.pos+1 < len(l.src) && l.src[l.pos+1] == '*':
			n := strings.Index(l.src[l.pos+2:], "*/")
			if n < 0 {
				return l.errorAt(l.pos, l.pos+2, "comment is not closed")
			}
			end := l.pos + 2 + n + 2
			for ; l.pos < end; l.pos++ {
				if l.src[l.pos] == '\n' {
					l.line++
					l.lineStart = l.pos + 1
				}
			}
		default:
			return nil
		}
	}
	return nil
}

func (l *lexer) skipLine() {
	if n := strings.IndexByte(l.src[l.pos:], '\n'); n >= 0 {
		l.pos += n
	} else {
		l.pos = len(l.src)
	}
}

func (l *lexer) next() (token, error) {
	if err := l.skip(); err != nil {
		return token{}, err
	}
	start := l.pos
	t := token{line: l.line, col: start - l.lineStart + 1, pos: start}
	if start >= len(l.src) {
		t.end = start
		return t, nil
	}
	s := l.src
	c := s[start]
	switch {
	case isLetter(c) || c == '_' || c == '$' || c == '%':
		e := start + 1
		for e < len(s) && isFollow(s[e]) {
			e++
		}
		if c == '%' && e == start+1 {
			t.kind, t.ch = tokPunct, '%'
		} else {
			t.kind = tokIdent
		}
		l.pos = e
	case c == '.' && start+1 < len(s) && isFollow(s[start+1]):
		// Modifiers may have parts: .L2::128B, .mbarrier::complete_tx::bytes.
		e := start + 1
		for e < len(s) && (isFollow(s[e]) || s[e] == ':' && e+2 < len(s) && s[e+1] == ':' && isFollow(s[e+2])) {
			if s[e] == ':' {
				e++
			}
			e++
		}
		t.kind = tokDot
		l.pos = e
		t.text, t.end = s[start+1:e], e
		return t, nil
	case isDigit(c):
		if err := l.number(&t); err != nil {
			return token{}, err
		}
	case c == '"':
		e := start + 1
		for e < len(s) && s[e] != '"' && s[e] != '\n' {
			if s[e] == '\\' && e+1 < len(s) && s[e+1] != '\n' {
				e++
			}
			e++
		}
		if e >= len(s) || s[e] != '"' {
			return token{}, l.errorAt(start, start+1, "string is not closed")
		}
		t.kind = tokString
		l.pos = e + 1
		t.text, t.end = s[start+1:e], e+1
		return t, nil
	default:
		if c >= 0x7f || c < ' ' {
			return token{}, l.errorAt(start, start+1, "character is not allowed here")
		}
		t.kind, t.ch = tokPunct, c
		l.pos = start + 1
	}
	t.text, t.end = s[start:l.pos], l.pos
	return t, nil
}

// number reads the forms of PTX ISA, "Constants": decimal, octal, 0x, 0b, each with an
// optional U; 0f with 8 and 0d with 16 hexadecimal digits; decimal fractions.
func (l *lexer) number(t *token) error {
	s, start := l.src, l.pos
	e := start
	word := func() { // the longest run of letters and digits
		for e < len(s) && isFollow(s[e]) {
			e++
		}
	}
	exact := func(bits int) error {
		digits := s[start+2 : e]
		v, err := strconv.ParseUint(digits, 16, 64)
		if err != nil || len(digits) != bits/4 {
			return l.errorAt(start, e, "floating-point constant must have "+strconv.Itoa(bits/4)+" hexadecimal digits")
		}
		t.val = v
		return nil
	}
	if s[e] == '0' && e+1 < len(s) {
		switch s[e+1] {
		case 'f', 'F':
			word()
			t.kind, l.pos = tokF32, e
			return exact(32)
		case 'd', 'D':
			word()
			t.kind, l.pos = tokF64, e
			return exact(64)
		}
	}
	for e < len(s) && isDigit(s[e]) {
		e++
	}
	frac := e+1 < len(s) && s[e] == '.' && isDigit(s[e+1])
	exp := e < len(s) && s[e]|0x20 == 'e' && !strings.HasPrefix(s[start:], "0x") && !strings.HasPrefix(s[start:], "0X")
	if frac || exp {
		if frac {
			e++
			for e < len(s) && isDigit(s[e]) {
				e++
			}
		}
		if e < len(s) && s[e]|0x20 == 'e' {
			e++
			if e < len(s) && (s[e] == '+' || s[e] == '-') {
				e++
			}
		}
		word()
		f, err := strconv.ParseFloat(s[start:e], 64)
		if err != nil {
			return l.errorAt(start, e, "not a number")
		}
		t.kind, t.val, l.pos = tokF64, math.Float64bits(f), e
		return nil
	}
	word()
	text := strings.TrimRight(s[start:e], "uU")
	base := 10
	switch {
	case len(text) > 2 && text[1]|0x20 == 'x':
		base, text = 16, text[2:]
	case len(text) > 2 && text[1]|0x20 == 'b':
		base, text = 2, text[2:]
	case len(text) > 1 && text[0] == '0':
		base, text = 8, text[1:]
	}
	v, err := strconv.ParseUint(text, base, 64)
	if err != nil {
		return l.errorAt(start, e, "not a 64-bit integer")
	}
	t.kind, t.val, l.pos = tokInt, v, e
	return nil
}
