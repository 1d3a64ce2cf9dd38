package compile

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Directive is what a //purecuda:kernel line says.
type Directive struct {
	Block     [3]int     // the shape of each block; zeros where a launch decides
	Blocks    int        // that a multiprocessor has to have room for, which bounds the registers; 0 where the driver decides
	Registers int        // of a thread, at most; 0 where the driver decides
	Target    Target     // that it needs; the images of others are without it
	Entry     string     // the name in PTX; empty: the function's name
	Checks    Checks     // empty where the options decide
	Equal     [][]string // names of slices of equal length
	Types     []TypeArgs // of the type parameters

	Contract bool // x*y+z is rounded once
	NoAlias  bool // no slice that the kernel writes overlaps another

	Recursion int // how deep a function may call itself; 0 is defaultRecursion
}

const defaultRecursion = 32

// depth is how deep a function may call itself.
func (d *Directive) depth() int {
	if d.Recursion > 0 {
		return d.Recursion
	}
	return defaultRecursion
}

// TypeArgs are the types for a type parameter: T=float32,float64.
type TypeArgs struct {
	Param string
	Args  []string
}

const directive = "//purecuda:kernel"

// findDirective returns the directive of a function, if it has one.
func findDirective(fset *token.FileSet, fn *ast.FuncDecl) (d Directive, found bool, err error) {
	if fn.Doc == nil {
		return d, false, nil
	}
	said := map[string]bool{}
	for _, c := range fn.Doc.List {
		words := strings.Fields(c.Text)
		if words[0] != directive {
			continue
		}
		problem := func(format string, args ...any) error {
			return &Error{Pos: fset.Position(c.Pos()), Msg: fmt.Sprintf(format, args...)}
		}
		if fn.Recv != nil {
			return d, false, problem("a kernel is a function, not a method: write a function that calls it")
		}
		if !found {
			for _, n := range names(fn.Type.TypeParams) {
				d.Types = append(d.Types, TypeArgs{Param: n})
			}
		}
		found = true
		for _, w := range words[1:] {
			key, _, _ := strings.Cut(w, "=")
			if said[key] && key != "equal" {
				return d, false, problem("%s: the directive says %s twice", w, key)
			}
			said[key] = true
			if err := d.set(w, names(fn.Type.Params)); err != nil {
				return d, false, problem("%v", err)
			}
		}
		if d.Entry != "" && len(d.Types) > 0 {
			return d, false, problem("entry=%s: a generic kernel has a name in PTX for each type", d.Entry)
		}
		for _, t := range d.Types {
			if len(t.Args) == 0 {
				return d, false, problem("say which types %s stands for: %s %s=float32,float64", t.Param, c.Text, t.Param)
			}
		}
	}
	return d, found, nil
}

// anyDirective is a comment that is one of gpuc's directives, or was meant to be.
var anyDirective = regexp.MustCompile(`^//(\s*)(purecuda:(\S*))`)

// misplaced rejects a line of a file that looks like a directive and says nothing: it is misspelled, or has no function below it.
func misplaced(fset *token.FileSet, f *ast.File) error {
	ofFunction := map[*ast.Comment]bool{}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Doc != nil {
			for _, c := range fn.Doc.List {
				ofFunction[c] = true
			}
		}
	}
	for _, g := range f.Comments {
		for _, c := range g.List {
			m := anyDirective.FindStringSubmatch(c.Text)
			if m == nil {
				continue
			}
			problem := func(format string, args ...any) error {
				return &Error{Pos: fset.Position(c.Pos()), Msg: fmt.Sprintf(format, args...)}
			}
			known := slices.Contains([]string{directive, unrollDirective, instantiate}, "//"+m[2])
			switch {
			case known && m[1] != "":
				return problem("a directive has no space behind //: write //%s", m[2])
			case m[1] != "": // a sentence
			case !known:
				return problem("//%s is no directive: write %s before a function, %s before a for, or %s", m[2], directive, unrollDirective, instantiate)
			case "//"+m[2] == directive && !ofFunction[c]:
				return problem("%s stands in the comment of a function, with no empty line between: here it says nothing", directive)
			}
		}
	}
	return nil
}

// names are the names in a list of parameters.
func names(list *ast.FieldList) (names []string) {
	if list == nil {
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// set sets what one word says.
func (d *Directive) set(word string, params []string) (err error) {
	key, value, _ := strings.Cut(word, "=")
	for i := range d.Types {
		if d.Types[i].Param == key {
			d.Types[i].Args = strings.Split(value, ",")
			return nil
		}
	}
	switch key {
	case "contract", "noalias":
		if word != key {
			return fmt.Errorf("%s takes no value", word)
		}
		d.Contract, d.NoAlias = d.Contract || key == "contract", d.NoAlias || key == "noalias"
	case "recursion":
		if d.Recursion, err = strconv.Atoi(value); err != nil || d.Recursion < 1 || d.Recursion > 1000 {
			return fmt.Errorf("%s: write how deep a function may call itself, 1 to 1000", word)
		}
	case "block":
		d.Block, err = parseBlock(value)
	case "blocks":
		if d.Blocks, err = strconv.Atoi(value); err != nil || d.Blocks < 1 || d.Blocks > 32 {
			return fmt.Errorf("%s: a multiprocessor has room for 1 to 32 blocks", word)
		}
	case "registers":
		if d.Registers, err = strconv.Atoi(value); err != nil || d.Registers < 24 || d.Registers > 255 {
			return fmt.Errorf("%s: a thread has 24 to 255 registers", word)
		}
	case "arch":
		d.Target, err = ParseTarget(value)
	case "entry":
		if d.Entry = value; !token.IsIdentifier(value) {
			return fmt.Errorf("%s: it is a name, as of a function", word)
		}
	case "checks":
		d.Checks, err = ParseChecks(value)
	case "equal":
		names := strings.Split(value, ",")
		if len(names) < 2 {
			return fmt.Errorf("%s: name two slices or more", word)
		}
		for _, n := range names {
			if first, _, _ := strings.Cut(n, "."); !slices.Contains(params, first) {
				return fmt.Errorf("%s: the kernel has no parameter %q", word, n)
			}
		}
		d.Equal = append(d.Equal, names)
	default:
		return fmt.Errorf("%q is not known: block=16x16, blocks=4, registers=168, arch=sm_90a, entry=name, checks=off|trap|report, equal=x,y, contract, noalias, recursion=32, T=float32,float64 for a type parameter T", word)
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
