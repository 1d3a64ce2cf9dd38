/* A cuSOLVER that remembers what reached it, for the tests of the calls. -DVERSION=10 and -DSTATUS=3 change what it answers. */
#include <stddef.h>
#include <stdint.h>

#ifndef VERSION
#define VERSION 11
#endif
#ifndef STATUS
#define STATUS 0
#endif
#ifndef DEVICE
#define DEVICE (1LL << 35)
#endif
#ifndef LWORK
#define LWORK 1000
#endif

typedef long long ll;
typedef int64_t i64;
typedef void *p;
typedef const void *cp;

static ll seen[256];
static int count;

static void saw(ll v) { seen[count++ & 255] = v; }
static void sawp(cp v) { saw((ll)(uintptr_t)v); }
static void operand(int type, cp at, i64 ld) { saw(type); sawp(at); saw(ld); }

int fake_seen(ll *out) {
	int n = count;
	for (int i = 0; i < n && i < 256; i++) out[i] = seen[i];
	count = 0;
	return n;
}

int cusolverGetProperty(int type, int *value) { *value = type == 0 ? VERSION : type == 1 ? 4 : 7; return 0; }
int cusolverDnCreate(p *h) { *h = (p)(uintptr_t)0x777; return STATUS; }
int cusolverDnDestroy(p h) { sawp(h); return STATUS; }
int cusolverDnSetStream(p h, p s) { sawp(h); sawp(s); return STATUS; }
#ifdef NOPARAMS
int cusolverDnCreateParams(p *params) { return 0; }
#elif !defined(OLD)
int cusolverDnCreateParams(p *params) { *params = (p)(uintptr_t)0x888; return STATUS; }
#endif
int cusolverDnDestroyParams(p params) { sawp(params); return STATUS; }

static void begin(p h, p params) { sawp(h); sawp(params); }
static int sizes(int compute, size_t *device, size_t *host) { saw(compute); *device = DEVICE; *host = 1LL << 33; return STATUS; }
static int ends(int compute, p device, size_t n, p host, size_t m, int *info) {
	saw(compute); sawp(device); saw((ll)n); sawp(host); saw((ll)m); sawp(info); return STATUS;
}

int cusolverDnXpotrf_bufferSize(p h, p params, int uplo, i64 n, int at, cp a, i64 lda, int compute, size_t *device, size_t *host) {
	begin(h, params); saw(uplo); saw(n); operand(at, a, lda); return sizes(compute, device, host);
}
int cusolverDnXpotrf(p h, p params, int uplo, i64 n, int at, p a, i64 lda, int compute, p device, size_t dn, p host, size_t hn, int *info) {
	begin(h, params); saw(uplo); saw(n); operand(at, a, lda); return ends(compute, device, dn, host, hn, info);
}
int cusolverDnXpotrs(p h, p params, int uplo, i64 n, i64 nrhs, int at, cp a, i64 lda, int bt, p b, i64 ldb, int *info) {
	begin(h, params); saw(uplo); saw(n); saw(nrhs); operand(at, a, lda); operand(bt, b, ldb); sawp(info); return STATUS;
}
int cusolverDnXgetrf_bufferSize(p h, p params, i64 m, i64 n, int at, cp a, i64 lda, int compute, size_t *device, size_t *host) {
	begin(h, params); saw(m); saw(n); operand(at, a, lda); return sizes(compute, device, host);
}
int cusolverDnXgetrf(p h, p params, i64 m, i64 n, int at, p a, i64 lda, i64 *pivots, int compute, p device, size_t dn, p host, size_t hn, int *info) {
	begin(h, params); saw(m); saw(n); operand(at, a, lda); sawp(pivots); return ends(compute, device, dn, host, hn, info);
}
int cusolverDnXgetrs(p h, p params, int trans, i64 n, i64 nrhs, int at, cp a, i64 lda, const i64 *pivots, int bt, p b, i64 ldb, int *info) {
	begin(h, params); saw(trans); saw(n); saw(nrhs); operand(at, a, lda); sawp(pivots); operand(bt, b, ldb); sawp(info); return STATUS;
}
int cusolverDnXgeqrf_bufferSize(p h, p params, i64 m, i64 n, int at, cp a, i64 lda, int tt, cp tau, int compute, size_t *device, size_t *host) {
	begin(h, params); saw(m); saw(n); operand(at, a, lda); operand(tt, tau, 0); return sizes(compute, device, host);
}
int cusolverDnXgeqrf(p h, p params, i64 m, i64 n, int at, p a, i64 lda, int tt, p tau, int compute, p device, size_t dn, p host, size_t hn, int *info) {
	begin(h, params); saw(m); saw(n); operand(at, a, lda); operand(tt, tau, 0); return ends(compute, device, dn, host, hn, info);
}

#define ORMQR(name, T, type) \
	int name##_bufferSize(p h, int side, int trans, int m, int n, int k, const T *a, int lda, const T *tau, const T *c, int ldc, int *lwork) { \
		sawp(h); saw(side); saw(trans); saw(m); saw(n); saw(k); operand(type, a, lda); sawp(tau); operand(type, c, ldc); *lwork = LWORK; return STATUS; } \
	int name(p h, int side, int trans, int m, int n, int k, const T *a, int lda, const T *tau, T *c, int ldc, T *work, int lwork, int *info) { \
		sawp(h); saw(side); saw(trans); saw(m); saw(n); saw(k); operand(type, a, lda); sawp(tau); operand(type, c, ldc); sawp(work); saw(lwork); sawp(info); return STATUS; }
ORMQR(cusolverDnSormqr, float, 0)
ORMQR(cusolverDnDormqr, double, 1)

int cusolverDnXsyevd_bufferSize(p h, p params, int jobz, int uplo, i64 n, int at, cp a, i64 lda, int wt, cp w, int compute, size_t *device, size_t *host) {
	begin(h, params); saw(jobz); saw(uplo); saw(n); operand(at, a, lda); operand(wt, w, 0); return sizes(compute, device, host);
}
int cusolverDnXsyevd(p h, p params, int jobz, int uplo, i64 n, int at, p a, i64 lda, int wt, p w, int compute, p device, size_t dn, p host, size_t hn, int *info) {
	begin(h, params); saw(jobz); saw(uplo); saw(n); operand(at, a, lda); operand(wt, w, 0); return ends(compute, device, dn, host, hn, info);
}
int cusolverDnXgesvd_bufferSize(p h, p params, signed char jobu, signed char jobvt, i64 m, i64 n, int at, cp a, i64 lda, int s_, cp s,
                                int ut, cp u, i64 ldu, int vt_, cp vt, i64 ldvt, int compute, size_t *device, size_t *host) {
	begin(h, params); saw(jobu); saw(jobvt); saw(m); saw(n); operand(at, a, lda); operand(s_, s, 0); operand(ut, u, ldu); operand(vt_, vt, ldvt);
	return sizes(compute, device, host);
}
int cusolverDnXgesvd(p h, p params, signed char jobu, signed char jobvt, i64 m, i64 n, int at, p a, i64 lda, int s_, p s,
                     int ut, p u, i64 ldu, int vt_, p vt, i64 ldvt, int compute, p device, size_t dn, p host, size_t hn, int *info) {
	begin(h, params); saw(jobu); saw(jobvt); saw(m); saw(n); operand(at, a, lda); operand(s_, s, 0); operand(ut, u, ldu); operand(vt_, vt, ldvt);
	return ends(compute, device, dn, host, hn, info);
}

/* Many small systems. */
int cusolverDnCreateSyevjInfo(p *j) { *j = (p)(uintptr_t)0x999; return STATUS; }
int cusolverDnDestroySyevjInfo(p j) { sawp(j); return STATUS; }
static int many(p h, int n, cp a, int lda, cp x, cp info, int batch) {
	sawp(h); saw(n); sawp(a); saw(lda); sawp(x); sawp(info); saw(batch); return STATUS;
}
int cusolverDnSpotrfBatched(p h, int uplo, int n, p a, int lda, p info, int batch) { saw('s'); saw(uplo); return many(h, n, a, lda, 0, info, batch); }
int cusolverDnDpotrfBatched(p h, int uplo, int n, p a, int lda, p info, int batch) { saw('d'); saw(uplo); return many(h, n, a, lda, 0, info, batch); }
#define POTRS(name, type) \
	int name(p h, int uplo, int n, int k, p a, int lda, p b, int ldb, p info, int batch) { \
		saw(type); saw(uplo); saw(k); saw(ldb); return many(h, n, a, lda, b, info, batch); \
	}
POTRS(cusolverDnSpotrsBatched, 's')
POTRS(cusolverDnDpotrsBatched, 'd')
#define SYEVJ(name, type) \
	int name##_bufferSize(p h, int jobz, int uplo, int n, cp a, int lda, cp w, int *lwork, p j, int batch) { \
		saw(type); saw(jobz); saw(uplo); sawp(j); *lwork = LWORK; return many(h, n, a, lda, w, 0, batch); \
	} \
	int name(p h, int jobz, int uplo, int n, p a, int lda, p w, p work, int lwork, p info, p j, int batch) { \
		saw(type); saw(jobz); saw(uplo); sawp(work); saw(lwork); sawp(j); return many(h, n, a, lda, w, info, batch); \
	}
SYEVJ(cusolverDnSsyevjBatched, 's')
SYEVJ(cusolverDnDsyevjBatched, 'd')
#ifndef NOBLAS
#ifndef HOSTINFO
#define HOSTINFO 0
#endif
#ifndef BLAS
#define BLAS STATUS
#endif
int cublasCreate_v2(p *h) { *h = (p)(uintptr_t)0xaaa; return BLAS; }
int cublasDestroy_v2(p h) { sawp(h); return BLAS; }
int cublasSetStream_v2(p h, p s) { sawp(h); sawp(s); return BLAS; }
#define LU(t, type) \
	int cublas##t##getrfBatched(p h, int n, p a, int lda, p pivots, p info, int batch) { saw(type); many(h, n, a, lda, pivots, info, batch); return BLAS; } \
	int cublas##t##getrsBatched(p h, int trans, int n, int k, p a, int lda, p pivots, p b, int ldb, int *info, int batch) { \
		saw(type); saw(trans); saw(k); sawp(b); saw(ldb); *info = HOSTINFO; many(h, n, a, lda, pivots, 0, batch); return BLAS; \
	} \
	int cublas##t##getriBatched(p h, int n, p a, int lda, p pivots, p c, int ldc, p info, int batch) { \
		saw(type); sawp(c); saw(ldc); many(h, n, a, lda, pivots, info, batch); return BLAS; \
	} \
	int cublas##t##gelsBatched(p h, int trans, int m, int n, int k, p a, int lda, p c, int ldc, int *info, p infos, int batch) { \
		saw(type); saw(trans); saw(m); saw(k); sawp(c); saw(ldc); *info = HOSTINFO; many(h, n, a, lda, 0, infos, batch); return BLAS; \
	}
LU(S, 's')
LU(D, 'd')
#endif
