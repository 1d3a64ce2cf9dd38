/* A cuRAND that remembers what reached it, for the tests of the calls. -DMINOR=1 and -DSTATUS=103 change what it answers. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef MINOR
#define MINOR 3
#endif
#ifndef STATUS
#define STATUS 0
#endif
#ifndef MADE
#define MADE 0x777
#endif

typedef long long ll;
typedef unsigned long long ull;
typedef void *p;

static ll seen[256];
static int count;

static void saw(ll v) { seen[count++ & 255] = v; }
static void sawd(double v) { ll bits; memcpy(&bits, &v, sizeof bits); saw(bits); }
static int filled(p g, p to, size_t n) { saw((ll)(uintptr_t)g); saw((ll)(uintptr_t)to); saw((ll)n); return STATUS; }

int fake_seen(ll *out) {
	int n = count;
	for (int i = 0; i < n && i < 256; i++) out[i] = seen[i];
	count = 0;
	return n;
}

int curandGetProperty(int type, int *value) { *value = type == 0 ? 10 : type == 1 ? MINOR : 7; return 0; }
int curandCreateGenerator(p *g, int kind) { saw(kind); *g = (p)(uintptr_t)MADE; return STATUS; }
int curandDestroyGenerator(p g) { saw((ll)(uintptr_t)g); return STATUS; }
int curandSetStream(p g, p s) { saw((ll)(uintptr_t)g); saw((ll)(uintptr_t)s); return STATUS; }
int curandSetGeneratorOrdering(p g, int order) { saw((ll)(uintptr_t)g); saw(order); return STATUS; }
int curandSetPseudoRandomGeneratorSeed(p g, ull seed) { saw((ll)(uintptr_t)g); saw((ll)seed); return STATUS; }
int curandSetGeneratorOffset(p g, ull offset) { saw((ll)(uintptr_t)g); saw((ll)offset); return STATUS; }
int curandGenerateSeeds(p g) { saw((ll)(uintptr_t)g); return STATUS; }
int curandGenerate(p g, unsigned *to, size_t n) { return filled(g, to, n); }
int curandGenerateUniform(p g, float *to, size_t n) { return filled(g, to, n); }
int curandGenerateUniformDouble(p g, double *to, size_t n) { return filled(g, to, n); }
int curandGenerateNormal(p g, float *to, size_t n, float mean, float stddev) { filled(g, to, n); sawd(mean); sawd(stddev); return STATUS; }
int curandGenerateNormalDouble(p g, double *to, size_t n, double mean, double stddev) { filled(g, to, n); sawd(mean); sawd(stddev); return STATUS; }
int curandGenerateLogNormal(p g, float *to, size_t n, float mean, float stddev) { filled(g, to, n); sawd(mean); sawd(stddev); return STATUS; }
int curandGenerateLogNormalDouble(p g, double *to, size_t n, double mean, double stddev) { filled(g, to, n); sawd(mean); sawd(stddev); return STATUS; }
#ifndef OLD
int curandGeneratePoisson(p g, unsigned *to, size_t n, double lambda) { filled(g, to, n); sawd(lambda); return STATUS; }
#endif
