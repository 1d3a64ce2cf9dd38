/* An nvJitLink that remembers what reached it, for the tests of the calls. -DMAJOR=12 and -DSTATUS=6 change what it answers. */
#include <stdint.h>
#include <string.h>

#ifndef MAJOR
#define MAJOR 13
#endif
#ifndef STATUS
#define STATUS 0
#endif

typedef long long ll;

static ll seen[256];
static int count;

static void saw(ll v) { seen[count++ & 255] = v; }
static void sawd(double v) { ll bits; memcpy(&bits, &v, sizeof bits); saw(bits); }

int fake_seen(ll *out) {
	int n = count;
	for (int i = 0; i < n && i < 256; i++) out[i] = seen[i];
	count = 0;
	return n;
}

int fakeGetProperty(int type, int *value) { *value = type == 0 ? MAJOR : type == 1 ? 2 : 7; return 0; }
int nvJitLinkVersion(unsigned *major, unsigned *minor) { *major = MAJOR; *minor = 2; return STATUS; }
int nvJitLinkCreate(void **handle, uint32_t count, const char **options) {
	*handle = (void *)0x777;
	saw(count);
	for (uint32_t i = 0; i < count; i++) saw((ll)strlen(options[i]));
	return STATUS;
}
const char *fakeText(int yes) { return yes ? "a text" : 0; }
int fakeMixed(int8_t a, double b, uint64_t c, float d, const char *text, const int *numbers, void *null, int yes) {
	saw(a); sawd(b); saw((ll)c); sawd(d); saw(text[0]); saw(text[3]); saw(numbers[0] + numbers[1]); saw(null == 0); saw(yes);
	return STATUS;
}
