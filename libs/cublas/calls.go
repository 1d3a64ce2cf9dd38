package cublas

import (
	"math"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// The functions in the argument order of cublas_api.h. Integers that are negative travel as they are: C reads
// the lower half of a word.

func (o Operand) at() uintptr  { return uintptr(o.At) }
func (o Operand) typ() uintptr { return uintptr(o.Type) }
func (o Operand) ld() uintptr  { return uintptr(o.LD) }

func (v VectorOperand) at() uintptr  { return uintptr(v.At) }
func (v VectorOperand) typ() uintptr { return uintptr(v.Type) }
func (v VectorOperand) inc() uintptr { return uintptr(v.Inc) }

// scalars puts the scalars into a block, and returns their addresses.
func (b *block) scalars(t DataType, alpha, beta float64) (uintptr, uintptr) {
	b.alpha, b.beta = math.Float64bits(alpha), math.Float64bits(beta)
	if t != TypeFloat64 {
		b.alpha, b.beta = uint64(math.Float32bits(float32(alpha))), uint64(math.Float32bits(float32(beta)))
	}
	return uintptr(unsafe.Pointer(&b.alpha)), uintptr(unsafe.Pointer(&b.beta))
}

// create calls a function whose first argument is where the handle goes.
func (l *Library) create(f function, more ...uintptr) (uintptr, Status) {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	b.out = 0
	s := l.call(f, b, append([]uintptr{uintptr(unsafe.Pointer(&b.out))}, more...)...)
	if s == StatusSuccess && b.out == 0 {
		s = StatusImpossibleValue
	}
	return b.out, s
}

// Create implements [API].
func (l *Library) Create() (RawHandle, Status) {
	h, s := l.create(fnCreate)
	return RawHandle(h), s
}

// Destroy implements [API].
func (l *Library) Destroy(h RawHandle) Status { return l.do(fnDestroy, uintptr(h)) }

// SetStream implements [API]. The workspace comes last: a new stream takes it away.
func (l *Library) SetStream(h RawHandle, s driver.Stream, workspace driver.DevicePtr, bytes uint64) Status {
	if status := l.do(fnSetStream, uintptr(h), uintptr(s)); status != StatusSuccess {
		return status
	}
	return l.do(fnSetWorkspace, uintptr(h), uintptr(workspace), uintptr(bytes))
}

// Gemm implements [API].
func (l *Library) Gemm(h RawHandle, c *GemmCall) Status {
	const algorithm = ^uintptr(0) // CUBLAS_GEMM_DEFAULT
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	alpha, beta := b.scalars(c.Compute.scale(), c.Alpha, c.Beta)
	ta, tb, m, n, k := uintptr(c.TransA), uintptr(c.TransB), uintptr(c.M), uintptr(c.N), uintptr(c.K)
	x, y, z := c.A, c.B, c.C
	switch {
	case c.Pointers:
		return l.call(fnGemmPointers, b, uintptr(h), ta, tb, m, n, k, alpha, x.at(), x.typ(), x.ld(), y.at(), y.typ(), y.ld(),
			beta, z.at(), z.typ(), z.ld(), uintptr(c.Batch), uintptr(c.Compute), algorithm)
	case c.Batch == 1:
		return l.call(fnGemm, b, uintptr(h), ta, tb, m, n, k, alpha, x.at(), x.typ(), x.ld(), y.at(), y.typ(), y.ld(),
			beta, z.at(), z.typ(), z.ld(), uintptr(c.Compute), algorithm)
	}
	return l.call(fnGemmStrided, b, uintptr(h), ta, tb, m, n, k, alpha, x.at(), x.typ(), x.ld(), uintptr(x.Stride), y.at(), y.typ(), y.ld(), uintptr(y.Stride),
		beta, z.at(), z.typ(), z.ld(), uintptr(z.Stride), uintptr(c.Batch), uintptr(c.Compute), algorithm)
}

// of is the function of a type, of those for float32 and float64.
func of(t DataType, single, double function) function {
	if t == TypeFloat64 {
		return double
	}
	return single
}

// Gemv implements [API].
func (l *Library) Gemv(h RawHandle, c *GemvCall) Status {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	alpha, beta := b.scalars(c.A.Type, c.Alpha, c.Beta)
	return l.call(of(c.A.Type, fnSgemv, fnDgemv), b, uintptr(h), uintptr(c.Trans), uintptr(c.M), uintptr(c.N),
		alpha, c.A.at(), c.A.ld(), c.X.at(), c.X.inc(), beta, c.Y.at(), c.Y.inc())
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
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	t := execution(c.X.Type)
	alpha, _ := b.scalars(t, c.Alpha, 0)
	return l.call(fnAxpy, b, uintptr(h), uintptr(c.N), alpha, uintptr(t), c.X.at(), c.X.typ(), c.X.inc(), c.Y.at(), c.Y.typ(), c.Y.inc(), uintptr(t))
}

// Scal implements [API].
func (l *Library) Scal(h RawHandle, c *VectorCall) Status {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	t := execution(c.X.Type)
	alpha, _ := b.scalars(t, c.Alpha, 0)
	return l.call(fnScal, b, uintptr(h), uintptr(c.N), alpha, uintptr(t), c.X.at(), c.X.typ(), c.X.inc(), uintptr(t))
}

// Dot implements [API].
func (l *Library) Dot(h RawHandle, c *VectorCall) Status {
	return l.toDevice(h, func() Status {
		return l.do(fnDot, uintptr(h), uintptr(c.N), c.X.at(), c.X.typ(), c.X.inc(), c.Y.at(), c.Y.typ(), c.Y.inc(),
			uintptr(c.Result), c.X.typ(), uintptr(execution(c.X.Type)))
	})
}

// Nrm2 implements [API].
func (l *Library) Nrm2(h RawHandle, c *VectorCall) Status {
	return l.toDevice(h, func() Status {
		return l.do(fnNrm2, uintptr(h), uintptr(c.N), c.X.at(), c.X.typ(), c.X.inc(), uintptr(c.Result), c.X.typ(), uintptr(execution(c.X.Type)))
	})
}

// toDevice makes a call whose scalars, the result above all, are on the device.
func (l *Library) toDevice(h RawHandle, f func() Status) Status {
	if s := l.do(fnSetPointerMode, uintptr(h), 1); s != StatusSuccess {
		return s
	}
	s := f()
	if back := l.do(fnSetPointerMode, uintptr(h), 0); s == StatusSuccess {
		s = back
	}
	return s
}

// Syrk implements [API].
func (l *Library) Syrk(h RawHandle, c *SyrkCall) Status {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	alpha, beta := b.scalars(c.A.Type, c.Alpha, c.Beta)
	return l.call(of(c.A.Type, fnSsyrk, fnDsyrk), b, uintptr(h), uintptr(c.Fill), uintptr(c.Trans), uintptr(c.N), uintptr(c.K),
		alpha, c.A.at(), c.A.ld(), beta, c.C.at(), c.C.ld())
}

// Trsm implements [API].
func (l *Library) Trsm(h RawHandle, c *TrsmCall) Status {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	alpha, _ := b.scalars(c.A.Type, c.Alpha, 0)
	return l.call(of(c.A.Type, fnStrsm, fnDtrsm), b, uintptr(h), uintptr(c.Side), uintptr(c.Fill), uintptr(c.Trans), uintptr(c.Diag),
		uintptr(c.M), uintptr(c.N), alpha, c.A.at(), c.A.ld(), c.B.at(), c.B.ld())
}
