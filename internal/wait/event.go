package wait

import (
	"context"

	"github.com/purecuda/purecuda/driver"
)

// Event is an event of the caller that can be waited for. The driver is asked about it as long as
// somebody waits, so a wait for a [Stream] is better where there is the choice.
type Event struct {
	source
	handle driver.Event
}

// NewEvent makes an event of the context one that can be waited for. It makes no call of the
// driver.
func (d *Device) NewEvent(handle driver.Event) *Event {
	e := &Event{handle: handle}
	e.dev, e.query = d, e.state
	e.prompt.Store(true)
	return e
}

// Wait waits until what the event marks is done; see [Ticket.Wait]. If the event is recorded again
// meanwhile, it waits for that.
func (e *Event) Wait(ctx context.Context) error { return e.ticket().Wait(ctx) }

// AfterFunc runs f when what the event marks is done; see [Ticket.AfterFunc].
func (e *Event) AfterFunc(f func(error)) (stop func() bool) { return e.ticket().AfterFunc(f) }

// ticket is one that is done if the driver says so from now on.
func (e *Event) ticket() Ticket { return Ticket{&e.source, e.issued.Add(1)} }

func (e *Event) state(issued uint64) (done uint64, err error) {
	r := e.dev.binding.EventQuery(e.handle)
	switch {
	case r == driver.Success:
		return issued, nil
	case notKnown(r):
		return 0, nil
	}
	return 0, e.dev.failed("cuEventQuery", r)
}

// Close ends the use of the event, which may be destroyed afterwards. Who still waits gets an
// error of kind driver.ErrClosed.
func (e *Event) Close() {
	e.Suspend()
	e.fail(^uint64(0), driver.Errorf(driver.ErrClosed, "wait for an event that is closed"))
}
