/* The proof that package driver agrees with NVIDIA's headers. It is compiled on a
 * host that has them, and never run:
 *
 *     cc -std=c11 -fsyntax-only -I/usr/local/cuda/include abi_check.c
 *
 * Sizes and offsets below are those of structs.go; TestABICheckMatchesStructs
 * keeps them in step. */
#include <stddef.h>
#include <cuda.h>
#include <cudaTypedefs.h>

#define SIGNATURE(typedef_name, parameters) \
	_Static_assert(__builtin_types_compatible_p(typedef_name, CUresult (CUDAAPI *) parameters), #typedef_name)
#define VALUE(name, value) _Static_assert((long long)(name) == (value), #name)
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define OFFSET(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type "." #field)

#include "abi_entries.h"

SIGNATURE(PFN_cuGetProcAddress_v12000, (const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *));
SIGNATURE(PFN_cuGetProcAddress_v11030, (const char *, void **, int, cuuint64_t));
VALUE(CU_GET_PROC_ADDRESS_LEGACY_STREAM, 1);

SIZE(CUdevice, 4);
SIZE(CUdeviceptr, 8);
SIZE(CUuuid, 16);
SIZE(CUipcMemHandle, 64);
SIZE(CUipcEventHandle, 64);

SIZE(CUDA_MEMCPY2D, 128);
OFFSET(CUDA_MEMCPY2D, srcXInBytes, 0);
OFFSET(CUDA_MEMCPY2D, srcY, 8);
OFFSET(CUDA_MEMCPY2D, srcMemoryType, 16);
OFFSET(CUDA_MEMCPY2D, srcHost, 24);
OFFSET(CUDA_MEMCPY2D, srcDevice, 32);
OFFSET(CUDA_MEMCPY2D, srcArray, 40);
OFFSET(CUDA_MEMCPY2D, srcPitch, 48);
OFFSET(CUDA_MEMCPY2D, dstXInBytes, 56);
OFFSET(CUDA_MEMCPY2D, dstY, 64);
OFFSET(CUDA_MEMCPY2D, dstMemoryType, 72);
OFFSET(CUDA_MEMCPY2D, dstHost, 80);
OFFSET(CUDA_MEMCPY2D, dstDevice, 88);
OFFSET(CUDA_MEMCPY2D, dstArray, 96);
OFFSET(CUDA_MEMCPY2D, dstPitch, 104);
OFFSET(CUDA_MEMCPY2D, WidthInBytes, 112);
OFFSET(CUDA_MEMCPY2D, Height, 120);

SIZE(CUmemLocation, 8);
OFFSET(CUmemLocation, type, 0);
OFFSET(CUmemLocation, id, 4);

SIZE(CUmemPoolProps, 88);
OFFSET(CUmemPoolProps, allocType, 0);
OFFSET(CUmemPoolProps, handleTypes, 4);
OFFSET(CUmemPoolProps, location, 8);
OFFSET(CUmemPoolProps, win32SecurityAttributes, 16);
OFFSET(CUmemPoolProps, maxSize, 24);
OFFSET(CUmemPoolProps, usage, 32);
OFFSET(CUmemPoolProps, reserved, 34);

SIZE(CUmemAccessDesc, 12);
OFFSET(CUmemAccessDesc, location, 0);
OFFSET(CUmemAccessDesc, flags, 8);

SIZE(CUgraphExecUpdateResultInfo, 24);
OFFSET(CUgraphExecUpdateResultInfo, result, 0);
OFFSET(CUgraphExecUpdateResultInfo, errorNode, 8);
OFFSET(CUgraphExecUpdateResultInfo, errorFromNode, 16);

SIZE(CUlaunchAttribute, 72);
OFFSET(CUlaunchAttribute, id, 0);
OFFSET(CUlaunchAttribute, value, 8);

SIZE(CUlaunchConfig, 56);
OFFSET(CUlaunchConfig, gridDimX, 0);
OFFSET(CUlaunchConfig, blockDimX, 12);
OFFSET(CUlaunchConfig, sharedMemBytes, 24);
OFFSET(CUlaunchConfig, hStream, 32);
OFFSET(CUlaunchConfig, attrs, 40);
OFFSET(CUlaunchConfig, numAttrs, 48);
