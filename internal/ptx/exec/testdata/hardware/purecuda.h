// purecuda.h: the little of CUDA C that the kernels of this folder use.
//
// The same .cu files are built in two ways:
//   - clang 19 alone, without a CUDA toolkit (scripts/build-ptx). Nothing is
//     predeclared there, so this header names the address-space attributes and
//     reaches the hardware through clang's NVPTX builtins.
//   - nvcc or NVRTC, which predeclare the CUDA C language.
// Kernels use only the names declared here, so that both builds see one program.
#ifndef PURECUDA_H
#define PURECUDA_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

// Quad is 16 bytes: the widest access one thread makes with one instruction.
struct alignas(16) Quad {
  u32 x, y, z, w;
};

#if defined(__clang__) && !defined(__CUDACC__)  // clang without a toolkit

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define PURECUDA_INLINE __attribute__((device, always_inline)) inline

PURECUDA_INLINE u32 thread_index() { return __nvvm_read_ptx_sreg_tid_x(); }
PURECUDA_INLINE u32 block_index() { return __nvvm_read_ptx_sreg_ctaid_x(); }
PURECUDA_INLINE u32 block_threads() { return __nvvm_read_ptx_sreg_ntid_x(); }
PURECUDA_INLINE u32 grid_blocks() { return __nvvm_read_ptx_sreg_nctaid_x(); }

// block_barrier waits for all threads of the block and makes their shared-memory
// writes visible to each other.
PURECUDA_INLINE void block_barrier() { __nvvm_bar_sync(0); }

// shuffle_down gives the value that the lane `distance` above in the warp holds.
// All 32 lanes take part.
PURECUDA_INLINE u32 shuffle_down(u32 value, u32 distance) {
  return (u32)__nvvm_shfl_sync_down_i32(0xffffffffu, (int)value, (int)distance, 0x1f);
}

PURECUDA_INLINE void atomic_increment(u32* counter) { __nvvm_atom_add_gen_i((int*)counter, 1); }
PURECUDA_INLINE void atomic_add(u64* counter, u64 amount) {
  __nvvm_atom_add_gen_ll((long long*)counter, (long long)amount);
}

// rotate_right is one funnel shift: (value:value) >> count, low word.
PURECUDA_INLINE u32 rotate_right(u32 value, u32 count) {
  return __builtin_rotateright32(value, count);
}

// select_bytes is the prmt instruction: result byte i is byte (selector nibble i)
// of the eight bytes {high, low}.
PURECUDA_INLINE u32 select_bytes(u32 low, u32 high, u32 selector) {
  return __nvvm_prmt(low, high, selector);
}

// fused_multiply_add rounds a*x+y once, whatever the contraction flags say.
PURECUDA_INLINE float fused_multiply_add(float a, float x, float y) {
  return __nvvm_fma_rn_f(a, x, y);
}
PURECUDA_INLINE double fused_multiply_add(double a, double x, double y) {
  return __nvvm_fma_rn_d(a, x, y);
}

PURECUDA_INLINE u32 low_word(double value) { return (u32)__nvvm_d2i_lo(value); }
PURECUDA_INLINE u32 high_word(double value) { return (u32)__nvvm_d2i_hi(value); }
PURECUDA_INLINE double join_words(u32 low, u32 high) {
  return __nvvm_lohi_i2d((int)low, (int)high);
}

#else  // nvcc or NVRTC

#define PURECUDA_INLINE __device__ __forceinline__

PURECUDA_INLINE u32 thread_index() { return threadIdx.x; }
PURECUDA_INLINE u32 block_index() { return blockIdx.x; }
PURECUDA_INLINE u32 block_threads() { return blockDim.x; }
PURECUDA_INLINE u32 grid_blocks() { return gridDim.x; }

PURECUDA_INLINE void block_barrier() { __syncthreads(); }

PURECUDA_INLINE u32 shuffle_down(u32 value, u32 distance) {
  return __shfl_down_sync(0xffffffffu, value, distance);
}

PURECUDA_INLINE void atomic_increment(u32* counter) { atomicAdd(counter, 1u); }
PURECUDA_INLINE void atomic_add(u64* counter, u64 amount) { atomicAdd(counter, amount); }

PURECUDA_INLINE u32 rotate_right(u32 value, u32 count) {
  return __funnelshift_r(value, value, count);
}

PURECUDA_INLINE u32 select_bytes(u32 low, u32 high, u32 selector) {
  return __byte_perm(low, high, selector);
}

PURECUDA_INLINE float fused_multiply_add(float a, float x, float y) {
  return __fmaf_rn(a, x, y);
}
PURECUDA_INLINE double fused_multiply_add(double a, double x, double y) {
  return __fma_rn(a, x, y);
}

PURECUDA_INLINE u32 low_word(double value) { return (u32)__double2loint(value); }
PURECUDA_INLINE u32 high_word(double value) { return (u32)__double2hiint(value); }
PURECUDA_INLINE double join_words(u32 low, u32 high) {
  return __hiloint2double((int)high, (int)low);
}

#endif

// What follows is the same in both builds.

// logic3 is the lop3 instruction: any function of three bits, on 32 bits at once. The
// truth table is the function applied to the bytes 0xf0, 0xcc and 0xaa. Written as an
// instruction because an optimizer that splits the expression costs more than one.
template <u32 kTable>
PURECUDA_INLINE u32 logic3(u32 a, u32 b, u32 c) {
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(result) : "r"(a), "r"(b), "r"(c), "n"(kTable));
  return result;
}

// thread_id numbers the threads of the whole grid, thread_count counts them. A loop
// `for (i = thread_id(); i < n; i += thread_count())` covers [0, n) with any grid.
PURECUDA_INLINE u64 thread_id() { return (u64)block_index() * block_threads() + thread_index(); }
PURECUDA_INLINE u64 thread_count() { return (u64)grid_blocks() * block_threads(); }

// shuffle_down of a float64 is two 32-bit shuffles: the hardware has no wider one.
PURECUDA_INLINE double shuffle_down(double value, u32 distance) {
  u32 low = shuffle_down(low_word(value), distance);
  u32 high = shuffle_down(high_word(value), distance);
  return join_words(low, high);
}

// swap_bytes turns a little-endian word into a big-endian one and back.
PURECUDA_INLINE u32 swap_bytes(u32 value) { return select_bytes(value, 0, 0x0123); }

#endif  // PURECUDA_H
