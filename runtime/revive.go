package runtime

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// Revive makes a device work again that failed alone. Its queries failed, its context could not be
// opened, it did not answer any more, or it was lost in a Reset. Revive does nothing if the device
// works.
//
// It makes a new context as [Context.Reset] does, and the same rules hold. The Context stays the
// same, and objects of the old one stay stale. Other users of the device in the process lose what
// they have in it. HostBuffers of the device have to be closed before. Revive waits for calls that
// are still inside, and for the work of devices that may use memory of this one. When ctx ends
// first it returns ctx's cause, and nothing has changed.
//
// A device that still does not work stays lost, and the error says why. After a sticky error
// nothing helps inside the process: the error is Err's then, of kind driver.ErrDeviceLost,
// and Sticky.
func (rt *Runtime) Revive(ctx context.Context, ordinal int) error {
	if rt == nil || rt.life == nil {
		return errNothing("runtime")
	}
	if ctx == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "Revive takes a context, and it is nil")
	}
	if err := rt.life.lock(ctx); err != nil {
		return err
	}
	defer rt.life.unlock()
	return rt.revive(ctx, ordinal)
}

// revive is Revive for who holds life.
func (rt *Runtime) revive(ctx context.Context, ordinal int) error {
	err := rt.makeWork(ctx, ordinal)
	if err == nil {
		rt.tellRevived(ordinal)
	}
	return err
}

func (rt *Runtime) makeWork(ctx context.Context, ordinal int) error {
	rt.mu.Lock()
	closed, c, failed := rt.closed, rt.contexts[ordinal], rt.failures[ordinal]
	rt.mu.Unlock()
	switch err := rt.lostError(); {
	case closed:
		return errClosed("runtime")
	case err != nil:
		return err
	}
	if err := rt.queryAgain(ordinal); err != nil {
		return err
	}
	switch {
	case c != nil && c.isLost():
		return c.revive(ctx)
	case c == nil && failed != nil:
		_, shared, err := rt.contextOf(ordinal)
		if shared && err != nil {
			// That try may have begun before the device was back. One that begins now has not.
			_, _, err = rt.contextOf(ordinal)
		}
		return err
	}
	return nil
}

// queryAgain asks for the properties of a device whose queries failed. It is called by who holds
// life.
func (rt *Runtime) queryAgain(ordinal int) error {
	f := *rt.found.Load()
	at := slices.IndexFunc(f.devices, func(d Device) bool { return d.Ordinal == ordinal })
	if at < 0 {
		_, err := rt.Device(ordinal)
		return err
	}
	if f.devices[at].Err == nil {
		return nil
	}
	d := queryDevice(f.api, ordinal)
	if d.Err != nil {
		return d.Err
	}
	var err error
	if d.Score, err = rt.cfg.scoreOf(d); err != nil {
		return err
	}
	f.devices = slices.Clone(f.devices)
	f.devices[at] = d
	sortDevices(f.devices)
	f.outcome, f.err = Available, nil
	rt.found.Store(&f)
	return nil
}

// reviveAll tries to revive all devices that do not work.
func (rt *Runtime) reviveAll(ctx context.Context) {
	for _, d := range rt.Devices() {
		if d.Err == nil {
			continue
		}
		if err := rt.revive(ctx, d.Ordinal); err != nil {
			rt.log(slog.LevelDebug, "a device could not be revived", "device", d.String(), "error", err)
		}
	}
}

// revive makes a new context in place of a lost one.
func (c *Context) revive(ctx context.Context) error {
	if err := c.mayReset(); err != nil {
		return err
	}
	gates, err := c.suspend(ctx)
	if err == nil {
		// Its page-locked memory goes with the context.
		err = c.idle(ctx)
	}
	if err == nil {
		err = c.state.Drain(ctx) // frees that had begun before the loss, which no gate knows
	}
	if err == nil && !c.quiet(ctx) {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = c.rt.lostError()
	}
	if err == nil {
		c.rt.report(c.freeAllLost()) // it went with the device, or goes with the context
	}
	if err != nil || !c.state.Revive() {
		for _, g := range gates {
			g.Resume()
		}
		return errors.Join(err, c.rt.lostError())
	}
	return c.publish(c.exchange(c.takeDownLost))
}

// takeDownLost ends a context that was lost.
func (c *Context) takeDownLost() error {
	c.memory.Load().waits.Close(driver.Errorf(driver.ErrRefStale, "context rebuilt"))
	c.modules.reset(c.state.Done())
	return c.discard()
}
