package refs

import (
	"sync/atomic"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/internal/locks"
)

// memory is one allocation, which all handles and views of it share.
type memory struct {
	state      *State
	generation uint64 // of the context that it is of
	bytes      uint64
	block      arena.Block   // zero: it is a range, freeWith frees the memory, or others own it
	grows      *arena.Range  // nil: it does not grow
	home       *arena.Stream // that it was allocated on; nil for a range
	freeWith   func() error

	// count is the number of references and of leases in one, so that it is known at once
	// that there are neither; see counting.go.
	count atomic.Int64

	// sole is the only stream that may have work with this memory, or nil if there are
	// several: the fast path of use.
	sole atomic.Pointer[arena.Stream]
	// writer is the stream that wrote last, at first home.
	writer atomic.Pointer[arena.Stream]
	mu     locks.Mutex[locks.Memory]
	uses   []use
	first  [1]use // where uses begins

	next, previous *memory // in the registry
}

// end frees memory that nobody refers to any more. The caller must be the one who has ended the count.
func (m *memory) end() error {
	word := m.state.enter()
	f, err := m.free(word)
	m.state.registry.endLive(m, f)
	m.state.leave()
	return err
}

// free frees the block in the arena, if it is still there under this word. The caller
// has entered the state.
func (m *memory) free(word uint64) (fate, error) {
	generation, status := split(word)
	switch {
	case generation != m.generation || status == Lost || status == Closed:
		return gone, nil
	case status == Drained:
		return waiting, nil
	}
	switch {
	case m.freeWith != nil:
		return freed, m.freeWith()
	case m.grows != nil:
		return m.freeRange()
	case m.block == (arena.Block{}):
		return m.handOver()
	}
	return m.freeAfterUses()
}

// forgotten is called when the garbage collector finds a handle. It must not call the driver: memory
// that nobody else refers to waits in the registry.
func (m *memory) forgotten() {
	if m.count.Add(-oneRef) != 0 || !m.count.CompareAndSwap(0, ended) {
		return
	}
	m.state.registry.endLive(m, waiting)
}

// Reclaim frees the memory that waits for it: of Refs which the garbage collector has found, and
// that which was closed while the State was drained. Allocating does it as well. On a
// State that is drained it does nothing.
func (s *State) Reclaim() {
	if s == nil || !s.registry.hasWaiting.Load() {
		return
	}
	for _, m := range s.registry.takeWaiting() {
		word := s.enter()
		f, err := m.free(word)
		s.registry.endWaiting(m, f)
		s.leave()
		s.cleanup(err)
	}
}
