package pool

import (
	"errors"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/runtime"
)

// pick returns the devices that suit, and what is known of the others. A panic of suits is an error.
func pick(devices []*device, suits func(runtime.Device) bool) (chosen []*device, others []runtime.Device, err error) {
	for _, d := range devices {
		ok := false
		if err := contain.Do(func() error { ok = suits(d.info); return nil }); err != nil {
			return nil, nil, err
		}
		if ok {
			chosen = append(chosen, d)
			continue
		}
		others = append(others, leftOut(d, driver.Errorf(driver.ErrUnsupported, "the device does not suit the call (Suits)")))
	}
	if len(chosen) == 0 && len(devices) > 0 {
		err = driver.Errorf(driver.ErrUnsupported, "none of the %d devices suits (Suits)", len(devices))
	}
	return chosen, others, err
}

// leftOut is what a report says of a device that got no work, or could not do it.
func leftOut(d *device, why error) runtime.Device {
	info := d.info
	info.Err = why
	return info
}

// skip tells of a device that could not do the work. It stays out of its caller, whose frame would have room for the description.
//
//go:noinline
func (r *Report) skip(d *device, why error) { r.Skipped = append(r.Skipped, leftOut(d, why)) }

// suit leaves the devices of a request that suit.
func (p *Pool) suit(o *DoOptions, r *request, report *Report) error {
	if o.Suits == nil {
		return nil
	}
	devices, err := p.selectDevices(o.Devices)
	if err != nil {
		return nil // the request hears it as well
	}
	devices, report.Skipped, err = pick(devices, o.Suits)
	if err != nil {
		if accepted := p.beginCall(r); accepted != nil { // the fallback runs as part of the call
			return accepted
		}
		report.Reason = unsuited(err)
		return err
	}
	r.devices = ordinals(devices)
	return nil
}

func ordinals(devices []*device) []int {
	all := make([]int, 0, len(devices))
	for _, d := range devices {
		all = append(all, d.info.Ordinal)
	}
	return all
}

// unsuited is the reason of an error of pick: a panic is a failure.
func unsuited(err error) Reason {
	if errors.Is(err, driver.ErrUnsupported) {
		return Unsuited
	}
	return Failed
}
