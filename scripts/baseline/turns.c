/* The C side of BenchmarkHardwareTurns (runtime/turns_hardware_test.go): loops over
 * functions of the CUDA driver, in a library that the Go program loads. So both run in
 * one process, on one thread and in turns, and what differs is the call alone. Between
 * processes a launch differs by a fifth from one run to the next.
 *
 *     cc -O2 -shared -fPIC -o libturns.so turns.c
 */
#include <stdint.h>

typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, void *, void **, void **);
typedef int (*two_fn)(void *, void *);
typedef int (*version_fn)(int *);

int64_t turn_launch(launch_fn f, void *kernel, void *stream, void **params, int64_t n)
{
	int64_t failed = 0;
	for (int64_t i = 0; i < n; i++)
		failed += f(kernel, 1, 1, 1, 32, 1, 1, 0, stream, params, 0) != 0;
	return failed;
}

/* cuEventRecord(event, stream) and cuGraphLaunch(exec, stream) */
int64_t turn_two(two_fn f, void *a, void *b, int64_t n)
{
	int64_t failed = 0;
	for (int64_t i = 0; i < n; i++)
		failed += f(a, b) != 0;
	return failed;
}

int64_t turn_version(version_fn f, int64_t n)
{
	int64_t failed = 0;
	for (int64_t i = 0; i < n; i++) {
		int version;
		failed += f(&version) != 0;
	}
	return failed;
}

typedef int (*words_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* turn_words calls a function that takes up to twenty words, none of them a float. It does not look at those that it has too many. */
int64_t turn_words(words_fn f, const uint64_t *w, int64_t n)
{
	int64_t failed = 0;
	for (int64_t i = 0; i < n; i++)
		failed += f(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14], w[15],
		            w[16], w[17], w[18], w[19]) != 0;
	return failed;
}
