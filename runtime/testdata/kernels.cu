// Kernels of the tests. kernels.ptx is made from them, with clang 19 alone:
//
//   clang-19 -x cuda --cuda-device-only -nocudainc -nocudalib -nostdinc \
//     --target=x86_64-linux-gnu --no-default-config --cuda-path=/nonexistent \
//     -std=c++17 -O3 -Wall -Wextra -Werror -S \
//     --cuda-gpu-arch=sm_75 --cuda-feature=+ptx64 -o kernels.ptx kernels.cu
#define KERNEL extern "C" __attribute__((global)) void

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

static __attribute__((device)) u32 thread() { return __nvvm_read_ptx_sreg_tid_x(); }
static __attribute__((device)) u32 threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
static __attribute__((device)) u32 block() { return __nvvm_read_ptx_sreg_ctaid_x(); }
static __attribute__((device)) u32 blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }

extern "C" __attribute__((device)) u32 answer = 42;

// add adds amount to each of n elements.
KERNEL add(u32* x, u64 n, u32 amount) {
  u64 i = (u64)block() * threads() + thread();
  if (i < n) x[i] += amount;
}

struct Mixed {
  u8 a;
  double b;
  short c;
};

// store writes its arguments as they came, one a word.
KERNEL store(u64* out, signed char a, short b, int c, long long d, float e, double f, Mixed m) {
  out[0] = (u64)(long long)a;
  out[1] = (u64)(long long)b;
  out[2] = (u64)(long long)c;
  out[3] = (u64)d;
  out[4] = (u64)(double)e;
  out[5] = (u64)f;
  out[6] = m.a;
  out[7] = (u64)m.b;
  out[8] = (u64)(long long)m.c;
}

extern __attribute__((shared)) u32 dynamic[];

// reverse turns n elements around within one block, in n words of dynamic shared
// memory.
KERNEL reverse(u32* x, u32 n) {
  for (u32 i = thread(); i < n; i += threads()) dynamic[i] = x[i];
  __nvvm_bar_sync(0);
  for (u32 i = thread(); i < n; i += threads()) x[i] = dynamic[n - 1 - i];
}

// rotate moves 256 elements up by one, in 1 KiB of static shared memory and with 64
// threads at most.
KERNEL __attribute__((launch_bounds(64))) rotate(u32* x) {
  __attribute__((shared)) static u32 fixed[256];
  for (u32 i = thread(); i < 256; i += threads()) fixed[i] = x[i];
  __nvvm_bar_sync(0);
  for (u32 i = thread(); i < 256; i += threads()) x[i] = fixed[(i + 255) % 256];
}

// meet ends when every block of the grid has arrived, so all must be resident.
KERNEL meet(u32* arrived) {
  if (thread() != 0) return;
  __nvvm_atom_add_gen_i((int*)arrived, 1);
  while (*(volatile u32*)arrived < blocks()) {
  }
}

// stray writes where there is no memory.
KERNEL stray(u32* nowhere) { *nowhere = 1; }
