// A barrier of the whole grid on the workspace that the driver provides for a cooperative
// launch: its address stands in two environment registers, and its second word counts the
// blocks that have come. The highest bit changes when the last one is there.
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ static void sync_grid() {
  u32 high, low;
  asm("mov.u32 %0, %%envreg1;" : "=r"(high));
  asm("mov.u32 %0, %%envreg2;" : "=r"(low));
  u32 *workspace = (u32 *)((u64)high << 32 | low);
  if (!workspace)
    __builtin_trap();
  __nvvm_bar_sync(0);
  if (__nvvm_read_ptx_sreg_tid_x() == 0) {
    u32 blocks = __nvvm_read_ptx_sreg_nctaid_x();
    u32 step = __nvvm_read_ptx_sreg_ctaid_x() == 0 ? 0x80000000u - (blocks - 1) : 1, before, now;
    asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(workspace + 1), "r"(step) : "memory");
    do
      asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(workspace + 1) : "memory");
    while (((now ^ before) >> 31) == 0);
  }
  __nvvm_bar_sync(0);
}

// rotate moves x by a block at every round: out[i] is x[(i + rounds * block) % n].
extern "C" __global__ void rotate(u32 *x, u32 *out, u32 rounds) {
  u32 block = __nvvm_read_ptx_sreg_ntid_x(), n = __nvvm_read_ptx_sreg_nctaid_x() * block;
  u32 i = __nvvm_read_ptx_sreg_ctaid_x() * block + __nvvm_read_ptx_sreg_tid_x();
  for (u32 r = 0; r < rounds; r++) {
    out[i] = x[(i + block) % n];
    sync_grid();
    u32 *swap = x;
    x = out;
    out = swap;
  }
}
