/* The C side of the benchmarks: what the same calls cost without Go.
 *
 *     cc -O2 -o baseline baseline.c -ldl
 *     ./baseline [-bench TEXT] [-benchtime SECONDS] [-count N] [-ptx FILE]
 *     ./baseline -info
 *     ./baseline [-ptx FILE] -serve    measures what stdin asks for (driver.h)
 *
 * It measures what driver/bench_hardware_test.go and runtime/bench_hardware_test.go
 * measure, in the same way, and prints lines in the format of Go's benchmarks with
 * /impl=C at the end of the name, so that benchstat compares them. As in package
 * testing, a benchmark runs with a growing number of iterations until it takes the
 * benchtime, and the last run is what counts. Work that is put on a queue is timed in
 * batches, and the queue is emptied outside of the timed part, so that it never fills.
 *
 * Exit codes: 0 done, 1 a call failed, 2 usage, 3 no driver or no device.
 */
#define PROGRAM "baseline"
#define SINCE "11.4"

#define FUNCTIONS(X) \
	X(cuDriverGetVersion, (int *)) \
	X(cuDeviceGetName, (char *, int, CUdevice)) \
	X(cuDeviceGetDefaultMemPool, (CUmemoryPool *, CUdevice)) \
	X(cuMemPoolSetAttribute, (CUmemoryPool, int, void *)) \
	X(cuCtxGetCurrent, (CUcontext *)) \
	X(cuStreamQuery, (CUstream)) \
	X(cuStreamBeginCapture_v2, (CUstream, int)) \
	X(cuStreamEndCapture, (CUstream, CUgraph *)) \
	X(cuEventCreate, (CUevent *, unsigned)) \
	X(cuEventRecord, (CUevent, CUstream)) \
	X(cuEventQuery, (CUevent)) \
	X(cuModuleLoadData, (CUmodule *, const void *)) \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
	X(cuModuleUnload, (CUmodule)) \
	X(cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, \
		unsigned, CUstream, void **, void **)) \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	X(cuMemFree_v2, (CUdeviceptr)) \
	X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream)) \
	X(cuMemFreeAsync, (CUdeviceptr, CUstream)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned)) \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
	X(cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) \
	X(cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
	X(cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice)) \
	X(cuCtxEnablePeerAccess, (CUcontext, unsigned)) \
	X(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
	X(cuGraphLaunch, (CUgraphExec, CUstream))

#include "driver.h"

enum {
	CAPTURE_THREAD_LOCAL = 1,
};

/* --- the measuring ----------------------------------------------------------- */

static int count = 1;

/* Timed runs n iterations and returns the nanoseconds of the part that counts. */
typedef double timed(long n);

static void bench(const char *name, size_t bytes, timed *run)
{
	if (!selected(name))
		return;
	for (int i = 0; i < count; i++) {
		long n = 1;
		double ns;

		for (;;) {
			double start = now(), took;

			ns = run(n);
			took = now() - start;
			if (took >= bench_seconds * 1e9 || n >= 1000000000L)
				break;
			n = next_n(n, took, bench_seconds);
		}
		printf("%s/impl=C\t%8ld\t%12.2f ns/op", name, n, ns / (double)n);
		if (bytes > 0)
			printf("\t%10.2f MB/s", (double)bytes * (double)n / ns * 1e3);
		printf("\n");
		fflush(stdout);
	}
}

/* --- what is measured -------------------------------------------------------- */

enum {
	BATCH = 512,      /* entries on a stream before it is emptied */
	GRAPH_BATCH = 50, /* as many, in graphs of GRAPH_NODES */
	GRAPH_NODES = 10,
	WARM_UP = 20000,  /* launches, so that clocks and caches are at work */
};

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define LARGEST (256 * MIB)

static CUdevice gpu;
static CUcontext context;
static CUstream stream;
static CUevent event;
static CUfunction empty, empty4;
static char *kernels; /* PTX */
static CUgraphExec graph;
static CUdeviceptr device;
static char *pinned, *pageable;
static char *host;  /* the side of a copy that is measured */
static size_t size; /* of that copy */

static void load(void)
{
	CUmodule module;
	CUfunction function;

	CHECK(cuModuleLoadData(&module, kernels));
	CHECK(cuModuleGetFunction(&function, module, "empty"));
	CHECK(cuModuleUnload(module));
}

static void launch0(void)
{
	CHECK(cuLaunchKernel(empty, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void launch4(void)
{
	uint64_t x = device, y = device, n = 1;
	float a = 2;
	void *params[] = {&x, &y, &a, &n};

	CHECK(cuLaunchKernel(empty4, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL));
}

static void record(void) { CHECK(cuEventRecord(event, stream)); }

static void replay(void) { CHECK(cuGraphLaunch(graph, stream)); }

static void alloc_async(void)
{
	CUdeviceptr p;

	CHECK(cuMemAllocAsync(&p, MIB, stream));
	CHECK(cuMemFreeAsync(p, stream));
}

/* by_hand is a small kernel with its copies, from and to pageable memory. */
static void by_hand(void)
{
	CHECK(cuMemcpyHtoDAsync_v2(device, pageable, 4 * KIB, stream));
	CHECK(cuMemcpyHtoDAsync_v2(device + 4 * KIB, pageable + 4 * KIB, 4 * KIB, stream));
	launch4();
	CHECK(cuMemcpyDtoHAsync_v2(pageable, device, 4 * KIB, stream));
	CHECK(cuStreamSynchronize(stream));
}

/* enqueue times what puts work on the stream. The waiting between the batches is
 * not timed. It is inlined, so that f is a direct call. */
static inline __attribute__((always_inline)) double enqueue(long n, long batch, void (*f)(void))
{
	double ns = 0;

	while (n > 0) {
		long m = n < batch ? n : batch;
		double start = now();

		for (long i = 0; i < m; i++)
			f();
		ns += now() - start;
		n -= m;
		CHECK(cuStreamSynchronize(stream));
	}
	return ns;
}

static double time_launch0(long n) { return enqueue(n, BATCH, launch0); }
static double time_launch4(long n) { return enqueue(n, BATCH, launch4); }
static double time_record(long n) { return enqueue(n, BATCH, record); }
static double time_alloc_async(long n) { return enqueue(n, BATCH, alloc_async); }
static double time_replay(long n) { return enqueue(n, GRAPH_BATCH, replay); }

/* LOOP times n times the statement. */
#define LOOP(name, statement) \
	static double name(long n) \
	{ \
		double start = now(); \
		for (long i = 0; i < n; i++) { \
			statement; \
		} \
		return now() - start; \
	}

LOOP(time_version, int version; CHECK(cuDriverGetVersion(&version)))
LOOP(time_current, CUcontext current; CHECK(cuCtxGetCurrent(&current)))
LOOP(time_stream_query, CHECK(cuStreamQuery(stream)))
LOOP(time_event_query, CHECK(cuEventQuery(event)))
LOOP(time_launch_sync, launch0(); CHECK(cuStreamSynchronize(stream)))
LOOP(time_by_hand, by_hand())
LOOP(time_load, load())
LOOP(time_alloc, CUdeviceptr p; CHECK(cuMemAlloc_v2(&p, MIB)); CHECK(cuMemFree_v2(p)))
LOOP(time_upload, CHECK(cuMemcpyHtoDAsync_v2(device, host, size, stream)); CHECK(cuStreamSynchronize(stream)))
LOOP(time_download, CHECK(cuMemcpyDtoHAsync_v2(host, device, size, stream)); CHECK(cuStreamSynchronize(stream)))

static void bench_copies(void)
{
	static const struct { size_t bytes; const char *name; } sizes[] = {
		{4 * KIB, "4KiB"}, {MIB, "1MiB"}, {LARGEST, "256MiB"},
	};
	char name[128];

	for (int kind = 0; kind < 2; kind++) {
		host = kind == 0 ? pinned : pageable;
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			const char *memory = kind == 0 ? "pinned" : "pageable";

			size = sizes[i].bytes;
			snprintf(name, sizeof name, "BenchmarkHardwareUpload/from=%s/size=%s", memory, sizes[i].name);
			bench(name, size, time_upload);
			snprintf(name, sizeof name, "BenchmarkHardwareDownload/to=%s/size=%s", memory, sizes[i].name);
			bench(name, size, time_download);
		}
	}
}

/* One end of a copy between devices. */
struct end {
	CUdevice gpu;
	CUcontext context;
	CUstream stream;
	CUdeviceptr memory;
};

static struct end from, to;

LOOP(time_peer, CHECK(cuMemcpyPeerAsync(to.memory, to.context, from.memory, from.context, size, to.stream));
	CHECK(cuStreamSynchronize(to.stream)))

static struct end open_end(int ordinal)
{
	struct end e;

	CHECK(cuDeviceGet(&e.gpu, ordinal));
	CHECK(cuDevicePrimaryCtxRetain(&e.context, e.gpu));
	CHECK(cuCtxSetCurrent(e.context));
	CHECK(cuStreamCreate(&e.stream, STREAM_NON_BLOCKING));
	CHECK(cuMemAlloc_v2(&e.memory, LARGEST));
	return e;
}

/* enable opens the link that lets a use the memory of b, where there is one. */
static void enable(struct end a, struct end b)
{
	int can = 0;

	CHECK(cuDeviceCanAccessPeer(&can, a.gpu, b.gpu));
	CHECK(cuCtxSetCurrent(a.context));
	if (can)
		CHECK(cuCtxEnablePeerAccess(b.context, 0));
}

/* bench_peers copies between the first device and each other one, in both directions. */
static void bench_peers(void)
{
	static const struct { size_t bytes; const char *name; } sizes[] = {
		{4 * KIB, "4KiB"}, {MIB, "1MiB"}, {LARGEST, "256MiB"},
	};
	char name[128];
	struct end first, other;
	int devices = 0;

	CHECK(cuDeviceGetCount(&devices));
	if (devices < 2 || serving || strstr("BenchmarkHardwarePeerCopy", filter) == NULL)
		return;
	first = open_end(0);
	for (int i = 1; i < devices; i++) {
		other = open_end(i);
		enable(first, other);
		enable(other, first);
		for (int back = 0; back < 2; back++) {
			from = back ? other : first;
			to = back ? first : other;
			CHECK(cuCtxSetCurrent(to.context));
			for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
				size = sizes[k].bytes;
				snprintf(name, sizeof name, "BenchmarkHardwarePeerCopy/from=%d/to=%d/size=%s",
					back ? i : 0, back ? 0 : i, sizes[k].name);
				bench(name, size, time_peer);
			}
		}
		CHECK(cuCtxSetCurrent(other.context));
		CHECK(cuMemFree_v2(other.memory));
		CHECK(cuDevicePrimaryCtxRelease_v2(other.gpu));
	}
	CHECK(cuCtxSetCurrent(first.context));
	CHECK(cuMemFree_v2(first.memory));
	CHECK(cuDevicePrimaryCtxRelease_v2(first.gpu));
	CHECK(cuCtxSetCurrent(context));
}

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, 64 * KIB); /* zeroed: the driver wants a terminated string */

	if (f == NULL || text == NULL || fread(text, 1, 64 * KIB - 1, f) == 0) {
		fprintf(stderr, "baseline: cannot read the kernels from %s; name the file with -ptx\n", path);
		exit(1);
	}
	fclose(f);
	return text;
}

static void prepare(const char *ptx)
{
	uint64_t keep = UINT64_MAX;
	CUmodule module;
	CUmemoryPool pool;
	CUgraph captured;

	kernels = read_file(ptx);
	CHECK(cuDeviceGet(&gpu, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, gpu));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&event, EVENT_DISABLE_TIMING));
	CHECK(cuModuleLoadData(&module, kernels));
	CHECK(cuModuleGetFunction(&empty, module, "empty"));
	CHECK(cuModuleGetFunction(&empty4, module, "empty4"));
	/* By default the pool gives its memory back whenever the stream is waited for. */
	CHECK(cuDeviceGetDefaultMemPool(&pool, gpu));
	CHECK(cuMemPoolSetAttribute(pool, POOL_RELEASE_THRESHOLD, &keep));

	CHECK(cuStreamBeginCapture_v2(stream, CAPTURE_THREAD_LOCAL));
	for (int i = 0; i < GRAPH_NODES; i++)
		launch0();
	CHECK(cuStreamEndCapture(stream, &captured));
	CHECK(cuGraphInstantiateWithFlags(&graph, captured, 0));

	CHECK(cuMemAlloc_v2(&device, LARGEST));
	CHECK(cuMemHostAlloc((void **)&pinned, LARGEST, HOST_ALLOC_PORTABLE));
	pageable = malloc(LARGEST);
	if (pageable == NULL) {
		fprintf(stderr, "baseline: out of host memory\n");
		exit(1);
	}
	memset(pinned, 1, LARGEST);
	memset(pageable, 1, LARGEST); /* no page is touched first while it is timed */
	time_launch0(WARM_UP);
}

static void info(void)
{
	char name[256] = "";
	int version = 0;
	CUdevice dev;

	CHECK(cuDeviceGet(&dev, 0));
	CHECK(cuDeviceGetName(name, sizeof name, dev));
	CHECK(cuDriverGetVersion(&version));
	printf("gpu: %s\ncuda: %d.%d\n", name, version / 1000, version % 1000 / 10);
}

static void bench_all(void)
{
	bench("BenchmarkHardwareCall/fn=cuDriverGetVersion", 0, time_version);
	bench("BenchmarkHardwareCall/fn=cuCtxGetCurrent", 0, time_current);
	bench("BenchmarkHardwareCall/fn=cuStreamQuery", 0, time_stream_query);
	bench("BenchmarkHardwareCall/fn=cuEventQuery", 0, time_event_query);
	bench("BenchmarkHardwareLaunch/args=0", 0, time_launch0);
	bench("BenchmarkHardwareLaunch/args=4", 0, time_launch4);
	bench("BenchmarkHardwareLaunchSync/args=0", 0, time_launch_sync);
	bench("BenchmarkHardwareByHand/size=4KiB", 0, time_by_hand);
	bench("BenchmarkHardwareEventRecord/timing=off", 0, time_record);
	bench("BenchmarkHardwareAllocFree/size=1MiB", 0, time_alloc);
	bench("BenchmarkHardwareAllocFreeAsync/size=1MiB", 0, time_alloc_async);
	bench("BenchmarkHardwareGraphReplay/nodes=10", 0, time_replay);
	bench("BenchmarkHardwareModule/do=load", 0, time_load);
	bench_copies();
	bench_peers();
}

static void usage(void)
{
	fprintf(stderr, "usage: baseline [-bench TEXT] [-benchtime SECONDS] [-count N] [-ptx FILE] [-serve] | -info\n");
	exit(2);
}

int main(int argc, char **argv)
{
	const char *ptx = "empty.ptx";
	int served = argc > 1 && strcmp(argv[argc - 1], "-serve") == 0;

	argc -= served;
	if (argc == 2 && strcmp(argv[1], "-info") == 0) {
		open_driver();
		info();
		return 0;
	}
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			usage();
		if (strcmp(argv[i], "-bench") == 0)
			filter = argv[i + 1];
		else if (strcmp(argv[i], "-benchtime") == 0)
			bench_seconds = atof(argv[i + 1]); /* "0.5s" will do as well */
		else if (strcmp(argv[i], "-count") == 0)
			count = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "-ptx") == 0)
			ptx = argv[i + 1];
		else
			usage();
	}
	if (bench_seconds <= 0 || count < 1)
		usage();
	open_driver();
	prepare(ptx);

	if (served)
		serve(bench_all);
	else
		bench_all();
	CHECK(cuDevicePrimaryCtxRelease_v2(gpu));
	return 0;
}
