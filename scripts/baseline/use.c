/* The C side of BenchmarkHardwareUse of package runtime: the way from CUDA C++ to a kernel
 * that can be launched, in a process that has not compiled before, without a cache.
 *
 *     cc -O2 -o use use.c -ldl
 *     ./use use.cu NAME-EXPRESSION
 *
 * It needs no header of NVIDIA: the libraries are opened while the program runs.
 *
 * Exit codes: 0 done, 1 a call failed, 2 usage, 3 no driver, no device or no NVRTC.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct _nvrtcProgram *nvrtcProgram;
typedef struct CUctx *CUcontext;
typedef struct CUmod *CUmodule;
typedef struct CUfunc *CUfunction;

enum { COMPUTE_CAPABILITY_MAJOR = 75, COMPUTE_CAPABILITY_MINOR = 76 };

#define DRIVER(X) \
	X(cuInit, (unsigned)) \
	X(cuDeviceGet, (int *, int)) \
	X(cuDeviceGetAttribute, (int *, int, int)) \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, int)) \
	X(cuCtxSetCurrent, (CUcontext)) \
	X(cuModuleLoadData, (CUmodule *, const void *)) \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))

#define NVRTC(X) \
	X(nvrtcCreateProgram, (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
	X(nvrtcAddNameExpression, (nvrtcProgram, const char *)) \
	X(nvrtcCompileProgram, (nvrtcProgram, int, const char *const *)) \
	X(nvrtcGetCUBINSize, (nvrtcProgram, size_t *)) \
	X(nvrtcGetCUBIN, (nvrtcProgram, char *)) \
	X(nvrtcGetLoweredName, (nvrtcProgram, const char *, const char **))

#define DECLARE(name, parameters) static int (*name) parameters;
DRIVER(DECLARE)
NVRTC(DECLARE)

static void *library(const char *const *names)
{
	void *l = NULL;

	for (; *names != NULL && l == NULL; names++)
		l = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
	if (l == NULL) {
		fprintf(stderr, "use: %s\n", dlerror());
		exit(3);
	}
	return l;
}

/* POSIX promises that a void pointer holds a function; ISO C has no cast for it. */
#define RESOLVE(name, parameters) \
	*(void **)&name = dlsym(l, #name); \
	if (name == NULL) { \
		fprintf(stderr, "use: there is no %s\n", #name); \
		exit(1); \
	}

static void check(int result, const char *call)
{
	if (result != 0) {
		fprintf(stderr, "use: %s: %d\n", call, result);
		exit(1);
	}
}

#define CHECK(call) check((call), #call)

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static char *read_all(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, 1 << 20);

	if (f == NULL || text == NULL || fread(text, 1, (1 << 20) - 1, f) == 0) {
		perror(path);
		exit(2);
	}
	fclose(f);
	return text;
}

int main(int argc, char **argv)
{
	static const char *const drivers[] = {"libcuda.so.1", NULL};
	static const char *const compilers[] = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13",
		"/usr/local/cuda/lib64/libnvrtc.so.12", NULL};
	int device, major, minor;
	char arch[64], *source, *code;
	const char *options[] = {arch, "--std=c++17"}, *lowered;
	CUcontext context;
	CUmodule module;
	CUfunction function;
	nvrtcProgram program;
	size_t size;
	double start, opened, compiled, done;
	void *l;

	if (argc != 3) {
		fprintf(stderr, "usage: use FILE.cu NAME-EXPRESSION\n");
		return 2;
	}
	source = read_all(argv[1]);
	l = library(drivers);
	DRIVER(RESOLVE)
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDeviceGetAttribute(&major, COMPUTE_CAPABILITY_MAJOR, device));
	CHECK(cuDeviceGetAttribute(&minor, COMPUTE_CAPABILITY_MINOR, device));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d", major, minor);

	start = now();
	l = library(compilers);
	NVRTC(RESOLVE)
	opened = now();
	CHECK(nvrtcCreateProgram(&program, source, argv[1], 0, NULL, NULL));
	CHECK(nvrtcAddNameExpression(program, argv[2]));
	CHECK(nvrtcCompileProgram(program, 2, options));
	CHECK(nvrtcGetCUBINSize(program, &size));
	code = malloc(size);
	CHECK(nvrtcGetCUBIN(program, code));
	CHECK(nvrtcGetLoweredName(program, argv[2], &lowered));
	compiled = now();
	CHECK(cuModuleLoadData(&module, code));
	CHECK(cuModuleGetFunction(&function, module, lowered));
	done = now();
	printf("BenchmarkHardwareUse/impl=C\t1\t%.0f ns/op\t%.0f library-ns\t%.0f compile-ns\n", done - start,
		opened - start, compiled - opened);
	return 0;
}
