/* The C side of the benchmarks of package arena: what copies between the host and the
 * device cost without Go, from pageable and from page-locked memory.
 *
 *     cc -O2 -o copy copy.c -ldl
 *     ./copy [-bench TEXT] [-benchtime SECONDS] [-count N] [-largest BYTES]
 *     ./copy [-largest BYTES] -serve    measures what stdin asks for (driver.h)
 *
 * It measures what BenchmarkHardwareCopies of arena/copies_bench_hardware_test.go measures,
 * under the same names with /impl=C at the end: 1 KiB to 1 GiB in powers of 4, a copy on
 * a stream and the wait for it. "sync" are cuMemcpyHtoD and cuMemcpyDtoH, which work on the
 * legacy default stream; "pageable" and "pinned" are the asynchronous functions. As in
 * package testing, a benchmark runs with a growing number of iterations until it takes the
 * benchtime, and the last run is what counts.
 *
 * Exit codes: 0 done, 1 a call failed, 2 usage, 3 no driver or no device.
 */
#define PROGRAM "copy"
#define SINCE "11.0"

#define FUNCTIONS(X) \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned)) \
	X(cuMemcpyHtoD_v2, (CUdeviceptr, const void *, size_t)) \
	X(cuMemcpyDtoH_v2, (void *, CUdeviceptr, size_t)) \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
	X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream))

#include "driver.h"

/* --- the measuring ----------------------------------------------------------- */

static int count = 1;

/* --- what is measured -------------------------------------------------------- */

static CUstream stream;
static CUdeviceptr device;
static char *pinned, *pageable;
static size_t largest = (size_t)1 << 30;

static void upload_sync(size_t n) { CHECK(cuMemcpyHtoD_v2(device, pageable, n)); }

static void download_sync(size_t n) { CHECK(cuMemcpyDtoH_v2(pageable, device, n)); }

static void upload(char *host, size_t n)
{
	CHECK(cuMemcpyHtoDAsync_v2(device, host, n, stream));
	CHECK(cuStreamSynchronize(stream));
}

static void download(char *host, size_t n)
{
	CHECK(cuMemcpyDtoHAsync_v2(host, device, n, stream));
	CHECK(cuStreamSynchronize(stream));
}

static void upload_pageable(size_t n) { upload(pageable, n); }
static void download_pageable(size_t n) { download(pageable, n); }
static void upload_pinned(size_t n) { upload(pinned, n); }
static void download_pinned(size_t n) { download(pinned, n); }

static const struct {
	const char *name;
	void (*copy)(size_t);
} ways[] = {
	{"dir=upload/host=sync", upload_sync},
	{"dir=upload/host=pageable", upload_pageable},
	{"dir=upload/host=pinned", upload_pinned},
	{"dir=download/host=sync", download_sync},
	{"dir=download/host=pageable", download_pageable},
	{"dir=download/host=pinned", download_pinned},
};

static void bench(const char *way, void (*copy)(size_t), size_t bytes)
{
	char name[128];
	const char *unit = bytes >> 30 ? "GiB" : bytes >> 20 ? "MiB" : "KiB";
	size_t number = bytes >> (bytes >> 30 ? 30 : bytes >> 20 ? 20 : 10);

	snprintf(name, sizeof name, "BenchmarkHardwareCopies/%s/size=%zu%s", way, number, unit);
	if (!selected(name))
		return;
	for (int i = 0; i < count; i++) {
		double took;
		long n = 1;

		for (;;) {
			double start = now();

			for (long j = 0; j < n; j++)
				copy(bytes);
			took = now() - start;
			if (took >= bench_seconds * 1e9 || n >= 1000000000L)
				break;
			n = next_n(n, took, bench_seconds);
		}
		printf("%s/impl=C\t%8ld\t%12.2f ns/op\t%10.2f MB/s\n", name, n, took / (double)n,
			(double)bytes * (double)n / took * 1e3);
		fflush(stdout);
	}
}

static void prepare(CUdevice *gpu)
{
	CUcontext context;

	CHECK(cuDeviceGet(gpu, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, *gpu));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc_v2(&device, largest));
	CHECK(cuMemHostAlloc((void **)&pinned, largest, HOST_ALLOC_PORTABLE));
	pageable = malloc(largest);
	if (pageable == NULL) {
		fprintf(stderr, "copy: out of host memory\n");
		exit(1);
	}
	memset(pinned, 1, largest);
	for (size_t i = 0; i < largest; i++) /* no page is touched first while it is timed */
		pageable[i] = (char)i;
}

static void bench_all(void)
{
	for (size_t n = 1024; n <= largest; n *= 4)
		for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
			bench(ways[i].name, ways[i].copy, n);
}

static void usage(void)
{
	fprintf(stderr, "usage: copy [-bench TEXT] [-benchtime SECONDS] [-count N] [-largest BYTES] [-serve]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	int served = argc > 1 && strcmp(argv[argc - 1], "-serve") == 0;
	CUdevice gpu;

	argc -= served;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			usage();
		if (strcmp(argv[i], "-bench") == 0)
			filter = argv[i + 1];
		else if (strcmp(argv[i], "-benchtime") == 0)
			bench_seconds = atof(argv[i + 1]); /* "0.5s" will do as well */
		else if (strcmp(argv[i], "-count") == 0)
			count = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "-largest") == 0)
			largest = (size_t)strtoull(argv[i + 1], NULL, 10);
		else
			usage();
	}
	if (bench_seconds <= 0 || count < 1 || largest < 1024)
		usage();
	open_driver();
	prepare(&gpu);
	if (served)
		serve(bench_all);
	else
		bench_all();
	CHECK(cuDevicePrimaryCtxRelease_v2(gpu));
	return 0;
}
