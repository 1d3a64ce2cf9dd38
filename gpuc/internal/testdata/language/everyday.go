package testlanguage

import (
	"encoding/binary"
	"slices"

	"github.com/purecuda/purecuda/gpu"
)

// Words turns slices into arrays, and into pointers to arrays.
//
//purecuda:kernel
func Words(t *gpu.Thread, out []uint32, in []byte, f []float32) {
	if i := t.GlobalX(); 4*i+4 <= len(in) && 4*i+4 <= len(f) && 3*i+2 < len(out) {
		w := [4]byte(in[4*i : 4*i+4])
		out[3*i] = uint32(w[0]) | uint32(w[3])<<24
		p := (*[4]float32)(f[4*i:])
		out[3*i+1] = uint32(int32(p[1] + p[2]))
		p[3] = p[0] * 2
		out[3*i+2] = uint32(len(p))
	}
}

// Bytes reads and writes bytes with package encoding/binary.
//
//purecuda:kernel
func Bytes(t *gpu.Thread, out []byte, in []byte) {
	if i := t.GlobalX(); 8*i+8 <= len(in) && 8*i+8 <= len(out) {
		a, b := in[8*i:8*i+8], out[8*i:8*i+8]
		binary.BigEndian.PutUint32(b, binary.LittleEndian.Uint32(a)+1)
		binary.LittleEndian.PutUint16(b[4:], binary.BigEndian.Uint16(a[4:])^0x55aa)
		b[6], b[7] = byte(binary.LittleEndian.Uint64(a)>>48), 9
	}
}

func raise(p *int32) { *p += 2 }

type stepper struct{ i, n int32 }

func (c *stepper) ok() bool { return c.i < c.n }
func (c *stepper) next()    { c.i += 3 }

// LoopVariables takes the address of loop variables.
//
//purecuda:kernel
func LoopVariables(t *gpu.Thread, out, x []int32) {
	i := t.GlobalX()
	if i >= len(out) {
		return
	}
	sum := int32(0)
	for j := int32(0); j < x[i]; j++ {
		raise(&j)
		sum += j
	}
	for c := (stepper{0, x[i]}); c.ok(); c.next() {
		if c.i == 6 {
			continue
		}
		sum += c.i * 7
	}
	for j := range 5 {
		v := int32(j)
		raise(&v)
		p := &v
		sum += *p
	}
	for j := range int32(4) {
		raise(&j)
		sum = 3*sum + j
	}
	out[i] = sum
}

// Moves clears and copies: slices, arrays, parts that overlap, and constant text.
//
//purecuda:kernel
func Moves(t *gpu.Thread, out, x []int32, text []byte) {
	i := t.GlobalX()
	if 16*i+16 > len(out) || 16*i+16 > len(x) {
		return
	}
	own := out[16*i : 16*i+16]
	n := copy(own, x[16*i:16*i+12])
	copy(own[2:], own[:6])
	copy(own[i%5:], own[4:9])
	clear(own[n-1 : n+int(x[0]&1)])
	var local [8]int32
	for j := range local {
		local[j] = own[j] * 3
	}
	copy(local[1:], local[:4])
	copy(local[i%3:], local[3:6])
	copy(own[8:], local[:])
	clear(local[2:])
	none := copy(local[:2], x[i:i])
	own[15] += local[i&7] + int32(none+len(local))
	copy(text[4*i:], "go!")
	quads := [3]gpu.Int4{{X: 1, Y: 2}, {Z: 3}, {W: own[3]}}
	copy(quads[1:], quads[:2])
	own[14] = quads[1].Y + quads[2].Z
}

// Sample has what Go compares, and a field that it leaves out.
type Sample struct {
	A int32
	_ int32
	B float32
	C [2]uint8
}

// Equal compares structs and arrays.
//
//purecuda:kernel
func Equal(t *gpu.Thread, out []int32, x, y []Sample) {
	i := t.GlobalX()
	if i >= len(out) || i >= len(x) || i >= len(y) {
		return
	}
	n := int32(0)
	if x[i] == y[i] {
		n |= 1
	}
	if x[i].C != y[i].C {
		n |= 2
	}
	if (Sample{A: x[i].A}) == (Sample{A: 3}) {
		n |= 4
	}
	if [2]int32{n, x[i].A} != [2]int32{1, y[i].A} {
		n |= 8
	}
	if (struct{}{}) == (struct{}{}) {
		n |= 16
	}
	a, b := x[i], [1]Sample{y[i]}
	if [1]Sample{a} == b {
		n |= 32
	}
	out[i] = n
}

// first is the place of the first element that is above a limit.
func first(x []int32, above int32) (found *int32) {
	for i := range x {
		if x[i] > above {
			found = &x[i]
			break
		}
	}
	return found
}

// Nils compares pointers and slices with nil, and with each other.
//
//purecuda:kernel block=32
func Nils(t *gpu.Thread, out, x []int32) {
	shared := gpu.Shared[[32]int32](t)
	shared[t.ThreadX()] = int32(t.ThreadX())
	t.Barrier()
	i := t.GlobalX()
	if i >= len(out) || i >= len(x) {
		return
	}
	n := int32(0)
	if p := first(x, x[i]); p != nil {
		n = *p
	} else if p == nil {
		n = -1
	}
	var last *int32
	for j := range x {
		if x[j] == x[i] {
			last = &x[j]
		}
	}
	if last == &x[i] {
		n += 1000
	}
	var q *int32
	if x[i]&1 != 0 {
		q = &shared[x[i]&31]
	}
	if q == nil {
		n += 2000
	} else {
		n += *q * 10000
	}
	var s []int32
	if s == nil {
		n += 4000
	}
	if x[i]&2 != 0 {
		s = shared[:3]
	}
	if s != nil {
		n += s[1] * 8000
	}
	own := [3]int32{1, 2, 3}
	var r *int32
	for j := range own {
		if own[j] == x[i]&3 {
			r = &own[j]
		}
	}
	if r != nil {
		n += *r
	}
	var f func(int32) int32
	if f == nil {
		f = twice
	}
	out[i] = f(n)
}

func twice(x int32) int32 { return 2 * x }

const hexDigits = "0123456789abcdef"

// Texts reads constant strings.
//
//purecuda:kernel
func Texts(t *gpu.Thread, out []byte, x []uint32) {
	i := t.GlobalX()
	if 8*i+8 > len(out) || i >= len(x) {
		return
	}
	for j := range 4 {
		out[8*i+j] = hexDigits[x[i]>>(4*j)&15]
	}
	for j, c := range "aé€" {
		out[8*i+4] += byte(int(c) * (j + 1))
	}
	for j, c := range "plain" {
		if c == 'i' {
			out[8*i+5] = byte(j)
		}
	}
	name := "odd one"
	if x[i]&1 == 0 {
		name = "even"
	}
	out[8*i+6] = name[x[i]>>8&3]
	out[8*i+7] = byte(len(name)) + letter("xyz", i) + letter(name[1:4], i)
	if name[:4] == "even" {
		out[8*i+7]++
	}
	const same = "a" < "b"
	if same && name != "" {
		out[8*i+7] += 2
	}
}

func letter(s string, i int) byte { return s[i%len(s)] }

func apply(f func(int32) int32, x int32) int32 { return f(x) }

func fold(x []int32, start int32, op func(a, b int32) int32) int32 {
	for _, v := range x {
		start = op(start, v)
	}
	return start
}

type scaler struct{ by int32 }

func (s scaler) scale(x int32) int32    { return s.by * x }
func (s *scaler) rescale(x int32) int32 { s.by++; return s.by * x }

//go:noinline
func far(f func(int32) int32, x int32) int32 { return f(x) + 1 }

func pick(odd bool) func(int32) int32 {
	if odd {
		return func(x int32) int32 { return x + 1 }
	}
	return twice
}

// FunctionValues calls functions that are values, and are known when the kernel is compiled.
//
//purecuda:kernel
func FunctionValues(t *gpu.Thread, out, x []int32) {
	i := t.GlobalX()
	if i >= len(out) || i >= len(x) {
		return
	}
	f := twice
	n := f(x[i]) + apply(f, 3) + apply(func(x int32) int32 { return x * x }, x[i])
	k := x[i] & 7
	add := func(v int32) { n += v * k }
	add(1)
	k++
	add(2)
	for j := range x {
		add(int32(j))
	}
	n += fold(x, 1, func(a, b int32) int32 { return max(a, b-k) })
	s := scaler{by: 3}
	n += apply(s.scale, x[i]) + apply(s.rescale, 2)
	n += apply(s.rescale, 3) + s.by + scaler.scale(s, 2)
	n += far(twice, x[i]) + far(s.scale, 5)
	n += pick(true)(5) + pick(false)(5)
	best := x[0]
	each(x, func(v int32) bool {
		if v > best {
			best = v
		}
		return v < 40
	})
	for j, v := range slices.All(x) {
		if v == 13 {
			n += int32(j)
			break
		}
	}
	best += slices.Max(x) + int32(slices.Index(x, x[i]))
	best += slices.MaxFunc(x, func(a, b int32) int { return int(b - a) })
	out[i] = n + best
}

func each[T any](x []T, yield func(T) bool) {
	for _, v := range x {
		if !yield(v) {
			return
		}
	}
}

// Sorts sorts with package slices.
//
//purecuda:kernel
func Sorts(t *gpu.Thread, out []int32) {
	if i := t.GlobalX(); 8*i+8 <= len(out) {
		own := out[8*i : 8*i+8]
		slices.Reverse(own)
		slices.SortFunc(own, func(a, b int32) int { return int(b&15) - int(a&15) })
		own[7] = 5
		slices.Sort(own)
	}
}

type record struct {
	a, b int32
	c    [4]int32
}

// Guarded uses pointers only where they are not nil: in short bodies, whose work needs no branch.
//
//purecuda:kernel
func Guarded(t *gpu.Thread, out, x []int32) {
	i := t.GlobalX()
	r := record{a: int32(i), c: [4]int32{1, 2, 3, 4}}
	var p *record
	var q *[4]int32
	if x[i]&3 == 0 {
		p, q = &r, &r.c
	}
	if p != nil {
		p.a = 5
	}
	if p != nil {
		out[i] += p.a + p.b
	}
	if q != nil {
		q[i&3] += 7
	}
	if p != nil && p.c[1] > 2 {
		p.b++
	}
	ok := p != nil
	if ok {
		p.c[3] = p.a
	}
	var best *record
	for k := range int(x[i]) & 3 {
		if best != nil {
			best.b += int32(k)
		}
		if x[(i+k)%len(x)]&1 == 0 {
			best = &r
		}
	}
	out[i] += r.a + 2*r.b + 3*r.c[0] + 5*r.c[1] + 7*r.c[2] + 11*r.c[3]
	if best == nil {
		return
	}
	out[i] += best.b
}

// heap has an order, and an array that a variable indexes.
type heap struct {
	a    [8]int32
	n    int32
	less func(a, b int32) bool
}

func (h *heap) push(v int32) {
	i := h.n
	h.n++
	for ; i > 0 && h.less(v, h.a[(i-1)/2]); i = (i - 1) / 2 {
		h.a[i] = h.a[(i-1)/2]
	}
	h.a[i] = v
}

// topOf is not inlined: it gets what the order has captured.
//
//go:noinline
func topOf(h *heap, from, n int32) (best int32) {
	best = from
	for i := range n {
		if h.less(h.a[i&7], h.a[best&7]) {
			best = i
		}
	}
	return best
}

func doubled(f func(int32) int32) func(int32) int32 {
	return func(x int32) int32 { return f(f(x)) }
}

// Closures has functions in variables in memory, and functions that call themselves.
//
//purecuda:kernel recursion=20
func Closures(t *gpu.Thread, out, x []int32) {
	i := t.GlobalX()
	if i >= len(out) {
		return
	}
	calls, flip := int32(0), x[i]&1 != 0
	h := heap{less: func(a, b int32) bool {
		calls++
		return a < b != flip
	}}
	for k := range 8 {
		h.push(x[(i+k)%len(x)])
	}
	best := topOf(&h, x[i]&3, 5)
	out[i] = h.a[x[i]&7] + 3*best

	two := doubled(doubled(func(v int32) int32 { return 3*v + calls }))
	out[i] += two(x[i] & 15)

	memo := [4]int32{1, 1}
	var fib func(n int32) int32
	fib = func(n int32) int32 {
		calls++
		if n < 4 && memo[n&3] > 0 {
			return memo[n&3]
		}
		v := fib(n - 1)
		v += fib(n - 2)
		if n < 4 {
			memo[n&3] = v
		}
		return v
	}
	out[i] += fib(x[i]&7) << 4

	even := func(int32) bool { return false }
	var odd func(n int32) bool
	even = func(n int32) bool {
		calls += 100
		return n <= 0 || odd(n-1)
	}
	odd = func(n int32) bool { return n > 0 && even(n-1) }
	if even(x[i] & 7) {
		out[i] = -out[i]
	}
	var large struct { // too large for registers
		of  [400][4]int32
		sum func(int32) int32
	}
	large.sum = func(n int32) (s int32) {
		for k := range n {
			s += large.of[k][n&3]
		}
		return s
	}
	large.of[x[i]&63][x[i]&3] = 9
	sum := large.sum(x[i]&63 + 1)
	out[i] += sum + calls
}

// visitor has a function that gets the struct which it is in.
type visitor struct {
	n    [3]int32
	each func(*visitor, int32) int32
}

func composed(f, g func(int32) int32) func(int32) int32 {
	return func(v int32) int32 { return g(f(v)) }
}

func (h *heap) visit(i int32, f func(int32)) {
	if i < h.n {
		h.visit(2*i+1, f)
		f(h.a[i&7])
		h.visit(2*i+2, f)
	}
}

// Visits has functions that get others, at each depth of a recursion, and a function that changes between two calls.
//
//purecuda:kernel
func Visits(t *gpu.Thread, out, x []int32) {
	i := t.GlobalX()
	if i >= len(out) {
		return
	}
	step := func(n int32) int32 { return n - 1 }
	var sum func(n int32) int32
	sum = func(n int32) int32 {
		if n <= 0 {
			return n
		}
		rest := sum(step(n))
		return rest + n
	}
	result := sum(x[i] & 15)
	step = func(n int32) int32 { return n - 2 }
	result += sum(x[i]&15) << 8

	h := heap{n: 8}
	for k := range 8 {
		h.a[(k+int(x[i]))&7] = x[(i+k)%len(x)]
	}
	h.visit(0, func(v int32) { result = 31*result + v })

	v := visitor{each: func(v *visitor, i int32) int32 {
		if v.n[i%3] += i; i <= 0 {
			return v.n[0]
		}
		rest := v.each(v, i-1)
		return rest + v.n[i%3]
	}}
	sums := v.each(&v, x[i]&7)
	result += sums

	a, f := [4]int32{1, 2, 3, 4}, composed(step, composed(step, func(v int32) int32 { return v * result }))
	var permute func(k int)
	permute = func(k int) {
		if k == len(a) {
			last := f(a[3])
			result = 7*result + last
		}
		for j := k; j < len(a); j++ {
			a[k], a[j] = a[j], a[k]
			permute(k + 1)
			a[k], a[j] = a[j], a[k]
		}
	}
	permute(0)
	out[i] = result
}
