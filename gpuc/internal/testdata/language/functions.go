package testlanguage

import "github.com/purecuda/purecuda/gpu"

// Pair is a result.
type Pair struct {
	Big  bool
	Sum  float64
	Part [2]int8
}

// measure is not inlined: it has slices, a struct, a bool and the thread as parameters, and several results.
//
//go:noinline
func measure(t *gpu.Thread, m Matrix, row int, twice bool, w float32) (sum float32, p Pair, n int) {
	for j := range m.Cols {
		v := m.At(row, j)
		if twice {
			v *= 2
		}
		sum += v * w
		if v > 0 {
			n++
			p.Part[j&1]++
		}
	}
	p.Big, p.Sum = sum > 0, float64(sum)+float64(t.ThreadX())
	if p.Big {
		return sum, p, n
	}
	return -sum, p, -n
}

// put is not inlined, and writes.
//
//go:noinline
func put(out []float64, i int, v float64) { out[i] = v }

// accumulate is not inlined, and changes a variable of its caller.
//
//go:noinline
func (c *cursor) accumulate(n int32) bool {
	for n > 0 && len(c.rest) > 0 {
		c.sum += c.rest[0]
		c.rest = c.rest[1:]
		n--
	}
	return len(c.rest) > 0
}

// Functions calls functions that are not inlined.
//
//purecuda:kernel
func Functions(t *gpu.Thread, out []float64, m Matrix, in []int32) {
	i := t.GlobalX()
	if i >= m.Rows || 4*i+4 > len(out) {
		return
	}
	sum, p, n := measure(t, m, i, false, 1.5)
	_, q, k := measure(t, m, m.Rows-1-i, p.Big, 0.5)
	put(out, 4*i, float64(sum)+p.Sum)
	put(out, 4*i+1, float64(n*100+k))
	if q.Big != p.Big {
		put(out, 4*i+2, q.Sum)
	}
	c := cursor{t: t, rest: in}
	for c.accumulate(int32(i&3) + 1) {
		c.sum ^= 1
	}
	put(out, 4*i+3, float64(c.sum)+float64(q.Part[0])*1000+float64(p.Part[1]))
}

func fib(n int32) int32 {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}

func even(n uint32) bool {
	if n == 0 {
		return true
	}
	return odd(n - 1)
}

func odd(n uint32) bool {
	if n == 0 {
		return false
	}
	return even(n - 1)
}

// hanoi writes to a slice, and has variables in memory that each call has its own of.
func hanoi(moves []int32, at, n int, pegs [3]int8) int {
	if n == 0 || at >= len(moves) {
		return at
	}
	order := [3]int{0, 2, 1}
	at = hanoi(moves, at, n-1, [3]int8{pegs[order[0]], pegs[order[1]], pegs[order[2]]})
	if at < len(moves) {
		moves[at] = int32(pegs[0])*10 + int32(pegs[2])
	}
	k := n % 3
	return hanoi(moves, at+1, n-1, [3]int8{pegs[order[(k+1)%3*0+2]], pegs[0], pegs[order[1]*0+2]})
}

// Recursive calls functions that call themselves and each other.
//
//purecuda:kernel recursion=40
func Recursive(t *gpu.Thread, out, moves []int32) {
	i := t.GlobalX()
	if i >= len(out) {
		return
	}
	v := fib(int32(i % 11))
	if even(uint32(i)) {
		v = -v
	}
	out[i] = v
	n := len(moves) / t.GlobalDimX()
	out[i] += int32(hanoi(moves[i*n:(i+1)*n], 0, i%5, [3]int8{1, 2, 3})) << 16
	for _, m := range moves[i*n:][:i%4] { // a count that is not known
		if out[i] += fib(m & 7); even(uint32(m) & 15) {
			out[i] -= m
		}
	}
}

// Returning has the threads of a warp come back from a function at different times, and exchanges values within the warp and with other
// warps then.
//
//purecuda:kernel recursion=40
func Returning(t *gpu.Thread, out []int32) {
	shared := gpu.Shared[[128]int32](t)
	sum := int32(0)
	for round := range int32(20) {
		v := fib((int32(t.Rank())*7 + round) % 11)
		if even(uint32(v) & 15) {
			v ^= round
		}
		v = v*5 + gpu.ShuffleXor(t, v, 9)
		shared[t.Rank()&127] = v
		t.Barrier()
		sum = sum*3 + shared[(t.Rank()+61)&127]
		t.Barrier()
	}
	if i := t.GlobalX(); i < len(out) {
		out[i] = sum
	}
}

func step(x, y, i uint32) (uint32, uint32) {
	x = (x ^ y<<7 | y>>25) * (i*2654435761 | 1)
	y += x>>11 ^ i
	return y ^ x>>3, x + y<<5
}

// mix is large: its loop is unrolled.
func mix(x, y uint32) (uint32, uint32) {
	//purecuda:unroll
	for i := range uint32(120) {
		x, y = step(x, y, 5*i)
		x, y = step(x, y, 5*i+1)
		x, y = step(x, y, 5*i+2)
		x, y = step(x, y, 5*i+3)
		x, y = step(x, y, 5*i+4)
	}
	return x, y
}

// Large calls a large function twice, which is then not inlined.
//
//purecuda:kernel
func Large(t *gpu.Thread, out []uint32) {
	i := t.GlobalX()
	if 2*i+1 >= len(out) {
		return
	}
	x, y := mix(uint32(i), 1)
	if x&1 == 0 {
		x, y = mix(y, x+1)
	}
	out[2*i], out[2*i+1] = x, y
}
