package arena

import (
	"cmp"
	"errors"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/locks"
)

// Wait makes later work on s wait for the work that is now on o, which may be a stream of
// another device. It does not block. What o captures is no work: if it is captured now, what
// was on it before is waited for. While s is captured Wait fails: the wait would become part of
// the graph, or end the capture.
//
// If o was closed, its work is what was put on it before. If the end of that work could not be marked
// then ([Stream.Close] gave an error), Wait fails for good: it cannot be proven to be done.
func (s *Stream) Wait(o *Stream) error {
	if err := cmp.Or(s.made(), o.made()); err != nil || o == s {
		return err
	}
	// Neither device is closed before the mark is released. The gates of the streams are entered one
	// after the other. A call that waits for one gate within another could close a circle with other
	// calls while the streams are being closed.
	enterAll(s.dev, o.dev)
	defer leaveAll(s.dev, o.dev)
	if err := s.usable(s.current()); err != nil {
		return err
	}
	m, err := o.mark()
	switch {
	case err != nil && o.dev.lostAlone():
		return s.usable(s.current()) // there is nothing to wait for
	case err != nil:
		return err
	}
	defer o.dev.releaseMark(m)
	s.gate.EnterWaiting()
	defer s.gate.Leave()
	if err := s.usable(s.current()); err != nil {
		return err
	}
	if m.event == 0 {
		return nil
	}
	if err := s.dev.waitFor(s, m.event); err != nil {
		if o.dev.lostAlone() && s.dev.lost() == nil {
			return nil // the call has failed because of that
		}
		return err
	}
	if o.dev == s.dev {
		s.recordWait(o, m.clock)
	}
	return nil
}

// mark is an event after work of a stream. Whoever has one ends its use with releaseMark.
type mark struct {
	event driver.Event // 0: the work is done
	// clock: what was freed on the stream before the clock showed this is covered; 0 if the
	// event became part of a capture.
	clock uint64
	// guard is what the event belongs to; nil if it is the holder's own.
	guard *guard
}

// guard is the event that marks the end of the work of a closed stream. The stream and
// everybody who is about to wait for it have references to it; until all are released the event marks
// nothing else.
//
// Blocks of FreeAfter have guards without a reference: they ask by passed and await, which
// do not touch the event once finish was called.
type guard struct {
	dev        *Device
	event      driver.Event
	references atomic.Int32

	mu    locks.Mutex[locks.Guard] // held while passed and await call the driver
	final bool                     // the result does not change any more
	err   error                    // why it will never be known whether the work is done
}

// newGuard makes a guard with one reference.
func newGuard(d *Device, e driver.Event) *guard {
	g := &guard{dev: d, event: e}
	g.references.Store(1)
	return g
}

// passed reports whether the work is done. It does not wait: not for those who await it
// either. An error is for good.
func (g *guard) passed() (bool, error) {
	if !g.mu.TryLock() {
		return false, nil
	}
	defer g.mu.Unlock()
	if !g.final {
		known := g.dev.lost() != nil
		done, err := g.dev.passed(g.event)
		if !known {
			g.dev.cleanup(err) // also of what CUDA is lost by
		}
		switch lost := g.dev.lost(); {
		case g.dev.lostAlone():
			done, err = true, nil
		case lost != nil:
			err = lost
		}
		g.final, g.err = done || err != nil, err
	}
	return g.final && g.err == nil, g.err
}

// await blocks until the work is done.
func (g *guard) await() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.final {
		return g.err
	}
	g.final, g.err = true, g.dev.await(g.event)
	if g.dev.lostAlone() {
		g.err = nil
	}
	return g.err
}

// finish makes the result final, before the event is used for something else.
func (g *guard) finish(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.final {
		g.final, g.err = true, err
	}
}

// await blocks until the work before a mark of the device's is done.
func (m mark) await(d *Device) error {
	if m.guard != nil {
		return m.guard.await()
	}
	return d.await(m.event)
}

// releaseMark ends the use of a mark.
func (d *Device) releaseMark(m mark) {
	if m.guard == nil {
		d.returnEvent(m.event)
	} else {
		d.releaseGuard(m.guard)
	}
}

func (d *Device) releaseGuard(g *guard) {
	if g != nil && g.references.Add(-1) == 0 {
		d.returnEvent(g.event)
	}
}

// mark marks the work on the stream.
func (s *Stream) mark() (mark, error) {
	s.gate.EnterWaiting()
	defer s.gate.Leave()
	switch state := s.current(); {
	case s.dev.lost() != nil:
		return mark{}, s.dev.lost()
	case state == streamClosed:
		return s.ending()
	case state == streamCapturing:
		return s.beforeCapture()
	}
	return s.recorded(s.dev.clock.Add(1))
}

// recorded records an event of its own. The caller is inside the gate.
func (s *Stream) recorded(clock uint64) (mark, error) {
	e, err := s.dev.takeEvent()
	if err == nil {
		err = s.dev.retire(e, s.dev.onStream("cuEventRecord", func() driver.Result { return s.dev.binding.API.EventRecord(e, s.handle) }))
	}
	if err != nil {
		s.dev.returnEvent(e)
		return mark{}, err
	}
	return mark{event: e, clock: clock}, nil
}

// ending is the mark of a closed stream. The caller is inside the gate.
func (s *Stream) ending() (mark, error) {
	switch {
	case s.completed(never - 1):
		return mark{}, nil
	case s.guard == nil:
		return mark{}, s.unprovenError()
	}
	s.guard.references.Add(1)
	return mark{s.guard.event, never, s.guard}, nil
}

// beforeCapture is the mark of what was on the stream before it was captured. The gate is
// held.
func (s *Stream) beforeCapture() (mark, error) {
	if s.before == nil {
		return mark{}, because(s.beforeErr, s.errorf(driver.ErrCaptureFailed,
			"the stream is captured, and the end of the work before could not be marked: %w", s.beforeErr))
	}
	s.before.references.Add(1)
	return mark{s.before.event, s.beforeClock, s.before}, nil
}

// unprovenError is the error of those who have to know when the work of a closed stream ends,
// where nobody can. The caller is inside the gate.
func (s *Stream) unprovenError() error {
	if s.unproven == nil { // it was never open
		return s.usable(streamClosed)
	}
	return because(s.unproven, s.errorf(driver.ErrDriverCallFailed,
		"the stream is closed, and that its work is done cannot be proven: %w", s.unproven))
}

// because gives an error the kind of its cause.
func because(cause error, err *driver.Error) error {
	var e *driver.Error
	if errors.As(cause, &e) {
		err.Kind, err.Sticky = e.Kind, e.Sticky
	}
	return err
}
