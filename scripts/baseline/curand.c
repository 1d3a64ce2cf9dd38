/* What a call of cuRAND costs and how fast it makes numbers, in C: the same calls as in
 * libs/curand/bench_hardware_test.go, which runs this program beside its own.
 *
 *     curand /usr/local/cuda/lib64/libcurand.so.10
 *
 * prints a line for each, as Go benchmarks do. With -serve it measures what stdin asks for (driver.h). No header of NVIDIA is
 * needed. */
#define PROGRAM "curand"
#define SINCE "11.0"
#define FUNCTIONS(X) X(cuMemAlloc_v2, (CUdeviceptr *, size_t))
#include "driver.h"

typedef struct handle *curand;
enum { PHILOX = 161, LEGACY = 103 };

static int (*create)(curand *, int);
static int (*set_stream)(curand, CUstream);
static int (*set_ordering)(curand, int);
static int (*set_seed)(curand, unsigned long long);
static int (*generate_seeds)(curand);
static int (*generate_uniform)(curand, CUdeviceptr, size_t);
static int (*generate_normal)(curand, CUdeviceptr, size_t, float, float);

static void ok(int status, const char *call)
{
	if (status != 0) {
		fprintf(stderr, PROGRAM ": %s: status %d\n", call, status);
		exit(1);
	}
}

enum { MANY = 1 << 26 };

static struct {
	curand g;
	CUstream s;
	CUdeviceptr to;
} m;

static void uniform(size_t n) { ok(generate_uniform(m.g, m.to, n), "curandGenerateUniform"); }
static void normal(size_t n) { ok(generate_normal(m.g, m.to, n, 0, 1), "curandGenerateNormal"); }

/* measure times calls; with waiting, until the device has made the numbers. */
static void measure(const char *name, void (*generate)(size_t), size_t n, int per_wait, int waiting)
{
	double took = 0;
	long calls = 1, done;

	if (!selected(name))
		return;
	for (int i = 0; i < per_wait; i++)
		generate(n);
	CHECK(cuStreamSynchronize(m.s));
	for (;;) {
		took = 0;
		for (done = 0; done < calls; done += per_wait) {
			double start = now();
			for (int i = 0; i < per_wait; i++)
				generate(n);
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
}

static void measure_all(void)
{
	measure("small", uniform, 1024, 512, 0);
	measure("uniform2^26", uniform, MANY, 8, 1);
	measure("normal2^26", normal, MANY, 8, 1);
}

int main(int argc, char **argv)
{
	CUdevice device;
	CUcontext context;
	void *library;

	if (argc != 2 && (argc != 3 || strcmp(argv[2], "-serve") != 0)) {
		fprintf(stderr, "usage: curand LIBCURAND [-serve]\n");
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
	*(void **)&create = dlsym(library, "curandCreateGenerator");
	*(void **)&set_stream = dlsym(library, "curandSetStream");
	*(void **)&set_ordering = dlsym(library, "curandSetGeneratorOrdering");
	*(void **)&set_seed = dlsym(library, "curandSetPseudoRandomGeneratorSeed");
	*(void **)&generate_seeds = dlsym(library, "curandGenerateSeeds");
	*(void **)&generate_uniform = dlsym(library, "curandGenerateUniform");
	*(void **)&generate_normal = dlsym(library, "curandGenerateNormal");
	if (!create || !set_stream || !set_ordering || !set_seed || !generate_seeds || !generate_uniform || !generate_normal) {
		fprintf(stderr, PROGRAM ": %s lacks a function\n", argv[1]);
		return 1;
	}
	CHECK(cuStreamCreate(&m.s, STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc_v2(&m.to, MANY * sizeof(float)));
	ok(create(&m.g, PHILOX), "curandCreateGenerator");
	ok(set_stream(m.g, m.s), "curandSetStream");
	ok(set_ordering(m.g, LEGACY), "curandSetGeneratorOrdering");
	ok(set_seed(m.g, 1234), "curandSetPseudoRandomGeneratorSeed");
	ok(generate_seeds(m.g), "curandGenerateSeeds");
	if (argc == 3)
		serve(measure_all);
	else
		measure_all();
	return 0;
}
