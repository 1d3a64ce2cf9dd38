/* A cuBLAS that remembers what reached it, for the tests of the calls. -DVERSION=11 and -DSTATUS=3 change what it answers. */
#include <stddef.h>
#include <stdint.h>

#ifndef VERSION
#define VERSION 12
#endif
#ifndef STATUS
#define STATUS 0
#endif
#ifndef FOUND
#define FOUND 1
#endif
#ifndef WORKSPACE
#define WORKSPACE 64
#endif

typedef long long ll;
typedef void *p;
typedef const void *cp;

static ll seen[256];
static int count;

static void saw(ll v) { seen[count++ & 255] = v; }
static void sawp(cp v) { saw((ll)(uintptr_t)v); }
static void scalar(cp at, int type) { saw((ll)(1000 * (type == 1 || type == 70 ? *(const double *)at : *(const float *)at))); }

int fake_seen(ll *out) {
	int n = count;
	for (int i = 0; i < n && i < 256; i++) out[i] = seen[i];
	count = 0;
	return n;
}

int cublasGetProperty(int type, int *value) { *value = type == 0 ? VERSION : type == 1 ? 3 : 7; return 0; }
int cublasCreate_v2(p *h) { *h = (p)(uintptr_t)0x777; return STATUS; }
int cublasDestroy_v2(p h) { sawp(h); return STATUS; }
int cublasSetStream_v2(p h, p s) { sawp(h); sawp(s); return STATUS; }
#ifndef OLD
int cublasSetWorkspace_v2(p h, p at, size_t n) { sawp(h); sawp(at); saw((ll)n); return STATUS; }
#endif
int cublasSetPointerMode_v2(p h, int mode) { saw(mode); return STATUS; }

static int gemm(p h, int ta, int tb, int m, int n, int k, cp alpha, cp beta, int compute) {
	sawp(h); saw(ta); saw(tb); saw(m); saw(n); saw(k); scalar(alpha, compute); scalar(beta, compute); saw(compute);
	return STATUS;
}
static void operand(cp at, int type, int ld) { sawp(at); saw(type); saw(ld); }

int cublasGemmEx(p h, int ta, int tb, int m, int n, int k, cp alpha, cp a, int at, int lda, cp b, int bt, int ldb,
                 cp beta, p c, int ct, int ldc, int compute, int algo) {
	operand(a, at, lda); operand(b, bt, ldb); operand(c, ct, ldc); saw(algo);
	return gemm(h, ta, tb, m, n, k, alpha, beta, compute);
}
int cublasGemmBatchedEx(p h, int ta, int tb, int m, int n, int k, cp alpha, const cp a[], int at, int lda, const cp b[], int bt, int ldb,
                        cp beta, const p c[], int ct, int ldc, int batch, int compute, int algo) {
	operand(a, at, lda); operand(b, bt, ldb); operand(c, ct, ldc); saw(batch); saw(algo);
	return gemm(h, ta, tb, m, n, k, alpha, beta, compute);
}
int cublasGemmStridedBatchedEx(p h, int ta, int tb, int m, int n, int k, cp alpha, cp a, int at, int lda, ll sa, cp b, int bt, int ldb, ll sb,
                               cp beta, p c, int ct, int ldc, ll sc, int batch, int compute, int algo) {
	operand(a, at, lda); saw(sa); operand(b, bt, ldb); saw(sb); operand(c, ct, ldc); saw(sc); saw(batch); saw(algo);
	return gemm(h, ta, tb, m, n, k, alpha, beta, compute);
}

#define GEMV(name, T, type) int name(p h, int trans, int m, int n, const T *alpha, const T *a, int lda, const T *x, int incx, const T *beta, T *y, int incy) { \
	sawp(h); saw(trans); saw(m); saw(n); scalar(alpha, type); operand(a, type, lda); operand(x, type, incx); scalar(beta, type); operand(y, type, incy); return STATUS; }
GEMV(cublasSgemv_v2, float, 0)
GEMV(cublasDgemv_v2, double, 1)

int cublasAxpyEx(p h, int n, cp alpha, int alphat, cp x, int xt, int incx, p y, int yt, int incy, int execution) {
	sawp(h); saw(n); scalar(alpha, alphat); saw(alphat); operand(x, xt, incx); operand(y, yt, incy); saw(execution);
	return STATUS;
}
int cublasDotEx(p h, int n, cp x, int xt, int incx, cp y, int yt, int incy, p result, int rt, int execution) {
	sawp(h); saw(n); operand(x, xt, incx); operand(y, yt, incy); operand(result, rt, execution);
	return STATUS;
}
int cublasNrm2Ex(p h, int n, cp x, int xt, int incx, p result, int rt, int execution) {
	sawp(h); saw(n); operand(x, xt, incx); operand(result, rt, execution);
	return STATUS;
}
int cublasScalEx(p h, int n, cp alpha, int alphat, p x, int xt, int incx, int execution) {
	sawp(h); saw(n); scalar(alpha, alphat); saw(alphat); operand(x, xt, incx); saw(execution);
	return STATUS;
}

#define SYRK(name, T, type) int name(p h, int uplo, int trans, int n, int k, const T *alpha, const T *a, int lda, const T *beta, T *c, int ldc) { \
	sawp(h); saw(uplo); saw(trans); saw(n); saw(k); scalar(alpha, type); operand(a, type, lda); scalar(beta, type); operand(c, type, ldc); return STATUS; }
SYRK(cublasSsyrk_v2, float, 0)
SYRK(cublasDsyrk_v2, double, 1)

#define TRSM(name, T, type) int name(p h, int side, int uplo, int trans, int diag, int m, int n, const T *alpha, const T *a, int lda, T *b, int ldb) { \
	sawp(h); saw(side); saw(uplo); saw(trans); saw(diag); saw(m); saw(n); scalar(alpha, type); operand(a, type, lda); operand(b, type, ldb); return STATUS; }
TRSM(cublasStrsm_v2, float, 0)
TRSM(cublasDtrsm_v2, double, 1)

/* Descriptions: a kind, and the attributes by their numbers. */
static int made;
int fake_made(void) { return made; }
int cublasLtMatmulDescCreate(p *d, int compute, int scale) { made++; *d = (p)(uintptr_t)0xd; saw(compute); saw(scale); return STATUS; }
int cublasLtMatmulPreferenceCreate(p *d) { made++; *d = (p)(uintptr_t)0xe; return STATUS; }
int cublasLtMatrixLayoutCreate(p *d, int type, uint64_t rows, uint64_t cols, int64_t ld) {
	*d = (p)(uintptr_t)(0x100 + made++); saw(type); saw((ll)rows); saw((ll)cols); saw(ld); return STATUS;
}
static int set(p d, int attr, cp buf, size_t n) {
	sawp(d); saw(attr); saw(n == 4 ? *(const int32_t *)buf : *(const int64_t *)buf); saw((ll)n);
	return STATUS;
}
int cublasLtMatmulDescSetAttribute(p d, int attr, cp buf, size_t n) { return set(d, attr, buf, n); }
int cublasLtMatmulPreferenceSetAttribute(p d, int attr, cp buf, size_t n) { return set(d, attr, buf, n); }
int cublasLtMatmulDescDestroy(p d) { made--; return 0; }
int cublasLtMatmulPreferenceDestroy(p d) { made--; return 0; }
int cublasLtMatrixLayoutDestroy(p d) { made--; return 0; }

typedef struct { uint64_t data[8]; } algorithm;
typedef struct { algorithm algo; size_t workspace; int state; float waves; int reserved[4]; } heuristic;
int cublasLtMatmulAlgoGetHeuristic(p h, p d, p a, p b, p c, p e, p preference, int requested, heuristic *results, int *found) {
	sawp(h); sawp(d); sawp(preference); saw(requested); saw(c == e);
	for (int i = 0; i < 8; i++) results[0].algo.data[i] = 0xa190 + i;
	results[0].workspace = WORKSPACE;
	results[0].state = 0;
	*found = FOUND;
	return STATUS;
}
int cublasLtMatmul(p h, p d, cp alpha, cp a, p la, cp b, p lb, cp beta, cp c, p lc, p e, p le,
                   const algorithm *algo, p workspace, size_t bytes, p stream) {
	sawp(h); sawp(d); scalar(alpha, 0); sawp(a); sawp(la); sawp(b); sawp(lb); scalar(beta, 0); sawp(c); sawp(lc); sawp(e); sawp(le);
	saw((ll)algo->data[7]); sawp(workspace); saw((ll)bytes); sawp(stream);
	return STATUS;
}
