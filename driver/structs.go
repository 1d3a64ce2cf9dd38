package driver

import (
	"structs"
	"unsafe"
)

// The structures below have the layout of C. testdata/abi_check.c compares their
// sizes and offsets with cuda.h.

// MemcpyRect describes a copy of Height rows of Bytes each (CUDA_MEMCPY2D). Each
// side lies where its Type says: SrcHost counts for MemoryHost, SrcDevice for
// MemoryDevice and MemoryUnified. Pitch is the distance of two rows in bytes.
type MemcpyRect struct {
	_         structs.HostLayout
	SrcX      uint64 // bytes into the row
	SrcY      uint64 // rows
	SrcType   MemoryType
	SrcHost   unsafe.Pointer
	SrcDevice DevicePtr
	srcArray  uintptr
	SrcPitch  uint64
	DstX      uint64
	DstY      uint64
	DstType   MemoryType
	DstHost   unsafe.Pointer
	DstDevice DevicePtr
	dstArray  uintptr
	DstPitch  uint64
	Bytes     uint64
	Height    uint64
}

// MemLocation is a place that memory can be in (CUmemLocation).
type MemLocation struct {
	_    structs.HostLayout
	Type MemLocationType
	ID   int32 // of the device
}

// MemPoolProps describes a pool to be made (CUmemPoolProps).
type MemPoolProps struct {
	_             structs.HostLayout
	AllocType     MemAllocationType
	HandleTypes   int32 // 0: the memory is not shared with other processes
	Location      MemLocation
	win32Security unsafe.Pointer
	MaxBytes      uint64 // 0: no limit of its own
	usage         uint16
	reserved      [54]byte
}

// MemAccess gives a device access to memory (CUmemAccessDesc).
type MemAccess struct {
	_        structs.HostLayout
	Location MemLocation
	Flags    MemAccessFlags
}

// GraphExecUpdateInfo says why a graph could not be updated
// (CUgraphExecUpdateResultInfo).
type GraphExecUpdateInfo struct {
	_             structs.HostLayout
	Result        GraphExecUpdateResult
	ErrorNode     GraphNode
	ErrorFromNode GraphNode
}

// LaunchAttribute is one attribute of a launch (CUlaunchAttribute). Make it with
// [ClusterSize], [Cooperative] or [LaunchPriority].
type LaunchAttribute struct {
	_     structs.HostLayout
	ID    LaunchAttributeID
	_     [4]byte
	value [16]uint32
}

// ClusterSize makes blocks launch in clusters of this size, which must divide the
// grid.
func ClusterSize(size Dim3) LaunchAttribute {
	return LaunchAttribute{ID: LaunchAttributeClusterDimension, value: [16]uint32{size.X, size.Y, size.Z}}
}

// Cooperative makes all blocks of the grid resident at once.
func Cooperative() LaunchAttribute {
	return LaunchAttribute{ID: LaunchAttributeCooperative, value: [16]uint32{1}}
}

// LaunchPriority gives the launch a priority other than its stream's.
func LaunchPriority(priority int32) LaunchAttribute {
	return LaunchAttribute{ID: LaunchAttributePriority, value: [16]uint32{uint32(priority)}}
}

// Cluster returns the size that [ClusterSize] was made with.
func (a LaunchAttribute) Cluster() Dim3 { return Dim3{a.value[0], a.value[1], a.value[2]} }

// launchConfig is CUlaunchConfig.
type launchConfig struct {
	_              structs.HostLayout
	grid, block    Dim3
	sharedBytes    uint32
	stream         Stream
	attributes     *LaunchAttribute
	attributeCount uint32
}

// IpcMemHandle names device memory to another process of the machine.
type IpcMemHandle [64]byte

// IpcEventHandle names an event to another process of the machine.
type IpcEventHandle [64]byte
