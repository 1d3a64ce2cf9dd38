// vector_add: c[i] = a[i] + b[i] for i in [0, n), float32.
//
// c may be a or b. Any grid and block size gives the same result.
#include "purecuda.h"

extern "C" __global__ void vector_add(const float* a, const float* b, float* c, u64 n) {
  for (u64 i = thread_id(); i < n; i += thread_count()) {
    c[i] = a[i] + b[i];
  }
}
