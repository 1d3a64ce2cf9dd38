package nccl

import (
	goruntime "runtime"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ffi"
)

// ID is an ncclUniqueId. All processes that make a communicator have the same one.
type ID [128]byte

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

func (k Kind) String() string {
	if k < KindAllReduce || k > KindRecv {
		return "no function"
	}
	return functions[fnAllReduce+function(k)]
}

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

// failed is the error of a function that did not succeed, or nil. c is 0 where there is no communicator.
func failed(api API, c RawComm, function string, s Status) error {
	if s == StatusSuccess || s == StatusInProgress {
		return nil
	}
	detail := ""
	if text := api.LastError(c); text != "" {
		detail = ": " + text
	}
	e := driver.Errorf(driver.ErrDriverCallFailed, "%w%s", s, detail)
	e.Op = function
	return e
}

// UniqueID implements [API].
func (l *Library) UniqueID() (ID, Status) {
	id, s := l.uniqueID()
	if s == StatusSuccess && id == (ID{}) {
		s = StatusImpossibleValue
	}
	return id, s
}

// config is the ncclConfig_t of NCCL 2.14, which later versions fill up with their own defaults.
type config struct {
	size           uint64
	magic, version uint32
	blocking, _    int32
}

// joining is the argument block of ncclCommInitRankConfig, and what it points to. It is on the heap: words that are addresses of it
// stay true. NCCL copies the id and the configuration, and writes *comm after the call as well.
type joining struct {
	ffi.Frame
	words  [ffi.MaxWords]uintptr
	id     ID
	config config
	comm   *RawComm // what is referred to from here is on the heap as well
}

// InitRank implements [API]. The id goes by value. On amd64 a structure of that size lies on the stack, which begins behind the six words
// of the registers; the other processors take the address of a copy.
func (l *Library) InitRank(comm *RawComm, size int, id *ID, rank int, blocking bool) Status {
	b := &joining{id: *id, comm: comm, config: config{size: uint64(unsafe.Sizeof(config{})), magic: 0xcafebeef, version: 21400}}
	if blocking {
		b.config.blocking = 1
	}
	defer goruntime.KeepAlive(b)
	out, options := uintptr(unsafe.Pointer(comm)), uintptr(unsafe.Pointer(&b.config))
	const registers, word = 6, int(unsafe.Sizeof(uintptr(0)))
	words := registers + len(b.id)/word
	if goruntime.GOARCH == "amd64" {
		copy(b.words[:], []uintptr{out, uintptr(size), uintptr(rank), options})
		copy(b.words[registers:], unsafe.Slice((*uintptr)(unsafe.Pointer(&b.id)), len(b.id)/word))
	} else {
		words = copy(b.words[:], []uintptr{out, uintptr(size), uintptr(unsafe.Pointer(&b.id)), uintptr(rank), options})
	}
	return l.call(fnCommInitRankConfig, &b.Frame, words)
}

// Run implements [API].
func (l *Library) Run(c RawComm, s driver.Stream, k *Call) Status {
	switch k.Kind {
	case KindAllReduce:
		return l.allReduce(k.Send, k.Recv, k.Count, k.Type, k.Op, c, s)
	case KindBroadcast:
		return l.broadcast(k.Send, k.Recv, k.Count, k.Type, k.Peer, c, s)
	case KindReduce:
		return l.reduce(k.Send, k.Recv, k.Count, k.Type, k.Op, k.Peer, c, s)
	case KindAllGather:
		return l.allGather(k.Send, k.Recv, k.Count, k.Type, c, s)
	case KindReduceScatter:
		return l.reduceScatter(k.Send, k.Recv, k.Count, k.Type, k.Op, c, s)
	case KindSend:
		return l.send(k.Send, k.Count, k.Type, k.Peer, c, s)
	case KindRecv:
		return l.recv(k.Recv, k.Count, k.Type, k.Peer, c, s)
	}
	return StatusInvalidArgument
}

// AsyncError implements [API].
func (l *Library) AsyncError(c RawComm) (state, s Status) {
	state = StatusImpossibleValue
	if s = l.asyncError(c, &state); state < StatusSuccess { // ours are negative
		state = StatusImpossibleValue
	}
	return state, s
}

// LastError implements [API].
func (l *Library) LastError(c RawComm) string {
	if l == nil || l.fn[fnGetLastError] == 0 {
		return ""
	}
	var b struct {
		ffi.Frame
		comm uintptr
		_    [ffi.RegisterWords - 1]uintptr
	}
	b.comm = uintptr(c)
	fn := l.fn[fnGetLastError]
	text := b.Call(fn, 1)
	return ffi.GoString(*(**byte)(unsafe.Pointer(&text)))
}
