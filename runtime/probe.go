package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/mark"
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

// ProbeOnce is [Runtime.Probe] followed by the module's own preparation: build makes what the
// module needs, such as its kernels, and all calls for the label share the result.
//
//	saxpy, backend, err := runtime.ProbeOnce(ctx, runtime.Global(), "saxpy", func(b *runtime.Backend) (kernels.Saxpy, error) {
//		return kernels.Load[kernels.Saxpy](b.Context)
//	})
//
// build runs once for a label, and again after the context was reset or the label got another
// device. Callers that come meanwhile wait for it, at most until Close, and share what it returns. The end of ctx ends the wait of its
// caller with ctx's cause. The build goes on, and a later call gets what it has made. It runs on
// a goroutine of its own. It may ask for other labels, but not in a circle, in which each build would wait for another: that is
// an error of kind driver.ErrInvalidArgument with the labels. Goroutines that build starts must not ask for its label. Its error is
// returned with the label before it, and nothing is kept then: the next call builds again. So it
// is if build panics or ends its goroutine.
//
// Use the stream of the backend that is returned, and do not keep it in the result: a stream that
// was closed is replaced without building again. What build has made in the context ends with it. A result that is replaced, or that
// nobody gets because the runtime is closed, is closed if it has a method Close() error. The error hook hears of a Close that fails.
// A label has one type of result; another one is an error of kind driver.ErrInvalidArgument.
func ProbeOnce[T any](ctx context.Context, rt *Runtime, label string, build func(*Backend) (T, error)) (T, *Backend, error) {
	var zero T
	switch {
	case ctx == nil:
		return zero, nil, errNoContext("ProbeOnce")
	case rt == nil:
		return zero, nil, driver.Errorf(driver.ErrInvalidArgument, "ProbeOnce of %q takes a runtime, and it is nil", label)
	case build == nil:
		return zero, nil, noBuild(label)
	}
	b, value, err := rt.probeOnce(ctx, label, func(b *Backend) (any, error) {
		v, err := build(b)
		return result[T]{v}, err
	})
	if err != nil {
		return zero, nil, err
	}
	v, ok := value.(result[T])
	if !ok {
		return zero, nil, driver.Errorf(driver.ErrInvalidArgument, "%s backend: it was built as %v before, and now %v is asked for",
			label, reflect.TypeOf(value).Field(0).Type, reflect.TypeFor[T]())
	}
	return v.value, b, nil
}

// result is what a build has made, also where that is a nil interface.
type result[T any] struct{ value T }

// built is the result of a build, and what it was built for.
type built struct {
	context    *Context
	generation uint64
	value      any
}

func (of built) fits(b *Backend) bool {
	return of.context == b.Context && of.generation == b.generation
}

// close closes it if it can be closed.
func (r result[T]) close() error {
	if c, ok := any(r.value).(io.Closer); ok {
		return c.Close()
	}
	return nil
}

func (rt *Runtime) probeOnce(ctx context.Context, label string, build func(*Backend) (any, error)) (*Backend, any, error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	b, err := rt.Probe(label)
	if err != nil {
		return nil, nil, err
	}
	of := rt.builtFor(label)
	if !of.fits(b) {
		leave, circle := rt.waitForBuild(label)
		if circle != nil {
			return nil, nil, circle
		}
		limited, stop := rt.untilClosed(ctx)
		of, _, err = rt.builds.Do(limited, label, func(context.Context) (built, error) { return rt.build(label, build) })
		stop()
		leave()
		if err != nil {
			return nil, nil, err
		}
		if b, err = rt.Probe(label); err != nil {
			return nil, nil, err
		}
	}
	if !of.fits(b) {
		return nil, nil, probeError(label, Fault, &driver.Error{Kind: driver.ErrRefStale, Device: b.Context.device.Ordinal, Detail: "the context was replaced while the backend was built"})
	}
	return b, of.value, nil
}

func (rt *Runtime) builtFor(label string) built {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.built[label]
}

// build builds for a label, unless that has happened.
func (rt *Runtime) build(label string, build func(*Backend) (any, error)) (of built, err error) {
	b, err := rt.Probe(label)
	if err != nil {
		return built{}, err
	}
	if of := rt.builtFor(label); of.fits(b) {
		return of, nil
	}
	of = built{context: b.Context, generation: b.generation}
	if of.value, err = rt.contained(label, func() (any, error) { return build(b) }); err != nil {
		return built{}, probeError(label, Fault, err)
	}
	if replaced, ok := rt.keepBuilt(label, of); ok {
		failed := contain.Hook(func() { rt.report(contain.Do(replaced.close)) })
		rt.report(failed)
	}
	return of, nil
}

// closable is a result of any type.
type closable interface{ close() error }

// keepBuilt keeps what was built, and returns what nobody gets any more.
func (rt *Runtime) keepBuilt(label string, of built) (replaced closable, ok bool) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closed {
		replaced, ok = of.value.(closable)
		return replaced, ok
	}
	replaced, ok = rt.built[label].value.(closable)
	rt.built[label] = of
	return replaced, ok
}

func noBuild(label string) error {
	return driver.Errorf(driver.ErrInvalidArgument, "%s backend: the function that builds is nil", label)
}

// contained calls the build of a label, and makes an error of a panic or of the end of its goroutine.
func (rt *Runtime) contained(label string, f func() (any, error)) (value any, err error) {
	number := rt.beginBuild(label)
	defer rt.endBuild(number)
	failed := contain.Hook(func() {
		_ = mark.Do(mark.Build, number, func() error { value, err = f(); return nil })
	})
	return value, errors.Join(contain.Sound(err), failed)
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
	case driver.ErrInvalidArgument, driver.ErrUnsupported: // of the build function
		format = "%s backend"
	}
	e := driver.Errorf(known.Kind, format, label)
	e.Device, e.Sticky, e.Err = known.Device, known.Sticky, cause
	return e
}
