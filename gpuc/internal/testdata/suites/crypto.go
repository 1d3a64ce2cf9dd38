package testsuites

import (
	"math/bits"

	"github.com/purecuda/purecuda/gpu"
)

// The kernels of this file hash and encrypt.

var rounds = [24]uint64{
	0x0000000000000001, 0x0000000000008082, 0x800000000000808A, 0x8000000080008000, 0x000000000000808B, 0x0000000080000001,
	0x8000000080008081, 0x8000000000008009, 0x000000000000008A, 0x0000000000000088, 0x0000000080008009, 0x000000008000000A,
	0x000000008000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003, 0x8000000000008002, 0x8000000000000080,
	0x000000000000800A, 0x800000008000000A, 0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
}

var (
	offsets = [24]int{1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44}
	lanes   = [24]int{10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1}
)

// Keccak permutes states of 25 words.
//
//purecuda:kernel
func Keccak(t *gpu.Thread, states [][25]uint64) {
	i := t.GlobalX()
	if i >= len(states) {
		return
	}
	s := states[i]
	for _, constant := range rounds {
		var c [5]uint64
		for x := range 5 {
			c[x] = s[x] ^ s[x+5] ^ s[x+10] ^ s[x+15] ^ s[x+20]
		}
		for x := range 5 {
			d := c[(x+4)%5] ^ bits.RotateLeft64(c[(x+1)%5], 1)
			for y := 0; y < 25; y += 5 {
				s[y+x] ^= d
			}
		}
		v := s[1]
		for j := range 24 {
			v, s[lanes[j]] = s[lanes[j]], bits.RotateLeft64(v, offsets[j])
		}
		for y := 0; y < 25; y += 5 {
			row := [5]uint64{s[y], s[y+1], s[y+2], s[y+3], s[y+4]}
			for x := range 5 {
				s[y+x] = row[x] ^ ^row[(x+1)%5]&row[(x+2)%5]
			}
		}
		s[0] ^= constant
	}
	states[i] = s
}

const p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9

// XXHash hashes chunks of words, of which each has a multiple of four.
//
//purecuda:kernel
func XXHash(t *gpu.Thread, out, data []uint64, words int) {
	i := t.GlobalX()
	if i >= len(out) {
		return
	}
	var seed uint64 = 42
	v := [4]uint64{seed + 0x60EA27EEADC0B5D6, seed + p2, seed, seed - p1}
	chunk := data[i*words : (i+1)*words]
	for j := 0; j+4 <= len(chunk); j += 4 {
		for l := range v {
			v[l] = bits.RotateLeft64(v[l]+chunk[j+l]*p2, 31) * p1
		}
	}
	h := bits.RotateLeft64(v[0], 1) + bits.RotateLeft64(v[1], 7) + bits.RotateLeft64(v[2], 12) + bits.RotateLeft64(v[3], 18)
	for _, x := range v {
		h = (h^bits.RotateLeft64(x*p2, 31)*p1)*p1 + 0x85EBCA77C2B2AE63
	}
	h += uint64(words) * 8
	h = (h ^ h>>33) * p2
	h = (h ^ h>>29) * p3
	out[i] = h ^ h>>32
}

// CRC32 checks chunks of bytes by a table.
//
//purecuda:kernel
func CRC32(t *gpu.Thread, out []uint32, data []uint8, table []uint32, size int) {
	lookup := gpu.Shared[[256]uint32](t)
	for i := t.ThreadX(); i < 256; i += t.BlockDimX() {
		lookup[i] = table[i]
	}
	t.Barrier()
	i := t.GlobalX()
	if i >= len(out) {
		return
	}
	crc := ^uint32(0)
	for _, b := range data[i*size : (i+1)*size] {
		crc = crc>>8 ^ lookup[uint8(crc)^b]
	}
	out[i] = ^crc
}

// Element is a number below 2 to the 256.
type Element [4]uint64

// product is a*b modulo 2^255-19, below 2 to the 256.
func product(a, b Element) (r Element) {
	var t [8]uint64
	for i := range 4 {
		var carry uint64
		for j := range 4 {
			hi, lo := bits.Mul64(a[i], b[j])
			var c uint64
			lo, c = bits.Add64(lo, t[i+j], 0)
			hi += c
			t[i+j], c = bits.Add64(lo, carry, 0)
			carry = hi + c
		}
		t[i+4] = carry
	}
	var carry uint64
	for i := range 4 {
		hi, lo := bits.Mul64(t[i+4], 38)
		var c uint64
		lo, c = bits.Add64(lo, t[i], 0)
		hi += c
		r[i], c = bits.Add64(lo, carry, 0)
		carry = hi + c
	}
	r[0], carry = bits.Add64(r[0], carry*38, 0)
	for i := 1; i < 4; i++ {
		r[i], carry = bits.Add64(r[i], 0, carry)
	}
	r[0] += carry * 38
	return r
}

// Curve25519 squares numbers again and again.
//
//purecuda:kernel
func Curve25519(t *gpu.Thread, x []Element, times int) {
	if i := t.GlobalX(); i < len(x) {
		v := x[i]
		for range times {
			v = product(v, v)
		}
		x[i] = v
	}
}
