package runtime

import "github.com/purecuda/purecuda/internal/locks"

// kernels of a module that were looked up.
type kernels struct {
	mu     locks.Mutex[locks.Ledger]
	byName map[string]*Kernel
	closed bool
}

func (s *kernels) find(name string) *Kernel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// add returns the kernel that was added first under the name of k. A closed module has none, and the
// slots of its kernels are closed.
func (s *kernels) add(k *Kernel) *Kernel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		k.slot.Close(nil) // which nobody is in
		return k
	}
	if first := s.byName[k.name]; first != nil {
		return first
	}
	if s.byName == nil {
		s.byName = map[string]*Kernel{}
	}
	s.byName[k.name] = k
	return k
}

// close closes the slots of the kernels, and waits for the launches inside until lost is closed.
// Every caller waits until that is done.
func (s *kernels) close(lost <-chan struct{}) {
	s.mu.Lock()
	s.closed = true // so that byName does not change any more
	s.mu.Unlock()
	for _, k := range s.byName {
		k.slot.Close(lost)
	}
}
