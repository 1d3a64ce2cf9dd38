package compile

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// Directive is what a //purecuda:kernel line says.
type Directive struct {
	Block  [3]int     // the shape of each block; zeros where a launch decides
	Checks Checks     // empty where the options decide
	Equal  [][]string // names of slices of equal length
}

const directive = "//purecuda:kernel"

// findDirective gives the directive of a function, if it has one.
func findDirective(fset *token.FileSet, fn *ast.FuncDecl) (d Directive, found bool, err error) {
	if fn.Doc == nil {
		return d, false, nil
	}
	for _, c := range fn.Doc.List {
		rest, ok := strings.CutPrefix(c.Text, "//purecuda:")
		if !ok {
			continue
		}
		words := strings.Fields(rest)
		problem := func(format string, args ...any) error {
			return &Error{Pos: fset.Position(c.Pos()), Msg: fmt.Sprintf(format, args...)}
		}
		if len(words) == 0 || words[0] != "kernel" {
			return d, false, problem("%s is no directive: it is %s", c.Text, directive)
		}
		if fn.Recv != nil {
			return d, false, problem("a kernel is a function, not a method: write a function that calls it")
		}
		if fn.Type.TypeParams != nil {
			return d, false, problem("a kernel has no type parameters: write one for each type, which calls the generic function")
		}
		for _, w := range words[1:] {
			if err := d.set(w, params(fn)); err != nil {
				return d, false, problem("%v", err)
			}
		}
		found = true
	}
	return d, found, nil
}

// params are the names of the parameters.
func params(fn *ast.FuncDecl) (names []string) {
	for _, f := range fn.Type.Params.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// set sets what one word says.
func (d *Directive) set(word string, params []string) (err error) {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "block":
		d.Block, err = parseBlock(value)
	case "checks":
		d.Checks, err = ParseChecks(value)
	case "equal":
		names := strings.Split(value, ",")
		if len(names) < 2 {
			return fmt.Errorf("%s: name two slices or more", word)
		}
		for _, n := range names {
			if !slices.Contains(params, n) {
				return fmt.Errorf("%s: the kernel has no parameter %q", word, n)
			}
		}
		d.Equal = append(d.Equal, names)
	default:
		return fmt.Errorf("%q is not known: block=16x16, checks=off|trap|report, equal=x,y", word)
	}
	return err
}

// parseBlock parses 256, 16x16 or 8x8x4.
func parseBlock(s string) (block [3]int, err error) {
	block = [3]int{1, 1, 1}
	for i, w := range strings.Split(s, "x") {
		n, err := strconv.Atoi(w)
		if err != nil || i > 2 || n < 1 {
			return [3]int{}, fmt.Errorf("block=%s: write it like 256, 16x16 or 8x8x4", s)
		}
		block[i] = n
	}
	if n := block[0] * block[1] * block[2]; block[0] > 1024 || block[1] > 1024 || block[2] > 64 || n > 1024 {
		return [3]int{}, fmt.Errorf("block=%s: a device takes at most 1024 threads in a block, and at most 64 along z", s)
	}
	return block, nil
}
