// sum: partials[b] = the sum, in float64, of the elements of x that block b takes.
//
// The order of additions depends on the grid and block size alone, never on timing:
//   1. thread t of the grid adds x[t], x[t+T], x[t+2T], ... in that order, T being the
//      number of threads of the grid;
//   2. each warp adds its 32 lanes as a tree: lane i takes lane i+16, then i+8, 4, 2, 1;
//   3. the first warp adds the warps of the block with the same tree (absent warps are
//      zero) and lane 0 stores the result.
// The caller adds the partials, one a block, in block order. No atomics are used: there
// the order, and so the last bits, would change from run to run.
//
// Launch with a block size that is a multiple of 32, at most 1024.
#include "purecuda.h"

PURECUDA_INLINE double warp_sum(double value) {
#pragma unroll
  for (u32 distance = 16; distance > 0; distance /= 2) {
    value += shuffle_down(value, distance);
  }
  return value;
}

extern "C" __global__ void sum(const float* __restrict__ x, u64 n, double* __restrict__ partials) {
  __shared__ double warp_sums[32];

  double total = 0;
  const u64 step = thread_count();
  u64 i = thread_id();
  // Four loads are in flight before the first addition waits for one of them.
  for (; i + 3 * step < n; i += 4 * step) {
    float x0 = x[i], x1 = x[i + step], x2 = x[i + 2 * step], x3 = x[i + 3 * step];
    total += x0;
    total += x1;
    total += x2;
    total += x3;
  }
  for (; i < n; i += step) total += x[i];

  const u32 lane = thread_index() % 32, warp = thread_index() / 32;
  total = warp_sum(total);
  if (lane == 0) warp_sums[warp] = total;
  block_barrier();
  if (warp == 0) {
    total = warp_sum(lane < block_threads() / 32 ? warp_sums[lane] : 0.0);
    if (lane == 0) partials[block_index()] = total;
  }
}
