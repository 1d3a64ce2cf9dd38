// The kernels of package testsuites, in CUDA C as directly as they are there.

#include "device.cuh"

typedef unsigned char u8;
typedef unsigned __int128 u128;
struct alignas(16) Float4 { float x, y, z, w; };

#define __constant__ __attribute__((constant))
INDEX(block_z, ctaid_z) INDEX(block_layers, ntid_z)
#define GLOBAL_Z ((i64)((u64)block_z() * block_layers() + thread_z()))

template <class T> INLINE T least(T a, T b) { return a < b ? a : b; }
template <class T> INLINE T most(T a, T b) { return a > b ? a : b; }
template <class T> INLINE T absolute(T a) { return most(a, -a); }

// Rodinia.

extern "C" __global__ void __launch_bounds__(256)
    Pathfinder(int* to, i64, const int* from, i64, const int* wall, i64, i64 cols, i64 rows) {
  __shared__ int a[256], b[256];
  int *prev = a, *next = b;
  i64 tx = THREAD_X, x = BLOCK_X * (256 - 2 * rows) + tx - rows;
  bool inside = x >= 0 && x < cols;
  if (inside) prev[tx] = from[x];
  block_barrier();
  for (i64 row = 0; row < rows; row++) {
    if (inside && tx > row && tx < 255 - row) {
      int best = prev[tx];
      if (x > 0) best = least(best, prev[tx - 1]);
      if (x < cols - 1) best = least(best, prev[tx + 1]);
      next[tx] = best + wall[row * cols + x];
    }
    block_barrier();
    int* other = prev;
    prev = next, next = other;
  }
  if (inside && tx >= rows && tx < 256 - rows) to[x] = prev[tx];
}

struct Chip { float cap, rx, ry, rz, ambient; };

extern "C" __global__ void
    HotSpot(float* out, i64, const float* temp, i64, const float* power, i64, i64 w, i64 h, Chip c) {
  i64 x = GLOBAL_X, y = GLOBAL_Y;
  if (x >= w || y >= h) return;
  i64 i = y * w + x;
  float here = temp[i];
  float north = temp[most(y - 1, 0ll) * w + x], south = temp[least(y + 1, h - 1) * w + x];
  float west = temp[y * w + most(x - 1, 0ll)], east = temp[y * w + least(x + 1, w - 1)];
  out[i] = here + c.cap * (power[i] + (south + north - 2 * here) * c.ry + (east + west - 2 * here) * c.rx +
                           (c.ambient - here) * c.rz);
}

extern "C" __global__ void __launch_bounds__(64)
    Needleman(int* score, i64, const u8* a, i64, const u8* b, i64, int penalty) {
  __shared__ int m[65][65];
  i64 tx = THREAD_X, pair = BLOCK_X;
  m[0][tx + 1] = m[tx + 1][0] = -penalty * (int)(tx + 1);
  if (tx == 0) m[0][0] = 0;
  u8 letter = a[pair * 64 + tx];
  block_barrier();
  for (i64 d = 0; d < 127; d++) {
    i64 j = d - tx;
    if (j >= 0 && j < 64) {
      int s = letter == b[pair * 64 + j] ? 5 : -3;
      m[tx + 1][j + 1] = most(most(m[tx][j] + s, m[tx + 1][j] - penalty), m[tx][j + 1] - penalty);
    }
    block_barrier();
  }
  score[pair * 64 + tx] = m[tx + 1][64];
}

extern "C" __global__ void
    KMeans(int* member, i64, const float* points, i64, const float* centres, i64, i64 n, i64 k, i64 dims) {
  i64 i = GLOBAL_X;
  if (i >= n) return;
  float best = 3.4e38f;
  int nearest = 0;
  for (i64 c = 0; c < k; c++) {
    float sum = 0;
    for (i64 d = 0; d < dims; d++) {
      float x = points[d * n + i] - centres[c * dims + d];
      sum += x * x;
    }
    if (sum < best) best = sum, nearest = (int)c;
  }
  member[i] = nearest;
}

extern "C" __global__ void BFS(int* level, i64 n, const int* first, i64, const int* edges, i64, int depth) {
  i64 i = GLOBAL_X;
  if (i >= n || level[i] != depth) return;
  for (int e = first[i]; e < first[i + 1]; e++) {
    int to = edges[e];
    if (level[to] > depth) level[to] = depth + 1;
  }
}

// The NAS Parallel Benchmarks and SHOC.

extern "C" __global__ void EP(u64* counts, i64, u64 seed, i64 n) {
  constexpr u64 a = 1220703125, mask = (1ull << 46) - 1;
  constexpr double scale = 1.0 / (1ull << 46);
  u64 x = (((seed + 2 * (u64)GLOBAL_X) + 1) * a) & mask;
  u32 rings[10] = {};
  for (i64 i = 0; i < n; i++) {
    x = x * a & mask;
    double u = 2 * (double)x * scale - 1;
    x = x * a & mask;
    double v = 2 * (double)x * scale - 1, r = u * u + v * v;
    if (r <= 1) rings[least((i64)(__nvvm_sqrt_rn_d(r) * 10), 9ll)]++;
  }
  for (int i = 0; i < 10; i++) atomic_add(&counts[i], rings[i]);
}

extern "C" __global__ void
    CG(double* y, i64 n, const double* x, i64, const double* values, i64, const int* columns, i64, const int* first, i64) {
  i64 row = GLOBAL_X;
  if (row >= n) return;
  double sum = 0;
  for (int i = first[row]; i < first[row + 1]; i++) sum += values[i] * x[columns[i]];
  y[row] = sum;
}

struct Weights { double a[4]; };

extern "C" __global__ void MG(double* r, i64, const double* u, i64, const double* v, i64, i64 n, Weights w) {
  i64 x = GLOBAL_X, y = GLOBAL_Y, z = GLOBAL_Z;
  if (x < 1 || y < 1 || z < 1 || x >= n - 1 || y >= n - 1 || z >= n - 1) return;
  i64 i = (z * n + y) * n + x;
  double s = v[i];
  for (int dz = -1; dz <= 1; dz++)
    for (int dy = -1; dy <= 1; dy++)
      for (int dx = -1; dx <= 1; dx++) s -= w.a[dz * dz + dy * dy + dx * dx] * u[i + (dz * n + dy) * n + dx];
  r[i] = s;
}

extern "C" __global__ void MD(Float4* force, i64, const Float4* position, i64, const int* neighbours, i64, i64 n, i64 count,
                              float cutoff, float lj1, float lj2) {
  i64 i = GLOBAL_X;
  if (i >= n) return;
  Float4 p = position[i], f = {};
  for (i64 j = 0; j < count; j++) {
    Float4 q = position[neighbours[j * n + i]];
    float dx = p.x - q.x, dy = p.y - q.y, dz = p.z - q.z, r2 = dx * dx + dy * dy + dz * dz;
    if (r2 < cutoff) {
      r2 = 1 / r2;
      float r6 = r2 * r2 * r2, s = r2 * r6 * (lj1 * r6 - lj2);
      f.x += dx * s, f.y += dy * s, f.z += dz * s;
    }
  }
  force[i] = f;
}

extern "C" __global__ void
    Matmul(float* c, i64, const float* a, i64, const float* b, i64, i64 m, i64 n, i64 k) {
  i64 col = GLOBAL_X, row = GLOBAL_Y;
  if (row >= m || col >= n) return;
  float sum = 0;
  for (i64 i = 0; i < k; i++) sum += a[row * k + i] * b[i * n + col];
  c[row * n + col] = sum;
}

// Images.

extern "C" __global__ void Sobel(u8* out, i64, const u8* in, i64, i64 w, i64 h) {
  i64 x = GLOBAL_X, y = GLOBAL_Y;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  i64 at = y * w + x;
  i64 a = in[at - w - 1], b = in[at - w], c = in[at - w + 1], d = in[at - 1], f = in[at + 1];
  i64 g = in[at + w - 1], e = in[at + w], k = in[at + w + 1];
  i64 gx = c + 2 * f + k - a - 2 * d - g, gy = g + 2 * e + k - a - 2 * b - c;
  out[at] = (u8)least(absolute(gx) + absolute(gy), 255ll);
}

extern "C" __global__ void Median(u8* out, i64, const u8* in, i64, i64 w, i64 h) {
  i64 x = GLOBAL_X, y = GLOBAL_Y;
  if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
  u8 v[9];
  for (int dy = 0; dy < 3; dy++)
    for (int dx = 0; dx < 3; dx++) v[dy * 3 + dx] = in[(y + dy - 1) * w + x + dx - 1];
#pragma unroll
  for (int i = 0; i < 5; i++)
#pragma unroll
    for (int j = i + 1; j < 9; j++) {
      u8 low = least(v[i], v[j]), high = most(v[i], v[j]);
      v[i] = low, v[j] = high;
    }
  out[y * w + x] = v[4];
}

struct Kernel { float w[25]; };

extern "C" __global__ void Blur(float* out, i64, const float* in, i64, i64 w, i64 h, Kernel k) {
  i64 x = GLOBAL_X, y = GLOBAL_Y;
  if (x >= w || y >= h) return;
  float sum = 0;
  for (int dy = -2; dy <= 2; dy++)
    for (int dx = -2; dx <= 2; dx++)
      sum += k.w[(dy + 2) * 5 + dx + 2] * in[least(most(y + dy, 0ll), h - 1) * w + least(most(x + dx, 0ll), w - 1)];
  out[y * w + x] = sum;
}

__constant__ float cosines[8][8] = {
    {0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f},
    {0.49039263f, 0.4157348f, 0.2777851f, 0.09754516f, -0.09754516f, -0.2777851f, -0.4157348f, -0.49039263f},
    {0.46193975f, 0.19134171f, -0.19134171f, -0.46193975f, -0.46193975f, -0.19134171f, 0.19134171f, 0.46193975f},
    {0.4157348f, -0.09754516f, -0.49039263f, -0.2777851f, 0.2777851f, 0.49039263f, 0.09754516f, -0.4157348f},
    {0.35355338f, -0.35355338f, -0.35355338f, 0.35355338f, 0.35355338f, -0.35355338f, -0.35355338f, 0.35355338f},
    {0.2777851f, -0.49039263f, 0.09754516f, 0.4157348f, -0.4157348f, -0.09754516f, 0.49039263f, -0.2777851f},
    {0.19134171f, -0.46193975f, 0.46193975f, -0.19134171f, -0.19134171f, 0.46193975f, -0.46193975f, 0.19134171f},
    {0.09754516f, -0.2777851f, 0.4157348f, -0.49039263f, 0.49039263f, -0.4157348f, 0.2777851f, -0.09754516f}};

extern "C" __global__ void __launch_bounds__(256) DCT(float* out, i64, const float* in, i64, i64 w) {
  __shared__ float tile[4][8][8], rows[4][8][8];
  i64 u = THREAD_X, v = THREAD_Y, z = THREAD_Z, at = (BLOCK_Y * 8 + v) * w + (BLOCK_X * 4 + z) * 8 + u;
  tile[z][v][u] = in[at];
  block_barrier();
  float sum = 0;
  for (int k = 0; k < 8; k++) sum += cosines[u][k] * tile[z][v][k];
  rows[z][v][u] = sum;
  block_barrier();
  sum = 0;
  for (int k = 0; k < 8; k++) sum += cosines[v][k] * rows[z][k][u];
  out[at] = sum;
}

struct alignas(4) Pixel { u8 r, g, b, a; };

extern "C" __global__ void YUV(u8* y, i64, u8* u, i64, u8* v, i64, const Pixel* pixels, i64 n) {
  for (i64 i = GLOBAL_X; i < n; i += GLOBAL_DIM_X) {
    Pixel p = pixels[i];
    int r = p.r, g = p.g, b = p.b;
    y[i] = (u8)(((66 * r + 129 * g + 25 * b + 128) >> 8) + 16);
    u[i] = (u8)(((-38 * r - 74 * g + 112 * b + 128) >> 8) + 128);
    v[i] = (u8)(((112 * r - 94 * g - 18 * b + 128) >> 8) + 128);
  }
}

extern "C" __global__ void Permute(float* out, i64 n_out, const float* in, i64, i64 channels, i64 height, i64 width) {
  for (i64 i = GLOBAL_X; i < n_out; i += GLOBAL_DIM_X) {
    i64 c = i % channels, x = i / channels % width, y = i / channels / width % height, n = i / channels / width / height;
    out[i] = in[((n * channels + c) * height + y) * width + x];
  }
}

// Hashes and ciphers.

__constant__ u64 rounds[24] = {
    0x0000000000000001, 0x0000000000008082, 0x800000000000808A, 0x8000000080008000, 0x000000000000808B, 0x0000000080000001,
    0x8000000080008081, 0x8000000000008009, 0x000000000000008A, 0x0000000000000088, 0x0000000080008009, 0x000000008000000A,
    0x000000008000808B, 0x800000000000008B, 0x8000000000008089, 0x8000000000008003, 0x8000000000008002, 0x8000000000000080,
    0x000000000000800A, 0x800000008000000A, 0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008};

INLINE u64 rotate_left(u64 v, u64 n) { return __builtin_rotateleft64(v, n); }

extern "C" __global__ void Keccak(u64 (*states)[25], i64 n) {
  constexpr int offsets[24] = {1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 2, 14, 27, 41, 56, 8, 25, 43, 62, 18, 39, 61, 20, 44};
  constexpr int lanes[24] = {10, 7, 11, 17, 18, 3, 5, 16, 8, 21, 24, 4, 15, 23, 19, 13, 12, 2, 20, 14, 22, 9, 6, 1};
  i64 i = GLOBAL_X;
  if (i >= n) return;
  u64 s[25];
  for (int j = 0; j < 25; j++) s[j] = states[i][j];
  for (int round = 0; round < 24; round++) {
    u64 c[5];
#pragma unroll
    for (int x = 0; x < 5; x++) c[x] = s[x] ^ s[x + 5] ^ s[x + 10] ^ s[x + 15] ^ s[x + 20];
#pragma unroll
    for (int x = 0; x < 5; x++) {
      u64 d = c[(x + 4) % 5] ^ rotate_left(c[(x + 1) % 5], 1);
#pragma unroll
      for (int y = 0; y < 25; y += 5) s[y + x] ^= d;
    }
    u64 v = s[1];
#pragma unroll
    for (int j = 0; j < 24; j++) {
      u64 w = s[lanes[j]];
      s[lanes[j]] = rotate_left(v, offsets[j]);
      v = w;
    }
#pragma unroll
    for (int y = 0; y < 25; y += 5) {
      u64 row[5] = {s[y], s[y + 1], s[y + 2], s[y + 3], s[y + 4]};
#pragma unroll
      for (int x = 0; x < 5; x++) s[y + x] = row[x] ^ (~row[(x + 1) % 5] & row[(x + 2) % 5]);
    }
    s[0] ^= rounds[round];
  }
  for (int j = 0; j < 25; j++) states[i][j] = s[j];
}

extern "C" __global__ void XXHash(u64* out, i64 n, const u64* data, i64, i64 words) {
  constexpr u64 p1 = 0x9E3779B185EBCA87, p2 = 0xC2B2AE3D27D4EB4F, p3 = 0x165667B19E3779F9, seed = 42;
  i64 i = GLOBAL_X;
  if (i >= n) return;
  u64 v[4] = {seed + 0x60EA27EEADC0B5D6, seed + p2, seed, seed - p1};
  const u64* chunk = data + i * words;
  for (i64 j = 0; j + 4 <= words; j += 4)
#pragma unroll
    for (int l = 0; l < 4; l++) v[l] = rotate_left(v[l] + chunk[j + l] * p2, 31) * p1;
  u64 h = rotate_left(v[0], 1) + rotate_left(v[1], 7) + rotate_left(v[2], 12) + rotate_left(v[3], 18);
#pragma unroll
  for (int l = 0; l < 4; l++) h = (h ^ (rotate_left(v[l] * p2, 31) * p1)) * p1 + 0x85EBCA77C2B2AE63;
  h += (u64)words * 8;
  h = (h ^ (h >> 33)) * p2;
  h = (h ^ (h >> 29)) * p3;
  out[i] = h ^ (h >> 32);
}

extern "C" __global__ void CRC32(u32* out, i64 n, const u8* data, i64, const u32* table, i64, i64 size) {
  __shared__ u32 lookup[256];
  for (i64 i = THREAD_X; i < 256; i += block_threads()) lookup[i] = table[i];
  block_barrier();
  i64 i = GLOBAL_X;
  if (i >= n) return;
  const u8* p = data + i * size;
  u32 crc = ~0u;
  for (i64 j = 0; j < size; j++) crc = (crc >> 8) ^ lookup[(u8)crc ^ p[j]];
  out[i] = ~crc;
}

struct Element { u64 v[4]; };

INLINE Element product(Element a, Element b) {
  u64 t[8] = {};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    u64 carry = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      u128 sum = (u128)a.v[i] * b.v[j] + t[i + j] + carry;
      t[i + j] = (u64)sum, carry = (u64)(sum >> 64);
    }
    t[i + 4] = carry;
  }
  Element r;
  u64 carry = 0;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    u128 sum = (u128)t[i + 4] * 38 + t[i] + carry;
    r.v[i] = (u64)sum, carry = (u64)(sum >> 64);
  }
  u128 sum = (u128)r.v[0] + carry * 38;
  r.v[0] = (u64)sum;
#pragma unroll
  for (int i = 1; i < 4; i++) {
    sum = (u128)r.v[i] + (u64)(sum >> 64);
    r.v[i] = (u64)sum;
  }
  r.v[0] += (u64)(sum >> 64) * 38;
  return r;
}

extern "C" __global__ void Curve25519(Element* x, i64 n, i64 times) {
  i64 i = GLOBAL_X;
  if (i >= n) return;
  Element v = x[i];
  for (i64 j = 0; j < times; j++) v = product(v, v);
  x[i] = v;
}

// HeCBench.

struct Matrix { float a[8][8]; };

extern "C" __global__ void Cholesky(Matrix* out, i64, const Matrix* in, i64 n) {
  i64 i = GLOBAL_X;
  if (i >= n) return;
  Matrix m = in[i];
#pragma unroll
  for (int j = 0; j < 8; j++) {
    float d = m.a[j][j];
#pragma unroll
    for (int k = 0; k < j; k++) d -= m.a[j][k] * m.a[j][k];
    d = __nvvm_sqrt_rn_f(d);
    m.a[j][j] = d;
#pragma unroll
    for (int r = j + 1; r < 8; r++) {
      float s = m.a[r][j];
#pragma unroll
      for (int k = 0; k < j; k++) s -= m.a[r][k] * m.a[j][k];
      m.a[r][j] = s / d;
      m.a[j][r] = 0;
    }
  }
  out[i] = m;
}

extern "C" __global__ void Queens(u32* counts, i64, i64 n) {
  i64 i = GLOBAL_X;
  if (i >= n * n) return;
  u32 all = (1u << n) - 1, a = 1u << (i / n), b = 1u << (i % n);
  if ((b & (a | a << 1 | a >> 1)) != 0) {
    counts[i] = 0;
    return;
  }
  u32 cols[32] = {}, left[32] = {}, right[32] = {}, open[32] = {};
  cols[0] = a | b, left[0] = (a << 1 | b) << 1, right[0] = (a >> 1 | b) >> 1;
  open[0] = all & ~(cols[0] | left[0] | right[0]);
  i64 depth = 0;
  u32 count = 0;
  while (depth >= 0) {
    u32 f = open[depth];
    if (f == 0) {
      depth--;
      continue;
    }
    u32 q = f & -f;
    open[depth] = f ^ q;
    if (depth == n - 3) {
      count++;
      continue;
    }
    cols[depth + 1] = cols[depth] | q;
    left[depth + 1] = (left[depth] | q) << 1;
    right[depth + 1] = (right[depth] | q) >> 1;
    depth++;
    open[depth] = all & ~(cols[depth] | left[depth] | right[depth]);
  }
  counts[i] = count;
}

extern "C" __global__ void Primes(u8* prime, i64 count, i64 first) {
  i64 i = GLOBAL_X;
  if (i >= count) return;
  i64 n = first + 2 * i;
  prime[i] = 1;
  for (i64 d = 3; d * d <= n; d += 2)
    if (n % d == 0) {
      prime[i] = 0;
      break;
    }
}

extern "C" __global__ void LBM(float* to, i64, const float* from, i64, i64 w, i64 h, float omega) {
  constexpr float weight[9] = {4.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 9, 1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};
  constexpr int east[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, north[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
  i64 x = GLOBAL_X, y = GLOBAL_Y;
  if (x >= w || y >= h) return;
  float f[9], rho = 0, ux = 0, uy = 0;
#pragma unroll
  for (int k = 0; k < 9; k++) {
    i64 fx = (x - east[k] + w) % w, fy = (y - north[k] + h) % h;
    f[k] = from[(k * h + fy) * w + fx];
    rho += f[k];
    ux += f[k] * (float)east[k];
    uy += f[k] * (float)north[k];
  }
  ux = ux / rho, uy = uy / rho;
  float square = 1.5f * (ux * ux + uy * uy);
#pragma unroll
  for (int k = 0; k < 9; k++) {
    float along = 3 * ((float)east[k] * ux + (float)north[k] * uy);
    float balance = weight[k] * rho * (1 + along + 0.5f * along * along - square);
    to[(k * h + y) * w + x] = f[k] + omega * (balance - f[k]);
  }
}
