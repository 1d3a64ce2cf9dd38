// Package testkernels holds kernels in Go.
package testkernels

import (
	"math"
	"math/bits"

	"github.com/purecuda/purecuda/gpu"
)

//purecuda:kernel
func Saxpy(t *gpu.Thread, a float32, x, y []float32) {
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		y[i] = gpu.FMA32(a, x[i], y[i])
	}
}

//purecuda:kernel
func VecAdd(t *gpu.Thread, c, a, b []float32) {
	if i := t.GlobalX(); i < len(c) {
		c[i] = a[i] + b[i]
	}
}

//purecuda:kernel
func Stencil(t *gpu.Thread, out, in []float32, w, h int) {
	x, y := t.GlobalX(), t.GlobalY()
	if x < 1 || y < 1 || x >= w-1 || y >= h-1 {
		return
	}
	i := y*w + x
	out[i] = 0.5*in[i] + 0.125*(in[i-1]+in[i+1]+in[i-w]+in[i+w])
}

// warpSum is called from two kernels.
func warpSum(t *gpu.Thread, v float32) float32 {
	for d := 16; d > 0; d /= 2 {
		v += gpu.ShuffleDown(t, v, d)
	}
	return v
}

//purecuda:kernel
func Dot(t *gpu.Thread, x, y []float32, sum []float32) {
	warps := gpu.Shared[[32]float32](t)
	var s float32
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		s += x[i] * y[i]
	}
	s = warpSum(t, s)
	if t.Lane() == 0 {
		warps[t.ThreadX()/32] = s
	}
	t.Barrier()
	if t.ThreadX() < 32 {
		s = 0
		if t.ThreadX() < t.BlockDimX()/32 {
			s = warps[t.ThreadX()]
		}
		s = warpSum(t, s)
		if t.ThreadX() == 0 {
			gpu.AtomicAdd(&sum[0], s)
		}
	}
}

//purecuda:kernel
func Sum(t *gpu.Thread, x, partial []float32) {
	var s float32
	for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
		s += x[i]
	}
	if s = warpSum(t, s); t.Lane() == 0 {
		partial[t.GlobalX()/32] = s
	}
}

func count(c *[256]uint32, w uint32) {
	gpu.AtomicAdd(&c[w&0xff], 1)
	gpu.AtomicAdd(&c[w>>8&0xff], 1)
	gpu.AtomicAdd(&c[w>>16&0xff], 1)
	gpu.AtomicAdd(&c[w>>24], 1)
}

//purecuda:kernel
func Histogram(t *gpu.Thread, data []gpu.Uint4, counts []uint64) {
	c := gpu.Shared[[8][256]uint32](t)
	for i := t.ThreadX(); i < 8*256; i += t.BlockDimX() {
		c[i/256][i%256] = 0
	}
	t.Barrier()
	mine := &c[t.ThreadX()/32%8]
	for i := t.GlobalX(); i < len(data); i += t.GlobalDimX() {
		q := data[i]
		count(mine, q.X)
		count(mine, q.Y)
		count(mine, q.Z)
		count(mine, q.W)
	}
	t.Barrier()
	for v := t.ThreadX(); v < 256; v += t.BlockDimX() {
		var n uint64
		for k := range 8 {
			n += uint64(c[k][v])
		}
		if n != 0 {
			gpu.AtomicAdd(&counts[v], n)
		}
	}
}

// View is what part of the plane Mandelbrot draws.
type View struct {
	X, Y, Step float64
	Width      int32
	Height     int32
	Limit      uint32
}

//purecuda:kernel
func Mandelbrot(t *gpu.Thread, v View, out []uint32) {
	px, py := t.GlobalX(), t.GlobalY()
	if px >= int(v.Width) || py >= int(v.Height) {
		return
	}
	cx, cy := v.X+v.Step*float64(px), v.Y+v.Step*float64(py)
	var x, y float64
	var n uint32
	for n < v.Limit && x*x+y*y <= 4 {
		x, y = x*x-y*y+cx, 2*x*y+cy
		n++
	}
	out[py*int(v.Width)+px] = n
}

const tile = 16

//purecuda:kernel
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
			sum = gpu.FMA32(as[ty][j], bs[j][tx], sum)
		}
		t.Barrier()
	}
	c[row*n+col] = sum
}

//purecuda:kernel
func Xorshift(t *gpu.Thread, out []uint64, seed uint64, rounds int) {
	i := t.GlobalX()
	if i >= len(out) {
		return
	}
	s := seed + uint64(i)*0x9e3779b97f4a7c15
	for range rounds {
		s ^= s << 13
		s ^= s >> 7
		s ^= s << 17
	}
	out[i] = s
}

func mulhilo(a, b uint32) (hi, lo uint32) {
	p := uint64(a) * uint64(b)
	return uint32(p >> 32), uint32(p)
}

//purecuda:kernel
func Philox(t *gpu.Thread, out []gpu.Uint4, key uint64) {
	i := t.GlobalX()
	if i >= len(out) {
		return
	}
	c := gpu.Uint4{X: uint32(i), Y: uint32(uint64(i) >> 32)}
	k0, k1 := uint32(key), uint32(key>>32)
	for range 10 {
		h0, l0 := mulhilo(0xD2511F53, c.X)
		h1, l1 := mulhilo(0xCD9E8D57, c.Z)
		c = gpu.Uint4{X: h1 ^ c.Y ^ k0, Y: l1, Z: h0 ^ c.W ^ k1, W: l0}
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	out[i] = c
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

type state [8]uint32

func compress(h *state, w *[16]uint32) {
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
	h[0] += a
	h[1] += b
	h[2] += c
	h[3] += d
	h[4] += e
	h[5] += f
	h[6] += g
	h[7] += i
}

// SHA256 hashes chunks of size bytes (a multiple of 64): out[8*i:8*i+8] is the digest of chunk i as big-endian words.
//
//purecuda:kernel
func SHA256(t *gpu.Thread, data []gpu.Uint4, out []gpu.Uint4, size int) {
	quads := size / 16
	for i := t.GlobalX(); i < len(out)/2; i += t.GlobalDimX() {
		h := state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
		p := data[i*quads : (i+1)*quads]
		for j := 0; j <= len(p); j += 4 {
			var w [16]uint32
			if j < len(p) {
				for k := range 4 {
					q := p[j+k]
					w[4*k] = bits.ReverseBytes32(q.X)
					w[4*k+1] = bits.ReverseBytes32(q.Y)
					w[4*k+2] = bits.ReverseBytes32(q.Z)
					w[4*k+3] = bits.ReverseBytes32(q.W)
				}
			} else {
				w[0] = 0x80000000
				w[14], w[15] = uint32(uint64(size)>>29), uint32(size)<<3
			}
			compress(&h, &w)
		}
		out[2*i] = gpu.Uint4{X: h[0], Y: h[1], Z: h[2], W: h[3]}
		out[2*i+1] = gpu.Uint4{X: h[4], Y: h[5], Z: h[6], W: h[7]}
	}
}

// Poly is generic: compiled for float32 and float64.
func Poly[T float32 | float64](t *gpu.Thread, y, x []T, k [4]T) {
	if i := t.GlobalX(); i < len(x) {
		v := k[3]
		for j := 2; j >= 0; j-- {
			v = v*x[i] + k[j]
		}
		y[i] = v
	}
}

//purecuda:kernel
func Poly32(t *gpu.Thread, y, x []float32, k [4]float32) { Poly(t, y, x, k) }

//purecuda:kernel
func Poly64(t *gpu.Thread, y, x []float64, k [4]float64) { Poly(t, y, x, k) }

// Waves calls package math, whose Go source is compiled with the kernel.
//
//purecuda:kernel
func Waves(t *gpu.Thread, y, x []float64) {
	if i := t.GlobalX(); i < len(x) {
		y[i] = math.Sin(x[i]) + math.Cos(2*x[i]) + math.Log(math.Abs(x[i])+1) + math.Sqrt(math.Abs(x[i]))
	}
}

// OutOfRange reads one behind the end.
//
//purecuda:kernel
func OutOfRange(t *gpu.Thread, y, x []int32) {
	i := t.GlobalX()
	y[i%len(y)] = x[i] / x[0]
}
