package source

import (
	"math/bits"

	"github.com/purecuda/purecuda/gpu"
)

// Chunk is a piece of data: kernels.Chunk.
type Chunk struct {
	Offset uint64 // in bytes, a multiple of 16
	Length uint32 // in bytes
	_      uint32
}

// block is a message block of 64 bytes, state the hash value.
type (
	block [16]uint32
	state [8]uint32
)

// initial is the initial hash value (FIPS 180-4, 5.3.3).
func initial() state {
	return state{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}
}

// constants of FIPS 180-4, 4.2.2.
var constants = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

// compress takes a block into the hash value (FIPS 180-4, 6.2.2).
func compress(h *state, w *block) {
	a, b, c, d, e, f, g, i := h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]
	for t := range 64 {
		if t >= 16 {
			v, u := w[(t-2)%16], w[(t-15)%16]
			w[t%16] += (bits.RotateLeft32(v, -17) ^ bits.RotateLeft32(v, -19) ^ v>>10) + w[(t-7)%16] +
				(bits.RotateLeft32(u, -7) ^ bits.RotateLeft32(u, -18) ^ u>>3)
		}
		// What needs no e comes first: the next round waits for t1.
		t1 := i + constants[t] + w[t%16] + (e&f ^ ^e&g) + (bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25))
		t2 := (bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)) + (a&b ^ a&c ^ b&c)
		i, g, f, e, d, c, b, a = g, f, e, d+t1, c, b, a, t1+t2
	}
	h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7] = h[0]+a, h[1]+b, h[2]+c, h[3]+d, h[4]+e, h[5]+f, h[6]+g, h[7]+i
}

// swapped has the words of a block in the byte order of the standard.
func swapped(m *block) (w block) {
	for i := range 16 {
		w[i] = bits.ReverseBytes32(m[i])
	}
	return w
}

func put(m *block, i int, q gpu.Uint4) { m[4*i], m[4*i+1], m[4*i+2], m[4*i+3] = q.X, q.Y, q.Z, q.W }

func load(data []gpu.Uint4, at int) (m block) {
	for i := range 4 {
		put(&m, i, data[at+i])
	}
	return m
}

// padded is FIPS 180-4, 5.1.1, as far as it fits into one block: the last left bytes (0 to 63) of the message, then a bit
// 1, then zeros.
func padded(data []gpu.Uint4, at int, left int32) block {
	var m block
	for i := range 4 {
		if int32(16*i) < left {
			put(&m, i, data[at+i])
		}
	}
	for i := range 16 {
		have := left - int32(4*i) // bytes in this word, when within 0 to 3
		if have < 0 {
			m[i] = 0
		} else if have < 4 {
			end := uint32(1) << uint32(8*have) // the lowest bit of the padding
			m[i] = m[i]&(end-1) | end<<7
		}
	}
	return swapped(&m)
}

// SHA256Chunks computes the SHA-256 (FIPS 180-4) of each chunk of data, replaced rounds times by the SHA-256 of itself.
// data is padded to 16 bytes; what the padding holds does not matter. A digest is two elements of digests, in the byte
// order of the standard.
//
// One thread hashes one chunk: SHA-256 is serial within a message. A grid smaller than the number of chunks is allowed.
//
// At least 6 blocks of 128 threads on a multiprocessor leave 80 registers to a thread. On an H100 that is the fastest of 4
// to 10 for the CUDA C that this comes from: with 8 and more the schedule spills to memory.
//
//purecuda:kernel entry=sha256_chunks block=128 blocks=6
func SHA256Chunks(t *gpu.Thread, data []gpu.Uint4, chunks []Chunk, rounds uint32, digests []gpu.Uint4) {
	for i := t.GlobalX(); i < len(chunks); i += t.GlobalDimX() {
		at, length := int(chunks[i].Offset/16), chunks[i].Length
		h := initial()
		full := length / 64 // blocks of message bytes alone
		var next block
		if full > 0 {
			next = load(data, at)
		}
		for b := uint32(1); b <= full; b++ {
			at += 4
			m := next
			// Fetch the next block before hashing this one: the 64 rounds hide the latency.
			if b < full {
				next = load(data, at)
			}
			m = swapped(&m)
			compress(&h, &m)
		}
		// The end of the message, then rounds times the digest so far. One loop, so that the unrolled rounds are not a
		// third and fourth time in the instruction cache.
		left := int32(length % 64)
		m := padded(data, at, left)
		follows := left >= 56 // no room for the length behind the data: it gets a block of its own
		if !follows {
			m[14], m[15] = length>>29, length<<3
		}
		for r := uint32(0); ; {
			compress(&h, &m)
			if follows {
				follows = false
				m = block{14: length >> 29, 15: length << 3}
				continue
			}
			if r == rounds {
				break
			}
			r++
			m = block{h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7], 0x80000000, 15: 32 << 3}
			h = initial()
		}
		digests[2*i], digests[2*i+1] = reversed(h[0], h[1], h[2], h[3]), reversed(h[4], h[5], h[6], h[7])
	}
}

// reversed has words in the other byte order.
func reversed(a, b, c, d uint32) gpu.Uint4 {
	return gpu.Uint4{X: bits.ReverseBytes32(a), Y: bits.ReverseBytes32(b), Z: bits.ReverseBytes32(c), W: bits.ReverseBytes32(d)}
}

// SHA256Rounds replaces each digest rounds times by the SHA-256 of itself. A digest is two elements, as in SHA256Chunks.
//
// One thread has one digest. 8 blocks of 128 threads on a multiprocessor leave 64 registers to a thread.
//
//purecuda:kernel entry=sha256_rounds block=128 blocks=8
func SHA256Rounds(t *gpu.Thread, digests []gpu.Uint4, rounds uint32) {
	for i := t.GlobalX(); i < len(digests)/2; i += t.GlobalDimX() {
		a, b := digests[2*i], digests[2*i+1]
		a, b = reversed(a.X, a.Y, a.Z, a.W), reversed(b.X, b.Y, b.Z, b.W)
		for range rounds {
			m, h := block{a.X, a.Y, a.Z, a.W, b.X, b.Y, b.Z, b.W, 0x80000000, 15: 32 << 3}, initial()
			compress(&h, &m)
			a, b = gpu.Uint4{X: h[0], Y: h[1], Z: h[2], W: h[3]}, gpu.Uint4{X: h[4], Y: h[5], Z: h[6], W: h[7]}
		}
		digests[2*i], digests[2*i+1] = reversed(a.X, a.Y, a.Z, a.W), reversed(b.X, b.Y, b.Z, b.W)
	}
}
