package wait

import (
	"sync"
	"sync/atomic"
	"time"
)

// source is what is waited for: a stream or an event. It hands out growing numbers, and knows up
// to which of them the work is done.
type source struct {
	dev *Device
	// query asks the driver up to which number the work is done, on a goroutine of the device.
	// No number above issued counts.
	query func(issued uint64) (done uint64, err error)
	// prompt says that only asking tells: no value is written.
	prompt atomic.Bool

	issued atomic.Uint64        // the last number
	done   atomic.Uint64        // the work of numbers up to this is done; see passed
	cell   atomic.Pointer[cell] // that the device writes to, or nil
	inside atomic.Int32         // who reads the cell
	usual  atomic.Int64         // nanoseconds that waits took, an average

	mu          sync.Mutex
	first, last *waiter // by number
	watched     bool    // the poller looks
	askAt       time.Duration
	asking      int // calls of query under way
	suspended   int // query must not be called
}

// waiter is a goroutine that is parked, or a function that is to run.
type waiter struct {
	n          uint64
	prev, next *waiter
	parked     bool
	woken      chan error // with room for one
	f          func(error)
}

// passed is the largest number whose work is known to be done.
func (s *source) passed() uint64 {
	done := s.done.Load()
	s.inside.Add(1)
	if c := s.cell.Load(); c != nil {
		done = max(done, c.top())
	}
	s.inside.Add(-1)
	return done
}

// prove notes that the work of numbers up to n is done.
func (s *source) prove(n uint64) {
	for old := s.done.Load(); n > old && !s.done.CompareAndSwap(old, n); old = s.done.Load() {
	}
}

// detach takes the cell away. Nobody reads it when detach returns.
func (s *source) detach() *cell {
	s.prove(s.passed())
	c := s.cell.Swap(nil)
	until(false, func() bool { return s.inside.Load() == 0 })
	return c
}

// park makes w wait. The poller looks at once, so nothing that has happened is missed.
func (s *source) park(w *waiter) {
	s.mu.Lock()
	at := s.last
	for at != nil && at.n > w.n {
		at = at.prev
	}
	w.prev, w.parked = at, true
	if at == nil {
		w.next, s.first = s.first, w
	} else {
		w.next, at.next = at.next, w
	}
	if w.next == nil {
		s.last = w
	} else {
		w.next.prev = w
	}
	watch := !s.watched
	if watch {
		s.watched, s.askAt = true, 0
	}
	s.mu.Unlock()
	if watch {
		s.dev.poller.watch(s)
	}
}

// unpark ends the wait of w, and tells whether it was still waiting.
func (s *source) unpark(w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.parked {
		return false
	}
	s.remove(w)
	return true
}

// remove takes w off the list. s.mu is held.
func (s *source) remove(w *waiter) {
	if w.prev == nil {
		s.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		s.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.parked = nil, nil, false
}

// look wakes those whose work is done, or all if there will be nothing to wait for. It tells
// whether the driver is to be asked, and whether anybody still waits.
func (s *source) look(now time.Duration) (woken int, ask, waited bool) {
	ended := s.dev.ended.Load()
	passed := s.passed()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.first != nil && (s.first.n <= passed || ended != nil) {
		var err error
		if s.first.n > passed {
			err = ended.cause
		}
		s.wake(s.first, err)
		woken++
	}
	s.watched = s.first != nil
	if s.askAt == 0 || woken > 0 {
		s.askAt = now + silence
	}
	ask = s.prompt.Load() || now >= s.askAt
	return woken, ask && s.watched && s.suspended == 0 && s.asking == 0, s.watched
}

// fail wakes those with numbers up to n with an error.
func (s *source) fail(n uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.first != nil && s.first.n <= n {
		s.wake(s.first, err)
	}
}

// wake ends the wait of w. s.mu is held.
func (s *source) wake(w *waiter, err error) {
	s.remove(w)
	if w.f != nil {
		go w.f(err)
		return
	}
	w.woken <- err
}

// ask calls the driver about the source, unless that is suspended.
func (s *source) ask() error {
	s.mu.Lock()
	if s.suspended > 0 {
		s.mu.Unlock()
		return nil
	}
	s.asking++
	s.mu.Unlock()
	issued := s.issued.Load()
	s.dev.poller.counts.asks.Add(1)
	done, err := s.query(issued)
	s.prove(done)
	s.mu.Lock()
	s.asking--
	s.askAt = clock() + silence
	s.mu.Unlock()
	if err != nil {
		s.fail(issued, err)
	}
	return err
}

// Suspend keeps the driver from being asked, until as many calls of Resume. It waits for a call
// that is under way; on a lost device that may hang, for a tenth of a second.
func (s *source) Suspend() {
	s.mu.Lock()
	s.suspended++
	s.mu.Unlock()
	until(s.dev.ended.Load() != nil, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.asking == 0
	})
}

// Resume ends a Suspend.
func (s *source) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspended--
}
