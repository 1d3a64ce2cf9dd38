package compile

import (
	"fmt"
	"go/ast"
	"go/token"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
)

const unrollDirective = "//purecuda:unroll"

// unrollLine is a //purecuda:unroll line before a loop.
type unrollLine struct {
	pos, begin token.Pos // of the line and of the loop
	n          int       // copies; 0 where each pass is one
}

// findUnrolls finds the lines in all packages that have them.
func (p *Program) findUnrolls(pkgs []*packages.Package) (err error) {
	packages.Visit(pkgs, nil, func(pkg *packages.Package) {
		for _, f := range pkg.Syntax {
			for _, g := range f.Comments {
				for _, c := range g.List {
					if e := p.unrollLine(f, c); e != nil && err == nil {
						err = e
					}
				}
			}
		}
	})
	return err
}

func (p *Program) unrollLine(f *ast.File, c *ast.Comment) error {
	rest, ok := strings.CutPrefix(c.Text, unrollDirective)
	if !ok {
		return nil
	}
	problem := func(text string) error { return &Error{Pos: p.fset.Position(c.Pos()), Msg: text} }
	u := &unrollLine{pos: c.Pos()}
	if rest = strings.TrimSpace(rest); rest != "" {
		n, err := strconv.Atoi(rest)
		if err != nil || n < 1 || n > 64 {
			return problem(fmt.Sprintf("%s: write %s, or %s 4 with 1 to 64 copies", c.Text, unrollDirective, unrollDirective))
		}
		u.n = n
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			if p.fset.Position(n.Pos()).Line == p.fset.Position(c.Pos()).Line+1 {
				u.begin = n.Pos()
			}
		}
		return true
	})
	if !u.begin.IsValid() {
		return problem(unrollDirective + " stands on the line before a for")
	}
	p.unrolls = append(p.unrolls, u)
	return nil
}

// unrollOf is the line before a loop.
func (p *Program) unrollOf(f *frame, l *loop) (found *unrollLine) {
	if len(p.unrolls) == 0 || f.fn.Syntax() == nil {
		return nil
	}
	at := statement(f, l)
	for _, u := range p.unrolls {
		if u.begin == at {
			found = u
		}
	}
	return found
}

// statement is where the statement of a loop begins: the smallest that holds all of it, and the loops in it.
func statement(f *frame, l *loop) (smallest token.Pos) {
	begin, end := token.Pos(1<<31-1), token.NoPos
	for b := range l.blocks {
		if m := f.loops[b]; m != nil && m != l {
			if at := statement(f, m); at.IsValid() {
				begin, end = min(begin, at-1), max(end, at)
			}
		}
		for _, in := range b.Instrs {
			if _, phi := in.(*ssa.Phi); !phi && in.Pos().IsValid() {
				begin, end = min(begin, in.Pos()), max(end, in.Pos())
			}
		}
	}
	ast.Inspect(f.fn.Syntax(), func(n ast.Node) bool {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			if n.Pos() <= begin && end < n.End() {
				smallest = n.Pos()
			}
		}
		return true
	})
	return smallest
}

// copies makes copies of a loop that follow each other, each with its own test; the last jumps to the first.
func (k *kctx) copies(f *frame, s *scope, l *loop, n int) {
	k.phis(f, s, l.head)
	bind := map[*ssa.Phi]val{}
	for _, in := range l.head.Instrs {
		if p, ok := in.(*ssa.Phi); ok {
			bind[p] = s.m[p]
		}
	}
	k.repeat(f, s, l, bind, func(i int) bool { return i == n-1 })
}

// repeat makes copies of a loop until last says so, or until a copy does not jump to the next one, which is the last then.
// bind are the values of the variables of the loop in the first copy.
func (k *kctx) repeat(f *frame, s *scope, l *loop, bind map[*ssa.Phi]val, last func(i int) bool) (c *scope) {
	table, label := k.dom(s, l.head), ""
	if table == nil {
		table = k.cur
	}
	for i, done := 0, false; !done; i++ {
		c = newScope(s, l)
		done = last(i)
		c.number, c.last = i, done
		for p, v := range bind {
			c.m[p] = v
		}
		if label != "" {
			k.place(label, false)
		}
		c.done[l.head] = newTable(table)
		k.region(f, c, map[*ssa.BasicBlock]bool{l.head: true})
		if !c.reach {
			break
		}
		bind, label, table = c.next, c.nextL, c.nextT
	}
	return c
}
