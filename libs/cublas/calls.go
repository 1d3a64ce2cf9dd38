package cublas

import (
	"math"

	"github.com/purecuda/purecuda/driver"
)

// MatmulPlan is a way to compute matrices of a shape.
type MatmulPlan interface {
	// Run is cublasLtMatmul.
	Run(h RawHandle, c *MatmulCall) Status
	// Destroy frees the plan.
	Destroy() Status
}

// scale is the type of the scalars.
func (c Compute) scale() DataType {
	if c == Compute64 {
		return TypeFloat64
	}
	return TypeFloat32
}

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

// scalar has the bits of a float64, or of a float32 in its lower half.
type scalar uint64

// scalarOf is a scalar of a type.
func scalarOf(t DataType, v float64) scalar {
	if t == TypeFloat64 {
		return scalar(math.Float64bits(v))
	}
	return scalar(math.Float32bits(float32(v)))
}

// SetStream implements [API]. The workspace comes last: a new stream takes it away.
func (l *Library) SetStream(h RawHandle, s driver.Stream, workspace driver.DevicePtr, bytes uint64) Status {
	if status := l.setStream(h, s); status != StatusSuccess {
		return status
	}
	return l.setWorkspace(h, workspace, bytes)
}

// Gemm implements [API].
func (l *Library) Gemm(h RawHandle, c *GemmCall) Status {
	const algorithm = -1 // CUBLAS_GEMM_DEFAULT
	alpha, beta := scalarOf(c.Compute.scale(), c.Alpha), scalarOf(c.Compute.scale(), c.Beta)
	x, y, z := c.A, c.B, c.C
	switch {
	case c.Pointers:
		return l.gemmPointers(h, c.TransA, c.TransB, c.M, c.N, c.K, alpha, x.At, x.Type, x.LD, y.At, y.Type, y.LD,
			beta, z.At, z.Type, z.LD, c.Batch, c.Compute, algorithm)
	case c.Batch == 1:
		return l.gemmEx(h, c.TransA, c.TransB, c.M, c.N, c.K, alpha, x.At, x.Type, x.LD, y.At, y.Type, y.LD,
			beta, z.At, z.Type, z.LD, c.Compute, algorithm)
	}
	return l.gemmStrided(h, c.TransA, c.TransB, c.M, c.N, c.K, alpha, x.At, x.Type, x.LD, x.Stride, y.At, y.Type, y.LD, y.Stride,
		beta, z.At, z.Type, z.LD, z.Stride, c.Batch, c.Compute, algorithm)
}

// Gemv implements [API].
func (l *Library) Gemv(h RawHandle, c *GemvCall) Status {
	if c.A.Type == TypeFloat64 {
		return l.dgemv(h, c.Trans, c.M, c.N, c.Alpha, c.A.At, c.A.LD, c.X.At, c.X.Inc, c.Beta, c.Y.At, c.Y.Inc)
	}
	return l.sgemv(h, c.Trans, c.M, c.N, float32(c.Alpha), c.A.At, c.A.LD, c.X.At, c.X.Inc, float32(c.Beta), c.Y.At, c.Y.Inc)
}

// execution is what vectors of a type are computed in, and the type of their scalars.
func execution(t DataType) DataType {
	if t == TypeFloat64 {
		return TypeFloat64
	}
	return TypeFloat32
}

// Axpy implements [API].
func (l *Library) Axpy(h RawHandle, c *VectorCall) Status {
	t := execution(c.X.Type)
	return l.axpyEx(h, c.N, scalarOf(t, c.Alpha), t, c.X.At, c.X.Type, c.X.Inc, c.Y.At, c.Y.Type, c.Y.Inc, t)
}

// Scal implements [API].
func (l *Library) Scal(h RawHandle, c *VectorCall) Status {
	t := execution(c.X.Type)
	return l.scalEx(h, c.N, scalarOf(t, c.Alpha), t, c.X.At, c.X.Type, c.X.Inc, t)
}

// Dot implements [API].
func (l *Library) Dot(h RawHandle, c *VectorCall) Status {
	return l.toDevice(h, func() Status {
		return l.dotEx(h, c.N, c.X.At, c.X.Type, c.X.Inc, c.Y.At, c.Y.Type, c.Y.Inc, c.Result, c.X.Type, execution(c.X.Type))
	})
}

// Nrm2 implements [API].
func (l *Library) Nrm2(h RawHandle, c *VectorCall) Status {
	return l.toDevice(h, func() Status {
		return l.nrm2Ex(h, c.N, c.X.At, c.X.Type, c.X.Inc, c.Result, c.X.Type, execution(c.X.Type))
	})
}

// toDevice makes a call whose scalars, the result above all, are on the device.
func (l *Library) toDevice(h RawHandle, f func() Status) Status {
	if s := l.setPointerMode(h, 1); s != StatusSuccess {
		return s
	}
	s := f()
	if back := l.setPointerMode(h, 0); s == StatusSuccess {
		s = back
	}
	return s
}

// Syrk implements [API].
func (l *Library) Syrk(h RawHandle, c *SyrkCall) Status {
	if c.A.Type == TypeFloat64 {
		return l.dsyrk(h, c.Fill, c.Trans, c.N, c.K, c.Alpha, c.A.At, c.A.LD, c.Beta, c.C.At, c.C.LD)
	}
	return l.ssyrk(h, c.Fill, c.Trans, c.N, c.K, float32(c.Alpha), c.A.At, c.A.LD, float32(c.Beta), c.C.At, c.C.LD)
}

// Trsm implements [API].
func (l *Library) Trsm(h RawHandle, c *TrsmCall) Status {
	if c.A.Type == TypeFloat64 {
		return l.dtrsm(h, c.Side, c.Fill, c.Trans, c.Diag, c.M, c.N, c.Alpha, c.A.At, c.A.LD, c.B.At, c.B.LD)
	}
	return l.strsm(h, c.Side, c.Fill, c.Trans, c.Diag, c.M, c.N, float32(c.Alpha), c.A.At, c.A.LD, c.B.At, c.B.LD)
}
