package nvml

import (
	"context"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// watchMilliseconds is how long one wait for an event takes a thread, and so how long Watch may go on
// after its context has ended.
const watchMilliseconds = 250

// xidLost says that a device has fallen off the bus.
const xidLost = 79

// watchAll is Library.Watch.
func watchAll(ctx context.Context, api calls, f func(Event) error, devices []Device) error {
	if ctx == nil || f == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "Watch takes a context and a function that are not nil")
	}
	if len(devices) == 0 {
		n, r := api.deviceCount()
		if r != Success {
			return failed(api, "nvmlDeviceGetCount_v2", r)
		}
		for i := range n {
			if d, r := api.deviceByIndex(i); r == Success { // one that is gone has no events
				devices = append(devices, d)
			}
		}
	}
	for {
		lost, err := watch(ctx, api, f, devices)
		if !lost {
			return err
		}
		var left []Device
		for _, d := range devices {
			if _, r := api.memory(d); r != ResultGPUIsLost {
				left = append(left, d)
			} else if err := contain.Do(func() error { return f(Event{Device: d, Type: EventXid, Xid: xidLost}) }); err != nil {
				return err
			}
		}
		if len(left) == 0 || len(left) == len(devices) {
			return err
		}
		devices = left
	}
}

// watch is watchAll until a device is lost, for which NVML refuses the whole set.
func watch(ctx context.Context, api calls, f func(Event) error, devices []Device) (lost bool, err error) {
	set, r := api.createEventSet()
	if r != Success {
		return false, failed(api, "nvmlEventSetCreate", r)
	}
	defer api.freeEventSet(set)
	registered := false
	for _, d := range devices {
		types, r := api.supportedEvents(d)
		if types &= EventXid | EventDoubleBitECC | EventSingleBitECC; r == Success && types != 0 {
			r = api.registerEvents(d, types, set)
		} else if r == Success {
			r = ResultNotSupported
		}
		if r != Success && r != ResultNotSupported {
			return r == ResultGPUIsLost, failed(api, "nvmlDeviceRegisterEvents", r)
		}
		registered = registered || r == Success
	}
	if !registered {
		return false, driver.Errorf(driver.ErrUnsupported, "none of %d devices tells of events: %w", len(devices), ResultNotSupported)
	}
	for ctx.Err() == nil {
		e, r := api.waitEvent(set, watchMilliseconds)
		switch r {
		case ResultTimeout:
		case Success:
			if err := contain.Do(func() error { return f(e) }); err != nil {
				return false, err
			}
		default:
			return r == ResultGPUIsLost, failed(api, "nvmlEventSetWait_v2", r)
		}
	}
	return false, context.Cause(ctx)
}
