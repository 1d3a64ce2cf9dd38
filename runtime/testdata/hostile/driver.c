/* A CUDA driver that does as little as a driver can, and lies: the function that wild_name
   names returns what wild_mode says. Its handles are numbers, its memory is the host's, its
   streams are done at once, and its kernels do nothing. It checks what it is given, as a real
   driver does, so that a test sees only what Go does with its lies. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;

char wild_name[64];
int wild_mode;
int wild_calls; /* of the function that lies */

enum { INVALID = 1, NO_CONTEXT = 201, NOT_FOUND = 500 };

/* The modes. The test names them in the same order. */
enum { ZERO, UNTOUCHED, ONES, HUGE_VALUE, ONE, UNKNOWN, NEGATIVE, LOWEST, NO_MEMORY, STICKY, NOT_READY, MODES };

static const int results[MODES] = {[UNKNOWN] = 12345, [NEGATIVE] = -1, [LOWEST] = INT32_MIN,
                                   [NO_MEMORY] = 2, [STICKY] = 700, [NOT_READY] = 600};

/* lies tells whether a function lies, and then leaves behind what it returns. */
static int lies(const char *name, void *out, size_t size, int *result) {
  if (strcmp(name, wild_name)) return 0;
  __atomic_add_fetch(&wild_calls, 1, __ATOMIC_RELAXED);
  *result = results[wild_mode];
  if (!out) return 1;
  switch (wild_mode) {
  case UNTOUCHED: break;
  case ONES: memset(out, 0xff, size); break;
  case HUGE_VALUE: memset(out, 0x7f, size); break;
  case ONE: memset(out, 0, size); *(char *)out = 1; break;
  case ZERO: memset(out, 0, size); break;
  default: memset(out, 0xab, size); break;
  }
  return 1;
}

#define LIE(name, out) do { int r; if (lies(#name, (out), sizeof *(out), &r)) return r; } while (0)
#define LIE2(name, a, b) do { int r, s; int first = lies(#name, (a), sizeof *(a), &r); \
    if (first) { lies(#name, (b), sizeof *(b), &s); return r; } } while (0)
#define LIE0(name) do { int r; if (lies(#name, NULL, 0, &r)) return r; } while (0)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct { char *at; size_t size; } blocks[4096];

static int allocate(void **out, size_t size) {
  if (!size || size > 1 << 30) return 2;
  void *p = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
  pthread_mutex_lock(&lock);
  int i = 0;
  while (i < 4096 && blocks[i].at) i++;
  if (p && i < 4096) blocks[i].at = p, blocks[i].size = size;
  pthread_mutex_unlock(&lock);
  return p && i < 4096 ? (*out = p, 0) : 2;
}

static int is_block(u64 at, size_t size) {
  int found = 0;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 4096; i++)
    found |= blocks[i].at && (u64)blocks[i].at <= at && size <= blocks[i].size &&
             at - (u64)blocks[i].at <= blocks[i].size - size;
  pthread_mutex_unlock(&lock);
  return found;
}

static int release(void *p) {
  int r = INVALID;
  pthread_mutex_lock(&lock);
  for (int i = 0; p && i < 4096; i++)
    if (blocks[i].at == p) free(p), blocks[i].at = NULL, r = 0;
  pthread_mutex_unlock(&lock);
  return r;
}

static u64 handle(void) {
  static u64 last = 0x1000;
  return __atomic_add_fetch(&last, 16, __ATOMIC_RELAXED);
}

/* What a function that lies has not done is forgotten when the next lie begins. */
int wild_round;
static __thread u64 stack[4096];
static __thread int height, round_of_stack;
static int *begun(void) {
  if (round_of_stack != wild_round) round_of_stack = wild_round, height = 0;
  return &height;
}
#define depth (*begun())

int cuInit(unsigned flags) { LIE0(cuInit); return flags ? INVALID : 0; }
int cuDriverGetVersion(int *v) { LIE(cuDriverGetVersion, v); return *v = 12080, 0; }
int cuDeviceGetCount(int *n) { LIE(cuDeviceGetCount, n); return *n = 2, 0; }
int cuDeviceGet(int *d, int ordinal) { LIE(cuDeviceGet, d); return *d = ordinal, ordinal >> 1 ? 101 : 0; }

int cuDeviceGetName(char *name, int length, int d) {
  int r;
  if (!strcmp("cuDeviceGetName", wild_name) && wild_mode == ONE) { /* as a terminal reads it */
    return strncpy(name, "\033[2J\033]0;owned\007\n\x9b\x80", length), 0;
  }
  if (lies("cuDeviceGetName", name, length, &r)) return r;
  return (void)d, strncpy(name, "Hostile", length), 0;
}

int cuDeviceGetUuid(char *uuid, int d) { LIE(cuDeviceGetUuid, (char(*)[16])uuid); return memset(uuid, d + 1, 16), 0; }
int cuDeviceGetPCIBusId(char *id, int length, int d) {
  int r;
  if (lies("cuDeviceGetPCIBusId", id, length, &r)) return r;
  return (void)d, strncpy(id, "0000:01:00.0", length), 0;
}
int cuDeviceTotalMem_v2(size_t *n, int d) { LIE(cuDeviceTotalMem, n); return (void)d, *n = 1u << 30, 0; }

int cuDeviceGetAttribute(int *v, int attribute, int d) {
  LIE(cuDeviceGetAttribute, v);
  (void)d;
  switch (attribute) {
  case 1: case 2: case 3: return *v = 1024, 0;
  case 4: return *v = 64, 0;
  case 5: return *v = 0x7fffffff, 0;
  case 6: case 7: return *v = 65535, 0;
  case 8: return *v = 49152, 0;
  case 97: return *v = 98304, 0;
  case 10: return *v = 32, 0;
  case 16: return *v = 8, 0;
  case 39: return *v = 2048, 0;
  case 75: return *v = 9, 0;
  case 41: case 95: case 115: case 120: return *v = 1, 0;
  }
  return *v = 0, 0;
}

int cuDeviceCanAccessPeer(int *can, int a, int b) { LIE(cuDeviceCanAccessPeer, can); return *can = a != b, 0; }
int cuCtxEnablePeerAccess(u64 peer, unsigned flags) { LIE0(cuCtxEnablePeerAccess); return !peer || flags; }

int cuDevicePrimaryCtxRetain(u64 *c, int d) { LIE(cuDevicePrimaryCtxRetain, c); return *c = 0x100 + d, 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { LIE0(cuDevicePrimaryCtxRelease); return (void)d, 0; }
int cuDevicePrimaryCtxReset_v2(int d) { LIE0(cuDevicePrimaryCtxReset); return (void)d, 0; }
int cuCtxPushCurrent_v2(u64 c) {
  LIE0(cuCtxPushCurrent);
  if (!c || depth == 4096) return NO_CONTEXT;
  return stack[depth++] = c, 0;
}
int cuCtxPopCurrent_v2(u64 *c) {
  LIE(cuCtxPopCurrent, c);
  if (!depth) return NO_CONTEXT;
  return *c = stack[--depth], 0;
}
int cuCtxGetCurrent(u64 *c) { LIE(cuCtxGetCurrent, c); return *c = depth ? stack[depth - 1] : 0, 0; }
int cuCtxGetDevice(int *d) { LIE(cuCtxGetDevice, d); return depth ? (*d = stack[depth - 1] - 0x100, 0) : NO_CONTEXT; }
int cuCtxSynchronize(void) { LIE0(cuCtxSynchronize); return depth ? 0 : NO_CONTEXT; }

int cuMemGetInfo_v2(size_t *available, size_t *total) {
  LIE2(cuMemGetInfo, available, total);
  return *available = 1 << 29, *total = 1 << 30, depth ? 0 : NO_CONTEXT;
}
int cuMemAlloc_v2(void **p, size_t n) { LIE(cuMemAlloc, p); return allocate(p, n); }
int cuMemFree_v2(void *p) { LIE0(cuMemFree); return release(p); }
int cuMemHostAlloc(void **p, size_t n, unsigned flags) { LIE(cuMemHostAlloc, p); return (void)flags, allocate(p, n); }
int cuMemFreeHost(void *p) { LIE0(cuMemFreeHost); return release(p); }
int cuMemPoolCreate(u64 *pool, void *props) { LIE(cuMemPoolCreate, pool); return (void)props, *pool = handle(), 0; }
int cuMemPoolDestroy(u64 pool) { LIE0(cuMemPoolDestroy); return !pool; }
int cuMemPoolSetAttribute(u64 pool, int attribute, void *v) { LIE0(cuMemPoolSetAttribute); return (void)attribute, !pool || !v; }
int cuMemPoolTrimTo(u64 pool, size_t keep) { LIE0(cuMemPoolTrimTo); return (void)keep, !pool; }
int cuMemPoolSetAccess(u64 pool, void *access, size_t n) { LIE0(cuMemPoolSetAccess); return !pool || !access || !n; }
int cuMemAllocFromPoolAsync(void **p, size_t n, u64 pool, u64 s) {
  LIE(cuMemAllocFromPoolAsync, p);
  return pool && s ? allocate(p, n) : INVALID;
}
int cuMemFreeAsync(void *p, u64 s) { LIE0(cuMemFreeAsync); return s ? release(p) : INVALID; }

static int copy(void *dst, const void *src, size_t n) { return memmove(dst, src, n), 0; }
int cuMemcpyHtoD_v2(u64 d, void *h, size_t n) { LIE0(cuMemcpyHtoD); return is_block(d, n) ? copy((void *)d, h, n) : INVALID; }
int cuMemcpyDtoH_v2(void *h, u64 d, size_t n) { LIE0(cuMemcpyDtoH); return is_block(d, n) ? copy(h, (void *)d, n) : INVALID; }
int cuMemcpyHtoDAsync_v2(u64 d, void *h, size_t n, u64 s) {
  LIE0(cuMemcpyHtoDAsync);
  return s && is_block(d, n) ? copy((void *)d, h, n) : INVALID;
}
int cuMemcpyDtoHAsync_v2(void *h, u64 d, size_t n, u64 s) {
  LIE0(cuMemcpyDtoHAsync);
  return s && is_block(d, n) ? copy(h, (void *)d, n) : INVALID;
}
int cuMemcpyDtoDAsync_v2(u64 d, u64 from, size_t n, u64 s) {
  LIE0(cuMemcpyDtoDAsync);
  return s && is_block(d, n) && is_block(from, n) ? copy((void *)d, (void *)from, n) : INVALID;
}
typedef struct { size_t x, y; int type; void *host; u64 device, array; size_t pitch; } side;
typedef struct { side src, dst; size_t bytes, height; } rect;
static char *row(const side *m, size_t at, size_t bytes) {
  size_t offset = (m->y + at) * m->pitch + m->x;
  if (m->type == 1) return (char *)m->host + offset;
  return is_block(m->device + offset, bytes) ? (char *)m->device + offset : 0;
}
int cuMemcpy2DAsync_v2(const rect *c, u64 s) {
  LIE0(cuMemcpy2DAsync);
  for (size_t i = 0; i < c->height; i++) {
    char *to = row(&c->dst, i, c->bytes), *from = row(&c->src, i, c->bytes);
    if (!s || !to || !from) return INVALID;
    memcpy(to, from, c->bytes);
  }
  return 0;
}
int cuMemsetD8Async(u64 d, unsigned char v, size_t n, u64 s) {
  LIE0(cuMemsetD8Async);
  return s && is_block(d, n) ? (memset((void *)d, v, n), 0) : INVALID;
}
int cuMemsetD32Async(u64 d, unsigned v, size_t n, u64 s) {
  LIE0(cuMemsetD32Async);
  if (!s || n > 1 << 28 || !is_block(d, 4 * n)) return INVALID;
  for (size_t i = 0; i < n; i++) ((unsigned *)d)[i] = v;
  return 0;
}

int cuStreamCreate(u64 *s, unsigned flags) { LIE(cuStreamCreate, s); return (void)flags, *s = handle(), depth ? 0 : NO_CONTEXT; }
int cuStreamCreateWithPriority(u64 *s, unsigned flags, int priority) {
  LIE(cuStreamCreateWithPriority, s);
  return (void)flags, (void)priority, *s = handle(), depth ? 0 : NO_CONTEXT;
}
int cuStreamDestroy_v2(u64 s) { LIE0(cuStreamDestroy); return !s; }
int cuStreamQuery(u64 s) { LIE0(cuStreamQuery); return !s; }
int cuStreamSynchronize(u64 s) { LIE0(cuStreamSynchronize); return !s; }
int cuStreamWaitEvent(u64 s, u64 e, unsigned flags) { LIE0(cuStreamWaitEvent); return (void)flags, !s || !e; }
static int captured; /* how many streams are */
int cuStreamBeginCapture_v2(u64 s, int mode) { LIE0(cuStreamBeginCapture); return (void)mode, captured = 1, !s; }
int cuStreamEndCapture(u64 s, u64 *graph) { LIE(cuStreamEndCapture, graph); return captured = 0, *graph = handle(), !s; }
int cuStreamIsCapturing(u64 s, int *status) { LIE(cuStreamIsCapturing, status); return *status = captured, !s; }
int cuThreadExchangeStreamCaptureMode(int *mode) { LIE(cuThreadExchangeStreamCaptureMode, mode); return *mode = 0, 0; }

int cuEventCreate(u64 *e, unsigned flags) { LIE(cuEventCreate, e); return (void)flags, *e = handle(), depth ? 0 : NO_CONTEXT; }
int cuEventRecord(u64 e, u64 s) { LIE0(cuEventRecord); return !e || !s; }
int cuEventQuery(u64 e) { LIE0(cuEventQuery); return !e; }
int cuEventSynchronize(u64 e) { LIE0(cuEventSynchronize); return !e; }
int cuEventElapsedTime_v2(float *ms, u64 a, u64 b) { LIE(cuEventElapsedTime, ms); return *ms = 1, !a || !b; }
int cuEventDestroy_v2(u64 e) { LIE0(cuEventDestroy); return !e; }

int cuModuleLoadDataEx(u64 *m, void *image, unsigned n, int *options, void **values) {
  LIE(cuModuleLoadDataEx, m);
  return (void)n, (void)options, (void)values, *m = handle(), !image;
}
int cuModuleUnload(u64 m) { LIE0(cuModuleUnload); return !m; }
int cuModuleGetFunction(u64 *f, u64 m, const char *name) { LIE(cuModuleGetFunction, f); return (void)name, *f = handle(), !m; }
int cuModuleGetGlobal_v2(u64 *p, size_t *n, u64 m, const char *name) {
  LIE2(cuModuleGetGlobal, p, n);
  static char global[4096];
  return (void)m, (void)name, *p = (u64)global, *n = sizeof global, 0;
}
int cuFuncGetAttribute(int *v, int attribute, u64 f) { LIE(cuFuncGetAttribute, v); return *v = attribute ? 0 : 1024, !f; }
int cuFuncSetAttribute(u64 f, int attribute, int v) { LIE0(cuFuncSetAttribute); return (void)attribute, (void)v, !f; }
int cuFuncGetParamInfo(u64 f, size_t i, size_t *offset, size_t *size) {
  LIE2(cuFuncGetParamInfo, offset, size);
  if (i > 3) return INVALID;
  return *offset = 8 * i, *size = 8, !f;
}
int cuLaunchKernel(u64 f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   u64 s, void **params, void **extra) {
  LIE0(cuLaunchKernel);
  return (void)shared, (void)extra, !f || !gx || !gy || !gz || !bx || !by || !bz || !s || !params;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, u64 f, int threads, size_t shared) {
  LIE(cuOccupancyMaxActiveBlocksPerMultiprocessor, n);
  return (void)threads, (void)shared, *n = 4, !f;
}
int cuOccupancyMaxPotentialBlockSize(int *grid, int *block, u64 f, void *callback, size_t shared, int limit) {
  LIE2(cuOccupancyMaxPotentialBlockSize, grid, block);
  return (void)callback, (void)shared, (void)limit, *grid = 8, *block = 256, !f;
}
int cuGraphInstantiateWithFlags(u64 *x, u64 g, u64 flags) { LIE(cuGraphInstantiateWithFlags, x); return (void)flags, *x = handle(), !g; }
int cuGraphGetNodes(u64 g, u64 *nodes, size_t *n) {
  LIE(cuGraphGetNodes, n);
  if (nodes && *n) *nodes = handle();
  return *n = 1, !g;
}
int cuGraphLaunch(u64 x, u64 s) { LIE0(cuGraphLaunch); return !x || !s; }
int cuGraphExecDestroy(u64 x) { LIE0(cuGraphExecDestroy); return !x; }
int cuGraphDestroy(u64 g) { LIE0(cuGraphDestroy); return !g; }
