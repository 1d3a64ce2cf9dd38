package runtime

import (
	"context"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// Event marks a point in the work of a stream. It is safe for concurrent use.
type Event struct {
	object
	handle driver.Event
}

// NewEvent makes an event without a time stamp, the faster kind.
func (c *Context) NewEvent() (*Event, error) { return c.newEvent(driver.EventDisableTiming) }

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
	e := &Event{object: o, handle: driver.Event(o.resource.handle)}
	watch(e, &e.object)
	return e, nil
}

// Handle is the event as package driver takes it.
func (e *Event) Handle() driver.Event { return e.handle }

// Record moves the event to the end of the work that is on s, which must be a
// stream of the event's context. It does not block.
func (e *Event) Record(s *Stream) error {
	if s.ctx != e.ctx {
		return driver.Errorf(driver.ErrInvalidArgument, "record an event of device %d on a stream of device %d",
			e.ctx.device.Ordinal, s.ctx.device.Ordinal)
	}
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	return s.failed("cuEventRecord", s.ctx.api.EventRecord(e.handle, s.handle))
}

// Query tells whether what the event marks is done. An event that was never
// recorded is done. It does not block.
func (e *Event) Query() (done bool, err error) {
	if err := e.begin(); err != nil {
		return false, err
	}
	defer e.end()
	r := e.ctx.api.EventQuery(e.handle)
	if r == driver.ErrorNotReady {
		return false, nil
	}
	return r == driver.Success, e.ctx.failed("cuEventQuery", r)
}

// Synchronize waits until what the event marks is done. When ctx ends first it
// returns ctx's cause; the work on the device goes on.
func (e *Event) Synchronize(ctx context.Context) error {
	return wait(ctx, e)
}

func (e *Event) synchronize() error {
	if err := e.begin(); err != nil {
		return err
	}
	defer e.end()
	e.ctx.stats.waits.Add(1)
	return e.ctx.failed("cuEventSynchronize", e.ctx.api.EventSynchronize(e.handle))
}

// Since is the time from start to e on the device, to about half a microsecond.
// Both must be timing events that are done.
func (e *Event) Since(start *Event) (time.Duration, error) {
	if err := start.enter(); err != nil {
		return 0, err
	}
	defer start.leave()
	if err := e.begin(); err != nil {
		return 0, err
	}
	defer e.end()
	ms, r := e.ctx.api.EventElapsedTime(start.handle, e.handle)
	return time.Duration(float64(ms) * float64(time.Millisecond)), e.ctx.failed("cuEventElapsedTime", r)
}
