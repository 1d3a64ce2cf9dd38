// gram: partials[s] = X'WX, in float64, over the rows of strip s. X is a matrix of n rows
// and k columns, row by row; W is diagonal, one weight a row.
//
// A strip is ceil(n / strips) consecutive rows. A block computes 16 by 16 entries of one
// strip, of those on and above the diagonal, one entry a thread, and stores them on both
// sides of it. An entry (i, j) adds fma(x[r][i] * w[r], x[r][j], total) over the rows r in
// their order, where the product is rounded: that depends on n and strips alone. The caller
// adds the strips in their order.
//
// Launch with 256 threads, and strips * t * (t + 1) / 2 blocks, where t = ceil(k / 16).
#include "purecuda.h"

extern "C" __global__ void __launch_bounds__(256)
    gram(const double* __restrict__ x, const double* __restrict__ weights, u64 n, u32 k,
         u32 strips, double* __restrict__ partials) {
  constexpr u32 kSide = 16, kRows = 32;
  __shared__ double left[kRows][kSide], right[kRows][kSide];

  // The blocks of a strip follow one another, and within it the tiles (0,0), (0,1), ...,
  // (1,1), (1,2), ...
  const u32 sides = (k + kSide - 1) / kSide;
  const u32 tiles = sides * (sides + 1) / 2;
  const u32 strip = block_index() / tiles;
  u32 row_of_tiles = 0, tile = block_index() % tiles;
  while (tile >= sides - row_of_tiles) tile -= sides - row_of_tiles++;
  const u32 first_i = row_of_tiles * kSide, first_j = (row_of_tiles + tile) * kSide;

  const u64 rows = (n + strips - 1) / strips;
  const u64 begin = strip * rows < n ? strip * rows : n;
  const u64 end = begin + rows < n ? begin + rows : n;
  const u32 column = thread_index() % kSide, row = thread_index() / kSide;

  double total = 0;
  for (u64 from = begin; from < end; from += kRows) {
    const u32 count = end - from < kRows ? (u32)(end - from) : kRows;
    for (u32 r = row; r < count; r += kSide) {
      const double* line = x + (from + r) * k;
      const u32 i = first_i + column, j = first_j + column;
      left[r][column] = i < k ? line[i] * weights[from + r] : 0.0;
      right[r][column] = j < k ? line[j] : 0.0;
    }
    block_barrier();
    for (u32 r = 0; r < count; r++) {
      total = fused_multiply_add(left[r][row], right[r][column], total);
    }
    block_barrier();
  }

  const u32 i = first_i + row, j = first_j + column;
  if (strip < strips && i <= j && j < k) {
    double* entries = partials + (u64)strip * k * k;
    entries[(u64)i * k + j] = total;
    entries[(u64)j * k + i] = total;
  }
}
