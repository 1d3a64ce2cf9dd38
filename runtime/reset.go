package runtime

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
)

// Reset destroys the context and makes a new one. It frees everything in the context, and undoes
// settings that cannot be changed back. The steps are:
//
//   - Calls that enqueue something new fail with "device shutting down".
//   - Reset waits for calls and work under way on all devices.
//   - It frees what the context owns, resets the context, makes it again and tests it.
//   - It publishes the new generation.
//
// Objects of the old generation (Refs, streams, events, modules, graphs) are stale from then on:
// every use is an error of kind driver.ErrRefStale, "context rebuilt". The next Probe makes new
// backends.
//
// Page-locked and managed memory end with the context, also for those who hold their slices. So Reset
// fails while a HostBuffer or a Managed is open. It also fails while a stream is captured, on any device. Other users of CUDA
// in the process that use the same device lose what they have in the context, which they share.
//
// Until the context is destroyed, Reset can be given up. When ctx ends or waiting fails, Reset
// returns that error, and the context accepts work as before. If the new context cannot be made,
// the device is lost, and an error of kind driver.ErrDeviceLost says why. [Runtime.Revive] tries
// again. After a sticky error Reset fails in the same way, and nothing inside the process helps.
func (c *Context) Reset(ctx context.Context) error {
	if c == nil || c.rt == nil {
		return errNothing("context")
	}
	if err := c.rt.life.lock(ctx); err != nil {
		return err
	}
	defer c.rt.life.unlock()
	if err := c.check(); err != nil {
		return err
	}
	if err := c.mayReset(); err != nil {
		return err
	}
	c.state.Suspend()
	if err := c.quiesce(ctx); err != nil {
		c.state.Resume()
		return err
	}
	return c.publish(c.exchange(c.takeDown))
}

// publish opens the new context, or gives the device up if there is none.
func (c *Context) publish(err error) error {
	if err != nil {
		c.gate.Resume()
		return c.state.Check(0)
	}
	// Before the new generation, so that nobody finds the gate closed in a context that accepts
	// work. What is let in now looks at the state.
	c.gate.Resume()
	if err := c.state.Rebuild(); err != nil { // lost meanwhile
		c.abandonMemory(err)
		return err
	}
	c.rt.log(slog.LevelDebug, "the context was rebuilt", "device", c.device.String(), "generation", c.state.Generation())
	return nil
}

// lifeMutex is held by those who end contexts: one at a time. Waiting for it ends with a context.
type lifeMutex chan struct{}

func newLifeMutex() lifeMutex { return make(lifeMutex, 1) }

func (l lifeMutex) lock(ctx context.Context) error {
	if ctx == nil {
		return errNoContext("Reset")
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l lifeMutex) unlock() { <-l }

// mayReset is why the context cannot be reset, or nil.
func (c *Context) mayReset() error {
	for _, other := range c.rt.Contexts() {
		// Waiting for the device would make the capture fail.
		if other.waiters.Suspended() {
			return other.capturedError("Context.Reset")
		}
	}
	n := c.ledger.openHostMemory()
	if n == 0 {
		return nil
	}
	err := driver.Errorf(driver.ErrInvalidArgument, "%d HostBuffers or Managed of the context are open: close them before Reset, "+
		"which would take their memory away from the slices that refer to it", n)
	err.Device = c.device.Ordinal
	return err
}

// quiesce waits until nobody uses the context, and keeps it so: the gates of the context and of
// all that it owns are suspended. After an error they are not.
func (c *Context) quiesce(ctx context.Context) error {
	// Once more, since the intake has stopped only now: who begins a capture counts it first and
	// looks at the state then.
	if err := c.mayReset(); err != nil {
		return err
	}
	if err := c.state.Drain(ctx); err != nil {
		return err
	}
	if err := c.awaitAll(ctx); err != nil {
		return err
	}
	gates, err := c.suspend(ctx)
	if err == nil {
		err = c.mayReset()
	}
	if err == nil {
		// That of calls which had begun when the intake stopped.
		err = c.finish(ctx, c.marks(true))
	}
	if err != nil {
		for _, g := range gates {
			g.Resume()
		}
	}
	return err
}

// awaitAll waits for the work of all devices that may use what the context has.
func (c *Context) awaitAll(ctx context.Context) error {
	if err := c.hold(); err != nil {
		return err
	}
	defer c.gate.Leave()
	return c.idle(ctx)
}

// suspend suspends the gate of the context, so that it gets nothing new, and the gates of all that
// it owns.
func (c *Context) suspend(ctx context.Context) (suspended []*gate.Gate, err error) {
	gates := []*gate.Gate{&c.gate}
	for i := 0; i < len(gates); i++ {
		if !gates[i].Suspend(0, ctx.Done()) {
			return suspended, context.Cause(ctx)
		}
		suspended = append(suspended, gates[i])
		if i == 0 {
			for _, e := range c.ledger.entries() {
				gates = append(gates, &e.gate)
			}
		}
	}
	return suspended, nil
}

// exchange takes the context down and sets up another one. Nobody uses it. If that fails, the device is lost before
// waits of other contexts may ask the driver about it: there is no context.
func (c *Context) exchange(takeDown func() error) error {
	c.alive.Suspend(0, nil) // those who gave up waiting for the device may still be at it
	defer c.alive.Resume()
	c.rt.report(takeDown())
	err := c.setUp()
	if err != nil {
		c.fail(err)
	}
	return err
}

// takeDown frees everything. What cannot be freed is gone with the context all the same.
func (c *Context) takeDown() error {
	err := errors.Join(c.closeMemory(true), c.freeAll(true))
	err = errors.Join(err, releaseAll(c.ledger.takeRetained()))
	return errors.Join(err, c.discard())
}

// discard ends the context, with all that is still in it.
func (c *Context) discard() error {
	for _, e := range c.ledger.entries() {
		e.gate.Close(c.state.Done())
	}
	c.ledger.clear()
	c.rt.peers.Drop(&c.bind)
	if c.isLost() {
		return nil
	}
	err := errors.Join(c.releasePrimary(),
		c.bind.Failed("cuDevicePrimaryCtxReset", c.api.DevicePrimaryCtxReset(c.device.handle)))
	c.bind.Context = 0
	return err
}

// setUp makes the new context and tries it out.
func (c *Context) setUp() error {
	if c.isLost() {
		return c.state.Check(0)
	}
	err := c.retain()
	if err != nil {
		return err
	}
	if _, _, err = c.tryOut(); err == nil {
		err = c.openMemory()
	}
	if err != nil && !c.isLost() {
		c.rt.report(errors.Join(c.freeAll(true), c.releasePrimary()))
	}
	return err
}

// fail gives the device up for this runtime: there is no context.
func (c *Context) fail(cause error) {
	var known *driver.Error
	if !errors.As(cause, &known) {
		known = driver.Errorf(driver.ErrDriverCallFailed, "%w", cause)
	}
	lost := driver.Errorf(known.Kind, "the context could not be made again")
	lost.Device, lost.Sticky, lost.Err = c.device.Ordinal, known.Sticky, cause
	if !c.isLost() {
		c.rt.log(slog.LevelError, "a device is lost", "device", c.device.String(), "error", lost)
	}
	c.loseMemory(lost)
}

// within runs f, which blocks in the driver and cannot be stopped. If ctx can end, it runs on a
// goroutine that outlives an early return until the device is done.
func within(ctx context.Context, rt *Runtime, f func() error) error {
	if ctx.Done() == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	gone := rt.gone
	var late <-chan time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-gone:
			gone, late = nil, time.After(afterLoss)
		case <-late:
			return rt.lostError()
		}
	}
}

// afterLoss is how long a wait that may end early goes on when CUDA is lost: the driver lets go
// of its waits then, and its answer says more.
const afterLoss = time.Second
