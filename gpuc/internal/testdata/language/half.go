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
