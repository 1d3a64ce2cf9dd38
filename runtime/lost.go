package runtime

import (
	"log/slog"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/refs"
)

// noteError looks for sticky results, which end the use of CUDA in this process: the
// first one is kept as the cause of all later errors.
func (rt *Runtime) noteError(e *driver.Error) {
	if !e.Sticky || rt.lost.Load() != nil {
		return
	}
	first := *e // callers add to theirs
	if !rt.lost.CompareAndSwap(nil, &first) {
		return
	}
	contexts := rt.Contexts()
	for _, c := range contexts {
		c.state.Lose(&first) // before anybody wakes, who would find memory that seems to be there
	}
	close(rt.gone)
	rt.poller.Lose(&first)
	for _, c := range contexts {
		c.loseMemory(&first)
	}
	rt.log(slog.LevelError, "CUDA is lost for this process", "error", &first)
}

// lostError is what calls return once the context is lost, or nil. It is on the way of every
// launch.
func (c *Context) lostError() error {
	status := c.state.Status()
	if status != refs.Lost && status != refs.Closed {
		return nil
	}
	if err := c.rt.lostError(); err != nil || status == refs.Closed {
		return err
	}
	return c.state.Check(0)
}

// devicesLost is why there is no device left to work with, or nil: each of them is gone, or could
// not be made to work again after a Reset.
func (rt *Runtime) devicesLost() (first error) {
	f := rt.found.Load()
	if f.outcome != Available {
		return nil
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, d := range f.devices {
		if d.Err != nil {
			continue
		}
		c := rt.contexts[d.Ordinal]
		if c == nil || !c.isLost() {
			return nil
		}
		if first == nil {
			first = c.state.Check(0)
		}
	}
	return first
}

// lostError is what calls answer after a sticky error, or nil.
func (rt *Runtime) lostError() error {
	first := rt.lost.Load()
	if first == nil {
		return nil
	}
	return &driver.Error{Kind: driver.ErrDeviceLost, Device: first.Device, Sticky: true,
		Detail: "an earlier error has ended the use of CUDA in this process, and only a new process gets it back",
		Err:    first}
}
