/* What this package takes from NVIDIA's headers, compared with the headers: cc -fsyntax-only -I/usr/local/cuda/include abi_check.c */
#include <cusolverDn.h>

#define SAME(name, value) _Static_assert((name) == (value), #name)

SAME(CUSOLVER_STATUS_NOT_INITIALIZED, 1);
SAME(CUSOLVER_STATUS_ALLOC_FAILED, 2);
SAME(CUSOLVER_STATUS_INVALID_VALUE, 3);
SAME(CUSOLVER_STATUS_ARCH_MISMATCH, 4);
SAME(CUSOLVER_STATUS_MAPPING_ERROR, 5);
SAME(CUSOLVER_STATUS_EXECUTION_FAILED, 6);
SAME(CUSOLVER_STATUS_INTERNAL_ERROR, 7);
SAME(CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED, 8);
SAME(CUSOLVER_STATUS_NOT_SUPPORTED, 9);
SAME(CUSOLVER_STATUS_INVALID_LICENSE, 11);
SAME(CUSOLVER_STATUS_INVALID_WORKSPACE, 31);
SAME(CUSOLVER_EIG_MODE_NOVECTOR, 0);
SAME(CUSOLVER_EIG_MODE_VECTOR, 1);
SAME(CUBLAS_OP_N, 0);
SAME(CUBLAS_OP_T, 1);
SAME(CUBLAS_FILL_MODE_LOWER, 0);
SAME(CUBLAS_FILL_MODE_UPPER, 1);
SAME(CUBLAS_SIDE_LEFT, 0);
SAME(CUBLAS_SIDE_RIGHT, 1);
SAME(CUDA_R_32F, 0);
SAME(CUDA_R_64F, 1);

/* The prototypes: a pointer to the function, as fakecusolver.c and calls.go have it. Enumerations are of 4 bytes. */
SAME(sizeof(cusolverStatus_t), 4);
SAME(sizeof(cusolverEigMode_t), 4);
SAME(sizeof(cublasFillMode_t), 4);
SAME(sizeof(cudaDataType), 4);
typedef cusolverStatus_t st;
typedef cusolverDnHandle_t h;
typedef cusolverDnParams_t p;
typedef cublasFillMode_t fill;
typedef cublasOperation_t op;
typedef const void *cp;
typedef cudaDataType dt;
typedef int64_t i64;
st (*create)(h *) = cusolverDnCreate;
st (*destroy)(h) = cusolverDnDestroy;
st (*params)(p *) = cusolverDnCreateParams;
st (*noParams)(p) = cusolverDnDestroyParams;
st (*stream)(h, cudaStream_t) = cusolverDnSetStream;
st (*potrfSize)(h, p, fill, i64, dt, cp, i64, dt, size_t *, size_t *) = cusolverDnXpotrf_bufferSize;
st (*potrf)(h, p, fill, i64, dt, void *, i64, dt, void *, size_t, void *, size_t, int *) = cusolverDnXpotrf;
st (*potrs)(h, p, fill, i64, i64, dt, cp, i64, dt, void *, i64, int *) = cusolverDnXpotrs;
st (*getrfSize)(h, p, i64, i64, dt, cp, i64, dt, size_t *, size_t *) = cusolverDnXgetrf_bufferSize;
st (*getrf)(h, p, i64, i64, dt, void *, i64, i64 *, dt, void *, size_t, void *, size_t, int *) = cusolverDnXgetrf;
st (*getrs)(h, p, op, i64, i64, dt, cp, i64, const i64 *, dt, void *, i64, int *) = cusolverDnXgetrs;
st (*geqrfSize)(h, p, i64, i64, dt, cp, i64, dt, cp, dt, size_t *, size_t *) = cusolverDnXgeqrf_bufferSize;
st (*geqrf)(h, p, i64, i64, dt, void *, i64, dt, void *, dt, void *, size_t, void *, size_t, int *) = cusolverDnXgeqrf;
st (*sormqrSize)(h, cublasSideMode_t, op, int, int, int, const float *, int, const float *, const float *, int, int *) = cusolverDnSormqr_bufferSize;
st (*sormqr)(h, cublasSideMode_t, op, int, int, int, const float *, int, const float *, float *, int, float *, int, int *) = cusolverDnSormqr;
st (*dormqr)(h, cublasSideMode_t, op, int, int, int, const double *, int, const double *, double *, int, double *, int, int *) = cusolverDnDormqr;
st (*syevdSize)(h, p, cusolverEigMode_t, fill, i64, dt, cp, i64, dt, cp, dt, size_t *, size_t *) = cusolverDnXsyevd_bufferSize;
st (*syevd)(h, p, cusolverEigMode_t, fill, i64, dt, void *, i64, dt, void *, dt, void *, size_t, void *, size_t, int *) = cusolverDnXsyevd;
st (*gesvdSize)(h, p, signed char, signed char, i64, i64, dt, cp, i64, dt, cp, dt, cp, i64, dt, cp, i64, dt, size_t *, size_t *) = cusolverDnXgesvd_bufferSize;
st (*gesvd)(h, p, signed char, signed char, i64, i64, dt, void *, i64, dt, void *, dt, void *, i64, dt, void *, i64, dt,
            void *, size_t, void *, size_t, int *) = cusolverDnXgesvd;
