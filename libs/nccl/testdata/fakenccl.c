/* An NCCL that remembers what reached it, for the tests of the calls. -DVERSION=21003, -DSTATUS=3, -DOLD and so on change what it answers. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef VERSION
#define VERSION 21403
#endif
#ifndef STATUS
#define STATUS 0
#endif
#ifndef STATE
#define STATE 0
#endif

typedef struct { char internal[128]; } id;
typedef struct { size_t size; unsigned magic, version; int blocking; } config;
typedef void *p;
typedef const void *cp;

static long long seen[256];
static int count;

static void saw(long long v) { seen[count++ & 255] = v; }
static void sawp(cp v) { saw((long long)(uintptr_t)v); }

int fake_seen(long long *out) {
	int n = count;
	for (int i = 0; i < n && i < 256; i++) out[i] = seen[i];
	count = 0;
	return n;
}

int ncclGetVersion(int *v) { *v = VERSION; return 0; }
int ncclGetUniqueId(id *out) {
#ifndef NO_ID
	for (int i = 0; i < 128; i++) out->internal[i] = (char)(i + 1);
#endif
	return STATUS;
}
int ncclGroupStart(void) { saw(-100); return STATUS; }
int ncclGroupEnd(void) { saw(-101); return STATUS; }
#ifndef OLD
int ncclCommInitRankConfig(p *comm, int nranks, id by_value, int rank, config *c) {
	*comm = (p)(uintptr_t)0x7f0012345678;
	saw(nranks); saw(rank);
	for (int i = 0; i < 128; i += 8) { long long word; memcpy(&word, by_value.internal + i, 8); saw(word); }
	saw((long long)c->size); saw(c->magic); saw(c->version); saw(c->blocking);
	by_value.internal[0] = 0; /* it is a copy */
	return STATUS;
}
#endif
int ncclCommFinalize(p comm) { sawp(comm); return STATUS; }
int ncclCommDestroy(p comm) { sawp(comm); return STATUS; }
int ncclCommAbort(p comm) { sawp(comm); return STATUS; }
int ncclCommGetAsyncError(p comm, int *state) { sawp(comm); *state = STATE; return STATUS; }
const char *ncclGetLastError(p comm) { return comm ? "a cable is loose" : NULL; }
int ncclAllReduce(cp send, p recv, size_t n, int type, int op, p comm, p stream) {
	sawp(send); sawp(recv); saw((long long)n); saw(type); saw(op); sawp(comm); sawp(stream); saw(1);
	return STATUS;
}
int ncclBroadcast(cp send, p recv, size_t n, int type, int root, p comm, p stream) {
	sawp(send); sawp(recv); saw((long long)n); saw(type); saw(root); sawp(comm); sawp(stream); saw(2);
	return STATUS;
}
int ncclReduce(cp send, p recv, size_t n, int type, int op, int root, p comm, p stream) {
	sawp(send); sawp(recv); saw((long long)n); saw(type); saw(op); saw(root); sawp(comm); sawp(stream); saw(3);
	return STATUS;
}
int ncclAllGather(cp send, p recv, size_t n, int type, p comm, p stream) {
	sawp(send); sawp(recv); saw((long long)n); saw(type); sawp(comm); sawp(stream); saw(4);
	return STATUS;
}
int ncclReduceScatter(cp send, p recv, size_t n, int type, int op, p comm, p stream) {
	sawp(send); sawp(recv); saw((long long)n); saw(type); saw(op); sawp(comm); sawp(stream); saw(5);
	return STATUS;
}
int ncclSend(cp send, size_t n, int type, int peer, p comm, p stream) {
	sawp(send); saw((long long)n); saw(type); saw(peer); sawp(comm); sawp(stream); saw(6);
	return STATUS;
}
int ncclRecv(p recv, size_t n, int type, int peer, p comm, p stream) {
	sawp(recv); saw((long long)n); saw(type); saw(peer); sawp(comm); sawp(stream); saw(7);
	return STATUS;
}
