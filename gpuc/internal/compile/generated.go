package compile

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/purecuda/purecuda/internal/kernelsum"
)

// source is the package of the kernels, without what is generated.
type source struct {
	files     []*ast.File
	imports   map[string]*packages.Package
	sizes     types.Sizes
	version   string // of Go
	generated string // the file that is
	stub      bool   // the package needs what is in it
	declared  map[string]bool
}

func (p *Program) sourceOf(pkg *packages.Package, generated string) {
	p.source = source{imports: pkg.Imports, sizes: pkg.TypesSizes, generated: generated, declared: map[string]bool{}}
	if pkg.Module != nil && pkg.Module.GoVersion != "" {
		p.source.version = "go" + pkg.Module.GoVersion
	}
	for _, f := range pkg.Syntax {
		if p.fset.File(f.Package).Name() != generated {
			p.source.files = append(p.source.files, f)
		}
	}
	for id, o := range pkg.TypesInfo.Defs {
		v, _ := o.(*types.Var)
		if _, imported := o.(*types.PkgName); o != nil && !imported && (v == nil || !v.IsField()) && p.fset.File(o.Pos()).Name() != generated {
			p.source.declared[id.Name] = true
		}
	}
}

// Declares reports whether the package declares a name somewhere, in a function too.
func (p *Program) Declares(name string) bool { return p.source.declared[name] }

// Imports reports whether the package imports another one.
func (p *Program) Imports(pkg *types.Package) bool { return p.source.imports[pkg.Path()] != nil }

// Check rejects a generated file that does not compile, or in which a name of Go has another meaning. What the file declares is in the package
// after it, so it is called once for a program.
func (p *Program) Check(name string, text []byte) error {
	f, err := parser.ParseFile(p.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if err := p.clash(f); err != nil {
		return err
	}
	var first error
	// The package is checked already, without what is generated where it needs nothing of it.
	pkg, files := p.Types, []*ast.File{f}
	if p.source.stub {
		pkg, files = types.NewPackage(p.Types.Path(), p.Types.Name()), append(slices.Clone(p.source.files), f)
	}
	shadows := slices.ContainsFunc(types.Universe.Names(), func(name string) bool { return p.Types.Scope().Lookup(name) != nil })
	info := &types.Info{}
	if shadows {
		info.Uses = map[*ast.Ident]types.Object{}
	}
	config := types.Config{Importer: importer(p.source.imports), Sizes: p.source.sizes, GoVersion: p.source.version, Error: func(err error) {
		e, ok := err.(types.Error)
		if first != nil || !ok {
			return
		}
		what := "what gpuc writes"
		if d := enclosing(f, e.Pos); d != nil {
			if k := p.writtenFor(d); k != nil {
				what += fmt.Sprintf(" for the kernel %s at %s", k.Name, p.fset.Position(k.Decl.Name.Pos()))
			}
		}
		first = &Error{Pos: p.fset.Position(e.Pos), Msg: what + " does not compile: " + e.Msg}
	}}
	if err := types.NewChecker(&config, p.fset, pkg, info).Files(files); first == nil {
		first = err
	}
	var shadowed error // is why, where it is one
	for _, d := range f.Decls {
		if !shadows || strings.HasPrefix(strings.Join(kernelsum.Names(d), ""), loopsName) {
			continue // it has text of the kernel, and package loops looks at its own
		}
		ast.Inspect(d, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if o := info.Uses[id]; ok && o != nil && types.Universe.Lookup(id.Name) != nil && o.Parent() != types.Universe && shadowed == nil && o.Parent() == o.Pkg().Scope() {
				shadowed = &Error{Pos: p.fset.Position(o.Pos()), Msg: fmt.Sprintf("%s is declared here, and what gpuc writes needs that of Go: rename this one", id.Name)}
			}
			return true
		})
	}
	if shadowed != nil {
		return shadowed
	}
	return first
}

// loopsName begins the names of the functions that are kernels as loops.
const loopsName = "kernelLoops"

// clash rejects names that the package has already.
func (p *Program) clash(f *ast.File) error {
	problem := func(pos token.Pos, format string, args ...any) error {
		return &Error{Pos: p.fset.Position(pos), Msg: fmt.Sprintf(format, args...)}
	}
	own := func(name string) types.Object {
		if o := p.Types.Scope().Lookup(name); o != nil && p.fset.File(o.Pos()).Name() != p.source.generated {
			return o
		}
		return nil
	}
	seen := map[string]ast.Decl{}
	declared := func(o types.Object, d ast.Decl) error {
		why := ""
		if k := p.writtenFor(d); k != nil {
			why = " for the kernel " + k.Name
		}
		return problem(o.Pos(), "%s is declared here, and gpuc writes another one%s: rename one of them", o.Name(), why)
	}
	for _, d := range f.Decls {
		for _, name := range kernelsum.Names(d) {
			if o := own(name); o != nil {
				return declared(o, d)
			}
			if seen[name] != nil {
				if k := p.writtenFor(d); k != nil {
					return problem(k.Decl.Name.Pos(), "gpuc writes %s twice, the second time for the kernel %s: rename the kernel", name, k.Name)
				}
			}
			seen[name] = d
		}
	}
	for file := range p.Types.Scope().Children() { // what a file imports
		for _, name := range file.Names() {
			if d := seen[name]; d != nil {
				return declared(file.Lookup(name), d)
			}
		}
	}
	for _, i := range f.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		name := path[strings.LastIndexByte(path, '/')+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		if o := own(name); o != nil {
			return problem(o.Pos(), "%s is declared here, and what gpuc writes imports the package %s: rename this one", name, path)
		}
	}
	return nil
}

// enclosing is the declaration around a place.
func enclosing(f *ast.File, pos token.Pos) ast.Decl {
	for _, d := range f.Decls {
		if d.Pos() <= pos && pos < d.End() {
			return d
		}
	}
	return nil
}

// writtenFor is the kernel that a function is written for.
func (p *Program) writtenFor(d ast.Decl) *Source {
	fn, ok := d.(*ast.FuncDecl)
	if !ok {
		return nil
	}
	name := fn.Name.Name
	cpu, _ := strings.CutSuffix(name, "CPU")
	auto, _ := strings.CutSuffix(name, "Auto")
	number := -1
	if rest, ok := strings.CutPrefix(name, loopsName); ok {
		number, _ = strconv.Atoi(rest)
	}
	// The last: where a method is there already, as Close is, the kernel's comes after it.
	for i, k := range slices.Backward(p.Kernels) {
		if i == number || name == k.Name && fn.Recv != nil || fn.Recv == nil && name != k.Name && (cpu == k.Name || auto == k.Name) {
			return k
		}
	}
	return nil
}

// importer finds packages among those that are loaded.
type importer map[string]*packages.Package

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := i[path]; p != nil && p.Types != nil {
		return p.Types, nil
	}
	return nil, fmt.Errorf("package %s is not loaded", path)
}

// declarations are those of the package, by what they declare.
func (p *Program) declarations() map[types.Object]ast.Decl {
	if p.decls != nil {
		return p.decls
	}
	decls := map[types.Object]ast.Decl{}
	for _, f := range p.source.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				decls[p.Info.Defs[d.Name]] = d
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						decls[p.Info.Defs[s.Name]] = d
					case *ast.ValueSpec:
						for _, n := range s.Names {
							decls[p.Info.Defs[n]] = d
						}
					}
				}
			}
		}
	}
	p.decls = decls
	return decls
}

// Needs lists what a kernel needs of its package, itself first, by the names that kernelsum gives declarations.
func (p *Program) Needs(k *Source) (names []string) {
	decls := p.declarations()
	seen := map[ast.Decl]bool{}
	var add func(d ast.Decl)
	add = func(d ast.Decl) {
		if d == nil || seen[d] {
			return
		}
		seen[d] = true
		names = append(names, kernelsum.Names(d)[:1]...) // all of it counts under each of its names
		ast.Inspect(d, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				o := p.Info.Uses[id]
				if f, ok := o.(*types.Func); ok {
					o = f.Origin()
				}
				if o != nil {
					add(decls[o])
				}
			}
			return true
		})
	}
	if k.Of == nil {
		add(k.Decl)
	} else {
		needsOf(k.Of.Type, p.Types, func(o types.Object) { add(decls[o]) })
	}
	return names
}
