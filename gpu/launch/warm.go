package launch

import (
	"sync"

	"github.com/purecuda/purecuda/driver"
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
	unfit      error // why they do not run there
	device     string
	idle       []*Copies // of calls that have ended
	calls      int       // that are under way
	forget     func()    // that a Trim of the context empties it
}

// maxIdle is how many streams a place keeps, with what a call needs beside.
const maxIdle = 16

// take returns the kernels in a context, and a stream that the caller has alone until give.
func (w *warm) take(m *Module, c *runtime.Context) (*place, *Copies, error) {
	p, copies := w.find(c)
	if p == nil {
		generation := c.State().Generation()
		kernels, err := m.Load(c)
		if err != nil && !driver.UnfitDevice(err) {
			return nil, nil, err
		}
		if p, err = w.keep(c, &place{generation: generation, kernels: kernels, unfit: err, device: c.Device().Name}); err != nil {
			return nil, nil, err
		}
	}
	if p.unfit != nil {
		w.leave(p)
		return nil, nil, p.unfit
	}
	if copies != nil {
		return p, copies, nil
	}
	s, err := c.NewStream()
	if err != nil {
		w.leave(p)
	}
	return p, &Copies{Stream: s}, err
}

// find returns the place of a context, or nil, and a stream if one is idle. The call is under way there until leave.
func (w *warm) find(c *runtime.Context) (*place, *Copies) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.places[c]
	if p == nil || c.State().Check(p.generation) != nil {
		return nil, nil
	}
	p.calls++
	n := len(p.idle)
	if n == 0 {
		return p, nil
	}
	copies := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return p, copies
}

// keep keeps a place, unless another caller was faster, and forgets those whose contexts have ended. It enters the place as find does.
func (w *warm) keep(c *runtime.Context, p *place) (*place, error) {
	forget := c.OnTrim(func() error { return w.trim(c, p) })
	w.mu.Lock()
	for c, p := range w.places {
		if c.State().Check(p.generation) != nil {
			defer p.forget()
			delete(w.places, c)
		}
	}
	kept := w.places[c]
	if kept == nil {
		if w.places == nil {
			w.places = map[*runtime.Context]*place{}
		}
		w.places[c], kept, p.forget = p, p, forget
	}
	kept.calls++
	w.mu.Unlock()
	if kept == p {
		return p, nil
	}
	forget()
	err := p.kernels.Close()
	if err != nil {
		w.leave(kept)
	}
	return kept, err
}

// give takes a stream back. One that may have work left is closed.
func (w *warm) give(p *place, c *Copies, idle bool) error {
	if w.keepIdle(p, c, idle) {
		return nil
	}
	return c.Stream.Close()
}

func (w *warm) keepIdle(p *place, c *Copies, idle bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.calls--
	if !idle || len(p.idle) == maxIdle {
		return false
	}
	p.idle = append(p.idle, c)
	return true
}

// leave ends a call that has no stream.
func (w *warm) leave(p *place) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.calls--
}

// trim closes the idle streams of a place, and unloads the kernels if no call is under way.
func (w *warm) trim(c *runtime.Context, p *place) error {
	w.mu.Lock()
	idle, unload := p.idle, p.calls == 0 && w.places[c] == p
	if p.idle = nil; unload {
		delete(w.places, c)
	}
	w.mu.Unlock()
	var err error
	for _, copies := range idle {
		err = join(err, copies.Stream.Close())
	}
	if unload {
		p.forget()
		err = join(err, p.kernels.Close())
	}
	return err
}
