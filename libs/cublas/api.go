package cublas

import "github.com/purecuda/purecuda/driver"

// RawHandle is a cublasHandle_t. It belongs to the context that was current when it was made.
type RawHandle uintptr

// API is cuBLAS as this package calls it: [*Library] is the real one, and package cublastest has one that is
// simulated. Matrices are column-major here, as they are in cuBLAS, and scalars are read during the call.
// A function that this cuBLAS lacks returns [StatusSymbolMissing].
//
// The methods put work on the stream of the handle. No two may run at the same time with one handle. All but Version need
// the context of the handle current. https://docs.nvidia.com/cuda/cublas
type API interface {
	// Version returns the version of cuBLAS: major, minor, patch; 0 where it is not known.
	Version() [3]int
	// Create makes a handle, which Destroy frees.
	Create() (RawHandle, Status)
	Destroy(h RawHandle) Status
	// SetStream sets the stream and the memory that calls may use there.
	SetStream(h RawHandle, s driver.Stream, workspace driver.DevicePtr, bytes uint64) Status

	// Gemm is cublasGemmEx, cublasGemmStridedBatchedEx or cublasGemmBatchedEx.
	Gemm(h RawHandle, c *GemmCall) Status
	// Gemv is cublasSgemv or cublasDgemv.
	Gemv(h RawHandle, c *GemvCall) Status
	// Axpy, Dot, Nrm2 and Scal are cublasAxpyEx and so on. The result of Dot and Nrm2 is device memory.
	Axpy(h RawHandle, c *VectorCall) Status
	Dot(h RawHandle, c *VectorCall) Status
	Nrm2(h RawHandle, c *VectorCall) Status
	Scal(h RawHandle, c *VectorCall) Status
	// Syrk is cublasSsyrk or cublasDsyrk.
	Syrk(h RawHandle, c *SyrkCall) Status
	// Trsm is cublasStrsm or cublasDtrsm.
	Trsm(h RawHandle, c *TrsmCall) Status
	// PlanMatmul asks cublasLtMatmulAlgoGetHeuristic for the fastest way to compute a shape.
	PlanMatmul(h RawHandle, shape *MatmulShape) (MatmulPlan, Status)
}

// MatmulPlan is a way to compute matrices of a shape.
type MatmulPlan interface {
	// Run is cublasLtMatmul.
	Run(h RawHandle, c *MatmulCall) Status
	// Destroy frees the plan.
	Destroy() Status
}

// Operation is what is done with a matrix first.
type Operation int32

// The operations.
const (
	NoTranspose Operation = 0
	Transpose   Operation = 1
)

// Fill says which triangle of a matrix is there.
type Fill int32

// The triangles.
const (
	Lower Fill = 0
	Upper Fill = 1
)

// Side says on which side of the unknown a matrix stands.
type Side int32

// The sides.
const (
	Left  Side = 0
	Right Side = 1
)

// Diag says whether the diagonal of a triangular matrix is read.
type Diag int32

// The diagonals.
const (
	NonUnit Diag = 0
	Unit    Diag = 1 // it is taken as ones
)

// DataType is a cudaDataType.
type DataType int32

// The types of elements.
const (
	TypeFloat32  DataType = 0
	TypeFloat64  DataType = 1
	TypeFloat16  DataType = 2
	TypeBFloat16 DataType = 14
	TypeE4M3     DataType = 28
	TypeE5M2     DataType = 29
)

// Compute is a cublasComputeType_t: what products are added up in.
type Compute int32

// The types of sums.
const (
	Compute32 Compute = 68
	Compute64 Compute = 70
	// ComputeTF32 rounds the operands to 10 bits of fraction first, which tensor cores take.
	ComputeTF32 Compute = 77
)

// scale is the type of the scalars.
func (c Compute) scale() DataType {
	if c == Compute64 {
		return TypeFloat64
	}
	return TypeFloat32
}

// Epilogue is a cublasLtEpilogue_t: a set of bits.
type Epilogue int32

// The epilogues: one, with or without a bias.
const (
	EpilogueNone Epilogue = 1
	EpilogueReLU Epilogue = 2
	EpilogueBias Epilogue = 4
	EpilogueGELU Epilogue = 32
)

// Operand is a column-major matrix in device memory.
type Operand struct {
	At     driver.DevicePtr
	Type   DataType
	LD     int32 // elements from one column to the next
	Stride int64 // elements from one matrix of a batch to the next
}

// VectorOperand is a vector in device memory.
type VectorOperand struct {
	At   driver.DevicePtr
	Type DataType
	Inc  int32
}

// GemmCall is C = Alpha*op(A)*op(B) + Beta*C, with op(A) of M rows and K columns.
type GemmCall struct {
	TransA, TransB Operation
	M, N, K        int32
	Alpha, Beta    float64
	A, B, C        Operand
	// Batch is the number of products. With Pointers, At is the address of that many addresses in device memory.
	Batch    int32
	Pointers bool
	Compute  Compute
}

// GemvCall is Y = Alpha*op(A)*X + Beta*Y; A has M rows and N columns.
type GemvCall struct {
	Trans       Operation
	M, N        int32
	Alpha, Beta float64
	A           Operand
	X, Y        VectorOperand
}

// VectorCall is an operation on vectors of N elements.
type VectorCall struct {
	N      int32
	Alpha  float64
	X, Y   VectorOperand
	Result driver.DevicePtr
}

// SyrkCall is C = Alpha*op(A)*op(A)^T + Beta*C, with op(A) of N rows and K columns.
type SyrkCall struct {
	Fill        Fill
	Trans       Operation
	N, K        int32
	Alpha, Beta float64
	A, C        Operand
}

// TrsmCall solves op(A)*X = Alpha*B, or X*op(A) = Alpha*B on the right. X takes the place of B, which
// has M rows and N columns.
type TrsmCall struct {
	Side  Side
	Fill  Fill
	Trans Operation
	Diag  Diag
	M, N  int32
	Alpha float64
	A, B  Operand
}

// MatmulShape is all of D = act(Alpha*op(A)*op(B) + Beta*D + bias) but the values. The At of the operands are left out.
type MatmulShape struct {
	TransA, TransB Operation
	M, N, K        int32
	A, B, D        Operand
	// AlignA and so on are the bytes that the addresses are multiples of.
	AlignA, AlignB, AlignD uint32
	Compute                Compute
	Epilogue               Epilogue
	Workspace              uint64
}

// MatmulCall has the values of a MatmulShape.
type MatmulCall struct {
	Alpha, Beta    float64
	A, B, D        driver.DevicePtr
	Bias           driver.DevicePtr // a vector of M elements of the type of D, or 0
	ScaleA, ScaleB driver.DevicePtr // of fp8: one float32 each, or 0
	Workspace      driver.DevicePtr
	Stream         driver.Stream
}
