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
#define PROGRAM "use"
#define SINCE "11.0"

#define FUNCTIONS(X) \
	X(cuDeviceGetAttribute, (int *, int, int)) \
	X(cuModuleLoadData, (CUmodule *, const void *)) \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))

#include "driver.h"

typedef struct _nvrtcProgram *nvrtcProgram;

enum { COMPUTE_CAPABILITY_MAJOR = 75, COMPUTE_CAPABILITY_MINOR = 76 };

#define NVRTC(X) \
	X(nvrtcCreateProgram, (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
	X(nvrtcAddNameExpression, (nvrtcProgram, const char *)) \
	X(nvrtcCompileProgram, (nvrtcProgram, int, const char *const *)) \
	X(nvrtcGetCUBINSize, (nvrtcProgram, size_t *)) \
	X(nvrtcGetCUBIN, (nvrtcProgram, char *)) \
	X(nvrtcGetLoweredName, (nvrtcProgram, const char *, const char **))

NVRTC(DECLARE)

static void open_nvrtc(void)
{
	static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so.13",
		"/usr/local/cuda/lib64/libnvrtc.so.12"};
	void *library = NULL;

	for (size_t i = 0; i < sizeof names / sizeof *names && library == NULL; i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) {
		fprintf(stderr, "use: no NVRTC: %s\n", dlerror());
		exit(3);
	}
#define RESOLVE_NVRTC(name, parameters) \
	*(void **)&name = dlsym(library, #name); \
	if (name == NULL) { \
		fprintf(stderr, "use: NVRTC has no %s\n", #name); \
		exit(1); \
	}
	NVRTC(RESOLVE_NVRTC)
}

/* needs ends the program if a call of NVRTC failed. */
static void needs(int result, const char *call)
{
	if (result != 0) {
		fprintf(stderr, "use: %s: %d\n", call, result);
		exit(1);
	}
}

#define NEEDS(call) needs((call), #call)

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
	int device, major, minor;
	char arch[64], *source, *code;
	const char *options[] = {arch, "--std=c++17"}, *lowered;
	CUcontext context;
	CUmodule module;
	CUfunction function;
	nvrtcProgram program;
	size_t size;
	double start, opened, compiled, done;

	if (argc != 3) {
		fprintf(stderr, "usage: use FILE.cu NAME-EXPRESSION\n");
		return 2;
	}
	source = read_all(argv[1]);
	open_driver();
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDeviceGetAttribute(&major, COMPUTE_CAPABILITY_MAJOR, device));
	CHECK(cuDeviceGetAttribute(&minor, COMPUTE_CAPABILITY_MINOR, device));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d", major, minor);

	start = now();
	open_nvrtc();
	opened = now();
	NEEDS(nvrtcCreateProgram(&program, source, argv[1], 0, NULL, NULL));
	NEEDS(nvrtcAddNameExpression(program, argv[2]));
	NEEDS(nvrtcCompileProgram(program, 2, options));
	NEEDS(nvrtcGetCUBINSize(program, &size));
	code = malloc(size);
	NEEDS(nvrtcGetCUBIN(program, code));
	NEEDS(nvrtcGetLoweredName(program, argv[2], &lowered));
	compiled = now();
	CHECK(cuModuleLoadData(&module, code));
	CHECK(cuModuleGetFunction(&function, module, lowered));
	done = now();
	printf("BenchmarkHardwareUse/impl=C\t1\t%.0f ns/op\t%.0f library-ns\t%.0f compile-ns\n", done - start,
		opened - start, compiled - opened);
	return 0;
}
