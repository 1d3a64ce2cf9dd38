package nccl

import "github.com/purecuda/purecuda/driver"

// RawComm is an ncclComm_t: one rank of a communicator.
type RawComm uintptr

// ID is an ncclUniqueId. All processes that make a communicator have the same one.
type ID [128]byte

// API is NCCL as this package calls it: [*Library] is the real one, and package nccltest has one that is
// simulated. https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/api.html
//
// A group belongs to the thread that has begun it. No two calls may run at the same time with one communicator.
type API interface {
	// Version returns the version of NCCL: major, minor, patch; 0 where it is not known.
	Version() [3]int
	// UniqueID is ncclGetUniqueId. The process that calls it answers the others while they come.
	UniqueID() (ID, Status)
	// GroupStart and GroupEnd enclose calls of a thread that belong together.
	GroupStart() Status
	GroupEnd() Status
	// InitRank is ncclCommInitRankConfig for the device whose context is current. Without blocking it and later calls may
	// return [StatusInProgress]: then AsyncError tells when they are done. *comm is written until then.
	InitRank(comm *RawComm, size int, id *ID, rank int, blocking bool) Status
	// Run puts an operation on a stream.
	Run(c RawComm, s driver.Stream, call *Call) Status
	// AsyncError tells how the communicator is: [StatusInProgress] while a call goes on.
	AsyncError(c RawComm) (state, s Status)
	// LastError is what NCCL says about the last error, or "".
	LastError(c RawComm) string
	// Finalize waits for the work of all ranks. Destroy follows it and frees the communicator, and so does Abort at any time, which
	// also ends the work.
	Finalize(c RawComm) Status
	Destroy(c RawComm) Status
	Abort(c RawComm) Status
}

// Kind is a function of NCCL that puts work on a stream.
type Kind int

// The kinds.
const (
	KindAllReduce Kind = iota
	KindBroadcast
	KindReduce
	KindAllGather
	KindReduceScatter
	KindSend
	KindRecv
)

var kinds = [...]string{"ncclAllReduce", "ncclBroadcast", "ncclReduce", "ncclAllGather", "ncclReduceScatter", "ncclSend", "ncclRecv"}

func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return "no function"
	}
	return kinds[k]
}

// Op is an ncclRedOp_t: how the elements of the ranks become one.
type Op int32

// The operators. The average of integers is rounded towards 0.
const (
	Sum  Op = 0
	Prod Op = 1
	Max  Op = 2
	Min  Op = 3
	Avg  Op = 4
)

// DataType is an ncclDataType_t.
type DataType int32

// The types of elements.
const (
	TypeInt8     DataType = 0
	TypeUint8    DataType = 1
	TypeInt32    DataType = 2
	TypeUint32   DataType = 3
	TypeInt64    DataType = 4
	TypeUint64   DataType = 5
	TypeFloat16  DataType = 6
	TypeFloat32  DataType = 7
	TypeFloat64  DataType = 8
	TypeBFloat16 DataType = 9
)

// Call has the arguments of a function that puts work on a stream.
type Call struct {
	Kind       Kind
	Send, Recv driver.DevicePtr // 0 where the kind has none
	// Count is that of the elements: of Send for all but ReduceScatter and Recv, and of Recv for those.
	Count uint64
	Type  DataType
	Op    Op
	// Peer is the root of Broadcast and Reduce, and the other rank of Send and Recv.
	Peer int32
}
