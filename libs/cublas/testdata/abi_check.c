/* What this package takes from NVIDIA's headers, compared with the headers: cc -fsyntax-only -I/usr/local/cuda/include abi_check.c */
#include <cublas_v2.h>
#include <cublasLt.h>
#include <stddef.h>

#define SAME(name, value) _Static_assert((name) == (value), #name)

SAME(CUBLAS_STATUS_NOT_INITIALIZED, 1);
SAME(CUBLAS_STATUS_ALLOC_FAILED, 3);
SAME(CUBLAS_STATUS_INVALID_VALUE, 7);
SAME(CUBLAS_STATUS_ARCH_MISMATCH, 8);
SAME(CUBLAS_STATUS_EXECUTION_FAILED, 13);
SAME(CUBLAS_STATUS_INTERNAL_ERROR, 14);
SAME(CUBLAS_STATUS_NOT_SUPPORTED, 15);
SAME(CUBLAS_OP_N, 0);
SAME(CUBLAS_OP_T, 1);
SAME(CUBLAS_FILL_MODE_LOWER, 0);
SAME(CUBLAS_FILL_MODE_UPPER, 1);
SAME(CUBLAS_SIDE_LEFT, 0);
SAME(CUBLAS_SIDE_RIGHT, 1);
SAME(CUBLAS_DIAG_NON_UNIT, 0);
SAME(CUBLAS_DIAG_UNIT, 1);
SAME(CUBLAS_POINTER_MODE_HOST, 0);
SAME(CUBLAS_POINTER_MODE_DEVICE, 1);
SAME(CUBLAS_GEMM_DEFAULT, -1);
SAME(CUBLAS_COMPUTE_32F, 68);
SAME(CUBLAS_COMPUTE_64F, 70);
SAME(CUBLAS_COMPUTE_32F_FAST_TF32, 77);
SAME(CUDA_R_32F, 0);
SAME(CUDA_R_64F, 1);
SAME(CUDA_R_16F, 2);
SAME(CUDA_R_16BF, 14);
#if CUBLAS_VER_MAJOR > 11 || CUBLAS_VER_MINOR >= 8
SAME(CUDA_R_8F_E4M3, 28);
SAME(CUDA_R_8F_E5M2, 29);
SAME(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 17);
SAME(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 18);
#endif
SAME(CUBLASLT_MATMUL_DESC_TRANSA, 3);
SAME(CUBLASLT_MATMUL_DESC_TRANSB, 4);
SAME(CUBLASLT_MATMUL_DESC_EPILOGUE, 7);
SAME(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8);
SAME(CUBLASLT_EPILOGUE_DEFAULT, 1);
SAME(CUBLASLT_EPILOGUE_RELU, 2);
SAME(CUBLASLT_EPILOGUE_BIAS, 4);
SAME(CUBLASLT_EPILOGUE_RELU_BIAS, 6);
SAME(CUBLASLT_EPILOGUE_GELU, 32);
SAME(CUBLASLT_EPILOGUE_GELU_BIAS, 36);
SAME(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5);
SAME(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8);
SAME(sizeof(cublasLtMatmulHeuristicResult_t), 96);
SAME(offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize), 64);
SAME(offsetof(cublasLtMatmulHeuristicResult_t, state), 72);

/* The prototypes: a pointer to the function, as fakecublas.c and calls.go have it. Enumerations are of 4 bytes. */
SAME(sizeof(cublasOperation_t), 4);
SAME(sizeof(cublasComputeType_t), 4);
SAME(sizeof(cublasLtMatmulDescAttributes_t), 4);
typedef cublasStatus_t st;
typedef cublasHandle_t h;
typedef cublasOperation_t op;
typedef const void *cp;
typedef cudaDataType dt;
st (*gemm)(h, op, op, int, int, int, cp, cp, dt, int, cp, dt, int, cp, void *, dt, int, cublasComputeType_t, cublasGemmAlgo_t) = cublasGemmEx;
st (*batched)(h, op, op, int, int, int, cp, const void *const *, dt, int, const void *const *, dt, int, cp, void *const *, dt, int, int,
              cublasComputeType_t, cublasGemmAlgo_t) = cublasGemmBatchedEx;
st (*strided)(h, op, op, int, int, int, cp, cp, dt, int, long long, cp, dt, int, long long, cp, void *, dt, int, long long, int,
              cublasComputeType_t, cublasGemmAlgo_t) = cublasGemmStridedBatchedEx;
st (*gemv)(h, op, int, int, const float *, const float *, int, const float *, int, const float *, float *, int) = cublasSgemv_v2;
st (*axpy)(h, int, cp, dt, cp, dt, int, void *, dt, int, dt) = cublasAxpyEx;
st (*dot)(h, int, cp, dt, int, cp, dt, int, void *, dt, dt) = cublasDotEx;
st (*nrm2)(h, int, cp, dt, int, void *, dt, dt) = cublasNrm2Ex;
st (*scal)(h, int, cp, dt, void *, dt, int, dt) = cublasScalEx;
st (*syrk)(h, cublasFillMode_t, op, int, int, const float *, const float *, int, const float *, float *, int) = cublasSsyrk_v2;
st (*trsm)(h, cublasSideMode_t, cublasFillMode_t, op, cublasDiagType_t, int, int, const float *, const float *, int, float *, int) = cublasStrsm_v2;
st (*workspace)(h, void *, size_t) = cublasSetWorkspace_v2;
st (*matmul)(cublasLtHandle_t, cublasLtMatmulDesc_t, cp, cp, cublasLtMatrixLayout_t, cp, cublasLtMatrixLayout_t, cp, cp, cublasLtMatrixLayout_t,
             void *, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t) = cublasLtMatmul;
