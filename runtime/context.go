package runtime

import (
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Context is the primary context of a device: the one that everybody in the
// process shares. It belongs to its Runtime, which closes it. It is safe for
// concurrent use.
type Context struct {
	rt    *Runtime
	api   driver.API
	bind  driver.Binding
	gate  gate
	stats counters

	ledger   ledger
	streams  atomic.Uint64 // counts streams, for their identity
	captures atomic.Int64  // under way on streams of the context
	device   Device
}

// openContext retains the primary context of a device.
func openContext(rt *Runtime, api driver.API, d Device) (*Context, error) {
	c := &Context{rt: rt, api: api, device: d}
	c.bind = driver.Binding{API: api, Ordinal: d.Ordinal, OnError: c.noteError, OnCleanup: rt.report}
	handle, r := api.DevicePrimaryCtxRetain(d.handle)
	if r != driver.Success {
		return nil, c.failed("cuDevicePrimaryCtxRetain", r)
	}
	c.bind.Context = handle
	err := c.prepare()
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	rt.cfg.logger.Debug("opened context", "device", d.String(), "free", c.device.FreeBytes, "hot path needs context", c.bind.NeedsCurrent)
	return c, nil
}

// prepare learns what is known only with a context: the free memory, and whether
// calls on a stream work on a thread without a current context. The latter is
// tried out, because no version number promises it.
func (c *Context) prepare() error {
	var stream resource
	err := c.do(func() error {
		free, _, r := c.api.MemGetInfo()
		if r != driver.Success {
			return c.failed("cuMemGetInfo", r)
		}
		c.device.FreeBytes = free
		s, r := c.api.StreamCreate(driver.StreamNonBlocking)
		if r != driver.Success {
			return c.failed("cuStreamCreate", r)
		}
		stream = c.newObject(streamResource, uint64(s), 0).resource
		return nil
	})
	if err != nil {
		return err
	}
	c.bind.NeedsCurrent = c.streamNeedsContext(driver.Stream(stream.handle))
	return c.giveBack(stream)
}

// streamNeedsContext asks for a stream on this thread after all contexts that others
// have left current on it were taken off, and puts those back. Setting no context would
// take only the last one off.
func (c *Context) streamNeedsContext(s driver.Stream) bool {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	var others []driver.Context
	defer func() {
		for _, other := range slices.Backward(others) {
			c.api.CtxPushCurrent(other)
		}
	}()
	for {
		current, r := c.api.CtxGetCurrent()
		if r != driver.Success {
			return true
		}
		if current == 0 {
			return c.api.StreamQuery(s) != driver.Success
		}
		if _, r := c.api.CtxPopCurrent(); r != driver.Success {
			return true
		}
		others = append(others, current)
	}
}

// Device describes the device, with the memory that was free when the context was
// opened.
func (c *Context) Device() Device { return c.device }

// Handle is the context as package driver takes it.
func (c *Context) Handle() driver.Context { return c.bind.Context }

// Runtime is the runtime that the context belongs to.
func (c *Context) Runtime() *Runtime { return c.rt }

// MemInfo returns the free and all bytes of the device at this moment.
func (c *Context) MemInfo() (free, total uint64, err error) {
	err = c.do(func() error {
		var r driver.Result
		free, total, r = c.api.MemGetInfo()
		return c.failed("cuMemGetInfo", r)
	})
	return free, total, err
}

// Synchronize waits for all work of the device's context, that of other users of
// the process included. It refuses while a stream of the context is captured, whose work
// does not run.
func (c *Context) Synchronize() error {
	if err := c.mayWait("Context.Synchronize"); err != nil {
		return err
	}
	return c.do(func() error { return c.failed("cuCtxSynchronize", c.api.CtxSynchronize()) })
}

// do runs f with the context current: on a locked thread, pushed before and popped
// after, so that a context that was current is current again.
func (c *Context) do(f func() error) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.gate.leave()
	return c.bind.Do(f)
}

// enter lets a call in unless the context is closed or CUDA is lost.
func (c *Context) enter() error {
	if !c.gate.enter() {
		return errClosed("context")
	}
	if err := c.rt.lostError(); err != nil {
		c.gate.leave()
		return err
	}
	return nil
}

// check tells whether a call would be let in.
func (c *Context) check() error {
	err := c.enter()
	if err == nil {
		c.gate.leave()
	}
	return err
}

// noteError is told of every error of a call.
func (c *Context) noteError(e *driver.Error) {
	c.stats.errors.Add(1)
	explainCapture(e)
	c.rt.noteError(e)
}

// failed makes the error of a call, and nil of success.
func (c *Context) failed(op string, r driver.Result) error { return c.bind.Failed(op, r) }

// reclaim gives back what the garbage collector has found.
func (c *Context) reclaim() {
	for _, r := range c.ledger.takeForgotten() {
		c.rt.report(c.giveBack(r))
	}
}

// giveBack takes a resource off the ledger and destroys it. Memory and code may still
// be in use by work on the device, and the driver does not promise to wait for it; so
// this does. If it does not come to destroying it, the resource counts as forgotten: it
// is tried again at the next allocation, and when the context closes.
func (c *Context) giveBack(r resource) error {
	if c.ledger.putOff(r) {
		return nil
	}
	var err error
	if r.kind >= execResource {
		if c.rt.capturing() {
			c.ledger.forget(r)
			return nil
		}
		err = c.idle()
	}
	tried := false
	keeps := c.ledger.keeps(r)
	if err == nil {
		err = c.bind.Do(func() error {
			tried = true
			if !c.ledger.take(r) {
				keeps = nil
				return nil
			}
			return c.failed(r.destroy(c.api))
		})
	}
	if !tried {
		c.ledger.forget(r)
		return err
	}
	return errors.Join(err, dropAll(keeps))
}

// idle waits until no device has work: that of one may use the memory of another. It
// is called inside the gate of c, so that none of the contexts is released meanwhile,
// also while the runtime closes.
func (c *Context) idle() error {
	contexts := c.rt.openContexts()
	if !slices.Contains(contexts, c) {
		contexts = append(contexts, c)
	}
	for _, other := range contexts {
		if err := other.finish(); err != nil {
			return err
		}
	}
	return nil
}

// finish waits for all work of the device.
func (c *Context) finish() error {
	return c.bind.Do(func() error { return c.failed("cuCtxSynchronize", c.api.CtxSynchronize()) })
}

// close gives everything back that the context owns, and the context itself.
func (c *Context) close() error { return closeContexts([]*Context{c}) }

// closeContexts waits for the work of all contexts before it gives back anything of
// one: that of one device may use the memory of another.
func closeContexts(contexts []*Context) error {
	var errs []error
	note := func(c *Context, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("closing the context of device %d: %w", c.device.Ordinal, err))
		}
	}
	for _, c := range contexts {
		note(c, c.drain())
	}
	idle := len(errs) == 0
	for _, c := range contexts {
		note(c, c.release(idle))
	}
	return errors.Join(errs...)
}

// drain keeps calls out and waits for those inside, and for all work of the device:
// streams that were closed may have left some.
func (c *Context) drain() error {
	c.gate.close()
	for _, e := range c.ledger.entries(streamResource) {
		e.gate.close()
	}
	if c.rt.lost.Load() != nil {
		return nil
	}
	return c.finish()
}

// release gives back what a drained context owns. Unless all devices are idle, memory
// and code may be in use, and are left to the driver: it frees them with the context,
// once nobody in the process uses that any more. It ends when CUDA is lost: the driver
// gives nothing back then.
func (c *Context) release(idle bool) error {
	if c.rt.lost.Load() != nil {
		return nil
	}
	kinds := resourceKinds
	if !idle {
		kinds = execResource
	}
	err := c.bind.Do(func() error {
		var errs []error
		for kind := range kinds {
			for r, e := range c.ledger.entries(kind) {
				e.gate.close()
				if c.rt.lost.Load() == nil && c.ledger.take(r) {
					errs = append(errs, c.failed(r.destroy(c.api)))
				}
			}
		}
		return errors.Join(errs...)
	})
	if c.rt.lost.Load() == nil {
		err = errors.Join(err, c.failed("cuDevicePrimaryCtxRelease", c.api.DevicePrimaryCtxRelease(c.device.handle)))
	}
	return err
}

// hostPointer turns an address of the ledger back into a pointer. The memory is
// the driver's, so that the garbage collector has no part in it.
func hostPointer(address uint64) unsafe.Pointer {
	p := uintptr(address)
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}
