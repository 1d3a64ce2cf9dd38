package cusolver

import (
	"strconv"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas"
)

// RawHandle is a cusolverDnHandle_t with a cusolverDnParams_t. It belongs to the context that was current when it was made.
type RawHandle struct{ Handle, Params uintptr }

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
)

// runs are the functions of the routines.
var runs = [...]function{Potrf: fnXpotrf, Potrs: fnXpotrs, Getrf: fnXgetrf, Getrs: fnXgetrs, Geqrf: fnXgeqrf, Ormqr: fnDormqr, Syevd: fnXsyevd, Gesvd: fnXgesvd}

// String is the function of cuSOLVER.
func (r Routine) String() string {
	switch {
	case r == Ormqr:
		return "cusolverDnOrmqr" // it is Sormqr or Dormqr
	case r < 0 || int(r) >= len(runs):
		return "routine " + strconv.Itoa(int(r))
	}
	return functions[runs[r]]
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
	if h.Params, s = l.createParams(); s != StatusSuccess {
		l.destroy(h.Handle)
		return RawHandle{}, s
	}
	return h, StatusSuccess
}

// Destroy implements [API].
func (l *Library) Destroy(h RawHandle) Status {
	return max(l.destroyParams(h.Params), l.destroy(h.Handle))
}

// SetStream implements [API].
func (l *Library) SetStream(h RawHandle, s driver.Stream) Status { return l.setStream(h.Handle, s) }

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
	switch c.Routine {
	case Potrf:
		return l.potrfSize(h.Handle, h.Params, c.Fill, c.N, t, a.At, a.LD, t)
	case Potrs, Getrs:
		return 0, 0, StatusSuccess
	case Getrf:
		return l.getrfSize(h.Handle, h.Params, c.M, c.N, t, a.At, a.LD, t)
	case Geqrf:
		return l.geqrfSize(h.Handle, h.Params, c.M, c.N, t, a.At, a.LD, t, c.Vector, t)
	case Ormqr:
		size := l.sormqrSize
		if t == cublas.TypeFloat64 {
			size = l.dormqrSize
		}
		elements, s := size(h.Handle, c.Side, c.Trans, int32(c.M), int32(c.N), int32(c.K), a.At, int32(a.LD), c.Vector, b.At, int32(b.LD))
		return uint64(elements) * c.element(), 0, s
	case Syevd:
		return l.syevdSize(h.Handle, h.Params, c.vectors(), c.Fill, c.N, t, a.At, a.LD, t, c.Vector, t)
	case Gesvd:
		return l.gesvdSize(h.Handle, h.Params, c.JobU, c.JobVT, c.M, c.N, t, a.At, a.LD, t, c.Vector, t, c.U.At, c.U.LD, t, c.VT.At, c.VT.LD, t)
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
		run := l.sormqr
		if t == cublas.TypeFloat64 {
			run = l.dormqr
		}
		return run(h.Handle, c.Side, c.Trans, int32(c.M), int32(c.N), int32(c.K), a.At, int32(a.LD), c.Vector, b.At, int32(b.LD),
			c.Device, int32(c.DeviceBytes/c.element()), c.Info)
	case Syevd:
		return l.syevd(h.Handle, h.Params, c.vectors(), c.Fill, c.N, t, a.At, a.LD, t, c.Vector, t, c.Device, c.DeviceBytes, c.Host, c.HostBytes, c.Info)
	case Gesvd:
		return l.gesvd(h.Handle, h.Params, c.JobU, c.JobVT, c.M, c.N, t, a.At, a.LD, t, c.Vector, t, c.U.At, c.U.LD, t, c.VT.At, c.VT.LD, t,
			c.Device, c.DeviceBytes, c.Host, c.HostBytes, c.Info)
	}
	return StatusInvalidValue
}
