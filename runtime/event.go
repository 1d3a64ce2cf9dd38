package runtime

import (
	"context"
	"sync"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// Event marks a point in the work of a stream. It is safe for concurrent use.
type Event struct {
	object
	handle  driver.Event
	timing  bool         // it has a time stamp
	mu      sync.RWMutex // so that capture is what the driver has recorded
	capture *capture     // that it was recorded in last, or nil
}

// NewEvent makes an event without a time stamp, the faster kind.
func (c *Context) NewEvent() (*Event, error) { return c.newEvent(driver.EventDisableTiming) }

// NewBlockingEvent makes an event without a time stamp whose Synchronize puts the thread
// to sleep. Other waits keep a core busy for as long as they last, which is faster by some
// tens of microseconds and takes the core away from other goroutines.
func (c *Context) NewBlockingEvent() (*Event, error) {
	return c.newEvent(driver.EventDisableTiming | driver.EventBlockingSync)
}

// NewTimingEvent makes an event for [Event.Since].
func (c *Context) NewTimingEvent() (*Event, error) { return c.newEvent(driver.EventDefault) }

func (c *Context) newEvent(flags uint32) (*Event, error) {
	o, err := c.create(eventResource, 0, "cuEventCreate", func() (uint64, driver.Result) {
		e, r := c.api.EventCreate(flags)
		return uint64(e), r
	})
	if err != nil {
		return nil, err
	}
	e := &Event{object: o, handle: driver.Event(o.resource.handle), timing: flags&driver.EventDisableTiming == 0}
	watch(e, &e.object)
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
		return driver.Errorf(driver.ErrInvalidArgument, "record an event of device %d on a stream of device %d",
			e.ctx.device.Ordinal, s.ctx.device.Ordinal)
	}
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	if err := s.beginWork(); err != nil {
		return err
	}
	defer s.endWork()
	e.mu.Lock()
	defer e.mu.Unlock()
	c := s.capture.Load()
	if before := e.capture; before != nil && before != c && !before.over.Load() {
		err := driver.Errorf(driver.ErrCaptureFailed, "Event.Record of an event that marks a place in a capture that goes on: take another event")
		err.Device, err.Stream = e.ctx.device.Ordinal, s.id
		return err
	}
	if c != nil {
		if err := c.holdEvent(&e.object); err != nil {
			return err
		}
	}
	if r := s.ctx.api.EventRecord(e.handle, s.handle); r != driver.Success {
		return s.failed("cuEventRecord", r)
	}
	e.capture = c
	return nil
}

// Query tells whether what the event marks is done. An event that was never
// recorded is done. It does not block.
func (e *Event) Query() (done bool, err error) {
	if e == nil || e.ctx == nil {
		return false, errNothing("event")
	}
	if err := e.begin(); err != nil {
		return false, err
	}
	defer e.end()
	e.mu.RLock()
	defer e.mu.RUnlock()
	if err := e.mayWait("Event.Query"); err != nil {
		return false, err
	}
	r := e.ctx.api.EventQuery(e.handle)
	if r == driver.ErrorNotReady {
		return false, nil
	}
	return r == driver.Success, e.ctx.failed("cuEventQuery", r)
}

// Synchronize waits until what the event marks is done. When ctx ends first it
// returns ctx's cause; the work on the device goes on.
func (e *Event) Synchronize(ctx context.Context) error {
	if e == nil || e.ctx == nil {
		return errNothing("event")
	}
	return within(ctx, e.ctx.rt, e)
}

func (e *Event) synchronize() error {
	if err := e.begin(); err != nil {
		return err
	}
	defer e.end()
	if err := e.marksWork("Event.Synchronize"); err != nil {
		return err
	}
	e.ctx.stats.waits.Add(1)
	return e.ctx.failed("cuEventSynchronize", e.ctx.api.EventSynchronize(e.handle))
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
	if err := start.enter(); err != nil {
		return 0, err
	}
	defer start.leave()
	if err := e.begin(); err != nil {
		return 0, err
	}
	defer e.end()
	switch {
	case !e.timing || !start.timing:
		return 0, driver.Errorf(driver.ErrInvalidArgument,
			"Event.Since of an event without a time stamp: make it with Context.NewTimingEvent")
	case e.ctx != start.ctx:
		return 0, driver.Errorf(driver.ErrInvalidArgument,
			"Event.Since of events of device %d and device %d: time stamps of two devices do not compare",
			e.ctx.device.Ordinal, start.ctx.device.Ordinal)
	}
	for _, end := range []*Event{start, e} {
		if err := end.marksWork("Event.Since"); err != nil {
			return 0, err
		}
	}
	ms, r := e.ctx.api.EventElapsedTime(start.handle, e.handle)
	err := e.ctx.failed("cuEventElapsedTime", r)
	if failure, ok := err.(*driver.Error); ok {
		switch r {
		case driver.ErrorInvalidHandle:
			failure.Detail = "both events must be recorded first (Event.Record)"
		case driver.ErrorNotReady:
			failure.Detail = "wait for both events first (Event.Synchronize)"
		}
	}
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}
