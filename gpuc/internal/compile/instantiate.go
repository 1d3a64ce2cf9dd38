package compile

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
)

// A line //purecuda:instantiate kernels.Scan[Point, MinMax] compiles what a library has for types of the package. The library
// has a generic type, and methods of it that are kernels. The lines become variables in a file that exists only here, so that
// the Go compiler's own rules say what the types are.

const instantiate = "//purecuda:instantiate"

// instanceFile is the name of that file.
const instanceFile = "purecuda_instances.go"

// library are the packages that a line may name with no import in its file.
var library = map[string]string{"kernels": module + "kernels", "block": module + "gpu/block", "gpu": module + "gpu"}

// Instance is a type of a library with its kernels, which are some of the program's, one after another.
type Instance struct {
	Name  string // ScanPointMinMax
	Type  *types.Named
	First int       // of its kernels
	at    token.Pos // of the line
}

// instanceText is the text of the file for a package; nil where no line asks for it.
func instanceText(pkg *packages.Package) ([]byte, error) {
	imports, vars := map[string]string{}, ""
	for _, name := range pkg.GoFiles {
		text, err := os.ReadFile(name)
		if err != nil || !bytes.Contains(text, []byte(instantiate)) {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue // the load says so
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				rest, ok := strings.CutPrefix(c.Text, instantiate)
				if !ok {
					continue
				}
				at := fset.Position(c.Pos())
				problem := func(format string, args ...any) error {
					return &Error{Pos: at, Msg: fmt.Sprintf(format, args...)}
				}
				rest = strings.TrimSpace(rest)
				e, err := parser.ParseExpr(rest)
				if err != nil || rest == "" {
					return nil, problem("write a type of a library, as in %s kernels.Scan[Point, MinMax]", instantiate)
				}
				var missing string
				ast.Inspect(e, func(n ast.Node) bool {
					s, ok := n.(*ast.SelectorExpr)
					if !ok {
						return true
					}
					id, ok := s.X.(*ast.Ident)
					if !ok {
						return true
					}
					path := importOf(f, id.Name)
					if before, ok := imports[id.Name]; path == "" || ok && before != path {
						missing = id.Name
					}
					imports[id.Name] = path
					return false
				})
				if missing != "" {
					return nil, problem("which package is %s? import it in this file, by one name in all files of the package", missing)
				}
				vars += fmt.Sprintf("\n//line %s:%d\nvar _ %s\n", at.Filename, at.Line, rest)
			}
		}
	}
	if vars == "" {
		return nil, nil
	}
	text := "package " + pkg.Name + "\n\n"
	for name, path := range imports {
		text += fmt.Sprintf("import %s %q\n", name, path)
	}
	return []byte(text + vars), nil
}

// importOf is the path of the package that a name means in a file.
func importOf(f *ast.File, name string) string {
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		if i.Name != nil && i.Name.Name == name || i.Name == nil && path[strings.LastIndexByte(path, '/')+1:] == name {
			return path
		}
	}
	return library[name]
}

// findInstances finds the kernels of the types that the lines name.
func (p *Program) findInstances(pkg *packages.Package) error {
	for _, f := range pkg.Syntax {
		if filepath.Base(p.fset.File(f.Package).Name()) != instanceFile {
			continue
		}
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			named, ok := types.Unalias(p.Info.TypeOf(g.Specs[0].(*ast.ValueSpec).Type)).(*types.Named)
			if !ok {
				continue // an error in the type, which the load tells
			}
			if err := p.instance(pkg, named, g.Pos()); err != nil {
				return err
			}
		}
	}
	return nil
}

// instance notes the kernels of a type.
func (p *Program) instance(pkg *packages.Package, named *types.Named, pos token.Pos) error {
	in := &Instance{Name: words(named, false, pkg.Types), Type: named, First: len(p.Kernels), at: pos}
	problem := func(format string, args ...any) error {
		return &Error{Pos: p.fset.Position(pos), Msg: fmt.Sprintf(format, args...)}
	}
	for long := false; ; long = true {
		i := slices.IndexFunc(p.Instances, func(other *Instance) bool { return other.Name == in.Name })
		if i < 0 {
			break
		}
		at := p.fset.Position(p.Instances[i].at)
		switch {
		case types.Identical(p.Instances[i].Type, named):
			return problem("%s is at %s:%d already: delete one of the lines", p.written(named), filepath.Base(at.Filename), at.Line)
		case long:
			return problem("%s and %s at %s:%d give one name, %s: rename a type", p.written(named), p.written(p.Instances[i].Type), filepath.Base(at.Filename), at.Line, in.Name)
		}
		in.Name = words(named, true, pkg.Types)
	}
	var err error
	packages.Visit([]*packages.Package{pkg}, nil, func(of *packages.Package) {
		if of.Types != named.Obj().Pkg() || of == pkg {
			return
		}
		for _, f := range of.Syntax {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv == nil || receiver(fn) != named.Obj().Name() {
					continue
				}
				plain := *fn
				plain.Recv = nil
				directive, found, e := findDirective(p.fset, &plain)
				if err = e; err != nil {
					return
				}
				if !found {
					continue
				}
				m, _, _ := types.LookupFieldOrMethod(named, false, of.Types, fn.Name.Name)
				method, ok := m.(*types.Func)
				if !ok {
					continue
				}
				p.Kernels = append(p.Kernels, &Source{
					Directive: directive, Name: in.Name + "_" + strings.TrimPrefix(fn.Name.Name, "kernel"), Decl: fn, Sig: method.Signature(), Of: in, method: method,
				})
			}
		}
	})
	switch {
	case err != nil:
		return err
	case len(p.Kernels) == in.First:
		return problem("%s has no kernels: its methods have no //purecuda:kernel line, or it is a type of this package. What package kernels has compiled needs no line: see kernels.Load", p.written(named))
	}
	p.Instances = append(p.Instances, in)
	return nil
}

// receiver is the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch u := t.(type) {
		case *ast.StarExpr:
			t = u.X
		case *ast.IndexExpr:
			t = u.X
		case *ast.IndexListExpr:
			t = u.X
		case *ast.Ident:
			return u.Name
		default:
			return ""
		}
	}
}

// words is a type as a part of a name. A long one tells types apart whose words are one text: the package and each type are words.
func words(t types.Type, long bool, own *types.Package) string {
	var name string
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		name = t.Obj().Name()
		if of := t.Obj().Pkg(); long && of != nil && of != own && !IsLibrary(of) {
			name = capital(of.Name()) + capital(name)
		}
		for a := range t.TypeArgs().Types() {
			if long {
				name += "_"
			}
			name += words(a, long, own)
		}
	case *types.Array:
		name = "Array" + fmt.Sprint(t.Len()) + words(t.Elem(), long, own)
	default:
		for _, part := range strings.FieldsFunc(types.TypeString(t, func(*types.Package) string { return "" }), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			name += capital(part)
		}
	}
	return capital(name)
}

func capital(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}

// methodOf is the function of a kernel that is a method.
func (p *Program) methodOf(k *Source) *ssa.Function {
	set := p.pkg.Prog.MethodSets.MethodSet(k.Of.Type)
	return p.pkg.Prog.MethodValue(set.Lookup(k.method.Pkg(), k.method.Name()))
}

// needsOf lists what the types of an instance need of the package.
func needsOf(t types.Type, own *types.Package, add func(o types.Object)) {
	named, ok := types.Unalias(t).(*types.Named)
	if !ok {
		return
	}
	for a := range named.TypeArgs().Types() {
		needsOf(a, own, add)
	}
	if named.Obj().Pkg() == own {
		add(named.Origin().Obj())
		for m := range named.Origin().Methods() {
			add(m)
		}
	}
}

// params are the parameters of the kernel in its source, from the thread on.
func (k *kctx) params() []*ssa.Parameter {
	if k.src.Of != nil {
		return k.fn.Params[1:]
	}
	return k.fn.Params
}
