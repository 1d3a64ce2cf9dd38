package pool

import (
	"context"
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
)

// startHealth begins to listen to NVML once the devices are known. p.mu is held.
func (p *Pool) startHealth() {
	if p.health == nil || p.closed {
		return
	}
	p.listening = make(chan struct{})
	go func() {
		defer close(p.listening)
		if err := p.listen(p.probes, p.health); p.probes.Err() == nil {
			p.setHealthErr(err)
		}
	}()
}

func (p *Pool) setHealthErr(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.healthErr = err
}

// listen quarantines the devices that NVML finds bad, until ctx ends.
func (p *Pool) listen(ctx context.Context, api nvml.API) error {
	var handles []nvml.Device
	var unknown []error
	of := map[nvml.Device][]*device{} // several are MIG instances
	for _, d := range p.devices {
		handle, err := api.Find(d.info.UUID.String())
		if err != nil {
			unknown = append(unknown, err)
			continue
		}
		if parent := api.Read(handle).Parent; parent != "" {
			if whole, err := api.Find(parent); err == nil {
				handle = whole
			}
		}
		if of[handle] == nil {
			handles = append(handles, handle)
		}
		of[handle] = append(of[handle], d)
	}
	takeOut := func(handle nvml.Device, err error, gone bool) {
		for _, d := range of[handle] {
			p.takeOut(d, err, gone)
		}
	}
	for _, handle := range handles {
		takeOut(handle, api.Read(handle).Fault(), false)
	}
	p.setHealthErr(errors.Join(unknown...))
	if len(handles) == 0 {
		return errors.Join(unknown...)
	}
	return api.Watch(ctx, func(e nvml.Event) error {
		if e.Type == nvml.EventXid && e.Xid.NeedsReset() {
			takeOut(e.Device, fmt.Errorf("%v: reset the device", e.Xid), true)
		} else if of[e.Device] != nil {
			takeOut(e.Device, api.Read(e.Device).Fault(), false)
		}
		return nil
	}, handles...)
}

// takeOut quarantines a device for good. The last one stays in service unless it is gone.
func (p *Pool) takeOut(d *device, err error, gone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := &d.quarantine
	if err == nil || q.final || !gone && !p.othersInService(d) {
		return
	}
	failed := driver.Errorf(driver.ErrDriverCallFailed, "%w", err)
	failed.Device = d.info.Ordinal
	q.final, q.err = true, failed
	p.beginQuarantine(d)
}

// stopListening waits until the goroutine of startHealth has ended, or ctx.
func (p *Pool) stopListening(ctx context.Context) error {
	p.mu.Lock()
	listening := p.listening
	p.mu.Unlock()
	if listening == nil {
		return nil
	}
	select {
	case <-listening:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// freeMemory returns what NVML says is free on a device.
func (d *device) freeMemory(api nvml.API) (bytes uint64, ok bool) {
	handle, err := api.Find(d.info.UUID.String())
	if err != nil {
		return 0, false
	}
	m, err := api.Memory(handle)
	return m.Free, err == nil
}
