package runtime

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/internal/zero"
)

// Stream is a queue of work on a device. Work on one stream runs in order, work on
// different streams at the same time. It is safe for concurrent use; the order of
// calls from several goroutines is then theirs to settle.
//
// Streams are independent of CUDA's legacy default stream, which is never used.
type Stream struct {
	object
	handle driver.Stream
	id     uint64
	memory *arena.Stream // which allocates on this stream
	waits  *wait.Stream
	checks *streamChecks
	// capture is what the stream records for, or nil. It changes only while nobody is inside the
	// gate but who changes it, so that it holds as long as a call is inside.
	capture atomic.Pointer[capture]
	turn    gate.Turn               // see alone
	tracing atomic.Pointer[tracing] // nil: nobody hears of launches and copies
	stats   *counters
	_       [8]byte // 128 bytes: two lines of the processor's cache, and not three
}

// NewStream makes a stream. A stream that is no longer needed should be closed. Up to 64 streams of a context whose work was done when they were closed are used for
// new ones, until [Context.Trim]. Those are not used again that were captured, whose calls have failed, or whose Handle somebody has seen.
func (c *Context) NewStream() (*Stream, error) { return c.NewStreamWithPriority(0) }

// NewStreamWithPriority makes a stream whose work goes before that of streams with
// a larger number. A number outside the device's range is brought into it.
func (c *Context) NewStreamWithPriority(priority int) (*Stream, error) {
	// Until the arena knows it: that of another generation must not get to know it.
	if err := c.hold(); err != nil {
		return nil, err
	}
	defer c.gate.Leave()
	number := int32(min(max(priority, math.MinInt32), math.MaxInt32))
	o, err := c.create(streamEntry, 0, "cuStreamCreateWithPriority", func() (uint64, driver.Result) { return c.newStreamHandle(number) })
	if err != nil {
		return nil, err
	}
	return c.newStream(o, number), nil
}

// newStream makes a Stream of what is on the ledger. The caller is inside the gate.
func (c *Context) newStream(o object, priority int32) *Stream {
	s := &Stream{object: o, handle: driver.Stream(o.entry.handle), id: c.streams.Add(1), stats: new(counters)}
	m := c.memory.Load()
	s.memory, s.waits = m.arena.NewStream(s.handle), m.waits.NewStream(s.handle)
	s.checks = &streamChecks{gate: s.gate, waits: s.waits, table: m.checks}
	s.entry.stream.Store(&streamParts{memory: s.memory, waits: s.waits, checks: s.checks, stats: s.stats, priority: priority})
	s.SetTraceContext(context.Background())
	trackGC(s, &s.object)
	return s
}

// Handle is the stream as package driver takes it.
func (s *Stream) Handle() driver.Stream {
	if s == nil || s.ctx == nil {
		return 0
	}
	s.spoil()
	return s.handle
}

// Err returns the error that work on the stream fails with now: it is closed, or its device is lost. It puts nothing there. A function that
// finds nothing to do calls it, so that it fails as with work.
func (s *Stream) Err() error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	err := s.work()
	if err == nil {
		s.end()
	}
	return err
}

// spoil keeps the driver's stream from being that of a later Stream.
func (s *Stream) spoil() {
	if e := s.entry.stream.Load(); !e.spoiled.Load() { // a load costs less where it is so already
		e.spoiled.Store(true)
	}
}

// ID is a number that no other stream of the context ever has, unlike the handle.
func (s *Stream) ID() uint64 { return zero.Or(s).id }

// call is that of the object. If the stream is captured, the capture makes one call at a time.
func (s *Stream) call() error {
	if err := s.object.call(); err != nil {
		return err
	}
	return s.inTurn()
}

// work is that of the object. What its first line looks at nearly always holds.
func (s *Stream) work() error {
	if !s.gate.EnterAnyway() || !s.ctx.state.Accepting() || s.ctx.bind.NeedsCurrent {
		s.leave()
		if err := s.object.work(); err != nil {
			return err
		}
	}
	if s.capture.Load() == nil {
		return nil
	}
	return s.inTurn()
}

// inTurn waits for the turn in the capture after the stream was entered.
func (s *Stream) inTurn() error {
	if c := s.capture.Load(); c != nil {
		if !c.turn.Take(c.lost) {
			s.object.end()
			return c.lostError()
		}
		c.called.Store(true)
	}
	return nil
}

// exclusively runs f, which calls the driver about the stream, while no other call is inside.
func (s *Stream) exclusively(f func() error) error {
	return s.alone(&s.turn, s.hold, func() error {
		if err := s.bind(); err != nil {
			return err
		}
		defer s.ctx.bind.Pop()
		if err := s.ctx.state.Check(s.entry.generation); err != nil {
			return err
		}
		return f()
	})
}

func (s *Stream) end() {
	if c := s.capture.Load(); c != nil {
		c.give()
	}
	if s.ctx.bind.NeedsCurrent {
		s.ctx.bind.Pop()
	}
	s.leave()
}

// endWork is end of what began with work: later waits wait for the work. Allocations and frees of
// the arena do not call it: nobody can see whether they are done. A wait for another stream comes
// before work that ends here.
func (s *Stream) endWork() {
	s.waits.Changed()
	s.end()
}

// failed makes the error of a call on the stream, and nil of success.
func (s *Stream) failed(op string, r driver.Result) error {
	if r == driver.Success {
		return nil
	}
	return s.fault(op, r)
}

// fault makes the error of a call on the stream that did not return Success.
func (s *Stream) fault(op string, r driver.Result) *driver.Error {
	err := s.ctx.bind.Fault(op, r)
	err.Stream = s.id
	s.spoil()
	if c := s.capture.Load(); c != nil && err.Kind == driver.ErrCaptureFailed {
		c.fail(err)
	}
	return err
}

// Query reports whether all work on the stream is done. It does not block.
func (s *Stream) Query() (done bool, err error) {
	if s == nil || s.ctx == nil {
		return false, errNothing("stream")
	}
	if err := s.call(); err != nil {
		return false, err
	}
	defer s.end()
	if err := s.refuse("Stream.Query", nothingRuns); err != nil {
		return false, err
	}
	began := s.checks.begin()
	r := s.ctx.api.StreamQuery(s.handle)
	if r == driver.ResultNotReady {
		s.checks.again(began)
		return false, nil
	}
	var t wait.Ticket
	if err = s.failed("cuStreamQuery", r); err == nil && s.checks.news(began) {
		t, err = s.waits.Mark() // of no work, so that failed checks are told once
	}
	return r == driver.Success, s.checks.end(began, t.Number(), err)
}

// Wait makes later work on the stream wait for what the event marks, which may be
// on another device. It does not block. If the event was recorded while its stream was
// captured, this stream joins the capture.
func (s *Stream) Wait(e *Event) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if e == nil || e.ctx == nil {
		return errNothing("event")
	}
	if err := e.hold(); err != nil {
		return err
	}
	defer e.leave()
	joins, err := s.waitInPlace(e)
	if !joins {
		return err
	}
	// Streams are ended together with the capture, which must not begin on this one meanwhile.
	if err := s.ctx.hold(); err != nil {
		return err
	}
	defer s.ctx.gate.Leave()
	return s.exclusively(func() error { return s.waitExclusively(e) })
}

// waitInPlace makes the stream wait for an event unless it would join a capture.
func (s *Stream) waitInPlace(e *Event) (joins bool, err error) {
	if err := s.work(); err != nil {
		return false, err
	}
	defer s.endWork()
	c, err := s.joins(e)
	if c != nil || err != nil {
		return c != nil, err
	}
	return false, s.waitEvent(e)
}

// waitExclusively makes the stream, which the caller has exclusively, wait for an event and join its capture.
func (s *Stream) waitExclusively(e *Event) error {
	defer s.waits.Changed()
	c, err := s.joins(e)
	switch {
	case err != nil:
		return err
	case c == nil:
		return s.waitEvent(e)
	}
	if !c.turn.Take(c.lost) {
		return c.lostError()
	}
	defer c.give()
	return c.join(s, func() error { return s.waitEvent(e) })
}

func (s *Stream) waitEvent(e *Event) error {
	if r := s.ctx.api.StreamWaitEvent(s.handle, e.handle, 0); r != driver.Success {
		return s.fault("cuStreamWaitEvent", r)
	}
	if of := e.checks.Load(); of != nil && of != s.checks && (of.list.Load() != nil || of.found.Load() > e.found.Load()) {
		s.checks.follow(of, e.found.Load())
	}
	return nil
}

// LaunchHostFunc runs f on a thread of the driver when the stream reaches it; the stream
// waits for f. f must not use CUDA and must not panic.
//
// f may never run: the driver drops it if work before it fails, and if CUDA is lost before the
// stream reaches it. So f must not be what somebody else waits for: an unlock, the end of a
// request. Prefer [Stream.AfterFunc], which runs its function in each of these cases, with the
// error, and holds up nothing. LaunchHostFunc is for what later work on the stream must come after, and for
// graphs.
func (s *Stream) LaunchHostFunc(f func()) error {
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if f == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "call of no function")
	}
	if err := s.work(); err != nil {
		return err
	}
	defer s.endWork()
	if c := s.capture.Load(); c != nil {
		if err := c.record("a call of the host"); err != nil {
			return err
		}
	}
	return s.failed("cuLaunchHostFunc", s.ctx.api.LaunchHostFunc(s.handle, f))
}
