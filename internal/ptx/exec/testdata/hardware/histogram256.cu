// histogram256: counts[v] += how often the byte value v occurs in data[0, n).
//
// counts is 256 64-bit counters (a GPU holds more than 2^32 bytes) that the caller zeroes,
// or keeps to go on counting over several launches. data may have any alignment.
//
// Every warp counts into its own 256 counters in shared memory, so that the warps of a
// block do not wait for each other; the block then adds its counters to the global ones.
// Any grid and block size gives the same result.
#include "purecuda.h"

enum {
  kValues = 256,
  kCopies = 8,  // sub-histograms a block: 8 KiB of shared memory
  // A block flushes its 32-bit counters before they can overflow: one step counts at
  // most 1024 threads * 16 bytes = 2^14, so that 2^17 steps count 2^31 at most.
  kStepsPerFlush = 1 << 17,
};

PURECUDA_INLINE void count_word(u32* counters, u32 word) {
  atomic_increment(&counters[word & 0xff]);
  atomic_increment(&counters[word >> 8 & 0xff]);
  atomic_increment(&counters[word >> 16 & 0xff]);
  atomic_increment(&counters[word >> 24]);
}

// flush adds the counters of the block to the global ones and zeroes them.
PURECUDA_INLINE void flush(u32 (*counters)[kValues], u64* counts) {
  block_barrier();
  for (u32 v = thread_index(); v < kValues; v += block_threads()) {
    u64 total = 0;
#pragma unroll
    for (u32 copy = 0; copy < kCopies; ++copy) {
      total += counters[copy][v];
      counters[copy][v] = 0;
    }
    if (total != 0) atomic_add(&counts[v], total);
  }
  block_barrier();
}

extern "C" __global__ void histogram256(const u8* __restrict__ data, u64 n, u64* counts) {
  __shared__ u32 counters[kCopies][kValues];
  for (u32 i = thread_index(); i < kCopies * kValues; i += block_threads()) {
    counters[i / kValues][i % kValues] = 0;
  }
  block_barrier();
  u32* mine = counters[thread_index() / 32 % kCopies];

  // Bytes before the first 16-byte boundary, then quads, then what is left.
  u64 head = (16 - (u64)data % 16) % 16;
  if (head > n) head = n;
  const u64 quads = (n - head) / 16;
  const u64 tail = head + quads * 16;

  for (u64 i = thread_id(); i < head; i += thread_count()) atomic_increment(&mine[data[i]]);
  for (u64 i = tail + thread_id(); i < n; i += thread_count()) atomic_increment(&mine[data[i]]);

  u32 steps = 0;
  for (u64 first = (u64)block_index() * block_threads(); first < quads; first += thread_count()) {
    const u64 i = first + thread_index();
    if (i < quads) {
      Quad q = *(const Quad*)(data + head + i * 16);
      count_word(mine, q.x);
      count_word(mine, q.y);
      count_word(mine, q.z);
      count_word(mine, q.w);
    }
    if (++steps == kStepsPerFlush) {  // the same step for all threads of a block
      flush(counters, counts);
      steps = 0;
    }
  }
  flush(counters, counts);
}
