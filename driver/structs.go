package driver

import (
	"structs"
	"unsafe"
)

// The structures below have the layout of C, and their tags are C's names. `go generate ./driver`
// makes testdata/abi_structs.h from them, which compares sizes and offsets with cuda.h.

// MemcpyRect describes a copy of Height rows of Bytes each (CUDA_MEMCPY2D). Each
// side lies where its Type says: SrcHost counts for MemoryHost, SrcDevice for
// MemoryDevice and MemoryUnified. Pitch is the distance of two rows in bytes.
type MemcpyRect struct {
	_         structs.HostLayout `c:"CUDA_MEMCPY2D"`
	SrcX      uint64             `c:"srcXInBytes"` // bytes into the row
	SrcY      uint64             `c:"srcY"`        // rows
	SrcType   MemoryType         `c:"srcMemoryType"`
	SrcHost   unsafe.Pointer     `c:"srcHost"`
	SrcDevice DevicePtr          `c:"srcDevice"`
	srcArray  uintptr            `c:"srcArray"`
	SrcPitch  uint64             `c:"srcPitch"`
	DstX      uint64             `c:"dstXInBytes"`
	DstY      uint64             `c:"dstY"`
	DstType   MemoryType         `c:"dstMemoryType"`
	DstHost   unsafe.Pointer     `c:"dstHost"`
	DstDevice DevicePtr          `c:"dstDevice"`
	dstArray  uintptr            `c:"dstArray"`
	DstPitch  uint64             `c:"dstPitch"`
	Bytes     uint64             `c:"WidthInBytes"`
	Height    uint64             `c:"Height"`
}

// MemLocation is a place that memory can be in (CUmemLocation).
type MemLocation struct {
	_    structs.HostLayout `c:"CUmemLocation"`
	Type MemLocationType    `c:"type"`
	ID   int32              `c:"id"` // of the device
}

// MemPoolProps describes a pool to be made (CUmemPoolProps).
type MemPoolProps struct {
	_             structs.HostLayout `c:"CUmemPoolProps"`
	AllocType     MemAllocationType  `c:"allocType"`
	HandleTypes   int32              `c:"handleTypes"` // 0: the memory is not shared with other processes
	Location      MemLocation        `c:"location"`
	win32Security unsafe.Pointer     `c:"win32SecurityAttributes"`
	MaxBytes      uint64             `c:"maxSize"` // 0: no limit of its own
	usage         uint16             `c:"usage"`
	reserved      [54]byte           `c:"reserved"`
}

// MemAccess gives a device access to memory (CUmemAccessDesc).
type MemAccess struct {
	_        structs.HostLayout `c:"CUmemAccessDesc"`
	Location MemLocation        `c:"location"`
	Flags    MemAccessFlags     `c:"flags"`
}

// GraphExecUpdateInfo says why a graph could not be updated
// (CUgraphExecUpdateResultInfo).
type GraphExecUpdateInfo struct {
	_             structs.HostLayout    `c:"CUgraphExecUpdateResultInfo"`
	Result        GraphExecUpdateResult `c:"result"`
	ErrorNode     GraphNode             `c:"errorNode"`
	ErrorFromNode GraphNode             `c:"errorFromNode"`
}

// LaunchAttribute is one attribute of a launch (CUlaunchAttribute). Make it with
// [ClusterSize], [Cooperative] or [LaunchPriority].
type LaunchAttribute struct {
	_     structs.HostLayout `c:"CUlaunchAttribute"`
	ID    LaunchAttributeID  `c:"id"`
	_     [4]byte
	value [16]uint32 `c:"value"`
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
	_              structs.HostLayout `c:"CUlaunchConfig"`
	grid           Dim3               `c:"gridDimX"`
	block          Dim3               `c:"blockDimX"`
	sharedBytes    uint32             `c:"sharedMemBytes"`
	stream         Stream             `c:"hStream"`
	attributes     *LaunchAttribute   `c:"attrs"`
	attributeCount uint32             `c:"numAttrs"`
}

// IpcMemHandle names device memory to another process of the machine.
type IpcMemHandle [64]byte

// IpcEventHandle names an event to another process of the machine.
type IpcEventHandle [64]byte
