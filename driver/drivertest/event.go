package drivertest

import (
	"time"

	"github.com/purecuda/purecuda/driver"
)

// event marks a place in the work of a stream.
type event struct {
	handle driver.Event
	ctx    *context
	flags  uint32
	made   origin
	record *operation // what it marks, or nil
	mark   *mark      // where it marks a capture instead
}

func (c call) event(h driver.Event) (*event, driver.Result) {
	e, r := find(c, &c.d.events, h)
	switch {
	case r != driver.Success:
		return nil, r
	case e.ctx.dead:
		return nil, driver.ResultContextIsDestroyed
	}
	return e, e.ctx.present()
}

func (d *simulated) EventCreate(flags uint32) (driver.Event, driver.Result) {
	return get(d, "cuEventCreate", func(c call) (driver.Event, driver.Result) {
		const known = driver.EventBlockingSync | driver.EventDisableTiming | driver.EventInterprocess
		shared := flags&driver.EventInterprocess != 0
		if flags&^known != 0 || shared && flags&driver.EventDisableTiming == 0 {
			return 0, driver.ResultInvalidValue
		}
		e := &event{handle: driver.Event(d.newHandle()), ctx: c.ctx, flags: flags, made: c.made}
		d.events.live[e.handle] = e
		return e.handle, driver.Success
	})
}

func (d *simulated) EventRecord(h driver.Event, stream driver.Stream) driver.Result {
	return d.eventRecord("cuEventRecord", h, stream, 0)
}

func (d *simulated) EventRecordWithFlags(h driver.Event, stream driver.Stream, flags uint32) driver.Result {
	return d.eventRecord("cuEventRecordWithFlags", h, stream, flags)
}

func (d *simulated) eventRecord(op string, h driver.Event, stream driver.Stream, flags uint32) driver.Result {
	return on(d, call.event, op, h, func(c call, e *event) driver.Result {
		s, r := c.stream(stream)
		switch {
		case r != driver.Success:
			return r
		case flags&^driver.EventRecordExternal != 0:
			return driver.ResultInvalidValue
		case s.ctx != e.ctx:
			c.found(driver.ResultInvalidHandle, "the event and the stream belong to different contexts")
			return driver.ResultInvalidHandle
		case flags != 0 && s.capture == nil:
			return driver.ResultIllegalState
		case flags != 0:
			return c.submit(s, work{kind: nodeRecordEvent, event: e})
		case s.capture != nil:
			return c.markCapture(s, e)
		}
		if r := c.checkImplicit(s); r != driver.Success {
			return r
		}
		o := &operation{call: c, aside: true}
		d.enqueue(s, o)
		e.record, e.mark = o, nil
		return driver.Success
	})
}

func (d *simulated) EventQuery(h driver.Event) driver.Result {
	return on(d, call.event, "cuEventQuery", h, func(c call, e *event) driver.Result {
		if r := c.mayAsk(e); r != driver.Success {
			return r
		}
		if e.record != nil && !e.record.finished() {
			return driver.ResultNotReady
		}
		return d.poison()
	})
}

func (d *simulated) EventSynchronize(h driver.Event) driver.Result {
	return on(d, call.event, "cuEventSynchronize", h, func(c call, e *event) driver.Result {
		if r := c.mayAsk(e); r != driver.Success {
			return r
		}
		return c.wait(e.record)
	})
}

// mayAsk refuses to ask for the state of an event that marks a capture, or while a
// capture forbids it.
func (c call) mayAsk(e *event) driver.Result {
	if e.mark != nil {
		return c.useCaptured(e)
	}
	return c.checkCaptures()
}

func (d *simulated) EventElapsedTime(start, end driver.Event) (float32, driver.Result) {
	return getOf(d, call.event, "cuEventElapsedTime", start, func(c call, from *event) (float32, driver.Result) {
		to, r := c.event(end)
		if r != driver.Success {
			return 0, r
		}
		for _, e := range []*event{from, to} {
			switch {
			case e.mark != nil:
				return 0, c.useCaptured(e)
			case e.record == nil || e.flags&driver.EventDisableTiming != 0 || e.ctx != from.ctx:
				return 0, driver.ResultInvalidHandle
			}
		}
		if !from.record.finished() || !to.record.finished() {
			return 0, driver.ResultNotReady
		}
		return float32(float64(to.record.at.Sub(from.record.at)) / float64(time.Millisecond)), driver.Success
	})
}

func (d *simulated) EventDestroy(h driver.Event) driver.Result {
	return on(d, call.event, "cuEventDestroy", h, func(c call, _ *event) driver.Result {
		remove(c, &d.events, h)
		return driver.Success
	})
}
