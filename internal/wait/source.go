package wait

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
)

// source is what is waited for: a stream or an event. It hands out growing numbers, and knows up
// to which of them the work is done.
type source struct {
	dev *Device
	// query asks the driver up to which number the work is done, on a goroutine of the device.
	// No number above issued counts.
	query func(issued uint64) (done uint64, err error)
	// suspendedQuery is query while that must not be called, or nil.
	suspendedQuery func() (done uint64, err error)
	// prompt says that only asking tells: a value is not written for all numbers.
	prompt atomic.Bool
	// asks has those inside who ask the driver. While it is suspended they do not call query.
	asks gate.Gate

	issued atomic.Uint64        // the last number
	done   atomic.Uint64        // the work of numbers up to this is done; see passed
	cell   atomic.Pointer[cell] // that the device writes to, or nil
	cells  gate.Gate            // who reads the cell; closed when it is taken away
	usual  atomic.Int64         // nanoseconds that waits took, an average
	work   atomic.Int64         // nanoseconds of the work of one number, an average
	long   atomic.Int32         // how many were longWork since one was not
	beside atomic.Int32         // how many more calls of Event.Spins take it that others spin

	mu          locks.Mutex[locks.Waiters]
	first, last *waiter       // by number
	watched     bool          // the poller looks
	since       time.Duration // the last number was done, or somebody began to wait
	askAt       time.Duration
	asked       int // since since

	// Of the poller: whether the wait is near its end, so that asking is worth the price, and when
	// to look again.
	near   bool
	lookAt time.Duration
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
	if s.cells.Enter() {
		if c := s.cell.Load(); c != nil {
			done = max(done, c.top())
		}
		s.cells.Leave()
	}
	return done
}

// prove notes that the work of numbers up to n is done.
func (s *source) prove(n uint64) {
	for old := s.done.Load(); n > old && !s.done.CompareAndSwap(old, n); old = s.done.Load() {
	}
}

// detach takes the cell away, for good. Nobody reads it when detach returns.
func (s *source) detach() *cell {
	s.prove(s.passed())
	s.cells.Close(nil)
	return s.cell.Swap(nil)
}

// park makes w wait. The poller looks at once, so nothing that has happened is missed.
func (s *source) park(w *waiter) {
	s.mu.Lock()
	at := s.last
	for at != nil && at.n > w.n {
		at = at.prev
	}
	if s.first == nil {
		s.begin(clock())
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
	s.watched = true
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
	woken = s.wakeDone(passed, now)
	for ; s.first != nil && ended != nil; woken++ {
		s.wake(s.first, ended.cause)
	}
	s.watched = s.first != nil
	prompt := s.prompt.Load()
	may := !s.asks.Suspended() || s.suspendedQuery != nil && prompt
	ask = now >= s.askAt && s.watched && may && s.asks.Inside() == 0
	s.near = prompt && now >= s.end()
	switch {
	case ask && prompt:
		s.lookAt = s.next(now)
	case prompt:
		s.lookAt = s.askAt
	default:
		s.lookAt = now + s.rest(now)
	}
	return woken, ask, s.watched
}

// wakeDone wakes those with numbers up to passed. If the first question was late, nobody knows how
// late: half of the time is taken for the work, so that the next one comes earlier. A smaller part would
// not do: what a question takes by itself would count as work for ever. s.mu is held.
func (s *source) wakeDone(passed uint64, now time.Duration) (woken int) {
	for ; s.first != nil && s.first.n <= passed; woken++ {
		s.wake(s.first, nil)
	}
	if woken > 0 {
		took := now - s.since
		if s.asked == 1 {
			took /= 2
		}
		s.measured(int64(took) / int64(woken))
		s.begin(now)
	}
	return woken
}

// measured notes how long the work of a number has taken.
func (s *source) measured(took int64) {
	average(&s.work, took)
	if took <= int64(longWork) {
		s.long.Store(0)
	} else {
		s.long.Add(1)
	}
}

// begin notes that the wait for the next number begins. s.mu is held.
func (s *source) begin(now time.Duration) {
	s.since, s.asked = now, 0
	s.askAt = s.next(now)
}

// end is somewhat before the next number is usually done. s.mu is held.
func (s *source) end() time.Duration { return s.since + time.Duration(s.work.Load()*15/16) }

// next is when to ask next: about silence, and where only asking tells, often near the end and less
// and less often after it. s.mu is held.
func (s *source) next(now time.Duration) time.Duration {
	switch end := s.end(); {
	case !s.prompt.Load():
		return now + silence
	case now < end:
		return min(end, now+silence)
	}
	return now + min(max((now-s.since)/128, leastPause), silence)
}

// rest is how long nobody need look for a value: until shortly before the work usually ends. It is a small part of what has
// passed, because work may be shorter than usual or longer. s.mu is held.
func (s *source) rest(now time.Duration) time.Duration {
	left, passed := s.end()-now, now-s.since
	if left > leastPause {
		return min(left, max(passed/32, 2*leastPause))
	}
	return max(min(-left/8, passed/32), leastPause)
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

// ask calls the driver about the source, unless that is suspended, and wakes those whose work is
// done. One who asks for himself alone wakes nobody, unless there is an error: that costs two locks for each question.
func (s *source) ask(wake bool) (err error) {
	suspended := !s.asks.EnterAnyway()
	defer s.asks.Leave()
	if suspended && s.suspendedQuery == nil {
		return nil
	}
	if wake {
		s.mu.Lock()
		s.asked++
		s.mu.Unlock()
		s.dev.poller.counts.asks.Add(1)
	}
	issued := s.issued.Load()
	var done uint64
	if suspended {
		done, err = s.suspendedQuery()
	} else {
		done, err = s.query(issued)
	}
	s.prove(done)
	if wake || err != nil {
		s.answered(issued, err)
	}
	return err
}

// answered wakes those whose work is done, and after an error all others with numbers up to issued.
func (s *source) answered(issued uint64, err error) {
	passed, now := s.passed(), clock()
	s.mu.Lock()
	s.askAt = s.next(now)
	woken := s.wakeDone(passed, now)
	s.mu.Unlock()
	if s.long.Load() < often {
		s.dev.poller.woken.Add(int64(woken))
	}
	if err != nil {
		s.fail(issued, err)
	}
}

// Suspend keeps the driver from being asked, until as many calls of Resume. It waits for a call
// that is under way; on a lost device that may hang, for a tenth of a second.
func (s *source) Suspend() {
	s.asks.Suspend(math.MaxInt64, nil) // for good, whoever is inside
	done, cancel := patience(s.dev.ended.Load() != nil)
	defer cancel()
	if s.asks.Suspend(0, done) {
		s.asks.Resume()
	}
}

// Resume ends a Suspend.
func (s *source) Resume() { s.asks.Resume() }
