package runtime

import (
	"errors"
	"fmt"

	"github.com/purecuda/purecuda/driver"
)

// Backend is what one module of a program keeps to use CUDA: the best device, its
// context, which all modules share, and a stream of the module's own.
type Backend struct {
	Label   string
	Context *Context
	Stream  *Stream

	generation uint64 // of the context
}

// Device is the device of the backend.
func (b *Backend) Device() Device { return b.Context.Device() }

// Capability is the compute capability of the device.
func (b *Backend) Capability() Capability { return b.Context.Device().Capability }

// current tells whether the context is the one that the backend was made for.
func (b *Backend) current() bool { return b.generation == b.Context.state.Generation() }

// Probe gives a module its backend. The label names the module in errors. All
// labels get the same device and context; the same label gets the same backend
// again, with its stream, until the context is reset.
//
// Where CUDA is absent the error is of kind driver.ErrDriverLibraryUnavailable
// ("LABEL backend: no CUDA runtime available"), where the context cannot be opened
// of kind driver.ErrDriverCallFailed ("LABEL backend: failed to create CUDA
// context for device N"), and for any other fault of the kind of its cause.
// Absence and fault are remembered until Refresh.
func (rt *Runtime) Probe(label string) (*Backend, error) {
	if err := rt.Err(); err != nil {
		return nil, probeError(label, rt.Outcome(), err)
	}
	rt.mu.Lock()
	b, closed := rt.backends[label], rt.closed
	rt.mu.Unlock()
	switch {
	case closed:
		return nil, probeError(label, Fault, errClosed("runtime"))
	case b != nil && b.current():
		return b, nil
	}
	best := rt.found.Load().devices[0].Ordinal
	c, err := rt.Context(best)
	if err != nil {
		e := driver.Errorf(driver.ErrDriverCallFailed, "%s backend: failed to create CUDA context for device %d", label, best)
		e.Device, e.Err = best, err
		return nil, e
	}
	s, err := c.NewStream()
	if err != nil {
		return nil, probeError(label, Fault, err)
	}
	b = &Backend{Label: label, Context: c, Stream: s, generation: s.resource.generation}
	if first := rt.keepBackend(b); first != b { // another goroutine was faster
		rt.report(s.Close())
		return first, nil
	}
	return b, nil
}

// keepBackend keeps a backend under its label, unless there is one, which it returns.
func (rt *Runtime) keepBackend(b *Backend) *Backend {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if other := rt.backends[b.Label]; other != nil && other.current() {
		return other
	}
	if !rt.closed {
		rt.backends[b.Label] = b
	}
	return b
}

// ProbeWith is Probe followed by the module's own preparation, such as loading its
// kernels. An error of build is returned with the label before it.
func (rt *Runtime) ProbeWith(label string, build func(*Backend) error) (*Backend, error) {
	b, err := rt.Probe(label)
	if err != nil {
		return nil, err
	}
	if err := build(b); err != nil {
		return nil, probeError(label, Fault, err)
	}
	return b, nil
}

func probeError(label string, outcome Outcome, cause error) error {
	if outcome == Absent {
		e := driver.Errorf(driver.ErrDriverLibraryUnavailable, "%s backend: no CUDA runtime available", label)
		e.Err = cause
		return e
	}
	var known *driver.Error
	if !errors.As(cause, &known) {
		return fmt.Errorf("%s backend: %w", label, cause)
	}
	format := "%s backend: CUDA cannot be used"
	if known.Kind == driver.ErrRefStale {
		format = "%s backend: the context is being reset; try again"
	}
	e := driver.Errorf(known.Kind, format, label)
	e.Device, e.Sticky, e.Err = known.Device, known.Sticky, cause
	return e
}
