package nccltest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/libs/internal/simulated"
	"github.com/purecuda/purecuda/libs/nccl"
)

const (
	kernelName = "purecuda_simulated_nccl"
	image      = ".version 6.4\n.target sm_75\n.address_size 64\n.visible .entry " + kernelName + "(.param .u64 plan) " + simulated.Body + "\n"
)

// plan is what a kernel does: the operations of a group of one rank.
type plan struct {
	comm   *comm
	calls  []nccl.Call
	queued bool // and not recorded
}

// plans of all simulated libraries of the process, by the numbers that are the parameters of the kernels.
var (
	plans    sync.Map
	lastPlan atomic.Uint64
)

// run is the kernel. It comes to all its meetings, and then waits for them.
func (p *plan) run(k *drivertest.Launch) error {
	if p.queued {
		defer p.comm.queued.Add(-1)
	}
	var meetings []*meeting
	for i := range p.calls {
		m, err := p.comm.clique.come(k, p.comm.rank, &p.calls[i])
		if err != nil {
			return err
		}
		meetings = append(meetings, m)
	}
	for _, m := range meetings {
		select {
		case <-m.done:
			if m.err != nil {
				return m.err
			}
		case <-p.comm.aborted:
			return nil
		}
	}
	return nil
}

// clique are the ranks with one ID.
type clique struct {
	mu       sync.Mutex
	size     int
	joined   map[int]bool
	meetings map[place]*meeting
	next     map[visit]uint64
}

// place is a meeting: the n-th of all ranks, for which from and to are -1, or of two.
type place struct {
	from, to int
	n        uint64
}

// visit counts how often a rank has come.
type visit struct{ rank, from, to int }

// meeting is an operation. The last rank to come computes it.
type meeting struct {
	ranks []*arrival
	come  int
	done  chan struct{}
	err   error
}

// arrival is what a rank brings.
type arrival struct {
	call       nccl.Call
	send, recv []byte
}

func newClique() *clique {
	return &clique{joined: map[int]bool{}, meetings: map[place]*meeting{}, next: map[visit]uint64{}}
}

// join adds a rank, unless it is there or counts the ranks otherwise.
func (q *clique) join(size, rank int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.size == 0 {
		q.size = size
	}
	if size != q.size || rank < 0 || rank >= size || q.joined[rank] {
		return false
	}
	q.joined[rank] = true
	return true
}

func (q *clique) ready() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.joined) == q.size
}

// come brings a rank to the meeting of its next operation.
func (q *clique) come(k *drivertest.Launch, rank int, call *nccl.Call) (*meeting, error) {
	a := &arrival{call: *call}
	sends, recvs := call.Count, call.Count
	switch call.Kind {
	case nccl.KindAllGather:
		recvs *= uint64(q.size)
	case nccl.KindReduceScatter:
		sends *= uint64(q.size)
	}
	bytes, err := elementBytes(call.Type)
	if err == nil && call.Send != 0 {
		a.send, err = k.Memory(call.Send, sends*bytes)
	}
	if err == nil && call.Recv != 0 {
		a.recv, err = k.Memory(call.Recv, recvs*bytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%v of rank %d: %w", call.Kind, rank, err)
	}
	at, want := place{from: -1, to: -1}, q.size
	switch call.Kind {
	case nccl.KindSend:
		at.from, at.to, want = rank, int(call.Peer), 2
	case nccl.KindRecv:
		at.from, at.to, want = int(call.Peer), rank, 2
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	v := visit{rank, at.from, at.to}
	at.n = q.next[v]
	q.next[v]++
	m := q.meetings[at]
	if m == nil {
		m = &meeting{ranks: make([]*arrival, q.size), done: make(chan struct{})}
		q.meetings[at] = m
	}
	m.ranks[rank] = a
	if m.come++; m.come == want {
		delete(q.meetings, at)
		m.err = m.compute()
		close(m.done)
	}
	return m, nil
}

// compute is the operation, if the ranks agree about it.
func (m *meeting) compute() error {
	var first *arrival
	firstRank := 0
	for rank, a := range m.ranks {
		if a == nil {
			continue
		}
		if first == nil {
			first, firstRank = a, rank
			continue
		}
		x, y := first.call, a.call
		x.Send, x.Recv, y.Send, y.Recv = 0, 0, 0, 0
		if x.Kind >= nccl.KindSend && y.Kind >= nccl.KindSend {
			x.Kind, x.Peer, y.Kind, y.Peer = 0, 0, 0, 0
		}
		if x != y {
			return fmt.Errorf("the ranks do not agree: rank %d runs %v of %+v, and rank %d %v of %+v", firstRank, first.call.Kind, x, rank, a.call.Kind, y)
		}
	}
	return m.move(&first.call)
}
