package wait

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
)

// Config says how a Device waits. The zero value is right for most.
type Config struct {
	// MaxBytes limits the page-locked memory for tickets, of which a stream needs 64 bytes. Streams
	// beyond it wait by events. 0 means 1 MiB.
	MaxBytes uint64
	// NoWrites makes all streams wait by events.
	NoWrites bool
}

func (c Config) complete() Config {
	if c.MaxBytes == 0 {
		c.MaxBytes = 1 << 20
	}
	return c
}

// Device is what the waits on one context have in common. It is safe for concurrent use.
type Device struct {
	poller  *Poller
	binding *driver.Binding
	config  Config
	writes  atomic.Bool // streams write values
	ended   atomic.Pointer[ending]

	due     []*source // of the goroutine of the poller
	askNext time.Duration
	asked   time.Duration // when the last asker began
	askers  atomic.Int32
	asks    gate.Gate   // who asks the driver; closed by Close
	trouble atomic.Bool // the last answer was an error

	mu      locks.Mutex[locks.Waits]
	streams map[*Stream]struct{} // open ones that have tickets
	closed  map[*Stream]struct{} // closed ones that have marks
	pages   []page
	growing chan struct{} // closed when the page that is being allocated is there
	free    []*cell
	retired []*cell             // of closed streams
	events  map[*Event]struct{} // that have cells
	spare   []driver.Event
	reports reports
}

// ending is why waiting is over; with no cause all work is done.
type ending struct{ cause error }

// probe learns what the device can do.
func (d *Device) probe() error {
	b := d.binding
	if d.config.NoWrites {
		return nil
	}
	device, r := b.API.DeviceGet(int32(b.Ordinal))
	if r != driver.Success {
		return b.Fault("cuDeviceGet", r)
	}
	can, r := b.API.DeviceGetAttribute(driver.DeviceAttributeCanUse64BitStreamMemOps, device)
	switch {
	case r == driver.Success:
		d.writes.Store(can != 0)
	case r != driver.ResultInvalidValue: // a driver that is too old does not know the attribute
		return b.Fault("cuDeviceGetAttribute", r)
	}
	return nil
}

// Bytes is the page-locked memory that the device has for tickets and reports.
func (d *Device) Bytes() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return uint64(len(d.pages)+len(d.reports.pages)) * pageBytes
}

// Lose ends all waits on the device with a cause, of which the first counts. Other devices do not
// notice.
func (d *Device) Lose(cause error) { d.end(cause) }

func (d *Device) end(cause error) bool {
	return d.ended.CompareAndSwap(nil, &ending{cause})
}

// failed makes the error of a call, and ends all waits of the process if it is sticky.
func (d *Device) failed(op string, r driver.Result) error {
	err := d.binding.Fault(op, r)
	if err.Sticky {
		first := *err // callers add to theirs
		d.poller.Lose(&first)
	}
	return err
}

const (
	// askBatch is how many silent streams of a device the driver is asked about in one go, and
	// askPace the time from one go to the next. Together they take at most a hundredth of a core.
	askBatch = 16
	askPace  = 500 * time.Microsecond
	// hangs is when an asker counts as hanging, so that one more may try.
	hangs  = 5 * time.Millisecond
	askMax = 2
)

// dispatch has the driver asked about the streams that are due, on a goroutine, because the
// driver may hang.
func (d *Device) dispatch(now time.Duration) {
	batch := d.due
	defer func() { clear(d.due); d.due = d.due[:0] }()
	askers := d.askers.Load()
	if d.ended.Load() != nil || askers >= askMax || askers > 0 && now-d.asked < hangs {
		return
	}
	if !d.trouble.Load() {
		paced := now < d.askNext
		taken, left := 0, batch[:0:0]
		for _, s := range batch {
			if s.near {
				left = append(left, s)
			} else if !paced && taken < askBatch {
				left, taken = append(left, s), taken+1
			}
		}
		if batch = left; taken > 0 {
			d.askNext = now + askPace
		}
	} else {
		batch = append(batch[:0:0], batch...)
	}
	if len(batch) == 0 || !d.asks.Enter() {
		return
	}
	d.asked = now
	d.askers.Add(1)
	go d.ask(batch)
}

// ask asks the driver about streams, on a thread that takes no part in captures.
func (d *Device) ask(batch []*source) {
	defer func() {
		d.askers.Add(-1)
		d.asks.Leave()
	}()
	if d.ended.Load() != nil { // since dispatch
		return
	}
	var first error
	err := d.binding.DoRelaxed(func() error {
		for _, s := range batch {
			if err := s.ask(true); err != nil {
				first = err
			}
		}
		return nil
	})
	if err != nil { // the driver was not asked at all
		first = err
		for _, s := range batch {
			s.fail(s.issued.Load(), err)
		}
	}
	d.trouble.Store(first != nil)
}

// Close ends all waits on the device with a cause, of which the first counts, and waits until the
// driver is not asked any more. A lost device may hang: Close waits a tenth of a second for it. No
// cause says that all work of the device is done. Close frees nothing: see Free.
func (d *Device) Close(cause error) {
	lost := !d.end(cause)
	d.poller.forget(d)
	done, cancel := patience(lost)
	d.asks.Close(done)
	cancel()
	d.mu.Lock()
	all, events := d.streams, d.events
	maps.Copy(all, d.closed)
	d.streams, d.closed, d.events = nil, nil, nil
	d.mu.Unlock()
	for e := range events {
		e.detach()
	}
	for s := range all {
		s.detach()
		s.mu.Lock()
		marks := s.marks
		s.marks = nil
		s.mu.Unlock()
		for _, m := range marks {
			d.returnEvent(m.event)
		}
	}
}

// Quiet waits until the driver is not asked any more about the device, whose waits have ended. It returns false when done is closed first:
// then the context of the device is in use.
func (d *Device) Quiet(done <-chan struct{}) bool {
	d.asks.Close(done)
	return d.asks.Inside() == 0
}

// sweep looks for closed streams whose work is done, so that their marks do not add up.
func (d *Device) sweep() {
	var closed []*Stream
	d.mu.Lock()
	for s := range d.closed {
		if closed = append(closed, s); len(closed) == 4 {
			break
		}
	}
	d.mu.Unlock()
	if len(closed) == 0 || d.ended.Load() != nil || !d.asks.Enter() {
		return
	}
	defer d.asks.Leave()
	d.binding.Cleanup(d.binding.DoRelaxed(func() error {
		for _, s := range closed {
			d.binding.Cleanup(s.ask(true))
			d.settle(s)
		}
		return nil
	}))
}

// settle forgets a closed stream that has no marks any more.
func (d *Device) settle(s *Stream) {
	s.mu.Lock()
	over := len(s.marks) == 0 && s.asks.Inside() == 0
	s.mu.Unlock()
	if over {
		d.mu.Lock()
		delete(d.closed, s)
		d.mu.Unlock()
	}
}

// patience returns what is closed when a wait for calls of the driver has lasted long enough. Only calls
// on a lost device may never return.
func patience(lost bool) (done <-chan struct{}, cancel func()) {
	if !lost {
		return nil, func() {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	return ctx.Done(), cancel
}

// Free frees the memory and the events after Close. All work of the device must be done: it writes
// to the memory. Where that cannot be proven, or the context ends anyway, Free is not called.
func (d *Device) Free() error {
	d.reports.readers.Close(nil)
	d.mu.Lock()
	pages, events := append(d.pages, d.reports.pages...), d.spare
	d.pages, d.spare, d.free, d.retired = nil, nil, nil, nil
	d.reports.pages, d.reports.free = nil, nil
	d.mu.Unlock()
	if len(pages)+len(events) == 0 {
		return nil
	}
	b := d.binding
	return b.DoRelaxed(func() error {
		var errs []error
		for _, e := range events {
			b.Cleanup(b.Failed("cuEventDestroy", b.API.EventDestroy(e)))
		}
		for _, p := range pages {
			errs = append(errs, b.Failed("cuMemFreeHost", b.API.MemFreeHost(p.ptr)))
		}
		return errors.Join(errs...)
	})
}

// takeEvent returns an event that the caller has alone.
func (d *Device) takeEvent() (e driver.Event, err error) {
	d.mu.Lock()
	if n := len(d.spare); n > 0 {
		e = d.spare[n-1]
		d.spare = d.spare[:n-1]
		d.mu.Unlock()
		return e, nil
	}
	d.mu.Unlock()
	err = d.binding.Do(func() error {
		var r driver.Result
		if e, r = d.binding.API.EventCreate(driver.EventDisableTiming); r != driver.Success {
			return d.failed("cuEventCreate", r)
		}
		return nil
	})
	return e, err
}

// returnEvent ends the use of an event.
func (d *Device) returnEvent(e driver.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spare = append(d.spare, e)
}
