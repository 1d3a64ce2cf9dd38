package loops

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// class says of what a value depends: on the block, on the index of the thread too, or on anything.
type class uint8

const (
	uniform class = iota
	index
	varying
)

// variable is a parameter or a variable of the kernel.
type variable struct {
	obj      types.Object
	class    class
	param    bool
	assigned int        // how often
	values   []ast.Expr // what is assigned
	inThread bool       // some of it by statements that each thread runs
	opaque   bool       // something else than a value is assigned: one of several results, a field
	address  bool       // its address is taken
	region   int        // where it is declared, -1 elsewhere
	array    string     // its name, where it lives across a barrier
}

// classify finds the classes of all variables.
func (c *cutter) classify() {
	for _, f := range c.Decl.Type.Params.List {
		for _, n := range f.Names {
			if o := c.Info.Defs[n]; o != nil {
				c.vars[o] = &variable{obj: o, param: true, region: -1}
			}
		}
	}
	c.assignments(c.Decl.Body.List)
	for _, v := range c.vars {
		if v.inThread || v.opaque || v.address {
			v.class = varying
		}
	}
	for again := true; again; {
		again = false
		for _, v := range c.vars {
			if worse := c.worse(v); worse > v.class {
				v.class, again = worse, true
			}
		}
	}
}

// worse is the class of a variable after what its values are.
func (c *cutter) worse(v *variable) class {
	most, fixed := v.class, true
	for _, e := range v.values {
		most, fixed = max(most, c.class(e)), fixed && c.fixed(e)
	}
	if most == index && (v.assigned > 1 || v.param || !fixed) {
		return varying
	}
	return most
}

// fixed reports whether all variables of an expression keep their value.
func (c *cutter) fixed(e ast.Expr) bool {
	fixed := true
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if v := c.vars[c.Info.Uses[id]]; v != nil && (v.assigned > 1 || v.param && v.assigned > 0) {
				fixed = false
			}
		}
		return fixed
	})
	return fixed
}

// assignments notes what a list of the block assigns.
func (c *cutter) assignments(list []ast.Stmt) {
	for _, s := range list {
		if !c.ofBlock[s] {
			c.assigns(s)
			continue
		}
		switch s := s.(type) {
		case *ast.BlockStmt:
			c.assignments(s.List)
		case *ast.IfStmt:
			c.assigns(s.Init)
			c.addresses(s.Cond)
			c.assignments(s.Body.List)
			if s.Else != nil {
				c.ofBlock[s.Else] = true
				c.assignments([]ast.Stmt{s.Else})
			}
		case *ast.ForStmt:
			c.assigns(s.Init)
			c.assigns(s.Post)
			c.assignments(s.Body.List)
		case *ast.RangeStmt:
			c.ranged(s, true)
			c.assignments(s.Body.List)
		}
	}
}

// assigns notes what a statement assigns. The statements within it are run by each thread.
func (c *cutter) assigns(s ast.Stmt) {
	if s == nil {
		return
	}
	ast.Inspect(s, func(n ast.Node) bool {
		simple := n == ast.Node(s)
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				var value ast.Expr
				if len(n.Rhs) == len(n.Lhs) {
					value = n.Rhs[i]
				}
				c.assign(l, value, simple)
			}
		case *ast.IncDecStmt:
			c.assign(n.X, n.X, simple)
		case *ast.DeclStmt:
			c.declares(n, simple)
		case *ast.RangeStmt:
			c.ranged(n, false)
		}
		return true
	})
	c.addresses(s)
}

// declares notes what a declaration assigns.
func (c *cutter) declares(s *ast.DeclStmt, simple bool) {
	for _, spec := range s.Decl.(*ast.GenDecl).Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			if c.barriers > 0 {
				c.fail(spec.Pos(), "a type within the function, with barriers")
			}
			continue
		}
		for i, n := range v.Names {
			switch {
			case len(v.Values) == len(v.Names):
				c.assign(n, v.Values[i], simple)
			case len(v.Values) == 0:
				c.assign(n, n, simple) // zero
			default:
				c.assign(n, nil, simple)
			}
		}
	}
}

// ranged notes the variables of a range.
func (c *cutter) ranged(s *ast.RangeStmt, simple bool) {
	if s.Key != nil {
		c.assign(s.Key, s.X, simple)
	}
	if s.Value != nil {
		c.assign(s.Value, nil, simple)
	}
}

// assign notes that a value is assigned to a variable, or to a part of one.
func (c *cutter) assign(to, value ast.Expr, simple bool) {
	id, whole := ast.Unparen(to).(*ast.Ident)
	if !whole {
		id = c.root(to)
	}
	v := c.variable(id)
	if v == nil {
		return
	}
	v.assigned++
	v.inThread = v.inThread || !simple
	if value == nil || !whole {
		v.opaque = true
	} else if value != to {
		v.values = append(v.values, value)
	}
}

// variable is the variable of a name.
func (c *cutter) variable(id *ast.Ident) *variable {
	if id == nil || id.Name == "_" {
		return nil
	}
	o := c.Info.Defs[id]
	if o != nil && c.vars[o] == nil {
		if _, ok := o.(*types.Var); !ok {
			return nil
		}
		c.vars[o] = &variable{obj: o, region: -1}
	}
	if o == nil {
		o = c.Info.Uses[id]
	}
	return c.vars[o]
}

// root is the variable that an expression is a part of, and nil where a pointer or a slice leads elsewhere.
func (c *cutter) root(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.ParenExpr:
		return c.root(e.X)
	case *ast.SelectorExpr:
		if t := c.Info.TypeOf(e.X); t != nil && !isPointer(t) {
			return c.root(e.X)
		}
	case *ast.IndexExpr:
		if _, ok := c.Info.TypeOf(e.X).Underlying().(*types.Array); ok {
			return c.root(e.X)
		}
	}
	return nil
}

// addresses notes the variables whose address is taken.
func (c *cutter) addresses(n ast.Node) {
	if n == nil {
		return
	}
	take := func(e ast.Expr) {
		if v := c.variable(c.root(e)); v != nil {
			v.address = true
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				take(n.X)
			}
		case *ast.SliceExpr:
			if _, ok := c.Info.TypeOf(n.X).Underlying().(*types.Array); ok {
				take(n.X)
			}
		case *ast.SelectorExpr:
			if s := c.Info.Selections[n]; s != nil && s.Kind() == types.MethodVal {
				if isPointer(s.Obj().Type().(*types.Signature).Recv().Type()) && !isPointer(c.Info.TypeOf(n.X)) {
					take(n.X)
				}
			}
		}
		return true
	})
}

// class is the class of an expression.
func (c *cutter) class(e ast.Expr) class {
	if tv := c.Info.Types[e]; tv.Value != nil || tv.IsType() || tv.IsNil() {
		return uniform
	}
	switch e := e.(type) {
	case nil:
		return uniform
	case *ast.Ident:
		if v := c.vars[c.Info.Uses[e]]; v != nil {
			return v.class
		}
	case *ast.ParenExpr:
		return c.class(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			return c.place(e.X)
		}
		return c.class(e.X)
	case *ast.BinaryExpr:
		return max(c.class(e.X), c.class(e.Y))
	case *ast.SelectorExpr:
		if t := c.Info.TypeOf(e.X); t != nil {
			if _, ok := t.Underlying().(*types.Struct); ok {
				return c.class(e.X)
			}
		}
	case *ast.IndexExpr:
		if _, ok := c.Info.TypeOf(e.X).Underlying().(*types.Array); ok {
			return max(c.class(e.X), c.class(e.Index))
		}
	case *ast.SliceExpr:
		if _, ok := c.Info.TypeOf(e.X).Underlying().(*types.Array); !ok {
			return max(c.class(e.X), c.optional(e.Low), c.optional(e.High), c.optional(e.Max))
		}
	case *ast.CallExpr:
		return c.result(e)
	}
	return varying
}

func (c *cutter) optional(e ast.Expr) class {
	if e == nil {
		return uniform
	}
	return c.class(e)
}

// place is the class of the address of an element, which does not depend on what is there.
func (c *cutter) place(e ast.Expr) class {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return c.place(e.X)
	case *ast.IndexExpr:
		if _, ok := c.Info.TypeOf(e.X).Underlying().(*types.Array); ok {
			return max(c.place(e.X), c.class(e.Index))
		}
		return max(c.class(e.X), c.class(e.Index))
	case *ast.SelectorExpr:
		if isPointer(c.Info.TypeOf(e.X)) {
			return c.class(e.X)
		}
		return c.place(e.X)
	}
	return varying
}

// result is the class of what a call gives.
func (c *cutter) result(call *ast.CallExpr) class {
	most := uniform
	for _, a := range call.Args {
		if !c.isThread(a) {
			most = max(most, c.class(a))
		}
	}
	if c.Info.Types[call.Fun].IsType() { // a conversion
		if _, ok := c.Info.TypeOf(call).Underlying().(*types.Array); ok && len(call.Args) == 1 {
			if _, ok := c.Info.TypeOf(call.Args[0]).Underlying().(*types.Slice); ok {
				return varying // what is in memory
			}
		}
		return most
	}
	if m := c.method(call); m != "" {
		if strings.HasPrefix(m, "Block") || strings.HasPrefix(m, "Grid") || strings.HasPrefix(m, "GlobalDim") {
			return uniform
		}
		if m == "Clock" || m == "GlobalTimer" {
			return varying
		}
		return index
	}
	switch f := typeutil.Callee(c.Info, call).(type) {
	case *types.Builtin:
		switch f.Name() {
		case "len", "cap", "min", "max":
			return most
		}
	case *types.Func:
		switch path := f.Pkg().Path(); {
		case path == "math", path == "math/bits", path == gpuPackage && !takesPointer(f):
			if f.Name() == "LaneMaskBelow" {
				return index
			}
			return most
		}
	}
	return varying
}

// takesPointer reports whether a function of package gpu reads memory: what is there can differ from thread to thread.
func takesPointer(f *types.Func) bool {
	p := f.Signature().Params()
	if p.Len() == 0 || !isPointer(p.At(0).Type()) {
		return false
	}
	n, ok := p.At(0).Type().Underlying().(*types.Pointer).Elem().(*types.Named)
	return !ok || n.Obj().Name() != "Thread"
}

func isPointer(t types.Type) bool {
	_, ok := t.Underlying().(*types.Pointer)
	return ok
}
