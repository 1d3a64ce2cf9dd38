package runtime

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// Submit puts work of another library on the stream: f enqueues it on the given stream, which is that
// of Handle, and returns. The uses are what the work uses: [In] and [InOut] of Refs, [HostBuffer.Arg]
// and [LibraryHandle.Arg]. The addresses of uses are at[i], and 0 for a LibraryHandle. f must not keep at. name
// is for errors, captures and traces, such as "cublasSgemm".
//
// The work is ordered as a launch is: it waits for the work of other streams with the Refs, and what
// uses them later waits for it. What it uses may be closed as soon as Submit has returned. In a
// capture it is recorded, and the graph keeps what it uses.
//
// f runs before Submit returns, with the context current, on a thread that no other goroutine has
// meanwhile. It must leave the current context of the thread as it was. It must not call this package
// about the stream: a capture of the stream waits for f. An error of f is returned
// behind the name, a panic as well. Then a capture fails, and what f has enqueued before is
// ordered all the same. If the error wraps a sticky [driver.Result], CUDA is lost, as after a call of this
// package.
//
// f does not run if the stream is closed, or if something that it uses is closed or stale. After a loss it
// does not run either: the error is of kind driver.ErrDeviceLost, with the first cause. Memory of
// other devices needs [Context.EnablePeer].
func (s *Stream) Submit(name string, f func(stream driver.Stream, at []driver.DevicePtr) error, uses ...Arg) error {
	switch {
	case s == nil || s.ctx == nil:
		return errNothing("stream")
	case f == nil:
		return driver.Errorf(driver.ErrInvalidArgument, "%s: Submit takes a function that is not nil", name)
	}
	space := addresses.Get().(*[]driver.DevicePtr)
	defer addresses.Put(space)
	at := slices.Grow((*space)[:0], len(uses))[:len(uses)]
	*space = at
	for i := range uses {
		var err error
		if at[i], err = s.address(name, i, &uses[i]); err != nil {
			return err
		}
	}
	if s.tracing.Load() == nil {
		return s.submit(name, f, at, uses)
	}
	return s.traceLaunch(TraceLaunch{Kernel: name}, func() error { return s.submit(name, f, at, uses) })
}

// addresses are the arrays of calls of Submit that have returned.
var addresses = sync.Pool{New: func() any { return new([]driver.DevicePtr) }}

func (s *Stream) submit(name string, f func(driver.Stream, []driver.DevicePtr) error, at []driver.DevicePtr, uses []Arg) error {
	if err := s.work(); err != nil {
		return err
	}
	defer s.endWork()
	if err := s.lease(uses); err != nil {
		return err
	}
	defer s.release(uses)
	captured := s.capture.Load()
	if captured != nil {
		if err := captured.record(name, uses...); err != nil {
			return err
		}
	}
	s.stats.submits.Add(1)
	s.spoil()
	call := func() error { return f(s.handle, at) }
	var err error
	if makeCurrent(uses) {
		err = contain.Do(call)
	} else {
		err = s.ctx.bind.Do(func() error { return contain.Do(call) })
	}
	if err == nil {
		return nil
	}
	err = s.noteForeign(name, err)
	if captured != nil {
		captured.fail(err) // nobody knows what was recorded
	}
	return err
}

// noteForeign makes the error of a Submit of its function's.
func (s *Stream) noteForeign(name string, err error) error {
	var known *driver.Error
	var r driver.Result
	if !errors.As(err, &known) && errors.As(err, &r) && r.Sticky() {
		e := s.fault(name, r)
		e.Err = err
		return e
	}
	return fmt.Errorf("%s: %w", name, err)
}

// address of what a Submit uses, its argument i, if it can be used on the stream.
func (s *Stream) address(name string, i int, a *Arg) (driver.DevicePtr, error) {
	if ref := a.ref(); ref != nil && ref.State() == s.ctx.state {
		return ref.Access() // which is nearly always all
	}
	switch a.kind {
	case wrong:
		return 0, (*driver.Error)(a.of)
	case scalar, structure, reportArg:
		return 0, driver.Errorf(driver.ErrInvalidArgument, "%s uses %s as argument %d: want In, InOut, HostBuffer.Arg or LibraryHandle.Arg",
			name, a.what(), i)
	}
	if a.kind >= reading { // an object is looked at when it is leased
		if err := a.check(); err != nil {
			return 0, err
		}
	}
	on, same := a.device(s)
	if ref := a.ref(); ref != nil {
		switch {
		case same || s.ctx.hasPeerAccess(ref.State()):
			return ref.Ptr(), nil
		case on == s.ctx.device.Ordinal:
			return 0, errForeign(on)
		}
		return 0, driver.Errorf(driver.ErrInvalidArgument, "%s uses memory of device %d as argument %d, and the stream is of device %d (see Context.EnablePeer)",
			name, on, i, s.ctx.device.Ordinal)
	}
	if !same {
		return 0, driver.Errorf(driver.ErrInvalidArgument, "%s uses a library handle of device %d as argument %d, and the stream is of device %d",
			name, on, i, s.ctx.device.Ordinal)
	}
	a.object().ctx.usedBy(s.ctx)
	return driver.DevicePtr(a.bits), nil
}
