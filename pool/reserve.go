package pool

import (
	"fmt"
	"math"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// ReserveError is the error of a request whose memory could not be reserved, see DoOptions.Reserve. It wraps
// driver.ErrOutOfMemory.
type ReserveError struct {
	Label string
	Bytes uint64 // that were asked for
	// Device is the ordinal of the device with the most room.
	Device int
	// Reserved is what other requests have reserved on Device, and Limit is what may be reserved. If
	// Quota is set, both are the label's.
	Reserved, Limit uint64
	Quota           bool
}

// Error names the request, the limit, and what is reserved.
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

// The part of the free memory that may be reserved: 9 of 10 bytes. The driver needs some memory itself, and
// other programs may use the device.
const reservable, ofAll = 9, 10

const (
	// memoryAge is the greatest age of the figures of a device.
	memoryAge = 10 * time.Millisecond
	// memoryWatch is how often they are looked at while requests wait for memory that the pool does not have.
	memoryPoll = 20 * time.Millisecond
)

// reservations are the reserved bytes of a device, and what is known of its memory.
type reservations struct {
	bytes  uint64
	labels map[string]uint64
	// blocked is set if a request waits for the memory that comes earlier in the queue.
	blocked bool

	known bool      // the next ones are
	free  uint64    // the device had, with what its context caches
	used  uint64    // the program held on it
	idle  uint64    // of that when nothing was reserved
	at    time.Time // then
	taken uint64    // counts reservations
}

// limit returns how many bytes may be reserved on a device. Memory that requests have reserved and
// allocated is not free any more. limit estimates it: the growth since nothing was reserved.
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

// insufficientMemory returns the error if a device does not have the memory for a request now, or nil.
func (d *device) insufficientMemory(r *request) *ReserveError {
	if r.bytes == 0 {
		return nil
	}
	e := &ReserveError{Label: r.label, Bytes: r.bytes, Device: d.info.Ordinal}
	if quota, ok := d.pool.quotas[r.label]; ok {
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

// memoryBlocked reports whether a device has no memory for a request, or has to keep it for earlier requests.
func (p *Pool) memoryBlocked(d *device, r *request) bool {
	switch {
	case r.bytes == 0:
		return false
	case !r.waiting && p.queue.reserving > 0, r.waiting && (d.reserved.blocked || p.blockedLabels[r.label]):
		return true
	}
	if short := d.insufficientMemory(r); short != nil {
		r.short = short
		return true
	}
	return false
}

// blockMemory keeps the memory that a request waits for, or the quota of its label, from later requests.
func (p *Pool) blockMemory(r *request) {
	if r.short.Quota {
		p.blockedLabels[r.label] = true
		return
	}
	for _, d := range p.devices {
		d.reserved.blocked = d.reserved.blocked || r.may(d)
	}
}

// unblockMemory is called before the queue is searched from its start.
func (p *Pool) unblockMemory() {
	p.blockedLabels = map[string]bool{}
	for _, d := range p.devices {
		d.reserved.blocked = false
	}
}

// neverFits returns the error if no device will ever have the memory for a request, or nil.
func (p *Pool) neverFits(r *request) error {
	if r.bytes == 0 {
		return nil
	}
	var nearest *ReserveError
	for _, d := range p.devices {
		if !r.may(d) {
			continue
		}
		e := &ReserveError{Label: r.label, Bytes: r.bytes, Device: d.info.Ordinal, Limit: d.info.TotalBytes / ofAll * reservable}
		if quota, ok := p.quotas[r.label]; ok && quota < e.Limit {
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
		return nil // no device may take it: impossible has the error
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
	d.reserved.taken++
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

// refreshMemory asks the driver for the free memory of the devices whose context is open, and NVML for that
// of the others, unless the figures are younger than age. It holds no lock during the calls.
func (p *Pool) refreshMemory(age time.Duration) {
	for _, c := range p.rt.Contexts() {
		d, since := p.beginRefresh(c.Device().Ordinal, age)
		if d == nil {
			continue
		}
		p.setIdle(d, since, c.Stats().RefBytes)
		free, total, err := c.MemInfo()
		if stats := c.Stats(); err == nil {
			p.setMemory(d, min(free+stats.Memory.Cached, total), stats.RefBytes)
		}
	}
	if p.health == nil {
		return
	}
	devices, _ := p.openDevices()
	for _, d := range devices {
		if d, _ := p.beginRefresh(d.info.Ordinal, age); d != nil {
			if free, ok := d.freeMemory(p.health); ok {
				p.setMemory(d, free, 0)
			}
		}
	}
}

// setIdle notes what the program held after beginRefresh, if no request had a reservation then or has got one since. It comes
// before the driver is asked, which takes longer: of many requests that begin together, others reserve meanwhile.
func (p *Pool) setIdle(d *device, since, used uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since == d.reserved.taken {
		d.reserved.idle = used
	}
}

// setMemory notes the figures of a device.
func (p *Pool) setMemory(d *device, free, used uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := &d.reserved
	r.known, r.free, r.used, r.at = true, free, used, time.Now()
}

// beginRefresh returns the device of an ordinal if its figures are old or there are none. since is how many reservations it had if none is
// left, and else a count that it never has. It marks the figures as fresh, so that no other goroutine asks meanwhile.
func (p *Pool) beginRefresh(ordinal int, age time.Duration) (d *device, since uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.devices {
		if now := time.Now(); d.info.Ordinal == ordinal && (!d.reserved.known || now.Sub(d.reserved.at) >= age) {
			d.reserved.at = now
			if d.reserved.bytes > 0 {
				return d, math.MaxUint64
			}
			return d, d.reserved.taken
		}
	}
	return nil, 0
}

// pollMemory refreshes the figures periodically while requests wait for memory: code outside of the pool may
// free some. It is called with mu held.
func (p *Pool) pollMemory() {
	if p.polling {
		return
	}
	p.polling = true
	time.AfterFunc(memoryPoll, func() {
		p.refreshMemory(memoryAge)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.polling = false
		if p.dispatch(); p.queue.reserving > 0 {
			p.pollMemory()
		}
	})
}
