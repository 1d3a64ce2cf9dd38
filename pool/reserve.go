package pool

import (
	"fmt"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// ReserveError is the error of a request whose memory could not be reserved, see [WithReserve]. errors.Is
// finds driver.ErrOutOfMemory in it.
type ReserveError struct {
	Label string
	Bytes uint64 // that were asked for
	// Device is the ordinal of the device that came nearest.
	Device int
	// Reserved is what others have reserved there, and Limit is what may be reserved. Both
	// are those of the label if Quota is set.
	Reserved, Limit uint64
	Quota           bool
}

// Error says what was asked for, what there is, and who has the rest.
func (e *ReserveError) Error() string {
	e = zero.Or(e)
	of := "the device"
	if e.Quota {
		of = fmt.Sprintf("the label %q", e.Label)
	}
	return fmt.Sprintf("%v: %d bytes for %q cannot be reserved on device %d: %d of %d bytes of %s are reserved",
		driver.ErrOutOfMemory, e.Bytes, e.Label, e.Device, e.Reserved, e.Limit, of)
}

// Unwrap returns driver.ErrOutOfMemory.
func (*ReserveError) Unwrap() error { return driver.ErrOutOfMemory }

// The part of the memory that may be reserved: 9 of 10 bytes of what is free. A driver needs some for itself, and
// other programs may use the device.
const reservable, ofAll = 9, 10

const (
	// memoryAge is how old the figures of a device may be.
	memoryAge = 10 * time.Millisecond
	// memoryWatch is how often they are looked at while requests wait for memory that the pool does not have.
	memoryWatch = 20 * time.Millisecond
)

// reservations are those of a device.
type reservations struct {
	bytes  uint64
	labels map[string]uint64
	// awaited is whether a request waits for memory that comes before the one that is looked at.
	awaited bool

	known bool      // the next ones are
	free  uint64    // the device had, with what its context caches
	used  uint64    // the program held on it
	idle  uint64    // of that when nothing was reserved
	at    time.Time // then
}

// limit is what may be reserved on a device. What those who have reserved memory have allocated by now is
// not free any more; it is about what the program holds more than when nothing was reserved.
func (r *reservations) limit(total uint64) uint64 {
	all := total
	if r.known {
		var held uint64
		if r.used > r.idle {
			held = min(r.used-r.idle, r.bytes)
		}
		all = r.free + held
	}
	return all / ofAll * reservable
}

// refuses is why a device does not have the memory for a request now, or nil.
func (d *device) refuses(r *request) *ReserveError {
	if r.bytes == 0 {
		return nil
	}
	e := &ReserveError{Label: r.label, Bytes: r.bytes, Device: d.info.Ordinal}
	if quota, ok := d.pool.defaults.quotas[r.label]; ok {
		if e.Reserved, e.Limit = d.reserved.labels[r.label], quota; e.Reserved+r.bytes > quota {
			e.Quota = true
			return e
		}
	}
	if e.Reserved, e.Limit = d.reserved.bytes, d.reserved.limit(d.info.TotalBytes); e.Limit < r.bytes || e.Reserved > e.Limit-r.bytes {
		return e
	}
	return nil
}

// keeps tells whether a device has no memory for a request, or keeps it for those that wait before it.
func (p *Pool) keeps(d *device, r *request) bool {
	switch {
	case r.bytes == 0:
		return false
	case !r.waiting && p.queue.reserving > 0, r.waiting && (d.reserved.awaited || p.awaited[r.label]):
		return true
	}
	if short := d.refuses(r); short != nil {
		r.short = short
		return true
	}
	return false
}

// keep keeps the memory that a request waits for from those after it, or that of its label.
func (p *Pool) keep(r *request) {
	if r.short.Quota {
		p.awaited[r.label] = true
		return
	}
	for _, d := range p.devices {
		d.reserved.awaited = d.reserved.awaited || r.may(d)
	}
}

// keepNothing begins to look at the queue from its start.
func (p *Pool) keepNothing() {
	p.awaited = map[string]bool{}
	for _, d := range p.devices {
		d.reserved.awaited = false
	}
}

// never is why no device will ever have the memory for a request, or nil.
func (p *Pool) never(r *request) error {
	if r.bytes == 0 {
		return nil
	}
	var nearest *ReserveError
	for _, d := range p.devices {
		if !r.may(d) {
			continue
		}
		e := &ReserveError{Label: r.label, Bytes: r.bytes, Device: d.info.Ordinal, Limit: d.info.TotalBytes / ofAll * reservable}
		if quota, ok := p.defaults.quotas[r.label]; ok && quota < e.Limit {
			e.Limit, e.Quota = quota, true
		}
		if r.bytes <= e.Limit {
			return nil
		}
		if nearest == nil || e.Limit > nearest.Limit {
			nearest = e
		}
	}
	if nearest == nil {
		return nil // another error is nearer
	}
	return nearest
}

func (d *device) reserve(label string, bytes uint64) {
	if bytes == 0 {
		return
	}
	if d.reserved.labels == nil {
		d.reserved.labels = map[string]uint64{}
	}
	d.reserved.bytes += bytes
	d.reserved.labels[label] += bytes
}

func (d *device) unreserve(label string, bytes uint64) {
	if bytes == 0 {
		return
	}
	d.reserved.bytes -= bytes
	if d.reserved.labels[label] -= bytes; d.reserved.labels[label] == 0 {
		delete(d.reserved.labels, label)
	}
}

// lookAtMemory asks for the memory of the devices whose context is open, unless that was asked a moment ago.
// It calls the driver, and holds no lock then.
func (p *Pool) lookAtMemory(age time.Duration) {
	for _, c := range p.rt.Contexts() {
		d, idle := p.beginLook(c.Device().Ordinal, age)
		if d == nil {
			continue
		}
		free, total, err := c.MemInfo()
		stats := c.Stats()
		p.mu.Lock()
		if r := &d.reserved; err == nil {
			r.known, r.free, r.used, r.at = true, min(free+stats.CachedBytes, total), stats.RefBytes, time.Now()
			if idle {
				r.idle = r.used
			}
		}
		p.mu.Unlock()
	}
}

// beginLook returns the device of an ordinal if its figures are old, and whether nothing is reserved there.
// Others do not ask meanwhile.
func (p *Pool) beginLook(ordinal int, age time.Duration) (d *device, idle bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		if now := time.Now(); d.info.Ordinal == ordinal && now.Sub(d.reserved.at) >= age {
			d.reserved.at = now
			return d, d.reserved.bytes == 0
		}
	}
	return nil, false
}

// watchMemory looks at the memory now and then, as long as requests wait for it: others than the pool may
// free some. It is called with mu held.
func (p *Pool) watchMemory() {
	if p.watching {
		return
	}
	p.watching = true
	time.AfterFunc(memoryWatch, func() {
		p.lookAtMemory(memoryAge)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.watching = false
		if p.dispatch(); p.queue.reserving > 0 {
			p.watchMemory()
		}
	})
}
