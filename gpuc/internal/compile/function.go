package compile

import (
	"fmt"
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A function becomes one of PTX, and is not inlined, where //go:noinline stands before it, where it calls itself, and
// where it is large and called more than once. It has a parameter for each number and pointer of what it takes, and
// one result in memory for all that it gives. The address space of its pointers is fixed: others make another function.

// outlined says which functions are not inlined. It is kept from one attempt to the next.
type outlined struct {
	large     map[*ssa.Function]bool
	recursive map[*ssa.Function]bool // they count how deep they are called
}

// large is how many instructions a function has that is not inlined a second time. All of a SHA-256 stays in registers.
const large = 5000

// callee is a function that is not inlined.
type callee struct {
	name    string
	fn      *ssa.Function
	params  []string // types
	results []scalar // with offsets in the memory of the result
	size    int64    // of that memory
	text    string
	instrs  int
	frame   int // bytes of the stack, about
}

// functions are the callees of a kernel.
type functions struct {
	by      map[string]*callee
	list    []*callee // in the order of their ends
	active  []*callee // that are compiled now
	grid    bool      // blocks wait for each other
	blocks  int       // that a multiprocessor has to have room for, says a call
	version string    // of PTX, if a kernel needs a newer one than its target
	// flows has the slice parameters that a slice parameter of a callee can be.
	flows map[string][]string
}

// noinline reports whether a function says that it is not to be inlined.
func noinline(fn *ssa.Function) bool {
	if fn.Origin() != nil {
		fn = fn.Origin()
	}
	d, ok := fn.Syntax().(*ast.FuncDecl)
	return ok && d.Doc != nil && slices.ContainsFunc(d.Doc.List, func(c *ast.Comment) bool { return c.Text == "//go:noinline" })
}

// outlines reports whether a function is not inlined.
func (k *kctx) outlines(fn *ssa.Function) bool {
	return k.outlined.large[fn] || k.outlined.recursive[fn] || noinline(fn)
}

// recursion notes that functions call each other, and begins again.
func (k *kctx) recursion(list ...*ssa.Function) {
	for _, fn := range list {
		k.outlined.recursive[fn] = true
	}
	panic(restart{})
}

// flat lists the scalars and pointers of a value.
func flat(v val, out []val) []val {
	switch v.k {
	case kAgg:
		for _, e := range v.e {
			out = flat(e, out)
		}
	case kThread, kNone:
	case kFunc:
		for _, e := range v.e {
			out = flat(e, out)
		}
	default:
		out = append(out, v)
	}
	return out
}

// rebuild makes a value of the shape of v from scalars and pointers.
func rebuild(v val, from *[]val) val {
	switch v.k {
	case kAgg, kFunc:
		w := val{k: v.k, fn: v.fn}
		for _, e := range v.e {
			w.e = append(w.e, rebuild(e, from))
		}
		return w
	case kThread, kNone:
		return v
	}
	w := (*from)[0]
	*from = (*from)[1:]
	return w
}

// paramType is the type of a parameter in PTX.
func paramType(k kind) string {
	switch k {
	case kPred:
		return "b32"
	case kPtr:
		return "b64"
	}
	return suffix(k)
}

// callFunction calls a function that is not inlined.
func (k *kctx) callFunction(fn *ssa.Function, args []val, caller *ssa.Function, in *ssa.Call) val {
	k.enter(caller, in.Pos())
	defer k.leave()
	for i, c := range k.funcs.active {
		if c.fn == fn {
			var list []*ssa.Function
			for _, a := range k.funcs.active[i:] {
				if !k.outlined.recursive[a.fn] {
					list = append(list, a.fn)
				}
			}
			if len(list) > 0 {
				k.recursion(list...)
			}
		}
	}
	var leaves []val
	for _, a := range args {
		leaves = flat(a, leaves)
	}
	leaves = captured(leaves)
	key := fn.String()
	if fn.Signature.Recv() == nil && fn.TypeArgs() != nil {
		key = fmt.Sprint(key, fn.TypeArgs())
	}
	for _, a := range args {
		key += functionsIn(a)
	}
	for _, l := range leaves {
		key += fmt.Sprint(" ", l.k)
		if l.k == kPtr {
			if l.p.sp == spCell || l.p.sp == spParam {
				k.demote(l.p.al)
			}
			key += fmt.Sprint(" ", l.p.sp, l.p.aligned(16), l.p.holds, l.p.null || l.p.maybe, l.functionKey(leaves))
		}
	}
	c, ok := k.funcs.by[key]
	if !ok {
		if again := slices.DeleteFunc(slices.Clone(k.funcs.active), func(c *callee) bool { return c.fn != fn }); len(again) > maxDepth {
			k.endless(in.Pos(), fn)
		}
		c = k.function(key, fn, args, leaves)
	}
	var list []string
	for i, l := range leaves {
		switch l.k {
		case kPtr:
			if l.p.sp == spGlobal && !l.p.null {
				to := fmt.Sprint(c.name, ":", i)
				if !slices.Contains(k.funcs.flows[to], l.p.root) {
					k.funcs.flows[to] = append(k.funcs.flows[to], l.p.root)
				}
			}
			list = append(list, k.address(l).r)
		case kPred:
			if l.isC {
				list = append(list, fmt.Sprint(l.c))
			} else {
				list = append(list, k.pure("selp.b32", k32, "1", "0", l.r).r)
			}
		default:
			list = append(list, l.String())
		}
	}
	if k.o.Checks == ChecksReport {
		list = append(list, k.reportAddress())
	}
	if k.counts(fn) {
		depth := fmt.Sprint(k.src.depth())
		if k.depth != "" {
			depth = k.pure("sub.u32", k32, k.depth, "1").r
		}
		list = append(list, depth)
	}
	var dst []string
	var got []val
	for _, l := range c.results {
		kd := l.k
		if kd == kPred {
			kd = k32
		}
		r := k.reg(kd)
		dst, got = append(dst, r.r), append(got, r)
	}
	i := k.emit("call", dst, list...)
	i.side, i.call = true, c
	for i, l := range c.results {
		if l.k == kPred {
			got[i] = k.pure("setp.ne.u32", kPred, got[i].r, "0")
		}
	}
	return rebuild(k.shape(resultType(fn)), &got)
}

// counts reports whether a function has a parameter that says how much deeper it may be called.
func (k *kctx) counts(fn *ssa.Function) bool {
	return k.outlined.recursive[fn] && k.o.Checks != ChecksOff
}

func resultType(fn *ssa.Function) types.Type {
	if fn.Signature.Results().Len() == 1 {
		return fn.Signature.Results().At(0).Type()
	}
	return fn.Signature.Results()
}

// holdsPointer reports whether results have what a function that is not inlined cannot return.
func holdsPointer(t *types.Tuple) bool {
	for p := range t.Variables() {
		for _, l := range cellsOf(p.Type(), 0, nil) {
			if l.k == kPtr || l.k == kNone || l.k == kThread || l.k == kFunc {
				return true
			}
		}
	}
	return false
}

// shape is a value of a type without registers.
func (k *kctx) shape(t types.Type) val {
	if u, ok := t.(*types.Tuple); ok {
		v := val{k: kAgg}
		for p := range u.Variables() {
			v.e = append(v.e, k.zero(p.Type()))
		}
		return v
	}
	return k.zero(t)
}

// reportAddress is the address of the report.
func (k *kctx) reportAddress() string {
	return k.pure("ld.param.u64", k64, "["+k.name+"_report]").r
}

// function compiles a function that is not inlined.
func (k *kctx) function(key string, fn *ssa.Function, args, leaves []val) *callee {
	c := &callee{name: fmt.Sprintf("%s$%s$%d", k.src.Symbol(), plainName(fn.Name()), len(k.funcs.by)), fn: fn}
	k.funcs.by[key] = c
	k.funcs.active = append(k.funcs.active, c)
	for p := range fn.Signature.Results().Variables() {
		if holdsPointer(fn.Signature.Results()) {
			why := "is not inlined"
			if k.outlined.recursive[fn] {
				why = "calls itself"
			}
			k.fail(fn.Pos(), "%s %s, so it returns no %s: return an index, or give it the memory to write to", called(fn), why, p.Type())
		}
		for _, l := range cellsOf(p.Type(), 0, nil) {
			l.size = max(4, l.size)
			l.off = (c.size + l.size - 1) / l.size * l.size
			c.size = l.off + l.size
			c.results = append(c.results, l)
		}
	}
	sub := newKctx(k.p, k.o, k.src)
	sub.fn, sub.name, sub.pos, sub.callee = fn, c.name, fn.Pos(), c
	sub.calls, sub.base, sub.stack, sub.loops = k.calls, len(k.calls), k.stack, []int{0}
	sub.demoted, sub.met, sub.unit = k.demoted, k.met, k.unit
	sub.written, sub.funcs, sub.outlined, sub.rolled, sub.shrink = k.written, k.funcs, k.outlined, k.rolled, k.shrink
	var values []val
	for i, l := range leaves {
		c.params = append(c.params, paramType(l.k))
		at := fmt.Sprintf("[%s_%d]", c.name, i)
		r := sub.reg(map[kind]kind{kPred: k32, kPtr: k64}[l.k])
		if l.k != kPred && l.k != kPtr {
			r = sub.reg(l.k)
		}
		sub.emit("ld.param."+paramType(l.k), []string{r.r}, at)
		switch l.k {
		case kPred:
			r = sub.pure("setp.ne.u32", kPred, r.r, "0")
		case kPtr:
			p := &ptr{sp: l.p.sp, base: r.r, maybe: l.p.null || l.p.maybe, holds: l.p.holds, root: fmt.Sprint(c.name, ":", i)}
			if l.p.aligned(16) {
				p.align = 16
			}
			r = val{k: kPtr, p: p}
		}
		values = append(values, r)
	}
	if k.o.Checks == ChecksReport {
		c.params = append(c.params, "b64")
	}
	if k.counts(fn) {
		c.params = append(c.params, "b32")
		sub.depth = sub.reg(k32).r
		sub.emit("ld.param.b32", []string{sub.depth}, "["+c.name+"_depth]")
		sub.trap(fn.Pos(), fmt.Sprintf("%s is called more than %d deep (recursion=%d)", called(fn), k.src.depth(), k.src.depth()), "0", "0",
			sub.pure("setp.eq.u32", kPred, sub.depth, "0").r)
	}
	sub.ordered(fn)
	f, s := k.newFrame(fn, c.name), newScope(nil, nil)
	passFunctions(leaves, values)
	own := make([]val, len(args))
	for i, a := range args {
		own[i] = rebuild(a, &values)
	}
	bind(s, fn, own)
	s.done[fn.Blocks[0]] = newTable(sub.cur)
	sub.stack = append(slices.Clone(k.stack), running{fn, own[len(own)-len(fn.FreeVars):]})
	sub.region(f, s, map[*ssa.BasicBlock]bool{fn.Blocks[0]: true})
	sub.finishFunction(c)
	k.unrolled = k.unrolled || sub.unrolled
	k.funcs.active = k.funcs.active[:len(k.funcs.active)-1]
	k.funcs.list = append(k.funcs.list, c)
	return c
}

// plainName keeps what a name in PTX can have.
func plainName(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 128 && (r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return r
		}
		return -1
	}, s)
}

// store stores what a function gives.
func (c *callee) store(k *kctx, v val) {
	for i, x := range flat(v, nil) {
		l, w := c.results[i], x.String()
		if x.k == kPred && !x.isC {
			w = k.pure("selp.b32", k32, "1", "0", x.r).r
		}
		k.emit("st.param."+paramType(l.k), nil, fmt.Sprintf("[%s_result+%d]", c.name, l.off), w).side = true
	}
}

// head is how the function begins.
func (c *callee) head() string {
	var list []string
	for i, t := range c.params {
		list = append(list, fmt.Sprintf(".param .%s %s_%d", t, c.name, i))
	}
	result := ""
	if c.size > 0 {
		result = fmt.Sprintf("(%s) ", c.result(c.name+"_result"))
	}
	return fmt.Sprintf(".func %s%s(%s)", result, c.name, strings.Join(list, ", "))
}

// result declares the result.
func (c *callee) result(name string) string {
	if len(c.results) == 1 {
		return fmt.Sprintf(".param .%s %s", paramType(c.results[0].k), name)
	}
	return fmt.Sprintf(".param .align 8 .b8 %s[%d]", name, c.size)
}

// finishFunction makes the text of a function.
func (k *kctx) finishFunction(c *callee) {
	k.failures()
	code := k.passes()
	var b strings.Builder
	b.WriteString(c.head() + "\n")
	c.instrs = k.body(&b, code)
	c.frame = frameBytes(code, k.decls)
	text := strings.ReplaceAll(b.String(), markLabel, "$L_"+c.name+"_")
	n := len(c.params)
	if k.counts(c.fn) {
		n--
		text = strings.ReplaceAll(text, "["+c.name+"_depth]", fmt.Sprintf("[%s_%d]", c.name, n))
	}
	c.text = strings.ReplaceAll(text, "["+c.name+"_report]", fmt.Sprintf("[%s_%d]", c.name, n-1))
}

// frameBytes is about how much of the stack a function takes: its variables, and the registers that live across a call.
func frameBytes(code []ins, decls []string) int {
	first, last, size := -1, -1, 64
	for j, i := range code {
		if i.call != nil {
			if first < 0 {
				first = j
			}
			last = j
		}
	}
	defs, seen := map[string]bool{}, map[string]bool{}
	for j, i := range code {
		if j > first && first >= 0 {
			for _, r := range i.src {
				if defs[r] && !seen[r] {
					seen[r] = true
					size += 8
				}
			}
		}
		if j < last {
			for _, r := range i.dst {
				defs[r] = true
			}
		}
	}
	for _, d := range decls {
		n := 0
		if _, rest, ok := strings.Cut(d, "["); ok && strings.HasPrefix(d, ".local") {
			_, _ = fmt.Sscan(rest[:strings.IndexByte(rest, ']')], &n)
		}
		size += (n + 15) &^ 15
	}
	return size
}

// aliases marks as written what a function writes through a parameter.
func (f *functions) aliases(written map[string]bool) {
	for again := true; again; {
		again = false
		for to, from := range f.flows {
			for _, r := range from {
				if written[to] && !written[r] {
					written[r], again = true, true
				}
			}
		}
	}
}

// writeCall writes a call with its parameters.
func (i *ins) writeCall(b *strings.Builder) {
	c := i.call
	args := strings.Split(i.text, ", ")
	b.WriteString("\t{\n")
	var names []string
	for j, t := range c.params {
		fmt.Fprintf(b, "\t\t.param .%s a%d;\n\t\tst.param.%s [a%d], %s;\n", t, j, t, j, args[j])
		names = append(names, fmt.Sprint("a", j))
	}
	result := ""
	if c.size > 0 {
		fmt.Fprintf(b, "\t\t%s;\n", c.result("r"))
		result = "(r), "
	}
	fmt.Fprintf(b, "\t\tcall %s%s, (%s);\n", result, c.name, strings.Join(names, ", "))
	for j, l := range c.results {
		fmt.Fprintf(b, "\t\tld.param.%s %s, [r+%d];\n", paramType(l.k), i.dst[j], l.off)
	}
	b.WriteString("\t}\n")
}

// converge has the threads of each warp together before barriers, before other instructions with .aligned and before those for all lanes, in
// a kernel with functions that are not inlined. Threads may return from one at different times, above all from a recursive one. ptxas takes
// them for being together: it makes nothing of barrier.sync, or of a constant mask. So the mask, which is all lanes, is one that it does
// not know.
func (k *kctx) converge() {
	if len(k.funcs.list) == 0 && k.callee == nil {
		return
	}
	out := k.out
	k.out = make([]ins, 0, len(out))
	for _, i := range out {
		if strings.HasPrefix(i.op, "bar.sync") || strings.HasPrefix(i.op, "bar.red") || strings.Contains(i.op, ".aligned") ||
			strings.Contains(i.op, ".sync") && strings.HasSuffix(i.text, "-1") {
			le, all := k.reg(k32), k.reg(k32)
			k.emit("mov.u32", []string{le.r}, "%lanemask_le")
			k.emit("mov.u32", []string{all.r}, "%lanemask_gt")
			k.emit("or.b32", []string{all.r}, all.r, le.r)
			k.emit("bar.warp.sync", nil, all.r).side = true
		}
		k.out = append(k.out, i)
	}
}

// takeAddresses has the kernel take the address of each function that calls itself. ptxas crashes where it finds that all calls of one are never made,
// unless somebody has its address (CUDA 11.8).
func (k *kctx) takeAddresses() {
	if k.callee != nil {
		return
	}
	var all []ins
	for _, c := range k.funcs.list {
		if k.outlined.recursive[c.fn] {
			all = append(all, ins{op: "mov.u64", dst: []string{k.reg(k64).r}, text: c.name, side: true})
		}
	}
	if len(all) > 0 {
		k.out = append(all, k.out...)
	}
}
