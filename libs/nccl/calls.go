package nccl

import (
	goruntime "runtime"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/ffi"
)

// The functions in the argument order of nccl.h.

// UniqueID implements [API].
func (l *Library) UniqueID() (ID, Status) {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	b.id = ID{}
	s := l.call(fnGetUniqueID, b, uintptr(unsafe.Pointer(&b.id)))
	if s == StatusSuccess && b.id == (ID{}) {
		s = StatusImpossibleValue
	}
	return b.id, s
}

// GroupStart implements [API].
func (l *Library) GroupStart() Status { return l.do(fnGroupStart) }

// GroupEnd implements [API].
func (l *Library) GroupEnd() Status { return l.do(fnGroupEnd) }

// InitRank implements [API]. The id goes by value. On amd64 a structure of that size lies on the stack, which begins behind the six words
// of the registers; the other processors take the address of a copy.
func (l *Library) InitRank(comm *RawComm, size int, id *ID, rank int, blocking bool) Status {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	defer func() { b.comm = nil }()
	b.comm, b.id = comm, *id
	b.config = config{size: uint64(unsafe.Sizeof(config{})), magic: 0xcafebeef, version: 21400}
	if blocking {
		b.config.blocking = 1
	}
	out, options := uintptr(unsafe.Pointer(comm)), uintptr(unsafe.Pointer(&b.config))
	if goruntime.GOARCH != "amd64" {
		return l.call(fnInitRank, b, out, uintptr(size), uintptr(unsafe.Pointer(&b.id)), uintptr(rank), options)
	}
	const registers, word = 6, int(unsafe.Sizeof(uintptr(0)))
	words := [registers + len(b.id)/word]uintptr{out, uintptr(size), uintptr(rank), options}
	copy(words[registers:], unsafe.Slice((*uintptr)(unsafe.Pointer(&b.id)), len(b.id)/word))
	return l.call(fnInitRank, b, words[:]...)
}

// Run implements [API].
func (l *Library) Run(c RawComm, s driver.Stream, k *Call) Status {
	send, recv, count, typ, op, peer := uintptr(k.Send), uintptr(k.Recv), uintptr(k.Count), uintptr(k.Type), uintptr(k.Op), uintptr(k.Peer)
	comm, stream, f := uintptr(c), uintptr(s), function(k.Kind)
	switch k.Kind {
	case KindAllReduce, KindReduceScatter:
		return l.do(f, send, recv, count, typ, op, comm, stream)
	case KindBroadcast:
		return l.do(f, send, recv, count, typ, peer, comm, stream)
	case KindReduce:
		return l.do(f, send, recv, count, typ, op, peer, comm, stream)
	case KindAllGather:
		return l.do(f, send, recv, count, typ, comm, stream)
	case KindSend:
		return l.do(f, send, count, typ, peer, comm, stream)
	case KindRecv:
		return l.do(f, recv, count, typ, peer, comm, stream)
	}
	return StatusInvalidArgument
}

// AsyncError implements [API].
func (l *Library) AsyncError(c RawComm) (state, s Status) {
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	b.state = int32(StatusImpossibleValue)
	s = l.call(fnAsyncError, b, uintptr(c), uintptr(unsafe.Pointer(&b.state)))
	if state = Status(b.state); state < StatusSuccess {
		state = StatusImpossibleValue
	}
	return state, s
}

// LastError implements [API].
func (l *Library) LastError(c RawComm) string {
	if l == nil || l.fn[fnLastError] == 0 {
		return ""
	}
	b := blocks.Get().(*block)
	defer blocks.Put(b)
	b.words[0] = uintptr(c)
	text := b.Call(l.fn[fnLastError], 1)
	return ffi.GoString(*(**byte)(unsafe.Pointer(&text)))
}

// Finalize implements [API].
func (l *Library) Finalize(c RawComm) Status { return l.do(fnFinalize, uintptr(c)) }

// Destroy implements [API].
func (l *Library) Destroy(c RawComm) Status { return l.do(fnDestroy, uintptr(c)) }

// Abort implements [API].
func (l *Library) Abort(c RawComm) Status { return l.do(fnAbort, uintptr(c)) }
