package exec

import "github.com/purecuda/purecuda/internal/ptx"

// aluFn computes a register of a warp from up to three. It is called for all 32 lanes,
// also those that are not active, whose result is thrown away: it must be defined for
// every input. d may be one of a, b, c: each lane is read before it is written.
type aluFn = func(d, a, b, c *lanes)

type unsigned interface{ uint16 | uint32 | uint64 }

// pick returns the function for the width of t.
func pick(t ptx.Type, f16, f32, f64 aluFn) aluFn {
	switch t.Bits() {
	case 16:
		return f16
	case 32:
		return f32
	case 64:
		return f64
	}
	return nil
}

// lift1, lift2 and lift3 make functions of a lane into functions of a register.
func lift1(f func(a uint64) uint64) aluFn {
	return func(d, a, _, _ *lanes) {
		for i := range d {
			d[i] = f(a[i])
		}
	}
}

func lift2(f func(a, b uint64) uint64) aluFn {
	return func(d, a, b, _ *lanes) {
		for i := range d {
			d[i] = f(a[i], b[i])
		}
	}
}

func lift3(f func(a, b, c uint64) uint64) aluFn {
	return func(d, a, b, c *lanes) {
		for i := range d {
			d[i] = f(a[i], b[i], c[i])
		}
	}
}

// sext reads the low bits of v as a signed number.
func sext(v uint64, bits uint) int64 {
	s := 64 - bits
	return int64(v<<s) >> s
}

func isSigned(t ptx.Type) bool { return t.Class() == ptx.ClassSint }

func isInt(t ptx.Type) bool {
	return (t.Class() == ptx.ClassSint || t.Class() == ptx.ClassUint) && t.Bits() >= 16
}

func addU[T unsigned](d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(T(a[i]) + T(b[i]))
	}
}

func subU[T unsigned](d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(T(a[i]) - T(b[i]))
	}
}

func mulU[T unsigned](d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(T(a[i]) * T(b[i]))
	}
}

func madU[T unsigned](d, a, b, c *lanes) {
	for i := range d {
		d[i] = uint64(T(a[i])*T(b[i]) + T(c[i]))
	}
}

func minU(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = min(a[i], b[i])
	}
}

func maxU(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = max(a[i], b[i])
	}
}

func andU(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] & b[i]
	}
}

func orU(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] | b[i]
	}
}

func xorU(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = a[i] ^ b[i]
	}
}

func notU[T unsigned](d, a, _, _ *lanes) {
	for i := range d {
		d[i] = uint64(^T(a[i]))
	}
}

func movU(d, a, _, _ *lanes) { *d = *a }

// Shifts by more than the width give zero, or the sign (PTX ISA, "shl", "shr"); Go's
// shifts do the same.
func shlU[T unsigned](d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(T(a[i]) << uint32(b[i]))
	}
}

func shrU[T unsigned](d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(T(a[i]) >> uint32(b[i]))
	}
}

func shrS32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(int32(a[i]) >> uint32(b[i])))
	}
}

func mulWideU32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(uint32(a[i])) * uint64(uint32(b[i]))
	}
}

func mulWideS32(d, a, b, _ *lanes) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i])) * int64(int32(b[i])))
	}
}

func madWideU32(d, a, b, c *lanes) {
	for i := range d {
		d[i] = uint64(uint32(a[i]))*uint64(uint32(b[i])) + c[i]
	}
}

func madWideS32(d, a, b, c *lanes) {
	for i := range d {
		d[i] = uint64(int64(int32(a[i]))*int64(int32(b[i]))) + c[i]
	}
}
