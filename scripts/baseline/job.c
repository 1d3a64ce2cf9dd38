/* The C side of BenchmarkJob/bound=transfer: how fast threads read a file into page-locked memory, and bring it to the
 * devices at the same time. It computes nothing.
 *
 *     cc -O2 -o job job.c -ldl -lpthread
 *     ./job -file PATH [-readers N] [-devices N] [-count N]
 *     ./job -file PATH [-readers N] [-devices N] -serve    measures what stdin asks for (driver.h)
 *
 * Each reader takes a batch of 4 MiB of the file at a time, and has two buffers for them. Three ways, each a line:
 *
 *     read     the batches are read, and no device has work
 *     upload   a device copies a batch while its reader reads the next one
 *     past     as upload, but a batch is read into 128 KiB that stay in a cache, and is stored past the caches from there
 *
 * Exit codes: 0 done, 1 a call failed, 2 usage, 3 no driver or no device.
 */
#define _GNU_SOURCE
#define PROGRAM "job"
#define SINCE "11.0"

#define FUNCTIONS(X) \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
	X(cuMemHostAlloc, (void **, size_t, unsigned)) \
	X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream))

#include "driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { BATCH = 4 << 20, PIECE = 128 << 10, MOST_READERS = 256, MOST_DEVICES = 64 };

enum way { READ, UPLOAD, PAST };

static const char *const names[] = {"read", "upload", "past"};

struct reader {
	pthread_t thread;
	CUcontext context;
	CUstream streams[2];
	CUdeviceptr device[2];
	char *buffer[2], *piece;
};

static struct reader readers[MOST_READERS];
static int file;
static size_t size;
static atomic_size_t next;
static enum way way;
static int n = 8, devices = 1;

/* store copies n bytes, a multiple of 64, past the caches where the processor can. */
static void store(char *to, const char *from, size_t n)
{
#ifdef __SSE2__
	for (size_t i = 0; i < n; i += 64)
		for (size_t j = i; j < i + 64; j += 16)
			_mm_stream_si128((__m128i *)(to + j), _mm_loadu_si128((const __m128i *)(from + j)));
	_mm_sfence();
#else
	memcpy(to, from, n);
#endif
}

static void read_full(char *to, size_t n, size_t at)
{
	while (n > 0) {
		ssize_t got = pread(file, to, n, (off_t)at);

		if (got <= 0) {
			perror("job: pread");
			exit(1);
		}
		to += got;
		n -= (size_t)got;
		at += (size_t)got;
	}
}

static void *run(void *argument)
{
	struct reader *r = argument;

	CHECK(cuCtxSetCurrent(r->context));
	for (int turn = 0;; turn = !turn) {
		size_t at = atomic_fetch_add(&next, BATCH), n = BATCH;

		if (at >= size)
			break;
		if (n > size - at)
			n = size - at;
		CHECK(cuStreamSynchronize(r->streams[turn]));
		if (way != PAST) {
			read_full(r->buffer[turn], n, at);
		} else {
			for (size_t i = 0; i < n; i += PIECE) {
				size_t m = n - i < PIECE ? n - i : PIECE;

				read_full(r->piece, m, at + i);
				store(r->buffer[turn] + i, r->piece, m & ~(size_t)63);
				memcpy(r->buffer[turn] + i + (m & ~(size_t)63), r->piece + (m & ~(size_t)63), m & 63);
			}
		}
		if (way != READ)
			CHECK(cuMemcpyHtoDAsync_v2(r->device[turn], r->buffer[turn], n, r->streams[turn]));
	}
	CHECK(cuStreamSynchronize(r->streams[0]));
	CHECK(cuStreamSynchronize(r->streams[1]));
	return NULL;
}

static void prepare(void)
{
	CUcontext contexts[MOST_DEVICES];

	for (int i = 0; i < devices; i++) {
		CUdevice gpu;

		CHECK(cuDeviceGet(&gpu, i));
		CHECK(cuDevicePrimaryCtxRetain(&contexts[i], gpu));
	}
	for (int i = 0; i < n; i++) {
		struct reader *r = &readers[i];

		r->context = contexts[i % devices];
		CHECK(cuCtxSetCurrent(r->context));
		for (int j = 0; j < 2; j++) {
			CHECK(cuStreamCreate(&r->streams[j], STREAM_NON_BLOCKING));
			CHECK(cuMemAlloc_v2(&r->device[j], BATCH));
			CHECK(cuMemHostAlloc((void **)&r->buffer[j], BATCH, HOST_ALLOC_PORTABLE));
			memset(r->buffer[j], 1, BATCH);
		}
		r->piece = malloc(PIECE);
		if (r->piece == NULL) {
			fprintf(stderr, "job: out of host memory\n");
			exit(1);
		}
	}
}

/* bench_all brings the file in once each way. */
static void bench_all(void)
{
	char name[128];

	for (way = READ; way <= PAST; way++) {
		double start, took;

		snprintf(name, sizeof name, "BenchmarkJob/bound=transfer/gpus=%d/readers=%d/way=%s", devices, n, names[way]);
		if (!selected(name))
			continue;
		atomic_store(&next, 0);
		start = now();
		for (int j = 0; j < n; j++)
			if (pthread_create(&readers[j].thread, NULL, run, &readers[j]) != 0) {
				fprintf(stderr, "job: no thread\n");
				exit(1);
			}
		for (int j = 0; j < n; j++)
			pthread_join(readers[j].thread, NULL);
		took = now() - start;
		printf("%s/impl=C\t1\t%.0f ns/op\t%.2f MB/s\n", name, took, (double)size / took * 1e3);
		fflush(stdout);
	}
}

static void usage(void)
{
	fprintf(stderr, "usage: job -file PATH [-readers N] [-devices N] [-count N] [-serve]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	const char *path = NULL;
	int count = 1, present, served = argc > 1 && strcmp(argv[argc - 1], "-serve") == 0;
	struct stat info;

	argc -= served;
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc)
			usage();
		if (strcmp(argv[i], "-file") == 0)
			path = argv[i + 1];
		else if (strcmp(argv[i], "-readers") == 0)
			n = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "-devices") == 0)
			devices = atoi(argv[i + 1]);
		else if (strcmp(argv[i], "-count") == 0)
			count = atoi(argv[i + 1]);
		else
			usage();
	}
	if (path == NULL || n < 1 || n > MOST_READERS || devices < 1 || devices > MOST_DEVICES || count < 1)
		usage();
	file = open(path, O_RDONLY);
	if (file < 0 || fstat(file, &info) != 0) {
		perror(path);
		return 1;
	}
	size = (size_t)info.st_size;
	open_driver();
	CHECK(cuDeviceGetCount(&present));
	if (devices > present)
		absent("it has fewer devices");
	prepare();
	if (served)
		serve(bench_all);
	for (int i = 0; i < count && !served; i++)
		bench_all();
	return 0;
}
