package pool

import (
	"maps"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

// figures are the counters of a pool or of a device.
type figures struct {
	requests, refused, waits, retries, failures uint64

	waited, ran time.Duration
	reasons     map[Reason]uint64
}

func (p *Pool) countRetries(n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.figures.retries += uint64(n)
}

// Stats is a snapshot of the counters and the queue of a pool.
type Stats struct {
	Requests uint64 // calls of Do, Scatter and its kin, also those that the CPU did
	Refused  uint64 // calls that failed with ErrQueueFull
	Retries  uint64 // tries on another device
	Waits    uint64 // requests that came into the queue
	Waited   time.Duration
	// Queued is the length of the queue. QueueLimit does not count calls with DoOptions.Wait, so that Queued may be larger.
	Queued, QueueLimit int
	// Reasons counts the calls that fewer devices, the CPU or nobody did, by [Report].Reason.
	Reasons map[Reason]uint64
	Devices []DeviceStats // in the order of [Pool.Devices]
	// HealthErr is why NVML does not tell of the devices, see Options.Health; nil if it does.
	HealthErr error
}

// DeviceStats is a snapshot of the counters and the load of a device.
type DeviceStats struct {
	// Device has the error of a device that does not work, or is quarantined.
	Device   runtime.Device
	Requests uint64        // that the device got, with parts of a Scatter
	Failures uint64        // of functions and of preparations
	Ran      time.Duration // total time of functions that succeeded, on all streams
	Streams  int           // made so far
	Busy     int           // streams with a request now
	// Outstanding is the cost of the requests on busy streams, see DoOptions.Cost.
	Outstanding time.Duration
	// Speed is the work that the device does in a second of a stream, relative to other devices.
	Speed float64
	// Quarantined is set while the device gets no work, until a probe at NextProbe or later succeeds. NextProbe is
	// zero where none can succeed, see Options.Health.
	Quarantined bool
	NextProbe   time.Time
	// Reserved is how many bytes requests have reserved, see DoOptions.Reserve. ReserveLimit depends on the free
	// memory when the driver was last asked. ReservedBy has the bytes of each label.
	Reserved, ReserveLimit uint64
	ReservedBy             map[string]uint64
}

// Stats returns a snapshot.
func (p *Pool) Stats() Stats {
	if p == nil || p.rt == nil {
		return Stats{}
	}
	states := p.Devices()
	p.mu.Lock()
	defer p.mu.Unlock()
	f, turnedAway := &p.figures, p.turnedAway.Load()
	s := Stats{Requests: f.requests + turnedAway, Refused: f.refused + turnedAway, Retries: f.retries, Waits: f.waits, Waited: f.waited,
		Queued: p.waiting(), QueueLimit: p.limit, Reasons: maps.Clone(f.reasons), HealthErr: p.healthErr}
	for i := range states {
		d := p.devices[i]
		s.Devices = append(s.Devices, DeviceStats{Device: states[i], Requests: d.figures.requests, Failures: d.figures.failures, Ran: d.figures.ran,
			Streams: len(d.workers), Busy: d.busy, Outstanding: time.Duration(d.outstanding * float64(time.Second)), Speed: d.speed,
			Quarantined: d.quarantine.on, NextProbe: d.quarantine.until,
			Reserved: d.reserved.bytes, ReserveLimit: d.reserved.limit(d.info.TotalBytes), ReservedBy: maps.Clone(d.reserved.labels)})
	}
	return s
}
