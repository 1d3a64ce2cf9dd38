/* What the C programs of the benchmarks share: the driver, opened while the program runs,
 * and the measuring. No header of NVIDIA is needed: the few functions are declared by their
 * names in the binary interface. cuMemAlloc_v2, because plain cuMemAlloc is the function of
 * CUDA 2.0.
 *
 * Before it is included, a program defines its name, the CUDA version of the driver that it
 * needs, and the functions that it calls beside those of COMMON below:
 *
 *     #define PROGRAM "copy"
 *     #define SINCE "11.0"
 *     #define FUNCTIONS(X) \
 *         X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
 *         X(cuMemFree_v2, (CUdeviceptr))
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef int CUdevice;
typedef struct CUctx *CUcontext;
typedef struct CUmod *CUmodule;
typedef struct CUfunc *CUfunction;
typedef struct CUstr *CUstream;
typedef struct CUev *CUevent;
typedef struct CUgr *CUgraph;
typedef struct CUgrExec *CUgraphExec;
typedef struct CUpool *CUmemoryPool;
typedef uint64_t CUdeviceptr;

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_NO_DEVICE = 100,
	CUDA_ERROR_NOT_READY = 600,
	STREAM_NON_BLOCKING = 1,
	EVENT_DISABLE_TIMING = 2,
	HOST_ALLOC_PORTABLE = 1,
	POOL_RELEASE_THRESHOLD = 4,
};

#define COMMON(X) \
	X(cuInit, (unsigned)) \
	X(cuGetErrorName, (CUresult, const char **)) \
	X(cuDeviceGetCount, (int *)) \
	X(cuDeviceGet, (CUdevice *, int)) \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
	X(cuDevicePrimaryCtxRelease_v2, (CUdevice)) \
	X(cuCtxSetCurrent, (CUcontext)) \
	X(cuStreamCreate, (CUstream *, unsigned)) \
	X(cuStreamSynchronize, (CUstream))

#define DECLARE(name, parameters) static CUresult (*name) parameters;
COMMON(DECLARE)
FUNCTIONS(DECLARE)

static inline void check(CUresult r, const char *call)
{
	const char *name = NULL;

	if (r == CUDA_SUCCESS)
		return;
	if (cuGetErrorName == NULL || cuGetErrorName(r, &name) != CUDA_SUCCESS || name == NULL)
		name = "unknown result";
	fprintf(stderr, PROGRAM ": %s: %s (%d)\n", call, name, r);
	exit(1);
}

#define CHECK(call) check((call), #call)

static inline void absent(const char *why)
{
	fprintf(stderr, PROGRAM ": this machine has no usable CUDA driver: %s\n", why);
	exit(3);
}

static void open_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int devices = 0;
	CUresult r;

	if (library == NULL)
		absent(dlerror());
/* POSIX promises that a void pointer holds a function; ISO C has no cast for it. */
#define RESOLVE(name, parameters) \
	*(void **)&name = dlsym(library, #name); \
	if (name == NULL) { \
		fprintf(stderr, PROGRAM ": libcuda.so.1 has no %s; this needs a driver of CUDA " SINCE " or later\n", #name); \
		exit(1); \
	}
	COMMON(RESOLVE)
	FUNCTIONS(RESOLVE)
	r = cuInit(0);
	if (r == CUDA_ERROR_NO_DEVICE)
		absent("cuInit found no device");
	check(r, "cuInit(0)");
	CHECK(cuDeviceGetCount(&devices));
	if (devices == 0)
		absent("it has no device");
}

/* now is in nanoseconds. */
static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* next_n is how package testing chooses the number of iterations: a fifth more than
 * fill the seconds by the last run, at most a hundred times that of the last run. */
static inline long next_n(long last, double took, double seconds)
{
	double n = seconds * 1e9 * (double)last / (took < 1 ? 1 : took);

	n += n / 5;
	if (n > 100 * (double)last)
		n = 100 * (double)last;
	if (n < (double)last + 1)
		n = (double)last + 1;
	return n > 1e9 ? 1000000000L : (long)n;
}

/* What the flags of the programs say: which benchmarks run, and for how long. */
static const char *filter __attribute__((unused)) = "";
static double bench_seconds __attribute__((unused)) = 1;
static int serving; /* then filter is the whole name, without "Benchmark" */

/* selected reports whether the benchmark of a name runs. */
static inline int selected(const char *name)
{
	if (!serving)
		return strstr(name, filter) != NULL;
	if (strncmp(name, "Benchmark", 9) == 0)
		name += 9;
	return strcmp(name, filter) == 0;
}

/* serve measures what stdin asks for: a line has the seconds and a name. The answer is the line of that benchmark, or none, and
 * an empty line. all runs what is selected. tools/guard asks, in turns with programs in Go. */
static inline void serve(void (*all)(void))
{
	static char line[512], name[512];

	serving = 1;
	filter = name;
	while (fgets(line, sizeof line, stdin) != NULL) {
		if (sscanf(line, "%lf %511[^\n]", &bench_seconds, name) != 2 || bench_seconds <= 0) {
			fprintf(stderr, PROGRAM ": a request is seconds and a name, not %s", line);
			exit(2);
		}
		all();
		printf("\n");
		fflush(stdout);
	}
}
