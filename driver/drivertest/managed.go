package drivertest

import (
	"fmt"

	"github.com/purecuda/purecuda/driver"
)

// MemAllocManaged implements [driver.API]. The memory is on the host, where kernels reach it as well,
// and counts as page-locked memory does.
func (d *simulated) MemAllocManaged(bytes uint64, flags uint32) (driver.DevicePtr, driver.Result) {
	return get(d, "cuMemAllocManaged", func(c call) (driver.DevicePtr, driver.Result) {
		switch {
		case !c.ctx.dev.can(driver.DeviceAttributeManagedMemory):
			return 0, driver.ResultNotSupported
		case flags != driver.MemAttachGlobal && flags != driver.MemAttachHost || bytes == 0:
			return 0, driver.ResultInvalidValue
		}
		h, r := c.newHost(bytes, 0)
		if r != driver.Success {
			return 0, r
		}
		h.managed = true
		return driver.DevicePtr(h.base), driver.Success
	})
}

// checkManaged refuses a range that is not in one piece of managed memory, and a location that there is
// not, or that does not share managed memory with the host.
func (c call) checkManaged(ptr driver.DevicePtr, bytes uint64, location driver.MemLocation) driver.Result {
	c.d.memory.mu.RLock()
	h, stray := c.d.memory.hostAt(uint64(ptr)), c.d.memory.stray(ptr, bytes)
	c.d.memory.mu.RUnlock()
	switch {
	case h == nil || !h.managed:
		stray.detail = fmt.Sprintf("%d bytes at %#x are not managed memory", bytes, uint64(ptr))
		return c.misuse(stray)
	case bytes == 0 || bytes > h.bytes-(uint64(ptr)-h.base):
		return c.misuse(&fault{addr: ptr, bytes: bytes, allocation: h.String(),
			detail: fmt.Sprintf("%d bytes at %#x: want 1 or more, within the allocation", bytes, uint64(ptr))})
	case location.Type == driver.MemLocationHost:
		return driver.Success
	case location.Type != driver.MemLocationDevice:
		c.found(driver.ResultInvalidValue, "location of type %d: want that of a device (%d) or of the host (%d)",
			location.Type, driver.MemLocationDevice, driver.MemLocationHost)
		return driver.ResultInvalidValue
	}
	dev, r := c.d.device(driver.Device(location.ID))
	if r == driver.Success {
		return c.shares(dev)
	}
	c.found(r, "location on device %d of %d", location.ID, len(c.d.devices))
	return r
}

// shares refuses a device that cannot use managed memory while the host does.
func (c call) shares(dev *device) driver.Result {
	if dev.can(driver.DeviceAttributeConcurrentManagedAccess) {
		return driver.Success
	}
	c.found(driver.ResultInvalidDevice, "device %d has no concurrent managed access", dev.ordinal)
	return driver.ResultInvalidDevice
}

// MemPrefetchAsync implements [driver.API]. The memory stays where it is, and must be there when the
// stream comes to it.
func (d *simulated) MemPrefetchAsync(ptr driver.DevicePtr, bytes uint64, location driver.MemLocation, flags uint32, h driver.Stream) driver.Result {
	return on(d, call.stream, "cuMemPrefetchAsync", h, func(c call, s *stream) driver.Result {
		if flags != 0 {
			return driver.ResultInvalidValue
		}
		if r := c.checkManaged(ptr, bytes, location); r != driver.Success {
			return r
		}
		if r := c.shares(s.ctx.dev); r != driver.Success {
			return r
		}
		if s.capture != nil {
			s.capture.invalid = true
			return driver.ResultStreamCaptureUnsupported
		}
		return c.submit(s, work{kind: nodeEmpty, run: func() error {
			if _, f := d.memory.bytes(ptr, bytes, view{}); f != nil {
				return f
			}
			return nil
		}})
	})
}

// MemAdvise implements [driver.API]. It changes nothing here.
func (d *simulated) MemAdvise(ptr driver.DevicePtr, bytes uint64, advice driver.MemAdvice, location driver.MemLocation) driver.Result {
	return d.do("cuMemAdvise", func(c call) driver.Result {
		switch advice {
		case driver.MemAdviseSetPreferredLocation, driver.MemAdviseSetAccessedBy, driver.MemAdviseUnsetAccessedBy:
		case driver.MemAdviseSetReadMostly, driver.MemAdviseUnsetReadMostly, driver.MemAdviseUnsetPreferredLocation:
			location = driver.MemLocation{Type: driver.MemLocationHost} // it does not count
		default:
			return driver.ResultInvalidValue
		}
		return c.checkManaged(ptr, bytes, location)
	})
}
