// What kernels in CUDA C need that are compiled without a header of NVIDIA. An int of Go is an i64, and a slice is its
// address and its length.
#pragma once

typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
struct alignas(16) Quad { u32 x, y, z, w; };

#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define INLINE __attribute__((device, always_inline)) inline

#define INDEX(name, reg) INLINE u32 name() { return __nvvm_read_ptx_sreg_##reg(); }
INDEX(thread_x, tid_x) INDEX(thread_y, tid_y) INDEX(thread_z, tid_z) INDEX(block_x, ctaid_x) INDEX(block_y, ctaid_y)
INDEX(block_threads, ntid_x) INDEX(block_rows, ntid_y) INDEX(grid_blocks, nctaid_x)
INLINE void block_barrier() { __nvvm_bar_sync(0); }
INLINE void atomic_increment(u32* p) { __nvvm_atom_add_gen_i((int*)p, 1); }
INLINE void atomic_add(u64* p, u64 n) { __nvvm_atom_add_gen_ll((i64*)p, (i64)n); }
INLINE u32 rotate(u32 v, u32 n) { return __builtin_rotateright32(v, n); }
INLINE u32 swap_bytes(u32 v) { return __nvvm_prmt(v, 0, 0x0123); }
INLINE float fused_multiply_add(float a, float x, float y) { return __nvvm_fma_rn_f(a, x, y); }

#define THREAD_X ((i64)thread_x())
#define THREAD_Y ((i64)thread_y())
#define THREAD_Z ((i64)thread_z())
#define BLOCK_X ((i64)block_x())
#define BLOCK_Y ((i64)block_y())
#define GLOBAL_X ((i64)((u64)block_x() * block_threads() + thread_x()))
#define GLOBAL_Y ((i64)((u64)block_y() * block_rows() + thread_y()))
#define GLOBAL_DIM_X ((i64)((u64)grid_blocks() * block_threads()))
#define LANE (THREAD_X % 32)
#define WARP (THREAD_X / 32)
