// Package testops tries each operation on each type.
package testops

import (
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

const N = 26

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
	o[18] = T(float32(x)) / 7
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

type point struct {
	p  [3]int16
	f  float64
	ok bool
	r  rune
}

// Structs keeps structs in slices, shared memory and variables.
//
//purecuda:kernel
func Structs(t *gpu.Thread, ps []point, out []int32) {
	s := gpu.Shared[[32]point](t)
	l := t.ThreadX()
	q := ps[t.GlobalX()]
	q.p[1] += q.p[0]
	q.ok = !q.ok
	s[l] = q
	t.Barrier()
	n := s[(l+1)%32]
	var hist [5]int32
	for _, v := range n.p {
		hist[(int(v)%5+5)%5]++
	}
	best, at := int32(-1), 0
	for i, v := range hist {
		if v > best {
			best, at = v, i
		}
	}
	ps[t.GlobalX()] = n
	if n.ok {
		best += 10
	}
	for k := range hist { // stops early
		if hist[k] == 0 {
			best += int32(k) * 100
			break
		}
	}
	out[t.GlobalX()] = best*1000 + int32(at) + n.r
}
