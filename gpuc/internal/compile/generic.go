package compile

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/go/ssa"
)

// A generic kernel is compiled for the types that its directive names. go/ssa makes an instance of a generic function
// only where the source has one, so parseFile adds a function to the file that mentions all of them.

// instancesOf begins the name of that function.
const instancesOf = "purecudaInstancesOf"

// parseFile parses a file, and adds the instances of generic kernels.
func parseFile(fset *token.FileSet, name string, text []byte) (*ast.File, error) {
	const mode = parser.AllErrors | parser.ParseComments | parser.SkipObjectResolution
	if !bytes.Contains(text, []byte(directive)) {
		return parser.ParseFile(fset, name, text, mode)
	}
	own := token.NewFileSet() // the places are from the second parse
	f, err := parser.ParseFile(own, name, text, mode)
	if err != nil {
		return parser.ParseFile(fset, name, text, mode)
	}
	var b bytes.Buffer
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Type.TypeParams == nil {
			continue
		}
		d, found, err := findDirective(own, fn)
		if !found || err != nil {
			continue // find says so
		}
		// An error in a type is one of the directive's line.
		fmt.Fprintf(&b, "\n//line %s:%d\nfunc %s%s() []any { return []any{", filepath.Base(name), own.Position(fn.Doc.End()).Line, instancesOf, fn.Name.Name)
		for _, args := range product(d.Types) {
			fmt.Fprintf(&b, "%s[%s], ", fn.Name.Name, strings.Join(args, ", "))
		}
		b.WriteString("} }\n")
	}
	return parser.ParseFile(fset, name, append(bytes.Clone(text), b.Bytes()...), mode)
}

// product has an argument for each type parameter, in all ways.
func product(list []TypeArgs) [][]string {
	all := [][]string{nil}
	for _, t := range list {
		var next [][]string
		for _, head := range all {
			for _, a := range t.Args {
				next = append(next, append(head[:len(head):len(head)], a))
			}
		}
		all = next
	}
	return all
}

// instances notes a kernel, or the instances of a generic one.
func (p *Program) instances(d Directive, t *types.Func, decl *ast.FuncDecl) {
	if len(d.Types) == 0 {
		p.Kernels = append(p.Kernels, &Source{Directive: d, Name: t.Name(), Call: t.Name(), Decl: decl, Sig: t.Signature()})
		return
	}
	for _, names := range product(d.Types) {
		var args []types.Type
		name := t.Name()
		for _, n := range names {
			v, err := types.Eval(p.fset, p.Types, t.Pos(), n)
			if err != nil || !v.IsType() {
				return // the package has an error
			}
			args = append(args, v.Type)
			short := n[strings.LastIndexByte(n, '.')+1:]
			first, size := utf8.DecodeRuneInString(short)
			name += string(unicode.ToUpper(first)) + short[size:]
		}
		sig, err := types.Instantiate(nil, t.Signature(), args, true)
		if err != nil {
			return
		}
		p.Kernels = append(p.Kernels, &Source{Directive: d, Name: name, Call: fmt.Sprintf("%s[%s]", t.Name(), strings.Join(names, ", ")), Decl: decl, Sig: sig.(*types.Signature), args: args})
	}
}

// function is the function of a kernel.
func (p *Program) function(k *Source) *ssa.Function {
	name, _, generic := strings.Cut(k.Call, "[")
	if !generic {
		return p.pkg.Func(name)
	}
	for _, b := range p.pkg.Func(instancesOf + name).Blocks {
		for _, in := range b.Instrs {
			for _, op := range in.Operands(nil) {
				if fn, ok := (*op).(*ssa.Function); ok && slices.EqualFunc(fn.TypeArgs(), k.args, types.Identical) {
					return fn
				}
			}
		}
	}
	return nil
}
