// Package looped holds kernels that gpuc cuts into loops over the threads of a block, and some that it cannot cut.
package looped

import (
	"math/bits"

	"github.com/purecuda/purecuda/gpu"
)

//go:generate go run ../.. -checks off

// Saxpy is a walk over the elements of a thread.
//
//purecuda:kernel
func Saxpy(t *gpu.Thread, a float32, x, y []float32) {
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		y[i] = gpu.FMA32(a, x[i], y[i])
	}
}

const tile = 16

// Sgemm has barriers in a loop, and a sum that lives across them.
//
//purecuda:kernel block=16x16
func Sgemm(t *gpu.Thread, c, a, b []float32, n int) {
	as, bs := gpu.Shared[[tile][tile]float32](t), gpu.Shared[[tile][tile]float32](t)
	tx, ty := t.ThreadX(), t.ThreadY()
	col, row := t.BlockX()*tile+tx, t.BlockY()*tile+ty
	var sum float32
	for k := 0; k < n; k += tile {
		as[ty][tx] = a[row*n+k+tx]
		bs[ty][tx] = b[(k+ty)*n+col]
		t.Barrier()
		for j := range tile {
			sum += as[ty][j] * bs[j][tx]
		}
		t.Barrier()
	}
	c[row*n+col] = sum
}

// BlockSum halves the number of threads that add.
//
//purecuda:kernel
func BlockSum(t *gpu.Thread, in, out []int64) {
	part := gpu.Shared[[256]int64](t)
	r := t.ThreadX()
	part[r] = 0
	if i := t.GlobalX(); i < len(in) {
		part[r] = in[i]
	}
	t.Barrier()
	for d := t.BlockDimX() / 2; d > 0; d /= 2 {
		if r < d {
			part[r] += part[r+d]
		}
		t.Barrier()
	}
	if r == 0 {
		out[t.BlockX()] = part[0]
	}
}

// Scan adds up what is left of each element, in a block.
//
//purecuda:kernel block=128
func Scan(t *gpu.Thread, x []int32) {
	s := gpu.Shared[[2][128]int32](t)
	r := t.Rank()
	v := int32(0)
	if t.GlobalX() < len(x) {
		v = x[t.GlobalX()]
	}
	s[0][r] = v
	now := 0
	t.Barrier()
	for d := 1; d < t.BlockDimX(); d *= 2 {
		v = s[now][r]
		if r >= d {
			v += s[now][r-d]
		}
		now = 1 - now
		s[now][r] = v
		t.Barrier()
	}
	if t.GlobalX() >= len(x) {
		return
	}
	x[t.GlobalX()] = v
}

// Transpose goes through shared memory, with a block that does not fit the matrix.
//
//purecuda:kernel block=32x8
func Transpose(t *gpu.Thread, out, in []float32, w, h int) {
	cells := gpu.Shared[[32][33]float32](t)
	x, y := t.BlockX()*32+t.ThreadX(), t.BlockY()*32+t.ThreadY()
	for j := 0; j < 32; j += t.BlockDimY() {
		if x < w && y+j < h {
			cells[t.ThreadY()+j][t.ThreadX()] = in[(y+j)*w+x]
		}
	}
	t.Barrier()
	x, y = t.BlockY()*32+t.ThreadX(), t.BlockX()*32+t.ThreadY()
	for j := 0; j < 32; j += 8 {
		if x < h && y+j < w {
			out[(y+j)*h+x] = cells[t.ThreadX()][t.ThreadY()+j]
		}
	}
}

// Mixed has conditions that are the same for all threads, a range, shadowed names, helpers that take the thread,
// arrays across barriers, dynamic shared memory and three dimensions.
//
//purecuda:kernel
func Mixed(t *gpu.Thread, out []uint32, rounds int, odd bool) {
	words := gpu.DynamicShared[uint32](t)
	n := t.BlockDimX() * t.BlockDimY() * t.BlockDimZ()
	h, left := [4]uint32{1, 2, uint32(t.Rank()), 4}, n-t.Rank()
	for k := range rounds {
		stir(&h, uint32(k))
		words[t.Rank()] = h[k%4]
		if k == 3 {
			continue
		}
		t.Barrier()
		if odd {
			h := words[(t.Rank()+1)%n]
			t.Barrier()
			words[t.Rank()] = h ^ place(t)
		} else if k > 4 {
			break
		} else {
			h[1] += words[left%n]
		}
		t.Barrier()
		{
			h[0] += words[(left+k)%n]
			t.Barrier()
		}
		rounds := n
		left += rounds
	}
	if odd {
		return
	}
	t.Barrier()
	i := (t.GlobalZ()*t.GlobalDimY()+t.GlobalY())*t.GlobalDimX() + t.GlobalX()
	out[i] = h[0] ^ h[1] ^ h[2] ^ h[3] ^ uint32(t.Lane()<<8|t.Warp()) ^ place(t)
}

func stir(h *[4]uint32, k uint32) {
	h[0], h[1], h[2], h[3] = h[1]+k, bits.RotateLeft32(h[2], 5), h[3]^h[0], h[0]
}

func place(t *gpu.Thread) uint32 { return uint32(t.ThreadX() | t.ThreadY()<<10 | t.ThreadZ()<<20) }

// Guarded changes its parameters, and divides only where it may.
//
//purecuda:kernel
func Guarded(t *gpu.Thread, x []int32, n, d int) {
	x = x[:len(x)/2*2]
	n -= t.ThreadX()
	if d == 0 || t.GlobalX() >= len(x) {
		return
	}
	q := t.GlobalX() / d
	for i := range 3 {
		if i > q {
			break
		}
		x[t.GlobalX()] += int32(n + i)
	}
	switch {
	case q%2 == 0:
		return
	}
	x[t.GlobalX()]++
}

// Fails has an index out of range in one thread.
//
//purecuda:kernel
func Fails(t *gpu.Thread, x []int32) {
	s := gpu.Shared[[64]int32](t)
	s[t.ThreadX()] = 1
	t.Barrier()
	if t.GlobalX() == 37 {
		x[len(x)+int(s[0])] = 1
	}
}

var k256 = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

func compress(h *[8]uint32, w *[16]uint32) {
	a, b, c, d, e, f, g, i := h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
	for t := range 64 {
		if t >= 16 {
			v1, v2 := w[(t-2)%16], w[(t-15)%16]
			s1 := bits.RotateLeft32(v1, -17) ^ bits.RotateLeft32(v1, -19) ^ v1>>10
			s0 := bits.RotateLeft32(v2, -7) ^ bits.RotateLeft32(v2, -18) ^ v2>>3
			w[t%16] += s1 + w[(t-7)%16] + s0
		}
		t1 := i + (bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)) + (e&f ^ ^e&g) + k256[t] + w[t%16]
		t2 := (bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)) + (a&b ^ a&c ^ b&c)
		i, g, f, e, d, c, b, a = g, f, e, d+t1, c, b, a, t1+t2
	}
	h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7] = h[0]+a, h[1]+b, h[2]+c, h[3]+d, h[4]+e, h[5]+f, h[6]+g, h[7]+i
}

// digest hashes data, whose length is a multiple of 64.
func digest(data, out []byte) {
	h := [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
	for j := 0; j <= len(data); j += 64 {
		var w [16]uint32
		if j < len(data) {
			for k := range w {
				w[k] = uint32(data[j+4*k])<<24 | uint32(data[j+4*k+1])<<16 | uint32(data[j+4*k+2])<<8 | uint32(data[j+4*k+3])
			}
		} else {
			w[0] = 0x80000000
			w[14], w[15] = uint32(uint64(len(data))>>29), uint32(len(data))<<3
		}
		compress(&h, &w)
	}
	for k := range h {
		out[4*k], out[4*k+1], out[4*k+2], out[4*k+3] = byte(h[k]>>24), byte(h[k]>>16), byte(h[k]>>8), byte(h[k])
	}
}

// SHA256 hashes chunks of size bytes.
//
//purecuda:kernel
func SHA256(t *gpu.Thread, data, out []byte, size int) {
	for i := t.GlobalX(); i < len(out)/32; i += t.GlobalDimX() {
		digest(data[i*size:(i+1)*size], out[32*i:32*i+32])
	}
}

// Shuffled waits for the warp.
//
//purecuda:kernel
func Shuffled(t *gpu.Thread, x []int32) { x[t.GlobalX()] = gpu.ReduceAdd(t, x[t.GlobalX()]) }

func both(t *gpu.Thread) { t.Barrier() }

// Helped waits in a function that it calls.
//
//purecuda:kernel
func Helped(t *gpu.Thread, x []int32) {
	both(t)
	x[t.GlobalX()] = 1
}

// Diverging has a barrier that not all threads need reach.
//
//purecuda:kernel
func Diverging(t *gpu.Thread, x []int32) {
	if t.ThreadX() < len(x) {
		t.Barrier()
	}
}

// Loaded has a barrier that depends on what is in memory.
//
//purecuda:kernel
func Loaded(t *gpu.Thread, x []int32) {
	n := x[0]
	for i := int32(0); i < n; i++ {
		t.Barrier()
	}
}

// Switched has a barrier in a switch.
//
//purecuda:kernel
func Switched(t *gpu.Thread, n int) {
	switch n {
	case 1:
		t.Barrier()
	}
}

// Pointing has a pointer that could lead to a variable of a thread that is no more.
//
//purecuda:kernel
func Pointing(t *gpu.Thread, x []int32) {
	v := x[t.GlobalX()]
	p := &v
	t.Barrier()
	x[t.GlobalX()] = *p + 1
}

// Collatz counts the steps of each number to 1, 1000 at most.
//
//purecuda:kernel equal=in,out
func Collatz(t *gpu.Thread, in, out []uint32) {
	if i := t.GlobalX(); i < len(in) {
		x, n := uint64(in[i]), uint32(0)
		for x > 1 && n < 1000 {
			if n++; x%2 == 0 {
				x /= 2
			} else {
				x = 3*x + 1
			}
		}
		out[i] = n
	}
}

// Axpy is Saxpy with two roundings.
//
//purecuda:kernel equal=x,y
func Axpy(t *gpu.Thread, a float32, x, y []float32) {
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		y[i] = a*x[i] + y[i]
	}
}

// Walks has the other forms of a loop over elements.
//
//purecuda:kernel
func Walks(t *gpu.Thread, x, y []int32, n int) {
	if i := t.GlobalX(); i < n {
		x[i] += int32(t.ThreadX())
	}
	t.Barrier()
	j := t.GlobalX()
	k := t.Rank() + 1
	if j < len(y) {
		v := y[j] * int32(k)
		if v%2 == 0 {
			return
		}
		y[j] = v ^ int32(place(t))
	}
}

// WalksDown has its guard first, and a step along y.
//
//purecuda:kernel equal=x,y
func WalksDown(t *gpu.Thread, x, y []int32) {
	i := t.GlobalY()
	d := 3
	if i >= len(x) {
		return
	}
	v := x[i] * int32(t.Lane()+1)
	for range d {
		v ^= v<<1 + y[i]
		if v < 0 {
			return
		}
	}
	x[i] = v
}

// Flat has nothing of the thread but its place.
//
//purecuda:kernel block=4x2
func Flat(t *gpu.Thread, x []int32) {
	x[t.ThreadY()*4+t.ThreadX()] = int32(t.Rank())
}

// Only has what one thread does, along each axis.
//
//purecuda:kernel
func Only(t *gpu.Thread, x []int32, n, m int) {
	part := gpu.Shared[[3]int32](t)
	i := t.GlobalX()
	if i == n {
		part[0] = int32(t.ThreadX()*10 + t.Rank())
	}
	t.Barrier()
	if j := t.GlobalY(); j == m+1 {
		part[1] = int32(t.ThreadY() + 1)
	}
	t.Barrier()
	r := t.ThreadX()
	if r == 'b'-'a'+2.0 {
		part[2] = int32(i)
	}
	t.Barrier()
	if r == 0 {
		x[t.BlockY()*t.GridDimX()+t.BlockX()] = part[0] ^ part[1]<<8 ^ part[2]<<16
	}
}

// FailsAlone has an index out of range in the only thread that takes it.
//
//purecuda:kernel
func FailsAlone(t *gpu.Thread, x []int32) {
	if i := t.GlobalX(); i == 37 {
		x[len(x)] = 1
	}
}

type cell struct{ A, B int32 }

func raise(p *int32) { *p += 3 }

// Everyday has what Go authors write daily, on both sides of a barrier.
//
//purecuda:kernel block=64
func Everyday(t *gpu.Thread, in []int32, out []int32) {
	s := gpu.Shared[[64]cell](t)
	own := [4]int32(in[4*t.GlobalX() : 4*t.GlobalX()+4])
	first := [2]int32(in[:2])
	name := "odd"
	if own[0]&1 == 0 {
		name = "even"
	}
	s[t.ThreadX()] = cell{own[0], own[1]}
	t.Barrier()
	in[0] += first[1]
	n := int32(0)
	for i := int32(0); i < own[2]&7; i++ {
		raise(&i)
		n += i
	}
	if s[t.ThreadX()] == s[t.ThreadX()^1] {
		n += 100
	}
	t.Barrier()
	var last *cell
	if own[1]&1 == 0 {
		last = &s[own[1]&63]
	}
	copy(own[1:], own[:3])
	clear(own[:1])
	if last != nil {
		n += last.B
	}
	for j, c := range "abc" {
		n += int32(j) * int32(c)
	}
	out[t.GlobalX()] = n + own[1] + own[3] + int32(name[n&1]) + int32(len(name)) + first[0] - first[0]
}

// Together turns numbers round over the whole grid.
//
//purecuda:kernel block=64 checks=off
func Together(t *gpu.Thread, x []int32, word []uint32) {
	v := x[t.GlobalDimX()-1-t.GlobalX()]
	gpu.GridBarrier(t, &word[0])
	x[t.GlobalX()] = v
}
