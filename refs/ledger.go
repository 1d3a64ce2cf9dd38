package refs

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/zero"
)

// Stats are the figures of a [State] at one time. Every block that was allocated is in
// exactly one of Live, Stale, Waiting, Freed, Leaked and Gone.
type Stats struct {
	Live, LiveBytes uint64 // in use by a Ref or a lease
	// Stale is memory that a Ref or a lease still refers to, and whose context was rebuilt,
	// lost or dropped.
	Stale, StaleBytes uint64
	// Waiting is memory that nobody uses and that is given back at the next allocation,
	// Reclaim or Close: Refs that were forgotten, or closed while the State was drained.
	Waiting, WaitingBytes uint64
	Freed                 uint64 // given back to the arena
	// Leaked is memory of a context that lives of which it could not be proven that the
	// work which uses it ends. It is kept from being used again, on purpose.
	Leaked, LeakedBytes uint64
	// Gone is memory that was closed after its context was rebuilt, lost or dropped.
	Gone, GoneBytes uint64
	Leases          uint64 // that are held now
}

// fate is what has become of memory.
type fate uint8

const (
	live fate = iota
	waiting
	freed
	leaked
	gone
	fates
)

// ledger knows all memory that was not given back, and counts the rest. It refers to
// memory and never to Refs, which the garbage collector could not find otherwise.
type ledger struct {
	mu      locks.Mutex[locks.RefLedger]
	first   *memory // of those that are live
	waiting []*memory
	// hasWaiting is whether there are any, for those who ask at every allocation.
	hasWaiting atomic.Bool
	count      [fates]uint64
	bytes      [fates]uint64
}

func (l *ledger) add(m *memory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first != nil {
		l.first.previous = m
	}
	m.next, l.first = l.first, m
	l.count[live]++
	l.bytes[live] += m.bytes
}

// end says what has become of memory that was live.
func (l *ledger) end(m *memory, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m.previous != nil {
		m.previous.next = m.next
	} else {
		l.first = m.next
	}
	if m.next != nil {
		m.next.previous = m.previous
	}
	m.next, m.previous = nil, nil
	l.move(m, live, f)
}

// settle says what has become of memory that was waiting and is taken.
func (l *ledger) settle(m *memory, f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.move(m, waiting, f)
}

func (l *ledger) move(m *memory, from, to fate) {
	l.count[from]--
	l.bytes[from] -= m.bytes
	l.count[to]++
	l.bytes[to] += m.bytes
	if to == waiting {
		l.waiting = append(l.waiting, m)
		l.hasWaiting.Store(true)
	}
}

func (l *ledger) takeWaiting() []*memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waiting
	l.waiting = nil
	l.hasWaiting.Store(false)
	return w
}

// leased is the memory that is leased now.
func (l *ledger) leased() (found []*memory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for m := l.first; m != nil; m = m.next {
		if m.leased() {
			found = append(found, m)
		}
	}
	return found
}

// Stats returns the figures of this moment. It looks at all memory that is open.
func (s *State) Stats() Stats {
	s = zero.Or(s)
	l := &s.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	stats := Stats{
		Live: l.count[live], LiveBytes: l.bytes[live],
		Waiting: l.count[waiting], WaitingBytes: l.bytes[waiting],
		Freed:  l.count[freed],
		Leaked: l.count[leaked], LeakedBytes: l.bytes[leaked],
		Gone: l.count[gone], GoneBytes: l.bytes[gone],
	}
	generation, status := split(s.word.Load())
	for m := l.first; m != nil; m = m.next {
		stats.Leases += m.leases()
		if m.generation != generation || status == Dropped {
			stats.Stale++
			stats.StaleBytes += m.bytes
		}
	}
	stats.Live -= stats.Stale
	stats.LiveBytes -= stats.StaleBytes
	return stats
}
