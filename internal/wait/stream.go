package wait

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// Stream is a stream that can be waited for. It is safe for concurrent use.
type Stream struct {
	// What every launch looks at stands together, and apart from what the poller writes.
	handle driver.Stream
	// shared is the ticket that nothing was put on the stream after, or 0. Until its write is there it is a marker with pending.
	shared atomic.Uint64
	used   atomic.Bool // it had work

	source
	markers atomic.Uint64 // that shared had: each one once
	ready   atomic.Bool   // the cell is chosen
	closed  atomic.Bool
	events  atomic.Bool // no values are written: all numbers have marks
	marks   []mark      // events by number; s.mu guards them
	// unknown is why nobody will know any more when the work of a closed stream is done.
	unknown atomic.Pointer[error]
}

const pending = 1 << 63

// mark is an event that stands for a number.
type mark struct {
	n     uint64
	event driver.Event
}

// NewStream makes a stream of the context one that can be waited for. It makes no call of the
// driver.
func (d *Device) NewStream(handle driver.Stream) *Stream {
	s := &Stream{handle: handle}
	s.dev, s.query, s.suspendedQuery = d, s.state, s.reap
	return s
}

// Changed says that work was put on the stream. Whoever does that calls it after the call of the
// driver and before he tells anybody, himself included. It costs next to nothing.
func (s *Stream) Changed() {
	if s.shared.Load() != 0 {
		s.shared.Store(0)
	}
	if !s.used.Load() {
		s.used.Store(true)
	}
}

// Mark returns a ticket for the work that is on the stream. Unless nothing was put there since
// the last one, it puts a write on the stream, or an event.
func (s *Stream) Mark() (Ticket, error) {
	end := s.dev.ended.Load()
	if end != nil && end.cause != nil {
		return Ticket{}, end.cause
	}
	if end != nil || s.closed.Load() {
		return Ticket{}, errClosed()
	}
	if n := s.shared.Load(); n != 0 && n&pending == 0 {
		s.dev.poller.counts.shared.Add(1)
		return Ticket{&s.source, n}, nil
	}
	if !s.ready.Load() {
		s.prepare()
	}
	// Before the number is taken: whatever is put on the stream from now on takes the marker away. Else the number could be known
	// to be done by a larger one or by a question, and be shared for work that came after that.
	marker := pending | s.markers.Add(1)
	s.shared.Store(marker)
	n := s.issued.Add(1)
	if err := s.put(n); err != nil {
		return Ticket{}, err
	}
	s.shared.CompareAndSwap(marker, n)
	return Ticket{&s.source, n}, nil
}

// Issued returns the number of the last ticket.
func (s *Stream) Issued() uint64 { return s.issued.Load() }

// Covering returns a number: a ticket with a larger one is for all the work that is on the stream now.
func (s *Stream) Covering() uint64 {
	n := s.issued.Load()
	if n > 0 && s.shared.Load() == n { // nothing was put there since
		n--
	}
	return n
}

// Passed reports whether a ticket with a number above n is known to be done, where n is of [Stream.Covering] after a first ticket
// was issued. It makes no call of the driver.
func (s *Stream) Passed(n uint64) bool { return s.passed() > n }

// Rested tells whether the work on the stream is known to be done. It makes no call of the driver.
func (s *Stream) Rested() bool {
	n := s.shared.Load()
	return !s.used.Load() || n != 0 && n&pending == 0 && s.passed() >= n
}

// Rest is Mark that puts nothing on a stream that never had work, or on one that is suspended: it returns
// the ticket of the zero value then. It does not ask whether the work is done, so that what it does
// depends on no time.
func (s *Stream) Rest() (Ticket, error) {
	if s.asks.Suspended() || !s.used.Load() || s.dev.ended.Load() != nil {
		return Ticket{}, nil
	}
	return s.Mark()
}

// Wait waits until the work that is on the stream is done; see [Ticket.Wait].
func (s *Stream) Wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t, err := s.Mark()
	if err != nil {
		return err
	}
	return t.Wait(ctx)
}

// AfterFunc runs f after the work that is on the stream; see [Ticket.AfterFunc].
func (s *Stream) AfterFunc(f func(error)) (stop func() bool) {
	t, err := s.Mark()
	if err != nil {
		go f(err)
		return func() bool { return false }
	}
	return t.AfterFunc(f)
}

// prepare gives the stream its cell at the first Mark. Its numbers go on where those of the cell
// have ended.
func (s *Stream) prepare() {
	c := s.dev.takeCell()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready.Load() || !s.dev.join(s, c) {
		s.dev.returnCell(c)
		return
	}
	if c == nil {
		s.events.Store(true)
	} else {
		s.issued.Store(c.last)
		s.done.Store(c.last)
	}
	s.ready.Store(true)
}

// join enters a stream that gets a cell, unless the device is closed.
func (d *Device) join(s *Stream, c *cell) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.streams == nil {
		return false
	}
	d.streams[s] = struct{}{}
	if c != nil {
		s.cell.Store(c)
	}
	return true
}

// part takes the cell of a stream back.
func (d *Device) part(s *Stream) {
	s.mu.Lock()
	marks := len(s.marks) > 0
	s.mu.Unlock()
	d.mu.Lock()
	delete(d.streams, s)
	if marks && d.closed != nil {
		d.closed[s] = struct{}{}
	}
	d.mu.Unlock()
	if c := s.detach(); c != nil {
		c.last = s.issued.Load()
		d.returnCell(c)
	}
}

// longWork is the work that an event marks. The device does nothing else that comes after a write
// on the same connection until the write is done, and a question costs more than a look at memory.
const longWork = 500 * time.Microsecond

// often is after how many times in a row work counts as long: a slow machine is no long work.
const often = 8

// put puts number n on the stream.
func (s *Stream) put(n uint64) error {
	b := s.dev.binding
	if err := b.Push(); err != nil {
		return err
	}
	defer b.Pop()
	if s.events.Load() || s.long.Load() >= often && s.fewMarks() {
		return s.record(n)
	}
	c := s.cell.Load()
	if c == nil { // the device was closed
		return errClosed()
	}
	for {
		switch r := b.StreamWriteValue64(s.handle, c.at+driver.DevicePtr(8*(n%cellWords)), n, 0); {
		case r == driver.Success:
			c.wrote(n)
		case r == driver.ResultNotSupported, r == driver.ResultSymbolMissing:
			s.dev.writes.Store(false)
			s.events.Store(true)
			return s.record(n)
		case r.Sticky():
			return s.dev.failed("cuStreamWriteValue64", r)
		default:
			b.Cleanup(b.Failed("cuStreamWriteValue64", r))
			return s.record(n)
		}
		// A larger number of the same word may have gone to the stream before: once more then.
		latest := s.issued.Load()
		if latest -= (latest - n) % cellWords; latest == n {
			return nil
		}
		n = latest
	}
}

func errClosed() error { return driver.Errorf(driver.ErrClosed, "wait for a stream that is closed") }

// reapAt is how many marks a stream may have before those are looked for that are done, or before
// values are written again.
const reapAt = 64

func (s *Stream) fewMarks() bool {
	passed := s.passed()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.marks) > 0 && s.marks[0].n <= passed { // a write has proven it
		s.dev.returnEvent(s.takeMark().event)
	}
	return len(s.marks) < reapAt
}

// takeMark takes the oldest mark off the list. s.mu is held.
func (s *Stream) takeMark() mark {
	m := s.marks[0]
	s.marks = append(s.marks[:0], s.marks[1:]...)
	s.prompt.Store(len(s.marks) > 0)
	return m
}

// record marks number n by an event. The context is current where that is needed.
func (s *Stream) record(n uint64) error {
	d := s.dev
	if !s.fewMarks() {
		if done, err := s.reap(); err == nil {
			s.prove(done)
		}
	}
	e, err := d.takeEvent()
	if err != nil {
		return err
	}
	if r := d.binding.API.EventRecord(e, s.handle); r != driver.Success {
		d.returnEvent(e)
		return d.failed("cuEventRecord", r)
	}
	s.keep(mark{n, e})
	return nil
}

// keep enters a mark, by its number.
func (s *Stream) keep(m mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.marks)
	for i > 0 && s.marks[i-1].n > m.n {
		i--
	}
	s.marks = append(s.marks, mark{})
	copy(s.marks[i+1:], s.marks[i:])
	s.marks[i] = m
	s.prompt.Store(true)
}

// reap asks about the marks, the oldest first, and returns the largest number that is done. A mark
// is off the list while the driver is asked about it, so that its event is used by nobody else.
func (s *Stream) reap() (done uint64, err error) {
	d := s.dev
	for {
		s.mu.Lock()
		if len(s.marks) == 0 {
			s.mu.Unlock()
			return done, nil
		}
		m := s.takeMark()
		s.mu.Unlock()
		switch r := d.binding.API.EventQuery(m.event); {
		case r == driver.Success:
			d.returnEvent(m.event)
			done = m.n
		case notKnown(r):
			s.keep(m)
			return done, nil
		default:
			// What the event marks is not known any more, so nobody uses it again.
			err := error(d.failed("cuEventQuery", r))
			s.unknown.Store(&err)
			if !r.Sticky() {
				d.binding.Cleanup(d.binding.Failed("cuEventDestroy", d.binding.API.EventDestroy(m.event)))
			}
			return done, err
		}
	}
}

// state asks the driver about the stream.
func (s *Stream) state(issued uint64) (done uint64, err error) {
	s.mu.Lock()
	marks := len(s.marks) > 0
	s.mu.Unlock()
	switch unknown := s.unknown.Load(); {
	case marks:
		return s.reap()
	case s.closed.Load() && unknown != nil:
		return 0, *unknown
	case s.closed.Load(): // another asker has the marks
		return 0, nil
	}
	r := s.dev.binding.API.StreamQuery(s.handle)
	switch {
	case r == driver.Success:
		return issued, nil
	case notKnown(r):
		return 0, nil
	}
	return 0, s.dev.failed("cuStreamQuery", r)
}

// notKnown says that the driver cannot tell yet: because there is work, or because of a capture.
func notKnown(r driver.Result) bool {
	return r == driver.ResultNotReady || r >= driver.ResultStreamCaptureUnsupported && r <= driver.ResultStreamCaptureWrongThread
}

// Close ends the use of the stream, which may be destroyed afterwards. Mark must not be under way.
// Tickets stay good. If some are not done yet, Close records an event, and all of them count as
// done when it has passed.
func (s *Stream) Close() {
	if s.closed.Load() {
		return
	}
	s.dev.sweep()
	s.Suspend()
	defer s.Resume()
	s.closed.Store(true)
	n := s.issued.Load()
	if s.passed() < n && s.dev.ended.Load() == nil {
		if err := s.finish(n); err != nil {
			s.unknown.Store(&err)
			s.fail(n, err)
			s.dev.binding.Cleanup(err) // there may be nobody who waits
		}
	}
	s.dev.part(s)
}

// finish marks the end of the work.
func (s *Stream) finish(n uint64) error {
	if err := s.dev.binding.Push(); err != nil {
		return err
	}
	defer s.dev.binding.Pop()
	return s.record(n)
}
