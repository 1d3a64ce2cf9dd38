package runtime

import (
	"errors"
	"fmt"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// Backend is what one module of a program keeps to use CUDA: the best device that works, its
// context, which all modules share, and a stream of the module's own.
type Backend struct {
	Label   string
	Context *Context
	Stream  *Stream
	// Skipped are the devices that would have come first and could not be used when the backend
	// was made, each with the reason in its Err.
	Skipped []Device

	generation uint64 // of the context
}

// Device is the device of the backend.
func (b *Backend) Device() Device {
	if b == nil || b.Context == nil {
		return Device{}
	}
	return b.Context.Device()
}

// current reports whether the context is the one that the backend was made for.
func (b *Backend) current() bool { return b.generation == b.Context.state.Generation() }

// usable reports whether the next Probe returns the backend again. A Reset that is under way may
// have closed the stream.
func (b *Backend) usable() bool {
	return b.current() && (!b.Stream.gate.Closed() || !b.Context.state.Accepting())
}

// Probe returns the backend of a part of the program. The label names that part in errors. All
// labels get the same device and context. The same label gets the same backend again, with its
// stream. It gets a new one after a reset, a loss of the device, or a close of the stream.
//
// If the context of the best device cannot be opened, because it is busy or gone, the next device
// is taken: see Backend.Skipped. Labels that come later get that device too, as long as it works.
//
// The kinds of errors:
//
//   - CUDA is absent: driver.ErrDriverLibraryUnavailable, "LABEL backend: no CUDA runtime available".
//   - No context can be opened: driver.ErrDriverCallFailed, "LABEL backend: failed to create CUDA
//     context for device N", with the errors of the other devices.
//   - The context is being reset, or its device revived: driver.ErrRefStale. Try again.
//   - Any other fault: the kind of its cause.
//
// Absence and fault are remembered until Refresh.
func (rt *Runtime) Probe(label string) (*Backend, error) {
	if rt == nil || rt.life == nil {
		return nil, errNothing("runtime")
	}
	if err := rt.Err(); err != nil {
		return nil, probeError(label, rt.Outcome(), err)
	}
	rt.mu.Lock()
	b, closed := rt.backends[label], rt.closed
	rt.mu.Unlock()
	switch {
	case closed:
		return nil, probeError(label, Fault, errClosed("runtime"))
	case b != nil && b.usable():
		return b, nil
	}
	var first error
	failed := map[int]error{}
	for _, ordinal := range rt.candidates() {
		b, err := rt.newBackend(label, ordinal)
		if err == nil {
			b.Skipped = rt.skipped(ordinal, failed)
			return rt.keepBackend(b)
		}
		failed[ordinal] = err
		if first == nil {
			first = err
		} else {
			first = fmt.Errorf("%w; %w", first, err)
		}
		if errors.Is(err, driver.ErrRefStale) || rt.Err() != nil {
			break // it is about to come back, or no other is better
		}
	}
	return nil, first
}

// candidates are the devices that Probe tries: the one of the other labels, then the best.
func (rt *Runtime) candidates() []int {
	var ordinals []int
	for _, d := range rt.Devices() {
		if _, err := rt.query(d.Ordinal); err == nil {
			ordinals = append(ordinals, d.Ordinal)
		}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, b := range rt.backends {
		if at := slices.Index(ordinals, b.Context.device.Ordinal); b.current() && at >= 0 {
			return slices.Insert(slices.Delete(ordinals, at, at+1), 0, b.Context.device.Ordinal)
		}
	}
	return ordinals
}

// newBackend makes a backend on a device.
func (rt *Runtime) newBackend(label string, ordinal int) (*Backend, error) {
	c, err := rt.Context(ordinal)
	if err != nil {
		e := driver.Errorf(driver.ErrDriverCallFailed, "%s backend: failed to create CUDA context for device %d", label, ordinal)
		e.Device, e.Err = ordinal, err
		return nil, e
	}
	s, err := c.NewStream()
	if err != nil {
		return nil, probeError(label, Fault, err)
	}
	return &Backend{Label: label, Context: c, Stream: s, generation: s.entry.generation}, nil
}

// skipped are the devices that failed now, and those before the one that was taken that cannot be
// used.
func (rt *Runtime) skipped(taken int, failed map[int]error) (skipped []Device) {
	better := true
	for _, d := range rt.Devices() {
		better = better && d.Ordinal != taken
		if err := failed[d.Ordinal]; err != nil {
			d.Err = err
		} else if !better {
			continue
		}
		if d.Err != nil {
			skipped = append(skipped, d)
		}
	}
	return skipped
}

// keepBackend keeps a backend under its label, or returns the one of another goroutine that was
// faster.
func (rt *Runtime) keepBackend(b *Backend) (*Backend, error) {
	rt.mu.Lock()
	kept := rt.backends[b.Label]
	switch {
	case rt.closed:
		kept = nil
	case kept == nil || !kept.usable():
		rt.backends[b.Label] = b
		kept = b
	}
	rt.mu.Unlock()
	if kept != b {
		rt.report(b.Stream.Close())
	}
	if kept == nil {
		return nil, probeError(b.Label, Fault, errClosed("runtime"))
	}
	return kept, nil
}

func probeError(label string, outcome Outcome, cause error) error {
	if outcome == Absent {
		e := driver.Errorf(driver.ErrDriverLibraryUnavailable, "%s backend: no CUDA runtime available", label)
		e.Err = cause
		return e
	}
	var known *driver.Error
	if errors.As(cause, &known); known == nil { // it may be a nil pointer
		return fmt.Errorf("%s backend: %w", label, cause)
	}
	format := "%s backend: CUDA cannot be used"
	switch known.Kind {
	case driver.ErrRefStale:
		format = "%s backend: the context is being reset; try again"
	case driver.ErrInvalidArgument, driver.ErrUnsupported: // of an option
		format = "%s backend"
	}
	e := driver.Errorf(known.Kind, format, label)
	e.Device, e.Sticky, e.Err = known.Device, known.Sticky, cause
	return e
}
