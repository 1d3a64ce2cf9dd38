package refs

// forgotten is what the garbage collector calls when a handle was forgotten. It must not
// call the driver: memory that nobody else refers to waits in the ledger.
func (m *memory) forgotten() {
	if m.count.Add(-oneRef) != 0 || !m.count.CompareAndSwap(0, ended) {
		return
	}
	m.state.ledger.end(m, waiting)
}

// Reclaim gives the memory back that waits for it: that of handles which were forgotten
// and that which was closed while the State was drained. Allocating does it as well. On a
// State that is drained it does nothing.
func (s *State) Reclaim() {
	if s == nil || !s.ledger.hasWaiting.Load() {
		return
	}
	for _, m := range s.ledger.takeWaiting() {
		word := s.enter()
		f, err := m.free(word)
		s.ledger.settle(m, f)
		s.leave()
		s.cleanup(err)
	}
}
