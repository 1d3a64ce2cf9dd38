package pool

import (
	"maps"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

// figures are what Stats counts, of a pool or of a device.
type figures struct {
	requests, refused, waits, retries, failures uint64

	waited, ran time.Duration
	reasons     map[Reason]uint64
}

func (p *Pool) countRetries(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.figures.retries += uint64(n)
}

// Stats is a snapshot of what a pool has done and does.
type Stats struct {
	Requests uint64 // calls of Do, Scatter and its kin
	Refused  uint64 // of those, with ErrQueueFull
	Retries  uint64 // on another device
	Waits    uint64 // in the queue, that have ended
	Waited   time.Duration
	// Queued is the length of the queue now, of QueueLimit at most; requests with WithQueueWait, and
	// the parts of a Scatter, come on top.
	Queued, QueueLimit int
	// Reasons count the calls that fewer devices or the CPU did, see [Report].Reason.
	Reasons map[Reason]uint64
	Devices []DeviceStats // in the order of [Pool.Devices]
}

// DeviceStats is what a device of a pool has done and does.
type DeviceStats struct {
	// Device has the error of a device that does not work, or is left out.
	Device   runtime.Device
	Requests uint64        // that it got, with parts of a Scatter
	Failures uint64        // of functions and of preparations
	Ran      time.Duration // that functions took which succeeded, of all streams together
	Streams  int           // that were made
	Busy     int           // streams that work on a request now
	// Outstanding is what those cost, see [WithCost].
	Outstanding time.Duration
	// Speed is how much it does in a second of a stream, beside other devices.
	Speed float64
	// Quarantined says that the device is left out, until a probe at NextProbe or later succeeds.
	Quarantined bool
	NextProbe   time.Time
	// Reserved are the bytes that requests have reserved, of ReserveLimit, by what was known of the free memory
	// when that was last asked, and ReservedBy those of each label. See [WithReserve].
	Reserved, ReserveLimit uint64
	ReservedBy             map[string]uint64
}

// Stats returns what the pool has done and does.
func (p *Pool) Stats() Stats {
	if p == nil || p.rt == nil {
		return Stats{}
	}
	states := p.Devices()
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.figures
	s := Stats{Requests: f.requests, Refused: f.refused, Retries: f.retries, Waits: f.waits, Waited: f.waited,
		Queued: p.queue.length, QueueLimit: p.limit, Reasons: maps.Clone(f.reasons)}
	for i := range states {
		d := p.devices[i]
		s.Devices = append(s.Devices, DeviceStats{Device: states[i], Requests: d.figures.requests, Failures: d.figures.failures, Ran: d.figures.ran,
			Streams: len(d.workers), Busy: d.busy, Outstanding: time.Duration(d.outstanding * float64(time.Second)), Speed: d.speed,
			Quarantined: d.quarantine.on, NextProbe: d.quarantine.until,
			Reserved: d.reserved.bytes, ReserveLimit: d.reserved.limit(d.info.TotalBytes), ReservedBy: maps.Clone(d.reserved.labels)})
	}
	return s
}
