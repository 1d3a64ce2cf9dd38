/* What a call of cuBLAS costs and how fast it computes, in C: the same calls as in
 * libs/cublas/bench_hardware_test.go, which runs this program beside its own.
 *
 *     cublas /usr/local/cuda/lib64/libcublas.so.13
 *
 * prints a line for each, as Go benchmarks do, with the time of a call and that on the device. With -serve it measures what stdin
 * asks for (driver.h). No header of NVIDIA is needed. */
#define PROGRAM "cublas"
#define SINCE "11.0"
#define FUNCTIONS(X) \
	X(cuEventCreate, (CUevent *, unsigned)) \
	X(cuEventRecord, (CUevent, CUstream)) \
	X(cuEventElapsedTime, (float *, CUevent, CUevent)) \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))
#include "driver.h"

typedef struct handle *cublas;
enum { OP_N = 0, R_32F = 0, R_16BF = 14, COMPUTE_32F = 68, DEFAULT = -1 };

static int (*create)(cublas *);
static int (*set_stream)(cublas, CUstream);
static int (*set_workspace)(cublas, CUdeviceptr, size_t);
static int (*gemm)(cublas, int, int, int, int, int, const void *, CUdeviceptr, int, int, CUdeviceptr, int, int, const void *, CUdeviceptr, int, int, int, int);
static int (*strided)(cublas, int, int, int, int, int, const void *, CUdeviceptr, int, int, long long, CUdeviceptr, int, int, long long,
                      const void *, CUdeviceptr, int, int, long long, int, int, int);

static void ok(int status, const char *call)
{
	if (status != 0) {
		fprintf(stderr, PROGRAM ": %s: status %d\n", call, status);
		exit(1);
	}
}

static struct {
	cublas h;
	CUstream s;
	CUdeviceptr a, b, c;
	CUevent start, end;
} m;

/* multiply puts one product, or a batch of them, on the stream. */
static void multiply(int type, int n, int batch)
{
	const float one = 1, zero = 0;

	if (batch == 1)
		ok(gemm(m.h, OP_N, OP_N, n, n, n, &one, m.a, type, n, m.b, type, n, &zero, m.c, type, n, COMPUTE_32F, DEFAULT), "cublasGemmEx");
	else
		ok(strided(m.h, OP_N, OP_N, n, n, n, &one, m.a, type, n, (long long)n * n, m.b, type, n, (long long)n * n,
		           &zero, m.c, type, n, (long long)n * n, batch, COMPUTE_32F, DEFAULT), "cublasGemmStridedBatchedEx");
}

/* measure times calls; with waiting, until the device has computed them. */
static void measure(const char *name, int type, int n, int batch, int per_wait, int waiting)
{
	double took = 0, device = 0;
	float ms;
	long calls = 1, done;

	if (!selected(name))
		return;
	for (int i = 0; i < per_wait; i++)
		multiply(type, n, batch);
	CHECK(cuStreamSynchronize(m.s));
	for (;;) {
		took = device = 0;
		for (done = 0; done < calls; done += per_wait) {
			double start = now();
			CHECK(cuEventRecord(m.start, m.s));
			for (int i = 0; i < per_wait; i++)
				multiply(type, n, batch);
			CHECK(cuEventRecord(m.end, m.s));
			if (!waiting)
				took += now() - start;
			CHECK(cuStreamSynchronize(m.s));
			if (waiting)
				took += now() - start;
			CHECK(cuEventElapsedTime(&ms, m.start, m.end));
			device += ms * 1e6;
		}
		if (took >= bench_seconds * 1e9)
			break;
		calls = next_n(done, took, bench_seconds);
	}
	printf("Benchmark%s\t%ld\t%.1f ns/op\t%.1f device-ns/op\n", name, done, took / (double)done, device / (double)done);
	fflush(stdout);
}

static void measure_all(void)
{
	measure("small", R_32F, 64, 1, 512, 0);
	measure("sgemm4096", R_32F, 4096, 1, 8, 1);
	measure("bf16-8192", R_16BF, 8192, 1, 8, 1);
	measure("batch64x512", R_32F, 512, 64, 8, 1);
}

int main(int argc, char **argv)
{
	const size_t bytes = 8192UL * 8192 * 2 + 4096UL * 4096 * 4, workspace = 32 << 20;
	CUdevice device;
	CUcontext context;
	CUdeviceptr space;
	void *library;

	if (argc != 2 && (argc != 3 || strcmp(argv[2], "-serve") != 0)) {
		fprintf(stderr, "usage: cublas LIBCUBLAS [-serve]\n");
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
	*(void **)&create = dlsym(library, "cublasCreate_v2");
	*(void **)&set_stream = dlsym(library, "cublasSetStream_v2");
	*(void **)&set_workspace = dlsym(library, "cublasSetWorkspace_v2");
	*(void **)&gemm = dlsym(library, "cublasGemmEx");
	*(void **)&strided = dlsym(library, "cublasGemmStridedBatchedEx");
	if (!create || !set_stream || !set_workspace || !gemm || !strided) {
		fprintf(stderr, PROGRAM ": %s lacks a function\n", argv[1]);
		return 1;
	}
	CHECK(cuStreamCreate(&m.s, STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&m.start, 0));
	CHECK(cuEventCreate(&m.end, 0));
	CHECK(cuMemAlloc_v2(&m.a, bytes));
	CHECK(cuMemAlloc_v2(&m.b, bytes));
	CHECK(cuMemAlloc_v2(&m.c, bytes));
	CHECK(cuMemAlloc_v2(&space, workspace));
	CHECK(cuMemsetD8_v2(m.a, 0, bytes));
	CHECK(cuMemsetD8_v2(m.b, 0, bytes));
	ok(create(&m.h), "cublasCreate");
	ok(set_stream(m.h, m.s), "cublasSetStream");
	ok(set_workspace(m.h, space, workspace), "cublasSetWorkspace");
	if (argc == 3)
		serve(measure_all);
	else
		measure_all();
	return 0;
}
