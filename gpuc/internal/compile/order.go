package compile

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// Go says in which order the calls of a statement are made, and leaves open whether a variable is read before a call
// that stands behind it. In a[i] + inc(&i), Go's compiler calls inc first, and go/ssa reads i first. So a kernel has no
// such statement, where the call may set what is read. A read that an earlier call takes as an argument comes before
// later calls, and so does one in a condition of && or ||.

// place is something in memory that is read or written.
type place struct {
	kind  placeKind
	field string   // its name, of a field
	t     []string // the kinds of numbers, pointers and slices in it; nil where they can be any
	whole bool     // one number, pointer or slice
	expr  ast.Expr // of what is read
}

type placeKind uint8

const (
	somewhere placeKind = iota // behind a pointer
	aField
	anElement
	aVariable
)

// overlaps reports whether two places may be one. Pointers convert where the types below them are the same, so kinds
// of numbers count, and not types.
func (w place) overlaps(r place) bool {
	if w.whole && r.whole && w.kind != somewhere && r.kind != somewhere && (w.kind != r.kind || w.kind == aField && w.field != r.field) {
		return false
	}
	if w.t == nil || r.t == nil {
		return true
	}
	for _, a := range w.t {
		for _, b := range r.t {
			if a == b {
				return true
			}
		}
	}
	return false
}

// kinds lists what a type consists of; known is false where it has type parameters.
func kinds(t types.Type, out []string) (_ []string, known bool) {
	switch u := types.Unalias(t).(type) {
	case *types.TypeParam:
		return nil, false
	case *types.Named:
		t = u.Underlying()
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return append(out, u.Name()), true
	case *types.Array:
		return kinds(u.Elem(), out)
	case *types.Struct:
		known = true
		for f := range u.Fields() {
			if known {
				out, known = kinds(f.Type(), out)
			}
		}
		return out, known
	case *types.Slice:
		return append(out, "slice"), true
	case *types.Pointer:
		return append(out, "pointer"), true
	}
	return nil, false
}

func (p place) of(t types.Type) place {
	list, known := kinds(t, []string{})
	if p.t = list; !known {
		p.t = nil
	}
	switch t.Underlying().(type) {
	case *types.Basic, *types.Slice, *types.Pointer:
		p.whole = known
	}
	return p
}

// placeOf is what an address leads to.
func placeOf(addr ssa.Value) place {
	t := elem(addr.Type())
	switch a := addr.(type) {
	case *ssa.FieldAddr:
		return place{kind: aField, field: elem(a.X.Type()).Underlying().(*types.Struct).Field(a.Field).Name()}.of(t)
	case *ssa.IndexAddr:
		return place{kind: anElement}.of(t)
	}
	return place{}.of(t)
}

// local reports whether an address is in a variable of its function.
func local(addr ssa.Value) bool {
	for {
		switch a := addr.(type) {
		case *ssa.FieldAddr:
			addr = a.X
		case *ssa.IndexAddr:
			addr = a.X
		case *ssa.Alloc:
			return true
		default:
			return false
		}
	}
}

// effects are what a function may write that its callers can see.
func (p *Program) effects(fn *ssa.Function) []place {
	if list, ok := p.effect[fn]; ok {
		return list
	}
	var list []place
	seen := map[*ssa.Function]bool{}
	var collect func(fn *ssa.Function)
	collect = func(fn *ssa.Function) {
		if seen[fn] {
			return
		}
		seen[fn] = true
		for _, b := range fn.Blocks {
			for _, in := range b.Instrs {
				switch in := in.(type) {
				case *ssa.Store:
					if !local(in.Addr) {
						list = append(list, placeOf(in.Addr))
					}
				case *ssa.Call:
					places, callee := p.effectOf(in)
					list = append(list, places...)
					if callee != nil {
						collect(callee)
					}
				}
			}
		}
	}
	collect(fn)
	p.effect[fn] = list
	return list
}

// effectOf is what a call writes by itself, and the function that it calls, if that has to be looked at.
func (p *Program) effectOf(in *ssa.Call) (list []place, callee *ssa.Function) {
	if b, ok := in.Call.Value.(*ssa.Builtin); ok {
		if s, ok := in.Call.Args[0].Type().Underlying().(*types.Slice); ok && (b.Name() == "copy" || b.Name() == "clear") {
			return []place{place{kind: anElement}.of(s.Elem())}, nil
		}
		return nil, nil
	}
	fn := in.Call.StaticCallee()
	if fn == nil {
		return []place{{}}, nil
	}
	o := fn
	if fn.Origin() != nil {
		o = fn.Origin()
	}
	path := ""
	if o.Pkg != nil {
		path = o.Pkg.Pkg.Path()
	}
	switch {
	case path == "math", path == "math/bits":
		return nil, nil
	case path == gpuPackage && (strings.HasPrefix(o.Name(), "Atomic") || o.Name() == "StoreStreaming"):
		return []place{placeOf(in.Call.Args[0])}, nil
	case path == gpuPackage && (strings.HasSuffix(o.Name(), "Barrier") || o.Name() == "Fence" || o.Name() == "Nanosleep"): // what other threads have written
		return []place{{}}, nil
	case path == gpuPackage:
		return nil, nil
	}
	if len(fn.Blocks) == 0 && o.Pkg != nil {
		o.Pkg.Build()
	}
	return nil, fn
}

// order goes over the statements of one function.
type order struct {
	k       *kctx
	info    *types.Info
	calls   map[token.Pos]*ssa.Call
	shared  map[token.Pos]bool // variables whose address goes elsewhere, by where they are declared
	pending []place            // what the statement has read, and no call has taken
}

// ordered rejects a function whose result depends on an order that Go leaves open.
func (k *kctx) ordered(fn *ssa.Function) {
	if k.p.orders[fn] {
		return
	}
	top, source := fn, fn
	if source.Origin() != nil {
		source = source.Origin()
	}
	for top.Parent() != nil {
		top = top.Parent()
	}
	if top.Origin() != nil {
		top = top.Origin()
	}
	var body *ast.BlockStmt
	switch s := source.Syntax().(type) {
	case *ast.FuncDecl:
		body = s.Body
	case *ast.FuncLit:
		body = s.Body
	}
	if body == nil || top.Pkg == nil || k.p.infos[top.Pkg.Pkg] == nil {
		return
	}
	o := &order{k: k, info: k.p.infos[top.Pkg.Pkg], calls: map[token.Pos]*ssa.Call{}, shared: map[token.Pos]bool{}}
	for _, b := range fn.Blocks {
		for _, in := range b.Instrs {
			switch in := in.(type) {
			case *ssa.Call:
				o.calls[in.Common().Pos()] = in
			case *ssa.Alloc:
				if escapes(in) {
					o.shared[in.Pos()] = true
				}
			}
		}
	}
	ast.Inspect(body, o.statement)
	k.p.orders[fn] = true
}

// escapes reports whether an address goes further than to loads and stores.
func escapes(addr ssa.Value) bool {
	for _, r := range *addr.Referrers() {
		switch r := r.(type) {
		case *ssa.UnOp, *ssa.DebugRef:
		case *ssa.Store:
			if r.Val == addr {
				return true
			}
		case *ssa.FieldAddr, *ssa.IndexAddr:
			if escapes(r.(ssa.Value)) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// statement looks at the expressions of one statement. Those in it come later.
func (o *order) statement(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		return false // a function of its own
	case *ast.ExprStmt:
		o.together(nil, n.X)
	case *ast.AssignStmt:
		o.together(n.Lhs, n.Rhs...)
	case *ast.IncDecStmt:
		o.together([]ast.Expr{n.X})
	case *ast.ReturnStmt:
		o.together(nil, n.Results...)
	case *ast.IfStmt:
		o.together(nil, n.Cond)
	case *ast.ForStmt:
		o.together(nil, n.Cond)
	case *ast.RangeStmt:
		o.together(nil, n.X)
		if n.Tok == token.ASSIGN {
			o.together([]ast.Expr{n.Key, n.Value})
		}
	case *ast.SwitchStmt:
		o.together(nil, n.Tag)
	case *ast.CaseClause:
		for _, e := range n.List {
			o.together(nil, e)
		}
	case *ast.ValueSpec:
		o.together(nil, n.Values...)
	}
	return true
}

// together goes over expressions that are computed together, and over what is assigned to.
func (o *order) together(to []ast.Expr, list ...ast.Expr) {
	o.pending = nil
	for _, e := range to {
		o.address(e)
	}
	for _, e := range list {
		o.value(e)
	}
}

// address goes over what the address of an expression needs.
func (o *order) address(e ast.Expr) {
	switch e := e.(type) {
	case nil, *ast.Ident:
	case *ast.ParenExpr:
		o.address(e.X)
	case *ast.SelectorExpr:
		if o.pointer(e.X) {
			o.value(e.X)
		} else {
			o.address(e.X)
		}
	case *ast.IndexExpr:
		if o.array(e.X) {
			o.address(e.X)
		} else {
			o.value(e.X)
		}
		o.value(e.Index)
	case *ast.StarExpr:
		o.value(e.X)
	default:
		o.value(e)
	}
}

// value goes over an expression in the order in which go/ssa computes it.
func (o *order) value(e ast.Expr) {
	if e == nil || o.info.Types[e].Value != nil || o.info.Types[e].IsType() {
		return
	}
	switch e := e.(type) {
	case *ast.Ident:
		o.reads(e)
	case *ast.ParenExpr:
		o.value(e.X)
	case *ast.UnaryExpr:
		if e.Op == token.AND {
			o.address(ast.Unparen(e.X))
		} else {
			o.value(e.X)
		}
	case *ast.BinaryExpr:
		if e.Op != token.LAND && e.Op != token.LOR {
			o.value(e.X)
			o.value(e.Y)
			return
		}
		mark := len(o.pending)
		for _, x := range []ast.Expr{e.X, e.Y} {
			o.value(x)
			o.pending = o.pending[:mark] // the condition has it
		}
	case *ast.StarExpr:
		o.value(e.X)
		o.reads(e)
	case *ast.SelectorExpr:
		s := o.info.Selections[e]
		if s == nil { // of a package
			return
		}
		if s.Kind() != types.FieldVal || o.pointer(e.X) || !o.info.Types[e.X].Addressable() {
			o.value(e.X)
		} else {
			o.address(e.X)
		}
		if s.Kind() == types.FieldVal && (s.Indirect() || o.info.Types[e.X].Addressable()) {
			o.reads(e)
		}
	case *ast.IndexExpr:
		if !o.array(e.X) {
			if _, ok := o.info.TypeOf(e.X).Underlying().(*types.Signature); ok {
				return // with type arguments
			}
			o.value(e.X)
			o.value(e.Index)
			o.reads(e)
			return
		}
		if x, y := o.call(e.X), o.call(e.Index); x != nil && y != nil { // go/ssa computes the index first
			o.k.fail(y.Pos(), "%s and %s are called in the array and in its index: call one of them in a statement before", types.ExprString(x.Fun), types.ExprString(y.Fun))
		}
		o.value(e.Index)
		if o.info.Types[e.X].Addressable() {
			o.address(e.X)
			o.reads(e)
		} else {
			o.value(e.X)
		}
	case *ast.SliceExpr:
		if o.array(e.X) {
			o.address(e.X)
		} else {
			o.value(e.X)
		}
		o.value(e.Low)
		o.value(e.High)
		o.value(e.Max)
	case *ast.CompositeLit:
		for _, v := range e.Elts {
			if kv, ok := v.(*ast.KeyValueExpr); ok {
				v = kv.Value
			}
			o.value(v)
		}
	case *ast.TypeAssertExpr:
		o.value(e.X)
	case *ast.CallExpr:
		o.called(e)
	}
}

// called goes over a call or a conversion, and compares what the call writes with what was read before it.
func (o *order) called(e *ast.CallExpr) {
	mark := len(o.pending)
	if f, ok := ast.Unparen(e.Fun).(*ast.SelectorExpr); ok && o.info.Selections[f] != nil && o.info.Selections[f].Kind() == types.MethodVal {
		recv := o.info.Selections[f].Obj().(*types.Func).Signature().Recv().Type()
		_, wants := recv.Underlying().(*types.Pointer)
		switch {
		case wants && !o.pointer(f.X) && len(o.info.Selections[f].Index()) == 1:
			o.address(f.X)
		default:
			if o.value(f.X); !wants && o.pointer(f.X) {
				o.pending = append(o.pending, place{expr: f.X}.of(recv))
			}
		}
	} else if !o.info.Types[e.Fun].IsType() && !o.info.Types[e.Fun].IsBuiltin() {
		o.value(e.Fun)
	}
	for _, a := range e.Args {
		o.value(a)
	}
	in := o.calls[e.Lparen]
	if in == nil {
		return // a conversion, or what never runs
	}
	if b, ok := in.Call.Value.(*ssa.Builtin); ok && b.Name() != "copy" {
		return // without a result, or without effects
	}
	writes, callee := o.k.p.effectOf(in)
	if callee != nil {
		writes = o.k.p.effects(callee)
	}
	for _, r := range o.pending[:mark] {
		for _, w := range writes {
			if w.overlaps(r) {
				o.k.fail(r.expr.Pos(), "%s is read, and %s, behind it in the statement, may set it; Go does not say which comes first: read %s into a variable, in a statement before",
					types.ExprString(r.expr), types.ExprString(e.Fun), types.ExprString(r.expr))
			}
		}
	}
	o.pending = o.pending[:mark]
}

// reads notes that something is read, if it lies where a call can write.
func (o *order) reads(e ast.Expr) {
	root := e
	for {
		switch x := root.(type) {
		case *ast.ParenExpr:
			root = x.X
			continue
		case *ast.SelectorExpr:
			if s := o.info.Selections[x]; s != nil && !s.Indirect() {
				root = x.X
				continue
			}
		case *ast.IndexExpr:
			if o.array(x.X) {
				root = x.X
				continue
			}
		}
		break
	}
	if id, ok := root.(*ast.Ident); ok {
		if v, ok := o.info.Uses[id].(*types.Var); !ok || !o.shared[v.Pos()] {
			return
		}
	}
	p := place{expr: e}
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		p.kind = aVariable
	case *ast.SelectorExpr:
		p.kind, p.field = aField, e.Sel.Name
	case *ast.IndexExpr:
		p.kind = anElement
	}
	o.pending = append(o.pending, p.of(o.info.TypeOf(e)))
}

// call is a call of a function in an expression, if there is one.
func (o *order) call(e ast.Expr) (found *ast.CallExpr) {
	ast.Inspect(e, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && found == nil && !o.info.Types[c.Fun].IsType() && !o.info.Types[c.Fun].IsBuiltin() {
			if in := o.calls[c.Lparen]; in != nil {
				writes, callee := o.k.p.effectOf(in)
				if callee != nil {
					writes = o.k.p.effects(callee)
				}
				if len(writes) > 0 {
					found = c
				}
			}
		}
		return found == nil
	})
	return found
}

func (o *order) pointer(e ast.Expr) bool {
	_, ok := o.info.TypeOf(e).Underlying().(*types.Pointer)
	return ok
}

func (o *order) array(e ast.Expr) bool {
	_, ok := o.info.TypeOf(e).Underlying().(*types.Array)
	return ok
}
