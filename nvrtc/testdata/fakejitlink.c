/* An nvJitLink whose machine code is its options and its inputs, and whose PTX is what stands behind the first four bytes of each
   part, for tests. A part with "bad" in it does not link. What it returns that cannot be true is defined on the command line. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SIZE
#define SIZE l->size
#endif
#ifndef CREATED
#define CREATED 0
#endif
#ifndef TAKES
#define TAKES 0 /* microseconds a part */
#endif

struct link { size_t size, text; pid_t thread; char out[65536], ptx[65536], log[256]; };

static int links;
int fake_seen(int64_t *words) { return words[0] = links, 1; }

int nvJitLinkVersion(unsigned *major, unsigned *minor) { return *major = 13, *minor = 1, 0; }
int nvJitLinkCreate(void **out, uint32_t count, const char **options) {
	struct link *l = calloc(1, sizeof *l);
	l->thread = gettid();
	__atomic_fetch_add(&links, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < count; i++) {
		l->size += sprintf(l->out + l->size, "%s ", options[i]);
		if (strstr(options[i], "unknown")) return sprintf(l->log, "unknown option %s", options[i]), *out = l, 1;
	}
	return *out = l, CREATED;
}
/* strange reports whether this is another thread than that of the link. */
static int strange(struct link *l) { return gettid() != l->thread && sprintf(l->log, "a call on another thread"); }
int nvJitLinkDestroy(struct link **l) {
	if (strange(*l)) return 6;
	return free(*l), *l = 0, __atomic_fetch_sub(&links, 1, __ATOMIC_RELAXED), 0;
}
int nvJitLinkAddData(struct link *l, int type, const char *data, size_t size, const char *name) {
	if (strange(l)) return 6;
	if (TAKES) usleep(TAKES);
	if (memmem(data, size, "bad", 3)) return sprintf(l->log, "ERROR: bad input %s\nand more", name), 3;
	if (l->text + size >= sizeof l->ptx || l->size + size + 256 >= sizeof l->out) return 6;
	l->size += sprintf(l->out + l->size, "[%d %s %.*s]", type, name, (int)size, data);
	memcpy(l->ptx + l->text, data + 4, size - 4), l->text += size - 4;
	return 0;
}
int nvJitLinkComplete(struct link *l) { return strange(l) || !l->size ? 6 : 0; }
int nvJitLinkGetLinkedCubinSize(struct link *l, size_t *n) { return *n = SIZE, 0; }
int nvJitLinkGetLinkedCubin(struct link *l, char *out) { return memcpy(out, l->out, l->size), 0; }
int nvJitLinkGetLinkedPtxSize(struct link *l, size_t *n) { return *n = l->text + 1, 0; }
int nvJitLinkGetLinkedPtx(struct link *l, char *out) { return strcpy(out, l->ptx), 0; }
int nvJitLinkGetErrorLogSize(struct link *l, size_t *n) { return *n = strlen(l->log) + 1, 0; }
int nvJitLinkGetErrorLog(struct link *l, char *out) { return strcpy(out, l->log), 0; }
int nvJitLinkGetInfoLogSize(struct link *l, size_t *n) { return *n = 6, 0; }
int nvJitLinkGetInfoLog(struct link *l, char *out) { return strcpy(out, "info\n"), 0; }
