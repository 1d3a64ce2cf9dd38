package compile

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
)

// Source is a kernel in a loaded package.
type Source struct {
	Directive
	Name string // in PTX and of the launch
	Call string // the expression that is the function: Scale[float32]
	Decl *ast.FuncDecl
	Sig  *types.Signature // with types in place of type parameters
	Of   *Instance        // that it belongs to; nil where it is a function of the package

	args   []types.Type // of the type parameters
	method *types.Func  // of Of
	fn     *ssa.Function
}

// Program is a loaded package.
type Program struct {
	Name       string // of the package
	Constraint string // of the files with kernels, as in a //go:build line; empty where they have none
	Types      *types.Package
	Info       *types.Info
	Kernels    []*Source // in the order of the source, and then those of the instances
	Instances  []*Instance
	pkg        *ssa.Package
	fset       *token.FileSet
	inits      map[*ssa.Global]map[int64]ssa.Value
	set        map[*ssa.Package]map[*ssa.Global]token.Pos // variables that are no constants, as far as somebody has asked
	rounded    map[*ssa.Function]map[token.Pos]bool
	unrolls    []*unrollLine
	decls      map[types.Object]ast.Decl // of the package, as far as somebody has asked
	files      map[string]string         // the name of a file for a profiler: with the path of its package

	source   source
	assembly map[string][]string // files, by the path of their package
	infos    map[*types.Package]*types.Info

	// Several kernels are compiled at once. They share what follows, and what is noted above of variables and functions.
	mu     sync.Mutex
	joined map[*ssa.Function]bool    // functions whose loops have one variable each
	ofPass map[*ssa.Alloc]bool       // variables that Go has anew in each pass of a loop
	effect map[*ssa.Function][]place // what functions write, as far as somebody has asked
	orders map[*ssa.Function]bool    // functions whose order was looked at
}

// Config says what to load.
type Config struct {
	Dir     string // where the pattern is seen from
	Pattern string // of one package, such as "."
	// Generated is the full name of a file that is generated, and so not read. Where the package needs what is in it,
	// Stub writes a file in its place, from the types of the kernels alone.
	Generated string
	Tags      string // build tags, with commas
	Stub      func(p *Program) ([]byte, error)
	Imports   []string // of that file
}

// Load loads a package and finds its kernels.
func Load(c Config) (*Program, error) {
	// The first load asks for names alone: the packages with functions that a kernel may call, and the name of the
	// package. That is needed, since a file with no package clause that fits would hide it.
	flags := []string{"-tags=" + c.Tags}
	if c.Tags == "" {
		flags = nil // those of GOFLAGS
	}
	names := func(overlay map[string][]byte) ([]*packages.Package, error) {
		return packages.Load(&packages.Config{Dir: c.Dir, BuildFlags: flags, Overlay: overlay, Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps}, c.Pattern)
	}
	graph, err := names(nil)
	if err != nil {
		return nil, err
	}
	for _, p := range graph {
		if err := leftOut(p, c.Dir); err != nil {
			return nil, err
		}
	}
	overlay := map[string][]byte{}
	if len(graph) == 1 && len(graph[0].GoFiles) > 0 {
		text, err := instanceText(graph[0])
		if err != nil {
			return nil, err
		}
		if text != nil { // the packages that it names are in no file that is there
			overlay[filepath.Join(filepath.Dir(graph[0].GoFiles[0]), instanceFile)] = text
			if graph, err = names(overlay); err != nil {
				if strings.Contains(err.Error(), "updates to go.mod needed") {
					// go mod tidy alone takes away again what no file imports.
					err = fmt.Errorf("no file of the module imports what //purecuda:instantiate needs: write `import _ \"github.com/purecuda/purecuda/kernels\"` "+
						"into one, and run `go mod tidy`: %w", err)
				}
				return nil, err
			}
		}
	}
	called := bodies(graph)
	files := &fileParser{fset: token.NewFileSet(), keep: map[string]bool{c.Generated: true}, parsed: map[string]*ast.File{}}
	packages.Visit(graph, nil, func(p *packages.Package) {
		for _, file := range p.GoFiles {
			files.keep[file] = called[p.PkgPath]
		}
	})
	if len(graph) == 1 && len(graph[0].GoFiles) > 0 && c.Generated != "" {
		text := "package " + graph[0].Name + "\n\n"
		for _, path := range c.Imports {
			text += fmt.Sprintf("import _ %q\n", path)
		}
		overlay[c.Generated] = []byte(text)
	}
	load := func() (*Program, []*packages.Package, error) {
		p := &Program{fset: files.fset, inits: map[*ssa.Global]map[int64]ssa.Value{}, set: map[*ssa.Package]map[*ssa.Global]token.Pos{}, rounded: map[*ssa.Function]map[token.Pos]bool{}}
		pkgs, err := packages.Load(&packages.Config{Dir: c.Dir, BuildFlags: flags, Fset: p.fset, Mode: packages.LoadAllSyntax | packages.NeedModule, Overlay: overlay, ParseFile: files.parse}, c.Pattern)
		if err != nil {
			return nil, nil, err
		}
		if len(pkgs) != 1 || pkgs[0].Types == nil || len(pkgs[0].GoFiles) == 0 {
			return nil, nil, fmt.Errorf("%s is not one package with Go files", c.Pattern)
		}
		p.Name, p.Types, p.Info = pkgs[0].Name, pkgs[0].Types, pkgs[0].TypesInfo
		p.sourceOf(pkgs[0], c.Generated)
		packages.Visit(pkgs, nil, func(pkg *packages.Package) {
			for _, f := range pkg.Syntax {
				if err == nil {
					err = misplaced(p.fset, f)
				}
			}
		})
		if err != nil {
			return nil, nil, err
		}
		if err := p.find(pkgs[0].Syntax); err != nil {
			return nil, nil, err
		}
		return p, pkgs, p.findInstances(pkgs[0])
	}
	p, pkgs, err := load()
	if err != nil {
		return nil, err
	}
	if problem(pkgs, called, c.Generated) != nil && c.Stub != nil && len(p.Kernels) > 0 {
		text, err := c.Stub(p)
		if err != nil {
			return nil, err
		}
		if f, err := parser.ParseFile(token.NewFileSet(), c.Generated, text, parser.SkipObjectResolution); err == nil {
			if err := p.clash(f); err != nil {
				return nil, err
			}
		}
		overlay[c.Generated] = text
		if p, pkgs, err = load(); err != nil {
			return nil, err
		}
		p.source.stub = true
	}
	if err := problem(pkgs, called, c.Generated); err != nil {
		return nil, err
	}
	if p.Constraint, err = p.constraint(pkgs[0].Syntax); err != nil {
		return nil, err
	}
	p.joined = map[*ssa.Function]bool{}
	p.infos, p.ofPass, p.effect, p.orders = map[*types.Package]*types.Info{}, map[*ssa.Alloc]bool{}, map[*ssa.Function][]place{}, map[*ssa.Function]bool{}
	p.files, p.assembly = map[string]string{}, map[string][]string{}
	packages.Visit(pkgs, nil, func(pkg *packages.Package) {
		p.infos[pkg.Types] = pkg.TypesInfo
		for _, f := range pkg.GoFiles {
			p.files[f] = pkg.PkgPath + "/" + filepath.Base(f)
		}
		for _, f := range pkg.OtherFiles {
			if strings.HasSuffix(strings.ToLower(f), ".s") {
				p.assembly[pkg.PkgPath] = append(p.assembly[pkg.PkgPath], f)
			}
		}
	})
	if err := p.findUnrolls(pkgs); err != nil {
		return nil, err
	}
	prog := program(p.fset, pkgs, called)
	p.pkg = prog.Package(p.Types)
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
		if k.Of != nil {
			k.fn = p.methodOf(k)
		} else {
			k.fn = p.function(k)
		}
	}
	return p, nil
}

// problem is why packages do not compile. What is wrong in the generated file follows from an error that the author sees, if there is one.
func problem(pkgs []*packages.Package, called map[string]bool, generated string) error {
	var errs, follow []error
	packages.Visit(pkgs, nil, func(p *packages.Package) {
		if !called[p.PkgPath] {
			return
		}
		for _, e := range p.Errors {
			if strings.HasPrefix(e.Pos, generated+":") {
				follow = append(follow, e)
			} else {
				errs = append(errs, e)
			}
		}
	})
	if len(errs) == 0 {
		errs = follow
	}
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
				p.instances(d, t, fn)
			}
		}
	}
	return nil
}

// sizes are Go's on the hosts that have CUDA, and a GPU's.
var sizes = types.SizesFor("gc", "amd64")
