package runtime

import (
	"errors"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// maxSpare is how many streams a context keeps for later ones.
const maxSpare = 64

// newStreamHandle takes a stream that was kept, or makes one. The context is current.
func (c *Context) newStreamHandle(priority int32) (uint64, driver.Result) {
	if priority == 0 {
		if handle := c.ledger.takeSpare(); handle != 0 {
			return handle, driver.Success
		}
	}
	s, r := c.api.StreamCreateWithPriority(driver.StreamNonBlocking, priority)
	return uint64(s), r
}

// keep keeps the stream of an entry that was taken off the ledger, if nobody can tell it from a new one. Making one and destroying it
// takes 6 microseconds.
func (e *entry) keep(s *streamParts) bool {
	if s.priority != 0 || s.spoiled.Load() || !s.memory.Finished() {
		return false
	}
	return e.ctx.ledger.keepSpare(e.handle)
}

// trimStreams destroys the streams that were kept. The context is current.
func (c *Context) trimStreams() error {
	var errs []error
	for _, handle := range c.ledger.takeSpares() {
		if !c.isLost() {
			errs = append(errs, c.bind.Failed("cuStreamDestroy", c.api.StreamDestroy(driver.Stream(handle))))
		}
	}
	return errors.Join(errs...)
}

// keepSpare keeps a stream without work, unless there are enough.
func (l *ledger) keepSpare(handle uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.spare) == maxSpare {
		return false
	}
	l.spare = append(l.spare, handle)
	return true
}

// takeSpare returns a stream that was kept, or 0.
func (l *ledger) takeSpare() (handle uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := len(l.spare) - 1; last >= 0 {
		handle, l.spare = l.spare[last], l.spare[:last]
	}
	return handle
}

func (l *ledger) takeSpares() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.spare
	l.spare = nil
	return all
}

// addTrimHook lists a function of OnTrim.
func (l *ledger) addTrimHook(f *func() error) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onTrim = append(l.onTrim, f)
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.onTrim = slices.DeleteFunc(l.onTrim, func(g *func() error) bool { return g == f })
	}
}

func (l *ledger) trimHooks() (all []func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.onTrim {
		all = append(all, *f)
	}
	return all
}
