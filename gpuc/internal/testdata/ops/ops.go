// Package testops tries each operation on each type.
package testops

import (
	"math"
	"math/bits"

	"github.com/purecuda/purecuda/gpu"
)

type integer interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~int | ~uint
}

func b2i[T integer](b bool) T {
	if b {
		return 1
	}
	return 0
}

// N is how many results the kernels on integers have for each pair.
const N = 28

func all[T integer](t *gpu.Thread, out, a, b []T) {
	i := t.GlobalX()
	if i >= len(a) {
		return
	}
	x, y := a[i], b[i]
	o := out[i*N : (i+1)*N]
	d := y
	if d == 0 {
		d = 3
	}
	o[0], o[1], o[2] = x+y, x-y, x*y
	o[3], o[4] = x/d, x%d
	o[5], o[6], o[7], o[8] = x&y, x|y, x^y, x&^y
	o[9], o[10] = x<<uint8(y), x>>uint8(y)
	o[11], o[12] = x<<(uint64(y)), x>>(uint64(y))
	o[13], o[14] = -x, ^x
	o[15] = b2i[T](x < y) + 2*b2i[T](x <= y) + 4*b2i[T](x > y) + 8*b2i[T](x >= y) + 16*b2i[T](x == y) + 32*b2i[T](x != y)
	o[16] = T(int8(x)) + T(uint16(y))*3
	o[17] = T(int32(x)) ^ T(uint8(y)) ^ T(int64(x)<<7)
	o[18] = T(float32(x/2)) / 7 // what does not fit is not defined in Go
	o[19] = T(float64(x)/3) + T(float32(y)/5)
	o[20] = min(x, y) - max(x, y)
	o[21] = x/7 + x%10 + x/8 + x%16
	v := x
	for v > 3 {
		v -= v/4 + 1
	}
	o[22] = v
	switch {
	case x > y && y > 5 || x < 3:
		o[23] = 1
	case x&1 == 0:
		o[23] = 2
	default:
		o[23] = 3
	}
	o[26] = (x+y)/d + (x-y)>>1 + (x*y)%d
	o[27] = b2i[T](x+y > x) + 2*b2i[T](x*2 < y-1) + 4*b2i[T](-x >= y<<1) + 8*b2i[T](^x == y+1)
	o[24] = T(bits.OnesCount64(uint64(x))) + T(bits.LeadingZeros32(uint32(x)))*3 + T(bits.TrailingZeros64(uint64(y)|1<<40)) + T(bits.Len64(uint64(y)|1))
	o[25] = T(bits.RotateLeft64(uint64(x), int(y&63)))*5 + T(bits.RotateLeft32(uint32(x), int(y&63))) + T(bits.ReverseBytes32(uint32(x)))
}

//purecuda:kernel
func Int8(t *gpu.Thread, out, a, b []int8) { all(t, out, a, b) }

//purecuda:kernel
func Int16(t *gpu.Thread, out, a, b []int16) { all(t, out, a, b) }

//purecuda:kernel
func Int32(t *gpu.Thread, out, a, b []int32) { all(t, out, a, b) }

//purecuda:kernel
func Int64(t *gpu.Thread, out, a, b []int64) { all(t, out, a, b) }

//purecuda:kernel
func Uint8(t *gpu.Thread, out, a, b []uint8) { all(t, out, a, b) }

//purecuda:kernel
func Uint16(t *gpu.Thread, out, a, b []uint16) { all(t, out, a, b) }

//purecuda:kernel
func Uint32(t *gpu.Thread, out, a, b []uint32) { all(t, out, a, b) }

//purecuda:kernel
func Uint64(t *gpu.Thread, out, a, b []uint64) { all(t, out, a, b) }

//purecuda:kernel
func Int(t *gpu.Thread, out, a, b []int) { all(t, out, a, b) }

//purecuda:kernel
func Uint(t *gpu.Thread, out, a, b []uint) { all(t, out, a, b) }

//purecuda:kernel
func F32(t *gpu.Thread, out, a, b []float32) {
	i := t.GlobalX()
	x, y := a[i], b[i]
	o := out[i*8 : i*8+8]
	o[0], o[1], o[2], o[3], o[4] = x+y, x-y, x*y, x/y, -x
	o[5] = float32(int32(x*0+1)) + float32(float64(x)/float64(y))
	if x < y || !(x >= y) {
		o[6] = 1
	}
	if x != x {
		o[7] = 3
	} else if x == y {
		o[7] = 5
	}
}

// Point has fields of several sizes.
type Point struct {
	P  [3]int16
	F  float64
	OK bool
	R  rune
}

// Structs keeps structs in slices, shared memory and variables.
//
//purecuda:kernel
func Structs(t *gpu.Thread, ps []Point, out []int32) {
	s := gpu.Shared[[32]Point](t)
	l := t.ThreadX()
	q := ps[t.GlobalX()]
	q.P[1] += q.P[0]
	q.OK = !q.OK
	s[l] = q
	t.Barrier()
	n := s[(l+1)%32]
	var hist [5]int32
	for _, v := range n.P {
		hist[(int(v)%5+5)%5]++
	}
	best, at := int32(-1), 0
	for i, v := range hist {
		if v > best {
			best, at = v, i
		}
	}
	ps[t.GlobalX()] = n
	if n.OK {
		best += 10
	}
	for k := range hist { // stops early
		if hist[k] == 0 {
			best += int32(k) * 100
			break
		}
	}
	out[t.GlobalX()] = best*1000 + int32(at) + n.R
}

// Floats does what there is on float64, and the conversions.
//
//purecuda:kernel
func Floats(t *gpu.Thread, out, a, b []float64) {
	i := t.GlobalX()
	x, y := a[i], b[i]
	o := out[i*18 : i*18+18]
	o[0], o[1], o[2], o[3], o[4] = x+y, x-y, x*y, x/y, -x
	o[5], o[6] = min(x, y), max(x, y)
	o[7], o[8], o[9], o[10] = math.Floor(x), math.Ceil(x), math.Trunc(x), math.RoundToEven(x)
	o[11], o[12] = math.Sqrt(x), math.Abs(x)
	o[13] = math.FMA(x, y, 1)
	o[14] = math.Copysign(x, y)
	whole, frac := math.Modf(x)
	o[15], o[16] = whole, frac
	o[17] = float64(float32(x)) + float64(math.Float32bits(float32(y))) + float64(math.Float64bits(x)>>50)
}

// Floats32 does what package gpu has for float32, where it is exact.
//
//purecuda:kernel
func Floats32(t *gpu.Thread, out, a, b []float32) {
	i := t.GlobalX()
	x, y := a[i], b[i]
	o := out[i*12 : i*12+12]
	o[0], o[1] = min(x, y), max(x, y)
	o[2], o[3], o[4], o[5] = gpu.Floor32(x), gpu.Ceil32(x), gpu.Trunc32(x), gpu.RoundToEven32(x)
	o[6], o[7], o[8] = gpu.Sqrt32(x), gpu.Abs32(x), gpu.Copysign32(x, y)
	o[9], o[10] = gpu.FMA32(x, y, o[2]), x/y
	o[11] = float32(x * y)
}

// Fast does what is approximate.
//
//purecuda:kernel
func Fast(t *gpu.Thread, out, a []float32) {
	i := t.GlobalX()
	x := a[i]
	o := out[i*11 : i*11+11]
	o[0], o[1], o[2], o[3] = gpu.FastDiv32(x, 3), gpu.FastSqrt32(x), gpu.FastRsqrt32(x), gpu.FastRcp32(x)
	o[4], o[5], o[6] = gpu.FastSin32(x), gpu.FastCos32(x), gpu.FastTanh32(x)
	o[7], o[8], o[9], o[10] = gpu.FastExp2(x), gpu.FastLog2(x), gpu.FastExp32(x), gpu.FastLog32(x)
}

// Warps does every warp function.
//
//purecuda:kernel
func Warps(t *gpu.Thread, u []uint32, f []float32, d []float64, l []int64) {
	i, lane := t.GlobalX(), t.Lane()
	x := u[i]
	u[i] = gpu.Shuffle(t, x, lane*7) + gpu.ShuffleUp(t, x, 3)*3 + gpu.ShuffleDown(t, x, lane&15)*5 + gpu.ShuffleXor(t, x, 9)*7
	u[i] ^= gpu.Ballot(t, x&1 == 0) ^ gpu.MatchAny(t, x%5)<<1 ^ gpu.LaneMaskBelow(t)
	if gpu.All(t, x != 12345) {
		u[i] += 1000
	}
	if gpu.Any(t, x%64 == 0) {
		u[i] += 2000
	}
	gpu.WarpBarrier(t)
	u[i] += gpu.ReduceMax(t, x) - gpu.ReduceMin(t, x)
	f[i] = gpu.ReduceAdd(t, f[i]) + gpu.ShuffleDown(t, f[i], 1) + float32(bits.OnesCount32(gpu.MatchAny(t, f[i])))
	d[i] = gpu.ReduceAdd(t, d[i]) + gpu.ShuffleXor(t, d[i], 31)
	l[i] = gpu.ReduceMin(t, l[i]) + gpu.ShuffleUp(t, l[i], 1) + int64(gpu.MatchAny(t, l[i]%3))
}

// Places writes where each thread is.
//
//purecuda:kernel
func Places(t *gpu.Thread, out []int) {
	n := t.BlockDimX() * t.BlockDimY() * t.BlockDimZ()
	b := (t.BlockZ()*t.GridDimY()+t.BlockY())*t.GridDimX() + t.BlockX()
	o := out[(b*n+t.Rank())*8:][:8]
	o[0], o[1], o[2] = t.GlobalX(), t.GlobalY(), t.GlobalZ()
	o[3], o[4], o[5] = t.GlobalDimX()*100+t.ThreadX(), t.GlobalDimY()*100+t.ThreadY(), t.GlobalDimZ()*100+t.ThreadZ()
	o[6], o[7] = t.Lane(), t.Warp()+1000*t.GridDimZ()
}

// Dynamic turns a block around in dynamic shared memory.
//
//purecuda:kernel
func Dynamic(t *gpu.Thread, x []int32) {
	s := gpu.DynamicShared[int32](t)
	s[t.ThreadX()] = x[t.GlobalX()]
	t.Barrier()
	x[t.GlobalX()] = s[len(s)-1-t.ThreadX()]
}

// Bits does what package gpu has for bits.
//
//purecuda:kernel
func Bits(t *gpu.Thread, out, a, b []uint32) {
	i := t.GlobalX()
	x, y := a[i], b[i]
	o := out[i*8 : i*8+8]
	o[0], o[1] = gpu.FunnelShiftLeft(x, y, int(y&63)), gpu.FunnelShiftRight(x, y, int(x&63))
	o[2], o[3] = gpu.BytePermute(x, y, x&0x7777), gpu.MulHigh32(x, y)
	o[4], o[5] = bits.Reverse32(x), uint32(bits.Reverse64(uint64(x)<<7)>>20)
	hi, lo := bits.Mul64(uint64(x)<<20, uint64(y)<<25)
	o[6], o[7] = uint32(hi)^uint32(lo>>32), uint32(bits.Len32(x)+bits.Len64(uint64(y))*64+bits.TrailingZeros32(y)*4096)
}

// small has numbers of less than 4 bytes, and no space between.
type small struct {
	a int16
	b bool
	c [5]uint8
}

// NarrowBits does what package gpu has for the bits of small values.
//
//purecuda:kernel
func NarrowBits(t *gpu.Thread, out, a, b []uint64) {
	i := t.GlobalX()
	x, y := a[i], b[i]
	o := out[i*8 : i*8+8]
	s := gpu.FromBits[small](x&^(0xff<<16) | y&1<<16)
	o[0], o[1] = gpu.Bits(s), gpu.Bits(small{int16(y), y&2 != 0, [5]uint8{4: uint8(x)}})
	o[2] = gpu.Bits(gpu.FromBits[[3]int8](x)) | gpu.Bits(int8(y))<<32
	o[3] = gpu.Bits(y&4 != 0) + gpu.Bits(true)*2 + gpu.Bits(uint16(x))<<8
	if z := gpu.FromBits[[2]bool](y & 0x101); z[0] != z[1] {
		o[4] = 1
	}
	o[5] = uint64(int64(gpu.FromBits[int16](x))) ^ gpu.Bits([2]int16{int16(x), int16(y)})<<16
	o[6], o[7] = uint64(s.c[4]), uint64(int64(s.a))
}

// Signs does what ptxas of driver 580 gets wrong where the PTX has a negation, or the upper half of a product.
//
//purecuda:kernel
func Signs(t *gpu.Thread, out, a, b []int64) {
	i := t.GlobalX()
	x, y := a[i], b[i]
	u, v, p := int32(x), int32(y), t.ThreadX()
	o := out[i*8 : i*8+8]
	o[0], o[1], o[2] = int64((-u)>>31+91), int64((-u)>>3+v), int64(int32(-x)>>31+v)
	o[3], o[4] = int64(min(min(-u, v), v^u)), int64(max(v-u, -v, u))
	o[5], o[6] = int64((-int32(p+40))>>31+91), int64(min(int32(-x), 0, int32(-y)))
	o[7] = ^(int64(gpu.MulHigh32(uint32(p+8), uint32(x))) - int64(uint32(y)&7))
}

// Counts does what package math/bits has for integers of each size, on values and on constants.
//
//purecuda:kernel
func Counts(t *gpu.Thread, out, a, _ []uint64) {
	i := t.GlobalX()
	o := out[i*8 : i*8+8]
	for j := range 2 {
		x, p := a[i], o[j*4:j*4+4]
		if j == 1 {
			x = 0x8001_0000_8108_0090
			if i&1 == 0 {
				x = 0
			}
		}
		p[0] = uint64(bits.Len8(uint8(x)) + bits.LeadingZeros8(uint8(x))<<8 + bits.TrailingZeros8(uint8(x))<<16 + bits.OnesCount8(uint8(x))<<24 + int(bits.Reverse8(uint8(x)))<<32)
		p[1] = uint64(bits.Len16(uint16(x)) + bits.LeadingZeros16(uint16(x))<<8 + bits.TrailingZeros16(uint16(x))<<16 + bits.OnesCount16(uint16(x))<<24 + int(bits.Reverse16(uint16(x)))<<32)
		p[2] = uint64(bits.Len32(uint32(x)) + bits.LeadingZeros32(uint32(x))<<8 + bits.TrailingZeros32(uint32(x))<<16 + bits.OnesCount32(uint32(x))<<24 + int(bits.Reverse32(uint32(x)))<<32)
		p[3] = uint64(bits.Len64(x)+bits.LeadingZeros64(x)<<8+bits.TrailingZeros64(x)<<16+bits.OnesCount64(x)<<24) ^ bits.Reverse64(x)<<32 ^ bits.Reverse64(x)>>32
	}
	o[0] += uint64(bits.Len8(16)+bits.LeadingZeros8(3)+bits.TrailingZeros8(0)*3+bits.OnesCount8(255)) ^ uint64(bits.Reverse8(3))<<40
	o[1] += uint64(bits.Len16(16)+bits.LeadingZeros16(3)+bits.TrailingZeros16(0)*3+bits.OnesCount16(255)) ^ uint64(bits.Reverse16(3))<<40
	o[2] += uint64(bits.Len32(16)+bits.LeadingZeros32(3)+bits.TrailingZeros32(0)*3+bits.OnesCount32(255)) ^ uint64(bits.Reverse32(3))<<20
	o[3] += uint64(bits.Len64(16)+bits.LeadingZeros64(3)+bits.TrailingZeros64(0)*3+bits.OnesCount64(255)) ^ bits.Reverse64(3)>>20
}

// Words does what package math/bits has for numbers of several words.
//
//purecuda:kernel
func Words(t *gpu.Thread, out, a, b []uint64) {
	i := t.GlobalX()
	x, y := a[i], b[i]
	o := out[i*16 : i*16+16]
	for _, n := range [...]int{0, 1, 7, 8, 15, 31, 32, 33, 63, 64, -1, -40} {
		o[0] = o[0]*31 + (bits.RotateLeft64(x, n) ^ uint64(bits.RotateLeft(uint(y), n)))
		o[1] = o[1]*31 + uint64(bits.RotateLeft8(uint8(x), n)) ^ uint64(bits.RotateLeft16(uint16(x), n))<<8 ^ uint64(bits.RotateLeft32(uint32(x), n))<<30
	}
	n := int(int8(y))
	o[2] = bits.RotateLeft64(x, n)
	o[3] = uint64(bits.RotateLeft8(uint8(x), n)) ^ uint64(bits.RotateLeft16(uint16(x), n))<<8 ^ uint64(bits.RotateLeft32(uint32(x), n))<<30
	var c uint64
	o[4], c = bits.Add64(x, y, 0)
	o[5], c = bits.Add64(y, x^y, c)
	o[6], c = bits.Add64(^uint64(0), 0, c)
	o[7] = c
	o[8], c = bits.Sub64(x, y, 0)
	o[9], c = bits.Sub64(y, x^y, c)
	o[10], c = bits.Sub64(0, 0, c)
	o[11] = c
	s, d := bits.Add32(uint32(x), uint32(y), uint32(x>>63))
	u, e := bits.Sub32(uint32(y), s, d)
	o[12] = uint64(s)<<32 ^ uint64(u) ^ uint64(e)<<7
	v, f := bits.Add(uint(x), 5, 1)
	w, g := bits.Sub(9, uint(y), f)
	hi, lo := bits.Mul32(uint32(x), uint32(y))
	o[13] = uint64(v) ^ uint64(w) ^ uint64(f)<<62 ^ uint64(g)<<61 ^ uint64(hi)<<9 ^ uint64(lo)
	h, l := bits.Mul64(x, y)
	o[14] = h ^ l ^ bits.ReverseBytes64(y) ^ uint64(bits.ReverseBytes16(uint16(x)))
	if y > 1 {
		q, r := bits.Div64(h%y, l, y)
		o[15] = q ^ r ^ bits.Rem64(h, l, y)
	}
}

// Quotients divides numbers of 64 bits.
//
//purecuda:kernel
func Quotients(t *gpu.Thread, out, a, b []uint64) {
	i := t.GlobalX()
	x, y := a[i], b[i]
	n, m := int(x), int(y)
	o := out[i*8 : i*8+8]
	if y == 0 {
		return
	}
	o[0], o[1] = x/y, x%y
	o[3], o[2] = uint64(n%m), uint64(n/m)
	o[4] = (x>>40)%y + (x>>33)/(y>>33|1)
	o[5] = uint64(n >> 33 / (m>>40 | 1))
	for k := range 3 {
		n /= m>>(20*k) | 1
		o[6] += uint64(n)
	}
	for k := 0; k < 3; k++ {
		o[7] += x % (y>>1 + uint64(k) + 1)
		x /= 7
	}
}

// Vectors moves vectors of each type, in slices and where they are not aligned.
//
//purecuda:kernel
func Vectors(t *gpu.Thread, u []gpu.Uint4, n []gpu.Int4, f []gpu.Float4, l []gpu.Uint64x2, d []gpu.Float64x2, odd []struct {
	A uint32
	V gpu.Uint4
}) {
	i := t.GlobalX()
	s := gpu.Shared[struct {
		a [3]uint32
		v [32]gpu.Uint4
	}](t)
	s.v[t.ThreadX()] = u[i]
	t.Barrier()
	q, o := s.v[t.ThreadX()^1], odd[i]
	o.A++
	o.V, u[i] = gpu.Uint4{X: q.W, Y: q.Z, Z: o.V.Y, W: o.A}, o.V
	odd[i] = o
	n[i] = gpu.Int4{X: -n[i].X, Y: n[i].X, Z: n[i].Z, W: 7}
	f[i].Y += f[i].X
	l[i] = gpu.Uint64x2{X: l[i].Y, Y: l[i].X}
	d[i] = gpu.Float64x2{X: d[i].Y / 3, Y: d[i].X}
}
