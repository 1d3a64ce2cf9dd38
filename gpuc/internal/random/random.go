// Package random writes kernels by chance, as Go source, for the comparison of the compiler with Go's own.
package random

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The kernels have the signature of Signature. Each thread reads in, at places that an index gives, and writes its own
// part of out; with shared memory all threads of a block come to the same barriers.
const (
	// Signature is the parameters of a kernel.
	Signature = "t *gpu.Thread, out []uint64, in []int64, f []float64, n int"
	// Results is how many elements of out a thread writes.
	Results = 4
	// Inputs is the length of in and of f, a power of two.
	Inputs = 64
)

var ints = []string{"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int", "uint"}

var floats = []string{"float32", "float64"}

// writer writes one kernel.
type writer struct {
	r       *rand.Rand
	b       strings.Builder
	vars    map[string][]string // names by type
	fixed   map[string]bool     // that no statement sets: counters of loops
	n       int                 // of names
	budget  int                 // of statements
	helpers []string            // their types: h0(a, b T, c bool) (T, bool)
	prefix  string
	loops   int  // around the statement
	thread  bool // a kernel, with t, in and f
}

// Kernel is the source of a kernel with a name, and of the functions that it calls.
func Kernel(seed uint64, name string) string {
	r := rand.New(rand.NewPCG(seed, 7))
	var all strings.Builder
	var helpers []string
	for i := range r.IntN(3) {
		t := pick(r, append(ints, floats...))
		w := &writer{r: r, vars: map[string][]string{t: {"a", "b"}, "bool": {"c"}}, fixed: map[string]bool{}, budget: 5, prefix: name, helpers: helpers}
		fmt.Fprintf(&all, "func %s_h%d(a, b %s, c bool) (%s, bool) {\n", name, i, t, t)
		w.statements(2)
		fmt.Fprintf(&all, "%s\treturn %s, %s\n}\n\n", w.b.String(), w.expr(t, 2), w.boolean(2))
		helpers = append(helpers, t)
	}
	w := &writer{r: r, vars: map[string][]string{"int": {"n", "i"}}, fixed: map[string]bool{"i": true, "n": true}, budget: 16, prefix: name, helpers: helpers, thread: true}
	w.line("i := t.GlobalX()")
	shared := r.IntN(3) == 0
	if shared {
		w.line("s := gpu.Shared[[64]int32](t)")
	}
	for range 3 {
		w.declare()
	}
	w.statements(3)
	if shared {
		w.line("s[t.ThreadX()] = %s", w.expr("int32", 2))
		w.line("t.Barrier()")
		w.line("v%d := s[(t.ThreadX()+%d)&63]", w.n, r.IntN(64))
		w.line("_ = v%d", w.n)
		w.vars["int32"] = append(w.vars["int32"], fmt.Sprint("v", w.n))
		w.n++
		w.line("t.Barrier()")
		w.budget += 6
		w.statements(3)
	}
	w.line("o := out[i*%d : (i+1)*%d]", Results, Results)
	w.line("o[0] = uint64(%s)", w.expr("int64", 3))
	w.line("o[1] = uint64(%s)", w.expr("int32", 3))
	w.line("o[2] = math.Float64bits(%s)", w.expr("float64", 3))
	w.line("o[3] = uint64(math.Float32bits(%s))", w.expr("float32", 3))
	fmt.Fprintf(&all, "//purecuda:kernel\nfunc %s(%s) {\n%s}\n\n", name, Signature, w.b.String())
	return all.String()
}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.b, "\t"+format+"\n", args...)
}

// scoped writes in a block of its own.
func (w *writer) scoped(f func()) {
	had := map[string]int{}
	for t, v := range w.vars {
		had[t] = len(v)
	}
	f()
	for t := range w.vars {
		w.vars[t] = w.vars[t][:had[t]]
	}
}

// declare declares a variable, and uses it.
func (w *writer) declare() {
	t := pick(w.r, append(append([]string{"bool"}, ints...), floats...))
	name := fmt.Sprint("v", w.n)
	w.n++
	value := w.boolean(2)
	if t != "bool" {
		value = w.expr(t, 3)
	}
	w.line("var %s %s = %s", name, t, value)
	w.line("_ = %s", name)
	w.vars[t] = append(w.vars[t], name)
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
	kind := w.r.IntN(12)
	if depth == 0 {
		kind %= 5
	}
	switch kind {
	case 0, 1:
		w.declare()
	case 2, 3:
		w.assign()
	case 4:
		w.call()
	case 5, 6:
		w.line("if %s {", w.boolean(2))
		w.scoped(func() { w.statements(depth - 1) })
		if w.r.IntN(2) == 0 {
			w.line("} else {")
			w.scoped(func() { w.statements(depth - 1) })
		}
		w.line("}")
	case 7, 8:
		w.loop(depth)
	case 9:
		w.array(depth)
	case 10:
		t := pick(w.r, ints)
		w.line("switch %s & 3 {", w.expr(t, 2))
		for c := range 3 {
			w.line("case %d:", c)
			w.scoped(func() { w.statements(depth - 1) })
		}
		w.line("}")
	case 11:
		if w.loops > 0 {
			w.line("if %s {\n\t%s\n\t}", w.boolean(2), pick(w.r, []string{"break", "continue"}))
		} else if !w.thread {
			w.line("if %s && %s {\n\treturn a, %s\n\t}", w.boolean(1), w.boolean(1), w.boolean(1))
		}
	}
}

// assign sets a variable.
func (w *writer) assign() {
	for range 5 {
		t := pick(w.r, append(append([]string{"bool"}, ints...), floats...))
		if len(w.vars[t]) == 0 {
			continue
		}
		v := pick(w.r, w.vars[t])
		switch {
		case w.fixed[v]:
			continue
		case t == "bool":
			w.line("%s = %s", v, w.boolean(3))
		default:
			w.line("%s %s= %s", v, pick(w.r, []string{"", "+", "-", "*"}), w.expr(t, 3))
		}
		return
	}
}

// call calls a function with two results.
func (w *writer) call() {
	if len(w.helpers) == 0 {
		w.assign()
		return
	}
	h := w.r.IntN(len(w.helpers))
	t := w.helpers[h]
	w.line("v%d, v%d := %s_h%d(%s, %s, %s)", w.n, w.n+1, w.prefix, h, w.expr(t, 2), w.expr(t, 2), w.boolean(1))
	w.line("_, _ = v%d, v%d", w.n, w.n+1)
	w.vars[t] = append(w.vars[t], fmt.Sprint("v", w.n))
	w.vars["bool"] = append(w.vars["bool"], fmt.Sprint("v", w.n+1))
	w.n += 2
}

// loop writes a loop that ends.
func (w *writer) loop(depth int) {
	name := fmt.Sprint("k", w.n)
	w.n++
	switch w.r.IntN(3) {
	case 0:
		w.line("for %s := range %d {", name, 1+w.r.IntN(9))
	case 1:
		w.line("for %s := %s & 15; %s > 0; %s -= %d {", name, w.expr("int", 1), name, name, 1+w.r.IntN(3))
	case 2:
		w.line("for %s := %d; %s < %s; %s += %d {", name, w.r.IntN(5), name, pick(w.r, w.bounds()), name, 1+w.r.IntN(4))
	}
	w.fixed[name] = true
	w.loops++
	w.scoped(func() {
		w.vars["int"] = append(w.vars["int"], name)
		w.line("_ = %s", name)
		w.statements(depth - 1)
	})
	w.loops--
	w.line("}")
}

// bounds are what a loop counts to.
func (w *writer) bounds() []string {
	if w.thread {
		return []string{"n"}
	}
	return []string{"id(7)", "10"}
}

// array writes statements with an array or a struct.
func (w *writer) array(depth int) {
	t, name := pick(w.r, append(ints, floats...)), fmt.Sprint("a", w.n)
	w.n++
	w.scoped(func() {
		w.line("{")
		if w.r.IntN(2) == 0 {
			w.line("var %s [8]%s", name, t)
			for range 3 {
				w.line("%s[%s & 7] = %s", name, w.expr("int", 1), w.expr(t, 2))
			}
			w.line("for q := range %s { %s[q] += %s[(q+1)&7] }", name, name, name)
			w.line("i%d := %s", w.n, w.expr("int", 1))
			w.line("_ = i%d", w.n)
			w.vars[t] = append(w.vars[t], fmt.Sprintf("%s[%d]", name, w.r.IntN(8)), fmt.Sprintf("%s[i%d&7]", name, w.n))
			w.n++
		} else {
			w.line("var %s struct { x %s; y [2]%s; ok bool }", name, t, t)
			w.line("%s.x, %s.y[1], %s.ok = %s, %s, %s", name, name, name, w.expr(t, 2), w.expr(t, 2), w.boolean(2))
			w.line("b%s := %s", name, name)
			w.line("b%s.y = %s.y", name, name)
			w.vars[t] = append(w.vars[t], name+".x", "b"+name+".y[1]")
			w.vars["bool"] = append(w.vars["bool"], "b"+name+".ok")
		}
		w.statements(depth - 1)
	})
	w.line("}")
}

// expr is an expression of a type of numbers.
func (w *writer) expr(t string, depth int) string {
	float := t[0] == 'f'
	if depth == 0 || w.r.IntN(5) == 0 {
		return w.leaf(t)
	}
	x, y := w.expr(t, depth-1), w.expr(t, depth-1)
	if float {
		switch w.r.IntN(8) {
		case 0, 1:
			return fmt.Sprintf("(%s + %s)", x, y)
		case 2:
			return fmt.Sprintf("(%s - %s)", x, y)
		case 3:
			return fmt.Sprintf("%s(%s * %s)", t, x, y)
		case 4:
			return fmt.Sprintf("(%s / %s)", x, y)
		case 5:
			return fmt.Sprintf("%s(%s, %s)", pick(w.r, []string{"min", "max"}), x, y)
		case 6:
			return fmt.Sprintf("%s(%s)", t, w.expr(pick(w.r, append(ints, floats...)), depth-1))
		}
		return fmt.Sprintf("(-%s)", x)
	}
	switch w.r.IntN(12) {
	case 0, 1, 2:
		return fmt.Sprintf("(%s %s %s)", x, pick(w.r, []string{"+", "-", "*"}), y)
	case 3, 4:
		return fmt.Sprintf("(%s %s %s)", x, pick(w.r, []string{"&", "|", "^", "&^"}), y)
	case 5:
		return fmt.Sprintf("(%s %s (%s | 1))", x, pick(w.r, []string{"/", "%"}), y)
	case 6:
		return fmt.Sprintf("(%s %s %d)", x, pick(w.r, []string{"/", "%"}), 1+w.r.IntN(20))
	case 7:
		return fmt.Sprintf("(%s %s (%s & 31))", x, pick(w.r, []string{"<<", ">>"}), w.expr(pick(w.r, ints[4:8]), depth-1))
	case 8:
		return fmt.Sprintf("(%s%s)", pick(w.r, []string{"-", "^"}), x)
	case 9, 10:
		return fmt.Sprintf("%s(%s)", t, w.expr(pick(w.r, ints), depth-1))
	}
	return fmt.Sprintf("%s(%s, %s)", pick(w.r, []string{"min", "max"}), x, y)
}

// leaf is a variable, an input or a constant. A constant is a variable of its own, so that Go does not compute with it.
func (w *writer) leaf(t string) string {
	if v := w.vars[t]; len(v) > 0 && w.r.IntN(4) > 0 {
		return pick(w.r, v)
	}
	if w.thread && w.r.IntN(2) == 0 {
		if t[0] == 'f' {
			return fmt.Sprintf("%s(f[(i+%d)&%d])", t, w.r.IntN(Inputs), Inputs-1)
		}
		return fmt.Sprintf("%s(in[(i*%d+%d)&%d])", t, w.r.IntN(5), w.r.IntN(Inputs), Inputs-1)
	}
	if t[0] == 'f' {
		return fmt.Sprintf("id(%s(%d.25))", t, w.r.IntN(9))
	}
	return fmt.Sprintf("id(%s(%d))", t, w.r.IntN(120))
}

// boolean is a condition.
func (w *writer) boolean(depth int) string {
	if v := w.vars["bool"]; len(v) > 0 && w.r.IntN(4) == 0 {
		return pick(w.r, v)
	}
	if depth > 0 && w.r.IntN(3) == 0 {
		return fmt.Sprintf("(%s %s %s)", w.boolean(depth-1), pick(w.r, []string{"&&", "||", "==", "!="}), w.boolean(depth-1))
	}
	if w.r.IntN(8) == 0 {
		return "!" + w.boolean(0)
	}
	t := pick(w.r, append(ints, floats...))
	return fmt.Sprintf("(%s %s %s)", w.expr(t, max(0, depth-1)), pick(w.r, []string{"<", "<=", ">", ">=", "==", "!="}), w.expr(t, max(0, depth-1)))
}

// Program is the source of a program with kernels. It runs them on the CPU and writes what they leave in out.
func Program(first uint64, count int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `package main

import (
	"encoding/binary"
	"math"
	"os"

	"github.com/purecuda/purecuda/gpu"
)

func id[T any](v T) T { return v }

`)
	for i := range count {
		b.WriteString(Kernel(first+uint64(i), fmt.Sprint("K", i)))
	}
	fmt.Fprintf(&b, "var kernels = []func(%s){", Signature)
	for i := range count {
		fmt.Fprintf(&b, "K%d, ", i)
	}
	fmt.Fprintf(&b, `}

func main() {
	var in [%d]int64
	var f [%d]float64
	for i := range in {
		in[i] = int64(i*i*0x9e3779b97f4a7c) >> (i %% 64)
		f[i] = float64(i-20) / 7
	}
	for _, k := range kernels {
		out := make([]uint64, 128*%d)
		if err := gpu.Run(gpu.Linear(128, 64), func(t *gpu.Thread) { k(t, out, in[:], f[:], 11) }); err != nil {
			panic(err)
		}
		binary.Write(os.Stdout, binary.LittleEndian, out)
	}
	_ = math.Pi
}
`, Inputs, Inputs, Results)
	return b.String()
}
