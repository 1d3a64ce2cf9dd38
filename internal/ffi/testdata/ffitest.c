/* A library that reports what reached it, for the tests of the call layer. */
#include <stdint.h>

typedef uint64_t u64;

/* Each argument has its own weight, so that a swapped, lost or doubled word
 * changes the sum. */
u64 weigh0(void) { return 42; }
u64 weigh1(u64 a) { return a; }
u64 weigh6(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f) {
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f;
}
u64 weigh7(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g) {
	return weigh6(a, b, c, d, e, f) + 7 * g;
}
u64 weigh8(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h) {
	return weigh7(a, b, c, d, e, f, g) + 8 * h;
}
u64 weigh9(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i) {
	return weigh8(a, b, c, d, e, f, g, h) + 9 * i;
}
u64 weigh11(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k) {
	return weigh9(a, b, c, d, e, f, g, h, i) + 10 * j + 11 * k;
}
u64 weigh15(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k,
            u64 l, u64 m, u64 n, u64 o) {
	return weigh11(a, b, c, d, e, f, g, h, i, j, k) + 12 * l + 13 * m + 14 * n + 15 * o;
}
u64 weigh23(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k,
            u64 l, u64 m, u64 n, u64 o, u64 p, u64 q, u64 r, u64 s, u64 t, u64 u, u64 v, u64 w) {
	return weigh15(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o) +
	       16 * p + 17 * q + 18 * r + 19 * s + 20 * t + 21 * u + 22 * v + 23 * w;
}
u64 weigh32(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g, u64 h, u64 i, u64 j, u64 k,
            u64 l, u64 m, u64 n, u64 o, u64 p, u64 q, u64 r, u64 s, u64 t, u64 u, u64 v, u64 w,
            u64 x, u64 y, u64 z, u64 A, u64 B, u64 C, u64 D, u64 E, u64 F) {
	return weigh23(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w) +
	       24 * x + 25 * y + 26 * z + 27 * A + 28 * B + 29 * C + 30 * D + 31 * E + 32 * F;
}

/* What reached a function of floats, each with its own weight. */
static int seen(double *out, int n, const double *all) {
	for (int i = 0; i < n; i++) out[i] = all[i];
	return (int)((u64)(uintptr_t)__builtin_frame_address(0) & 15);
}
int floats1(double *out, float a) { return seen(out, 1, (double[]){a}); }
/* As curandGenerateNormalDouble has it. */
int normal(double *out, u64 n, double mean, double deviation) { return seen(out, 3, (double[]){n, mean, deviation}); }
/* More of both than there are registers, in an order that no rule gives. */
int mixed(double a, double *out, float b, int c, u64 d, double e, float f, float g, int h, double i,
          int j, float k, double l, float m, int n, double o, int p, float q, u64 r) {
	return seen(out, 18, (double[]){a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r});
}
/* 32 words, of which every second is a double, after one for the result. */
int doubles32(double *out, double a, u64 b, double c, u64 d, double e, u64 f, double g, u64 h,
              double i, u64 j, double k, u64 l, double m, u64 n, double o, u64 p, double q, u64 r, double s,
              u64 t, double u, u64 v, double w, u64 x, double y, u64 z, double A, u64 B, double C, u64 D, double E) {
	return seen(out, 31, (double[]){a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, A, B, C, D, E});
}

/* 0 when the stack is aligned as the calling convention asks. */
u64 misalignment(void) { return (u64)(uintptr_t)__builtin_frame_address(0) & 15; }
u64 misalignment7(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g) {
	return (u64)(uintptr_t)__builtin_frame_address(0) & 15;
}

/* 32-bit arguments and a negative 32-bit result, as the driver API has them. */
int narrow(unsigned a, int b) { return (int)a + b; }

u64 store(u64 *out, u64 v) { *out = v; return 0; }
u64 load(const u64 *in) { return *in; }

typedef struct { unsigned char bytes[64]; } handle;

/* A 64-byte structure by value between two words, as cuIpcOpenMemHandle has it. */
u64 by_value(u64 *out, handle h, unsigned flags) {
	u64 sum = 0;
	for (int i = 0; i < 64; i++) sum = sum * 31 + h.bytes[i];
	*out = sum;
	return flags;
}

/* Calls back on the calling thread. */
u64 call_back(u64 (*f)(u64), u64 v) { return f(v) + 1; }

/* A context of the thread. Neither 0 nor 13 is one: the first cannot be pushed, and the second cannot be popped. */
static __thread u64 current;
static int aligned(void) { return ((u64)(uintptr_t)__builtin_frame_address(0) & 15) == 0; }
int push(u64 context) {
	if (context == 0 || current != 0) return 201;
	current = context;
	return aligned() ? 0 : 99;
}
int pop(u64 *off) {
	int stuck = current == 13;
	*off = current;
	current = 0;
	return stuck ? 700 : aligned() ? 0 : 99;
}
u64 within7(u64 a, u64 b, u64 c, u64 d, u64 e, u64 f, u64 g) { return current + weigh7(a, b, c, d, e, f, g); }
u64 within_floats(u64 a, double b, double *out) { *out = b; return current + a; }
