package runtime

import (
	"context"
	"errors"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// defaultModuleCache is the limit of [WithModuleCache].
const defaultModuleCache = 256 << 20

// CachedModule is [Context.LoadModule] with a memory: the same images are loaded once,
// however many callers ask for them, at the same time or later. Use it where parts of a
// program that do not know each other need the same kernels, or where kernels come and go.
//
// Each call returns a Module of its own, a lease. Close ends the lease, and the Kernels and Variables of
// that Module cannot be used any more. The code stays loaded for the next caller. When the code of
// all cached modules exceeds the limit (see [WithModuleCache]), modules without leases and graphs are
// unloaded. That waits for the work of the device. A Module that is not closed counts as closed
// once the garbage collector has found it.
//
// A hit takes the time of a SHA-256 of the images and makes no call of the driver. Still, keep the
// Kernel if you launch often. Errors are those of LoadModule, and are not remembered.
func (c *Context) CachedModule(images ...Image) (*Module, error) {
	return c.cached(context.Background(), imagesKey(images), func(ctx context.Context) (*Module, error) {
		return c.load(ctx, images...)
	})
}

// TrimModules unloads cached modules that nobody uses, until at most keep bytes of code are
// cached. It waits for the work of the device.
func (c *Context) TrimModules(keep uint64) error {
	if err := c.check(); err != nil {
		return err
	}
	return c.evict(keep, nil)
}

// cached gives a lease of the module with a key, which is loaded if it is not there. When ctx
// ends or the runtime is closed, the wait ends; the load does too, if it looks at its
// context.
func (c *Context) cached(ctx context.Context, key moduleKey, load func(context.Context) (*Module, error)) (*Module, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if m := c.modules.take(key); m != nil {
		return m, nil
	}
	ctx, stop := c.rt.untilClosed(ctx)
	defer stop()
	for {
		loaded := false // by this caller
		e, shared, err := c.modules.flights.Do(ctx, key, func(ctx context.Context) (*cachedModule, error) {
			if e := c.modules.claim(key); e != nil {
				return e, nil
			}
			loaded = true
			m, err := load(ctx)
			if err != nil {
				return nil, err
			}
			return c.modules.land(key, m), nil
		})
		if err != nil {
			return nil, err
		}
		m := c.modules.join(e, shared || !loaded)
		c.rt.report(c.evict(c.rt.cfg.moduleCache, e))
		if m != nil {
			return m, nil
		}
		// It has left the cache before this caller came to it: evicted, or the context was
		// reset.
	}
}

// load loads an image for the cache. When memory is short, what nobody uses makes room.
func (c *Context) load(ctx context.Context, images ...Image) (*Module, error) {
	begin := time.Now()
	m, err := c.loadModule(ctx, images)
	if errors.Is(err, driver.ErrOutOfMemory) && c.modules.snapshot().modules > 0 {
		if err := c.evict(0, nil); err != nil {
			c.rt.report(err)
		}
		m, err = c.loadModule(ctx, images)
	}
	c.modules.loadTook(time.Since(begin))
	return m, err
}

// evict unloads what the cache has too much of.
func (c *Context) evict(limit uint64, but *cachedModule) error {
	var errs []error
	for _, m := range c.modules.surplus(limit, but) {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
