package nccl

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Operation is work for [Comm.Do]. It is a plain value, which can be used again.
type Operation struct {
	kind  Kind
	typ   DataType
	bytes uint64 // of an element
	op    Op
	// root of Broadcast and Reduce, and the other rank of Send and Recv, which rank calls.
	root, rank int
	send, recv []buffer // of the ranks of this process, in their order; Broadcast has recv alone
}

// buffer is a Ref without its type.
type buffer struct {
	given   bool
	n       int
	device  int
	in, out runtime.Arg
}

func buffers[T Element](refs ...*runtime.Ref[T]) []buffer {
	all := make([]buffer, len(refs))
	for i, r := range refs {
		if r != nil && r.Core() != nil && r.Core().State() != nil {
			all[i] = buffer{given: true, n: r.Len(), device: r.Core().State().Device(), in: runtime.In(r), out: runtime.InOut(r)}
		}
	}
	return all
}

func operation[T Element](kind Kind, op Op, root int, send, recv []buffer) Operation {
	typ, bytes := typeOf[T]()
	return Operation{kind: kind, typ: typ, bytes: bytes, op: op, root: root, send: send, recv: recv}
}

// AllReduce combines the elements of all ranks, and each gets the result: recv[k] = send[k] of rank 0, of rank 1 and so on. A
// rank may receive where it sends.
func AllReduce[T Element](op Op, send, recv []*runtime.Ref[T]) Operation {
	return operation[T](KindAllReduce, op, 0, buffers(send...), buffers(recv...))
}

// Broadcast copies the data of a rank to all others.
func Broadcast[T Element](root int, data []*runtime.Ref[T]) Operation {
	return operation[T](KindBroadcast, 0, root, nil, buffers(data...))
}

// Reduce is AllReduce whose result one rank gets. recv is nil if that is a rank of another process.
func Reduce[T Element](op Op, root int, send []*runtime.Ref[T], recv *runtime.Ref[T]) Operation {
	o := operation[T](KindReduce, op, root, buffers(send...), nil)
	if recv != nil {
		o.recv = buffers(recv)
	}
	return o
}

// AllGather gives each rank what all send: rank 0 first, then rank 1 and so on. A rank may send its own place in
// what it receives.
func AllGather[T Element](send, recv []*runtime.Ref[T]) Operation {
	return operation[T](KindAllGather, 0, 0, buffers(send...), buffers(recv...))
}

// ReduceScatter is AllReduce whose result is divided: rank 0 gets the first part, rank 1 the second and so on. A rank may
// receive in its own place of what it sends.
func ReduceScatter[T Element](op Op, send, recv []*runtime.Ref[T]) Operation {
	return operation[T](KindReduceScatter, op, 0, buffers(send...), buffers(recv...))
}

// Send sends data of a rank of this process to another rank, which has to receive as much. If that is a rank of this process as
// well, its Recv belongs into the same Do.
func Send[T Element](rank, to int, data *runtime.Ref[T]) Operation {
	o := operation[T](KindSend, 0, to, buffers(data), nil)
	o.rank = rank
	return o
}

// Recv receives data for a rank of this process from another rank. See [Send].
func Recv[T Element](rank, from int, data *runtime.Ref[T]) Operation {
	o := operation[T](KindRecv, 0, from, nil, buffers(data))
	o.rank = rank
	return o
}

// paired tells whether it is one of Send and Recv.
func (o *Operation) paired() bool { return o.kind == KindSend || o.kind == KindRecv }

// count is what NCCL gets as the number of elements.
func (o *Operation) count() int {
	if o.kind == KindReduceScatter || len(o.send) == 0 {
		return o.recv[0].n
	}
	return o.send[0].n
}

// check compares an operation with a communicator.
func (o *Operation) check(c *Comm) error {
	switch {
	case o.op < Sum || o.op > Avg:
		return wrong("%v of operator %d: want Sum, Prod, Max, Min or Avg", o.kind, o.op)
	case o.root < 0 || o.root >= c.size:
		return wrong("%v with rank %d: the communicator has ranks 0 to %d", o.kind, o.root, c.size-1)
	case o.paired() && c.local(o.rank) < 0:
		return wrong("%v of rank %d, which is not one of this process: %v", o.kind, o.rank, c.Ranks())
	case o.paired() && o.rank == o.root:
		return wrong("%v of rank %d with itself: copy instead", o.kind, o.rank)
	}
	if err := o.checkGiven(c); err != nil {
		return err
	}
	n := o.count()
	sends, recvs := n, n
	switch o.kind {
	case KindAllGather:
		recvs = n * c.size
	case KindReduceScatter:
		sends = n * c.size
	}
	sender, receiver := -1, -1 // the ranks of those that have one Ref
	switch {
	case o.paired():
		sender, receiver = c.local(o.rank), c.local(o.rank)
	case o.kind == KindReduce:
		receiver = c.local(o.root)
	}
	for _, side := range []struct {
		name      string
		all       []buffer
		want, one int
	}{{"sends", o.send, sends, sender}, {"receives", o.recv, recvs, receiver}} {
		for i, b := range side.all {
			if side.one >= 0 {
				i = side.one
			}
			r := &c.ranks[i]
			switch {
			case !b.given:
				return wrong("%v: rank %d %s a Ref that is nil", o.kind, r.number, side.name)
			case b.n != side.want:
				return wrong("%v: rank %d %s %d elements, want %d: the first Ref counts, which has %d, and there are %d ranks",
					o.kind, r.number, side.name, b.n, side.want, n, c.size)
			case b.device != r.device():
				return wrong("%v: rank %d %s memory of device %d, and its stream is of device %d", o.kind, r.number, side.name, b.device, r.device())
			}
		}
	}
	return nil
}

// checkGiven finds Refs that are too many or too few.
func (o *Operation) checkGiven(c *Comm) error {
	if o.paired() {
		return nil
	}
	switch {
	case o.kind == KindReduce && (len(o.recv) == 1) != (c.local(o.root) >= 0):
		return wrong("ncclReduce to rank %d: want a Ref for the result if it is a rank of this process, and else nil; it has %v", o.root, c.Ranks())
	case o.kind != KindBroadcast && len(o.send) != len(c.ranks):
		return wrong("%v of %d Refs to send: want one for each of the ranks %v of this process", o.kind, len(o.send), c.Ranks())
	case o.kind != KindReduce && len(o.recv) != len(c.ranks):
		return wrong("%v of %d Refs to receive: want one for each of the ranks %v of this process", o.kind, len(o.recv), c.Ranks())
	}
	return nil
}

// part is the call of one rank: which of its uses it sends and receives, or -1.
type part struct {
	o          *Operation
	send, recv int
}

// parts adds the calls of an operation to the ranks' calls, and what they use.
func (o *Operation) parts(c *Comm, calls [][]part, uses [][]runtime.Arg) {
	use := func(i int, b buffer, writes bool) int {
		a := b.in
		if writes {
			a = b.out
		}
		uses[i] = append(uses[i], a)
		return len(uses[i]) - 1
	}
	for i := range c.ranks {
		p, number := part{o, -1, -1}, c.ranks[i].number
		switch {
		case o.paired() && o.rank != number:
			continue
		case o.kind == KindSend:
			p.send = use(i, o.send[0], false)
		case o.kind == KindRecv:
			p.recv = use(i, o.recv[0], true)
		case o.kind == KindBroadcast:
			p.recv = use(i, o.recv[i], number != o.root)
			p.send = p.recv
		case o.kind == KindReduce:
			p.send = use(i, o.send[i], false)
			if number == o.root {
				p.recv = use(i, o.recv[0], true)
			}
		default:
			p.send, p.recv = use(i, o.send[i], false), use(i, o.recv[i], true)
		}
		calls[i] = append(calls[i], p)
	}
}

// call is what NCCL gets, with the addresses of the rank.
func (p part) call(at []driver.DevicePtr) Call {
	k := Call{Kind: p.o.kind, Count: uint64(p.o.count()), Type: p.o.typ, Op: p.o.op, Peer: int32(p.o.root)}
	if p.send >= 0 {
		k.Send = at[p.send]
	}
	if p.recv >= 0 {
		k.Recv = at[p.recv]
	}
	return k
}
