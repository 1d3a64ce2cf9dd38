package cusolver

import (
	"strconv"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/libs/cublas"
)

// RawHandle is a cusolverDnHandle_t with a cusolverDnParams_t. It belongs to the context that was current when it was made.
type RawHandle struct{ Handle, Params uintptr }

// API is cuSOLVER as this package calls it: [*Library] is the real one, and package cusolvertest has one that is
// simulated. A function that this cuSOLVER lacks returns [StatusSymbolMissing].
//
// No two methods may run at the same time with one handle. All but Version need the context of the handle
// current. https://docs.nvidia.com/cuda/cusolver
type API interface {
	// Version returns the version of cuSOLVER: major, minor, patch; 0 where it is not known.
	Version() [3]int
	// Create makes a handle, which Destroy frees.
	Create() (RawHandle, Status)
	Destroy(h RawHandle) Status
	SetStream(h RawHandle, s driver.Stream) Status
	// Workspace returns the bytes that a call needs on the device and on the host.
	Workspace(h RawHandle, c *Call) (device, host uint64, s Status)
	// Run puts a call on the stream of the handle. It may wait for the device.
	Run(h RawHandle, c *Call) Status
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
)

// String is the function of cuSOLVER.
func (r Routine) String() string {
	switch {
	case r == Ormqr:
		return "cusolverDnOrmqr" // it is Sormqr or Dormqr
	case r < 0 || int(r) >= len(calls):
		return "routine " + strconv.Itoa(int(r))
	}
	return functions[calls[r].run]
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
