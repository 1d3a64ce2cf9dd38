// The kernel of the example. clamp.ptx is made from it, with clang 19 alone:
//
//   clang-19 -x cuda --cuda-device-only -nocudainc -nocudalib -nostdinc \
//     --target=x86_64-linux-gnu --no-default-config --cuda-path=/nonexistent \
//     -std=c++17 -O3 -Wall -Wextra -Werror -S \
//     --cuda-gpu-arch=sm_75 --cuda-feature=+ptx64 -o clamp.ptx clamp.cu
//
// With CUDA's own compiler, __global__ and blockIdx.x take the place of what clang
// calls by other names here, and the command is nvcc -ptx -arch=sm_75 clamp.cu.
#define KERNEL extern "C" __attribute__((global)) void
#define BLOCK __nvvm_read_ptx_sreg_ctaid_x()
#define THREADS __nvvm_read_ptx_sreg_ntid_x()
#define THREAD __nvvm_read_ptx_sreg_tid_x()

#ifndef INSIDE
#define INSIDE(i, n) ((i) < (n))
#endif

// clamp moves each of n elements into [low, high].
KERNEL clamp(float* x, unsigned long long n, float low, float high) {
  unsigned long long i = (unsigned long long)BLOCK * THREADS + THREAD;
  if (INSIDE(i, n)) x[i] = __builtin_fminf(__builtin_fmaxf(x[i], low), high);
}
