package generate

import (
	"fmt"
	"go/types"

	"github.com/purecuda/purecuda/gpuc/internal/compile"
)

// A kernel is compiled for the layout of its types. A type of another package can change, and nobody runs gpuc here. So the Go compiler
// compares what this package can write of a type. Where fields are hidden from it, Load compares the type.

// relied are the types that the kernels rely on: those that the Go compiler compares, and those that Load does.
func (w *writer) relied() (compared, hidden []types.Type) {
	seen := map[string]bool{}
	var add func(t types.Type)
	add = func(t types.Type) {
		if named, ok := types.Unalias(t).(*types.Named); ok {
			if compile.IsLibrary(named.Obj().Pkg()) { // it comes with what loads the kernels
				for a := range named.TypeArgs().Types() {
					add(a)
				}
				return
			}
			name := types.TypeString(named, nil)
			if seen[name] {
				return
			}
			seen[name] = true
			if !w.canWrite(named.Underlying()) {
				hidden = append(hidden, named)
				return
			}
			compared = append(compared, named)
		}
		switch u := t.Underlying().(type) {
		case *types.Struct:
			for f := range u.Fields() {
				add(f.Type())
			}
		case *types.Array:
			add(u.Elem())
		case *types.Slice:
			add(u.Elem())
		}
	}
	for _, k := range w.Kernels {
		if k.Of != nil {
			add(k.Of.Type)
			continue
		}
		for v := range k.Sig.Params().Variables() {
			add(v.Type())
		}
	}
	return compared, hidden
}

// canWrite reports whether the file can have the text of a type.
func (w *writer) canWrite(t types.Type) bool {
	own := func(p *types.Package) bool { return p == nil || p.Path() == w.Package.Path() }
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		if pkg := t.Obj().Pkg(); !own(pkg) && !(t.Obj().Exported() && w.Program.Imports(pkg)) {
			return false
		}
		for a := range t.TypeArgs().Types() {
			if !w.canWrite(a) {
				return false
			}
		}
		return true
	case *types.Struct:
		for f := range t.Fields() {
			if !f.Exported() && !own(f.Pkg()) || !w.canWrite(f.Type()) {
				return false
			}
		}
		return true
	case *types.Array:
		return w.canWrite(t.Elem())
	case *types.Slice:
		return w.canWrite(t.Elem())
	}
	_, ok := t.(*types.Basic)
	return ok
}

// layouts writes what the Go compiler compares.
func (w *writer) layouts(list []types.Type) {
	for i, t := range list {
		if i == 0 {
			w.printf("\n// The build fails here where a type is no longer what gpuc has compiled the kernels for. Then run go generate.\n")
		}
		u := t.Underlying()
		if s, ok := u.(*types.Struct); ok { // without tags
			var fields []*types.Var
			for f := range s.Fields() {
				fields = append(fields, f)
			}
			u = types.NewStruct(fields, nil)
		}
		w.printf("func _(runGoGenerate *%s) { _ = (*%s)(runGoGenerate) }\n", w.name(t), w.name(u))
	}
}

// layout is a type as package launch writes it.
func layout(t types.Type) string {
	switch u := t.Underlying().(type) {
	case *types.Struct:
		text := "struct{"
		for f := range u.Fields() {
			text += f.Name() + " " + layout(f.Type()) + ";"
		}
		return text + "}"
	case *types.Array:
		return fmt.Sprintf("[%d]%s", u.Len(), layout(u.Elem()))
	case *types.Basic:
		return types.Typ[u.Kind()].Name()
	}
	return "slice"
}
