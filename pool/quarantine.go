package pool

import (
	"context"
	"errors"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// A device that fails maxFailures times in a row is quarantined for quarantineFirst. Each probe that fails
// doubles the time.
const (
	maxFailures     = 3
	quarantineFirst = time.Second
	quarantineMax   = time.Minute
)

// quarantine is the state of a device's quarantine.
type quarantine struct {
	on       bool
	failures int   // in a row
	err      error // of the last failure or probe; nil if the device works
	pause    time.Duration
	until    time.Time // of the next probe
	timer    *time.Timer
	forget   func() // ends what the runtime reports of it
	final    bool   // no probe can end it, see Options.Health and PerDevice
	probing  bool   // a probe revives the device, and decides itself
}

// recordSuccess records that a request has succeeded. It does not end a quarantine: the request may have begun
// before that.
func (d *device) recordSuccess() {
	if q := &d.quarantine; !q.on {
		q.failures, q.pause, q.err = 0, 0, nil
	}
}

// What had failed, for recordFailure: a function, or the preparation of its stream.
const prepared, unprepared = true, false

// recordFailure records an error of a function or of the preparation of a device. It reports whether another device may
// succeed. Where no stream of the device could be prepared, that counts for quarantine whatever the error is, also on
// the last device. The setup would be run in vain for each request.
func (p *Pool) recordFailure(d *device, err error, prepared bool) (others bool) {
	lost := p.rt.Err()
	info, _ := p.rt.Device(d.info.Ordinal)
	p.mu.Lock()
	defer p.mu.Unlock()
	d.figures.failures++
	if lost != nil {
		p.mayBeLost = true // admit asks the runtime again
	}
	if sticky(lost) {
		return false // all devices of the process are lost for good
	}
	if !prepared && driver.UnfitDevice(err) && !d.quarantine.final {
		d.quarantine.final, d.quarantine.err = true, err
		p.beginQuarantine(d)
		return lost == nil
	}
	gone := errors.Is(info.Err, driver.ErrDeviceLost)
	if gone {
		err = info.Err
	} else if prepared = prepared || p.remote != nil || d.hasStream(); prepared && !isDeviceError(err) {
		return lost == nil
	}
	q := &d.quarantine
	if q.final {
		return lost == nil
	}
	q.failures++
	q.err = err
	if !q.on && (gone || q.failures >= maxFailures && (!prepared || p.othersInService(d))) {
		p.beginQuarantine(d)
	}
	return lost == nil
}

// unprepared records that the preparation of a worker has failed, as recordFailure does. That the call's ctx has ended says nothing of the device.
func (w *Worker) unprepared(err error) (others bool) {
	if ended := w.ctx.Err(); ended != nil && (errors.Is(err, ended) || errors.Is(err, context.Cause(w.ctx))) {
		return false
	}
	return w.pooled.pool.recordFailure(w.pooled, err, unprepared)
}

// sticky reports whether CUDA is lost for the process.
func sticky(lost error) bool {
	e, _ := errors.AsType[*driver.Error](lost)
	return e != nil && e.Sticky
}

// isDeviceError reports whether an error may come from a broken device, and not from a wrong argument.
func isDeviceError(err error) bool {
	e, _ := errors.AsType[*driver.Error](err)
	if e == nil {
		return false
	}
	switch e.Code {
	case driver.ResultInvalidValue, driver.ResultInvalidHandle, driver.ResultNotFound, driver.ResultNotSupported, driver.ResultNotPermitted,
		driver.ResultLaunchOutOfResources, driver.ResultCooperativeLaunchTooLarge, driver.ResultInvalidClusterSize:
		return false
	}
	return e.Kind == driver.ErrDriverCallFailed || e.Kind == driver.ErrDeviceLost || e.Kind == driver.ErrTimeout
}

// othersInService reports whether another device is in service. The last one is quarantined only if it is lost.
func (p *Pool) othersInService(d *device) bool {
	for _, o := range p.devices {
		if o != d && !o.quarantine.on {
			return true
		}
	}
	return false
}

// beginQuarantine begins the quarantine of a device. Requests that no other device may take fail.
func (p *Pool) beginQuarantine(d *device) {
	q := &d.quarantine
	q.on = true
	q.pause = min(max(2*q.pause, quarantineFirst), quarantineMax)
	p.publish(d)
	p.scheduleProbe(d)
	for r := p.queue.first; r != nil; {
		next := r.after
		p.try(r)
		r = next
	}
}

func (p *Pool) scheduleProbe(d *device) {
	q := &d.quarantine
	q.stop()
	if q.final {
		q.until = time.Time{}
		return
	}
	q.until = time.Now().Add(q.pause)
	if !p.closed {
		q.timer = time.AfterFunc(q.pause, func() { p.probe(d) })
	}
}

// publish makes the runtime report whether the device is in quarantine, and why.
func (p *Pool) publish(d *device) {
	q := &d.quarantine
	if q.forget != nil {
		q.forget()
		q.forget = nil
	}
	if q.on && !p.closed {
		q.forget = p.rt.Quarantine(d.info.Ordinal, q.err, func() { p.revived(d) })
	}
}

// stop cancels the next probe.
func (q *quarantine) stop() {
	if q.timer != nil {
		q.timer.Stop()
	}
}

// probe tests a quarantined device, and ends the quarantine if it works.
func (p *Pool) probe(d *device) {
	if p.begin() != nil {
		return
	}
	q := &d.quarantine
	p.mu.Lock()
	q.probing = true
	p.mu.Unlock()
	err := d.probe(p.probes)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.endCall() // before mu is unlocked
	q.probing = false
	switch {
	case !q.on || q.final:
	case err == nil:
		p.endQuarantine(d)
	default:
		q.err = err
		q.pause = min(2*q.pause, quarantineMax)
		p.publish(d)
		p.scheduleProbe(d)
	}
}

// revived ends the quarantine of a device that was lost, after a Revive or Refresh of somebody else.
func (p *Pool) revived(d *device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := &d.quarantine; q.on && !q.final && !q.probing && errors.Is(q.err, driver.ErrDeviceLost) {
		p.endQuarantine(d)
	}
}

// endQuarantine ends the quarantine of a device.
func (p *Pool) endQuarantine(d *device) {
	q := &d.quarantine
	q.on, q.failures, q.err = false, 0, nil
	p.publish(d)
	q.stop()
	p.dispatch()
}

// state returns what is known of a device, and whether it is quarantined. Runtime.Revive may have ended
// the reason for that.
func (p *Pool) state(d *device) (info runtime.Device, leftOut bool) {
	info, err := p.rt.Device(d.info.Ordinal)
	if err != nil {
		info = d.info
		info.Err = err
	} else if p.remote != nil && info.Err == nil {
		info.Err = d.remoteFault()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &d.quarantine
	if q.on && !q.final && info.Err == nil && errors.Is(q.err, driver.ErrDeviceLost) {
		p.endQuarantine(d)
	}
	if q.on && info.Err == nil {
		info.Err = q.err
	}
	return info, q.on
}

// stopProbes ends all probes when the pool closes.
func (p *Pool) stopProbes() {
	p.cancel()
	for _, d := range p.devices {
		d.quarantine.stop()
		p.publish(d)
	}
}
