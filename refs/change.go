package refs

import "github.com/purecuda/purecuda/internal/contain"

// Change is a change of a [State].
type Change struct {
	Device     int
	Generation uint64 // after it
	From, To   Status // the same for a rebuild of a State that accepted work
	Lost       error  // the first cause, if the device was lost
}

// notify calls OnChange for the pending changes. Where another goroutine does that, or OnChange
// itself has made the change, the caller that is at it goes on with the rest.
func (s *State) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.notifying {
		return
	}
	s.notifying = true
	defer func() { s.notifying = false }()
	for len(s.pending) > 0 {
		c := s.pending[0]
		s.pending = s.pending[1:]
		s.callHook(c)
	}
}

// callHook calls OnChange without the lock. s.mu is held.
func (s *State) callHook(c Change) {
	s.mu.Unlock()
	defer s.mu.Lock()
	s.cleanup(contain.Hook(func() { s.config.OnChange(c) }))
}
