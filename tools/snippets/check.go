package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// universe is what the snippets of a module can import.
type universe struct {
	packages map[string]*types.Package   // by path
	named    map[string][]*types.Package // by name, those that are meant first
}

// load loads the packages of a module and all that they import.
func load(folder string) (*universe, error) {
	found, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps,
		Dir:  folder, Env: append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off"),
	}, append([]string{"./..."}, imported...)...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	u := &universe{packages: map[string]*types.Package{}, named: map[string][]*types.Package{}}
	packages.Visit(found, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if slices.Contains(imported, p.PkgPath) {
				return
			}
			err = fmt.Errorf("%s: %w", p.PkgPath, e)
		}
		u.packages[p.PkgPath] = p.Types
		u.named[p.Name] = append(u.named[p.Name], p.Types)
	})
	for name, path := range aliases {
		if p := u.packages[path]; p != nil {
			u.named[name] = []*types.Package{p}
		}
	}
	for _, all := range u.named {
		slices.SortFunc(all, func(a, b *types.Package) int {
			return cmp.Or(rank(a.Path())-rank(b.Path()), len(a.Path())-len(b.Path()), strings.Compare(a.Path(), b.Path()))
		})
	}
	return u, err
}

// rank orders packages of the same name: ours, Go's, those of other modules, what is internal there.
func rank(path string) int {
	first, _, _ := strings.Cut(path, "/")
	switch {
	case strings.HasPrefix(path, root+"/contrib/"): // is imported under another name
		return 3
	case strings.HasPrefix(path, root):
		return 0
	case strings.Contains("/"+path+"/", "/internal/") || strings.HasPrefix(path, "vendor/"):
		return 3
	case !strings.Contains(first, "."):
		return 1
	}
	return 2
}

// Import implements [types.Importer].
func (u *universe) Import(path string) (*types.Package, error) {
	if p := u.packages[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("no package imports %s", path)
}

// compile returns what is wrong with a block.
func (u *universe) compile(s snippet) []string {
	place := fmt.Sprintf("//line %s:%d\n", s.file, s.line)
	if _, err := parser.ParseFile(token.NewFileSet(), "", s.code, parser.PackageClauseOnly); err == nil {
		return u.checkFile(place+s.code+"\n"+s.preamble, s.preamble != "")
	}
	// A preamble is at the line of its block.
	head := place + strings.ReplaceAll(s.preamble, "\n", "; ") + "\n"
	declarations := head + place + s.code
	if _, err := parse("package p\n" + declarations); err == nil {
		return u.checkFragment(declarations)
	}
	return u.checkFragment(head + "func _() error {\n" + place + s.code + "\nreturn nil\n}\n")
}

func parse(source string) (*ast.File, error) {
	return parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
}

// checkFragment compiles declarations with the variables and the imports that they lack.
func (u *universe) checkFragment(source string) []string {
	file, err := parse("package p\n" + source)
	if err != nil {
		return positions(err)
	}
	top := declared(file, true)
	clause := "package p; "
	for _, name := range slices.Sorted(maps.Keys(used(file))) {
		if of, ok := known[name]; ok && !top[name] {
			clause += "var " + name + " " + of + "; "
		}
	}
	// A second time, since the types of variables need imports as well.
	if file, err = parse(clause + "\n" + source); err != nil {
		return positions(err)
	}
	imports, variables := "", declared(file, false)
	for _, name := range slices.Sorted(maps.Keys(used(file))) {
		if all := u.named[name]; len(all) > 0 && !variables[name] {
			imports += fmt.Sprintf("import %s %q; ", name, all[0].Path())
		}
	}
	return u.checkFile(strings.Replace(clause, "; ", "; "+imports, 1)+"\n"+source, true)
}

// checkFile compiles a file. What a fragment does not use is no mistake.
func (u *universe) checkFile(source string, fragment bool) (problems []string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, parser.SkipObjectResolution)
	if err != nil {
		return positions(err)
	}
	config := types.Config{Importer: u, Error: func(err error) {
		if e, ok := errors.AsType[types.Error](err); ok && !(fragment && e.Soft) {
			at := set.Position(e.Pos)
			problems = append(problems, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, e.Msg))
		}
	}}
	_, _ = config.Check(file.Name.Name, set, []*ast.File{file}, nil) // Error has heard of it
	return problems
}

// positions returns the first syntax error, which is the one that helps.
func positions(err error) []string {
	if list, ok := errors.AsType[scanner.ErrorList](err); ok {
		return []string{fmt.Sprintf("%s:%d: %s", list[0].Pos.Filename, list[0].Pos.Line, list[0].Msg)}
	}
	return []string{err.Error()}
}

// used returns the names in a file, without members.
func used(file *ast.File) map[string]bool {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			ast.Inspect(n.X, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					names[id.Name] = true
				}
				return true
			})
			return true
		case *ast.Ident:
			names[n.Name] = true
		}
		return true
	})
	return names
}

// declared returns the names that a file declares: in the package, or all.
func declared(file *ast.File, top bool) map[string]bool {
	names := map[string]bool{}
	add := func(all ...*ast.Ident) {
		for _, id := range all {
			names[id.Name] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil {
				add(n.Name)
			}
			return !top
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.ValueSpec:
			add(n.Names...)
		case *ast.Field:
			add(n.Names...)
		case *ast.RangeStmt:
			for _, x := range []ast.Expr{n.Key, n.Value} {
				if id, ok := x.(*ast.Ident); ok {
					add(id)
				}
			}
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				if id, ok := x.(*ast.Ident); ok && n.Tok == token.DEFINE {
					add(id)
				}
			}
		}
		return true
	})
	return names
}

// lookUp returns the names in a piece of code that do not exist: functions of packages, and members
// of our types. Code that is no Go has none.
func (u *universe) lookUp(s snippet) (problems []string) {
	file, err := parse("package p\nfunc _() {\n" + s.code + "\n}")
	if err != nil {
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		e, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := e.X.(*ast.Ident)
		if ok && e.Sel.IsExported() && !u.exists(x.Name, e.Sel.Name) {
			problems = append(problems, fmt.Sprintf("%s:%d: there is no %s.%s", s.file, s.line, x.Name, e.Sel.Name))
		}
		return true
	})
	return problems
}

// exists reports whether a package, or a type of ours, has a member. What is neither of them has all.
func (u *universe) exists(name, member string) bool {
	if !ast.IsExported(name) {
		for _, p := range u.named[name] {
			if p.Scope().Lookup(member) != nil {
				return true
			}
		}
		return len(u.named[name]) == 0
	}
	none := true
	for path, p := range u.packages {
		object, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || rank(path) != 0 {
			continue
		}
		if found, _, _ := types.LookupFieldOrMethod(object.Type(), true, p, member); found != nil {
			return true
		}
		none = false
	}
	return none
}
