/* What this package takes from NVIDIA's headers, compared with the headers: cc -fsyntax-only -I/usr/local/cuda/include abi_check.c */
#include <curand.h>

#define SAME(name, value) _Static_assert((name) == (value), #name)

SAME(CURAND_STATUS_VERSION_MISMATCH, 100);
SAME(CURAND_STATUS_NOT_INITIALIZED, 101);
SAME(CURAND_STATUS_ALLOCATION_FAILED, 102);
SAME(CURAND_STATUS_TYPE_ERROR, 103);
SAME(CURAND_STATUS_OUT_OF_RANGE, 104);
SAME(CURAND_STATUS_LENGTH_NOT_MULTIPLE, 105);
SAME(CURAND_STATUS_DOUBLE_PRECISION_REQUIRED, 106);
SAME(CURAND_STATUS_LAUNCH_FAILURE, 201);
SAME(CURAND_STATUS_PREEXISTING_FAILURE, 202);
SAME(CURAND_STATUS_INITIALIZATION_FAILED, 203);
SAME(CURAND_STATUS_ARCH_MISMATCH, 204);
SAME(CURAND_STATUS_INTERNAL_ERROR, 999);
SAME(CURAND_RNG_PSEUDO_XORWOW, 101);
SAME(CURAND_RNG_PSEUDO_MRG32K3A, 121);
SAME(CURAND_RNG_PSEUDO_MTGP32, 141);
SAME(CURAND_RNG_PSEUDO_MT19937, 142);
SAME(CURAND_RNG_PSEUDO_PHILOX4_32_10, 161);
SAME(CURAND_ORDERING_PSEUDO_BEST, 100);
SAME(CURAND_ORDERING_PSEUDO_DEFAULT, 101);
SAME(CURAND_ORDERING_PSEUDO_SEEDED, 102);
SAME(CURAND_ORDERING_PSEUDO_LEGACY, 103);
SAME(CURAND_ORDERING_PSEUDO_DYNAMIC, 104);

/* The prototypes: a pointer to the function, as fakecurand.c and calls.go have it. Enumerations are of 4 bytes. */
SAME(sizeof(curandStatus_t), 4);
SAME(sizeof(curandRngType_t), 4);
SAME(sizeof(curandOrdering_t), 4);
typedef curandStatus_t st;
typedef curandGenerator_t g;
st (*create)(g *, curandRngType_t) = curandCreateGenerator;
st (*destroy)(g) = curandDestroyGenerator;
st (*stream)(g, cudaStream_t) = curandSetStream;
st (*order)(g, curandOrdering_t) = curandSetGeneratorOrdering;
st (*seed)(g, unsigned long long) = curandSetPseudoRandomGeneratorSeed;
st (*offset)(g, unsigned long long) = curandSetGeneratorOffset;
st (*seeds)(g) = curandGenerateSeeds;
st (*generate)(g, unsigned int *, size_t) = curandGenerate;
st (*uniform)(g, float *, size_t) = curandGenerateUniform;
st (*uniformDouble)(g, double *, size_t) = curandGenerateUniformDouble;
st (*normal)(g, float *, size_t, float, float) = curandGenerateNormal;
st (*normalDouble)(g, double *, size_t, double, double) = curandGenerateNormalDouble;
st (*logNormal)(g, float *, size_t, float, float) = curandGenerateLogNormal;
st (*logNormalDouble)(g, double *, size_t, double, double) = curandGenerateLogNormalDouble;
st (*poisson)(g, unsigned int *, size_t, double) = curandGeneratePoisson;
