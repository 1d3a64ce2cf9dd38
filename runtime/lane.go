package runtime

import (
	"sync"
	"sync/atomic"
	"time"
)

// lane lets one launch of a kernel through at a time, for less than the gate of the
// module costs: whoever has its frame is inside. Launches beside it go through the gate.
type lane struct{ frame atomic.Pointer[frame] }

// enter returns the frame, or nil if another launch has it or the module is closed.
func (l *lane) enter() *frame { return l.frame.Swap(nil) }

func (l *lane) leave(f *frame) { l.frame.Store(f) }

func (l *lane) open(f *frame) { l.frame.Store(f) }

// close waits for the launch inside and keeps others out. It is called once, and only on
// a lane that was open.
func (l *lane) close() {
	for wait := time.Microsecond; l.frame.Swap(nil) == nil; wait = min(2*wait, time.Millisecond) {
		time.Sleep(wait)
	}
}

// kernels are those of a module whose lanes are open.
type kernels struct {
	mu     sync.Mutex
	byName map[string]*Kernel
	closed bool
}

func (s *kernels) find(name string) *Kernel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

// add opens the lane of a kernel, and returns the one that was added first under its name.
func (s *kernels) add(k *Kernel) *Kernel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.byName[k.name]; first != nil {
		return first
	}
	if s.closed {
		return k
	}
	if s.byName == nil {
		s.byName = map[string]*Kernel{}
	}
	s.byName[k.name] = k
	k.lane.open(k.newFrame())
	return k
}

// close closes the lanes. Every caller waits until that is done.
func (s *kernels) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.byName {
		k.lane.close()
	}
	s.byName, s.closed = nil, true
}
