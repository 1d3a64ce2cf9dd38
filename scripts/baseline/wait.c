/* The C side of Wait and Service of smoke bench (cmd/smoke/internal/bench/wait.go): many threads
 * that launch a kernel and wait for it with cuStreamSynchronize, and requests of a service.
 *
 *     cc -O2 -o wait wait.c -ldl -lpthread
 *     ./wait [-ptx FILE] [-bench TEXT] [-benchtime SECONDS] [-count N]
 *     ./wait [-ptx FILE] -serve    measures what stdin asks for (driver.h)
 *
 * The names are those of smoke bench with /impl=C at the end, and /impl=C1 where one thread makes
 * the requests of all: it records an event behind each, asks about the events in turn, and sleeps
 * for 50 us where none is done. So are the units: the time of all
 * over the number of requests, what half and 99 of 100 requests took at most, the slowest, the
 * cores that the program kept busy, and its threads. Requests of a service allocate two blocks of
 * stream-ordered memory, upload, launch, download, wait and free: from pageable and from
 * page-locked memory.
 *
 * CUDA_DEVICE_MAX_CONNECTIONS is left as it is: set it to compare like with like.
 *
 * Exit codes: 0 done, 1 a call failed, 2 usage, 3 no driver or no device.
 */
#define _GNU_SOURCE
#define PROGRAM "wait"
#define SINCE "11.2"

#define FUNCTIONS(X) \
	X(cuModuleLoadData, (CUmodule *, const void *)) \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned)) \
	X(cuMemFreeHost, (void *)) \
	X(cuEventCreate, (CUevent *, unsigned)) \
	X(cuEventRecord, (CUevent, CUstream)) \
	X(cuEventQuery, (CUevent)) \
	X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream)) \
	X(cuMemFreeAsync, (CUdeviceptr, CUstream)) \
	X(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice)) \
	X(cuMemPoolSetAttribute, (CUmemoryPool, int, void *)) \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
	X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) \
	X(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, \
		void **, void **))

#include "driver.h"

#include <pthread.h>
#include <sys/resource.h>

enum { STREAMS = 64 };

static int count = 1;

static CUcontext context;
static CUfunction spin, empty4;
static CUstream streams[STREAMS];
static CUevent events[STREAMS];

/* --- what is measured -------------------------------------------------------- */

struct request {
	uint64_t nanoseconds; /* of the kernel of a wait */
	size_t bytes;         /* of a request of a service, or 0 */
	int pinned;
};

struct worker {
	pthread_t thread;
	const struct request *request;
	CUstream stream;
	char *host; /* bytes to upload and bytes to download */
	double *took;
	long each;
};

static void wait_once(struct worker *w)
{
	uint64_t nanoseconds = w->request->nanoseconds;
	void *parameters[] = {&nanoseconds};

	CHECK(cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, w->stream, parameters, NULL));
	CHECK(cuStreamSynchronize(w->stream));
}

static void serve_once(struct worker *w)
{
	size_t bytes = w->request->bytes;
	CUdeviceptr in, out;
	float a = 2;
	uint64_t n = 1;
	void *parameters[] = {&in, &out, &a, &n};

	CHECK(cuMemAllocAsync(&in, bytes, w->stream));
	CHECK(cuMemAllocAsync(&out, bytes, w->stream));
	CHECK(cuMemcpyHtoDAsync_v2(in, w->host, bytes, w->stream));
	CHECK(cuLaunchKernel(empty4, 1, 1, 1, 32, 1, 1, 0, w->stream, parameters, NULL));
	CHECK(cuMemcpyDtoHAsync_v2(w->host + bytes, out, bytes, w->stream));
	CHECK(cuStreamSynchronize(w->stream));
	CHECK(cuMemFreeAsync(in, w->stream));
	CHECK(cuMemFreeAsync(out, w->stream));
}

static void *work(void *argument)
{
	struct worker *w = argument;

	CHECK(cuCtxSetCurrent(context));
	for (long i = 0; i < w->each; i++) {
		double start = now();

		if (w->request->bytes > 0)
			serve_once(w);
		else
			wait_once(w);
		w->took[i] = now() - start;
	}
	return NULL;
}

/* begin_once launches the kernel of one request. */
static void begin_once(const struct request *r, int stream)
{
	uint64_t nanoseconds = r->nanoseconds;
	void *parameters[] = {&nanoseconds};

	CHECK(cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, streams[stream], parameters, NULL));
	CHECK(cuEventRecord(events[stream], streams[stream]));
}

/* work_for_all makes the requests of STREAMS workers, one request on each stream at a time. */
static void work_for_all(struct worker *workers)
{
	static const struct timespec nap = {0, 50000};
	double start[STREAMS];
	long done[STREAMS] = {0};

	for (int i = 0; i < STREAMS; i++) {
		start[i] = now();
		begin_once(workers[i].request, i);
	}
	for (int left = STREAMS; left > 0;) {
		int idle = 1;

		for (int i = 0; i < STREAMS; i++) {
			struct worker *w = &workers[i];
			CUresult r;

			if (done[i] == w->each || (r = cuEventQuery(events[i])) == CUDA_ERROR_NOT_READY)
				continue;
			check(r, "cuEventQuery");
			idle = 0;
			w->took[done[i]++] = now() - start[i];
			start[i] = now();
			if (done[i] == w->each)
				left--;
			else
				begin_once(w->request, i);
		}
		if (idle)
			nanosleep(&nap, NULL);
	}
}

/* --- the measuring ----------------------------------------------------------- */

static double processor_time(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e9 + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e3;
}

static int threads_now(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	int n = 0;

	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "Threads: %d", &n) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct result {
	double wall, cores, p50, p99, max;
	int threads;
	long n;
};

/* run makes about n requests on so many threads, or on one that does it for all. */
static struct result run(const struct request *request, int threads, int one, struct worker *workers, long n)
{
	struct result r = {.n = 0};
	long each = (n + threads - 1) / threads;
	double *took, busy, start;

	if (each < 2)
		each = 2;
	r.n = each * threads;
	took = calloc((size_t)r.n, sizeof *took);
	if (took == NULL) {
		fprintf(stderr, "wait: out of memory\n");
		exit(1);
	}
	busy = processor_time();
	start = now();
	for (int i = 0; i < threads; i++) {
		workers[i].request = request;
		workers[i].stream = streams[i % STREAMS];
		workers[i].took = took + i * each;
		workers[i].each = each;
		if (!one && pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
			fprintf(stderr, "wait: no thread\n");
			exit(1);
		}
	}
	r.threads = threads_now();
	if (one)
		work_for_all(workers);
	for (int i = 0; i < threads && !one; i++)
		pthread_join(workers[i].thread, NULL);
	r.wall = now() - start;
	r.cores = (processor_time() - busy) / r.wall;
	qsort(took, (size_t)r.n, sizeof *took, by_value);
	r.p50 = took[(r.n - 1) / 2];
	r.p99 = took[(long)(0.99 * (double)(r.n - 1))];
	r.max = took[r.n - 1];
	free(took);
	return r;
}

static void bench(const char *name, const struct request *request, int threads, int one)
{
	struct worker *workers;
	char *memory = NULL;
	size_t each = 2 * request->bytes;

	if (!selected(name))
		return;
	workers = calloc((size_t)threads, sizeof *workers);
	if (each > 0) {
		if (request->pinned)
			CHECK(cuMemHostAlloc((void **)&memory, (size_t)threads * each, HOST_ALLOC_PORTABLE));
		else if ((memory = malloc((size_t)threads * each)) == NULL) {
			fprintf(stderr, "wait: out of memory\n");
			exit(1);
		}
		memset(memory, 1, (size_t)threads * each);
	}
	for (int i = 0; i < threads; i++)
		workers[i].host = memory + (size_t)i * each;
	for (int i = 0; i < count; i++) {
		struct result r;
		long n = threads;

		for (;;) {
			r = run(request, threads, one, workers, n);
			if (r.wall >= bench_seconds * 1e9 || n >= 1000000000L)
				break;
			n = next_n(r.n, r.wall, bench_seconds);
		}
		printf("Benchmark%s/impl=%s\t%8ld\t%12.2f ns/op", name, one ? "C1" : "C", r.n, r.wall / (double)r.n);
		if (request->bytes > 0)
			printf("\t%10.2f MB/s", 2 * (double)request->bytes * (double)r.n / r.wall * 1e3);
		printf("\t%.0f p50-ns\t%.0f p99-ns\t%.0f max-ns\t%.2f cores\t%d threads\n", r.p50, r.p99, r.max, r.cores, r.threads);
		fflush(stdout);
	}
	free(workers);
	if (!request->pinned)
		free(memory);
	else
		CHECK(cuMemFreeHost(memory));
}

static void prepare(const char *path)
{
	uint64_t all = UINT64_MAX;
	char *text = calloc(1, 1 << 16);
	FILE *f = fopen(path, "rb");
	CUdevice gpu;
	CUmodule module;
	CUmemoryPool pool;

	if (f == NULL || text == NULL || fread(text, 1, (1 << 16) - 1, f) == 0) {
		perror(path);
		exit(2);
	}
	fclose(f);
	CHECK(cuDeviceGet(&gpu, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, gpu));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, text));
	CHECK(cuModuleGetFunction(&spin, module, "spin"));
	CHECK(cuModuleGetFunction(&empty4, module, "empty4"));
	CHECK(cuDeviceGetDefaultMemPool(&pool, gpu));
	CHECK(cuMemPoolSetAttribute(pool, POOL_RELEASE_THRESHOLD, &all)); /* keep what is freed */
	for (int i = 0; i < STREAMS; i++) {
		CHECK(cuStreamCreate(&streams[i], STREAM_NON_BLOCKING));
		CHECK(cuEventCreate(&events[i], EVENT_DISABLE_TIMING));
	}
	free(text);
}

static void usage(void)
{
	fprintf(stderr, "usage: wait [-ptx FILE] [-bench TEXT] [-benchtime SECONDS] [-count N] [-serve]\n");
	exit(2);
}

static void bench_all(void)
{
	static const struct {
		const char *name;
		uint64_t nanoseconds;
	} kernels[] = {{"0s", 0}, {"50µs", 50000}, {"2ms", 2000000}};
	static const struct {
		const char *name;
		size_t bytes;
	} sizes[] = {{"4KiB", 4 << 10}, {"64KiB", 64 << 10}, {"1MiB", 1 << 20}};
	static const int threads[] = {1, 4, 16, 64, 1000};
	char name[128];

	for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++)
		for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
			struct request r = {.nanoseconds = kernels[k].nanoseconds};

			snprintf(name, sizeof name, "Wait/kernel=%s/goroutines=%d", kernels[k].name, threads[t]);
			bench(name, &r, threads[t], 0);
			if (threads[t] == STREAMS && !serving)
				bench(name, &r, threads[t], 1);
		}
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
		for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
			for (int pinned = 0; pinned < 2; pinned++) {
				struct request r = {.bytes = sizes[s].bytes, .pinned = pinned};

				snprintf(name, sizeof name, "Service/size=%s/goroutines=%d/host=%s", sizes[s].name, threads[t],
					pinned ? "pinned" : "pageable");
				bench(name, &r, threads[t], 0);
			}
}

int main(int argc, char **argv)
{
	const char *ptx = "empty.ptx";
	int served = argc > 1 && strcmp(argv[argc - 1], "-serve") == 0;

	argc -= served;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			usage();
		if (strcmp(argv[i], "-ptx") == 0)
			ptx = argv[i + 1];
		else if (strcmp(argv[i], "-bench") == 0)
			filter = argv[i + 1];
		else if (strcmp(argv[i], "-benchtime") == 0)
			bench_seconds = atof(argv[i + 1]); /* "0.5s" will do as well */
		else if (strcmp(argv[i], "-count") == 0)
			count = atoi(argv[i + 1]);
		else
			usage();
	}
	open_driver();
	prepare(ptx);
	if (served)
		serve(bench_all);
	else
		bench_all();
	return 0;
}
