/* A profiler that listens to NVTX: it remembers the first letter of each range that began, and the number of each that ended. */
#include <stdint.h>
#include <stddef.h>

typedef void (*function)(void);
struct callbacks { size_t size; int (*table)(int module, function ***out, unsigned *size); };

static int64_t seen[256];
static int count;
int fake_seen(int64_t *words) {
	int n = count;
	for (int i = 0; i < n; i++) words[i] = seen[i];
	return count = 0, n;
}

static uint64_t begin(const char *name) { static uint64_t last = 1ull << 40; return seen[count++ & 255] = name[0], ++last; }
static void end(uint64_t id) { seen[count++ & 255] = (int64_t)id; }

int InitializeInjectionNvtx2(const void *(*exports)(uint32_t)) {
	const struct callbacks *c = exports(1);
	function **slots;
	unsigned size = 0;
	if (exports(77) || !c || c->size < sizeof *c || c->table(99, &slots, &size) || !c->table(1, &slots, &size) || size < 16) return 0;
#ifdef DEAF
	return 0;
#endif
	*slots[5] = (function)begin;
	*slots[7] = (function)end;
	return 1;
}
