package compile

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
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
	field string    // its name, of a field
	t     []string  // the kinds of numbers, pointers and slices in it; nil where they can be any
	whole bool      // one number, pointer or slice
	root  token.Pos // where the variable is declared that it is, or is a part of, if that is known
	expr  ast.Expr  // of what is read
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
	if w.root.IsValid() && r.root.IsValid() && w.root != r.root {
		return false
	}
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
	t, root := elem(addr.Type()), token.NoPos
	if v, ok := variable(addr).(*ssa.FreeVar); ok {
		root = v.Pos() // a closure has captured it
	}
	switch a := addr.(type) {
	case *ssa.FieldAddr:
		return place{kind: aField, field: elem(a.X.Type()).Underlying().(*types.Struct).Field(a.Field).Name(), root: root}.of(t)
	case *ssa.IndexAddr:
		return place{kind: anElement, root: root}.of(t)
	}
	return place{root: root}.of(t)
}

// variable is what an address is a part of.
func variable(addr ssa.Value) ssa.Value {
	for {
		switch a := addr.(type) {
		case *ssa.FieldAddr:
			addr = a.X
		case *ssa.IndexAddr:
			addr = a.X
		default:
			return addr
		}
	}
}

// local reports whether an address is in a variable of its function.
func local(addr ssa.Value) bool {
	_, ok := variable(addr).(*ssa.Alloc)
	return ok
}

// effects are what a call may write that its caller can see.
func (p *Program) effects(in *ssa.Call) []place {
	fn := in.Call.StaticCallee()
	p.mu.Lock()
	list, ok := p.effect[fn]
	p.mu.Unlock()
	if ok {
		return list
	}
	e := &effects{p: p, seen: map[string]bool{}}
	e.call(in, nil)
	if fn != nil && p.effectOf(in, fn) == nil && !slices.ContainsFunc(fn.Params, takesFunction) {
		p.mu.Lock()
		p.effect[fn] = e.list
		p.mu.Unlock()
	}
	return e.list
}

func takesFunction(p *ssa.Parameter) bool {
	_, ok := p.Type().Underlying().(*types.Signature)
	return ok
}

// effects collects them. A function is looked at once for all functions that it may get as arguments.
type effects struct {
	p    *Program
	list []place
	seen map[string]bool
}

// call adds what a call writes. args are the functions that the parameters of the function around it can be.
func (e *effects) call(in *ssa.Call, args map[ssa.Value][]*ssa.Function) {
	if _, ok := in.Call.Value.(*ssa.Builtin); ok {
		e.list = append(e.list, e.p.effectOf(in, nil)...)
		return
	}
	list := callees(in.Call.Value, args, 0)
	if in.Call.IsInvoke() || list == nil {
		e.list = append(e.list, place{}) // everything
		return
	}
	for _, fn := range list {
		own := e.p.effectOf(in, fn)
		e.list = append(e.list, own...)
		given := map[ssa.Value][]*ssa.Function{}
		key := fmt.Sprintf("%p", fn)
		for i, param := range fn.Params {
			if !takesFunction(param) || i >= len(in.Call.Args) {
				continue
			}
			given[param] = callees(in.Call.Args[i], args, 0)
			for _, f := range given[param] {
				if key += fmt.Sprintf(" %d %p", i, f); own != nil { // gpu.GroupReduce calls it
					e.body(fmt.Sprintf("%p", f), f, nil)
				}
			}
		}
		if own == nil {
			e.body(key, fn, given)
		}
	}
}

// body adds what a function writes.
func (e *effects) body(key string, fn *ssa.Function, args map[ssa.Value][]*ssa.Function) {
	if e.seen[key] {
		return
	}
	e.seen[key] = true
	for _, b := range e.p.blocks(fn) {
		for _, in := range b.Instrs {
			switch in := in.(type) {
			case *ssa.Store:
				if !local(in.Addr) {
					e.list = append(e.list, placeOf(in.Addr))
				}
			case *ssa.Call:
				e.call(in, args)
			}
		}
	}
}

// callees are the functions that a value can be; nil where that is not known. args are those that parameters can be.
func callees(v ssa.Value, args map[ssa.Value][]*ssa.Function, depth int) (list []*ssa.Function) {
	const deep = 8
	if depth > deep {
		return nil
	}
	switch v := v.(type) {
	case *ssa.Function:
		return []*ssa.Function{v}
	case *ssa.MakeClosure:
		return []*ssa.Function{v.Fn.(*ssa.Function)}
	case *ssa.ChangeType:
		return callees(v.X, args, depth+1)
	case *ssa.Parameter:
		return args[v]
	case *ssa.UnOp: // of a variable that closures have captured
		stored, ok := stores(v.X, depth)
		for _, x := range stored {
			more := callees(x, args, depth+1)
			if more == nil {
				return nil
			}
			list = append(list, more...)
		}
		if ok {
			return list
		}
	}
	return nil
}

// stores are all values that are stored in a variable of a function, by closures as well; false where that is not known.
func stores(addr ssa.Value, depth int) (list []ssa.Value, ok bool) {
	switch v := addr.(type) {
	case *ssa.Alloc:
	case *ssa.FreeVar: // up to where it is declared
		at, users := slices.Index(v.Parent().FreeVars, v), v.Parent().Referrers()
		if users == nil { // a method that is a value
			return nil, false
		}
		for _, r := range *users {
			if c, ok := r.(*ssa.MakeClosure); ok && depth < 8 {
				return stores(c.Bindings[at], depth+1)
			}
		}
		return nil, false
	default:
		return nil, false
	}
	var all func(addr ssa.Value) bool
	all = func(addr ssa.Value) bool {
		for _, r := range *addr.Referrers() {
			switch r := r.(type) {
			case *ssa.UnOp, *ssa.DebugRef:
			case *ssa.Store:
				if r.Addr != addr || r.Val == addr {
					return false
				}
				list = append(list, r.Val)
			case *ssa.MakeClosure:
				fn := r.Fn.(*ssa.Function)
				for i, b := range r.Bindings {
					if b == addr && !all(fn.FreeVars[i]) {
						return false
					}
				}
			default:
				return false
			}
		}
		return true
	}
	ok = all(addr)
	return list, ok
}

// effectOf is what a call writes by itself; nil where the function has to be looked at.
func (p *Program) effectOf(in *ssa.Call, fn *ssa.Function) []place {
	if b, ok := in.Call.Value.(*ssa.Builtin); ok {
		if s, ok := in.Call.Args[0].Type().Underlying().(*types.Slice); ok && (b.Name() == "copy" || b.Name() == "clear") {
			return []place{place{kind: anElement}.of(s.Elem())}
		}
		return []place{}
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
		return []place{}
	case path == gpuPackage && (strings.HasPrefix(o.Name(), "Atomic") || o.Name() == "StoreStreaming"):
		return []place{placeOf(in.Call.Args[0])}
	case path == gpuPackage && (strings.HasSuffix(o.Name(), "Barrier") || o.Name() == "Fence" || o.Name() == "Nanosleep"): // what other threads have written
		return []place{{}}
	case path == gpuPackage:
		return []place{}
	}
	return nil
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
	k.p.mu.Lock()
	done := k.p.orders[fn]
	k.p.mu.Unlock()
	if done {
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
	for _, b := range k.p.blocks(fn) {
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
	k.p.mu.Lock()
	k.p.orders[fn] = true
	k.p.mu.Unlock()
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
	writes := o.k.p.effects(in)
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
	p := place{expr: e}
	if id, ok := root.(*ast.Ident); ok {
		v, ok := o.info.Uses[id].(*types.Var)
		if !ok || !o.shared[v.Pos()] {
			return
		}
		p.root = v.Pos()
	}
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
				if len(o.k.p.effects(in)) > 0 {
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
