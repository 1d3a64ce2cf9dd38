/* What linker.go passes to nvJitLink is what its header says. Compiled, never run. */
#include <nvJitLink.h>

#define FUNCTION(f, ...) _Static_assert(__builtin_types_compatible_p(__typeof__(f), nvJitLinkResult(__VA_ARGS__)), #f)
FUNCTION(nvJitLinkVersion, unsigned int *, unsigned int *);
FUNCTION(nvJitLinkCreate, nvJitLinkHandle *, uint32_t, const char **);
FUNCTION(nvJitLinkDestroy, nvJitLinkHandle *);
FUNCTION(nvJitLinkAddData, nvJitLinkHandle, nvJitLinkInputType, const void *, size_t, const char *);
FUNCTION(nvJitLinkComplete, nvJitLinkHandle);
FUNCTION(nvJitLinkGetLinkedCubinSize, nvJitLinkHandle, size_t *);
FUNCTION(nvJitLinkGetLinkedCubin, nvJitLinkHandle, void *);
FUNCTION(nvJitLinkGetLinkedPtxSize, nvJitLinkHandle, size_t *);
FUNCTION(nvJitLinkGetLinkedPtx, nvJitLinkHandle, char *);
FUNCTION(nvJitLinkGetErrorLogSize, nvJitLinkHandle, size_t *);
FUNCTION(nvJitLinkGetErrorLog, nvJitLinkHandle, char *);
FUNCTION(nvJitLinkGetInfoLogSize, nvJitLinkHandle, size_t *);
FUNCTION(nvJitLinkGetInfoLog, nvJitLinkHandle, char *);

_Static_assert(sizeof(nvJitLinkInputType) == 4 && sizeof(nvJitLinkResult) == 4, "enumerations");
_Static_assert(NVJITLINK_INPUT_CUBIN == 1 && NVJITLINK_INPUT_PTX == 2 && NVJITLINK_INPUT_LTOIR == 3 && NVJITLINK_INPUT_FATBIN == 4 &&
	NVJITLINK_INPUT_OBJECT == 5 && NVJITLINK_INPUT_LIBRARY == 6, "kinds of input");
_Static_assert(NVJITLINK_ERROR_UNRECOGNIZED_OPTION == 1 && NVJITLINK_ERROR_MISSING_ARCH == 2 && NVJITLINK_ERROR_INVALID_INPUT == 3 &&
	NVJITLINK_ERROR_PTX_COMPILE == 4 && NVJITLINK_ERROR_NVVM_COMPILE == 5 && NVJITLINK_ERROR_INTERNAL == 6 &&
	NVJITLINK_ERROR_THREADPOOL == 7 && NVJITLINK_ERROR_UNRECOGNIZED_INPUT == 8 && NVJITLINK_ERROR_FINALIZE == 9, "results");
#ifdef NVJITLINK_13
_Static_assert(NVJITLINK_ERROR_NULL_INPUT == 10 && NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS == 11 && NVJITLINK_ERROR_INCORRECT_INPUT_TYPE == 12 &&
	NVJITLINK_ERROR_ARCH_MISMATCH == 13 && NVJITLINK_ERROR_OUTDATED_LIBRARY == 14 && NVJITLINK_ERROR_MISSING_FATBIN == 15, "later results");
#endif
