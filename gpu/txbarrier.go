package gpu

import (
	"sync"
	"sync/atomic"
)

// TxBarrier is a barrier in shared memory that counts arrivals and bytes of copies: mbarrier. A phase ends when all arrivals
// and all bytes that were announced are there. Phases have parity 0, 1, 0, and so on. A [Pipeline] counts them.
type TxBarrier struct{ word uint64 }

// The word has the arrivals that are missing in bits 0 to 19, and those of a phase above them. Then come the bytes that are missing, in
// two's complement, and the parity in bit 63.
const arrivalsMask, bytesMask = 1<<20 - 1, 1<<22 - 1

// Init sets how many arrivals end a phase. One thread calls it; a FenceTxBarriers of this thread and a barrier of the block follow.
func (b *TxBarrier) Init(t *Thread, arrivals int) {
	if arrivals < 1 || arrivals > arrivalsMask {
		fault("gpu.TxBarrier.Init: %d arrivals are not 1 to %d", arrivals, arrivalsMask)
	}
	atomic.StoreUint64(&b.word, uint64(arrivals)<<20|uint64(arrivals))
}

// FenceTxBarriers makes new barriers known to the units that copy.
func FenceTxBarriers(t *Thread) {}

// Arrive arrives.
func (b *TxBarrier) Arrive(t *Thread) { b.change(t.b, 1, 0) }

// Expect arrives, and announces bytes of copies.
func (b *TxBarrier) Expect(t *Thread, bytes int) { b.change(t.b, 1, bytes) }

// Wait waits until the phase with a parity is over. On a new barrier the one with parity 1 is.
func (b *TxBarrier) Wait(t *Thread, parity uint32) {
	for {
		t.moves = t.b.late.moves.Load() // before the look: what changes later lets the thread look again
		if atomic.LoadUint64(&b.word)>>63 != uint64(parity&1) {
			return
		}
		if !t.b.late.arrive(b) {
			t.wait(t, atTx)
		}
	}
}

// change arrives, and adds to the bytes that are missing.
func (b *TxBarrier) change(of *block, arrivals, bytes int) {
	for {
		old := atomic.LoadUint64(&b.word)
		if old&arrivalsMask < uint64(arrivals) {
			fault("gpu.TxBarrier: more arrivals than a phase expects")
		}
		v := old - uint64(arrivals)
		v = v&^(bytesMask<<40) | (v>>40+uint64(bytes))&bytesMask<<40
		if v&arrivalsMask == 0 && v>>40&bytesMask == 0 {
			v = v ^ 1<<63 | v>>20&arrivalsMask
		}
		if atomic.CompareAndSwapUint64(&b.word, old, v) {
			break
		}
	}
	of.late.moves.Add(1)
}

// late has the copies of a block that have begun and not arrived.
type late struct {
	mu     sync.Mutex
	copies map[*TxBarrier][]func()
	begun  uint64
	moves  atomic.Int64 // changes of barriers
}

func (l *late) reset() { l.copies, l.begun = nil, 0 }

// begin does a copy at once, or keeps it until a thread waits for its barrier. Which, changes from copy to copy.
func (l *late) begin(b *TxBarrier, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun++; atOnce(l.begun) {
		f()
		return
	}
	if l.copies == nil {
		l.copies = map[*TxBarrier][]func(){}
	}
	l.copies[b] = append(l.copies[b], f)
}

// arrive does the copies for a barrier that have begun, and reports whether there were some.
func (l *late) arrive(b *TxBarrier) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.copies[b]
	delete(l.copies, b)
	for _, f := range list {
		f()
	}
	return len(list) > 0
}

// atOnce decides by the number of a copy.
func atOnce(n uint64) bool { return n*0x9e3779b97f4a7c15>>63 == 0 }

// queue has what a thread has begun, in groups.
type queue struct {
	list  []queued
	group int // that is open
}

type queued struct {
	group int
	f     func()
}

func (q *queue) begin(f func()) { q.list = append(q.list, queued{q.group, f}) }

func (q *queue) commit() { q.group++ }

// wait does all but the last n groups.
func (q *queue) wait(op string, n int) {
	if n < 0 {
		fault("gpu.%s: %d groups", op, n)
	}
	done := 0
	for _, e := range q.list {
		if e.group >= q.group-n {
			break
		}
		e.f()
		done++
	}
	q.list = append(q.list[:0], q.list[done:]...)
}

// Pipeline hands stages of shared memory from threads that copy to warps that compute. Each thread has its own, which counts for
// it: slots go round, and phases with them.
type Pipeline struct {
	full, empty []TxBarrier
	slot        int32
	parity      uint32
}

// NewPipeline makes a pipeline of as many slots as full and empty have barriers. A slot is empty again when consumers have released
// it. All threads of the block call it; it has a barrier in it.
func NewPipeline(t *Thread, full, empty []TxBarrier, consumers int) Pipeline {
	if t.Rank() == 0 {
		for i := range full {
			full[i].Init(t, 1)
			empty[i].Init(t, consumers)
		}
		FenceTxBarriers(t)
	}
	t.Barrier()
	return Pipeline{full: full, empty: empty}
}

// Produce waits until the next slot is empty, announces bytes, and gives the slot and the barrier for its copies. One thread calls it.
func (p *Pipeline) Produce(t *Thread, bytes int) (slot int, full *TxBarrier) {
	slot = int(p.slot)
	p.empty[slot].Wait(t, p.parity^1)
	p.full[slot].Expect(t, bytes)
	p.next()
	return slot, &p.full[slot]
}

// Consume waits until the next slot is full. Every thread that reads it calls it.
func (p *Pipeline) Consume(t *Thread) (slot int) {
	slot = int(p.slot)
	p.full[slot].Wait(t, p.parity)
	p.next()
	return slot
}

// Release gives a slot back. So many threads call it as NewPipeline has consumers.
func (p *Pipeline) Release(t *Thread, slot int) { p.empty[slot].Arrive(t) }

// Skip leaves the next n slots to other warps, which consume and release them. n is 0 or more. Before the next Consume the caller waits, by a barrier of
// its own, until those have consumed the slots. A barrier tells of its last phase alone: a wait for a later one would end at once.
func (p *Pipeline) Skip(n int) {
	to, slots := p.slot+int32(n), int32(len(p.full))
	p.slot, p.parity = to%slots, p.parity^uint32(to/slots&1)
}

func (p *Pipeline) next() {
	if p.slot++; p.slot == int32(len(p.full)) {
		p.slot, p.parity = 0, p.parity^1
	}
}
