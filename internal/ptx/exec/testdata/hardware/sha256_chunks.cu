// sha256_chunks: the SHA-256 (FIPS 180-4) of each of n chunks of data.
//
// Chunk i is data[offset, offset+length); offset is a multiple of 16, length may be 0.
// Memory must be readable up to offset+length rounded up to 16: loads are 16 bytes wide.
// What the padding holds does not matter. data and digests are 16-byte aligned.
//
// digests[32*i, 32*i+32) gets the digest in the byte order of the standard (big-endian
// words). With rounds > 0 it is then replaced `rounds` times by the SHA-256 of itself,
// which makes the work bound by arithmetic instead of memory.
//
// One thread hashes one chunk: SHA-256 is serial within a message, so the parallelism is
// across chunks, and 64 rounds unrolled over a message schedule of 16 words keep all state
// in registers. A grid smaller than n is allowed.
#include "purecuda.h"

struct alignas(16) Chunk {
  u64 offset;    // bytes from data, a multiple of 16
  u32 length;    // bytes
  u32 reserved;  // not read
};

// Block is one 64-byte message block, State the eight words of the hash value.
struct Block {
  u32 w[16];
};
struct State {
  u32 h[8];
};

static_assert(sizeof(Chunk) == 16, "kernels.Chunk in Go has this layout");

// FIPS 180-4, 4.1.2: functions. Ch and Maj and the sums of three are one lop3 each.
PURECUDA_INLINE u32 xor3(u32 x, u32 y, u32 z) { return logic3<0xf0 ^ 0xcc ^ 0xaa>(x, y, z); }
PURECUDA_INLINE u32 choose(u32 x, u32 y, u32 z) {
  return logic3<(0xf0 & 0xcc) | (0x0f & 0xaa)>(x, y, z);
}
PURECUDA_INLINE u32 majority(u32 x, u32 y, u32 z) {
  return logic3<(0xf0 & 0xcc) | (0xf0 & 0xaa) | (0xcc & 0xaa)>(x, y, z);
}
PURECUDA_INLINE u32 big_sigma0(u32 x) {
  return xor3(rotate_right(x, 2), rotate_right(x, 13), rotate_right(x, 22));
}
PURECUDA_INLINE u32 big_sigma1(u32 x) {
  return xor3(rotate_right(x, 6), rotate_right(x, 11), rotate_right(x, 25));
}
PURECUDA_INLINE u32 small_sigma0(u32 x) {
  return xor3(rotate_right(x, 7), rotate_right(x, 18), x >> 3);
}
PURECUDA_INLINE u32 small_sigma1(u32 x) {
  return xor3(rotate_right(x, 17), rotate_right(x, 19), x >> 10);
}

// FIPS 180-4, 5.3.3: the initial hash value.
PURECUDA_INLINE State initial_state() {
  return State{{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

// FIPS 180-4, 6.2.2: one message block. The loop is fully unrolled, so that every index
// and every constant of the table (4.2.2) is known when it is compiled: the schedule and
// the working variables are registers, the constants immediate operands.
PURECUDA_INLINE void compress(State& state, Block m) {
  constexpr u32 k[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
  };
  u32 a = state.h[0], b = state.h[1], c = state.h[2], d = state.h[3];
  u32 e = state.h[4], f = state.h[5], g = state.h[6], h = state.h[7];
#pragma unroll
  for (int t = 0; t < 64; ++t) {
    // Word t of the schedule takes the place of word t-16, which is no longer needed.
    if (t >= 16) {
      m.w[t % 16] += small_sigma1(m.w[(t - 2) % 16]) + m.w[(t - 7) % 16] + small_sigma0(m.w[(t - 15) % 16]);
    }
    u32 t1 = h + big_sigma1(e) + choose(e, f, g) + k[t] + m.w[t % 16];
    u32 t2 = big_sigma0(a) + majority(a, b, c);
    h = g, g = f, f = e, e = d + t1;
    d = c, c = b, b = a, a = t1 + t2;
  }
  state.h[0] += a, state.h[1] += b, state.h[2] += c, state.h[3] += d;
  state.h[4] += e, state.h[5] += f, state.h[6] += g, state.h[7] += h;
}

// Blocks are held as they lie in memory and swapped to big-endian words when they are
// used, so that a load issued early is not waited for early.
PURECUDA_INLINE Block swapped(Block m) {
#pragma unroll
  for (int j = 0; j < 16; ++j) m.w[j] = swap_bytes(m.w[j]);
  return m;
}

PURECUDA_INLINE void put_quad(Block& m, int q, Quad v) {
  m.w[4 * q] = v.x, m.w[4 * q + 1] = v.y, m.w[4 * q + 2] = v.z, m.w[4 * q + 3] = v.w;
}

PURECUDA_INLINE Block load_block(const u8* p) {
  Block m;
#pragma unroll
  for (int q = 0; q < 4; ++q) put_quad(m, q, *(const Quad*)(p + 16 * q));
  return m;
}

// padded_block is FIPS 180-4, 5.1.1, as far as it fits into one block: the last `left`
// (0 to 63) bytes of the message, which are at p, then a bit 1, then zeroes.
PURECUDA_INLINE Block padded_block(const u8* p, int left) {
  Block m;
#pragma unroll
  for (int q = 0; q < 4; ++q) {
    put_quad(m, q, 16 * q < left ? *(const Quad*)(p + 16 * q) : Quad{0, 0, 0, 0});
  }
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    const int have = left - 4 * j;  // message bytes in this word, when within 0 to 3
    if (have < 0) {
      m.w[j] = 0;
    } else if (have < 4) {
      const u32 end = 1u << (8 * have);  // lowest bit of the first byte of padding
      m.w[j] = (m.w[j] & (end - 1)) | end << 7;
    }
  }
  return swapped(m);
}

// put_length ends a message's last block with the message's length in bits.
PURECUDA_INLINE void put_length(Block& m, u32 bytes) {
  m.w[14] = bytes >> 29;
  m.w[15] = bytes << 3;
}

// At least 6 blocks of 128 threads on a multiprocessor leave 80 registers to a thread. On an
// H100 that is the fastest of 4 to 10: with 8 and more the schedule spills to memory, with
// less there are too few warps to hide the latency of the arithmetic.
extern "C" __global__ void __launch_bounds__(128, 6)
sha256_chunks(const u8* __restrict__ data, const Chunk* __restrict__ chunks, u32 n, u32 rounds,
              u8* __restrict__ digests) {
  for (u64 i = thread_id(); i < n; i += thread_count()) {
    const u8* p = data + chunks[i].offset;
    const u32 length = chunks[i].length;

    State state = initial_state();
    const u32 full = length / 64;  // blocks of message bytes alone
    Block next;
    if (full > 0) next = load_block(p);
    for (u32 b = 1; b <= full; ++b) {
      p += 64;
      const Block block = swapped(next);
      // Fetch the next block before hashing this one: the 64 rounds hide the latency.
      if (b < full) next = load_block(p);
      compress(state, block);
    }

    // The end of the message, then `rounds` times the digest so far. One loop, so that the
    // unrolled rounds are not a third and fourth time in the instruction cache.
    const int left = length % 64;
    Block block = padded_block(p, left);
    bool length_follows = left >= 56;  // no room behind the data: a block of its own
    if (!length_follows) put_length(block, length);
    for (u32 r = 0;;) {
      compress(state, block);
      if (length_follows) {
        length_follows = false;
        block = Block{};
        put_length(block, length);
        continue;
      }
      if (r == rounds) break;
      ++r;
      block = Block{{state.h[0], state.h[1], state.h[2], state.h[3],
                     state.h[4], state.h[5], state.h[6], state.h[7], 0x80000000}};
      put_length(block, 32);
      state = initial_state();
    }

    Quad* out = (Quad*)(digests + i * 32);
    out[0] = Quad{swap_bytes(state.h[0]), swap_bytes(state.h[1]), swap_bytes(state.h[2]), swap_bytes(state.h[3])};
    out[1] = Quad{swap_bytes(state.h[4]), swap_bytes(state.h[5]), swap_bytes(state.h[6]), swap_bytes(state.h[7])};
  }
}
