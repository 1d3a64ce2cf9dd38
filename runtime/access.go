package runtime

import (
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/refs"
)

// lease keeps what work on the stream uses from being freed until release. It orders the work that
// follows after the work of other streams with the same memory. In a capture there is no such work: a
// graph is ordered when it is launched. The caller is inside the gate of the stream.
func (s *Stream) lease(args []Arg) error {
	captured := s.capture.Load() != nil
	for i := range args {
		a := &args[i]
		var err error
		switch {
		case a.kind >= reading:
			if _, err = a.ref().Acquire(); err == nil && !captured {
				if err = a.ref().Use(s.memory, a.writes()); err != nil {
					a.ref().Release()
				}
			}
		case a.kind == objectArg:
			o := a.object()
			if err = o.hold(); err == nil && o.entry.lease != nil {
				o.entry.usedOn(s)
			}
		}
		if err != nil {
			s.release(args[:i])
			return err
		}
	}
	return nil
}

// release ends a lease. Whoever may free or settle what was used finds the work on the stream then.
func (s *Stream) release(args []Arg) {
	s.waits.Changed()
	for i := range args {
		a := &args[i]
		switch {
		case a.kind >= reading:
			a.ref().Release()
		case a.kind == objectArg:
			a.object().leave()
		}
	}
}

// check is why what an argument refers to cannot be used now, or nil.
func (a *Arg) check() error {
	switch {
	case a.kind >= reading:
		_, err := a.ref().Access()
		return err
	case a.kind == objectArg:
		if err := a.object().hold(); err != nil {
			return err
		}
		a.object().leave()
	}
	return nil
}

// device of the memory, if it belongs to one.
func (a *Arg) device(s *Stream) (ordinal int, same bool) {
	if ref := a.ref(); ref != nil {
		return ref.State().Device(), ref.State() == s.ctx.state
	}
	if o := a.object(); o != nil && !o.entry.kind.ofHost() {
		return o.ctx.device.Ordinal, o.ctx == s.ctx
	}
	return 0, true
}

// transfer runs f as work on the stream that uses a and b, with the addresses of those that are Refs.
// a is memory of the stream's device.
func (s *Stream) transfer(operation string, a, b Arg, f func(a, b driver.DevicePtr) error) error {
	if err := s.reaches(operation, &a, &b); err != nil {
		return err
	}
	if a.ref() != nil && a.ref().Len() == 0 {
		return nil
	}
	if o := b.object(); o != nil {
		o.ctx.usedBy(s.ctx)
	}
	if err := s.work(); err != nil {
		return err
	}
	defer s.endWork()
	args := [...]Arg{a, b}
	if err := s.lease(args[:]); err != nil {
		return err
	}
	defer s.release(args[:])
	if c := s.capture.Load(); c != nil {
		if err := c.record(operation, a, b); err != nil {
			return err
		}
	}
	return f(a.ref().Ptr(), b.ref().Ptr())
}

// reaches is why a transfer from or to a cannot be made on the stream. With its returns transfer would have more than a function with
// fast defers may have.
func (s *Stream) reaches(operation string, a, b *Arg) error {
	for _, arg := range [...]*Arg{a, b} {
		if err := arg.check(); err != nil {
			return err
		}
	}
	switch on, same := a.device(s); {
	case same:
		return nil
	case on == s.ctx.device.Ordinal:
		return errForeign(on)
	default:
		return driver.Errorf(driver.ErrInvalidArgument, "%s on a stream of device %d, and the memory is on device %d",
			operation, s.ctx.device.Ordinal, on)
	}
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

// apart ends an error that names the devices of two contexts. Where they have one device, it says how they differ.
func apart(a, b *Context) string {
	if a.device.Ordinal == b.device.Ordinal {
		return ", which belong to two runtimes"
	}
	return ""
}

func errForeign(device int) error {
	return driver.Errorf(driver.ErrInvalidArgument, "the memory on device %d belongs to another runtime", device)
}
