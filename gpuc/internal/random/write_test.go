// Package random writes kernels by chance, as Go source, for the comparison of the compiler with Go's own.
package random

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/purecuda/purecuda/gpu"
)

//go:embed data_test.go
var data string

var (
	ints    = []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int", "uint"}
	floats  = []string{"float32", "float64"}
	numbers = slices.Concat(ints, floats)
	types   = slices.Concat(numbers, []string{"bool", "bool"})
)

// Kernel is the source of a kernel, and how it is launched.
type Kernel struct {
	Source string
	Shape  gpu.Shape
	Fails  bool // with n = Fails one thread fails a check
}

// shapes are blocks of 64 threads in all dimensions.
var shapes = []gpu.Shape{
	{Grid: gpu.Dim3{X: 2}, Block: gpu.Dim3{X: 64}},
	{Grid: gpu.Dim3{X: 1, Y: 2}, Block: gpu.Dim3{X: 8, Y: 8}},
	{Grid: gpu.Dim3{X: 1, Y: 1, Z: 2}, Block: gpu.Dim3{X: 4, Y: 4, Z: 4}},
	{Grid: gpu.Dim3{X: 2}, Block: gpu.Dim3{X: 2, Y: 16, Z: 2}},
	{Grid: gpu.Dim3{X: 2, Y: 1, Z: 1}, Block: gpu.Dim3{X: 16, Y: 4}},
}

// writer writes one kernel.
type writer struct {
	r       *rand.Rand
	b       strings.Builder
	vars    map[string][]string // what can be read, by type
	sets    map[string][]string // and what can be set
	n       int                 // of names
	budget  int                 // of statements
	helpers []string            // their types: h0(a, b T, c bool) (T, bool)
	prefix  string
	thread  bool     // a kernel, with t, in, f and so on
	uniform bool     // all threads of a block come here
	labels  []string // of the loops around that threads may leave on their own
	shared  []string // types of the shared arrays s0, s1
}

// New writes a kernel with a name.
func New(seed uint64, name string) Kernel {
	r := rand.New(rand.NewPCG(seed, 7))
	var all strings.Builder
	var helpers []string
	for i := range r.IntN(4) {
		t := pick(r, numbers)
		own := []string{"a", "b"}
		w := &writer{r: r, vars: map[string][]string{t: own, "bool": {"c"}}, sets: map[string][]string{t: own}, budget: 6, prefix: name, helpers: helpers}
		fmt.Fprintf(&all, "func %s_h%d(a, b %s, c bool) (%s, bool) {\n", name, i, t, t)
		w.statements(2)
		if r.IntN(3) == 0 { // a result with a name, which a condition sets
			w.line("if %s { return %s, %s }", w.boolean(1), w.expr(t, 1), w.boolean(1))
		}
		fmt.Fprintf(&all, "%s\treturn %s, %s\n}\n\n", w.b.String(), w.expr(t, 2), w.boolean(2))
		helpers = append(helpers, t)
	}
	k := Kernel{Shape: pick(r, shapes), Fails: r.IntN(4) == 0}
	w := &writer{r: r, vars: map[string][]string{"int": {"n", "i"}}, sets: map[string][]string{}, budget: 18, prefix: name, helpers: helpers, thread: true, uniform: true}
	alone := r.IntN(3) == 0 // nothing waits: the kernel is one loop on the CPU
	w.uniform = !alone
	directive := "//purecuda:kernel"
	if b := k.Shape.Block; r.IntN(3) == 0 {
		directive += fmt.Sprintf(" block=%dx%dx%d", b.X, max(1, b.Y), max(1, b.Z))
	}
	if k.Shape.Block.X == 64 {
		w.line("i := t.GlobalX()")
		if r.IntN(2) == 0 {
			w.line("if i >= len(recs) { return }")
		}
	} else {
		w.line("i := ((t.BlockZ()*t.GridDimY()+t.BlockY())*t.GridDimX()+t.BlockX())*64 + t.Rank()")
	}
	for j := range r.IntN(3) {
		if alone {
			break
		}
		t := pick(r, numbers)
		w.shared = append(w.shared, t)
		w.line("s%d := gpu.Shared[[64]%s](t)", j, t)
		w.line("_ = s%d", j)
	}
	if !alone && r.IntN(4) == 0 {
		k.Shape.SharedBytes = 64 * 4
		w.line("dyn := gpu.DynamicShared[int32](t)")
	}
	w.line("own := out[i*%d : (i+1)*%d]", Results, Results)
	for range 3 {
		w.declare()
	}
	w.statements(3)
	for range 2 + len(w.shared) {
		if !alone {
			w.together(k.Shape.SharedBytes > 0)
		}
		w.budget += 3
		w.statements(2)
	}
	w.line("own[0] = uint64(%s)", w.expr("int64", 3))
	w.line("own[1] = uint64(%s)", w.expr("int32", 3))
	w.line("own[2] = bits64(%s)", w.expr("float64", 3))
	w.line("own[3] = uint64(bits32(%s))", w.expr("float32", 3))
	w.line("own[4] += uint64(%s)<<40 ^ uint64(%s)", w.expr("int8", 2), w.expr("uint16", 2))
	w.line("if %s { own[5] += uint64(recs[i].Sum()) }", w.boolean(3))
	if k.Fails {
		w.line("if n == %d && i == %d {\n\t%s\n\t}", Fails, r.IntN(Threads), pick(r, []string{
			"own[0] = out[len(out)+n]", "own[0] = uint64(in[-n])", "own[0] /= uint64(n-12)", "own[1] = uint64(in[3] % int64(int8(n-12)))",
			"own[0] = uint64(len(in[n:n-3]))", "own[0] = uint64(len(in[:n*9]))", "own[0] = uint64(len(in[:n:n*9]))", "panic(\"no\")",
			"var a [5]int16; a[3] = h[2]; own[0] = uint64(a[i+id(5)])",
			"var q *Rec; if n < 3 { q = &recs[i] }; q.E++", "var q *int64; if n < 3 { q = &sums[0] }; if q == nil && *q > 3 { own[0] = 2 }",
		}))
	}
	fmt.Fprintf(&all, "%s\nfunc %s(%s) {\n%s}\n\n", directive, name, Signature, w.b.String())
	k.Source = all.String()
	return k
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.b, "\t"+format+"\n", args...)
}

// name makes a new name.
func (w *writer) name(prefix string) string {
	w.n++
	return fmt.Sprint(prefix, w.n)
}

// know makes a name known that is declared, and uses it.
func (w *writer) know(t, name string, settable bool) {
	w.line("_ = %s", name)
	w.vars[t] = append(w.vars[t], name)
	if settable {
		w.sets[t] = append(w.sets[t], name)
	}
}

// scoped writes what has names and a uniformity of its own.
func (w *writer) scoped(uniform bool, f func()) {
	vars, sets, was, labels := counts(w.vars), counts(w.sets), w.uniform, len(w.labels)
	w.uniform = w.uniform && uniform
	f()
	w.uniform, w.labels = was, w.labels[:labels]
	for t := range w.vars {
		w.vars[t] = w.vars[t][:vars[t]]
	}
	for t := range w.sets {
		w.sets[t] = w.sets[t][:sets[t]]
	}
}

func counts(m map[string][]string) map[string]int {
	n := map[string]int{}
	for t, v := range m {
		n[t] = len(v)
	}
	return n
}

// value is an expression of any type.
func (w *writer) value(t string, depth int) string {
	if t == "bool" {
		return w.boolean(depth)
	}
	return w.expr(t, depth)
}

// declare declares a variable.
func (w *writer) declare() {
	t, name := pick(w.r, types), w.name("v")
	w.line("var %s %s = %s", name, t, w.value(t, 3))
	w.know(t, name, true)
}

// statements writes some statements, nested at most so deep.
func (w *writer) statements(depth int) {
	for range 1 + w.r.IntN(4) {
		if w.budget--; w.budget < 0 {
			return
		}
		w.statement(depth)
	}
}

func (w *writer) statement(depth int) {
	kind := w.r.IntN(31)
	if depth == 0 {
		kind %= 8
	}
	switch kind {
	case 0, 1:
		w.declare()
	case 2, 3:
		w.assign()
	case 4, 5:
		w.call()
	case 6, 7:
		w.memory()
	case 8, 9, 10:
		cond, uniform := w.boolean(2), false
		if w.thread && w.r.IntN(3) == 0 {
			cond, uniform = pick(w.r, []string{"p.On", "n > 7", "n < 3", "p.A+int32(n) < 0"}), true
		}
		w.line("if %s {", cond)
		w.scoped(uniform, func() { w.statements(depth - 1) })
		if w.r.IntN(2) == 0 {
			w.line("} else {")
			w.scoped(uniform, func() { w.statements(depth - 1) })
		}
		w.line("}")
	case 11, 12, 13:
		w.loop(depth)
	case 14, 15:
		w.array(depth)
	case 16, 17:
		w.choice(depth)
	case 18:
		w.bounded()
	case 19, 20:
		w.leave()
	case 21:
		if w.thread && w.uniform {
			w.together(false)
		} else {
			w.assign()
		}
	case 22:
		w.effects()
	case 23, 24:
		w.everyday()
	case 25, 26:
		w.guarded()
	case 27, 28:
		w.mixed()
	case 29, 30:
		w.sums()
	}
}

// effects writes statements whose operands change what others read. Some of them have an order that Go leaves open.
func (w *writer) effects() {
	c := w.name("c")
	w.line("%s := Counter{S: %s, N: %s & 3}", c, w.expr("uint64", 1), w.expr("uint64", 1))
	open := w.r.IntN(12) == 0
	for range 1 + w.r.IntN(3) {
		x := w.expr("uint64", 1)
		list := []string{"%[1]s.Next() ^ %[1]s.S + %[2]s", "%[1]s.Sum()*3 + %[1]s.Push(%[2]s)", "%[1]s.N + %[1]s.Next()", "%[1]s.V[%[1]s.Push(%[2]s) & 3] - %[1]s.N", "id(%[1]s.S) - %[1]s.Next()"}
		if open {
			list = []string{"%[1]s.S ^ %[1]s.Next() + %[2]s", "%[1]s.V[%[1]s.N & 3] + %[1]s.Push(%[2]s)", "id(%[2]s) + min(%[1]s.S, %[1]s.Next())"}
		}
		e := fmt.Sprintf(pick(w.r, list), c, x)
		switch w.r.IntN(4) {
		case 0:
			w.line("%s.S += %s", c, e)
		case 1:
			w.line("if %s.Next()&1 == 0 && %s.Push(%s)&2 == 0 || %s.N > 2 { %s.V[1] += 5 }", c, c, x, c, c)
		case 2:
			w.line("switch %s & 3 {\n\tcase %s.Next() & 3: %s.N++\n\tcase 1: %s.S--\n\t}", e, c, c, c)
		default:
			v := w.name("v")
			w.line("%s := %s", v, e)
			w.know("uint64", v, true)
		}
	}
	v := w.name("v")
	w.line("%s := %s.Sum()", v, c)
	w.know("uint64", v, true)
	t := pick(w.r, ints)
	if e := w.bump(t); e != "" {
		w.line("%s := %s", v+"b", e)
		w.know(t, v+"b", true)
	}
}

// leave leaves a loop, or a function.
func (w *writer) leave() {
	switch {
	case len(w.labels) > 0:
		w.line("if %s {\n\t%s %s\n\t}", w.boolean(2), pick(w.r, []string{"break", "continue"}), pick(w.r, w.labels))
	case !w.thread:
		w.line("if %s && %s {\n\treturn a, %s\n\t}", w.boolean(1), w.boolean(1), w.boolean(1))
	default:
		l := w.name("L")
		w.line("if %s { goto %s }", w.boolean(2), l)
		w.scoped(false, func() { w.line("{"); w.statements(1); w.line("}") })
		w.line("%s:", l)
		w.line("for %s { break }", w.boolean(1))
	}
}

// assign sets a variable.
func (w *writer) assign() {
	for range 5 {
		t := pick(w.r, types)
		if len(w.sets[t]) == 0 {
			continue
		}
		v := pick(w.r, w.sets[t])
		switch op := w.r.IntN(10); {
		case t == "bool":
			w.line("%s = %s", v, w.boolean(3))
		case op == 0:
			w.line("%s%s", v, pick(w.r, []string{"++", "--"}))
		case op == 1 && t[0] != 'f':
			w.line("%s %s= %s", v, pick(w.r, []string{"&", "|", "^", "&^"}), w.expr(t, 3))
		case op == 2 && t[0] != 'f':
			w.line("%s %s= %s", v, pick(w.r, []string{"<<", ">>"}), w.expr(pick(w.r, ints[4:8]), 1))
		case op == 3 && t[0] != 'f':
			w.line("%s %s= %s | 1", v, pick(w.r, []string{"/", "%"}), w.expr(t, 1))
		case op == 4:
			o := pick(w.r, w.sets[t])
			if o != v {
				w.line("%s, %s = %s, %s", v, o, w.expr(t, 2), w.expr(t, 2))
			}
		case op == 5:
			q := w.name("q")
			w.line("%s := &%s", q, v)
			w.line("*%s += %s", q, w.expr(t, 2))
		default:
			w.line("%s %s= %s", v, pick(w.r, []string{"", "+", "-", "*"}), w.expr(t, 3))
		}
		return
	}
}

// call calls a function with two results.
func (w *writer) call() {
	if len(w.helpers) == 0 || w.r.IntN(4) == 0 {
		w.assign()
		return
	}
	h := w.r.IntN(len(w.helpers))
	t, x, ok := w.helpers[h], w.name("v"), w.name("v")
	w.line("%s, %s := %s_h%d(%s, %s, %s)", x, ok, w.prefix, h, w.expr(t, 2), w.expr(t, 2), w.boolean(1))
	w.know(t, x, true)
	w.know("bool", ok, true)
}

// memory reads and writes global memory that no other thread touches, or that it touches in any order.
func (w *writer) memory() {
	if !w.thread {
		w.assign()
		return
	}
	switch w.r.IntN(10) {
	case 0:
		f := pick(w.r, [][2]string{{"A", "int8"}, {"B", "uint16"}, {"C[1]", "int32"}, {"E", "uint64"}})
		w.line("recs[i].%s %s= %s", f[0], pick(w.r, []string{"", "+", "-", "*", "^"}), w.expr(f[1], 2))
	case 1:
		w.line("recs[i].D, recs[i].F = number(%s), number(%s)", w.expr("float64", 2), w.expr("float32", 2))
	case 2:
		w.line("recs[i].OK = %s", w.boolean(2))
	case 3:
		w.line("recs[i].Turn(%s)", w.expr("int32", 2))
	case 4:
		x := w.name("r")
		w.line("%s := recs[i]", x)
		w.line("%s.C[%s & 1] += %s", x, w.expr("int", 1), w.expr("int32", 1))
		if w.r.IntN(2) == 0 {
			w.line("recs[i] = %s", x)
		}
		w.line("own[5] += uint64(%s.Sum())", x)
	case 5:
		cell := w.r.IntN(7)
		op := []string{"Add", "Min", "Max", "And", "Or", "Xor", "Add"}[cell]
		w.line("gpu.Atomic%s(&sums[%d], %s)", op, cell, w.expr("int64", 2))
	case 6:
		cell := w.r.IntN(7)
		if cell == 6 {
			w.line("gpu.AtomicInc(&counts[6], 1<<30)")
			break
		}
		op := []string{"Add", "Min", "Max", "And", "Or", "Xor"}[cell]
		w.line("gpu.Atomic%s(&counts[%d], %s)", op, cell, w.expr("uint32", 2))
	case 7:
		w.line("gpu.AtomicAdd(&singles[%s & 3], float32(%s & 7))", w.expr("int", 1), w.expr("int", 1))
	case 9:
		x := w.name("v")
		w.line("%s := gpu.Atomic%s(&recs[i].B, %s)", x, pick(w.r, []string{"Add", "Min", "Max", "And", "Or", "Xor", "Exchange"}), w.expr("uint16", 2))
		w.know("uint16", x, true)
	case 8:
		x := w.name("v")
		op := pick(w.r, []string{"Add", "Min", "Max", "And", "Or", "Xor", "Exchange"})
		w.line("%s := gpu.Atomic%s(&own[6], %s)", x, op, w.expr("uint64", 2))
		w.know("uint64", x, true)
		w.line("own[7] ^= gpu.AtomicCompareAndSwap(&own[6], %s, %s)", pick(w.r, []string{x, "own[6]"}), w.expr("uint64", 1))
	}
}

// together writes what all threads of a block do together.
func (w *writer) together(dynamic bool) {
	x := w.name("v")
	if dynamic {
		w.line("dyn[t.Rank()] = %s", w.expr("int32", 2))
		w.line("t.Barrier()")
		w.line("%s := dyn[len(dyn)-1-(t.Rank()^%d)]", x, w.r.IntN(64))
		w.know("int32", x, true)
		w.line("t.Barrier()")
		return
	}
	if len(w.shared) > 0 && w.r.IntN(2) == 0 {
		s := w.r.IntN(len(w.shared))
		t := w.shared[s]
		w.line("s%d[t.Rank()] = %s", s, w.expr(t, 2))
		if atomic := slices.Contains([]string{"int16", "uint16", "int32", "uint32", "int64", "uint64", "int", "uint"}, t); atomic && w.r.IntN(2) == 0 {
			w.line("t.Barrier()")
			w.line("gpu.Atomic%s(&s%d[%s & 63], %s)", pick(w.r, []string{"Add", "Xor", "Min", "Or", "Max", "And"}), s, w.expr("int", 1), w.expr(t, 2))
		}
		w.line("t.Barrier()")
		w.line("%s := s%d[(t.Rank()+%d)&63]", x, s, w.r.IntN(64))
		w.know(t, x, true)
		w.line("t.Barrier()")
		return
	}
	switch w.r.IntN(8) {
	case 6:
		w.group()
	case 7: // who is at this place, counted by its first
		g := w.name("g")
		w.line("if %s {\n\t%s := gpu.Active(t)\n\tif %s.Rank() == 0 { gpu.AtomicAdd(&counts[0], uint32(%s.Size())) }\n\t}", w.boolean(2), g, g, g)
	case 0, 1:
		t := pick(w.r, []string{"int32", "uint32", "int64", "uint64", "int", "float32", "float64"})
		v := w.name("v")
		w.line("%s := %s", v, w.expr(t, 2))
		switch f := pick(w.r, []string{"Shuffle", "ShuffleUp", "ShuffleDown", "ShuffleXor", "Reduce", "Match"}); f {
		case "Reduce":
			if t[0] == 'f' { // the order of the sum is that of the source
				w.line("%s := gpu.Reduce%s(t, number(%s))", x, pick(w.r, []string{"Min", "Max"}), v)
			} else {
				w.line("%s := gpu.Reduce%s(t, %s)", x, pick(w.r, []string{"Add", "Min", "Max"}), v)
			}
		case "Match":
			if t[0] == 'f' {
				v = "number(" + v + ")" // the bits of a NaN are nobody's
			}
			w.line("%s := gpu.MatchAny(t, %s)", x, v)
			t = "uint32"
			if w.r.IntN(2) == 0 {
				w.line("%s += gpu.MatchAny(t, %s)", x, w.expr("int32", 1)+"&3")
			}
		case "Shuffle":
			w.line("%s := gpu.Shuffle(t, %s, %s & 31)", x, v, w.expr("int", 1))
		default:
			w.line("%s := gpu.%s(t, %s, %d)", x, f, v, w.r.IntN(32))
		}
		w.know(t, x, true)
	case 2:
		w.line("%s := gpu.Ballot(t, %s) ^ gpu.LaneMaskBelow(t)", x, w.boolean(2))
		w.know("uint32", x, true)
	case 3:
		w.line("%s := gpu.%s(t, %s)", x, pick(w.r, []string{"All", "Any"}), w.boolean(2))
		w.know("bool", x, true)
	case 4:
		w.line("%s := total(t, %s)", x, w.expr("int32", 2))
		w.know("int32", x, true)
		w.line("gpu.WarpBarrier(t)")
	case 5:
		w.line("t.Barrier()")
	}
}

// loop writes a loop that ends.
func (w *writer) loop(depth int) {
	k, label, uniform := w.name("k"), w.name("L"), false
	head, t := "", "int"
	switch w.r.IntN(7) {
	case 0:
		head, uniform = fmt.Sprintf("for %s := range %d {", k, 1+w.r.IntN(9)), true
	case 1:
		head = fmt.Sprintf("for %s := %s & 15; %s > 0; %s -= %d {", k, w.expr("int", 1), k, k, 1+w.r.IntN(3))
	case 2:
		head, uniform = fmt.Sprintf("for %s := %d; %s < %s; %s += %d {", k, w.r.IntN(5), k, w.bound(), k, 1+w.r.IntN(4)), true
	case 3:
		t = pick(w.r, ints)
		head = fmt.Sprintf("for %s := %s(%d); %s < %d; %s++ {", k, t, w.r.IntN(5), k, 5+w.r.IntN(15), k)
	case 4:
		t = pick(w.r, ints[4:8])
		head = fmt.Sprintf("for %s := %s(%s & 63); %s != 0; %s >>= 1 {", k, t, w.expr(t, 1), k, k)
	case 5:
		if !w.thread {
			head = fmt.Sprintf("for %s := range id(4) {", k)
			break
		}
		t = "int16"
		head = fmt.Sprintf("for _, %s := range h[%s & 31:][:%d] {", k, w.expr("int", 1), 1+w.r.IntN(4))
	case 6:
		t = "int32"
		head = fmt.Sprintf("for _, %s := range tableOfInts {", k)
	}
	uniform = uniform && w.uniform && w.r.IntN(2) == 0
	w.scoped(uniform, func() {
		if !uniform {
			w.line("%s:", label)
			w.labels = append(w.labels, label)
		}
		w.line("%s", head)
		if !uniform {
			w.line("if id(false) { continue %s }", label)
		}
		w.know(t, k, false)
		w.statements(depth - 1)
		w.line("}")
	})
}

// bound is what a loop counts to.
func (w *writer) bound() string {
	if w.thread {
		return "n"
	}
	return pick(w.r, []string{"id(7)", "10"})
}

// choice writes a switch.
func (w *writer) choice(depth int) {
	t := pick(w.r, ints)
	conditions := w.r.IntN(3) == 0
	if conditions {
		w.line("switch {")
	} else {
		w.line("switch %s & 3 {", w.expr(t, 2))
	}
	for c := range 3 {
		switch {
		case conditions:
			w.line("case %s:", w.boolean(2))
		case c == 0:
			w.line("case 0, 3:")
		default:
			w.line("case %d:", c)
		}
		w.scoped(false, func() { w.statements(depth - 1) })
		if c < 2 && w.r.IntN(4) == 0 {
			w.line("fallthrough")
		}
	}
	if w.r.IntN(2) == 0 {
		w.line("default:")
		w.scoped(false, func() { w.statements(depth - 1) })
	}
	w.line("}")
}

// bounded reads where a condition has found the index good.
func (w *writer) bounded() {
	if !w.thread {
		w.assign()
		return
	}
	j, x, t := w.name("j"), w.name("v"), pick(w.r, ints)
	w.line("var %s int64", x)
	w.line("%s := %s", j, w.expr(t, 2))
	switch w.r.IntN(5) {
	case 0:
		w.line("if %s >= 0 && %s < %s(len(in)) { %s = in[%s] }", j, j, t, x, j)
	case 1:
		w.line("if uint64(%s) < uint64(len(h)) { %s = int64(h[%s]) }", j, x, j)
	case 2:
		w.line("if int(%s) < len(in) && int(%s) >= 0 { %s = in[%s] - in[len(in)-1-int(%s)] }", j, j, x, j, j)
	case 3:
		w.line("for k := int(%s&31) * 2; k < len(h); k += %d { %s += int64(h[k]) }", j, 1+w.r.IntN(9), x)
	case 4:
		w.line("%s = fold(in[%s&7:], 3) + int64(fold(h[:%s&15], 1))", x, j, j)
	}
	w.know("int64", x, true)
}

// sums adds up in a field or an element, which lasts from pass to pass.
func (w *writer) sums() {
	if !w.thread {
		w.assign()
		return
	}
	c, v := w.name("c"), w.name("v")
	w.line("%s := Counter{S: %s}", c, w.expr("uint64", 1))
	w.line("%s {", pick(w.r, []string{"for kk := range n", "for kk := range i & 31", "for kk := range n & 15", "for kk := 1; kk <= n; kk++", "for kk := range 13"}))
	if w.r.IntN(4) == 0 {
		w.line("if %s { continue }", pick(w.r, []string{"in[kk&63] < 0", "kk == n - 2", "h[kk&31]&3 == 1"}))
	}
	for range 1 + w.r.IntN(2) {
		w.line("%s += %s", pick(w.r, []string{c + ".S", c + ".V[2]", c + ".V[kk&3]", "(&" + c + ").N"}),
			pick(w.r, []string{"uint64(in[kk&63])", "uint64(h[kk&31])", "uint64(in[63-kk&31]) ^ " + c + ".S", c + ".Push(uint64(h[kk&15]))"}))
	}
	w.line("}")
	w.line("%s := %s.Sum() + %s.V[2]*5 + %s.V[3]", v, c, c, c)
	w.know("uint64", v, true)
}

// array writes statements with an array or a struct.
func (w *writer) array(depth int) {
	t, a := pick(w.r, numbers), w.name("a")
	w.scoped(true, func() {
		w.line("{")
		switch w.r.IntN(4) {
		case 0:
			w.line("var %s [8]%s", a, t)
			for range 3 {
				w.line("%s[%s] = %s", a, w.index(8), w.expr(t, 2))
			}
			w.line("for q := range %s { %s[q] += %s[(q+1)&7] }", a, a, a)
			x := w.name("i")
			w.line("%s := %s", x, w.expr("int", 1))
			w.vars[t] = append(w.vars[t], fmt.Sprintf("%s[%d]", a, w.r.IntN(8)), fmt.Sprintf("%s[%s&7]", a, x))
			w.sets[t] = append(w.sets[t], fmt.Sprintf("%s[%d]", a, w.r.IntN(8)), fmt.Sprintf("%s[%s&7]", a, x))
			w.know("int", x, true)
		case 1:
			w.line("var %s struct { x %s; y [2]%s; ok bool }", a, t, t)
			w.line("%s.x, %s.y[1], %s.ok = %s, %s, %s", a, a, a, w.expr(t, 2), w.expr(t, 2), w.boolean(2))
			w.line("b%s := %s", a, a)
			w.line("b%s.y = %s.y", a, a)
			w.vars[t] = append(w.vars[t], a+".x", "b"+a+".y[1]")
			w.sets[t] = append(w.sets[t], a+".x", a+".y[0]")
			w.vars["bool"] = append(w.vars["bool"], "b"+a+".ok")
		case 2:
			t = pick(w.r, []string{"int8", "uint16", "int32", "uint64", "float32"})
			w.line("%s := [8]%s{1, 2, 3: %s}", a, t, w.expr(t, 2))
			w.line("spread(&%s, %s, %s)", a, w.expr(t, 2), w.expr("int", 1))
			w.vars[t] = append(w.vars[t], fmt.Sprintf("%s[%d]", a, w.r.IntN(8)))
			if w.r.IntN(2) == 0 {
				q := w.name("q")
				w.line("%s := &%s[%s]", q, a, w.index(8))
				w.line("if %s { %s = &%s[%d] }", w.boolean(1), q, a, w.r.IntN(8))
				w.line("*%s -= %s", q, w.expr(t, 1))
				w.vars[t] = append(w.vars[t], "*"+q)
				w.sets[t] = append(w.sets[t], "*"+q)
			}
		case 3:
			w.line("var %s [3][4]%s", a, t)
			w.line("%s[%s&1][%s] = %s", a, w.expr("int", 1), w.index(4), w.expr(t, 2))
			w.line("%s[2] = %s[%s]", a, a, w.index(2))
			w.line("for _, row := range %s { for c, v := range row { %s[0][3-c] += v } }", a, a)
			w.vars[t] = append(w.vars[t], fmt.Sprintf("%s[%d][%d]", a, w.r.IntN(3), w.r.IntN(4)))
		}
		w.statements(depth - 1)
		w.line("}")
	})
}

// index is an index below a power of two.
func (w *writer) index(n int) string {
	t := pick(w.r, ints)
	switch w.r.IntN(3) {
	case 0:
		return fmt.Sprintf("%s %% %d", w.expr(pick(w.r, ints[4:8]), 1), n)
	case 1:
		return fmt.Sprintf("%s(%s & %d)", pick(w.r, ints), w.expr(t, 1), n-1)
	}
	return fmt.Sprintf("%s & %d", w.expr(t, 1), n-1)
}
