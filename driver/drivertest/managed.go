package drivertest

import "github.com/purecuda/purecuda/driver"

// MemAllocManaged implements [driver.API]. The memory is on the host, where kernels reach it as well,
// and counts as page-locked memory does.
func (d *Driver) MemAllocManaged(bytes uint64, flags uint32) (driver.DevicePtr, driver.Result) {
	c, r := d.enter("cuMemAllocManaged")
	if r != driver.Success {
		return 0, r
	}
	defer d.mu.Unlock()
	switch {
	case !c.ctx.dev.can(driver.DeviceAttributeManagedMemory):
		return 0, driver.ErrorNotSupported
	case flags != driver.MemAttachGlobal && flags != driver.MemAttachHost || bytes == 0:
		return 0, driver.ErrorInvalidValue
	}
	h, r := c.newHost(bytes, 0)
	if r != driver.Success {
		return 0, r
	}
	h.managed = true
	return driver.DevicePtr(h.base), driver.Success
}

// checkManaged refuses a range that is no managed memory, and a location that there is not.
func (c call) checkManaged(ptr driver.DevicePtr, bytes uint64, location driver.MemLocation) driver.Result {
	c.d.memory.mu.RLock()
	h := c.d.memory.hostAt(uint64(ptr))
	c.d.memory.mu.RUnlock()
	switch {
	case h == nil || !h.managed || bytes == 0 || bytes > h.bytes-(uint64(ptr)-h.base):
		c.found(driver.ErrorInvalidValue, "%d bytes at %#x are not managed memory", bytes, uint64(ptr))
		return driver.ErrorInvalidValue
	case location.Type == driver.MemLocationHost:
		return driver.Success
	case location.Type != driver.MemLocationDevice:
		return driver.ErrorInvalidValue
	}
	_, r := c.d.device(driver.Device(location.ID))
	return r
}

// MemPrefetchAsync implements [driver.API]. The memory stays where it is.
func (d *Driver) MemPrefetchAsync(ptr driver.DevicePtr, bytes uint64, location driver.MemLocation, flags uint32, stream driver.Stream) driver.Result {
	c, s, r := d.enterStream("cuMemPrefetchAsync", stream)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	if flags != 0 {
		return driver.ErrorInvalidValue
	}
	if r := c.checkManaged(ptr, bytes, location); r != driver.Success {
		return r
	}
	if s.capture != nil {
		s.capture.invalid = true
		return driver.ErrorStreamCaptureUnsupported
	}
	return c.submit(s, work{kind: nodeEmpty, run: func() error { return nil }})
}

// MemAdvise implements [driver.API]. It changes nothing here.
func (d *Driver) MemAdvise(ptr driver.DevicePtr, bytes uint64, advice driver.MemAdvice, location driver.MemLocation) driver.Result {
	c, r := d.enter("cuMemAdvise")
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	switch advice {
	case driver.MemAdviseSetPreferredLocation, driver.MemAdviseSetAccessedBy, driver.MemAdviseUnsetAccessedBy:
	case driver.MemAdviseSetReadMostly, driver.MemAdviseUnsetReadMostly, driver.MemAdviseUnsetPreferredLocation:
		location = driver.MemLocation{Type: driver.MemLocationHost} // it does not count
	default:
		return driver.ErrorInvalidValue
	}
	return c.checkManaged(ptr, bytes, location)
}
