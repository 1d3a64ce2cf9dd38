package drivertest

import (
	"fmt"

	"github.com/purecuda/purecuda/driver"
)

// context is a primary context. A device has a new one, with a new handle, after
// each reset and after the last release.
type context struct {
	handle driver.Context
	id     uint64
	dev    *device
	life   int64 // of the device
	dead   bool
	made   origin

	null       *stream              // the legacy default stream
	running    map[*stream]struct{} // those with unfinished operations
	unfinished int                  // operations
	shared     []*connection        // that its streams take in turn, if Config.Connections is set
	taken      int                  // connections by streams
	limits     map[driver.Limit]uint64
	peers      map[*context]bool // whose memory kernels may use
	parts      map[*library]*module
}

func (d *simulated) newContext(dev *device, made origin) *context {
	ctx := &context{
		handle: driver.Context(d.newHandle()), id: d.newID(), dev: dev, life: dev.life.Load(), made: made,
		running: map[*stream]struct{}{},
		limits: map[driver.Limit]uint64{
			driver.LimitStackSize:                    1 << 10,
			driver.LimitPrintfFifoSize:               8650752,
			driver.LimitMallocHeapSize:               8 << 20,
			driver.LimitDevRuntimePendingLaunchCount: 2048,
			driver.LimitMaxL2FetchGranularity:        64,
			driver.LimitPersistingL2CacheSize:        0,
			driver.LimitShmemSize:                    uint64(dev.config.model.sharedPerBlockOptin),
			driver.LimitCIGEnabled:                   0,
		},
		peers: map[*context]bool{},
		parts: map[*library]*module{},
	}
	for range d.config.Connections {
		ctx.shared = append(ctx.shared, &connection{begun: closed})
	}
	ctx.null = &stream{ctx: ctx, id: d.newID(), made: made, connection: ctx.connect()}
	d.contexts.live[ctx.handle] = ctx
	return ctx
}

// context finds a context that lives.
func (c call) context(h driver.Context) (*context, driver.Result) {
	if h == 0 {
		return nil, driver.ResultInvalidContext
	}
	ctx, r := find(c, &c.d.contexts, h)
	if r == driver.ResultInvalidHandle {
		r = driver.ResultInvalidContext
		if _, was := c.d.gone.find(uintptr(h)); was {
			r = driver.ResultContextIsDestroyed
		}
	}
	return ctx, r
}

func (d *simulated) DevicePrimaryCtxRetain(h driver.Device) (driver.Context, driver.Result) {
	return getOf(d, call.device, "cuDevicePrimaryCtxRetain", h, func(c call, dev *device) (driver.Context, driver.Result) {
		if dev.primary == nil {
			if sticky := d.poison(); sticky != driver.Success {
				return 0, sticky
			}
			if r := dev.present(); r != driver.Success {
				return 0, r
			}
			dev.primary = d.newContext(dev, c.made)
		}
		dev.retains++
		return dev.primary.handle, driver.Success
	})
}

func (d *simulated) DevicePrimaryCtxRelease(h driver.Device) driver.Result {
	return on(d, call.device, "cuDevicePrimaryCtxRelease", h, func(c call, dev *device) driver.Result {
		if dev.retains == 0 {
			c.found(driver.ResultInvalidContext, "the primary context of device %d is released more often than retained", dev.ordinal)
			return driver.ResultInvalidContext
		}
		dev.retains--
		if dev.retains == 0 && dev.primary != nil {
			c.destroy(dev.primary, true)
		}
		return driver.Success
	})
}

func (d *simulated) DevicePrimaryCtxReset(h driver.Device) driver.Result {
	return on(d, call.device, "cuDevicePrimaryCtxReset", h, func(c call, dev *device) driver.Result {
		if dev.primary != nil {
			c.destroy(dev.primary, false)
		}
		return driver.Success
	})
}

func (d *simulated) DevicePrimaryCtxGetState(device driver.Device) (flags uint32, active int32, r driver.Result) {
	_, dev, r := enterOn(d, call.device, "cuDevicePrimaryCtxGetState", device)
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	return dev.contextFlags, boolean(dev.primary != nil), driver.Success
}

func (d *simulated) DevicePrimaryCtxSetFlags(h driver.Device, flags uint32) driver.Result {
	return on(d, call.device, "cuDevicePrimaryCtxSetFlags", h, func(_ call, dev *device) driver.Result {
		const schedule, others = 7, 0x70
		switch flags & schedule {
		case driver.ContextScheduleAuto, driver.ContextScheduleSpin,
			driver.ContextScheduleYield, driver.ContextScheduleBlocking:
		default:
			return driver.ResultInvalidValue
		}
		if flags&^(schedule|others) != 0 {
			return driver.ResultInvalidValue
		}
		dev.contextFlags = flags
		return driver.Success
	})
}

// destroy lets the work of a context finish and then drops all that lives in it.
// What the program still held is remembered as lost if asked for.
func (c call) destroy(ctx *context, remember bool) {
	d := c.d
	ctx.dead = true
	ctx.dev.primary = nil
	for ctx.unfinished > 0 {
		d.idle.Wait()
	}
	remember = remember && ctx.present() == driver.Success
	lose := func(text string, made origin) {
		if remember {
			if made.op != "" {
				text += " from " + made.text(d.config.Stacks)
			}
			d.lost = append(d.lost, fmt.Sprintf("%s, destroyed with its context by %v", text, c.made))
		}
	}
	for k := range d.captures {
		if k.ctx == ctx {
			k.end()
		}
	}
	for h, s := range d.streams.live {
		if s.ctx == ctx {
			lose(fmt.Sprintf("stream %#x", uintptr(h)), s.made)
			removeWith(c, &d.streams, h)
		}
	}
	for h, e := range d.events.live {
		if e.ctx == ctx {
			lose(fmt.Sprintf("event %#x", uintptr(h)), e.made)
			removeWith(c, &d.events, h)
		}
	}
	for h, x := range d.execs.live {
		if x.ctx == ctx {
			lose(fmt.Sprintf("executable graph %#x", uintptr(h)), x.made)
			removeWith(c, &d.execs, h)
		}
	}
	for h, m := range d.modules.live {
		if m.ctx == ctx {
			if m.library == nil {
				lose(fmt.Sprintf("module %#x", uintptr(h)), m.made)
			}
			c.unload(m, true)
		}
	}
	for _, a := range d.memory.of(ctx) {
		lose(a.String(), origin{})
		c.release(a)
	}
	for h, a := range d.arrays.live {
		if a.ctx == ctx {
			lose(a.String(), origin{})
			a.dev.used -= a.bytes
			removeWith(c, &d.arrays, h)
		}
	}
	for _, h := range d.memory.hostOf(ctx) {
		lose(h.String(), origin{})
		c.releaseHost(h)
	}
	for other := range d.contexts.live {
		d.memory.mu.Lock()
		delete(d.contexts.live[other].peers, ctx)
		d.memory.mu.Unlock()
	}
	removeWith(c, &d.contexts, ctx.handle)
}

func (d *simulated) CtxPushCurrent(h driver.Context) driver.Result {
	return d.do("cuCtxPushCurrent", func(c call) driver.Result {
		if h == 0 {
			return driver.ResultInvalidValue
		}
		ctx, r := c.context(h)
		if r != driver.Success {
			return r
		}
		c.thread.stack = append(c.thread.stack, ctx)
		d.keep(c.thread)
		return driver.Success
	})
}

func (d *simulated) CtxPopCurrent() (driver.Context, driver.Result) {
	return get(d, "cuCtxPopCurrent", func(c call) (driver.Context, driver.Result) {
		top := c.thread.current()
		if top == nil {
			return 0, driver.ResultInvalidContext
		}
		c.thread.stack = c.thread.stack[:len(c.thread.stack)-1]
		d.keep(c.thread)
		return top.handle, driver.Success
	})
}

func (d *simulated) CtxSetCurrent(h driver.Context) driver.Result {
	c, r := d.enter("cuCtxSetCurrent")
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	var ctx *context
	if h != 0 {
		if ctx, r = c.context(h); r != driver.Success {
			return r
		}
	}
	if n := len(c.thread.stack); n > 0 {
		c.thread.stack = c.thread.stack[:n-1]
	}
	if ctx != nil {
		c.thread.stack = append(c.thread.stack, ctx)
	}
	d.keep(c.thread)
	return driver.Success
}

func (d *simulated) CtxGetCurrent() (driver.Context, driver.Result) {
	return get(d, "cuCtxGetCurrent", func(c call) (driver.Context, driver.Result) {
		if c.ctx == nil {
			return 0, driver.Success
		}
		return c.ctx.handle, driver.Success
	})
}

func (d *simulated) CtxGetDevice() (driver.Device, driver.Result) {
	return get(d, "cuCtxGetDevice", func(c call) (driver.Device, driver.Result) { return driver.Device(c.ctx.dev.ordinal), driver.Success })
}

func (d *simulated) CtxSynchronize() driver.Result {
	return d.do("cuCtxSynchronize", func(c call) driver.Result {
		var last []*operation
		for s := range c.ctx.running {
			last = append(last, s.last)
		}
		return c.wait(last...)
	})
}

func (d *simulated) CtxGetStreamPriorityRange() (least, greatest int32, r driver.Result) {
	_, r = d.enter("cuCtxGetStreamPriorityRange")
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	return leastPriority, greatestPriority, driver.Success
}

func (d *simulated) CtxGetLimit(limit driver.Limit) (uint64, driver.Result) {
	return get(d, "cuCtxGetLimit", func(c call) (uint64, driver.Result) {
		if r := c.ctx.knows(limit); r != driver.Success {
			return 0, r
		}
		return c.ctx.limits[limit], driver.Success
	})
}

func (d *simulated) CtxSetLimit(limit driver.Limit, value uint64) driver.Result {
	return d.do("cuCtxSetLimit", func(c call) driver.Result {
		if r := c.ctx.knows(limit); r != driver.Success {
			return r
		}
		c.ctx.limits[limit] = value
		return driver.Success
	})
}

// knows tells whether the context has a limit.
func (ctx *context) knows(limit driver.Limit) driver.Result {
	if _, ok := ctx.limits[limit]; ok {
		return driver.Success
	}
	if limit >= driver.LimitStackSize && limit <= driver.LimitCIGShmemFallbackEnabled {
		return driver.ResultUnsupportedLimit
	}
	return driver.ResultInvalidValue
}

func (d *simulated) CtxGetID(h driver.Context) (uint64, driver.Result) {
	return get(d, "cuCtxGetId", func(c call) (uint64, driver.Result) {
		ctx, r := c.contextOrCurrent(h)
		if r != driver.Success {
			return 0, r
		}
		return ctx.id, driver.Success
	})
}

func (d *simulated) CtxGetAPIVersion(h driver.Context) (uint32, driver.Result) {
	return get(d, "cuCtxGetApiVersion", func(c call) (uint32, driver.Result) {
		if _, r := c.contextOrCurrent(h); r != driver.Success {
			return 0, r
		}
		return 3020, driver.Success
	})
}

// contextOrCurrent finds a context; 0 is the current one.
func (c call) contextOrCurrent(h driver.Context) (*context, driver.Result) {
	if h == 0 {
		return c.ctx, c.needContext()
	}
	return c.context(h)
}
