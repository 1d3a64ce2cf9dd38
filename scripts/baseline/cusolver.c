/* How long cuSOLVER takes for 4096 x 4096, and for 100,000 small matrices, in C: the same calls as in libs/cusolver/bench_hardware_test.go, which runs
 * this program beside its own. Each call starts with a copy of the matrix.
 *
 *     cusolver /usr/local/cuda/lib64/libcusolver.so.12
 *
 * prints a line for each, as Go benchmarks do: the time from before the copy to after the wait, and that on the device of the
 * call alone. Triangles are those of memory by columns. pinned has the workspace of the host in page-locked memory, as in Go.
 * With -serve it measures what stdin asks for (driver.h). No header of NVIDIA is needed. */
#define PROGRAM "cusolver"
#define SINCE "11.0"
#define FUNCTIONS(X) \
	X(cuEventCreate, (CUevent *, unsigned)) \
	X(cuEventRecord, (CUevent, CUstream)) \
	X(cuEventElapsedTime, (float *, CUevent, CUevent)) \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	X(cuMemFree_v2, (CUdeviceptr)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned)) \
	X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t)) \
	X(cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t))
#include "driver.h"

typedef struct handle *cusolver;
typedef struct params *parameters;
enum { LOWER = 0, UPPER = 1, R_32F = 0, R_64F = 1, N = 4096 };

#define CUSOLVER(X) \
	X(cusolverDnCreate, (cusolver *)) \
	X(cusolverDnSetStream, (cusolver, CUstream)) \
	X(cusolverDnCreateParams, (parameters *)) \
	X(cusolverDnXpotrf_bufferSize, (cusolver, parameters, int, int64_t, int, CUdeviceptr, int64_t, int, size_t *, size_t *)) \
	X(cusolverDnXpotrf, (cusolver, parameters, int, int64_t, int, CUdeviceptr, int64_t, int, CUdeviceptr, size_t, void *, size_t, CUdeviceptr)) \
	X(cusolverDnXgesvd_bufferSize, (cusolver, parameters, signed char, signed char, int64_t, int64_t, int, CUdeviceptr, int64_t, int, CUdeviceptr, \
	                                int, CUdeviceptr, int64_t, int, CUdeviceptr, int64_t, int, size_t *, size_t *)) \
	X(cusolverDnXgesvd, (cusolver, parameters, signed char, signed char, int64_t, int64_t, int, CUdeviceptr, int64_t, int, CUdeviceptr, \
	                     int, CUdeviceptr, int64_t, int, CUdeviceptr, int64_t, int, CUdeviceptr, size_t, void *, size_t, CUdeviceptr)) \
	X(cusolverDnDpotrfBatched, (cusolver, int, int, CUdeviceptr, int, CUdeviceptr, int)) \
	X(cusolverDnDpotrsBatched, (cusolver, int, int, int, CUdeviceptr, int, CUdeviceptr, int, CUdeviceptr, int))

#define DECLARE_STATUS(name, parameters) static int (*name) parameters;
CUSOLVER(DECLARE_STATUS)

static void ok(int status, const char *call)
{
	if (status != 0) {
		fprintf(stderr, PROGRAM ": %s: status %d\n", call, status);
		exit(1);
	}
}

#define OK(call) ok((call), #call)

static struct {
	cusolver h;
	parameters p;
	CUstream s;
	CUdeviceptr original, a, u, vt, values, info, space;
	size_t on_device, on_host;
	void *host;
	CUevent start, end;
} m;

/* sizes asks for the workspaces of a call, and run makes it. The triangle -1 stands for the singular value decomposition. */
static void sizes(int type, int triangle)
{
	if (triangle >= 0)
		OK(cusolverDnXpotrf_bufferSize(m.h, m.p, triangle, N, type, m.a, N, type, &m.on_device, &m.on_host));
	else
		OK(cusolverDnXgesvd_bufferSize(m.h, m.p, 'S', 'S', N, N, type, m.a, N, type, m.values, type, m.u, N, type, m.vt, N, type, &m.on_device, &m.on_host));
}

static void run(int type, int triangle)
{
	if (triangle >= 0)
		OK(cusolverDnXpotrf(m.h, m.p, triangle, N, type, m.a, N, type, m.space, m.on_device, m.host, m.on_host, m.info));
	else
		OK(cusolverDnXgesvd(m.h, m.p, 'S', 'S', N, N, type, m.a, N, type, m.values, type, m.u, N, type, m.vt, N, type,
		                    m.space, m.on_device, m.host, m.on_host, m.info));
}

/* matrix uploads a random symmetric matrix with a strong diagonal, the same as in Go, unless it is there. */
static void matrix(int type)
{
	static int there = -1;
	double *d;
	float *f;
	uint64_t x = 1;

	if (there == type)
		return;
	there = type;
	d = malloc((size_t)N * N * 8);
	f = (float *)d;

	for (size_t i = 0; i < N; i++) {
		for (size_t j = 0; j <= i; j++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			double v = i == j ? N : (double)(x >> 40) / (1 << 24);
			if (type == R_64F)
				d[i * N + j] = d[j * N + i] = v;
			else
				f[i * N + j] = f[j * N + i] = (float)v;
		}
	}
	CHECK(cuMemcpyHtoD_v2(m.original, d, (size_t)N * N * (type == R_64F ? 8 : 4)));
	free(d);
}

static void measure(const char *name, int type, int triangle, int pinned)
{
	const size_t bytes = (size_t)N * N * (type == R_64F ? 8 : 4);
	double took, device;
	float ms;
	int info;
	long calls = 1, done;

	if (!selected(name))
		return;
	matrix(type);
	sizes(type, triangle);
	CHECK(cuMemAlloc_v2(&m.space, m.on_device + 1));
	if (pinned)
		CHECK(cuMemHostAlloc(&m.host, m.on_host + 1, HOST_ALLOC_PORTABLE));
	else
		m.host = malloc(m.on_host + 1);
	for (int warm = 1;; warm = 0) {
		took = device = 0;
		for (done = 0; done < calls; done++) {
			double start = now();
			CHECK(cuMemcpyDtoDAsync_v2(m.a, m.original, bytes, m.s));
			CHECK(cuEventRecord(m.start, m.s));
			run(type, triangle);
			CHECK(cuEventRecord(m.end, m.s));
			CHECK(cuStreamSynchronize(m.s));
			took += now() - start;
			CHECK(cuEventElapsedTime(&ms, m.start, m.end));
			device += ms * 1e6;
		}
		if (warm)
			continue;
		if (took >= bench_seconds * 1e9)
			break;
		calls = next_n(done, took, bench_seconds);
	}
	CHECK(cuMemFree_v2(m.space));
	CHECK(cuMemcpyDtoH_v2(&info, m.info, sizeof(info)));
	if (info != 0) {
		fprintf(stderr, PROGRAM ": %s: info %d\n", name, info);
		exit(1);
	}
	fprintf(stderr, "%s: workspaces of %zu bytes on the device and %zu on the host\n", name, m.on_device, m.on_host);
	printf("Benchmark%s\t%ld\t%.1f ns/op\t%.1f device-ns/op\n", name, done, took / (double)done, device / (double)done);
	fflush(stdout);
}

/* batch factors 100,000 matrices of n rows, and solves for a column each. The copies of the matrices are not in the device's time. */
static void batch(const char *name, int n)
{
	enum { COUNT = 100000 };
	const size_t bytes = (size_t)COUNT * n * n * 8, columns = (size_t)COUNT * n * 8;
	CUdeviceptr original, a, b, x, at_a, at_x, infos;
	double *matrices, took, device;
	CUdeviceptr *at;
	int info[2];
	float ms;
	long calls = 1, done;

	if (!selected(name))
		return;
	CHECK(cuMemAlloc_v2(&original, bytes));
	CHECK(cuMemAlloc_v2(&a, bytes));
	CHECK(cuMemAlloc_v2(&b, columns));
	CHECK(cuMemAlloc_v2(&x, columns));
	CHECK(cuMemAlloc_v2(&at_a, COUNT * 8));
	CHECK(cuMemAlloc_v2(&at_x, COUNT * 8));
	CHECK(cuMemAlloc_v2(&infos, COUNT * 4));
	matrices = malloc(bytes);
	at = malloc(COUNT * 8);
	for (size_t i = 0; i < (size_t)COUNT * n * n; i++) {
		int row = (int)(i / n % n), column = (int)(i % n);
		matrices[i] = row == column ? n : 1.0 / (1 + row + column);
	}
	CHECK(cuMemcpyHtoD_v2(original, matrices, bytes));
	CHECK(cuMemcpyHtoD_v2(b, matrices, columns));
	for (size_t i = 0; i < COUNT; i++)
		at[i] = a + i * n * n * 8;
	CHECK(cuMemcpyHtoD_v2(at_a, at, COUNT * 8));
	for (size_t i = 0; i < COUNT; i++)
		at[i] = x + i * n * 8;
	CHECK(cuMemcpyHtoD_v2(at_x, at, COUNT * 8));
	for (int warm = 1;; warm = 0) {
		took = device = 0;
		for (done = 0; done < calls; done++) {
			double start = now();
			CHECK(cuMemcpyDtoDAsync_v2(a, original, bytes, m.s));
			CHECK(cuMemcpyDtoDAsync_v2(x, b, columns, m.s));
			CHECK(cuEventRecord(m.start, m.s));
			OK(cusolverDnDpotrfBatched(m.h, LOWER, n, at_a, n, infos, COUNT));
			OK(cusolverDnDpotrsBatched(m.h, LOWER, n, 1, at_a, n, at_x, n, m.info, COUNT));
			CHECK(cuEventRecord(m.end, m.s));
			CHECK(cuStreamSynchronize(m.s));
			took += now() - start;
			CHECK(cuEventElapsedTime(&ms, m.start, m.end));
			device += ms * 1e6;
		}
		if (warm)
			continue;
		if (took >= bench_seconds * 1e9)
			break;
		calls = next_n(done, took, bench_seconds);
	}
	CHECK(cuMemcpyDtoH_v2(&info[0], infos + (COUNT - 1) * 4, 4));
	CHECK(cuMemcpyDtoH_v2(&info[1], m.info, 4));
	if (info[0] != 0 || info[1] != 0) {
		fprintf(stderr, PROGRAM ": %s: info %d and %d\n", name, info[0], info[1]);
		exit(1);
	}
	CUdeviceptr all[] = {original, a, b, x, at_a, at_x, infos};
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		CHECK(cuMemFree_v2(all[i]));
	free(matrices);
	free(at);
	printf("Benchmark%s\t%ld\t%.1f ns/op\t%.1f device-ns/op\n", name, done, took / (double)done, device / (double)done);
	fflush(stdout);
}

static void measure_all(void)
{
	batch("batch16/float64", 16);
	batch("batch32/float64", 32);
	measure("cholesky4096-lower/float32", R_32F, LOWER, 0);
	measure("cholesky4096-upper/float32", R_32F, UPPER, 0);
	measure("svd4096/float32", R_32F, -1, 0);
	measure("svd4096-pinned/float32", R_32F, -1, 1);
	measure("cholesky4096-lower/float64", R_64F, LOWER, 0);
	measure("cholesky4096-upper/float64", R_64F, UPPER, 0);
	measure("svd4096/float64", R_64F, -1, 0);
	measure("svd4096-pinned/float64", R_64F, -1, 1);
}

int main(int argc, char **argv)
{
	const size_t bytes = (size_t)N * N * 8;
	CUdevice device;
	CUcontext context;
	void *library;

	if (argc != 2 && (argc != 3 || strcmp(argv[2], "-serve") != 0)) {
		fprintf(stderr, "usage: cusolver LIBCUSOLVER [-serve]\n");
		return 2;
	}
	open_driver();
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (library == NULL) {
		fprintf(stderr, PROGRAM ": %s\n", dlerror());
		return 1;
	}
#define RESOLVE_STATUS(name, parameters) \
	*(void **)&name = dlsym(library, #name); \
	if (name == NULL) { \
		fprintf(stderr, PROGRAM ": %s lacks %s\n", argv[1], #name); \
		return 1; \
	}
	CUSOLVER(RESOLVE_STATUS)
	CHECK(cuStreamCreate(&m.s, STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&m.start, 0));
	CHECK(cuEventCreate(&m.end, 0));
	CHECK(cuMemAlloc_v2(&m.original, bytes));
	CHECK(cuMemAlloc_v2(&m.a, bytes));
	CHECK(cuMemAlloc_v2(&m.u, bytes));
	CHECK(cuMemAlloc_v2(&m.vt, bytes));
	CHECK(cuMemAlloc_v2(&m.values, N * 8));
	CHECK(cuMemAlloc_v2(&m.info, 4));
	OK(cusolverDnCreate(&m.h));
	OK(cusolverDnSetStream(m.h, m.s));
	OK(cusolverDnCreateParams(&m.p));
	if (argc == 3)
		serve(measure_all);
	else
		measure_all();
	return 0;
}
