package testlanguage

import "github.com/purecuda/purecuda/gpu"

// Half is what the types of 16 bits have.
type Half[T any] interface {
	Add(T) T
	Sub(T) T
	Mul(T) T
	Div(T) T
	Neg() T
	FMA(y, z T) T
	Float32() float32
	Bits() uint16
}

// Halves is every operation on the types of 16 bits.
//
//purecuda:kernel T=gpu.Float16,gpu.BFloat16
func Halves[T Half[T]](t *gpu.Thread, out, x, y []T, z T, wide []float32) {
	i := t.GlobalX()
	if i >= len(x) || i >= len(y) || 8*i+8 > len(out) || i >= len(wide) {
		return
	}
	a, b, o := x[i], y[i], out[8*i:8*i+8]
	o[0], o[1], o[2], o[3] = a.Add(b), a.Sub(b), a.Mul(b), a.Div(b)
	o[4], o[5], o[6] = a.FMA(b, z), a.Neg(), z.FMA(a, b.Neg()).Add(z)
	wide[i] = a.Float32()
	if a.Float32() < b.Float32() {
		wide[i] += float32(b.Bits())
	}
	o[7] = a
}

// Narrow converts to the types of 16 bits, and has them in shared memory.
//
//purecuda:kernel block=32
func Narrow(t *gpu.Thread, f []gpu.Float16, b []gpu.BFloat16, x []float32) {
	s := gpu.Shared[[32]gpu.Float16](t)
	i := t.GlobalX()
	v := float32(0)
	if i < len(x) {
		v = x[i]
	}
	s[t.ThreadX()] = gpu.ToFloat16(v)
	t.Barrier()
	if i < len(f) && i < len(b) {
		f[i] = s[31-t.ThreadX()]
		b[i] = gpu.ToBFloat16(v).Add(gpu.BFloat16FromBits(0x3f80))
		if f[i].Bits() == 0x3c00 {
			f[i] = gpu.ToFloat16(1.0 / 3)
		}
	}
}

// Eight has eight numbers of 16 bits in a load and in a store.
//
//purecuda:kernel
func Eight(t *gpu.Thread, x [][8]gpu.Float16, y [][8]uint16) {
	i := t.GlobalX()
	v, w := x[i], y[i]
	for e := range v {
		w[e] += uint16(e) * 0x2357
	}
	for e := range 4 {
		v[e], v[7-e] = v[7-e], v[e]
	}
	x[i], y[i] = v, w
}

// Quarters turns numbers of 8 bits around, which lie beside each other.
//
//purecuda:kernel
func Quarters(t *gpu.Thread, x [][4]int8, y [][2]uint8) {
	i := t.GlobalX()
	v, w := x[i], y[i]
	x[i] = [4]int8{v[3], v[2] - v[1], v[1], v[0] >> 1}
	y[i] = [2]uint8{w[1] + 200, w[0]}
}

// Packed has two floats of 16 bits at once, and eight of them in a load.
//
//purecuda:kernel
func Packed(t *gpu.Thread, out, x []gpu.Float16, bout, bx []gpu.BFloat16) {
	i := t.GlobalX()
	v, o := gpu.View[[4]gpu.Float16x2](x), gpu.View[[4]gpu.Float16x2](out)
	w, p := gpu.View[[4]gpu.BFloat16x2](bx), gpu.View[[4]gpu.BFloat16x2](bout)
	if i >= len(v) || i >= len(o) || i >= len(w) || i >= len(p) {
		return
	}
	a, b := v[i], w[i]
	o[i] = [4]gpu.Float16x2{a[0].Add(a[1]), a[1].Sub(a[2]), a[2].Mul(a[3]), a[3].FMA(a[0], a[1])}
	p[i] = [4]gpu.BFloat16x2{b[0].Add(b[1]), b[1].Sub(b[2]), b[2].Mul(b[3]), b[3].FMA(b[0], b[1])}
	low, high := a[0].Float32()
	blow, bhigh := b[0].Float32()
	if low > high {
		o[i][3] = gpu.ToFloat16x2(blow, high)
		p[i][2] = gpu.ToBFloat16x2(a[1].High().Float32(), bhigh+b[3].Low().Float32())
	}
}
