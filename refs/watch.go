package refs

import (
	"sync"

	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/zero"
)

// Change is a change of a [State].
type Change struct {
	Device     int
	Generation uint64 // after it
	From, To   Status // the same for a rebuild of a State that accepted work
	Lost       error  // the first cause, if the device was lost
}

// Watch makes f hear of every change after this call, in order, until stop is called. One
// change is told at a time, and after the State has moved on: f may ask the State and change it, but must not wait for it (Drain, Close) or
// for anything that a caller of CUDA holds. A change that is under way when stop is
// called may still be told. A panic of f goes to OnCleanup.
func (s *State) Watch(f func(Change)) (stop func()) { return zero.Or(s).watchers.add(f) }

// watchers hear of changes in the order in which they happened.
type watchers struct {
	mu      sync.Mutex
	all     []*watcher
	pending []Change
	telling bool        // somebody is at it, and tells the rest as well
	failed  func(error) // hears of the panics of watchers, or nil
}

type watcher struct{ f func(Change) }

func (w *watchers) add(f func(Change)) (stop func()) {
	one := &watcher{f}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all[:len(w.all):len(w.all)], one)
	return func() { w.remove(one) }
}

func (w *watchers) remove(one *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var rest []*watcher // tell may be reading the old list
	for _, other := range w.all {
		if other != one {
			rest = append(rest, other)
		}
	}
	w.all = rest
}

// note takes a change down. The lock of the State is held, so that the order is right.
func (w *watchers) note(c Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.all) > 0 {
		w.pending = append(w.pending, c)
	}
}

// tell tells what was noted, with no lock held. Where another goroutine is telling, or this
// one from within a watcher, that one goes on to tell the rest.
func (w *watchers) tell() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.telling {
		return
	}
	w.telling = true
	defer func() { w.telling = false }()
	for len(w.pending) > 0 {
		c, all := w.pending[0], w.all
		w.pending = w.pending[1:]
		w.tellAll(all, c)
	}
}

func (w *watchers) tellAll(all []*watcher, c Change) {
	w.mu.Unlock()
	defer w.mu.Lock()
	for _, one := range all {
		if err := contain.Hook(func() { one.f(c) }); err != nil && w.failed != nil {
			w.failed(err)
		}
	}
}
