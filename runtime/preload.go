package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// Preload opens the contexts of all usable devices and fills their module caches, all devices
// at the same time, so that the first launch does not wait for it:
//
//	err := rt.Preload(ctx, func(ctx context.Context, c *runtime.Context) (*runtime.Module, error) {
//		return c.Compile(ctx, program)
//	})
//
// Each function is called for each device. On one device they are called one after the other.
// Preload closes the modules that they return. Modules of CachedModule or Compile stay cached, and the
// next caller finds them there. Without a function Preload only opens the contexts.
//
// It returns when all devices are done, with the errors of all of them. An error or a panic on one
// device does not stop the others. If CUDA is not available, the error is Err's.
func (rt *Runtime) Preload(ctx context.Context, load ...func(context.Context, *Context) (*Module, error)) error {
	if rt == nil || rt.life == nil {
		return errNothing("runtime")
	}
	if ctx == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "Preload takes a context that is not nil")
	}
	if i := slices.IndexFunc(load, func(f func(context.Context, *Context) (*Module, error)) bool { return f == nil }); i >= 0 {
		return driver.Errorf(driver.ErrInvalidArgument, "Preload: function %d is nil", i)
	}
	if err := rt.Err(); err != nil {
		return err
	}
	devices := rt.Devices()
	errs := make([]error, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		if _, err := rt.query(d.Ordinal); err != nil {
			continue
		}
		all.Go(func() {
			contain.Call(func() error { return rt.preload(ctx, d.Ordinal, load) }, func(err error) {
				if err != nil {
					errs[i] = fmt.Errorf("preloading device %d: %w", d.Ordinal, err)
				}
			})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (rt *Runtime) preload(ctx context.Context, ordinal int, load []func(context.Context, *Context) (*Module, error)) error {
	c, err := rt.Context(ordinal)
	for _, f := range load {
		if err != nil {
			return err
		}
		if err = context.Cause(ctx); err != nil {
			return err
		}
		var m *Module
		if m, err = f(ctx, c); m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	return err
}
