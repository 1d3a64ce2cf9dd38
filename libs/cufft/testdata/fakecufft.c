/* A cuFFT that remembers what reached it, for the tests of the calls. -DVERSION=9 and -DSTATUS=3 change what it answers. */
#include <stddef.h>
#include <stdint.h>

#ifndef VERSION
#define VERSION 11
#endif
#ifndef STATUS
#define STATUS 0
#endif
#ifndef MADE
#define MADE STATUS
#endif
#ifndef PLAN
#define PLAN 0x777
#endif
#ifndef SIZE
#define SIZE (1LL << 35)
#endif

typedef long long ll;
typedef void *p;

static ll seen[256];
static int count;

static void saw(ll v) { seen[count++ & 255] = v; }
static void sawp(const void *v) { saw((ll)(uintptr_t)v); }
static void sawn(const ll *n, int rank) { for (int i = 0; i < rank; i++) saw(n[i]); }

int fake_seen(ll *out) {
	int n = count;
	for (int i = 0; i < n && i < 256; i++) out[i] = seen[i];
	count = 0;
	return n;
}

int cufftGetProperty(int type, int *value) { *value = type == 0 ? VERSION : type == 1 ? 4 : 7; return 0; }
#ifndef OLD
int cufftCreate(int *plan) { *plan = PLAN; return STATUS; }
#endif
int cufftDestroy(int plan) { saw(plan); return STATUS; }
int cufftSetAutoAllocation(int plan, int yes) { saw(plan); saw(yes); return STATUS; }
int cufftSetStream(int plan, p s) { saw(plan); sawp(s); return STATUS; }
int cufftSetWorkArea(int plan, p area) { saw(plan); sawp(area); return STATUS; }
int cufftMakePlanMany64(int plan, int rank, ll *n, ll *inembed, ll istride, ll idist, ll *onembed, ll ostride, ll odist, int type, ll batch, size_t *size) {
	saw(plan); saw(rank); sawn(n, rank);
	sawn(inembed, rank); saw(istride); saw(idist);
	sawn(onembed, rank); saw(ostride); saw(odist);
	saw(type); saw(batch);
	*size = SIZE;
	return MADE;
}

#define EXEC(type, number) int cufftExec##type(int plan, p in, p out) { saw(number); saw(plan); sawp(in); sawp(out); return STATUS; }
#define EXECD(type, number) int cufftExec##type(int plan, p in, p out, int direction) { saw(number); saw(plan); sawp(in); sawp(out); saw(direction); return STATUS; }
EXECD(C2C, 0x29)
EXEC(R2C, 0x2a)
EXEC(C2R, 0x2c)
EXECD(Z2Z, 0x69)
EXEC(D2Z, 0x6a)
EXEC(Z2D, 0x6c)
