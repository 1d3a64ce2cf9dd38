package arena

import (
	"context"

	"github.com/purecuda/purecuda/driver"
)

// events are the events of a Device that nobody uses. An event may be used again as soon as the
// calls that it was for have returned. A stream that waits for it goes by what it marked when it
// began to wait.
type events struct {
	free   []driver.Event
	closed bool
	// shared are guards for blocks of FreeAfter, also of other devices. Whoever takes one out
	// releases it.
	shared map[*guard]struct{}
	// failed are events in use for which a call has failed. Whether they mark anything is not known, so
	// they are not used again: when they are returned they become dead.
	failed  map[driver.Event]struct{}
	dead    []driver.Event // are destroyed at the end
	retired uint64         // all events that have failed
}

const maxEvents = 64

// takeEvent returns an event that the caller has alone.
func (d *Device) takeEvent() (driver.Event, error) {
	d.mu.Lock()
	if n := len(d.events.free); n > 0 {
		e := d.events.free[n-1]
		d.events.free = d.events.free[:n-1]
		d.mu.Unlock()
		return e, nil
	}
	d.mu.Unlock()
	var e driver.Event
	err := d.outside(func() (err error) {
		var r driver.Result
		e, r = d.binding.API.EventCreate(driver.EventDisableTiming)
		return d.failed("cuEventCreate", r)
	})
	return e, err
}

// returnEvent ends the use of an event.
func (d *Device) returnEvent(e driver.Event) {
	if e == 0 {
		return
	}
	d.mu.Lock()
	list := &d.events.free
	if _, failed := d.events.failed[e]; failed {
		delete(d.events.failed, e)
		list = &d.events.dead
	}
	if !d.events.closed && len(*list) < maxEvents {
		*list = append(*list, e)
		d.mu.Unlock()
		return
	}
	d.mu.Unlock()
	d.destroyEvent(e)
}

// retire notes that a call about an event has failed, if it has, and returns its error.
func (d *Device) retire(e driver.Event, err error) error {
	if err == nil || d.loss.Load() != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.events.failed == nil {
		d.events.failed = map[driver.Event]struct{}{}
	}
	d.events.failed[e] = struct{}{}
	d.events.retired++
	return err
}

func (d *Device) destroyEvent(e driver.Event) {
	if d.loss.Load() == nil {
		d.cleanup(d.onStream("cuEventDestroy", func() driver.Result { return d.binding.API.EventDestroy(e) }))
	}
}

// closeEvents destroys them.
func (d *Device) closeEvents() {
	d.mu.Lock()
	all := append(d.events.free, d.events.dead...)
	d.events.free, d.events.dead, d.events.closed = nil, nil, true
	d.mu.Unlock()
	for _, e := range all {
		d.destroyEvent(e)
	}
}

// newSharedGuard makes a mark on an open stream a guard that lasts until it is released, or until the
// device is closed.
func (d *Device) newSharedGuard(m mark) *guard {
	g := newGuard(d, m.event)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.events.shared == nil {
		d.events.shared = map[*guard]struct{}{}
	}
	d.events.shared[g] = struct{}{}
	return g
}

// releaseShared ends the use of guards. Guards of closed streams are not shared. The caller is inside d.calls.
func (d *Device) releaseShared(guards []*guard) {
	for _, g := range guards {
		o := g.dev
		if o != d && !o.calls.Enter() {
			continue // it is being closed, which ends the use of all
		}
		o.mu.Lock()
		_, shared := o.events.shared[g]
		delete(o.events.shared, g)
		o.mu.Unlock()
		if shared {
			o.releaseGuard(g)
		}
		if o != d {
			o.calls.Leave()
		}
	}
}

// closeShared waits for the guards that others still use, so that their results are final. d.calls is
// suspended.
func (d *Device) closeShared() {
	d.mu.Lock()
	shared := d.events.shared
	d.events.shared = nil
	d.mu.Unlock()
	for g := range shared {
		g.finish(g.await())
		d.releaseGuard(g)
	}
}

// passed reports whether the work that an event marks is done.
func (d *Device) passed(e driver.Event) (bool, error) {
	done, err := d.asks("cuEventQuery", func() driver.Result { return d.binding.API.EventQuery(e) })
	return done, d.retire(e, err)
}

// idle reports whether the stream, which has been entered, has no work.
func (d *Device) idle(s *Stream) (bool, error) {
	return d.asks("cuStreamQuery", func() driver.Result { return d.binding.API.StreamQuery(s.handle) })
}

func (d *Device) asks(op string, f func() driver.Result) (bool, error) {
	r, err := d.try(f)
	switch {
	case err != nil:
		return false, err
	case r == driver.ResultNotReady:
		return false, nil
	}
	return r == driver.Success, d.failed(op, r)
}

// await waits until what the event marks is done.
func (d *Device) await(e driver.Event) error {
	if err := d.lost(); err != nil {
		return err
	}
	w := d.waits.NewEvent(e)
	err := w.Wait(context.Background())
	w.Suspend() // nobody asks any more
	if failed, ok := err.(*driver.Error); ok && failed.Sticky {
		d.lose(failed)
	}
	return d.retire(e, err)
}

// waitFor makes the stream, which has been entered, wait for an event.
func (d *Device) waitFor(s *Stream, e driver.Event) error {
	return d.onStream("cuStreamWaitEvent", func() driver.Result { return d.binding.API.StreamWaitEvent(s.handle, e, 0) })
}
