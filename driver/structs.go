package driver

import (
	"encoding/binary"
	"structs"
	"unsafe"
)

// The structures below have the layout of C, and their tags are C's names. `go generate ./driver`
// makes testdata/abi_structs.h from them, which compares sizes and offsets with cuda.h.

// MemcpyRect describes a copy of Height rows of Bytes each (CUDA_MEMCPY2D). Each
// side lies where its Type says: SrcHost counts for MemoryHost, SrcDevice for
// MemoryDevice and MemoryUnified, SrcArray for MemoryArray. Pitch is the distance of two rows in bytes.
// An array needs none.
type MemcpyRect struct {
	_         structs.HostLayout `c:"CUDA_MEMCPY2D"`
	SrcX      uint64             `c:"srcXInBytes"` // bytes into the row
	SrcY      uint64             `c:"srcY"`        // rows
	SrcType   MemoryType         `c:"srcMemoryType"`
	SrcHost   unsafe.Pointer     `c:"srcHost"`
	SrcDevice DevicePtr          `c:"srcDevice"`
	SrcArray  Array              `c:"srcArray"`
	SrcPitch  uint64             `c:"srcPitch"`
	DstX      uint64             `c:"dstXInBytes"`
	DstY      uint64             `c:"dstY"`
	DstType   MemoryType         `c:"dstMemoryType"`
	DstHost   unsafe.Pointer     `c:"dstHost"`
	DstDevice DevicePtr          `c:"dstDevice"`
	DstArray  Array              `c:"dstArray"`
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

// MemcpyBox describes a copy of Depth slices of Height rows of Bytes each (CUDA_MEMCPY3D). A side is
// as in [MemcpyRect], or the Array that its Type MemoryArray counts. A slice has SrcHeight or DstHeight
// rows in memory; an array knows its own.
type MemcpyBox struct {
	_         structs.HostLayout `c:"CUDA_MEMCPY3D"`
	SrcX      uint64             `c:"srcXInBytes"` // bytes into the row
	SrcY      uint64             `c:"srcY"`        // rows
	SrcZ      uint64             `c:"srcZ"`        // slices
	srcLevel  uint64             `c:"srcLOD"`
	SrcType   MemoryType         `c:"srcMemoryType"`
	SrcHost   unsafe.Pointer     `c:"srcHost"`
	SrcDevice DevicePtr          `c:"srcDevice"`
	SrcArray  Array              `c:"srcArray"`
	reserved0 uintptr            `c:"reserved0"`
	SrcPitch  uint64             `c:"srcPitch"`
	SrcHeight uint64             `c:"srcHeight"`
	DstX      uint64             `c:"dstXInBytes"`
	DstY      uint64             `c:"dstY"`
	DstZ      uint64             `c:"dstZ"`
	dstLevel  uint64             `c:"dstLOD"`
	DstType   MemoryType         `c:"dstMemoryType"`
	DstHost   unsafe.Pointer     `c:"dstHost"`
	DstDevice DevicePtr          `c:"dstDevice"`
	DstArray  Array              `c:"dstArray"`
	reserved1 uintptr            `c:"reserved1"`
	DstPitch  uint64             `c:"dstPitch"`
	DstHeight uint64             `c:"dstHeight"`
	Bytes     uint64             `c:"WidthInBytes"`
	Height    uint64             `c:"Height"`
	Depth     uint64             `c:"Depth"`
}

// ArrayDescriptor describes an array of one or two dimensions (CUDA_ARRAY_DESCRIPTOR). A Height of 0
// is one dimension.
type ArrayDescriptor struct {
	_        structs.HostLayout `c:"CUDA_ARRAY_DESCRIPTOR"`
	Width    uint64             `c:"Width"` // elements
	Height   uint64             `c:"Height"`
	Format   ArrayFormat        `c:"Format"`
	Channels uint32             `c:"NumChannels"` // of an element: 1, 2 or 4
}

// Array3DDescriptor describes an array of up to three dimensions (CUDA_ARRAY3D_DESCRIPTOR).
type Array3DDescriptor struct {
	_        structs.HostLayout `c:"CUDA_ARRAY3D_DESCRIPTOR"`
	Width    uint64             `c:"Width"` // elements
	Height   uint64             `c:"Height"`
	Depth    uint64             `c:"Depth"`
	Format   ArrayFormat        `c:"Format"`
	Channels uint32             `c:"NumChannels"` // of an element: 1, 2 or 4
	Flags    uint32             `c:"Flags"`
}

// MemAllocationProps describes memory to be made (CUmemAllocationProp).
type MemAllocationProps struct {
	_             structs.HostLayout `c:"CUmemAllocationProp"`
	Type          MemAllocationType  `c:"type"`
	HandleTypes   MemHandleType      `c:"requestedHandleTypes"` // 0: the memory is not shared with other processes
	Location      MemLocation        `c:"location"`
	win32Metadata uintptr            `c:"win32HandleMetaData"`
	compression   uint8              `c:"allocFlags.compressionType"`
	RDMA          uint8              `c:"allocFlags.gpuDirectRDMACapable"` // 1: other devices on the bus may access it
	usage         uint16             `c:"allocFlags.usage"`
	reserved      [4]byte            `c:"allocFlags.reserved"`
}

// ResourceDesc says what memory a texture reads (CUDA_RESOURCE_DESC). Make it with [ArrayResource],
// [LinearResource] or [PitchResource].
type ResourceDesc struct {
	_        structs.HostLayout `c:"CUDA_RESOURCE_DESC"`
	Type     ResourceType       `c:"resType"`
	memory   uint64             `c:"res.linear.devPtr"` // or an array
	format   ArrayFormat        `c:"res.linear.format"`
	channels uint32             `c:"res.linear.numChannels"`
	width    uint64             `c:"res.pitch2D.width"` // bytes, of linear memory
	height   uint64             `c:"res.pitch2D.height"`
	pitch    uint64             `c:"res.pitch2D.pitchInBytes"`
	reserved [11]uint64         `c:"res.reserved.reserved[10]"`
	flags    uint32             `c:"flags"`
}

// ArrayResource is the memory of an array.
func ArrayResource(array Array) ResourceDesc {
	return ResourceDesc{Type: ResourceArray, memory: uint64(array)}
}

// LinearResource is device memory without rows.
func LinearResource(ptr DevicePtr, format ArrayFormat, channels uint32, bytes uint64) ResourceDesc {
	return ResourceDesc{Type: ResourceLinear, memory: uint64(ptr), format: format, channels: channels, width: bytes}
}

// PitchResource is device memory in height rows of width elements. Pitch is the distance of two rows
// in bytes.
func PitchResource(ptr DevicePtr, format ArrayFormat, channels uint32, width, height, pitch uint64) ResourceDesc {
	return ResourceDesc{Type: ResourcePitch2D, memory: uint64(ptr), format: format, channels: channels,
		width: width, height: height, pitch: pitch}
}

// TextureDesc says how a texture reads its memory (CUDA_TEXTURE_DESC).
type TextureDesc struct {
	_                structs.HostLayout `c:"CUDA_TEXTURE_DESC"`
	AddressMode      [3]AddressMode     `c:"addressMode"`
	FilterMode       FilterMode         `c:"filterMode"`
	Flags            uint32             `c:"flags"`
	MaxAnisotropy    uint32             `c:"maxAnisotropy"`
	MipmapFilterMode FilterMode         `c:"mipmapFilterMode"`
	MipmapBias       float32            `c:"mipmapLevelBias"`
	MinMipmapLevel   float32            `c:"minMipmapLevelClamp"`
	MaxMipmapLevel   float32            `c:"maxMipmapLevelClamp"`
	BorderColor      [4]float32         `c:"borderColor"`
	reserved         [12]int32          `c:"reserved"`
}

// ResourceViewDesc says how a texture sees an array (CUDA_RESOURCE_VIEW_DESC).
type ResourceViewDesc struct {
	_           structs.HostLayout `c:"CUDA_RESOURCE_VIEW_DESC"`
	Format      int32              `c:"format"` // CUresourceViewFormat
	Width       uint64             `c:"width"`
	Height      uint64             `c:"height"`
	Depth       uint64             `c:"depth"`
	FirstMipmap uint32             `c:"firstMipmapLevel"`
	LastMipmap  uint32             `c:"lastMipmapLevel"`
	FirstLayer  uint32             `c:"firstLayer"`
	LastLayer   uint32             `c:"lastLayer"`
	reserved    [16]uint32         `c:"reserved"`
}

// TensorMap tells the copy engine of a multiprocessor about a tensor (CUtensorMap). A kernel takes it
// as a parameter.
type TensorMap [16]uint64

// TensorTiles describes a tensor that is copied in tiles. The first dimension is the innermost.
type TensorTiles struct {
	Type           TensorDataType
	Base           DevicePtr
	Dims           []uint64 // elements, one to five dimensions
	Strides        []uint64 // bytes, of all dimensions but the first
	Box            []uint32 // elements of a tile
	ElementStrides []uint32
	Interleave     TensorInterleave
	Swizzle        TensorSwizzle
	L2Promotion    TensorL2Promotion
	Fill           TensorFill
}

// DevResource is a part of a device that a green context can have (CUdevResource). The driver makes it
// and keeps notes in it: copy it whole.
type DevResource struct {
	_        structs.HostLayout `c:"CUdevResource" since:"12040"`
	Type     DevResourceType    `c:"type"`
	internal [92]byte           `c:"_internal_padding"`
	SMs      uint32             `c:"sm.smCount"` // multiprocessors
	rest     [44]byte           `c:"_oversize[4]"`
}

// CheckpointLockArgs says how a process is locked (CUcheckpointLockArgs).
type CheckpointLockArgs struct {
	_         structs.HostLayout `c:"CUcheckpointLockArgs" since:"12080"`
	TimeoutMs uint32             `c:"timeoutMs"` // 0: no limit
	reserved0 uint32             `c:"reserved0"`
	reserved1 [7]uint64          `c:"reserved1"`
}

// CheckpointRestoreArgs says where a process goes on (CUcheckpointRestoreArgs). From CUDA 13.0 on, each
// GPU can be replaced: GPUPairs points to Count of them.
type CheckpointRestoreArgs struct {
	_         structs.HostLayout `c:"CUcheckpointRestoreArgs" since:"12080"`
	GPUPairs  *CheckpointGPUPair `c:"gpuPairs" since:"13000"`
	Count     uint32             `c:"gpuPairsCount" since:"13000"`
	reserved  [44]byte           `c:"reserved" since:"13000"`
	reserved1 uint64             `c:"reserved1" since:"13000"`
}

// CheckpointGPUPair names a GPU and the one that replaces it (CUcheckpointGpuPair).
type CheckpointGPUPair struct {
	_   structs.HostLayout `c:"CUcheckpointGpuPair" since:"13000"`
	Old UUID               `c:"oldUuid"`
	New UUID               `c:"newUuid"`
}

// kernelNodeParams is CUDA_KERNEL_NODE_PARAMS.
type kernelNodeParams struct {
	_           structs.HostLayout `c:"CUDA_KERNEL_NODE_PARAMS_v2"`
	function    Function           `c:"func"`
	grid        Dim3               `c:"gridDimX"`
	block       Dim3               `c:"blockDimX"`
	sharedBytes uint32             `c:"sharedMemBytes"`
	params      *unsafe.Pointer    `c:"kernelParams"`
	extra       *unsafe.Pointer    `c:"extra"`
	kernel      Kernel             `c:"kern"`
	context     Context            `c:"ctx"`
}

// graphNodeParams is CUgraphNodeParams of a conditional node. The driver replaces the address of the bodies by one of its own.
type graphNodeParams struct {
	_           structs.HostLayout     `c:"CUgraphNodeParams" since:"12030"`
	kind        GraphNodeType          `c:"type"`
	_           [12]byte               // CUDA wants 0 in all that is not used
	handle      GraphConditionalHandle `c:"conditional.handle"`
	conditional GraphConditionalType   `c:"conditional.type"`
	size        uint32                 `c:"conditional.size"`
	bodies      *Graph                 `c:"conditional.phGraph_out"`
	context     Context                `c:"conditional.ctx"`
	_           [208]byte
}

// ShareableHandle names memory of MemCreate to another process, in the form of its [MemHandleType].
type ShareableHandle [64]byte

// FD is the file descriptor, if the form is MemHandlePosixFD. Its owner closes it.
func (h ShareableHandle) FD() int { return int(int32(binary.NativeEndian.Uint32(h[:]))) }
