// saxpy: y[i] = a*x[i] + y[i] for i in [0, n), float32, rounded once (a fused
// multiply-add, asked for by name so that no compiler flag changes the result).
//
// x may be y. Any grid and block size gives the same result.
#include "purecuda.h"

extern "C" __global__ void saxpy(float a, const float* x, float* y, u64 n) {
  for (u64 i = thread_id(); i < n; i += thread_count()) {
    y[i] = fused_multiply_add(a, x[i], y[i]);
  }
}
