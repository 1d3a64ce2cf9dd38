/* The proof that package driver agrees with NVIDIA's headers. It is compiled on a
 * host that has them, and never run:
 *
 *     cc -std=c11 -fsyntax-only -I/usr/local/cuda/include abi_check.c
 *
 * `go generate ./driver` makes the two headers beside it. */
#include <stddef.h>
#include <cuda.h>
#include <cudaTypedefs.h>

#define SIGNATURE(typedef_name, parameters) \
	_Static_assert(__builtin_types_compatible_p(typedef_name, CUresult (CUDAAPI *) parameters), #typedef_name)
/* The name in the library: what the header renames the function to or, where it does not, what it also has. CUDA 13 may
 * rename a function to a version that is not used yet. */
#define NAME(function, symbol) \
	_Static_assert(CUDA_VERSION >= 13000 || __builtin_strcmp(NAME_OF(function), #symbol) == 0 || \
		(__builtin_strcmp(NAME_OF(function), #function) == 0 && sizeof(&symbol) != 0), #symbol)
#define NAME_OF(function) #function
#define VALUE(name, value) _Static_assert((long long)(name) == (value), #name)
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define OFFSET(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #type "." #field)

#include "abi_entries.h"
#include "abi_structs.h"

SIGNATURE(PFN_cuGetProcAddress_v12000, (const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *));
SIGNATURE(PFN_cuGetProcAddress_v11030, (const char *, void **, int, cuuint64_t));
VALUE(CU_GET_PROC_ADDRESS_LEGACY_STREAM, 1);

SIZE(CUdevice, 4);
SIZE(CUdeviceptr, 8);
SIZE(CUuuid, 16);
SIZE(CUipcMemHandle, 64);
SIZE(CUipcEventHandle, 64);
