// The kernel of the example. heat.ptx is made from it, with clang 19 alone:
//
//   clang-19 -x cuda --cuda-device-only -nocudainc -nocudalib -nostdinc \
//     --target=x86_64-linux-gnu --no-default-config --cuda-path=/nonexistent \
//     -std=c++17 -O3 -Wall -Wextra -Werror -S \
//     --cuda-gpu-arch=sm_75 --cuda-feature=+ptx64 -o heat.ptx heat.cu
//
// With CUDA's own compiler, __global__ and blockIdx.x take the place of what clang
// calls by other names here, and the command is nvcc -ptx -arch=sm_75 heat.cu.
#define KERNEL extern "C" __attribute__((global)) void
#define BLOCK __nvvm_read_ptx_sreg_ctaid_x()
#define THREADS __nvvm_read_ptx_sreg_ntid_x()
#define THREAD __nvvm_read_ptx_sreg_tid_x()

// step lets heat flow along a rod of n points for a moment. The ends keep theirs.
KERNEL step(float* to, const float* from, unsigned long long n, float rate) {
  unsigned long long i = (unsigned long long)BLOCK * THREADS + THREAD;
  if (i >= n) return;
  float here = from[i];
  if (i > 0 && i + 1 < n) here += rate * (from[i - 1] - 2 * here + from[i + 1]);
  to[i] = here;
}
