package gpu

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
