package compile

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// Source is a kernel in a loaded package.
type Source struct {
	Directive
	Name  string
	Doc   string // the comment before it
	Types *types.Func
	fn    *ssa.Function
}

// Program is a loaded package.
type Program struct {
	Name    string // of the package
	Types   *types.Package
	Kernels []*Source // in the order of the source
	pkg     *ssa.Package
	fset    *token.FileSet
	inits   map[*ssa.Global]map[int64]ssa.Value
	written map[*ssa.Global]token.Pos
}

// Config says what to load.
type Config struct {
	Dir     string // where the pattern is seen from
	Pattern string // of one package, such as "."
	// Generated is the full name of a file that is generated, and so not read. Where the package needs what is in it,
	// Stub writes a file in its place, from the types of the kernels alone.
	Generated string
	Stub      func(p *Program) ([]byte, error)
}

// Load loads a package and finds its kernels.
func Load(c Config) (*Program, error) {
	overlay := map[string][]byte{}
	load := func() (*Program, []*packages.Package, error) {
		p := &Program{fset: token.NewFileSet(), inits: map[*ssa.Global]map[int64]ssa.Value{}}
		pkgs, err := packages.Load(&packages.Config{Dir: c.Dir, Fset: p.fset, Mode: packages.LoadAllSyntax, Overlay: overlay}, c.Pattern)
		if err != nil {
			return nil, nil, err
		}
		if len(pkgs) != 1 || pkgs[0].Types == nil || len(pkgs[0].GoFiles) == 0 {
			return nil, nil, fmt.Errorf("%s is not one package with Go files", c.Pattern)
		}
		p.Name, p.Types = pkgs[0].Name, pkgs[0].Types
		return p, pkgs, p.find(pkgs[0].Syntax)
	}
	if c.Generated != "" {
		// The name of the package is not known before it is loaded; a file with no package clause that fits would
		// hide it. So the first load asks for the name alone.
		pkgs, err := packages.Load(&packages.Config{Dir: c.Dir, Mode: packages.NeedName | packages.NeedFiles}, c.Pattern)
		if err != nil {
			return nil, err
		}
		if len(pkgs) == 1 && slices.Contains(pkgs[0].GoFiles, c.Generated) {
			overlay[c.Generated] = []byte("package " + pkgs[0].Name + "\n")
		}
	}
	p, pkgs, err := load()
	if err != nil {
		return nil, err
	}
	if problem(pkgs) != nil && c.Stub != nil && len(p.Kernels) > 0 {
		if overlay[c.Generated], err = c.Stub(p); err != nil {
			return nil, err
		}
		if p, pkgs, err = load(); err != nil {
			return nil, err
		}
	}
	if err := problem(pkgs); err != nil {
		return nil, err
	}
	prog, roots := ssautil.AllPackages(pkgs, ssa.InstantiateGenerics)
	p.pkg = roots[0]
	for _, q := range prog.AllPackages() {
		if path := q.Pkg.Path(); path == "math" || path == "math/bits" {
			q.Build()
		}
	}
	p.pkg.Build()
	for _, q := range p.pkg.Pkg.Imports() {
		prog.Package(q).Build()
	}
	for _, k := range p.Kernels {
		k.fn = p.pkg.Func(k.Name)
	}
	p.written = writtenGlobals(p.pkg)
	return p, nil
}

// problem is why packages do not compile.
func problem(pkgs []*packages.Package) error {
	var errs []error
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			errs = append(errs, e)
		}
	})
	return errors.Join(errs...)
}

// find finds the kernels.
func (p *Program) find(files []*ast.File) error {
	for _, f := range files {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			d, found, err := findDirective(p.fset, fn)
			if err != nil {
				return err
			}
			if t, ok := p.Types.Scope().Lookup(fn.Name.Name).(*types.Func); found && ok {
				p.Kernels = append(p.Kernels, &Source{Directive: d, Name: fn.Name.Name, Doc: fn.Doc.Text(), Types: t})
			}
		}
	}
	return nil
}

// sizes are those of Go on the hosts that have CUDA, and of a GPU.
var sizes = types.SizesFor("gc", "amd64")
