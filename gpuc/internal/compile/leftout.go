package compile

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// leftOut rejects kernels in files that are not built: nobody would hear that they have no launch.
func leftOut(p *packages.Package, dir string) error {
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return err
	}
	for _, name := range append(tests, p.IgnoredFiles...) {
		text, err := os.ReadFile(name)
		if err != nil || !strings.HasSuffix(name, ".go") || !bytes.Contains(text, []byte(directive)) {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if _, found, err := findDirective(fset, fn); err != nil || !found {
				continue
			}
			problem := func(format string, args ...any) error {
				return &Error{Pos: fset.Position(fn.Name.Pos()), Msg: fmt.Sprintf(format, args...)}
			}
			if slices.Contains(tests, name) {
				return problem("the kernel %s is in a file of tests, which no launch can reach: move it to a file of the package, where a test can call it as well", fn.Name.Name)
			}
			switch line := buildLine(f); line {
			case "ignore":
			case "":
				return problem("the kernel %s is in a file whose name leaves it out on this system: move it to another", fn.Name.Name)
			default:
				return problem("the kernel %s is in a file that //go:build %s leaves out: run gpuc with -tags, or move it to another file", fn.Name.Name, line)
			}
		}
	}
	return nil
}

// buildLine is the build constraint of a file.
func buildLine(f *ast.File) string {
	for _, g := range f.Comments {
		if g.Pos() > f.Package {
			break
		}
		for _, c := range g.List {
			if e, err := constraint.Parse(c.Text); err == nil && constraint.IsGoBuild(c.Text) {
				return e.String()
			}
		}
	}
	return ""
}

// constraint is the build constraint of all files with kernels: what is generated needs it too.
func (p *Program) constraint(files []*ast.File) (string, error) {
	var first *Source
	line := ""
	for _, k := range p.Kernels {
		for _, f := range files {
			if k.Decl.Pos() < f.FileStart || k.Decl.Pos() >= f.FileEnd {
				continue
			}
			switch own := buildLine(f); {
			case first == nil:
				first, line = k, own
			case own != line:
				return "", &Error{Pos: p.fset.Position(k.Decl.Name.Pos()), Msg: fmt.Sprintf("the kernels %s and %s are under different //go:build lines, and one file has the launches of both: give them a package each", first.Name, k.Name)}
			}
		}
	}
	return line, nil
}
