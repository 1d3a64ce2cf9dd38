package runtime

import (
	"sync"
	"sync/atomic"
	"time"
)

// lane lets one launch of a kernel through at a time, for less than the gate of the
// module costs: whoever is inside has its frame. Launches beside it go through the gate.
type lane struct {
	free  atomic.Uint32 // 1 while nobody is inside; not a pointer, whose swap is a call
	frame *frame
}

// enter tells whether the lane is the caller's, until leave. It is not while another launch is
// inside, or once the module is closed.
func (l *lane) enter() bool { return l.free.Swap(0) == 1 }

func (l *lane) leave() { l.free.Store(1) }

func (l *lane) open(f *frame) {
	l.frame = f
	l.leave()
}

// close waits for the launch inside and keeps others out. It is called once, and only on
// a lane that was open.
func (l *lane) close() {
	for wait := time.Microsecond; !l.enter(); wait = min(2*wait, time.Millisecond) {
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
