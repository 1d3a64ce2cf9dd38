package driver

import "fmt"

// Handles of the driver. They are plain values: copying one copies no ownership,
// and the zero value is no object. Using one after it was destroyed is undefined
// in the real driver; package runtime keeps that from happening.
type (
	Device        int32   // CUdevice, usually its ordinal
	Context       uintptr // CUcontext
	Stream        uintptr // CUstream; 0 is the legacy default stream
	Event         uintptr // CUevent
	Module        uintptr // CUmodule: an image loaded into one context
	Function      uintptr // CUfunction: a kernel of a module
	linkState     uintptr // CUlinkState: a link that is under way
	KernelLibrary uintptr // CUlibrary: an image loaded for all contexts
	Kernel        uintptr // CUkernel: a kernel of a library
	Graph         uintptr // CUgraph
	GraphExec     uintptr // CUgraphExec
	GraphNode     uintptr // CUgraphNode
	MemPool       uintptr // CUmemoryPool
	Array         uintptr // CUarray
	GreenContext  uintptr // CUgreenCtx

	DevResourceDesc uintptr // CUdevResourceDesc

	MemHandle uint64 // CUmemGenericAllocationHandle: physical memory
	TexObject uint64 // CUtexObject

	// GraphConditionalHandle is a number that kernels set by cudaGraphSetConditional, and that a conditional node reads.
	GraphConditionalHandle uint64 // CUgraphConditionalHandle
)

// DevicePtr is an address in device memory (CUdeviceptr). Arithmetic on it is in
// bytes.
type DevicePtr uint64

// Function is the kernel as the launch functions take it: they accept either
// handle.
func (k Kernel) Function() Function { return Function(k) }

// Version is a CUDA version as the driver counts it: 1000*major + 10*minor.
type Version int32

func (v Version) String() string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// Dim3 is the size of a grid or a block.
type Dim3 struct{ X, Y, Z uint32 }

func (d Dim3) String() string { return fmt.Sprintf("%dx%dx%d", d.X, d.Y, d.Z) }

// UUID is the identity of a device or of a MIG instance.
type UUID [16]byte

// String gives the form that nvidia-smi and CUDA_VISIBLE_DEVICES use, without the
// prefix "GPU-" or "MIG-".
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
