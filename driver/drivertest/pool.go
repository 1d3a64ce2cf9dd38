package drivertest

import (
	"github.com/purecuda/purecuda/driver"
)

// pool is where stream-ordered memory comes from. It holds bytes of its device:
// those in use, and those that were freed and not given back yet.
type pool struct {
	handle    driver.MemPool
	dev       *device
	life      int64 // of the device
	made      origin
	limit     uint64 // 0: none
	destroyed bool

	used, usedHigh         uint64
	reserved, reservedHigh uint64
	threshold              uint64
	reuse                  [3]uint64 // the reuse switches, from MemPoolReuseFollowEventDependencies on
	// access of other devices by ordinal. It is guarded by the lock of the space.
	access map[int]driver.MemAccessFlags
}

var defaultReuse = [3]uint64{1, 1, 1}

// open tells that kernels of dev may use the memory of p.
func (p *pool) open(dev *device) bool {
	return p != nil && p.access[dev.ordinal] != driver.MemAccessNone
}

// trimTo gives memory that is not in use back to the device, down to keep bytes.
func (p *pool) trimTo(keep uint64) {
	if target := max(p.used, keep); target < p.reserved {
		p.dev.used -= p.reserved - target
		p.reserved = target
	}
}

// trim empties all pools of the device.
func (dev *device) trim() {
	for _, p := range dev.d.pools.live {
		if p.dev == dev {
			p.trimTo(0)
		}
	}
}

// settle is what happens to the pools when the host waits for the device: they
// give back what is above their thresholds.
func (d *simulated) settle() {
	for _, p := range d.pools.live {
		p.trimTo(p.threshold)
	}
}

// take reserves the bytes of an allocation.
func (p *pool) take(bytes uint64) driver.Result {
	if bytes > p.dev.config.Memory || p.limit != 0 && p.used+bytes > p.limit {
		return driver.ResultOutOfMemory
	}
	if used := p.used + bytes; used > p.reserved {
		more := used - p.reserved
		if more > p.dev.config.Memory-p.dev.used {
			p.dev.trim()
			more = used - p.reserved
		}
		if more > p.dev.config.Memory-p.dev.used {
			return driver.ResultOutOfMemory
		}
		p.dev.used += more
		p.reserved += more
		p.reservedHigh = max(p.reservedHigh, p.reserved)
	}
	p.used += bytes
	p.usedHigh = max(p.usedHigh, p.used)
	return driver.Success
}

func (d *simulated) MemAllocAsync(bytes uint64, h driver.Stream) (driver.DevicePtr, driver.Result) {
	return getOf(d, call.stream, "cuMemAllocAsync", h, func(c call, s *stream) (driver.DevicePtr, driver.Result) {
		return c.allocAsync(s, s.ctx.dev.pool, bytes)
	})
}

func (d *simulated) MemAllocFromPoolAsync(bytes uint64, h driver.MemPool, stream driver.Stream) (driver.DevicePtr, driver.Result) {
	c, s, r := enterOn(d, call.stream, "cuMemAllocFromPoolAsync", stream)
	if r != driver.Success {
		return 0, r
	}
	defer d.mu.Unlock()
	p, r := find(c, &d.pools, h)
	if r != driver.Success {
		return 0, driver.ResultInvalidValue
	}
	return c.allocAsync(s, p, bytes)
}

func (c call) allocAsync(s *stream, p *pool, bytes uint64) (driver.DevicePtr, driver.Result) {
	switch {
	case p.dev.config.NoPools:
		return 0, driver.ResultNotSupported
	case s.capture != nil:
		return 0, driver.ResultNotSupported
	}
	if r := c.checkCaptures(); r != driver.Success {
		return 0, r
	}
	if bytes == 0 {
		return 0, driver.Success
	}
	if uint64(int(bytes)) != bytes || int(bytes) < 0 {
		return 0, driver.ResultOutOfMemory
	}
	if r := p.take(bytes); r != driver.Success {
		return 0, r
	}
	a := &allocation{bytes: bytes, dev: p.dev, ctx: s.ctx, pool: p}
	c.place(a)
	r := c.submit(s, work{kind: nodeEmpty, run: func() error {
		c.d.memory.mu.Lock()
		defer c.d.memory.mu.Unlock()
		a.ready = true
		return nil
	}})
	if r != driver.Success {
		c.release(a)
		return 0, r
	}
	return a.base, driver.Success
}

func (d *simulated) MemFreeAsync(ptr driver.DevicePtr, h driver.Stream) driver.Result {
	return on(d, call.stream, "cuMemFreeAsync", h, func(c call, s *stream) driver.Result {
		if s.capture != nil {
			return driver.ResultNotSupported
		}
		a, r := c.toFree(ptr)
		if r != driver.Success {
			return r
		}
		a.freeing = true
		return c.submit(s, work{kind: nodeEmpty, run: func() error {
			d.mu.Lock()
			defer d.mu.Unlock()
			c.release(a)
			return nil
		}})
	})
}

func (d *simulated) DeviceGetDefaultMemPool(h driver.Device) (driver.MemPool, driver.Result) {
	return getOf(d, call.device, "cuDeviceGetDefaultMemPool", h, func(_ call, dev *device) (driver.MemPool, driver.Result) {
		if dev.config.NoPools {
			return 0, driver.ResultNotSupported
		}
		return dev.defaultPool.handle, driver.Success
	})
}

func (d *simulated) DeviceGetMemPool(h driver.Device) (driver.MemPool, driver.Result) {
	return getOf(d, call.device, "cuDeviceGetMemPool", h, func(_ call, dev *device) (driver.MemPool, driver.Result) {
		if dev.config.NoPools {
			return 0, driver.ResultNotSupported
		}
		return dev.pool.handle, driver.Success
	})
}

func (d *simulated) DeviceSetMemPool(device driver.Device, h driver.MemPool) driver.Result {
	c, dev, r := enterOn(d, call.device, "cuDeviceSetMemPool", device)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	p, r := c.pool(h)
	switch {
	case r != driver.Success:
		return r
	case p.dev != dev:
		return driver.ResultInvalidValue
	}
	dev.pool = p
	return driver.Success
}

// pool finds a pool. Its functions call a wrong handle an invalid value.
func (c call) pool(h driver.MemPool) (*pool, driver.Result) {
	p, r := find(c, &c.d.pools, h)
	if r != driver.Success {
		return nil, driver.ResultInvalidValue
	}
	return p, driver.Success
}

func (d *simulated) MemPoolCreate(props driver.MemPoolProps) (driver.MemPool, driver.Result) {
	return get(d, "cuMemPoolCreate", func(c call) (driver.MemPool, driver.Result) {
		dev, r := d.device(driver.Device(props.Location.ID))
		switch {
		case props.AllocType != driver.MemAllocationPinned, props.Location.Type != driver.MemLocationDevice:
			return 0, driver.ResultInvalidValue
		case r != driver.Success:
			return 0, driver.ResultInvalidValue
		case props.HandleTypes != 0, dev.config.NoPools:
			return 0, driver.ResultNotSupported
		}
		if r := dev.present(); r != driver.Success {
			return 0, r
		}
		if c.ctx != nil && c.ctx.dev == dev && c.ctx.present() != driver.Success { // it has returned, and the context has not
			return 0, vanished
		}
		p := &pool{handle: driver.MemPool(d.newHandle()), dev: dev, life: dev.life.Load(), made: c.made, limit: props.MaxBytes,
			reuse: defaultReuse, access: map[int]driver.MemAccessFlags{}}
		d.pools.live[p.handle] = p
		return p.handle, driver.Success
	})
}

func (d *simulated) MemPoolDestroy(h driver.MemPool) driver.Result {
	return on(d, call.pool, "cuMemPoolDestroy", h, func(c call, p *pool) driver.Result {
		if p == p.dev.defaultPool {
			return driver.ResultInvalidValue
		}
		if p.dev.pool == p {
			p.dev.pool = p.dev.defaultPool
		}
		p.destroyed = true
		p.trimTo(0)
		remove(c, &d.pools, h)
		return driver.Success
	})
}

func (d *simulated) MemPoolTrimTo(h driver.MemPool, keep uint64) driver.Result {
	return on(d, call.pool, "cuMemPoolTrimTo", h, func(_ call, p *pool) driver.Result {
		p.trimTo(keep)
		return driver.Success
	})
}

func (d *simulated) MemPoolSetAttribute(h driver.MemPool, attribute driver.MemPoolAttribute, value uint64) driver.Result {
	return on(d, call.pool, "cuMemPoolSetAttribute", h, func(_ call, p *pool) driver.Result {
		switch attribute {
		case driver.MemPoolReuseFollowEventDependencies, driver.MemPoolReuseAllowOpportunistic,
			driver.MemPoolReuseAllowInternalDependencies:
			p.reuse[attribute-driver.MemPoolReuseFollowEventDependencies] = uint64(uint32(value))
			return driver.Success
		case driver.MemPoolReleaseThreshold:
			p.threshold = value
			return driver.Success
		}
		// The high marks can be set to 0 only, and the current values not at all.
		high := map[driver.MemPoolAttribute]func(){
			driver.MemPoolReservedMemHigh: func() { p.reservedHigh = p.reserved },
			driver.MemPoolUsedMemHigh:     func() { p.usedHigh = p.used },
		}
		reset, ok := high[attribute]
		if !ok || value != 0 {
			return driver.ResultInvalidValue
		}
		reset()
		return driver.Success
	})
}

func (d *simulated) MemPoolGetAttribute(h driver.MemPool, attribute driver.MemPoolAttribute) (uint64, driver.Result) {
	return getOf(d, call.pool, "cuMemPoolGetAttribute", h, func(_ call, p *pool) (uint64, driver.Result) {
		value, ok := map[driver.MemPoolAttribute]uint64{
			driver.MemPoolReuseFollowEventDependencies:   p.reuse[0],
			driver.MemPoolReuseAllowOpportunistic:        p.reuse[1],
			driver.MemPoolReuseAllowInternalDependencies: p.reuse[2],
			driver.MemPoolReleaseThreshold:               p.threshold,
			driver.MemPoolReservedMemCurrent:             p.reserved,
			driver.MemPoolReservedMemHigh:                p.reservedHigh,
			driver.MemPoolUsedMemCurrent:                 p.used,
			driver.MemPoolUsedMemHigh:                    p.usedHigh,
		}[attribute]
		if !ok {
			return 0, driver.ResultInvalidValue
		}
		return value, driver.Success
	})
}

func (d *simulated) MemPoolSetAccess(h driver.MemPool, access []driver.MemAccess) driver.Result {
	return on(d, call.pool, "cuMemPoolSetAccess", h, func(_ call, p *pool) driver.Result {
		for _, a := range access {
			dev, r := d.device(driver.Device(a.Location.ID))
			switch {
			case r != driver.Success, a.Location.Type != driver.MemLocationDevice:
				return driver.ResultInvalidValue
			case a.Flags != driver.MemAccessNone && a.Flags != driver.MemAccessReadWrite:
				return driver.ResultInvalidValue
			case dev == p.dev && a.Flags == driver.MemAccessNone:
				return driver.ResultInvalidValue
			case dev != p.dev && !dev.canReach(p.dev):
				return driver.ResultInvalidDevice
			}
		}
		d.memory.mu.Lock()
		defer d.memory.mu.Unlock()
		for _, a := range access {
			p.access[int(a.Location.ID)] = a.Flags
		}
		return driver.Success
	})
}

func (d *simulated) MemPoolGetAccess(h driver.MemPool, location driver.MemLocation) (driver.MemAccessFlags, driver.Result) {
	return getOf(d, call.pool, "cuMemPoolGetAccess", h, func(_ call, p *pool) (driver.MemAccessFlags, driver.Result) {
		dev, r := d.device(driver.Device(location.ID))
		switch {
		case r != driver.Success, location.Type != driver.MemLocationDevice:
			return 0, driver.ResultInvalidValue
		case dev == p.dev:
			return driver.MemAccessReadWrite, driver.Success
		}
		return p.access[dev.ordinal], driver.Success
	})
}
