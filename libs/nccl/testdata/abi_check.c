/* What this package takes from NVIDIA's header, compared with the header: cc -fsyntax-only -I/usr/local/cuda/include abi_check.c */
#include <nccl.h>
#include <stddef.h>

#define SAME(name, value) _Static_assert((name) == (value), #name)

SAME(ncclSuccess, 0);
SAME(ncclUnhandledCudaError, 1);
SAME(ncclSystemError, 2);
SAME(ncclInternalError, 3);
SAME(ncclInvalidArgument, 4);
SAME(ncclInvalidUsage, 5);
SAME(ncclRemoteError, 6);
SAME(ncclInProgress, 7);
SAME(ncclSum, 0);
SAME(ncclProd, 1);
SAME(ncclMax, 2);
SAME(ncclMin, 3);
SAME(ncclAvg, 4);
SAME(ncclInt8, 0);
SAME(ncclUint8, 1);
SAME(ncclInt32, 2);
SAME(ncclUint32, 3);
SAME(ncclInt64, 4);
SAME(ncclUint64, 5);
SAME(ncclFloat16, 6);
SAME(ncclFloat32, 7);
SAME(ncclFloat64, 8);
SAME(ncclBfloat16, 9);
SAME(sizeof(ncclRedOp_t), 4);
SAME(sizeof(ncclDataType_t), 4);

/* The id goes by value: it is larger than two words, and of bytes. */
SAME(sizeof(ncclUniqueId), 128);
SAME(_Alignof(ncclUniqueId), 1);

/* The beginning of the configuration, which is that of 2.14. */
SAME(offsetof(ncclConfig_t, size), 0);
SAME(offsetof(ncclConfig_t, magic), 8);
SAME(offsetof(ncclConfig_t, version), 12);
SAME(offsetof(ncclConfig_t, blocking), 16);
SAME(NCCL_VERSION(2, 14, 0), 21400);
#ifdef NCCL_API_MAGIC /* older headers have the number only */
SAME(NCCL_API_MAGIC, 0xcafebeef);
#endif

typedef ncclResult_t st;
typedef ncclComm_t c;
typedef const void *cp;
typedef cudaStream_t s;
st (*version)(int *) = ncclGetVersion;
st (*unique)(ncclUniqueId *) = ncclGetUniqueId;
st (*join)(c *, int, ncclUniqueId, int, ncclConfig_t *) = ncclCommInitRankConfig;
st (*state)(c, st *) = ncclCommGetAsyncError;
const char *(*text)(c) = ncclGetLastError;
st (*finalize)(c) = ncclCommFinalize;
st (*destroy)(c) = ncclCommDestroy;
st (*end)(c) = ncclCommAbort;
st (*start)(void) = ncclGroupStart;
st (*stop)(void) = ncclGroupEnd;
st (*allreduce)(cp, void *, size_t, ncclDataType_t, ncclRedOp_t, c, s) = ncclAllReduce;
st (*broadcast)(cp, void *, size_t, ncclDataType_t, int, c, s) = ncclBroadcast;
st (*reduce)(cp, void *, size_t, ncclDataType_t, ncclRedOp_t, int, c, s) = ncclReduce;
st (*gather)(cp, void *, size_t, ncclDataType_t, c, s) = ncclAllGather;
st (*scatter)(cp, void *, size_t, ncclDataType_t, ncclRedOp_t, c, s) = ncclReduceScatter;
st (*sends)(cp, size_t, ncclDataType_t, int, c, s) = ncclSend;
st (*recvs)(void *, size_t, ncclDataType_t, int, c, s) = ncclRecv;
