package loops

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// Mark stands in the text for a line directive with the place itself, which is known when the file is complete.
const Mark = "//line here:1"

// printf prints what is not in the source.
func (c *cutter) printf(format string, args ...any) {
	if c.next > 0 {
		c.out = append(c.out, Mark+"\n"...)
	}
	c.next = 0
	c.out = fmt.Appendf(c.out, format, args...)
}

// print returns the text of the body.
func (c *cutter) print(nodes []node) string {
	c.nodes(nodes)
	c.printf("")
	body := c.out
	c.out = nil
	c.arrays()
	for _, used := range c.origin {
		c.usesT = c.usesT || used
	}
	for i, name := range []string{"size", "zero"} {
		for axis, used := range c.known[i] { // variables, so that Go does not compute with constants as it compiles
			if used {
				value := 0
				if name == "size" {
					value = c.Block[axis]
				}
				v := c.own(name + "XYZ"[axis:axis+1])
				c.printf("%s := %d\n_ = %s\n", v, value, v)
			}
		}
	}
	if c.usesT {
		c.printf("%s := %s.Thread()\n", c.thread.Name(), c.own("b"))
	}
	for _, names := range c.Equal { // so that Go knows it
		for _, n := range names[1:] {
			if n != names[0] {
				c.printf("%s = %s[:len(%s)]\n", n, n, names[0])
			}
		}
	}
	for axis, used := range c.origin {
		if used {
			name := "XYZ"[axis : axis+1]
			c.printf("%s := %s\n", c.own("from"+name), c.dim(axis, "%[1]s.Block%[2]s()*%[3]s"))
		}
	}
	return string(c.out) + string(body)
}

// dim formats with the thread, an axis, and the size of the block along it, and notes that the thread is used.
func (c *cutter) dim(axis int, format string) string {
	c.usesT = c.usesT || c.Block[0] == 0 || strings.Contains(format, "%[1]s")
	name, size := "XYZ"[axis:axis+1], ""
	if c.Block[0] > 0 {
		size = fmt.Sprint(c.Block[axis])
	} else {
		size = fmt.Sprintf("%s.BlockDim%s()", c.thread.Name(), name)
	}
	return fmt.Sprintf(format, c.thread.Name(), name, size)
}

// arrays declares the arrays of variables that live across barriers.
func (c *cutter) arrays() {
	threads := 1024
	if c.Block[0] > 0 {
		threads = c.Block[0] * c.Block[1] * c.Block[2]
	}
	var list []*variable
	for _, v := range c.vars {
		if v.array != "" {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *variable) int { return cmp.Compare(a.obj.Pos(), b.obj.Pos()) })
	for _, v := range list {
		c.printf("var %s [%d]%s\n", v.array, threads, c.Type(v.obj.Type()))
	}
}

// indexOf is the variable that a part declares, if it follows from the index of the thread.
func (c *cutter) indexOf(p part) *variable {
	n := p.name
	if n == nil {
		if names, _, _ := assigned(p.stmt); len(names) == 1 {
			n = names[0]
		}
	}
	if n != nil {
		if v := c.variable(n); v != nil && v.class == index {
			return v
		}
	}
	return nil
}

// nodes prints a list.
func (c *cutter) nodes(nodes []node) {
	for _, n := range nodes {
		switch {
		case n.region != nil:
			if slices.ContainsFunc(n.region.parts, func(p part) bool {
				v := c.indexOf(p)
				return v == nil || n.region.vars[v]
			}) || n.region.walk != nil {
				c.region(n.region)
			}
		case n.name != nil:
			c.chunk(n.name.Pos(), n.value.End(), n.name.Name+" := "+c.text(n.value, false))
		case !c.ofBlock[n.stmt]:
			c.chunk(n.stmt.Pos(), n.stmt.End(), c.text(n.stmt, false))
		default:
			c.control2(n)
		}
	}
}

// control2 prints a statement of the block that has others in it.
func (c *cutter) control2(n node) {
	switch s := n.stmt.(type) {
	case *ast.BlockStmt:
		c.printf("{\n")
	case *ast.IfStmt:
		c.chunk(s.Pos(), s.Body.Lbrace, c.between(s.Pos(), s.Body.Lbrace+1, false, s.Init, s.Cond))
	case *ast.ForStmt:
		c.chunk(s.Pos(), s.Body.Lbrace, c.between(s.Pos(), s.Body.Lbrace+1, false, s.Init, s.Cond, s.Post))
	case *ast.RangeStmt:
		c.chunk(s.Pos(), s.Body.Lbrace, c.between(s.Pos(), s.Body.Lbrace+1, false, s.X))
	default: // return, break and continue
		c.chunk(s.Pos(), s.End(), c.text(s, false))
		return
	}
	c.nodes(n.body)
	c.printf("}")
	if len(n.els) > 0 {
		c.printf(" else {\n")
		c.nodes(n.els)
		c.printf("}")
	}
	c.printf("\n")
}

// chunk prints text of the source, with its place where it does not follow what is above it.
func (c *cutter) chunk(from, to token.Pos, text string) {
	if p := c.Fset.Position(from); p.Line != c.next {
		c.printf("//line %s:%d\n", p.Filename[strings.LastIndexByte(p.Filename, '/')+1:], p.Line)
	}
	c.out = append(c.out, text+"\n"...)
	c.next = c.Fset.Position(to).Line + 1
}

// region prints a loop over the threads of the block.
func (c *cutter) region(r *region) {
	b := c.own("b")
	ends := 3
	first, end := c.own("first"), c.own("end")
	base := first // the element of the block's first thread
	if w := r.walk; w != nil {
		name, limit := "XYZ"[w.axis:w.axis+1], c.text(w.limit, false)
		ends++
		from := "0"
		if !w.block {
			c.origin[w.axis], from = true, c.own("from"+name)
		}
		size := c.dim(w.axis, "%[3]s")
		if w.one {
			base = from
		}
		switch {
		case w.steps:
			c.usesT = true
			c.printf("for %s := %s; %s < %s; %s += %s.GlobalDim%s() {\n", first, from, first, limit, first, c.thread.Name(), name)
		case w.one:
			c.printf("if %[1]s := int(%[2]s); %[3]s <= %[1]s && %[1]s < %[3]s+%[4]s {\n", first, limit, from, size)
		default:
			c.printf("{\n%s := %s\n", first, from)
		}
		if w.one {
			c.printf("%s := %s + 1\n%s.%s = %s - %s\n", end, first, b, name, first, from)
		} else {
			c.printf("%[1]s := %[2]s + %[3]s\nif %[1]s > %[4]s { // min can be another one\n%[1]s = %[4]s\n}\n", end, first, size, limit)
			c.printf("if %s < 0 || %s > %s {\n\tpanic(\"this cannot be, and Go needs no checks of what is within\")\n}\n%s.%s = -1 // it is not kept\n", first, end, limit, b, name)
		}
	}
	for axis := 2; axis >= 0; axis-- {
		if axis > 0 && c.Block[axis] == 1 && (r.walk == nil || r.walk.axis != axis) {
			ends--
			continue
		}
		v := c.own("xyz"[axis : axis+1])
		if axis == 0 && c.needsLabel(r) {
			c.labels++
			c.printf("%s:\n", c.label())
		}
		if w := r.walk; w != nil && w.axis == axis {
			c.printf("for %[1]s := %[2]s; %[1]s < %[3]s; %[1]s++ {\n", w.i.Name, first, end)
			continue
		}
		c.printf("for %s := range %s {\n%s.%s = %s\n", v, c.dim(axis, "%[3]s"), b, "XYZ"[axis:axis+1], v)
	}
	c.printf("")
	head := c.out
	c.out = nil
	c.usesRank, c.usesPlace = false, false
	for _, v := range r.sorted() {
		switch {
		case v.region == r.id, r.walk != nil && v == c.variable(r.walk.i):
		case v.class == index:
			c.printf("var %s %s = %s\n", v.obj.Name(), c.Type(v.obj.Type()), c.text(v.values[0], true))
		case v.param && v.class == varying:
			c.printf("%s := %s\n", v.obj.Name(), v.obj.Name())
		case v.array != "":
			c.printf("%s := %s[%s]\n", v.obj.Name(), v.array, c.rank())
		}
	}
	for _, p := range r.parts {
		if v := c.indexOf(p); v != nil && (!r.vars[v] || r.walk != nil && v == c.variable(r.walk.i)) {
			continue // others use it, or it is there
		}
		if p.name != nil {
			c.chunk(p.name.Pos(), p.value.End(), p.name.Name+" := "+c.text(p.value, true))
		} else {
			c.chunk(p.stmt.Pos(), p.stmt.End(), c.text(p.stmt, true))
		}
	}
	for _, v := range c.stored(r) {
		c.printf("%s[%s] = %s\n", v.array, c.rank(), v.obj.Name())
	}
	c.printf("")
	inner := c.out
	c.out = head
	if w := r.walk; w != nil && (c.usesRank || c.usesPlace) {
		c.printf("%[1]s := %[2]s - %[3]s\n%[4]s.%[5]s = %[1]s\n", c.own("xyz"[w.axis:w.axis+1]), w.i.Name, base, b, "XYZ"[w.axis:w.axis+1])
	}
	if c.usesRank {
		c.printf("%s := %s\n", c.own("r"), c.rankText())
	}
	c.out = append(c.out, inner...)
	c.printf("%s", strings.Repeat("}\n", ends))
}

// rankText is the rank, from the place of the thread in its block.
func (c *cutter) rankText() string {
	x, y, z := c.own("x"), c.own("y"), c.own("z")
	switch {
	case c.Block[1] == 1 && c.Block[2] == 1:
		return x
	case c.Block[1] == 1:
		return fmt.Sprintf("%s*%d + %s", z, c.Block[0], x)
	case c.Block[2] == 1:
		return fmt.Sprintf("%s*%d + %s", y, c.Block[0], x)
	}
	return fmt.Sprintf("(%s*%s+%s)*%s + %s", z, c.dim(1, "%[3]s"), y, c.dim(0, "%[3]s"), x)
}

// stored lists the variables that a region leaves in arrays.
func (c *cutter) stored(r *region) (list []*variable) {
	for _, v := range c.vars {
		if v.array != "" && (v.region == r.id || r.write[v]) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b *variable) int { return cmp.Compare(a.obj.Pos(), b.obj.Pos()) })
	return list
}

// rank is the name of the thread's number in its block.
func (c *cutter) rank() string {
	c.usesRank = true
	return c.own("r")
}

func (c *cutter) label() string { return c.own(fmt.Sprintf("threads%d", c.labels)) }

func (c *cutter) needsLabel(r *region) bool { return r.returns().IsValid() }

// source is the text of the source.
func (c *cutter) source(n ast.Node) string {
	return string(c.src[c.file.Offset(n.Pos()):c.file.Offset(n.End())])
}

// edit replaces a part of the source.
type edit struct {
	from, to token.Pos
	text     string
}

// text is the text of a node as it stands in a loop over threads, or outside of one.
func (c *cutter) text(n ast.Node, inThread bool) string {
	return c.apply(n.Pos(), n.End(), c.edits(n, inThread))
}

// between is the text from one place to another, which has the nodes in it.
func (c *cutter) between(from, to token.Pos, inThread bool, nodes ...ast.Node) string {
	var edits []edit
	for _, n := range nodes {
		if n != nil {
			edits = append(edits, c.edits(n, inThread)...)
		}
	}
	return c.apply(from, to, edits)
}

func (c *cutter) apply(from, to token.Pos, edits []edit) string {
	var b strings.Builder
	for _, e := range edits {
		b.Write(c.src[c.file.Offset(from):c.file.Offset(e.from)])
		b.WriteString(e.text)
		from = e.to
	}
	b.Write(c.src[c.file.Offset(from):c.file.Offset(to)])
	return b.String()
}

// edits lists what is another text in the form of loops.
func (c *cutter) edits(n ast.Node, inThread bool) (list []edit) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if m := c.method(n); m != "" {
				if text := c.indexText(m, inThread); text != "" {
					list = append(list, edit{n.Pos(), n.End(), text})
				}
				return false
			}
		case *ast.Ident:
			switch o := c.Info.Uses[n].(type) {
			case *types.PkgName:
				list = append(list, edit{n.Pos(), n.End(), c.Import(o.Imported())})
			case *types.Func:
				if inThread && o.Pkg() != nil && o.Pkg().Path() == gpuPackage && o.Name() == "Shared" {
					c.fail(n.Pos(), "shared memory that is not declared before all conditions")
				}
			case *types.Var:
				if o == c.thread {
					if !inThread {
						c.usesT = true
					} else {
						c.usesPlace = true
						list = append(list, edit{n.Pos(), n.End(), c.own("b") + ".Thread()"})
					}
				}
			}
		case *ast.ReturnStmt:
			if inThread {
				list = append(list, edit{n.Pos(), n.End(), "continue " + c.label()})
			}
		}
		return true
	})
	return list
}

// indexText is what a method of the thread is in the form of loops; empty where it stays.
func (c *cutter) indexText(method string, inThread bool) string {
	axis := strings.IndexByte("XYZ", method[len(method)-1])
	if axis >= 0 && strings.TrimSuffix(method, "XYZ"[axis:axis+1]) == "BlockDim" && c.Block[0] > 0 {
		c.known[0][axis] = true
		return c.own("size" + "XYZ"[axis:axis+1])
	}
	if !inThread {
		c.usesT = true
		return ""
	}
	place := func(axis int) string {
		c.usesPlace = true
		if axis > 0 && c.Block[axis] == 1 {
			c.known[1][axis] = true
			return c.own("zero" + "XYZ"[axis:axis+1])
		}
		return c.own("xyz"[axis : axis+1])
	}
	switch {
	case method == "Rank":
		return c.rank()
	case method == "Lane":
		return "(" + c.rank() + " & 31)"
	case method == "Warp":
		return "(" + c.rank() + " >> 5)"
	case axis >= 0 && strings.HasPrefix(method, "Thread"):
		return place(axis)
	case axis >= 0 && len(method) == len("GlobalX") && strings.HasPrefix(method, "Global"):
		c.origin[axis] = true
		return fmt.Sprintf("(%s + %s)", c.own("from"+"XYZ"[axis:axis+1]), place(axis))
	}
	c.usesT = true
	return ""
}
