package main

import (
	"fmt"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// writer collects the lines of one package.
type writer struct {
	prefix  string
	own     *types.Package
	lines   []string
	objects []types.Object // what each line declares
}

func (w *writer) add(o types.Object, format string, args ...any) {
	w.objects = append(w.objects, o)
	w.lines = append(w.lines, w.prefix+fmt.Sprintf(format, args...))
}

func (w *writer) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		w.add(o, "const %s %s = %s", o.Name(), w.text(o.Type()), o.Val().ExactString())
	case *types.Var:
		w.add(o, "var %s %s", o.Name(), w.text(o.Type()))
	case *types.Func:
		w.add(o, "func %s%s", o.Name(), w.signature(o.Signature()))
	case *types.TypeName:
		w.typeName(o)
	}
}

func (w *writer) typeName(o *types.TypeName) {
	if alias, ok := o.Type().(*types.Alias); ok {
		w.add(o, "type %s%s = %s", o.Name(), w.parameters(alias.TypeParams()), w.text(alias.Rhs()))
		return
	}
	named := o.Type().(*types.Named)
	name := o.Name() + w.parameters(named.TypeParams())
	switch t := named.Underlying().(type) {
	case *types.Struct:
		w.add(o, "type %s struct", name)
		w.fields(o.Name(), t)
	case *types.Interface:
		w.add(o, "type %s interface", name)
		w.interfaceMethods(o, t)
		return
	default:
		w.add(o, "type %s %s", name, w.text(t))
	}
	for _, s := range typeutil.IntuitiveMethodSet(named, nil) {
		m := s.Obj().(*types.Func)
		if !m.Exported() || len(s.Index()) > 1 && listed(named, s.Index()[0]) {
			continue
		}
		receiver := o.Name()
		if _, ok := s.Recv().(*types.Pointer); ok {
			receiver = "*" + receiver
		}
		w.add(m, "method (%s) %s%s", receiver, m.Name(), w.signature(s.Type().(*types.Signature)))
	}
}

// listed reports whether a field of a struct is embedded and of an exported type of this project: its methods are listed with that type.
func listed(of *types.Named, field int) bool {
	f := of.Underlying().(*types.Struct).Field(field)
	t, ok := types.Unalias(f.Type()).(*types.Named)
	return ok && f.Exported() && t.Obj().Pkg() != nil && strings.HasPrefix(t.Obj().Pkg().Path(), root)
}

// fields lists the fields that can be named, also of an embedded struct that cannot be.
func (w *writer) fields(of string, s *types.Struct) {
	for i := range s.NumFields() {
		f := s.Field(i)
		embedded, isStruct := f.Type().Underlying().(*types.Struct)
		switch {
		case f.Exported() && f.Embedded():
			w.add(f, "type %s struct, embedded %s", of, w.text(f.Type()))
		case f.Exported():
			w.add(f, "type %s struct, %s %s%s", of, f.Name(), w.text(f.Type()), tag(s.Tag(i)))
		case f.Embedded() && isStruct:
			w.fields(of, embedded)
		}
	}
}

// tag is the tag of a field, which others see through encoding/json and its kin.
func tag(t string) string {
	if t == "" {
		return ""
	}
	return fmt.Sprintf(" %q", t)
}

func (w *writer) interfaceMethods(o *types.TypeName, t *types.Interface) {
	sealed := false
	for m := range t.Methods() {
		if m.Exported() {
			w.add(m, "type %s interface, %s%s", o.Name(), m.Name(), w.signature(m.Signature()))
		} else {
			sealed = true
		}
	}
	if sealed {
		w.add(o, "type %s interface, unexported methods", o.Name())
	}
	for e := range t.EmbeddedTypes() {
		if _, isInterface := e.Underlying().(*types.Interface); !isInterface {
			w.add(o, "type %s interface, %s", o.Name(), w.text(e))
		}
	}
}

// parameters of a type or a function, in brackets.
func (w *writer) parameters(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var texts []string
	for p := range list.TypeParams() {
		texts = append(texts, p.Obj().Name()+" "+w.text(p.Constraint()))
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// signature of a function without the names of its parameters: nobody depends on
// them.
func (w *writer) signature(s *types.Signature) string {
	text := w.parameters(s.TypeParams()) + "(" + w.tuple(s.Params(), s.Variadic()) + ")"
	switch s.Results().Len() {
	case 0:
		return text
	case 1:
		return text + " " + w.tuple(s.Results(), false)
	}
	return text + " (" + w.tuple(s.Results(), false) + ")"
}

func (w *writer) tuple(t *types.Tuple, variadic bool) string {
	var texts []string
	for i := range t.Len() {
		text := w.text(t.At(i).Type())
		if variadic && i == t.Len()-1 {
			text = "..." + strings.TrimPrefix(text, "[]")
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// text of a type, with the package's name if it is another one.
func (w *writer) text(t types.Type) string {
	switch t := t.(type) { // where the type of a function can lie
	case *types.Signature:
		return "func" + w.signature(t)
	case *types.Pointer:
		return "*" + w.text(t.Elem())
	case *types.Slice:
		return "[]" + w.text(t.Elem())
	case *types.Map:
		return "map[" + w.text(t.Key()) + "]" + w.text(t.Elem())
	}
	return types.TypeString(t, func(p *types.Package) string {
		if p == w.own {
			return ""
		}
		return strings.TrimPrefix(strings.TrimPrefix(p.Path(), root), "/")
	})
}
