package runtime

import (
	"context"
	goruntime "runtime"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/internal/zero"
)

// Event marks a point in the work of a stream. It is safe for concurrent use.
type Event struct {
	object
	handle driver.Event
	timing bool // it has a time stamp
	// capture is what it was recorded in last, or nil. It changes only while nobody is inside the
	// gate but who changes it, so that it is what the driver has recorded.
	capture atomic.Pointer[capture]
	turn    gate.Turn // see alone
	// awaited says that somebody has waited for it, so that Record marks the stream as well.
	awaited atomic.Bool
	checks  atomic.Pointer[streamChecks] // of the stream of the last record
	found   atomic.Uint64                // how many failed checks were found on it before

	mu     locks.Mutex[locks.Object] // from the first wait on: each call of the driver that records is made with it
	marked bool                      // ticket is the last record's
	ticket wait.Ticket
	asked  *wait.Event // who waits for the last record without a ticket; nil: nobody
}

// NewEvent makes an event without a time stamp, the faster kind. From the first
// [Event.Synchronize] on each Record takes a microsecond more, which makes later waits faster.
func (c *Context) NewEvent() (*Event, error) { return c.newEvent(driver.EventDisableTiming) }

// NewBlockingEvent makes an event without a time stamp that somebody will wait for: what other events
// do from the first wait on, it does from the first Record on. To others who use its Handle it is
// an event with CU_EVENT_BLOCKING_SYNC.
func (c *Context) NewBlockingEvent() (*Event, error) {
	e, err := c.newEvent(driver.EventDisableTiming | driver.EventBlockingSync)
	if err == nil {
		e.awaited.Store(true)
	}
	return e, err
}

// NewTimingEvent makes an event for [Event.Since].
func (c *Context) NewTimingEvent() (*Event, error) { return c.newEvent(driver.EventDefault) }

func (c *Context) newEvent(flags uint32) (*Event, error) {
	o, err := c.create(eventEntry, 0, "cuEventCreate", func() (uint64, driver.Result) {
		e, r := c.api.EventCreate(flags)
		return uint64(e), r
	})
	if err != nil {
		return nil, err
	}
	e := &Event{object: o, handle: driver.Event(o.entry.handle), timing: flags&driver.EventDisableTiming == 0}
	trackGC(e, &e.object)
	return e, nil
}

// Handle is the event as package driver takes it.
func (e *Event) Handle() driver.Event { return zero.Or(e).handle }

// Record moves the event to the end of the work that is on s, which must be a
// stream of the event's context. It does not block. An event that marks a place in a capture
// cannot be recorded elsewhere before the capture ends.
func (e *Event) Record(s *Stream) error {
	if e == nil || e.ctx == nil {
		return errNothing("event")
	}
	if s == nil || s.ctx == nil {
		return errNothing("stream")
	}
	if s.ctx != e.ctx {
		return driver.Errorf(driver.ErrInvalidArgument, "record an event of device %d on a stream of device %d%s",
			e.ctx.device.Ordinal, s.ctx.device.Ordinal, apart(e.ctx, s.ctx))
	}
	if err := e.hold(); err != nil {
		return err
	}
	alone, err := e.recordInPlace(s)
	e.leave() // nothing above panics, and a defer costs more
	if !alone {
		return err
	}
	// Streams are ended together with the capture, and a Reset suspends all gates.
	if err := e.ctx.hold(); err != nil {
		return err
	}
	defer e.ctx.gate.Leave()
	return e.alone(&e.turn, e.hold, func() error { return e.recordExclusively(s) })
}

// recordInPlace records the event, unless that changes its capture or might.
func (e *Event) recordInPlace(s *Stream) (alone bool, err error) {
	if err := s.work(); err != nil {
		return false, err
	}
	switch {
	case s.capture.Load() != nil || e.capture.Load() != nil:
		alone = true
	case e.awaited.Load():
		err = e.recordAwaited(s)
	default:
		err = e.record(s)
	}
	s.endWork()
	return alone, err
}

func (e *Event) record(s *Stream) error {
	if e.checks.Load() != s.checks { // a store costs more than the rest of this
		e.checks.Store(s.checks)
	}
	if n := s.checks.found.Load(); e.found.Load() != n {
		e.found.Store(n)
	}
	if r := s.ctx.api.EventRecord(e.handle, s.handle); r != driver.Success {
		return s.fault("cuEventRecord", r)
	}
	return nil
}

// recordAwaited records the event, and marks the stream if somebody has waited for the event. Who
// waits for the last record goes on to wait for that.
func (e *Event) recordAwaited(s *Stream) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked != nil {
		e.asked.Close()
		e.asked = nil
	}
	e.marked = false
	if err := e.record(s); err != nil || s.capture.Load() != nil || !e.awaited.Load() {
		return err
	}
	s.waits.Changed()
	var err error
	e.ticket, err = s.waits.Mark()
	e.marked = err == nil
	e.ctx.rt.report(err) // the event is recorded, and the driver is asked about it
	return nil
}

// recordExclusively records the event, which the caller has exclusively.
func (e *Event) recordExclusively(s *Stream) error {
	if err := s.work(); err != nil {
		return err
	}
	defer s.endWork()
	c := s.capture.Load()
	if before := e.capture.Load(); before != nil && before != c && !before.over.Load() {
		err := driver.Errorf(driver.ErrCaptureFailed, "Event.Record of an event that marks a place in a capture that goes on: take another event")
		err.Device, err.Stream = e.ctx.device.Ordinal, s.id
		return err
	}
	if c != nil {
		if err := c.hold(e.entry); err != nil {
			return err
		}
	}
	if err := e.recordAwaited(s); err != nil {
		return err
	}
	e.capture.Store(c)
	return nil
}

// Query reports whether what the event marks is done. An event that was never
// recorded is done. It does not block.
func (e *Event) Query() (done bool, err error) {
	if e == nil || e.ctx == nil {
		return false, errNothing("event")
	}
	if err := e.call(); err != nil {
		return false, err
	}
	defer e.end()
	if err := e.mayWait("Event.Query"); err != nil {
		return false, err
	}
	checks, began := e.beginWait()
	r := e.ctx.api.EventQuery(e.handle)
	if r == driver.ResultNotReady {
		return false, nil
	}
	return r == driver.Success, checks.end(began, 0, e.ctx.bind.Failed("cuEventQuery", r))
}

// neverRecorded is for events that were never recorded.
var neverRecorded streamChecks

// beginWait begins a wait for the event, which may be for a part of the work on its stream.
func (e *Event) beginWait() (checks *streamChecks, began waiting) {
	if checks = e.checks.Load(); checks == nil {
		checks = &neverRecorded
	}
	began = checks.beginPart()
	began.found = e.found.Load()
	return checks, began
}

// Synchronize waits until what the event marks is done, or was to mark at the call: a later Record
// changes nothing. When ctx ends first it returns ctx's cause; the work on the device goes on.
//
// A wait costs a goroutine, and neither a thread nor a core. It does not keep Record, Close,
// Capture or Reset waiting.
func (e *Event) Synchronize(ctx context.Context) error {
	switch {
	case e == nil || e.ctx == nil:
		return errNothing("event")
	case ctx == nil:
		return errNoContext("Event.Synchronize")
	}
	return e.ctx.traceWait(ctx, 0, func() error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		checks, began := e.beginWait()
		t, number, err := e.wait()
		if err != nil {
			return err
		}
		err = e.ctx.waited(ctx, t.Wait(ctx), 0)
		goruntime.KeepAlive(e) // or it would be destroyed while the driver is asked
		return checks.end(began, number, err)
	})
}

// wait returns a ticket for what the event marks, and its number if it is a ticket of the stream. It leaves the gate before
// anybody waits.
func (e *Event) wait() (t wait.Ticket, number uint64, err error) {
	if err := e.call(); err != nil {
		return t, 0, err
	}
	defer e.end()
	if err := e.mayWait("Event.Synchronize"); err != nil {
		return t, 0, err
	}
	c := e.ctx
	c.waits.Add(1)
	e.awaited.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.marked {
		return e.ticket, e.ticket.Number(), nil
	}
	if r := c.api.EventQuery(e.handle); r != driver.ResultNotReady {
		return t, 0, c.bind.Failed("cuEventQuery", r)
	}
	if e.asked == nil {
		e.asked = c.memory.Load().waits.NewEvent(e.handle)
		e.entry.waits.Store(e.asked)
	}
	return e.asked.Mark(), 0, nil
}

// Since is the time from start to e on the device, to about half a microsecond.
// Both must be timing events of one context that are done.
func (e *Event) Since(start *Event) (time.Duration, error) {
	if e == nil || e.ctx == nil {
		return 0, errNothing("event")
	}
	if start == nil || start.ctx == nil {
		return 0, errNothing("event")
	}
	// In one order, because who records one of them in a capture needs it exclusively.
	first, second := start, e
	if second.handle < first.handle {
		first, second = second, first
	}
	if err := first.hold(); err != nil {
		return 0, err
	}
	defer first.leave()
	if second != first {
		if err := second.hold(); err != nil {
			return 0, err
		}
		defer second.leave()
	}
	if err := e.bind(); err != nil {
		return 0, err
	}
	defer e.ctx.bind.Pop()
	switch {
	case !e.timing || !start.timing:
		return 0, driver.Errorf(driver.ErrInvalidArgument,
			"Event.Since of an event without a time stamp: make it with Context.NewTimingEvent")
	case e.ctx != start.ctx:
		return 0, driver.Errorf(driver.ErrInvalidArgument,
			"Event.Since of events of device %d and device %d%s: their time stamps do not compare",
			e.ctx.device.Ordinal, start.ctx.device.Ordinal, apart(e.ctx, start.ctx))
	}
	for _, end := range []*Event{start, e} {
		if err := end.mayWait("Event.Since"); err != nil {
			return 0, err
		}
	}
	ms, r := e.ctx.api.EventElapsedTime(start.handle, e.handle)
	err := e.ctx.bind.Failed("cuEventElapsedTime", r)
	if failure, ok := err.(*driver.Error); ok {
		switch r {
		case driver.ResultInvalidHandle:
			failure.Detail = "both events must be recorded first (Event.Record)"
		case driver.ResultNotReady:
			failure.Detail = "wait for both events first (Event.Synchronize)"
		}
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}
