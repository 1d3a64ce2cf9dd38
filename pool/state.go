package pool

import (
	"reflect"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// State is what the functions of a pool find ready with each [Worker], such as kernels or buffers, with its type.
// Make it with [PerDevice] or [PerStream], list it in Options.Setup, and get its value with [State.Of]:
//
//	var blur = pool.PerDevice(Load) // Load is what gpuc has written
//
//	p, err := pool.Open(rt, pool.Options{Setup: []pool.Setup{blur}})
//	report, err := p.Do(ctx, func(w *pool.Worker) error {
//		return blur.Of(w).Blur(w.Stream(), shape, in, out)
//	})
//
// A State is a name for values. It holds none, and several pools may list it at the same time.
type State[T any] struct {
	make   func(*Worker) (T, error)
	device bool
}

// Setup is a [State] of any type.
type Setup interface {
	usable() bool
	perDevice() bool
	prepare(w *Worker) (any, error)
}

// PerDevice is a State whose value all streams of a device share. load makes it once for each device, before the
// first function there, and may run again after a Reset of the context.
//
// load runs on a goroutine of its own. If it fails, other devices do the work, and the next request tries again. A
// device on which it has never succeeded is quarantined after three failures in a row. A device is left out until the
// pool is closed if no image of a module runs there (driver.ErrModuleLoadFailed), or if it lacks a feature (driver.ErrUnsupported). If the value has a method
// Close() error, the pool calls that when it closes.
func PerDevice[T any](load func(*runtime.Context) (T, error)) *State[T] {
	s := &State[T]{device: true}
	if load != nil {
		s.make = func(w *Worker) (T, error) { return load(w.Context()) }
	}
	return s
}

// PerStream is a State with a value for each stream, which one function uses at a time. make runs before the first
// function on the stream, and after the functions of PerDevice. Otherwise it is as [PerDevice].
func PerStream[T any](make func(*Worker) (T, error)) *State[T] { return &State[T]{make: make} }

// Of returns the value of a worker. If the pool of w does not list s in its Setup, the value is the zero value, and the
// function of w fails with an error of kind driver.ErrInvalidArgument.
func (s *State[T]) Of(w *Worker) (value T) {
	w = zero.Or(w)
	p := zero.Or(zero.Or(w.pooled).pool)
	states := w.states
	if s != nil && s.device {
		states = zero.Or(w.shared).states
	}
	for i := range states {
		if p.setup[i] == Setup(s) {
			value, _ = states[i].(T)
			return value
		}
	}
	w.missing = driver.Errorf(driver.ErrInvalidArgument, "the State of %v is not in the Setup of the pool", reflect.TypeFor[T]())
	return value
}

func (s *State[T]) usable() bool                   { return s != nil && s.make != nil }
func (s *State[T]) perDevice() bool                { return s.device }
func (s *State[T]) prepare(w *Worker) (any, error) { return s.make(w) }
