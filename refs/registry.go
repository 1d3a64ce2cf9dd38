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
	// lost or closed.
	Stale, StaleBytes uint64
	// Waiting is memory that nobody uses and that is freed at the next allocation,
	// Reclaim or Close: Refs that the garbage collector has found, or closed while the State was drained.
	Waiting, WaitingBytes uint64
	Freed                 uint64 // in the arena
	// Leaked is memory of a context that lives of which it could not be proven that the
	// work which uses it ends. It is kept from being used again, on purpose.
	Leaked, LeakedBytes uint64
	// Gone is memory that was closed after its context was rebuilt, lost or closed.
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

// registry knows all memory that was not freed, and counts the rest. It refers to
// memory and never to Refs, which the garbage collector could not find otherwise.
type registry struct {
	mu      locks.Mutex[locks.State]
	first   *memory // of those that are live
	waiting []*memory
	// hasWaiting is whether there are any, for those who ask at every allocation.
	hasWaiting atomic.Bool
	count      [fates]uint64
	bytes      [fates]uint64
}

func (g *registry) add(m *memory) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first != nil {
		g.first.previous = m
	}
	m.next, g.first = g.first, m
	g.count[live]++
	g.bytes[live] += m.bytes
}

// resize says that memory has grown to so many bytes, unless it has more.
func (g *registry) resize(m *memory, bytes uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if bytes > m.bytes {
		g.bytes[live] += bytes - m.bytes
		m.bytes = bytes
	}
}

// endLive says what has become of memory that was live.
func (g *registry) endLive(m *memory, f fate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.previous != nil {
		m.previous.next = m.next
	} else {
		g.first = m.next
	}
	if m.next != nil {
		m.next.previous = m.previous
	}
	m.next, m.previous = nil, nil
	g.move(m, live, f)
}

// endWaiting says what has become of memory that was waiting and was taken.
func (g *registry) endWaiting(m *memory, f fate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.move(m, waiting, f)
}

func (g *registry) move(m *memory, from, to fate) {
	g.count[from]--
	g.bytes[from] -= m.bytes
	g.count[to]++
	g.bytes[to] += m.bytes
	if to == waiting {
		g.waiting = append(g.waiting, m)
		g.hasWaiting.Store(true)
	}
}

func (g *registry) takeWaiting() []*memory {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.waiting
	g.waiting = nil
	g.hasWaiting.Store(false)
	return w
}

// leased is the memory that is leased now.
func (g *registry) leased() (found []*memory) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for m := g.first; m != nil; m = m.next {
		if m.leased() {
			found = append(found, m)
		}
	}
	return found
}

// Stats returns the figures of this moment. It looks at all memory that is open.
func (s *State) Stats() Stats {
	s = zero.Or(s)
	g := &s.registry
	g.mu.Lock()
	defer g.mu.Unlock()
	stats := Stats{
		Live: g.count[live], LiveBytes: g.bytes[live],
		Waiting: g.count[waiting], WaitingBytes: g.bytes[waiting],
		Freed:  g.count[freed],
		Leaked: g.count[leaked], LeakedBytes: g.bytes[leaked],
		Gone: g.count[gone], GoneBytes: g.bytes[gone],
	}
	generation, status := split(s.word.Load())
	for m := g.first; m != nil; m = m.next {
		stats.Leases += m.leases()
		if m.generation != generation || status == Closed {
			stats.Stale++
			stats.StaleBytes += m.bytes
		}
	}
	stats.Live -= stats.Stale
	stats.LiveBytes -= stats.StaleBytes
	return stats
}
