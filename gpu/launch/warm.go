package launch

import (
	"errors"
	"sync"

	"github.com/purecuda/purecuda/runtime"
)

// warm is what a Module keeps for Auto.
type warm struct {
	mu     sync.Mutex // no call of the driver is made with it
	places map[*runtime.Context]*place
}

// place is one generation of a context, with the kernels loaded.
type place struct {
	generation uint64
	kernels    *Kernels
	idle       []*runtime.Stream
}

// maxIdle is how many streams a place keeps.
const maxIdle = 16

// take returns the kernels in a context, and a stream that the caller has alone until give.
func (w *warm) take(m *Module, c *runtime.Context) (*place, *runtime.Stream, error) {
	p, s := w.find(c)
	if p == nil {
		generation := c.State().Generation()
		kernels, err := m.Load(c)
		if err != nil {
			return nil, nil, err
		}
		if p, err = w.keep(c, &place{generation: generation, kernels: kernels}); err != nil {
			return nil, nil, err
		}
	}
	if s != nil {
		return p, s, nil
	}
	s, err := c.NewStream()
	return p, s, err
}

// find returns the place of a context, or nil, and a stream if one is idle.
func (w *warm) find(c *runtime.Context) (*place, *runtime.Stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.places[c]
	if p == nil || c.State().Check(p.generation) != nil {
		return nil, nil
	}
	n := len(p.idle)
	if n == 0 {
		return p, nil
	}
	s := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return p, s
}

// keep keeps a place, unless another caller was faster, and forgets those whose contexts have ended.
func (w *warm) keep(c *runtime.Context, p *place) (*place, error) {
	w.mu.Lock()
	for c, p := range w.places {
		if c.State().Check(p.generation) != nil {
			delete(w.places, c)
		}
	}
	kept := w.places[c]
	if kept == nil {
		if w.places == nil {
			w.places = map[*runtime.Context]*place{}
		}
		w.places[c] = p
	}
	w.mu.Unlock()
	if kept == nil {
		return p, nil
	}
	return kept, p.kernels.Close()
}

// give takes a stream back. One that may have work left is closed.
func (w *warm) give(p *place, s *runtime.Stream, idle bool) error {
	if idle {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(p.idle) < maxIdle {
			p.idle = append(p.idle, s)
			return nil
		}
	}
	return s.Close()
}

var errNil = errors.New("launch: the kernels are nil: load them")
