// The kernels of package testkernels that the benchmark times, in CUDA C as directly as they are there: an int of Go is
// an i64, and a slice is its address and its length.

#include "device.cuh"

struct View { double x, y, step; int width, height; u32 limit; };
struct alignas(8) Complex { float re, im; };

extern "C" __global__ void Saxpy(float a, const float* x, i64 n, float* y, i64) {
  for (i64 i = GLOBAL_X; i < n; i += GLOBAL_DIM_X) y[i] = fused_multiply_add(a, x[i], y[i]);
}

extern "C" __global__ void VecAdd(float* c, i64 n, const float* a, i64, const float* b, i64) {
  i64 i = GLOBAL_X;
  if (i < n) c[i] = a[i] + b[i];
}

extern "C" __global__ void Stencil(float* out, i64, const float* in, i64, i64 w, i64 h) {
  i64 x = GLOBAL_X, y = GLOBAL_Y;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  i64 i = y * w + x;
  out[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
}

INLINE void count(u32* c, u32 w) {
  atomic_increment(&c[w & 0xff]);
  atomic_increment(&c[w >> 8 & 0xff]);
  atomic_increment(&c[w >> 16 & 0xff]);
  atomic_increment(&c[w >> 24]);
}

extern "C" __global__ void Histogram(const Quad* data, i64 n, u64* counts, i64) {
  __shared__ u32 c[8][256];
  for (i64 i = THREAD_X; i < 8 * 256; i += block_threads()) c[i / 256][i % 256] = 0;
  block_barrier();
  u32* mine = c[THREAD_X / 32 % 8];
  for (i64 i = GLOBAL_X; i < n; i += GLOBAL_DIM_X) {
    Quad q = data[i];
    count(mine, q.x);
    count(mine, q.y);
    count(mine, q.z);
    count(mine, q.w);
  }
  block_barrier();
  for (i64 v = THREAD_X; v < 256; v += block_threads()) {
    u64 t = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) t += c[k][v];
    if (t != 0) atomic_add(&counts[v], t);
  }
}

extern "C" __global__ void Mandelbrot(View v, u32* out, i64) {
  i64 px = GLOBAL_X, py = GLOBAL_Y;
  if (px >= v.width || py >= v.height) return;
  double cx = v.x + v.step * (double)px, cy = v.y + v.step * (double)py, x = 0, y = 0;
  u32 n = 0;
  while (n < v.limit && x * x + y * y <= 4) {
    double next = x * x - y * y + cx;
    y = 2 * x * y + cy;
    x = next;
    n++;
  }
  out[py * v.width + px] = n;
}

extern "C" __global__ void Sgemm(float* c, i64, const float* a, i64, const float* b, i64, i64 n) {
  __shared__ float as[16][16], bs[16][16];
  i64 tx = THREAD_X, ty = THREAD_Y, col = BLOCK_X * 16 + tx, row = BLOCK_Y * 16 + ty;
  float sum = 0;
  for (i64 k = 0; k < n; k += 16) {
    as[ty][tx] = a[row * n + k + tx];
    bs[ty][tx] = b[(k + ty) * n + col];
    block_barrier();
#pragma unroll
    for (int j = 0; j < 16; j++) sum = fused_multiply_add(as[ty][j], bs[j][tx], sum);
    block_barrier();
  }
  c[row * n + col] = sum;
}

INLINE void compress(u32* h, u32* w) {
  constexpr u32 k256[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  u32 a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], i = h[7];
#pragma unroll
  for (int t = 0; t < 64; t++) {
    if (t >= 16) {
      u32 v1 = w[(t - 2) % 16], v2 = w[(t - 15) % 16];
      u32 s1 = rotate(v1, 17) ^ rotate(v1, 19) ^ v1 >> 10;
      u32 s0 = rotate(v2, 7) ^ rotate(v2, 18) ^ v2 >> 3;
      w[t % 16] += s1 + w[(t - 7) % 16] + s0;
    }
    u32 t1 = i + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + k256[t] + w[t % 16];
    u32 t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    i = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  h[0] += a; h[1] += b; h[2] += c; h[3] += d; h[4] += e; h[5] += f; h[6] += g; h[7] += i;
}

extern "C" __global__ void SHA256(const Quad* data, i64, Quad* out, i64 n, i64 size) {
  i64 quads = size / 16;
  for (i64 i = GLOBAL_X; i < n / 2; i += GLOBAL_DIM_X) {
    u32 h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const Quad* p = data + i * quads;
    for (i64 j = 0; j <= quads; j += 4) {
      u32 w[16] = {};
      if (j < quads) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
          Quad q = p[j + k];
          w[4 * k] = swap_bytes(q.x);
          w[4 * k + 1] = swap_bytes(q.y);
          w[4 * k + 2] = swap_bytes(q.z);
          w[4 * k + 3] = swap_bytes(q.w);
        }
      } else {
        w[0] = 0x80000000;
        w[14] = (u32)((u64)size >> 29);
        w[15] = (u32)size << 3;
      }
      compress(h, w);
    }
    out[2 * i] = Quad{h[0], h[1], h[2], h[3]};
    out[2 * i + 1] = Quad{h[4], h[5], h[6], h[7]};
  }
}

INLINE float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __nvvm_shfl_sync_down_f32(0xffffffffu, v, d, 0x1f);
  return v;
}

extern "C" __global__ void Reduce(const float* x, i64 n, float* partial, i64) {
  __shared__ float warps[32];
  float s = 0;
  for (i64 i = GLOBAL_X; i < n; i += GLOBAL_DIM_X) s += x[i];
  s = warp_sum(s);
  if (LANE == 0) warps[WARP] = s;
  block_barrier();
  if (WARP == 0) {
    s = 0;
    if (LANE < block_threads() / 32) s = warps[LANE];
    s = warp_sum(s);
    if (LANE == 0) partial[BLOCK_X] = s;
  }
}

extern "C" __global__ void __launch_bounds__(256) Scan(Quad* out, i64 n_out, const Quad* in, i64 n, u32* sums, i64) {
  __shared__ u32 warps[8];
  i64 i = BLOCK_X * 256 + THREAD_X;
  Quad q = {};
  if (i < n) q = in[i];
  q.y += q.x;
  q.z += q.y;
  q.w += q.z;
  u32 up_to = q.w;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    u32 v = (u32)__nvvm_shfl_sync_up_i32(0xffffffffu, (int)up_to, d, 0);
    if (LANE >= d) up_to += v;
  }
  if (LANE == 31) warps[WARP] = up_to;
  block_barrier();
  u32 before = up_to - q.w, sum = 0;
#pragma unroll
  for (int w = 0; w < 8; w++) {
    if (w == WARP) before += sum;
    sum += warps[w];
  }
  if (i < n_out) out[i] = Quad{q.x + before, q.y + before, q.z + before, q.w + before};
  if (THREAD_X == 0) sums[BLOCK_X] = sum;
}

extern "C" __global__ void __launch_bounds__(256) Transpose(float* out, i64, const float* in, i64, i64 w, i64 h) {
  __shared__ float tile[32][33];
  i64 x = BLOCK_X * 32 + THREAD_X, y = BLOCK_Y * 32 + THREAD_Y;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (x < w && y + j < h) tile[THREAD_Y + j][THREAD_X] = in[(y + j) * w + x];
  block_barrier();
  x = BLOCK_Y * 32 + THREAD_X, y = BLOCK_X * 32 + THREAD_Y;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    if (x < h && y + j < w) out[(y + j) * h + x] = tile[THREAD_X][THREAD_Y + j];
}

extern "C" __global__ void __launch_bounds__(256)
    Products(float (*c)[8][8], i64 n, const float (*a)[8][8], i64, const float (*b)[8][8], i64) {
  __shared__ float as[4][8][8], bs[4][8][8];
  i64 col = THREAD_X, row = THREAD_Y, z = THREAD_Z, i = BLOCK_X * 4 + z;
  if (i < n) {
    as[z][row][col] = a[i][row][col];
    bs[z][row][col] = b[i][row][col];
  }
  block_barrier();
  if (i < n) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) sum = fused_multiply_add(as[z][row][k], bs[z][k][col], sum);
    c[i][row][col] = sum;
  }
}

INLINE Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
INLINE Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
INLINE Complex operator*(Complex a, Complex b) {
  return {fused_multiply_add(a.re, b.re, -(a.im * b.im)), fused_multiply_add(a.re, b.im, a.im * b.re)};
}

extern "C" __global__ void __launch_bounds__(256)
    FFT(Complex* out, i64, const Complex* in, i64, const Complex* roots, i64) {
  __shared__ Complex s[1024];
  constexpr i64 quarter = 256;
  i64 j = THREAD_X, base = BLOCK_X * 1024;
  Complex a = in[base + j], b = in[base + j + quarter], c = in[base + j + 2 * quarter], d = in[base + j + 3 * quarter];
#pragma unroll
  for (i64 n = 1; n < 1024; n *= 4) {
    i64 k = j & (n - 1);
    if (n > 1) {
      i64 w = k * (quarter / n);
      b = b * roots[w], c = c * roots[2 * w], d = d * roots[3 * w];
    }
    Complex p = a + c, q = a - c, r = b + d, u = b - d;
    Complex v = {u.im, -u.re};
    a = p + r, b = q + v, c = p - r, d = q - v;
    i64 to = (j - k) * 4 + k;
    if (n == quarter) {
      out[base + to] = a, out[base + to + n] = b, out[base + to + 2 * n] = c, out[base + to + 3 * n] = d;
      break;
    }
    s[to] = a, s[to + n] = b, s[to + 2 * n] = c, s[to + 3 * n] = d;
    block_barrier();
    a = s[j], b = s[j + quarter], c = s[j + 2 * quarter], d = s[j + 3 * quarter];
    block_barrier();
  }
}
