// Kernels that touch most of what nvcc and NVRTC turn into PTX. Each is
// (const u32* in, u32* out, u32 n): thread i reads words of in, any bits, and writes the
// words out[i*16, i*16+16). x_ kernels have one right answer, bit for bit; a_ kernels
// call functions with a stated error and write float32 in words 0 to 7, float64 in
// words 8 to 15.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;
typedef unsigned char u8;
typedef unsigned short u16;

#define KERNEL(name) extern "C" __global__ void name(const u32* in, u32* out, u32 n)
#define THREAD                                        \
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;      \
  if (i >= n) return;                                 \
  u32* o = out + i * 16;                              \
  u32 a = in[i * 8], b = in[i * 8 + 1], c = in[i * 8 + 2], d = in[i * 8 + 3]; \
  (void)o, (void)a, (void)b, (void)c, (void)d;
#define WIDE                                          \
  u64 x = (u64)a << 32 | b, y = (u64)c << 32 | d;

__device__ __forceinline__ float f(u32 v) { return __uint_as_float(v); }
__device__ __forceinline__ u32 w(float v) { return __float_as_uint(v); }
__device__ __forceinline__ double g(u64 v) { return __longlong_as_double((s64)v); }
__device__ __forceinline__ void put(u32* o, u64 v) { o[0] = (u32)v, o[1] = (u32)(v >> 32); }
__device__ __forceinline__ void putd(u32* o, double v) { put(o, (u64)__double_as_longlong(v)); }
__device__ __forceinline__ __half h(u32 v) { return __ushort_as_half((u16)v); }
__device__ __forceinline__ u32 hw(__half v) { return __half_as_ushort(v); }
__device__ __forceinline__ __nv_bfloat16 bf(u32 v) { return __ushort_as_bfloat16((u16)v); }
__device__ __forceinline__ u32 bw(__nv_bfloat16 v) { return __bfloat16_as_ushort(v); }
__device__ __forceinline__ __half2 h2(u32 v) { return __halves2half2(h(v), h(v >> 16)); }
__device__ __forceinline__ u32 h2w(__half2 v) { return hw(__low2half(v)) | hw(__high2half(v)) << 16; }

// Integers.

KERNEL(x_int32) {
  THREAD
  o[0] = a + b * c;
  o[1] = __umulhi(a, b);
  o[2] = (u32)__mulhi((int)a, (int)b);
  o[3] = a / (b | 1);
  o[4] = a % (b | 1);
  o[5] = (u32)((int)a / ((int)(b >> 3) | 1));
  o[6] = (u32)((int)a % ((int)(b >> 3) | 1));
  o[7] = a / 7 + a % 1000003;
  o[8] = (u32)((int)a / 13 + (int)b % 16 + (int)c / -8);
  o[9] = (a << (b & 31)) ^ (a >> (c & 31)) ^ (u32)((int)a >> (d & 31));
  o[10] = min(a, b) ^ max(c, d);
  o[11] = (u32)(min((int)a, (int)b) ^ max((int)c, (int)d));
  o[12] = (u32)abs((int)a) + __sad((int)a, (int)b, c) + __usad(a, b, c);
  o[13] = __umul24(a, b) + (u32)__mul24((int)c, (int)d);
  o[14] = __uhadd(a, b) ^ __urhadd(c, d) ^ (u32)__hadd((int)a, (int)b);
  o[15] = (a < b) + 2 * ((int)a < (int)b) + 4 * (c >= d) + 8 * ((u16)a > (u16)b) + 16 * ((signed char)a < (signed char)d);
}

KERNEL(x_bits) {
  THREAD
  WIDE
  o[0] = (u32)__popc(a) | (u32)__popcll(x) << 8;
  o[1] = (u32)__clz((int)a) | (u32)__clzll((s64)x) << 8;
  o[2] = __brev(a);
  put(o + 3, __brevll(x));
  o[5] = (u32)__ffs((int)a) | (u32)__ffsll((s64)y) << 8;
  o[6] = __byte_perm(a, b, c);
  o[7] = __funnelshift_l(a, b, c) ^ __funnelshift_lc(a, b, c);
  o[8] = __funnelshift_r(a, b, d) ^ __funnelshift_rc(a, b, d);
  o[9] = (u32)__dp4a((int)a, (int)b, (int)c);
  o[10] = __dp4a(a, b, c);
  o[11] = (u32)__dp2a_lo((int)a, (int)b, (int)c) ^ __dp2a_hi(a, b, c);
  o[12] = (a & b) ^ (~c | d) ^ (a & ~d);
  o[13] = __vadd4(a, b) ^ __vmaxs2(c, d) ^ __vabsdiffu4(a, d);
  o[14] = __vcmpgtu4(a, b) ^ __vavgs2(c, d) ^ __vsubss4(b, c);
  asm("bfe.u32 %0, %1, %2, %3;" : "=r"(o[15]) : "r"(a), "r"(b & 63), "r"(c & 63));
}

KERNEL(x_asm) {
  THREAD
  WIDE
  u32 r;
  u64 q;
  asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 63), "r"(c & 63)); o[0] = r;
  asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 63), "r"(d & 63)); o[1] = r;
  asm("bfe.s64 %0, %1, %2, %3;" : "=l"(q) : "l"(x), "r"(c & 127), "r"(d & 127)); put(o + 2, q);
  asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(q) : "l"(x), "l"(y), "r"(c & 127), "r"(d & 127)); put(o + 4, q);
  asm("{ .reg .u32 t; add.cc.u32 t, %1, %2; addc.u32 %0, t, %3; }" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[6] = r;
  asm("{ .reg .u32 t; sub.cc.u32 t, %1, %2; subc.u32 %0, t, %3; }" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[7] = r;
  asm("{ .reg .u32 t; mad.lo.cc.u32 t, %1, %2, %3; madc.hi.u32 %0, %1, %2, t; }" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[8] = r;
  asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[9] = r;
  asm("prmt.b32.rc16 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[10] = r;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[11] = r;
  asm("bfind.s32 %0, %1;" : "=r"(r) : "r"(a)); o[12] = r;
  asm("bfind.shiftamt.u64 %0, %1;" : "=r"(r) : "l"(x)); o[13] = r;
  asm("slct.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[14] = r;
  asm("{ .reg .s32 t; add.sat.s32 t, %1, %2; sub.sat.s32 %0, t, %3; }" : "=r"(r) : "r"(a), "r"(b), "r"(c)); o[15] = r;
}

KERNEL(x_video) {
  THREAD
#define VIDEO(j, op) asm(op " %0, %1, %2, %3;" : "=r"(o[j]) : "r"(a), "r"(b), "r"(c))
  VIDEO(0, "vadd4.u32.u32.u32.sat");
  VIDEO(1, "vadd2.s32.s32.s32.sat");
  VIDEO(2, "vsub4.s32.s32.s32");
  VIDEO(3, "vsub2.u32.u32.u32.sat");
  VIDEO(4, "vavrg4.s32.s32.s32");
  VIDEO(5, "vavrg2.u32.u32.u32");
  VIDEO(6, "vabsdiff4.s32.s32.s32");
  VIDEO(7, "vabsdiff4.u32.u32.u32.add");
  VIDEO(8, "vmin4.s32.s32.s32");
  VIDEO(9, "vmax2.u32.u32.u32");
  VIDEO(10, "vabsdiff2.u32.s32.s32");
  VIDEO(11, "vmax4.s32.s32.s32");
  VIDEO(12, "vadd4.u32.u32.u32");
  VIDEO(13, "vmin2.u32.u32.u32");
  VIDEO(14, "vsub4.s32.u32.u32.sat");
  VIDEO(15, "vadd2.u32.u32.u32.add");
}

KERNEL(x_int64) {
  THREAD
  WIDE
  put(o, x * y + d);
  put(o + 2, __umul64hi(x, y));
  put(o + 4, (u64)__mul64hi((s64)x, (s64)y));
  put(o + 6, x / (y >> (c & 31) | 1));
  put(o + 8, (u64)((s64)x % ((s64)y >> (d & 31) | 1)));
  put(o + 10, x / 1000000007 + (u64)((s64)y / 10));
  put(o + 12, (x << (a & 63)) ^ (y >> (b & 63)) ^ (u64)((s64)x >> (c & 63)));
  unsigned __int128 p = (unsigned __int128)x * y + ((unsigned __int128)y << 64 | x);
  p = p / 3 ^ p >> 77;
  put(o + 14, (u64)p ^ (u64)(p >> 64));
}

// Floating point.

KERNEL(x_f32) {
  THREAD
  float p = f(a), q = f(b), r = f(c);
  o[0] = w(__fadd_rn(p, q));
  o[1] = w(__fsub_rn(p, q));
  o[2] = w(__fmul_rn(p, q));
  o[3] = w(__fmaf_rn(p, q, r));
  o[4] = w(__fdiv_rn(p, q));
  o[5] = w(__fsqrt_rn(p));
  o[6] = w(__frcp_rn(p));
  o[7] = w(fminf(p, q));
  o[8] = w(fmaxf(p, r));
  o[9] = w(__fadd_rz(p, q)) ^ w(__fmul_ru(p, r));
  o[10] = w(__fmaf_rd(p, q, r));
  o[11] = w(__fdiv_ru(p, q));
  o[12] = w(__fsqrt_rz(fabsf(q)));
  o[13] = (p < q) | (p <= q) << 1 | (p == q) << 2 | (p != q) << 3 | !(p < r) << 4 | (isnan(p) ? 32 : 0) |
          (isinf(q) ? 64 : 0) | (signbit(p) ? 128 : 0);
  o[14] = w(__saturatef(p)) ^ w(copysignf(q, r));
  o[15] = w(truncf(p)) ^ w(floorf(q)) ^ w(ceilf(r)) ^ w(rintf(f(d)));
}

KERNEL(x_f64) {
  THREAD
  WIDE
  double p = g(x), q = g(y), r = (double)f(b);
  putd(o, __dadd_rn(p, q));
  putd(o + 2, __dmul_rn(p, r));
  putd(o + 4, __fma_rn(q, r, p));
  putd(o + 6, __ddiv_rn(p, q));
  putd(o + 8, __dsqrt_rn(fabs(q)));
  putd(o + 10, __drcp_rn(r));
  putd(o + 12, fmax(fmin(p, q), r));
  o[14] = (p < q) | (p <= q) << 1 | (p == q) << 2 | (p != q) << 3 | !(p < r) << 4;
  u64 z = (u64)__double_as_longlong(__dadd_ru(p, r)) ^ (u64)__double_as_longlong(__ddiv_rd(q, r)) ^
          (u64)__double_as_longlong(__dmul_rz(q, p)) ^ (u64)__double_as_longlong(floor(r));
  o[15] = (u32)z ^ (u32)(z >> 32);
}

KERNEL(x_cvt_f32) {
  THREAD
  WIDE
  float p = f(a);
  o[0] = (u32)__float2int_rn(p);
  o[1] = (u32)__float2int_rz(p) ^ (u32)__float2int_ru(f(b)) << 1 ^ (u32)__float2int_rd(f(c)) << 2;
  o[2] = __float2uint_rz(p);
  o[3] = __float2uint_rn(f(b)) ^ __float2uint_ru(f(c));
  put(o + 4, (u64)__float2ll_rz(p));
  put(o + 6, __float2ull_rn(p));
  o[8] = w(__int2float_rn((int)a)) ^ w(__int2float_rz((int)b)) << 1;
  o[9] = w(__uint2float_rn(a)) ^ w(__uint2float_ru(b)) << 1;
  o[10] = w(__ll2float_rn((s64)x)) ^ w(__ull2float_rd(y)) << 1;
  o[11] = w(__double2float_rn(g(x)));
  o[12] = w(__double2float_rz(g(x))) ^ w(__double2float_ru(g(y))) << 1;
  putd(o + 13, (double)p);
  o[15] = (u32)(u8)p ^ (u32)(short)(c >> 8) << 8 ^ (u32)(float)(signed char)d;
}

KERNEL(x_cvt_f64) {
  THREAD
  WIDE
  double p = g(x), m = (double)f(c) * 3.0;
  o[0] = (u32)__double2int_rn(p) ^ (u32)__double2int_rz(m);
  o[1] = __double2uint_rz(m);
  put(o + 2, (u64)__double2ll_rn(m));
  put(o + 4, __double2ull_rz(m));
  putd(o + 6, __ll2double_rn((s64)x));
  putd(o + 8, __ull2double_rz(y));
  putd(o + 10, __int2double_rn((int)a));
  putd(o + 12, trunc(m));
  putd(o + 14, rint(m) + ceil(p));
}

KERNEL(x_half) {
  THREAD
  __half p = h(a), q = h(b), r = h(c);
  o[0] = hw(__hadd(p, q)) | hw(__hmul(p, q)) << 16;
  o[1] = hw(__hfma(p, q, r)) | hw(__hsub(q, r)) << 16;
  o[2] = h2w(__hfma2(h2(a), h2(b), h2(c)));
  o[3] = h2w(__hadd2(h2(a), h2(b)));
  o[4] = h2w(__hmul2(h2(c), h2(d)));
  o[5] = hw(__float2half_rn(f(a))) | hw(__float2half_rz(f(b))) << 16;
  o[6] = w(__half2float(h(d)));
  o[7] = __hlt(p, q) | __hle(p, q) << 1 | __heq(p, q) << 2 | __hgtu(p, r) << 3 | __hisnan(p) << 4;
  o[8] = hw(__hmax(p, q)) | hw(__hmin(p, r)) << 16;
  o[9] = h2w(__hfma2_sat(h2(a), h2(b), h2(c)));
  o[10] = hw(__int2half_rn((int)a)) | hw(__uint2half_rn(b & 0xfffff)) << 16;
  o[11] = (u32)__half2int_rn(p) ^ __half2uint_rz(q) ^ (u32)__half2short_rn(r) << 16;
  o[12] = h2w(__floats2half2_rn(f(a), f(b)));
  o[13] = hw(__habs(p)) | hw(__hneg(q)) << 16;
  o[14] = hw(__double2half(g((u64)a << 32 | b))) | hw(htrunc(r)) << 16;
  o[15] = hw(hfloor(p)) ^ hw(hrint(q)) << 16 ^ hw(hceil(r)) << 8;
}

KERNEL(x_bf16) {
  THREAD
  __nv_bfloat16 p = bf(a), q = bf(b), r = bf(c);
  o[0] = bw(__hadd(p, q)) | bw(__hmul(p, q)) << 16;
  o[2] = bw(__float2bfloat16_rn(f(a))) | bw(__float2bfloat16_rz(f(b))) << 16;
  o[3] = w(__bfloat162float(bf(d)));
  __nv_bfloat162 v = __floats2bfloat162_rn(f(c), f(d));
  o[4] = bw(__low2bfloat16(v)) | bw(__high2bfloat16(v)) << 16;
  o[5] = __hlt(p, q) | __heq(p, r) << 1;
  o[6] = bw(__hmax(p, q)) | bw(__hmin(q, r)) << 16;
#if __CUDA_ARCH__ >= 800
  o[1] = bw(__hfma(p, q, r));
  __nv_bfloat162 z = __hfma2(__halves2bfloat162(p, q), __halves2bfloat162(q, r), __halves2bfloat162(r, p));
  o[7] = bw(__low2bfloat16(z)) | bw(__high2bfloat16(z)) << 16;
#else
  o[1] = o[7] = 0;
#endif
  o[8] = bw(__hneg(p)) | bw(__habs(q)) << 16;
  o[9] = bw(__int2bfloat16_rn((int)a));
  o[10] = (u32)__bfloat162int_rz(q);
  for (int j = 11; j < 16; j++) o[j] = 0;
}

// Blocks, warps, atomics.

KERNEL(x_shared) {
  __shared__ u32 s[128];
  __shared__ u64 t[128];
  u32 i = blockIdx.x * blockDim.x + threadIdx.x, k = threadIdx.x;
  s[k] = i < n ? in[i * 8] : 0;
  t[k] = i < n ? (u64)in[i * 8 + 1] * in[i * 8 + 2] : 0;
  __syncthreads();
  for (u32 d = 64; d > 0; d /= 2) {
    if (k < d) s[k] = s[k] * 31 + s[k + d], t[k] ^= t[k + d] * 3;
    __syncthreads();
  }
  u32 both = (u32)__syncthreads_count(k % 3 == 0) | (u32)__syncthreads_or(k == 7) << 16 | (u32)__syncthreads_and(k < 127) << 17;
  for (u32 d = 1; d < 128; d *= 2) {  // inclusive scan
    u32 v = k >= d ? s[k - d] : 0;
    __syncthreads();
    s[k] += v;
    __syncthreads();
  }
  if (i < n) {
    u32* o = out + i * 16;
    o[0] = s[k], o[1] = s[127 - k], put(o + 2, t[0]), o[4] = both;
    for (int j = 5; j < 16; j++) o[j] = s[(k * 5 + (u32)j) % 128];
  }
}

extern __shared__ u32 dynamic[];

KERNEL(x_dynamic) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x, k = threadIdx.x;
  u16* half = (u16*)(dynamic + 128);
  dynamic[k] = in[i * 8];
  half[k] = (u16)in[i * 8 + 1];
  __syncthreads();
  u32* o = out + i * 16;
  for (u32 j = 0; j < 16; j++) o[j] = dynamic[(k + j * j) % 128] + half[(k ^ j) % 128];
}

KERNEL(x_warp) {
  THREAD
  const u32 all = 0xffffffffu;
  u32 lane = threadIdx.x % 32;
  o[0] = __shfl_sync(all, a, (int)(b % 32));
  o[1] = __shfl_up_sync(all, a, 3) ^ __shfl_down_sync(all, b, 5);
  o[2] = __shfl_xor_sync(all, a, 9) ^ __shfl_sync(all, b, 2, 8) ^ __shfl_down_sync(all, c, 3, 16);
  o[3] = __ballot_sync(all, a & 1);
  o[4] = (u32)__any_sync(all, a % 29 == 0) | (u32)__all_sync(all, lane < 40) << 1;
  o[5] = __match_any_sync(all, a % 5);
  int same;
  o[6] = __match_all_sync(all, blockIdx.x, &same);
  o[6] ^= (u32)same;
  o[7] = __activemask();
  put(o + 8, __shfl_xor_sync(all, (u64)a << 32 | c, 1));
  o[10] = 0;
  if (lane % 3 != 0) {
    o[10] = __ballot_sync(0xb6db6db6u, a & 2) + __popc(__activemask());
  }
  __syncwarp();
  u32 sum = a;
  for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(all, sum, d);
  o[11] = __shfl_sync(all, sum, 0);
#if __CUDA_ARCH__ >= 800
  o[12] = __reduce_add_sync(all, a);
  o[13] = __reduce_min_sync(all, (int)b) ^ __reduce_max_sync(all, c);
  o[14] = __reduce_xor_sync(all, a) ^ __reduce_and_sync(all, b) ^ __reduce_or_sync(all, d);
#else
  o[12] = o[13] = o[14] = 0;
#endif
  o[15] = __shfl_up_sync(all, lane, 1, 4) | (u32)warpSize << 8;
}

// Words 0 to 63 of out are counters. Every operation commutes, and float sums are exact.
KERNEL(x_atomic) {
  __shared__ u32 s[16], top;
  __shared__ u64 t[2];
  __shared__ float q[2];
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x < 16) s[threadIdx.x] = top = 0;
  if (threadIdx.x < 2) t[threadIdx.x] = 0, q[threadIdx.x] = 0;
  __syncthreads();
  u32 a = in[i * 8], b = in[i * 8 + 1];
  atomicAdd(&out[0], a);
  atomicSub(&out[1], b);
  atomicMin((int*)&out[2], (int)a);
  atomicMax(&out[3], a);
  atomicAnd(&out[4], a | 0xff);
  atomicOr(&out[5], a & b);
  atomicXor(&out[6], a);
  atomicInc(&out[7], 99);
  atomicDec(&out[8], 77);
  atomicAdd((u64*)&out[10], (u64)a * b);
  atomicMax((u64*)&out[12], (u64)a << 20 | b);
  atomicMin((s64*)&out[14], (s64)((u64)a << 32 | b));
  atomicAdd((float*)&out[16], (float)(a & 0xff));
  atomicAdd((double*)&out[18], (double)(int)b);
  atomicAdd((__half2*)&out[20], __floats2half2_rn((float)(a & 1), (float)(b & 1)));
  u32 old = out[21], seen;  // an addition by CAS
  do {
    seen = old;
    old = atomicCAS(&out[21], seen, seen + (a | 1));
  } while (old != seen);
  u64 big = *(volatile u64*)&out[22], was;
  do {
    was = big;
    big = atomicCAS((u64*)&out[22], was, was ^ ((u64)b << 32 | a));
  } while (big != was);
  atomicAdd(&s[a % 16], b);
  atomicAdd(&t[a % 2], (u64)a * a);
  atomicAdd(&q[b % 2], (float)(b % 64));
  atomicMax(&top, a);
  atomicExch(&out[24], 7);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&out[32 + threadIdx.x], s[threadIdx.x]);
  if (threadIdx.x < 2) {
    atomicAdd((u64*)&out[48 + 2 * threadIdx.x], t[threadIdx.x]);
    atomicAdd((float*)&out[52 + threadIdx.x], q[threadIdx.x]);
    atomicMax(&out[54], top);
  }
}

// Control flow, calls, memory spaces.

KERNEL(x_diverge) {
  THREAD
  u32 steps = 0, v = a % 9973 + 1;
  while (v != 1) {
    v = v & 1 ? 3 * v + 1 : v / 2;
    steps++;
  }
  o[0] = steps;
  u32 sum = 0;
  for (u32 j = 0; j < b % 37; j++) {
    if (j % 3 == c % 3) continue;
    if ((a >> (j & 31) & 7) == 5) break;
    for (u32 k = 0; k < (j & 3); k++) sum = sum * 33 + k;
    sum += j;
  }
  o[1] = sum;
  u32 r;
  switch (d % 12) {
    case 0: r = a * 3; break;
    case 1: r = a ^ b; break;
    case 2: r = a + c; // falls through
    case 3: r = __popc(b); break;
    case 4: r = b / 9; break;
    case 5: r = __brev(c); break;
    case 6: r = a - b; break;
    case 7: r = c | 0x10; break;
    case 8: r = __clz((int)a); break;
    case 9: r = a << 3; break;
    case 10: r = sum * 7; break;
    default: r = 0xdead; break;
  }
  o[2] = r;
  for (int j = 3; j < 15; j++) o[j] = 0;
  if (a & 1) return;
  o[3] = __popc(__ballot_sync(__activemask(), 1)) > 0;
  if (b & 1) {
    o[4] = 1;
    return;
  }
  o[5] = (a & 2) && (b & 2) ? sum : (c & 4) || (d & 8) ? r : steps;
  o[15] = 0x55;
}

struct Pair {
  u32 x;
  u64 y;
  u8 z[5];
};

__device__ __noinline__ Pair mix(Pair p, u32 k) {
  Pair r;
  r.x = p.x * k + p.z[k % 5];
  r.y = p.y ^ (u64)p.x << 20;
  for (int j = 0; j < 5; j++) r.z[j] = p.z[(u32)(j + 1) % 5] + (u8)k;
  return r;
}

__device__ __noinline__ u32 fibonacci(u32 k) { return k < 2 ? k : fibonacci(k - 1) + fibonacci(k - 2); }

__device__ __noinline__ u32 ackermann(u32 m, u32 k) {
  return m == 0 ? k + 1 : ackermann(m - 1, k == 0 ? 1 : ackermann(m, k - 1));
}

__device__ __noinline__ u32 twice(u32 v) { return v * 2; }
__device__ __noinline__ u32 thrice(u32 v) { return v * 3; }

KERNEL(x_calls) {
  THREAD
  Pair p = {a, (u64)b << 32 | c, {(u8)a, (u8)b, (u8)c, (u8)d, 9}};
  for (u32 j = 0; j < d % 4 + 1; j++) p = mix(p, j + b % 7);
  o[0] = p.x;
  put(o + 1, p.y);
  for (int j = 0; j < 5; j++) o[3 + j] = p.z[j];
  o[8] = fibonacci(a % 9);
  o[9] = ackermann(1 + a % 2, b % 3);
  u32 (*call)(u32) = c & 1 ? twice : thrice;
  o[10] = call(a);
  for (int j = 11; j < 16; j++) o[j] = 0;
}

__constant__ u32 table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__constant__ double weights[3] = {0.5, -2.25, 1e300};
__device__ u32 scratch[4] = {11, 22, 33, 44};
__device__ const u8 letters[] = "purecuda";
__device__ const u8* const pointer = letters + 4;

KERNEL(x_memory) {
  THREAD
  u32 local[24];
  for (u32 j = 0; j < 24; j++) local[j] = in[i * 8 + j % 8] + j;
  for (u32 j = 0; j < 40; j++) {
    u32 k = local[j % 24] % 24;
    local[k] += table[(a + j) % 16] + local[(k + 7) % 24];
  }
  for (u32 j = 0; j < 8; j++) o[j] = local[(j * 5 + a) % 24];
  putd(o + 8, weights[b % 3] * (double)(int)c);
  o[10] = scratch[c % 4];
  o[11] = letters[d % 9] | (u32)pointer[a % 4] << 8;
  uint4 quad = *(const uint4*)(in + (i * 8 & ~3u));
  ushort4 shorts = *(const ushort4*)(in + (i * 8 & ~1u));
  o[12] = quad.x ^ quad.y ^ quad.z ^ quad.w;
  o[13] = (u32)shorts.x + shorts.y * 3 + shorts.z * 5 + shorts.w * 7;
  u8 bytes[8];
  for (int j = 0; j < 8; j++) bytes[j] = (u8)(a >> (j * 4));
  const u32* any = d & 1 ? local : in + (a % 512);  // a generic address
  o[14] = any[b % 8];
  o[15] = bytes[c % 8] | (u32)bytes[d % 8] << 8 | __ldg(in + a % 1024) << 16;
}

KERNEL(x_special) {
  THREAD
  o[0] = threadIdx.x | blockIdx.x << 16;
  o[1] = blockDim.x | gridDim.x << 16 | blockDim.y << 28;
  u32 r;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(r)); o[2] = r;
  asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(r)); o[3] = r;
  asm volatile("mov.u32 %0, %%lanemask_ge;" : "=r"(r)); o[4] = r;
  for (int j = 5; j < 16; j++) o[j] = (u32)j;
}

struct Big {
  u32 k;
  u8 pad[3];
  u64 v[4];
  float f;
};

extern "C" __global__ void x_struct(const u32* in, u32* out, u32 n, Big s) {
  THREAD
  put(o, s.v[a % 4] + s.k);
  o[2] = s.pad[b % 3];
  o[3] = w(s.f);
  s.v[c % 4] = a;  // a parameter that is written to is a local copy
  put(o + 4, s.v[0] ^ s.v[1] * 3 ^ s.v[2] * 5 ^ s.v[3] * 7);
  for (int j = 6; j < 16; j++) o[j] = 0;
}

// Functions with a stated error, over moderate arguments.

KERNEL(a_f32) {
  THREAD
  float p = (float)(int)a * 0x1p-28f, q = (float)(b >> 8) * 0x1p-20f + 0x1p-10f;  // [-8, 8), (0, 16)
  float* r = (float*)o;
  r[0] = expf(p);
  r[1] = sinf(p);
  r[2] = logf(q);
  r[3] = powf(q, p);
  r[4] = tanhf(p);
  r[5] = rsqrtf(q);
  r[6] = erff(p);
  r[7] = cbrtf(q);
  double* t = (double*)(o + 8);
  double x = (double)p, y = (double)q;
  t[0] = exp(x);
  t[1] = sin(x);
  t[2] = log(y);
  t[3] = pow(y, x);
}

KERNEL(a_fast) {
  THREAD
  float p = (float)(int)a * 0x1p-28f, q = (float)(b >> 8) * 0x1p-20f + 0x1p-10f;
  float* r = (float*)o;
  r[0] = __expf(p);
  r[1] = __sinf(p * 0.25f);
  r[2] = __cosf(p * 0.25f) + 2;
  r[3] = __logf(q + 2);
  r[4] = __fdividef(p, q);
  r[5] = __powf(q, p * 0.25f);
  r[6] = sinf(p * 10000.0f) * cosf(p);  // the slow path of the argument reduction
  r[7] = atan2f(p, q);
  double* t = (double*)(o + 8);
  double x = (double)p, y = (double)q;
  t[0] = rsqrt(y);
  t[1] = tanh(x);
  t[2] = cos(x * 1e7);
  t[3] = atan(x) + cbrt(y);
}

KERNEL(a_special) {
  THREAD
  float p = f(a), q = f(b);
  float* r = (float*)o;
  r[0] = expf(p);
  r[1] = sinf(p);
  r[2] = logf(p);
  r[3] = powf(p, q);
  r[4] = fmodf(p, q);
  r[5] = rsqrtf(p);
  r[6] = tanhf(p);
  r[7] = hypotf(p, q);
  double* t = (double*)(o + 8);
  t[0] = exp((double)p);
  t[1] = log((double)p);
  t[2] = fmod((double)p, (double)q);
  t[3] = sqrt((double)p);
}
