package wait

import (
	"context"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
)

// Event is an event of the caller that can be waited for. After Mark the driver is asked about it
// as long as somebody waits. After Write it is not, as long as the device works.
type Event struct {
	source
	handle driver.Event
	closed bool
	result atomic.Pointer[ending] // of what the event marked when it was closed
}

// NewEvent makes an event of the context one that can be waited for. It makes no call of the
// driver.
func (d *Device) NewEvent(handle driver.Event) *Event {
	e := &Event{handle: handle}
	e.dev, e.query = d, e.state
	e.prompt.Store(true)
	return e
}

// Mark returns a ticket for what the event marks. It makes no call of the driver.
func (e *Event) Mark() Ticket {
	e.prompt.Store(true)
	return Ticket{&e.source, e.issued.Add(1)}
}

// Spins tells whether a wait that begins now most likely ends while it spins, where one of the last waits spun beside others. Then
// questions cost less than a write, which all requests would wait for in turn. Who is alone sees a write sooner than an answer.
func (e *Event) Spins() bool {
	left := e.beside.Load()
	if left == 0 {
		return false
	}
	e.beside.Store(left - 1)
	p := e.dev.poller
	return e.usual.Load() <= int64(longSpin) && p.spinning.Load() < p.spinners.Load()
}

// Write returns a ticket for the event, which was just recorded on the stream, and puts a write
// there. That costs a microsecond under a lock of the driver, and delays the next copy on the stream by some. All that was
// waited for before is done, and nobody else calls a method of the event.
func (e *Event) Write(s driver.Stream) Ticket {
	d, c := e.dev, e.cell.Load()
	if c == nil {
		c = d.cellFor(e)
	}
	t := e.Mark()
	if c == nil {
		return t
	}
	switch r := d.binding.StreamWriteValue64(s, c.at+driver.DevicePtr(8*(t.n%cellWords)), t.n, 0); {
	case r == driver.Success:
		c.wrote(t.n)
		e.prompt.Store(false)
	case r == driver.ResultNotSupported, r == driver.ResultSymbolMissing:
		d.writes.Store(false)
	case r.Sticky():
		d.binding.Cleanup(d.failed("cuStreamWriteValue64", r))
	default: // the wait asks the driver about the event
		d.binding.Cleanup(d.binding.Failed("cuStreamWriteValue64", r))
	}
	return t
}

// cellFor gives an event a cell, unless there is none. Its numbers go on from the cell's.
func (d *Device) cellFor(e *Event) *cell {
	c := d.takeCell()
	if c == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.events == nil {
		d.retired = append(d.retired, c)
		return nil
	}
	d.events[e] = struct{}{}
	n := max(e.issued.Load(), c.last)
	e.issued.Store(n)
	e.done.Store(n)
	e.cell.Store(c)
	return c
}

// Wait waits until what the event marks is done; see [Ticket.Wait].
func (e *Event) Wait(ctx context.Context) error { return e.Mark().Wait(ctx) }

// AfterFunc runs f when what the event marks is done; see [Ticket.AfterFunc].
func (e *Event) AfterFunc(f func(error)) (stop func() bool) { return e.Mark().AfterFunc(f) }

func (e *Event) state(issued uint64) (done uint64, err error) {
	if over := e.result.Load(); over != nil {
		if over.cause == nil {
			done = issued
		}
		return done, over.cause
	}
	if e.closed {
		return 0, nil
	}
	r := e.dev.binding.API.EventQuery(e.handle)
	switch {
	case r == driver.Success:
		return issued, nil
	case notKnown(r):
		return 0, nil
	}
	return 0, e.dev.failed("cuEventQuery", r)
}

// Close ends the use of what the event marks: it comes before the event is recorded again or
// destroyed, and no call of Mark or Write comes later. Tickets stay good. Where some are not done
// yet, a stream that lives for no longer takes the place of the event.
func (e *Event) Close() {
	e.Suspend()
	defer e.Resume()
	if e.closed {
		return
	}
	e.closed = true
	d := e.dev
	if c := d.leave(e); c != nil {
		c.last = e.issued.Load()
		d.returnCell(c)
	}
	if e.passed() >= e.issued.Load() || d.ended.Load() != nil {
		return
	}
	t, err := d.follow(e.handle)
	e.prompt.Store(false)
	if err != nil {
		d.binding.Cleanup(err) // there may be nobody who waits
		e.over(err)
		return
	}
	t.AfterFunc(e.over)
}

// over ends the waits for what a closed event marked.
func (e *Event) over(err error) {
	e.result.Store(&ending{err})
	if n := e.issued.Load(); err == nil {
		e.prove(n)
	} else {
		e.fail(n, err)
	}
}

// leave takes the cell of an event away, if there is one.
func (d *Device) leave(e *Event) *cell {
	d.mu.Lock()
	delete(d.events, e)
	d.mu.Unlock()
	return e.detach()
}

// follow returns a ticket for what an event marks that does not need the event.
func (d *Device) follow(handle driver.Event) (t Ticket, err error) {
	b := d.binding
	err = b.DoRelaxed(func() error {
		switch r := b.API.EventQuery(handle); {
		case r == driver.Success:
			return nil
		case !notKnown(r):
			return d.failed("cuEventQuery", r)
		}
		stream, r := b.API.StreamCreate(driver.StreamNonBlocking)
		if r != driver.Success {
			return d.failed("cuStreamCreate", r)
		}
		s := d.NewStream(stream)
		if r = b.API.StreamWaitEvent(stream, handle, 0); r == driver.Success {
			t, err = s.Mark()
		} else {
			err = d.failed("cuStreamWaitEvent", r)
		}
		s.Close()
		b.Cleanup(b.Failed("cuStreamDestroy", b.API.StreamDestroy(stream)))
		return err
	})
	return t, err
}
