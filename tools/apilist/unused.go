package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// usage is what the packages of some modules declare and use. Its keys are lines and names of the source: they are the same in
// export data, for each module that is loaded, and for all instances of what is generic.
type usage struct {
	declared map[string]*declaration
	used     map[string]bool
	behind   map[string][]string // by a method of an interface, those that implement it
	fset     *token.FileSet
}

// declaration is a line of the listing.
type declaration struct {
	line, name string
	constant   bool
	shows      []string // the keys of the types that it mentions
}

// listUnused returns the lines of the listing that nobody needs. No other package of the modules uses what they declare, its
// tests included, no example has it, and no document names it in its code. Some uses cannot be seen in the source:
//
//   - a method of an interface is used through the interface, and Unwrap by package errors,
//   - a field with a tag is used by encoders,
//   - a type is used by who uses what shows it,
//   - a constant belongs to the others of its type.
func listUnused(folders []string) ([]string, error) {
	u := &usage{declared: map[string]*declaration{}, used: map[string]bool{}, behind: map[string][]string{}}
	words := map[string]bool{}
	for _, folder := range folders {
		u.fset = token.NewFileSet()
		found, err := packages.Load(&packages.Config{
			Mode: packages.NeedName | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedSyntax | packages.NeedImports,
			Dir:  folder, Fset: u.fset, Tests: true, Env: append(os.Environ(), platform...),
		}, "./...")
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			u.take(p)
		}
		all := interfaces(found)
		for _, p := range found {
			u.implemented(p.Types, all)
		}
		if err := documentWords(folder, words); err != nil {
			return nil, err
		}
	}
	u.named(words)
	u.shown()
	var lines []string
	for key, d := range u.declared {
		if !u.used[key] {
			lines = append(lines, d.line)
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// key has no column: export data has none.
func (u *usage) key(o types.Object) string {
	at := u.fset.Position(o.Pos())
	return fmt.Sprintf("%s:%d %s", at.Filename, at.Line, o.Name())
}

// take adds what a package declares, and what it uses of others.
func (u *usage) take(p *packages.Package) {
	if p.Name != "main" && !hidden(p.PkgPath) && !strings.HasSuffix(p.ID, "]") && !strings.HasSuffix(p.ID, ".test") {
		lines, objects := listPackage(p.Types)
		for i, o := range objects {
			_, constant := o.(*types.Const)
			key := u.key(o)
			v, _ := o.(*types.Var)
			if o.Name() == "Unwrap" || v != nil && v.IsField() && strings.HasSuffix(lines[i], `"`) { // it has a tag
				u.used[key] = true
			}
			if u.declared[key] == nil {
				u.declared[key] = &declaration{line: lines[i], name: o.Name(), constant: constant, shows: u.shows(o)}
			}
		}
	}
	own := strings.TrimSuffix(p.PkgPath, "_test")
	for _, file := range p.Syntax {
		examples := strings.HasPrefix(filepath.Base(u.fset.Position(file.Pos()).Filename), "example_")
		for _, top := range file.Decls {
			f, isFunction := top.(*ast.FuncDecl)
			example := examples || isFunction && strings.HasPrefix(f.Name.Name, "Example")
			ast.Inspect(top, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.Ident:
					u.use(p.TypesInfo.Uses[n], own, example)
				case *ast.CompositeLit: // names no fields, perhaps
					if t, ok := p.TypesInfo.TypeOf(n).Underlying().(*types.Struct); ok && len(n.Elts) > 0 {
						if _, keyed := n.Elts[0].(*ast.KeyValueExpr); !keyed {
							for f := range t.Fields() {
								u.use(f, own, example)
							}
						}
					}
				}
				return true
			})
		}
	}
}

func (u *usage) use(o types.Object, own string, example bool) {
	if o != nil && o.Pkg() != nil && (o.Pkg().Path() != own || example) {
		u.used[u.key(o)] = true
	}
}

// implemented notes what implements the interfaces of a package: a use of a method of an interface is a use of the methods behind it.
// An interface that is not ours, or that another package implements, is used.
func (u *usage) implemented(p *types.Package, all []*types.TypeName) {
	for _, i := range all {
		t := i.Type().Underlying().(*types.Interface)
		for _, name := range p.Scope().Names() {
			o, ok := p.Scope().Lookup(name).(*types.TypeName)
			if !ok || types.IsInterface(o.Type()) {
				continue
			}
			pointer := types.NewPointer(o.Type())
			if !types.Implements(pointer, t) {
				continue
			}
			for m := range t.Methods() {
				method, _, _ := types.LookupFieldOrMethod(pointer, false, m.Pkg(), m.Name())
				u.behind[u.key(m)] = append(u.behind[u.key(m)], u.key(method))
				if i.Pkg() != p {
					u.used[u.key(m)], u.used[u.key(i)] = true, true
				}
			}
		}
	}
}

// interfaces returns those with methods in the packages and in what they import.
func interfaces(all []*packages.Package) []*types.TypeName {
	from := map[*types.Package]bool{}
	for _, p := range all {
		from[p.Types] = true
		for _, i := range p.Types.Imports() {
			from[i] = true
		}
	}
	list := []*types.TypeName{types.Universe.Lookup("error").(*types.TypeName)}
	for p := range from {
		for _, name := range p.Scope().Names() {
			o, _ := p.Scope().Lookup(name).(*types.TypeName)
			if o == nil || !types.IsInterface(o.Type()) {
				continue
			}
			if named, ok := o.Type().(*types.Named); ok && named.TypeParams() == nil {
				if t := named.Underlying().(*types.Interface); t.NumMethods() > 0 && t.IsMethodSet() {
					list = append(list, o)
				}
			}
		}
	}
	return list
}

var (
	codeBlock = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")
	word      = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// documentWords adds the words of the code in the documents below a folder.
func documentWords(folder string, words map[string]bool) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() == "CHANGELOG.md" || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		for _, code := range codeBlock.FindAll(text, -1) {
			for _, w := range word.FindAll(code, -1) {
				words[string(w)] = true
			}
		}
		return err
	})
}

func (u *usage) named(words map[string]bool) {
	for key, d := range u.declared {
		if words[d.name] {
			u.used[key] = true
		}
	}
}

// shown marks what goes with what is used: the types that it shows, the methods behind an interface's, and the constants of types.
func (u *usage) shown() {
	for key, d := range u.declared {
		if d.constant && len(d.shows) > 0 {
			u.behind[d.shows[0]] = append(u.behind[d.shows[0]], key)
		}
	}
	pending := slices.Collect(maps.Keys(u.used))
	for len(pending) > 0 {
		key := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		next := slices.Clone(u.behind[key])
		if d := u.declared[key]; d != nil {
			next = append(next, d.shows...)
		}
		for _, k := range next {
			if !u.used[k] {
				u.used[k] = true
				pending = append(pending, k)
			}
		}
	}
}

// shows returns the keys of the types that a declaration mentions.
func (u *usage) shows(o types.Object) []string {
	t := o.Type()
	if name, ok := o.(*types.TypeName); ok {
		t = t.Underlying()
		if alias, ok := name.Type().(*types.Alias); ok {
			t = alias.Rhs()
		}
		if _, ok := t.(*types.Struct); ok { // its fields are declarations
			return nil
		}
	}
	return u.typeKeys(nil, t)
}

func (u *usage) typeKeys(keys []string, t types.Type) []string {
	list := func(all *types.TypeList) {
		for a := range all.Types() {
			keys = u.typeKeys(keys, a)
		}
	}
	switch t := t.(type) {
	case *types.Alias:
		keys = append(keys, u.key(t.Obj()))
		list(t.TypeArgs())
		keys = u.typeKeys(keys, t.Rhs())
	case *types.Named:
		keys = append(keys, u.key(t.Obj()))
		list(t.TypeArgs())
	case *types.Map:
		return u.typeKeys(u.typeKeys(keys, t.Key()), t.Elem())
	case interface{ Elem() types.Type }:
		return u.typeKeys(keys, t.Elem())
	case *types.Signature:
		for p := range t.TypeParams().TypeParams() {
			keys = u.typeKeys(keys, p.Constraint())
		}
		for v := range t.Params().Variables() {
			keys = u.typeKeys(keys, v.Type())
		}
		for v := range t.Results().Variables() {
			keys = u.typeKeys(keys, v.Type())
		}
	case *types.Struct:
		for f := range t.Fields() {
			keys = u.typeKeys(keys, f.Type())
		}
	case *types.Interface:
		for m := range t.Methods() {
			keys = u.typeKeys(keys, m.Signature())
		}
	}
	return keys
}
