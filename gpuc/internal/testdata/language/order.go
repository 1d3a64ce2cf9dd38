package testlanguage

import "github.com/purecuda/purecuda/gpu"

// Orders is how many elements a thread of Ordered writes.
const Orders = 16

type counter struct {
	s, n uint64
	v    [4]uint64
	x    []uint64
}

func (c *counter) next() uint64 { c.s = c.s*5 + 1; return c.s }

func (c *counter) push(x uint64) uint64 { c.v[c.n&3] = x; c.n++; return x + c.n }

func (c counter) sum() uint64 { return c.s + c.n + c.v[0] + 3*c.v[1] }

func bump(p *uint64) uint64 { *p = *p*3 + 1; return *p }

func same(x uint64) uint64 { return x ^ 5 }

// Ordered has calls with side effects in the places where their order is known.
//
//purecuda:kernel
func Ordered(t *gpu.Thread, out []uint64) {
	i := uint64(t.GlobalX())
	own := out[t.GlobalX()*Orders:][:Orders]
	c := counter{s: i, x: own}
	own[0] = c.next() ^ c.s
	own[1] = bump(&i) + i
	own[2] = same(i) + bump(&i)
	own[3] = c.sum() + c.next() + c.sum()
	if i&1 == 0 && bump(&i)&2 == 0 || bump(&i)&4 == 0 {
		own[4] = i
	}
	i += bump(&i)
	own[5] = i
	c.s ^= c.next()
	own[6] += c.push(c.next())
	own[7] = c.v[bump(&i)&3] + c.n
	own[8], own[9] = own[7], own[8]
	a := [2]uint64{bump(&i), i}
	own[10] = a[0]*7 + a[1]
	switch i {
	case bump(&i) / 3:
		own[11] = 1
	default:
		own[11] = i
	}
	for j := range own[12+bump(&i)&1:] {
		own[12+j&3] += uint64(j) + c.x[0]
	}
	i <<= bump(&i) & 7
	own[15] = c.push(bump(&i))&c.s + i
}
