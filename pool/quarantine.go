package pool

import (
	"errors"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// A device that fails so often in a row is left out, first for the shortest time, and twice as long after
// each probe that fails.
const (
	failuresMost    = 3
	quarantineFirst = time.Second
	quarantineMost  = time.Minute
)

// quarantine says whether a device is left out.
type quarantine struct {
	on       bool
	failures int   // in a row
	err      error // of the last failure, or of the last probe; nil if the device works
	pause    time.Duration
	until    time.Time // of the next probe
	timer    *time.Timer
}

// works notes that a request has succeeded. One that is late says nothing of a device that is left out.
func (d *device) works() {
	if q := &d.quarantine; !q.on {
		q.failures, q.pause, q.err = 0, 0, nil
	}
}

// blame notes an error of a function or of the preparation of a device. It tells whether any device can
// do better.
func (p *Pool) blame(d *device, err error) (others bool) {
	lost := p.rt.Err()
	info, _ := p.rt.Device(d.info.Ordinal)
	p.mu.Lock()
	defer p.mu.Unlock()
	d.figures.failures++
	if lost != nil {
		p.suspect = true // accept asks again
	}
	if sticky(lost) {
		return false // for ever, and so are all devices
	}
	gone := errors.Is(info.Err, driver.ErrDeviceLost)
	if gone {
		err = info.Err
	} else if !ofDevice(err) {
		return lost == nil
	}
	q := &d.quarantine
	q.failures++
	q.err = err
	if !q.on && (gone || q.failures >= failuresMost && p.others(d)) {
		p.leaveOut(d)
	}
	return lost == nil
}

// sticky tells whether CUDA is lost for the process.
func sticky(lost error) bool {
	e, ok := errors.AsType[*driver.Error](lost)
	return ok && e.Sticky
}

// ofDevice tells whether an error may come from a device that does not work, and not from what a function
// has asked for.
func ofDevice(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case driver.ErrorInvalidValue, driver.ErrorInvalidHandle, driver.ErrorNotFound, driver.ErrorNotSupported, driver.ErrorNotPermitted,
		driver.ErrorLaunchOutOfResources, driver.ErrorCooperativeLaunchTooLarge, driver.ErrorInvalidClusterSize:
		return false
	}
	return e.Kind == driver.ErrDriverCallFailed || e.Kind == driver.ErrDeviceLost || e.Kind == driver.ErrTimeout
}

// others tells whether another device is in service. The last one is kept, unless it is lost.
func (p *Pool) others(d *device) bool {
	for _, o := range p.devices {
		if o != d && !o.quarantine.on {
			return true
		}
	}
	return false
}

// leaveOut begins the quarantine of a device. Requests that only it could take get its error.
func (p *Pool) leaveOut(d *device) {
	q := &d.quarantine
	q.on = true
	q.pause = min(max(2*q.pause, quarantineFirst), quarantineMost)
	p.probeLater(d)
	for r := p.queue.first; r != nil; {
		next := r.after
		p.try(r)
		r = next
	}
}

func (p *Pool) probeLater(d *device) {
	q := &d.quarantine
	q.until = time.Now().Add(q.pause)
	q.stop()
	if !p.closed {
		q.timer = time.AfterFunc(q.pause, func() { p.probe(d) })
	}
}

// stop keeps a probe from beginning.
func (q *quarantine) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

// probe tries a device that is left out, and takes it into service again if it works.
func (p *Pool) probe(d *device) {
	if p.begin() != nil {
		return
	}
	err := d.probe(p.probes)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.endCall() // before the lock is left
	q := &d.quarantine
	switch {
	case !q.on:
	case err == nil:
		p.takeBack(d)
	default:
		q.err = err
		q.pause = min(2*q.pause, quarantineMost)
		p.probeLater(d)
	}
}

// takeBack ends the quarantine of a device.
func (p *Pool) takeBack(d *device) {
	q := &d.quarantine
	q.on, q.failures, q.err = false, 0, nil
	q.stop()
	p.dispatch()
}

// state is what is known of a device, and whether it is left out. Somebody else may have revived it.
func (p *Pool) state(d *device) (info runtime.Device, leftOut bool) {
	info, err := p.rt.Device(d.info.Ordinal)
	if err != nil {
		info = d.info
		info.Err = err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &d.quarantine
	if q.on && info.Err == nil && errors.Is(q.err, driver.ErrDeviceLost) {
		p.takeBack(d)
	}
	if q.on && info.Err == nil {
		info.Err = q.err
	}
	return info, q.on
}

// stopProbes is called when the pool closes.
func (p *Pool) stopProbes() {
	p.cancel()
	for _, d := range p.devices {
		d.quarantine.stop()
	}
}
