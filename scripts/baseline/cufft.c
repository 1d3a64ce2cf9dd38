/* What a call of cuFFT costs and how fast it transforms, in C: the same calls as in
 * libs/cufft/bench_hardware_test.go, which runs this program beside its own.
 *
 *     cufft /usr/local/cuda/lib64/libcufft.so.12
 *
 * prints a line for each, as Go benchmarks do. With -serve it measures what stdin asks for (driver.h). No header of NVIDIA is
 * needed. */
#define PROGRAM "cufft"
#define SINCE "11.0"
#define FUNCTIONS(X) \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	X(cuMemFree_v2, (CUdeviceptr)) \
	X(cuMemsetD8_v2, (CUdeviceptr, unsigned char, size_t))
#include "driver.h"

enum { C2C = 0x29, FORWARD = -1 };

static int (*create)(int *);
static int (*destroy)(int);
static int (*set_auto_allocation)(int, int);
static int (*make_plan)(int, int, long long *, long long *, long long, long long, long long *, long long, long long, int, long long, size_t *);
static int (*set_stream)(int, CUstream);
static int (*set_work_area)(int, CUdeviceptr);
static int (*exec)(int, CUdeviceptr, CUdeviceptr, int);

static void ok(int status, const char *call)
{
	if (status != 0) {
		fprintf(stderr, PROGRAM ": %s: status %d\n", call, status);
		exit(1);
	}
}

static struct {
	CUstream s;
	CUdeviceptr in, out;
} m;

/* transform puts one transform, or a batch of them, on the stream. */
static void transform(int plan)
{
	ok(exec(plan, m.in, m.out, FORWARD), "cufftExecC2C");
}

/* measure times calls; with waiting, until the device has computed them. */
static void measure(const char *name, long long n, long long batch, int per_wait, int waiting)
{
	CUdeviceptr area = 0;
	size_t bytes = 0;
	double took = 0;
	long calls = 1, done;
	int plan;

	if (!selected(name))
		return;
	ok(create(&plan), "cufftCreate");
	ok(set_auto_allocation(plan, 0), "cufftSetAutoAllocation");
	ok(make_plan(plan, 1, &n, &n, 1, n, &n, 1, n, C2C, batch, &bytes), "cufftMakePlanMany64");
	ok(set_stream(plan, m.s), "cufftSetStream");
	if (bytes > 0) {
		CHECK(cuMemAlloc_v2(&area, bytes));
		ok(set_work_area(plan, area), "cufftSetWorkArea");
	}
	for (int i = 0; i < per_wait; i++)
		transform(plan);
	CHECK(cuStreamSynchronize(m.s));
	for (;;) {
		took = 0;
		for (done = 0; done < calls; done += per_wait) {
			double start = now();
			for (int i = 0; i < per_wait; i++)
				transform(plan);
			if (!waiting)
				took += now() - start;
			CHECK(cuStreamSynchronize(m.s));
			if (waiting)
				took += now() - start;
		}
		if (took >= bench_seconds * 1e9)
			break;
		calls = next_n(done, took, bench_seconds);
	}
	printf("Benchmark%s\t%ld\t%.1f ns/op\n", name, done, took / (double)done);
	fflush(stdout);
	ok(destroy(plan), "cufftDestroy");
	if (area != 0)
		CHECK(cuMemFree_v2(area));
}

static void measure_all(void)
{
	measure("small", 64, 1, 512, 0);
	measure("c2c-1x16777216", 1 << 24, 1, 8, 1);
	measure("c2c-1024x4096", 4096, 1024, 64, 1);
}

int main(int argc, char **argv)
{
	const size_t bytes = 8UL << 24;
	CUdevice device;
	CUcontext context;
	void *library;

	if (argc != 2 && (argc != 3 || strcmp(argv[2], "-serve") != 0)) {
		fprintf(stderr, "usage: cufft LIBCUFFT [-serve]\n");
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
	*(void **)&create = dlsym(library, "cufftCreate");
	*(void **)&destroy = dlsym(library, "cufftDestroy");
	*(void **)&set_auto_allocation = dlsym(library, "cufftSetAutoAllocation");
	*(void **)&make_plan = dlsym(library, "cufftMakePlanMany64");
	*(void **)&set_stream = dlsym(library, "cufftSetStream");
	*(void **)&set_work_area = dlsym(library, "cufftSetWorkArea");
	*(void **)&exec = dlsym(library, "cufftExecC2C");
	if (!create || !destroy || !set_auto_allocation || !make_plan || !set_stream || !set_work_area || !exec) {
		fprintf(stderr, PROGRAM ": %s lacks a function\n", argv[1]);
		return 1;
	}
	CHECK(cuStreamCreate(&m.s, STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc_v2(&m.in, bytes));
	CHECK(cuMemAlloc_v2(&m.out, bytes));
	CHECK(cuMemsetD8_v2(m.in, 0, bytes));
	if (argc == 3)
		serve(measure_all);
	else
		measure_all();
	return 0;
}
