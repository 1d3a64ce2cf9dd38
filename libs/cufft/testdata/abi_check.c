/* What this package takes from NVIDIA's header, compared with the header: cc -fsyntax-only -I/usr/local/cuda/include abi_check.c */
#include <cufft.h>

#define SAME(name, value) _Static_assert((name) == (value), #name)

SAME(CUFFT_SUCCESS, 0x0);
SAME(CUFFT_INVALID_PLAN, 0x1);
SAME(CUFFT_ALLOC_FAILED, 0x2);
SAME(CUFFT_INVALID_TYPE, 0x3);
SAME(CUFFT_INVALID_VALUE, 0x4);
SAME(CUFFT_INTERNAL_ERROR, 0x5);
SAME(CUFFT_EXEC_FAILED, 0x6);
SAME(CUFFT_SETUP_FAILED, 0x7);
SAME(CUFFT_INVALID_SIZE, 0x8);
SAME(CUFFT_UNALIGNED_DATA, 0x9);
SAME(CUFFT_INVALID_DEVICE, 0xB);
SAME(CUFFT_NO_WORKSPACE, 0xD);
SAME(CUFFT_NOT_IMPLEMENTED, 0xE);
SAME(CUFFT_NOT_SUPPORTED, 0x10);
#if CUFFT_VERSION >= 12000
SAME(CUFFT_MISSING_DEPENDENCY, 0x11);
SAME(CUFFT_NVRTC_FAILURE, 0x12);
SAME(CUFFT_NVJITLINK_FAILURE, 0x13);
SAME(CUFFT_NVSHMEM_FAILURE, 0x14);
#endif
SAME(CUFFT_R2C, 0x2a);
SAME(CUFFT_C2R, 0x2c);
SAME(CUFFT_C2C, 0x29);
SAME(CUFFT_D2Z, 0x6a);
SAME(CUFFT_Z2D, 0x6c);
SAME(CUFFT_Z2Z, 0x69);
SAME(CUFFT_FORWARD, -1);
SAME(CUFFT_INVERSE, 1);

/* The prototypes: a pointer to the function, as fakecufft.c and calls.go have it. Enumerations are of 4 bytes. */
SAME(sizeof(cufftResult), 4);
SAME(sizeof(cufftType), 4);
SAME(sizeof(cufftHandle), 4);
SAME(sizeof(cufftComplex), 8);
SAME(sizeof(cufftDoubleComplex), 16);
typedef cufftResult st;
typedef cufftHandle h;
typedef long long ll;
st (*create)(h *) = cufftCreate;
st (*destroy)(h) = cufftDestroy;
st (*autoAllocation)(h, int) = cufftSetAutoAllocation;
st (*make)(h, int, ll *, ll *, ll, ll, ll *, ll, ll, cufftType, ll, size_t *) = cufftMakePlanMany64;
st (*stream)(h, cudaStream_t) = cufftSetStream;
st (*workArea)(h, void *) = cufftSetWorkArea;
st (*c2c)(h, cufftComplex *, cufftComplex *, int) = cufftExecC2C;
st (*r2c)(h, cufftReal *, cufftComplex *) = cufftExecR2C;
st (*c2r)(h, cufftComplex *, cufftReal *) = cufftExecC2R;
st (*z2z)(h, cufftDoubleComplex *, cufftDoubleComplex *, int) = cufftExecZ2Z;
st (*d2z)(h, cufftDoubleReal *, cufftDoubleComplex *) = cufftExecD2Z;
st (*z2d)(h, cufftDoubleComplex *, cufftDoubleReal *) = cufftExecZ2D;
