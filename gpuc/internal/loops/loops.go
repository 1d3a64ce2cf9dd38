// Package loops gives a kernel the form that runs fast on the CPU: loops over the threads of a block.
//
// Where a kernel has no barrier, its body is one loop. Barriers cut it: what lies between two of them is a region, a
// loop of its own. That needs control flow around a barrier that is the same for all threads of the block. The package
// proves that from the syntax: a variable is uniform if all that is assigned to it is. A uniform variable is one of the
// block. One that follows from the index alone is computed again in each region, and any other that lives across a
// barrier is kept in an array. (Stratton, Stone and Hwu, "MCUDA", 2008.)
//
//	loops      what can be cut at all, and which statements belong to the block
//	classes    which variables are uniform
//	regions    the tree of regions
//	print      its text
package loops

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

const gpuPackage = "github.com/purecuda/purecuda/gpu"

// Kernel is what is cut.
type Kernel struct {
	Decl   *ast.FuncDecl
	Info   *types.Info
	Fset   *token.FileSet
	Equal  [][]string                  // names of slices that are of one length
	Block  [3]int                      // zeros where the launch decides
	Waits  func(f *types.Func) bool    // whether a function with source waits for other threads, or has shared memory
	Import func(*types.Package) string // the name that the file has for a package
	Type   func(t types.Type) string   // the text of a type
	Read   func(file string) ([]byte, error)
}

// Cut returns the name of the parameter of type *gpu.Block, and the body of a function that runs all threads of a block.
// The error says why there is none.
func (k Kernel) Cut() (block, body string, err error) {
	defer func() {
		switch e := recover().(type) {
		case nil:
		case reason:
			err = e
		default:
			err = fmt.Errorf("a fault of gpuc: %v", e)
		}
	}()
	file := k.Fset.File(k.Decl.Pos())
	src, err := k.Read(file.Name())
	if err != nil {
		return "", "", err
	}
	c := &cutter{Kernel: k, src: src, file: file, vars: map[types.Object]*variable{}, ofBlock: map[ast.Stmt]bool{}}
	if names := k.Decl.Type.Params.List[0].Names; len(names) == 0 || names[0].Name == "_" {
		c.fail(k.Decl.Pos(), "the thread has no name")
	} else {
		c.thread = k.Info.Defs[names[0]]
	}
	c.names()
	c.builtins()
	c.check()
	c.mark()
	c.classify()
	nodes := c.list(k.Decl.Body.List, true)
	c.crossing()
	return c.own("b"), c.print(nodes), nil
}

// reason is why a kernel cannot be cut.
type reason string

func (r reason) Error() string { return string(r) }

func (c *cutter) fail(pos token.Pos, format string, args ...any) {
	p := c.Fset.Position(pos)
	name := p.Filename[strings.LastIndexByte(p.Filename, '/')+1:]
	panic(reason(fmt.Sprintf("%s:%d: %s", name, p.Line, fmt.Sprintf(format, args...))))
}

// cutter cuts one kernel.
type cutter struct {
	Kernel
	src      []byte
	file     *token.File
	thread   types.Object // the parameter *gpu.Thread
	suffix   string       // that no name of the kernel has
	barriers int
	ofBlock  map[ast.Stmt]bool // statements that run once for all threads
	vars     map[types.Object]*variable
	regions  []*region
	usesT    bool // the text has the thread in it
	// What the text of the region has in it.
	usesRank, usesPlace bool
	origin              [3]bool    // whether the first global index along an axis is needed
	known               [2][3]bool // whether the size of the block along an axis, or the one index along it, is needed
	labels              int
	out                 []byte
	next                int // the line that would follow what is printed, if it is of the source
}

// own is a name that the kernel does not have.
func (c *cutter) own(name string) string { return name + c.suffix }

func (c *cutter) names() {
	c.suffix = "_"
	ast.Inspect(c.Decl, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			for strings.HasSuffix(id.Name, c.suffix) && id.Name != "_" {
				c.suffix += "_"
			}
		}
		return true
	})
}

// builtins rejects a kernel that sees another meaning of a name that the text here needs as Go's.
func (c *cutter) builtins() {
	needed := func(name string) bool {
		_, isType := types.Universe.Lookup(name).(*types.TypeName)
		return isType || name == "len" || name == "panic"
	}
	for _, name := range types.Universe.Names() {
		if o := c.pkg().Scope().Lookup(name); o != nil && needed(name) {
			c.fail(o.Pos(), "%s is not that of Go", name)
		}
	}
	ast.Inspect(c.Decl, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && c.Info.Defs[id] != nil && types.Universe.Lookup(id.Name) != nil && needed(id.Name) {
			c.fail(id.Pos(), "%s is not that of Go", id.Name)
		}
		return true
	})
}

// isThread reports whether an expression is the thread.
func (c *cutter) isThread(e ast.Expr) bool {
	id, ok := e.(*ast.Ident)
	return ok && c.thread != nil && c.Info.Uses[id] == c.thread
}

// method is the name of the method of the thread that is called, if it is one.
func (c *cutter) method(call *ast.CallExpr) string {
	if s, ok := call.Fun.(*ast.SelectorExpr); ok && c.isThread(s.X) {
		return s.Sel.Name
	}
	return ""
}

// isBarrier reports whether a statement is a barrier.
func (c *cutter) isBarrier(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	return ok && c.method(call) == "Barrier"
}

// check rejects what cannot be cut wherever it stands.
func (c *cutter) check() {
	known := map[ast.Expr]bool{}
	ast.Inspect(c.Decl.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			c.fail(n.Pos(), "a function value")
		case *ast.Ident:
			if c.isThread(n) && !known[n] {
				c.fail(n.Pos(), "%s is used as a value", n.Name)
			}
			if o := c.Info.Uses[n]; o != nil && o.Pkg() != nil && o.Parent() == o.Pkg().Scope() && o.Pkg() != c.pkg() && !known[n] {
				c.fail(n.Pos(), "a name of a package that is imported with a dot")
			}
		case *ast.SelectorExpr:
			known[n.Sel] = true
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && c.isThread(s.X) {
				known[s.X] = true
			}
			c.call(n, known)
		}
		return true
	})
}

// pkg is the package of the kernel.
func (c *cutter) pkg() *types.Package { return c.Info.Defs[c.Decl.Name].Pkg() }

// call rejects calls that wait.
func (c *cutter) call(call *ast.CallExpr, known map[ast.Expr]bool) {
	if c.method(call) == "Nanosleep" {
		c.fail(call.Pos(), "it waits for other threads")
	}
	takes := false
	for _, a := range call.Args {
		if c.isThread(a) {
			takes, known[a] = true, true
		}
	}
	f, ok := typeutil.Callee(c.Info, call).(*types.Func)
	switch {
	case !takes:
	case !ok:
		c.fail(call.Pos(), "a function value")
	case f.Pkg().Path() == gpuPackage:
		switch f.Name() {
		case "Shared", "DynamicShared", "LaneMaskBelow":
		default:
			c.fail(call.Pos(), "gpu.%s waits for the warp", f.Name())
		}
	case c.Waits(f.Origin()):
		c.fail(call.Pos(), "%s waits, or has shared memory", f.Name())
	}
}

// mark finds the statements of the block: those with a barrier in them, and those with a way out of those.
func (c *cutter) mark() {
	last := -1 // statement of the body with a barrier in it
	c.walk(func(s ast.Stmt, above []ast.Stmt, top int) {
		if c.isBarrier(s) {
			c.barriers++
			last = top
			c.raise(s, above)
		}
	})
	for before := -1; before != len(c.ofBlock); {
		before = len(c.ofBlock)
		c.walk(func(s ast.Stmt, above []ast.Stmt, top int) {
			switch s := s.(type) {
			case *ast.ReturnStmt:
				if top <= last {
					c.raise(s, above)
				}
			case *ast.BranchStmt:
				if s.Label != nil && c.barriers > 0 {
					c.fail(s.Pos(), "a label, with barriers")
				}
				if i := target(s, above); i >= 0 && c.ofBlock[above[i]] {
					c.raise(s, above[i+1:])
				}
			}
		})
	}
}

// target is the statement that a break or continue without a label is about.
func target(s *ast.BranchStmt, above []ast.Stmt) int {
	for i := len(above) - 1; i >= 0; i-- {
		switch above[i].(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return i
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
			if s.Tok == token.BREAK {
				return i
			}
		}
	}
	return -1
}

// raise makes a statement, and all around it, statements of the block.
func (c *cutter) raise(s ast.Stmt, above []ast.Stmt) {
	c.ofBlock[s] = true
	for _, a := range above {
		switch a.(type) {
		case *ast.BlockStmt, *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			c.ofBlock[a] = true
		default:
			c.fail(s.Pos(), "a barrier, or a way past one, in a switch")
		}
	}
}

// walk calls f for each statement, with those around it and the number of the statement of the body that it is in.
func (c *cutter) walk(f func(s ast.Stmt, above []ast.Stmt, top int)) {
	for top, s := range c.Decl.Body.List {
		var above []ast.Stmt
		var nodes []ast.Node
		ast.Inspect(s, func(n ast.Node) bool {
			if n == nil {
				if _, ok := nodes[len(nodes)-1].(ast.Stmt); ok {
					above = above[:len(above)-1]
				}
				nodes = nodes[:len(nodes)-1]
				return true
			}
			nodes = append(nodes, n)
			if s, ok := n.(ast.Stmt); ok {
				f(s, above, top)
				above = append(above, s)
			}
			return true
		})
	}
}
