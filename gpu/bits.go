package gpu

import (
	"reflect"
	"unsafe"
)

// Package math/bits is for kernels too: its functions on 32 and 64 bits are an instruction or two. Here is what
// it does not have.

// FunnelShiftLeft is the upper half of hi:lo shifted left by n modulo 32.
func FunnelShiftLeft(hi, lo uint32, n int) uint32 {
	return uint32((uint64(hi)<<32 | uint64(lo)) << (n & 31) >> 32)
}

// FunnelShiftRight is the lower half of hi:lo shifted right by n modulo 32.
func FunnelShiftRight(hi, lo uint32, n int) uint32 {
	return uint32((uint64(hi)<<32 | uint64(lo)) >> (n & 31))
}

// BytePermute picks four of the eight bytes of hi:lo. Digit i of selector (four bits, the lowest first) is the
// number of the byte that comes to place i: 0 to 3 are in lo. The top bit of each digit is 0.
func BytePermute(lo, hi, selector uint32) (out uint32) {
	all := uint64(hi)<<32 | uint64(lo)
	for i := range 4 {
		out |= uint32(all>>(8*(selector>>(4*i)&7))&0xff) << (8 * i)
	}
	return out
}

// MulHigh32 is the upper half of the product of 64 bits.
func MulHigh32(x, y uint32) uint32 { return uint32(uint64(x) * uint64(y) >> 32) }

// Select is a where p holds, and b else. Both are computed: it is an instruction in place of a branch.
func Select[T any](p bool, a, b T) T {
	if p {
		return a
	}
	return b
}

// Bits are the bits of a value of at most 8 bytes: a number or a bool, or a struct or an array of them. Bits between fields mean nothing.
func Bits[T any](v T) uint64 {
	if unsafe.Sizeof(v) > 8 {
		fault("gpu.Bits: %T has %d bytes, at most 8", v, unsafe.Sizeof(v))
	}
	return toBits(v)
}

// FromBits is the value with bits that [Bits] has given.
func FromBits[T any](bits uint64) (v T) {
	if unsafe.Sizeof(v) > 8 {
		fault("gpu.FromBits: %T has %d bytes, at most 8", v, unsafe.Sizeof(v))
	}
	plain(reflect.TypeFor[T]())
	return fromBits[T](bits)
}
