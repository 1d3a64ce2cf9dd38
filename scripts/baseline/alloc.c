/* What allocating costs without Go: pairs of cuMemAllocAsync and cuMemFreeAsync, and the
 * replay of allocation logs on them.
 *
 *     cc -O2 -o alloc alloc.c -ldl
 *     ./alloc [-benchtime SECONDS] [-count N] [LOG...]
 *
 * LOG is a file in the format of arena/testdata. The output has the format of Go's
 * benchmarks with /impl=C at the end of the names, beside those of package arena
 * (BenchmarkAllocFree, BenchmarkReplay). Pairs are timed in batches, and the stream is
 * emptied outside of the timed part. The pool is one of its own that keeps all it has had.
 *
 * It needs no header of NVIDIA. Exit codes: 0 done, 1 a call failed, 2 usage, 3 no driver
 * or no device.
 */
#define PROGRAM "alloc"
#define SINCE "11.2"

#include <stddef.h>

/* CUmemPoolProps, as far as it is used. */
typedef struct {
	int alloc_type, handle_types, location_type, location_id;
	void *security;
	size_t max_size;
	unsigned char reserved[56];
} PoolProps;

#define FUNCTIONS(X) \
	X(cuCtxSynchronize, (void)) \
	X(cuStreamWaitEvent, (CUstream, CUevent, unsigned)) \
	X(cuEventCreate, (CUevent *, unsigned)) \
	X(cuEventRecord, (CUevent, CUstream)) \
	X(cuMemPoolCreate, (CUmemoryPool *, const PoolProps *)) \
	X(cuMemPoolDestroy, (CUmemoryPool)) \
	X(cuMemPoolSetAttribute, (CUmemoryPool, int, void *)) \
	X(cuMemPoolGetAttribute, (CUmemoryPool, int, void *)) \
	X(cuMemAllocFromPoolAsync, (CUdeviceptr *, size_t, CUmemoryPool, CUstream)) \
	X(cuMemFreeAsync, (CUdeviceptr, CUstream))

#include "driver.h"

enum {
	POOL_RESERVED_HIGH = 6,
	ALLOCATION_PINNED = 1,
	LOCATION_DEVICE = 1,
	BATCH = 512,
	MAX_STREAMS = 64,
};

static CUdevice gpu;
static CUstream streams[MAX_STREAMS];
static CUevent event;
static CUmemoryPool pool;

static void new_pool(void)
{
	PoolProps props = {0};
	uint64_t keep = UINT64_MAX;

	props.alloc_type = ALLOCATION_PINNED;
	props.location_type = LOCATION_DEVICE;
	props.location_id = gpu;
	CHECK(cuMemPoolCreate(&pool, &props));
	CHECK(cuMemPoolSetAttribute(pool, POOL_RELEASE_THRESHOLD, &keep));
}

static double pairs(long n, size_t bytes)
{
	double ns = 0;

	while (n > 0) {
		long m = n < BATCH ? n : BATCH;
		double start = now();

		for (long i = 0; i < m; i++) {
			CUdeviceptr p;

			CHECK(cuMemAllocFromPoolAsync(&p, bytes, pool, streams[0]));
			CHECK(cuMemFreeAsync(p, streams[0]));
		}
		ns += now() - start;
		n -= m;
		CHECK(cuStreamSynchronize(streams[0]));
	}
	return ns;
}

/* --- logs ----------------------------------------------------------------------- */

typedef struct {
	char kind;
	uint64_t n[3];
} action;

typedef struct {
	action *actions;
	long count;
	uint64_t ids, streams;
} log_file;

static uint64_t more(uint64_t have, uint64_t index) { return index + 1 > have ? index + 1 : have; }

static log_file read_log(const char *path)
{
	FILE *f = fopen(path, "r");
	char line[256];
	log_file l = {0};
	long room = 0;

	if (f == NULL) {
		fprintf(stderr, "alloc: cannot read %s\n", path);
		exit(2);
	}
	while (fgets(line, sizeof line, f) != NULL) {
		unsigned long long n[3] = {0};
		action a = {0};

		if (strchr("afw", line[0]) == NULL || line[0] == '\0')
			continue;
		sscanf(line, "%c %llu %llu %llu", &a.kind, &n[0], &n[1], &n[2]);
		for (int i = 0; i < 3; i++)
			a.n[i] = n[i];
		if (a.kind == 'w')
			l.streams = more(l.streams, a.n[0]);
		else
			l.ids = more(l.ids, a.n[0]);
		l.streams = more(l.streams, a.n[1]);
		if (l.count == room) {
			room = room ? 2 * room : 1024;
			l.actions = realloc(l.actions, (size_t)room * sizeof *l.actions);
			if (l.actions == NULL)
				exit(1);
		}
		l.actions[l.count++] = a;
	}
	fclose(f);
	if (l.count == 0 || l.streams > MAX_STREAMS) {
		fprintf(stderr, "alloc: %s is no allocation log, or has more than %d streams\n", path, MAX_STREAMS);
		exit(2);
	}
	return l;
}

static void replay(const log_file *l, CUdeviceptr *blocks)
{
	for (long i = 0; i < l->count; i++) {
		const action *a = &l->actions[i];

		switch (a->kind) {
		case 'a':
			CHECK(cuMemAllocFromPoolAsync(&blocks[a->n[0]], a->n[2], pool, streams[a->n[1]]));
			break;
		case 'f':
			CHECK(cuMemFreeAsync(blocks[a->n[0]], streams[a->n[1]]));
			break;
		case 'w':
			CHECK(cuEventRecord(event, streams[a->n[1]]));
			CHECK(cuStreamWaitEvent(streams[a->n[0]], event, 0));
			break;
		}
	}
}

static void bench_log(const char *path, double seconds)
{
	log_file l = read_log(path);
	CUdeviceptr *blocks = calloc(l.ids + 1, sizeof *blocks);
	const char *base = strrchr(path, '/');
	const char *name = base == NULL ? path : base + 1;
	int length = (int)strcspn(name, ".");
	double ns = 0;
	uint64_t peak = 0;
	long n = 0;

	if (blocks == NULL)
		exit(1);
	new_pool();
	replay(&l, blocks);
	CHECK(cuCtxSynchronize());
	while (ns < seconds * 1e9) {
		double start = now();

		replay(&l, blocks);
		ns += now() - start;
		n++;
		CHECK(cuCtxSynchronize());
	}
	CHECK(cuMemPoolGetAttribute(pool, POOL_RESERVED_HIGH, &peak));
	printf("BenchmarkReplay/on=hardware/log=%.*s/impl=C\t%8ld\t%12.2f ns/op\t%12.2f ns/action\t%llu peak-bytes\n",
		length, name, n, ns / (double)n, ns / (double)n / (double)l.count, (unsigned long long)peak);
	CHECK(cuMemPoolDestroy(pool));
	free(blocks);
	free(l.actions);
}

int main(int argc, char **argv)
{
	static const struct { size_t bytes; const char *name; } sizes[] = {
		{4 << 10, "4KiB"}, {1 << 20, "1MiB"}, {64 << 20, "64MiB"},
	};
	double seconds = 1;
	int count = 1, first = 1;
	CUcontext context;

	for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
		if (strcmp(argv[first], "-benchtime") == 0)
			seconds = atof(argv[first + 1]);
		else if (strcmp(argv[first], "-count") == 0)
			count = atoi(argv[first + 1]);
		else
			break;
	}
	if (seconds <= 0 || count < 1 || (first < argc && argv[first][0] == '-')) {
		fprintf(stderr, "usage: alloc [-benchtime SECONDS] [-count N] [LOG...]\n");
		return 2;
	}
	open_driver();
	CHECK(cuDeviceGet(&gpu, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, gpu));
	CHECK(cuCtxSetCurrent(context));
	for (int i = 0; i < MAX_STREAMS; i++)
		CHECK(cuStreamCreate(&streams[i], STREAM_NON_BLOCKING));
	CHECK(cuEventCreate(&event, EVENT_DISABLE_TIMING));
	for (int c = 0; c < count; c++) {
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			long n = BATCH;
			double ns;

			new_pool();
			pairs(BATCH, sizes[i].bytes);
			while ((ns = pairs(n, sizes[i].bytes)) < seconds * 1e9 && n < 1000000000L)
				n *= ns * 4 < seconds * 1e9 ? 4 : 2;
			printf("BenchmarkAllocFree/on=hardware/size=%s/impl=C\t%8ld\t%12.2f ns/op\n",
				sizes[i].name, n, ns / (double)n);
			CHECK(cuMemPoolDestroy(pool));
		}
		for (int i = first; i < argc; i++)
			bench_log(argv[i], seconds);
		fflush(stdout);
	}
	CHECK(cuDevicePrimaryCtxRelease_v2(gpu));
	return 0;
}
