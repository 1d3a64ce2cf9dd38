package cusolver

import (
	"strconv"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas"
)

// RawHandle is a cusolverDnHandle_t with what its calls need beside it. It belongs to the context that was current when it was made.
type RawHandle struct {
	Handle, Params uintptr
	Jacobi         uintptr // a syevjInfo_t
	BLAS           uintptr // a cublasHandle_t, or 0 where cuSOLVER was opened without its cuBLAS
}

// Routine is one of LAPACK.
type Routine int32

// The routines, and the fields of a [Call] that they read beside Type, A, Info and the workspace.
const (
	Potrf Routine = iota // Fill, N
	Potrs                // Fill, N, K right-hand sides in B
	Getrf                // M, N, Vector for the pivots: int64, from 1 on
	Getrs                // Trans, N, K right-hand sides in B, Vector with the pivots
	Geqrf                // M, N, Vector for the factors of the reflectors
	Ormqr                // Side, Trans, B with M rows and N columns, K reflectors, Vector with their factors
	Syevd                // Vectors, Fill, N, Vector for the eigenvalues
	Gesvd                // JobU, JobVT, M, N, at most M, U, VT, Vector for the singular values

	// Of Batch matrices each. A and B are the addresses of as many addresses, and Info is that of as many int32.
	PotrfBatched // Fill, N
	PotrsBatched // Fill, N, one right-hand side in B; one Info for all
	GetrfBatched // N, Vector for the pivots: N int32 of each, from 1 on
	GetrsBatched // Trans, N, K right-hand sides in B, Vector with the pivots; no Info
	GetriBatched // N, Vector with the pivots, B for the inverses
	GelsBatched  // M, at least N, K right-hand sides in B
	SyevjBatched // Vectors, Fill, N, Vector for the eigenvalues; A is the matrices, one after the other
)

// routineNames are the functions of the routines, without S and D for the type where there are two.
var routineNames = [...]string{Potrf: "cusolverDnXpotrf", Potrs: "cusolverDnXpotrs", Getrf: "cusolverDnXgetrf", Getrs: "cusolverDnXgetrs",
	Geqrf: "cusolverDnXgeqrf", Ormqr: "cusolverDnOrmqr", Syevd: "cusolverDnXsyevd", Gesvd: "cusolverDnXgesvd",
	PotrfBatched: "cusolverDnPotrfBatched", PotrsBatched: "cusolverDnPotrsBatched", GetrfBatched: "cublasGetrfBatched",
	GetrsBatched: "cublasGetrsBatched", GetriBatched: "cublasGetriBatched", GelsBatched: "cublasGelsBatched", SyevjBatched: "cusolverDnSyevjBatched"}

// String is the function of cuSOLVER, or of its cuBLAS.
func (r Routine) String() string {
	if r < 0 || int(r) >= len(routineNames) {
		return "routine " + strconv.Itoa(int(r))
	}
	return routineNames[r]
}

// works tells whether a routine has a workspace.
func (r Routine) works() bool {
	switch r {
	case Potrs, Getrs, PotrfBatched, PotrsBatched, GetrfBatched, GetrsBatched, GetriBatched, GelsBatched:
		return false
	}
	return true
}

// Job says which singular vectors are computed.
type Job byte

// The jobs.
const (
	None Job = 'N'
	Thin Job = 'S' // one for each singular value
	All  Job = 'A'
)

// Operand is a column-major matrix in device memory.
type Operand struct {
	At driver.DevicePtr
	LD int64 // elements from one column to the next
}

// Call is a routine with its arguments.
type Call struct {
	Routine     Routine
	Type        cublas.DataType // of all elements: TypeFloat32 or TypeFloat64
	Fill        cublas.Fill
	Trans       cublas.Operation
	Side        cublas.Side
	Vectors     bool
	JobU, JobVT Job
	M, N, K     int64
	Batch       int64
	A, B        Operand
	U, VT       Operand
	Vector      driver.DevicePtr
	// Info is the address of the int32 that tells how it went.
	Info driver.DevicePtr
	// The workspaces. What is on the host is page-locked memory.
	Device      driver.DevicePtr
	DeviceBytes uint64
	Host        unsafe.Pointer
	HostBytes   uint64
}

// Create implements [API].
func (l *Library) Create() (h RawHandle, s Status) {
	if h.Handle, s = l.create(); s != StatusSuccess {
		return RawHandle{}, s
	}
	for _, make := range []struct {
		f  func() (uintptr, Status)
		to *uintptr
	}{{l.createParams, &h.Params}, {l.createJacobi, &h.Jacobi}, {l.createBLAS, &h.BLAS}} {
		part, s := make.f()
		if s != StatusSuccess {
			l.Destroy(h)
			return RawHandle{}, s
		}
		*make.to = part
	}
	return h, StatusSuccess
}

// createBLAS makes a handle of cuBLAS, where that is there.
func (l *Library) createBLAS() (uintptr, Status) {
	h, s := l.blasCreate()
	if s == StatusSymbolMissing {
		return 0, StatusSuccess
	}
	return h, ofBLAS(s)
}

// ofBLAS is the status for one of cuBLAS, whose numbers are others.
func ofBLAS(s Status) Status {
	switch {
	case s <= StatusNotInitialized:
		return s
	case s == Status(cublas.StatusAllocFailed):
		return StatusAllocFailed
	case s == Status(cublas.StatusInvalidValue):
		return StatusInvalidValue
	case s == Status(cublas.StatusArchMismatch):
		return StatusArchMismatch
	case s == Status(cublas.StatusMappingError):
		return StatusMappingError
	case s == Status(cublas.StatusExecutionFailed):
		return StatusExecutionFailed
	case s == Status(cublas.StatusNotSupported):
		return StatusNotSupported
	}
	return StatusInternalError
}

// Destroy implements [API].
func (l *Library) Destroy(h RawHandle) (s Status) {
	for _, part := range []struct {
		f func(uintptr) Status
		h uintptr
	}{{l.blasDestroy, h.BLAS}, {l.destroyJacobi, h.Jacobi}, {l.destroyParams, h.Params}, {l.destroy, h.Handle}} {
		if part.h != 0 {
			if failed := part.f(part.h); failed != StatusSuccess {
				s = failed
			}
		}
	}
	return s
}

// SetStream implements [API].
func (l *Library) SetStream(h RawHandle, s driver.Stream) Status {
	if status := l.setStream(h.Handle, s); status != StatusSuccess || h.BLAS == 0 {
		return status
	}
	return ofBLAS(l.blasStream(h.BLAS, s))
}

// element is the size of an element, or 0 of a type that no routine takes.
func (c *Call) element() uint64 {
	switch c.Type {
	case cublas.TypeFloat32:
		return 4
	case cublas.TypeFloat64:
		return 8
	}
	return 0
}

// vectors is the cusolverEigMode_t.
func (c *Call) vectors() int32 {
	if c.Vectors {
		return 1
	}
	return 0
}

// Workspace implements [API].
func (l *Library) Workspace(h RawHandle, c *Call) (device, host uint64, s Status) {
	t, a, b := c.Type, c.A, c.B
	if c.element() == 0 {
		return 0, 0, StatusInvalidValue
	}
	if !c.Routine.works() {
		return 0, 0, StatusSuccess
	}
	switch c.Routine {
	case Potrf:
		return l.potrfSize(h.Handle, h.Params, c.Fill, c.N, t, a.At, a.LD, t)
	case Getrf:
		return l.getrfSize(h.Handle, h.Params, c.M, c.N, t, a.At, a.LD, t)
	case Geqrf:
		return l.geqrfSize(h.Handle, h.Params, c.M, c.N, t, a.At, a.LD, t, c.Vector, t)
	case Ormqr:
		elements, s := either(c, l.sormqrSize, l.dormqrSize)(h.Handle, c.Side, c.Trans, int32(c.M), int32(c.N), int32(c.K), a.At, int32(a.LD), c.Vector, b.At, int32(b.LD))
		return uint64(elements) * c.element(), 0, s
	case Syevd:
		return l.syevdSize(h.Handle, h.Params, c.vectors(), c.Fill, c.N, t, a.At, a.LD, t, c.Vector, t)
	case Gesvd:
		return l.gesvdSize(h.Handle, h.Params, c.JobU, c.JobVT, c.M, c.N, t, a.At, a.LD, t, c.Vector, t, c.U.At, c.U.LD, t, c.VT.At, c.VT.LD, t)
	case SyevjBatched:
		elements, s := either(c, l.ssyevjSize, l.dsyevjSize)(h.Handle, c.vectors(), c.Fill, int32(c.N), a.At, int32(a.LD), c.Vector, h.Jacobi, int32(c.Batch))
		return uint64(elements) * c.element(), 0, s
	}
	return 0, 0, StatusInvalidValue
}

// Run implements [API].
func (l *Library) Run(h RawHandle, c *Call) Status {
	t, a, b := c.Type, c.A, c.B
	if c.element() == 0 {
		return StatusInvalidValue
	}
	switch c.Routine {
	case Potrf:
		return l.potrf(h.Handle, h.Params, c.Fill, c.N, t, a.At, a.LD, t, c.Device, c.DeviceBytes, c.Host, c.HostBytes, c.Info)
	case Potrs:
		return l.potrs(h.Handle, h.Params, c.Fill, c.N, c.K, t, a.At, a.LD, t, b.At, b.LD, c.Info)
	case Getrf:
		return l.getrf(h.Handle, h.Params, c.M, c.N, t, a.At, a.LD, c.Vector, t, c.Device, c.DeviceBytes, c.Host, c.HostBytes, c.Info)
	case Getrs:
		return l.getrs(h.Handle, h.Params, c.Trans, c.N, c.K, t, a.At, a.LD, c.Vector, t, b.At, b.LD, c.Info)
	case Geqrf:
		return l.geqrf(h.Handle, h.Params, c.M, c.N, t, a.At, a.LD, t, c.Vector, t, c.Device, c.DeviceBytes, c.Host, c.HostBytes, c.Info)
	case Ormqr:
		return either(c, l.sormqr, l.dormqr)(h.Handle, c.Side, c.Trans, int32(c.M), int32(c.N), int32(c.K), a.At, int32(a.LD), c.Vector, b.At, int32(b.LD),
			c.Device, int32(c.DeviceBytes/c.element()), c.Info)
	case Syevd:
		return l.syevd(h.Handle, h.Params, c.vectors(), c.Fill, c.N, t, a.At, a.LD, t, c.Vector, t, c.Device, c.DeviceBytes, c.Host, c.HostBytes, c.Info)
	case Gesvd:
		return l.gesvd(h.Handle, h.Params, c.JobU, c.JobVT, c.M, c.N, t, a.At, a.LD, t, c.Vector, t, c.U.At, c.U.LD, t, c.VT.At, c.VT.LD, t,
			c.Device, c.DeviceBytes, c.Host, c.HostBytes, c.Info)
	}
	return l.runBatch(h, c)
}

// either is the function for the type of a call.
func either[F any](c *Call, single, double F) F {
	if c.Type == cublas.TypeFloat64 {
		return double
	}
	return single
}

// runBatch is Run for many matrices.
func (l *Library) runBatch(h RawHandle, c *Call) Status {
	a, b, lda, ldb := c.A.At, c.B.At, int32(c.A.LD), int32(c.B.LD)
	m, n, k, batch := int32(c.M), int32(c.N), int32(c.K), int32(c.Batch)
	switch c.Routine {
	case PotrfBatched:
		return either(c, l.spotrfBatched, l.dpotrfBatched)(h.Handle, c.Fill, n, a, lda, c.Info, batch)
	case PotrsBatched:
		return either(c, l.spotrsBatched, l.dpotrsBatched)(h.Handle, c.Fill, n, 1, a, lda, b, ldb, c.Info, batch)
	case SyevjBatched:
		return either(c, l.ssyevjBatched, l.dsyevjBatched)(h.Handle, c.vectors(), c.Fill, n, a, lda, c.Vector, c.Device, int32(c.DeviceBytes/c.element()),
			c.Info, h.Jacobi, batch)
	case GetrfBatched, GetrsBatched, GetriBatched, GelsBatched:
		if h.BLAS == 0 {
			return StatusSymbolMissing
		}
	}
	info, s := int32(0), StatusInvalidValue
	switch c.Routine {
	case GetrfBatched:
		s = either(c, l.sgetrfBatched, l.dgetrfBatched)(h.BLAS, n, a, lda, c.Vector, c.Info, batch)
	case GetrsBatched:
		info, s = either(c, l.sgetrsBatched, l.dgetrsBatched)(h.BLAS, c.Trans, n, k, a, lda, c.Vector, b, ldb, batch)
	case GetriBatched:
		s = either(c, l.sgetriBatched, l.dgetriBatched)(h.BLAS, n, a, lda, c.Vector, b, ldb, c.Info, batch)
	case GelsBatched:
		info, s = either(c, l.sgelsBatched, l.dgelsBatched)(h.BLAS, cublas.NoTranspose, m, n, k, a, lda, b, ldb, c.Info, batch)
	default:
		return StatusInvalidValue
	}
	if s == StatusSuccess && info != 0 { // on the host: an argument
		return StatusInvalidValue
	}
	return ofBLAS(s)
}
