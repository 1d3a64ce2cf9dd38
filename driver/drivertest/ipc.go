package drivertest

import "github.com/purecuda/purecuda/driver"

// exportable tells that another process can open the memory: it is all of what cuMemAlloc gave.
func (a *allocation) exportable() bool {
	return a.ctx != nil && a.pool == nil && a.block == nil && a.module == nil && a.opens == 0
}

// IpcGetMemHandle implements [driver.API]. On Linux what other processes do with the memory shows here, and
// ptr must be its beginning. Memory that was used before is copied to where they can open it, after all work.
func (d *simulated) IpcGetMemHandle(ptr driver.DevicePtr) (h driver.IpcMemHandle, r driver.Result) {
	return get(d, "cuIpcGetMemHandle", func(c call) (h driver.IpcMemHandle, r driver.Result) {
		a := d.allocation(ptr)
		switch {
		case a == nil || a.base != ptr || !a.exportable():
			return h, driver.ResultInvalidValue
		case a.ctx.present() != driver.Success:
			return h, vanished
		case a.shared == nil:
			if r := c.publish(a); r != driver.Success {
				return h, r
			}
		}
		return a.shared.ipcHandle()
	})
}

// publish moves the content of an allocation to memory that other processes can open.
func (c call) publish(a *allocation) driver.Result {
	s, r := c.d.share(a.dev.ordinal, a.bytes)
	if r != driver.Success {
		return r
	}
	for c.d.unfinished() > 0 {
		c.d.idle.Wait()
	}
	m := &c.d.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at(a.base) != a || a.shared != nil { // meanwhile
		s.withdraw()
		return driver.ResultInvalidValue
	}
	a.shared = s
	if a.data != nil {
		copy(s.data, a.data)
		a.data = s.data
	}
	return driver.Success
}

// IpcOpenMemHandle implements [driver.API]. It takes the memory of simulated devices of other processes, and of
// the device of the context only.
func (d *simulated) IpcOpenMemHandle(h driver.IpcMemHandle, flags uint32) (driver.DevicePtr, driver.Result) {
	return get(d, "cuIpcOpenMemHandle", func(c call) (driver.DevicePtr, driver.Result) {
		if flags != driver.IpcLazyEnablePeerAccess {
			return 0, driver.ResultInvalidValue
		}
		for _, a := range d.memory.of(c.ctx) {
			if a.opens > 0 && a.opened == h {
				a.opens++
				return a.base, driver.Success
			}
		}
		shared, ordinal, r := d.importIPC(h)
		if r != driver.Success {
			return 0, r
		}
		shared.withdraw() // the mapping stays
		if ordinal != c.ctx.dev.ordinal {
			return 0, driver.ResultInvalidDevice
		}
		a := &allocation{bytes: uint64(len(shared.data)), dev: c.ctx.dev, ctx: c.ctx, ready: true, shared: shared, opens: 1, opened: h}
		c.place(a)
		return a.base, driver.Success
	})
}

func (d *simulated) IpcCloseMemHandle(ptr driver.DevicePtr) driver.Result {
	return d.do("cuIpcCloseMemHandle", func(c call) driver.Result {
		a := d.allocation(ptr)
		switch {
		case a == nil || a.base != ptr || a.opens == 0:
			return driver.ResultInvalidValue
		case a.ctx.present() != driver.Success:
			return vanished
		case a.opens > 1:
			a.opens--
		default:
			c.release(a)
		}
		return driver.Success
	})
}

func (d *simulated) allocation(ptr driver.DevicePtr) *allocation {
	d.memory.mu.RLock()
	defer d.memory.mu.RUnlock()
	return d.memory.at(ptr)
}
