package runtime

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/refs"
)

// use is memory that work on a stream uses: a Ref, page-locked memory of the host, or a
// variable of a module. The zero value is none.
type use struct {
	ref *refs.Core
	// object is the host memory or the module.
	object *object
	// write says that the work writes the memory of a Ref, or may.
	write bool
}

var nothing use

func writes[T any](r *Ref[T]) use { return use{ref: coreOf(r), write: true} }
func reads[T any](r *Ref[T]) use  { return use{ref: coreOf(r)} }

// never stands for a nil Ref: every use of it is an error.
var never refs.Core

func coreOf[T any](r *Ref[T]) *refs.Core {
	if r == nil {
		return &never
	}
	return r.Core()
}

// enter keeps the memory from being given back until leave, and gives its address.
func (u *use) enter() (driver.DevicePtr, error) {
	switch {
	case u.ref != nil:
		return u.ref.Acquire()
	case u.object != nil:
		return 0, u.object.enter()
	}
	return 0, nil
}

func (u *use) leave() {
	switch {
	case u.ref != nil:
		u.ref.Release()
	case u.object != nil:
		u.object.leave()
	}
}

// order puts work on s behind the work of other streams with the memory. In a capture
// there is no such work; a graph is ordered when it is launched.
func (u *use) order(s *Stream) error {
	if u.ref == nil || s.capture.Load() != nil {
		return nil
	}
	return u.ref.Use(s.memory, u.write)
}

// device is that of the memory, if it belongs to one.
func (u *use) device(s *Stream) (ordinal int, same bool) {
	switch {
	case u.ref != nil:
		return u.ref.State().Device(), u.ref.State() == s.ctx.state
	case u.object != nil && !u.object.resource.kind.ofHost():
		return u.object.ctx.device.Ordinal, u.object.ctx == s.ctx
	}
	return 0, true
}

// transfer runs f as work on the stream, with the addresses of the Refs that it uses. The
// first memory is that of the stream's device.
func (s *Stream) transfer(operation string, a, b use, f func(a, b driver.DevicePtr) error) error {
	first, err := a.enter()
	if err != nil {
		return err
	}
	defer a.leave()
	second, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	switch on, same := a.device(s); {
	case same:
	case on == s.ctx.device.Ordinal:
		return errForeign(on)
	default:
		return driver.Errorf(driver.ErrInvalidArgument, "%s on a stream of device %d, and the memory is on device %d",
			operation, s.ctx.device.Ordinal, on)
	}
	if a.ref != nil && a.ref.Len() == 0 {
		return nil
	}
	if b.object != nil {
		b.object.ctx.usedBy(s.ctx)
	}
	if err := s.beginWork(); err != nil {
		return err
	}
	defer s.endWork()
	if c := s.capture.Load(); c != nil {
		if err := c.record(operation, a, b); err != nil {
			return err
		}
	}
	for _, u := range [...]*use{&a, &b} {
		if err := u.order(s); err != nil {
			return err
		}
	}
	return f(first, second)
}

// owner is the context whose memory has a state.
func (c *Context) owner(state *refs.State) (*Context, error) {
	if c.state == state {
		return c, nil
	}
	c.rt.mu.Lock()
	defer c.rt.mu.Unlock()
	if other := c.rt.contexts[state.Device()]; other != nil && other.state == state {
		return other, nil
	}
	return nil, errForeign(state.Device())
}

func errForeign(device int) error {
	return driver.Errorf(driver.ErrInvalidArgument, "the memory on device %d belongs to another runtime", device)
}

// lease keeps the memory of arguments from being given back until release, and puts the
// launch that is about to follow behind the work of other streams with it.
func (s *Stream) lease(k *Kernel, args []Arg) error {
	captured := s.capture.Load()
	for i := range args {
		ref := args[i].ref()
		if ref == nil {
			continue
		}
		_, err := ref.Acquire()
		if err != nil {
			release(args[:i])
			return err
		}
		if captured == nil {
			err = ref.Use(s.memory, args[i].kind == writing)
		}
		if err != nil {
			release(args[:i+1])
			return err
		}
	}
	if captured == nil {
		return nil
	}
	err := captured.recordLaunch(k, args)
	if err != nil {
		release(args)
	}
	return err
}

func release(args []Arg) {
	for i := range args {
		if ref := args[i].ref(); ref != nil {
			ref.Release()
		}
	}
}
