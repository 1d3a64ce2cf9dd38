package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/compile"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	lang "github.com/purecuda/purecuda/gpuc/internal/testdata/language"
)

// helpersOfOrder are what the kernels of TestOrder call.
const helpersOfOrder = `
type state struct { s, n uint64; v [8]uint64; in inner }
type inner struct { p, q int }
type holder struct { x []uint64; p *uint64 }

func (r *state) next() uint64 { r.s = r.s*5 + 1; return r.s }
func (r *state) push(x uint64) uint64 { r.v[r.n&7] = x; r.n++; return x }
func (r state) sum() uint64 { return r.s + r.n + r.v[0] }
func (r *state) peek() uint64 { return r.s }
func inc(p *uint64) uint64 { *p++; return *p }
func put(x []uint64, i int) uint64 { x[i&7] = 3; return 1 }
func indirect(r *state) uint64 { return r.next() + 1 }
func ints(p *int) uint64 { *p++; return 1 }
func waits(t *gpu.Thread) uint64 { t.Barrier(); return 1 }
func pair(a, b uint64) uint64 { return a*10 + b }
func set[T any](p *T, v T) uint64 { *p = v; return 1 }
func arrayOf(p *uint64) [4]uint64 { *p++; return [4]uint64{*p, 2, 3, 4} }
func move(h *holder) uint64 { h.x = h.x[1:]; return 1 }
func same(x uint64) uint64 { return x }
func apply(f func(uint64) uint64, x uint64) uint64 { return f(x) }
func deep(f func(uint64) uint64, x uint64) uint64 { return apply(func(y uint64) uint64 { return f(y) }, x) }
func (r inner) sum() uint64 { return uint64(r.p) }
func b2u(b bool) uint64 { if b { return 1 }; return 0 }
`

// TestOrder compiles statements in which a call may set what stands before it. What Go leaves open is an error that
// names what is read; all else compiles.
func TestOrder(t *testing.T) {
	tests := []struct{ body, reads string }{
		{"x[0] = r.s ^ r.next()", "r.s"},
		{"x[0] = x[i] + inc(&i)", "i"},
		{"var a [8]uint64; x[0] = a[i&7] + inc(&i)", "i"},
		{"r.n = 2; x[0] = r.v[r.n-1] + r.push(6)", "r.n"},
		{"x[0] = r.s + indirect(&r)", "r.s"},
		{"x[0] = pair(i, inc(&i))", "i"},
		{"x[0] = r.sum() + pair(r.s, r.next())", "r.s"},
		{"a := [2]uint64{i, inc(&i)}; x[0] = a[0]", "i"},
		{"s := state{s: i, n: inc(&i)}; x[0] = s.sum()", "i"},
		{"x[i&7] = inc(&i)", "i"},
		{"x[r.n&7] = r.push(1)", "r.n"},
		{"x[0], x[1] = i, inc(&i)", "i"},
		{"j, k := i, inc(&i); x[0] = j + k", "i"},
		{"var j, k = i, inc(&i); x[0] = j + k", "i"},
		{"x[0] = two(&i)", "*p"},
		{"x[0] = i << inc(&i)", "i"},
		{"if i < inc(&i) { x[0] = 1 }", "i"},
		{"for i < inc(&i) { x[0] = 1; break }", "i"},
		{"switch i + inc(&i) { case 1: x[0] = 1 }", "i"},
		{"switch { case i < inc(&i): x[0] = 1 }", "i"},
		{"for range x[i:inc(&i)] { x[0]++ }", "i"},
		{"x[0] = min(i, inc(&i))", "i"},
		{"x[0] = uint64(int(i)) + inc(&i)", "i"},
		{"x[0] = -i + inc(&i)", "i"},
		{"x[0] = inc(&i) + i + inc(&i)", "i"},
		{"x[0] = x[1] + put(x, 1)", "x[1]"},
		{"x[0] = x[1] + gpu.AtomicAdd(&x[1], 3)", "x[1]"},
		{"x[0] = x[1] + waits(t)", "x[1]"},
		{"x[0] = *(&x[1]) + inc(&x[1])", "*(&x[1])"},
		{"x[0] = r.sum() * b2u(r.s == r.next())", "r.s"},
		{"p := &r; x[0] = p.s + p.next()", "p.s"},
		{"p := &r; x[0] = pair(p.sum(), 1) + pair(p.v[0], p.push(2))", "p.v[0]"},
		{"x[0] = i + set(&i, 3)", "i"},
		{"s := r; x[0] = sums(r, r.next()) + s.s", "r"},
		{"x[0] = r.plus(inc(&r.s))", "r"},
		{"p := &r; x[0] = p.plus(inc(&r.s))", "p"},
		{"h := holder{x: x}; x[0] = h.x[move(&h)]", "h.x"},
		{"h := holder{x: x}; h.x[0] = move(&h)", "h.x"},
		{"x[0] = arrayOf(&i)[inc(&i)&3]", "inc"},
		{"a := [2][2]uint64{}; x[0] = a[inc(&i)&1][inc(&i)&1]", "inc"},
		{"x[0] = literal(x)", "i"},

		{"x[0] = r.next() ^ r.s", ""},
		{"x[0] = inc(&i) + i", ""},
		{"x[0] = same(i) + inc(&i)", ""},
		{"x[0] = r.sum() + r.next()", ""},
		{"x[0] = b2u(i == 3 && inc(&i) == 4) + inc(&i)", ""},
		{"if i < 3 || inc(&i) < 4 { x[0] = i }", ""},
		{"x[0] = r.s + r.peek()", ""},
		{"x[0] = r.n + r.next()", ""},
		{"j := i; x[0] = j + inc(&i)", ""},
		{"i += inc(&i); x[0] = i", ""},
		{"r.s ^= r.next(); x[0] = r.s", ""},
		{"x[0] += r.next()", ""},
		{"r.in.p, r.in.q = 3, 4; x[0] = uint64(r.in.p) + ints(&r.in.q)", "r.in.p"},
		{"x[0] = i + ints(&r.in.q)", ""},
		{"x[0] = x[1] + ints(&r.in.q)", ""},
		{"x[0], x[1] = x[1], x[0]", ""},
		{"x[0], i = i, 3; x[1] = i", ""},
		{"a := [8]uint64{1, 2}; a[i&7] = put(x, 2); x[1] = a[3]", ""},
		{"x[0] = r.v[inc(&i)&7]", ""},
		{"switch i { case inc(&i): x[0] = 1; case 7: x[0] = 2 }", ""},
		{"for j := range x[inc(&i)&1:] { x[j] = 1 }", ""},
		{"x[0] = uint64(len(x)) + put(x, 2)", ""},

		{"n := x[1]; f := func() uint64 { i++; return i }; g := func() uint64 { return n }; x[0] = i + f() + g()", "i"},
		{"n := x[1]; f := func() uint64 { i++; return i }; g := func() uint64 { return n }; x[0] = n + f() + g()", ""},
		{"f := func() uint64 { r.n++; return 1 }; x[0] = r.in.sum() + r.n + f()", "r.n"},
		{"s := r; f := func() uint64 { r.n++; return 1 }; x[0] = s.n + f() + s.next()", ""},
		{"f := func(v uint64) uint64 { return v*2 }; g := func() uint64 { return f(3) }; i++; x[0] = i + g()", ""},
		{"f := func(v uint64) uint64 { i++; return v*2 }; g := func() uint64 { return f(3) }; x[0] = i + g()", "i"},
		{"var f func(v uint64) uint64; f = func(v uint64) uint64 { if v == 0 { i++; return 1 }; return v }; g := func() uint64 { return f(3) }; x[0] = i + g()", "i"},
		{"n := x[1]; g := func() uint64 { n++; return 1 }; f := func(v uint64) uint64 { return v*n }; x[0] = i + apply(f, 3) + g()", ""},
		{"f := func(v uint64) uint64 { i++; return v }; x[0] = i + apply(f, 3)", "i"},
		{"f := func(v uint64) uint64 { i++; return v }; x[0] = i + deep(f, 3)", "i"},
		{"g := gpu.Tile(t, 4); x[0] = i + gpu.GroupReduce(g, i, func(a, b uint64) uint64 { i++; return a + b })", "i"},
		{"g := gpu.Tile(t, 4); var f func(a, b uint64) uint64; f = func(a, b uint64) uint64 { i++; return gpu.GroupReduce(g, a, f) }; x[0] = i + gpu.GroupReduce(g, i, f)", "i"},
		{"f := r.next; x[0] = r.s + f()", "r.s"},
	}
	var source strings.Builder
	source.WriteString(helpersOfOrder + `
func two(p *uint64) uint64 { a, b := results(p); return a + b }
func results(p *uint64) (uint64, uint64) { return *p, inc(p) }
func sums(r state, n uint64) uint64 { return r.sum() + n }
func (r state) plus(n uint64) uint64 { return r.sum() + n }
func literal(x []uint64) uint64 { f := func(i uint64) uint64 { return i + inc(&i) }; return f(x[1]) }
`)
	for i, c := range tests {
		fmt.Fprintf(&source, "//purecuda:kernel\nfunc K%d(t *gpu.Thread, x []uint64, y int) {\n\tvar r state; i := x[2]; inc(&i); r.s = x[3]\n\t%s\n}\n\n", i, c.body)
	}
	p, err := load(t, source.String())
	require.NoError(t, err)
	for i, c := range tests {
		_, err := p.Compile(compile.Options{Arch: 75, Checks: compile.ChecksReport}, fmt.Sprint("K", i))
		switch {
		case c.reads == "":
			assert.NoError(t, err, c.body)
		case c.reads == "inc":
			assert.ErrorContains(t, err, "are called in the array and in its index", c.body)
		default:
			assert.ErrorContains(t, err, ": "+c.reads+" is read, and ", c.body)
		}
	}
}

// What is not an error is the same as in Go.
func TestOrdered(t *testing.T) {
	inModes(t, langFolder, func(t *testing.T, d *device.Device) {
		d.Same(t, "Ordered", gpu.Shape1D(64, 32), func(t *gpu.Thread, a []any) { lang.Ordered(t, as[[]uint64](a, 0)) }, make([]uint64, 64*lang.Orders))
	})
}
