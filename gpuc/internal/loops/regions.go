package loops

import (
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// node is a part of the body.
type node struct {
	region *region
	stmt   ast.Stmt // a statement of the block
	value  ast.Expr // with it: only this value for this name
	name   *ast.Ident
	body   []node
	els    []node
}

// region is a run of statements that each thread of the block runs, without a barrier within.
type region struct {
	id    int
	parts []part
	walk  *walk
	vars  map[*variable]bool // that it uses, in whatever way
	write map[*variable]bool // that it changes
}

// part is a statement, or one variable of a statement that declares several.
type part struct {
	stmt  ast.Stmt
	value ast.Expr
	name  *ast.Ident
}

// walk is about the elements that belong to a thread, and its region has what is done with each:
//
//	for i := t.GlobalX(); i < limit; i += t.GlobalDimX() {
//	if i := t.GlobalX(); i < limit {
//	if i >= limit { return }
//	if t.ThreadX() < limit {
//	if t.ThreadX() == only {
//
// Threads of a block do not wait for each other there, so all of them take a step together. Their elements lie side by
// side, and the loop over the threads is one over elements.
type walk struct {
	steps bool // more than one
	one   bool // i == limit, not i < limit
	block bool // i counts the threads of the block, not of the grid
	axis  int  // 0 is X
	i     *ast.Ident
	limit ast.Expr
}

// list cuts a list of the block. body tells whether the block is the kernel's body.
func (c *cutter) list(list []ast.Stmt, body bool) (nodes []node) {
	var r *region
	flush := func() {
		if r != nil {
			nodes = append(nodes, node{region: r})
		}
		r = nil
	}
	add := func(p part) {
		if r == nil {
			r = c.newRegion()
		}
		r.parts = append(r.parts, p)
		c.declared(p, r.id)
	}
	for i, s := range list {
		if c.ofBlock[s] {
			flush()
			if !c.isBarrier(s) {
				nodes = append(nodes, c.control(s))
			}
			continue
		}
		if r == nil || !slices.ContainsFunc(r.parts, func(p part) bool { return c.indexOf(p) == nil }) {
			if w, parts := c.walkOf(list[i:], body); w != nil {
				if r == nil {
					r = c.newRegion()
				}
				for _, s := range parts {
					add(part{stmt: s})
				}
				r.walk = w
				flush()
				if isGuard(s) {
					return nodes
				}
				continue
			}
		}
		names, values, define := assigned(s)
		if names == nil {
			if d, ok := s.(*ast.DeclStmt); ok && d.Decl.(*ast.GenDecl).Tok != token.VAR {
				flush()
				nodes = append(nodes, node{stmt: s})
				continue
			}
			add(part{stmt: s})
			continue
		}
		all := func(cl class) bool {
			return !slices.ContainsFunc(names, func(n *ast.Ident) bool { return c.classOf(n) != cl })
		}
		switch {
		case all(varying), all(index) && (len(names) == 1 || len(values) != len(names)):
			add(part{stmt: s})
		case all(uniform):
			if !define || r.names(names) {
				flush() // what came before may read what it was, or another of the name
			}
			nodes = append(nodes, node{stmt: s})
		case !define || len(values) != len(names):
			c.fail(s.Pos(), "variables of different kinds in one assignment")
		default:
			for j, n := range names {
				switch c.classOf(n) {
				case uniform:
					if r.names(names) {
						flush()
					}
					nodes = append(nodes, node{stmt: s, name: n, value: values[j]})
				default:
					add(part{s, values[j], n})
				}
			}
		}
	}
	flush()
	return nodes
}

// names reports whether a region has one of some names.
func (r *region) names(names []*ast.Ident) (found bool) {
	if r == nil {
		return false
	}
	for _, p := range r.parts {
		ast.Inspect(p.node(), func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			found = found || ok && slices.ContainsFunc(names, func(n *ast.Ident) bool { return n.Name == id.Name })
			return !found
		})
	}
	return found
}

// classOf is the class of a name on the left; the name _ takes anything.
func (c *cutter) classOf(n *ast.Ident) class {
	if v := c.variable(n); v != nil {
		return v.class
	}
	return varying
}

// assigned returns the names that a simple statement assigns, if it assigns to whole variables.
func assigned(s ast.Stmt) (names []*ast.Ident, values []ast.Expr, define bool) {
	switch s := s.(type) {
	case *ast.AssignStmt:
		for _, l := range s.Lhs {
			id, ok := l.(*ast.Ident)
			if !ok {
				return nil, nil, false
			}
			names = append(names, id)
		}
		return names, s.Rhs, s.Tok == token.DEFINE
	case *ast.IncDecStmt:
		if id, ok := s.X.(*ast.Ident); ok {
			return []*ast.Ident{id}, nil, false
		}
	case *ast.DeclStmt:
		d := s.Decl.(*ast.GenDecl)
		if v, ok := d.Specs[0].(*ast.ValueSpec); ok && d.Tok == token.VAR && len(d.Specs) == 1 {
			return v.Names, v.Values, v.Type == nil || len(v.Values) == 0
		}
	}
	return nil, nil, false
}

func (c *cutter) newRegion() *region {
	r := &region{id: len(c.regions), vars: map[*variable]bool{}, write: map[*variable]bool{}}
	c.regions = append(c.regions, r)
	return r
}

// declared notes what a part declares for the parts and regions that follow.
func (c *cutter) declared(p part, id int) {
	names := []*ast.Ident{p.name}
	if p.name == nil {
		switch s := p.stmt.(type) {
		case *ast.AssignStmt:
			for _, l := range s.Lhs {
				if n, ok := l.(*ast.Ident); ok && s.Tok == token.DEFINE {
					names = append(names, n)
				}
			}
		case *ast.DeclStmt:
			for _, spec := range s.Decl.(*ast.GenDecl).Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					names = append(names, v.Names...)
				}
			}
		}
	}
	for _, n := range names {
		if n == nil || c.Info.Defs[n] == nil {
			continue
		}
		if v := c.variable(n); v != nil {
			v.region = id
		}
	}
}

// control cuts a statement of the block that has others in it.
func (c *cutter) control(s ast.Stmt) node {
	n := node{stmt: s}
	same := func(e ast.Expr) {
		if e != nil && c.class(e) != uniform {
			c.fail(e.Pos(), "%s need not be the same for all threads of a block, and a barrier depends on it", c.source(e))
		}
	}
	simple := func(s ast.Stmt) {
		if s == nil {
			return
		}
		if names, _, _ := assigned(s); names == nil || slices.ContainsFunc(names, func(n *ast.Ident) bool { return c.classOf(n) != uniform }) {
			c.fail(s.Pos(), "%s need not be the same for all threads of a block, and a barrier depends on it", c.source(s))
		}
	}
	switch s := s.(type) {
	case *ast.BlockStmt:
		n.body = c.list(s.List, false)
	case *ast.IfStmt:
		simple(s.Init)
		same(s.Cond)
		n.body = c.list(s.Body.List, false)
		if s.Else != nil {
			n.els = []node{c.control(s.Else)}
		}
	case *ast.ForStmt:
		simple(s.Init)
		same(s.Cond)
		simple(s.Post)
		n.body = c.list(s.Body.List, false)
	case *ast.RangeStmt:
		same(s.X)
		for _, v := range []ast.Expr{s.Key, s.Value} {
			if id, ok := v.(*ast.Ident); v != nil && id.Name != "_" && (!ok || c.classOf(id) != uniform) {
				c.fail(v.Pos(), "%s need not be the same for all threads of a block, and a barrier depends on it", c.source(v))
			}
		}
		n.body = c.list(s.Body.List, false)
	}
	return n
}

// isGuard reports whether a statement is if condition { return }.
func isGuard(s ast.Stmt) bool {
	f, ok := s.(*ast.IfStmt)
	if !ok || f.Init != nil || f.Else != nil || len(f.Body.List) != 1 {
		return false
	}
	_, ok = f.Body.List[0].(*ast.ReturnStmt)
	return ok
}

// walkOf returns the walk that a list begins with, and what is done with each element.
func (c *cutter) walkOf(list []ast.Stmt, body bool) (w *walk, parts []ast.Stmt) {
	alone := len(list) == 1 || c.ofBlock[list[1]]
	switch s := list[0].(type) {
	case *ast.ForStmt:
		if post, ok := s.Post.(*ast.AssignStmt); alone && ok && post.Tok == token.ADD_ASSIGN && c.independent(s) {
			w = c.element(s.Init, s.Cond, token.LSS)
			if w == nil || w.block || c.methodOf(post.Rhs[0]) != "GlobalDim"+"XYZ"[w.axis:w.axis+1] || c.variable(w.i) != c.variable(c.root(post.Lhs[0])) || c.variable(w.i).assigned != 2 {
				return nil, nil
			}
			w.steps = true
			return w, s.Body.List
		}
	case *ast.IfStmt:
		switch {
		case isGuard(s) && body && c.barriers == 0:
			for _, s := range list[1:] {
				names, _, _ := assigned(s)
				for _, n := range names { // a variable of the block would change with each thread
					if v := c.variable(n); v != nil && v.class == uniform && v.obj.Pos() < list[0].Pos() {
						return nil, nil
					}
				}
			}
			return c.element(nil, s.Cond, token.GEQ), list[1:]
		case alone && s.Else == nil:
			if w = c.element(s.Init, s.Cond, token.EQL); w != nil {
				w.one = true
				return w, s.Body.List
			}
			return c.element(s.Init, s.Cond, token.LSS), s.Body.List
		}
	}
	return nil, nil
}

// element gives the walk of a condition about the global index of a thread.
func (c *cutter) element(init ast.Stmt, cond ast.Expr, op token.Token) *walk {
	b, ok := cond.(*ast.BinaryExpr)
	if !ok || b.Op != op || c.class(b.Y) != uniform {
		return nil
	}
	i, ok := b.X.(*ast.Ident)
	v := c.variable(i)
	if !ok || v == nil || v.address || len(v.values) == 0 || init == nil && v.class != index {
		return nil
	}
	if names, _, define := assigned(init); init != nil && (!define || len(names) != 1 || c.variable(names[0]) != v || c.steps(v)) {
		return nil
	}
	axis := slices.Index([]string{"GlobalX", "GlobalY", "GlobalZ", "ThreadX", "ThreadY", "ThreadZ"}, c.methodOf(v.values[0]))
	if axis < 0 {
		return nil
	}
	return &walk{axis: axis % 3, block: axis >= 3, i: i, limit: b.Y}
}

// steps reports whether a variable is assigned something else than its first value and t.GlobalDimX().
func (c *cutter) steps(v *variable) bool {
	return v.assigned > 2 || v.assigned == 2 && (len(v.values) != 2 || !strings.HasPrefix(c.methodOf(v.values[1]), "GlobalDim"))
}

// independent reports whether a loop has no way out but its end, and takes nothing of the thread from step to step.
func (c *cutter) independent(f *ast.ForStmt) (ok bool) {
	ok = true
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ReturnStmt, *ast.LabeledStmt:
			ok = false
		case *ast.BranchStmt:
			ok = ok && n.Label == nil && (n.Tok == token.CONTINUE || n.Tok == token.BREAK && c.within(n, f))
		case *ast.Ident:
			if u := c.vars[c.Info.Uses[n]]; u != nil && u.class == varying && (u.obj.Pos() < f.Pos() || u.obj.Pos() > f.End()) {
				ok = false
			}
		}
		return ok
	})
	return ok
}

// within reports whether a break is about a statement within a loop.
func (c *cutter) within(b *ast.BranchStmt, loop *ast.ForStmt) (inner bool) {
	c.walk(func(s ast.Stmt, above []ast.Stmt, _ int) {
		if s == ast.Stmt(b) {
			if i := target(b, above); i >= 0 && above[i] != ast.Stmt(loop) {
				inner = true
			}
		}
	})
	return inner
}

// methodOf is the name of the method of the thread that an expression calls.
func (c *cutter) methodOf(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok {
		return c.method(call)
	}
	return ""
}

// crossing finds what each region uses, and the variables that live across a barrier.
func (c *cutter) crossing() {
	for _, r := range c.regions {
		for _, p := range slices.Backward(r.parts) {
			if v := c.indexOf(p); v == nil || r.vars[v] {
				c.uses(r, p.node())
			}
		}
	}
	for _, r := range c.regions[:max(0, len(c.regions)-1)] {
		if at := r.returns(); at.IsValid() {
			c.fail(at, "a return, with loops over the threads behind it")
		}
	}
	addressed, names := false, map[string]int{}
	for _, v := range c.vars {
		addressed = addressed || v.class == varying && v.address
	}
	for _, r := range c.regions {
		c.shadows(r)
		for _, v := range r.sorted() {
			if v.class != varying || v.region == r.id || v.array != "" || v.region < 0 && !v.param {
				continue
			}
			if v.param {
				if c.users(v) > 1 {
					c.fail(v.obj.Pos(), "the parameter %s is changed, and lives across a barrier", v.obj.Name())
				}
				continue
			}
			if addressed && hasPointers(v.obj.Type()) {
				c.fail(v.obj.Pos(), "%s lives across a barrier, and may point to a variable of the thread", v.obj.Name())
			}
			names[v.obj.Name()]++
			v.array = c.own(v.obj.Name() + "s")
			for range names[v.obj.Name()] - 1 {
				v.array += "_"
			}
		}
	}
}

// shadows rejects a region that has two variables of one name, both from outside of its statements.
func (c *cutter) shadows(r *region) {
	seen := map[string]*variable{}
	for _, v := range c.vars {
		inside := v.class == varying && v.region < 0 && !v.param
		if inside || !r.vars[v] && v.region != r.id {
			continue
		}
		if seen[v.obj.Name()] != nil {
			c.fail(v.obj.Pos(), "%s has two meanings between two barriers", v.obj.Name())
		}
		seen[v.obj.Name()] = v
	}
}

// returns is where a region has a return.
func (r *region) returns() (at token.Pos) {
	for _, p := range r.parts {
		ast.Inspect(p.node(), func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok {
				at = r.Pos()
			}
			return true
		})
	}
	return at
}

// users counts the regions that use a variable.
func (c *cutter) users(v *variable) (n int) {
	for _, r := range c.regions {
		if r.vars[v] {
			n++
		}
	}
	return n
}

// node is what is written of a part.
func (p part) node() ast.Node {
	if p.name != nil {
		return p.value
	}
	return p.stmt
}

// uses notes the variables that are used, and those from which they follow.
func (c *cutter) uses(r *region, n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		if v := c.vars[c.Info.Uses[id]]; v != nil && !r.vars[v] {
			r.vars[v] = true
			if v.class == index {
				c.uses(r, v.values[0])
			}
		}
		return true
	})
	changed := func(e ast.Expr) {
		if v := c.variable(c.root(e)); v != nil {
			r.write[v] = true
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				changed(l)
			}
		case *ast.IncDecStmt:
			changed(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				changed(n.Key)
				if n.Value != nil {
					changed(n.Value)
				}
			}
		}
		return true
	})
	for v := range r.vars {
		if v.address {
			r.write[v] = true
		}
	}
}

// sorted lists the variables of a region as the source declares them.
func (r *region) sorted() (list []*variable) {
	for v := range r.vars {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b *variable) int { return int(a.obj.Pos() - b.obj.Pos()) })
	return list
}

// hasPointers reports whether a value leads to memory.
func hasPointers(t types.Type) bool {
	switch u := t.Underlying().(type) {
	case *types.Array:
		return hasPointers(u.Elem())
	case *types.Struct:
		for i := range u.NumFields() {
			if hasPointers(u.Field(i).Type()) {
				return true
			}
		}
		return false
	case *types.Basic:
		return false
	}
	return true
}
