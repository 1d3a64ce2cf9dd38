package cufft

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// plan is a plan of cuFFT with its work area. The cache has one reference to it, and each call that goes on: the
// last one closes it.
type plan struct {
	Description
	refs atomic.Int64 // none comes back from 0

	checked atomic.Pointer[checked] // the first shape that led to it
	api     API                     // of the calls with the plan
	once    sync.Once
	err     error // why it could not be made
	library *runtime.LibraryHandle
	area    *runtime.Ref[byte]

	mu  sync.Mutex // held over each call of cuFFT
	raw RawPlan
}

// checked is a shape that was checked for a type.
type checked struct {
	spelled
	transform
}

// call is a call with a shape.
type call struct {
	*checked
	plan  *plan // or nil: not known yet
	scale bool
	own   bool // nobody else has checked, which goes back to spare
}

// spare are those of calls that have ended.
var spare = sync.Pool{New: func() any { return new(checked) }}

// end ends a call.
func (x *call) end(h *Handle) {
	if x.own {
		spare.Put(x.checked)
	}
	if x.plan != nil {
		h.plans.give(x.plan)
	}
}

// again takes one more reference, unless the last one was given back.
func (p *plan) again() bool {
	for {
		n := p.refs.Load()
		if n < 1 {
			return false
		}
		if p.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// make makes it, once. Others who need it wait.
func (p *plan) make(api API, s *runtime.Stream) error {
	p.once.Do(func() { p.err = p.open(api, s) })
	return p.err
}

func (p *plan) open(api API, s *runtime.Stream) (err error) {
	const name = "cufftMakePlanMany64"
	var raw RawPlan // what destroys must not refer to p
	var bytes uint64
	p.library, err = s.Context().NewLibraryHandle(name, func() (func() error, error) {
		var status Status
		if raw, bytes, status = api.Plan(&p.Description); status != StatusSuccess {
			return nil, failed(api, name, status)
		}
		return func() error { return failed(api, "cufftDestroy", api.Destroy(raw)) }, nil
	})
	if err != nil {
		return err
	}
	p.raw, p.api = raw, in(api, p.library)
	// Even without need of an area: so that a capture refuses each new plan, and not some.
	if p.area, err = runtime.Alloc[byte](s, int(bytes)); err != nil {
		return errors.Join(fmt.Errorf("the work area of a new plan, see Handle.Prepare: %w", err), p.close())
	}
	err = s.Submit("cufftSetStream", func(stream driver.Stream, at []driver.DevicePtr) error {
		if bytes == 0 {
			at[0] = 0
		}
		return failed(p.api, "cufftSetStream", p.api.SetStream(raw, stream, at[0]))
	}, runtime.InOut(p.area), p.library.Arg())
	if err != nil {
		return errors.Join(err, p.close())
	}
	return nil
}

// close waits for the work of the plan and frees it.
func (p *plan) close() error { return errors.Join(p.library.Close(), p.area.Close()) }

// plans are those that a handle keeps. Nothing that can block happens under the lock.
type plans struct {
	limit int

	newest atomic.Pointer[plan] // the first of known, which a call of its shape finds without the lock

	mu     sync.Mutex
	known  []*plan // the newest use first, so that most are found at once
	closed bool
	err    error // of closing plans, for Close
}

// take is the plan of a description, which is given back. It may have to be made.
func (c *plans) take(d *Description) (*plan, error) {
	if p := c.newest.Load(); p != nil && p.Description == *d && p.again() {
		return p, nil
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil, driver.Errorf(driver.ErrClosed, "the handle of cuFFT was closed before")
	}
	var p, old *plan
	i := slices.IndexFunc(c.known, func(p *plan) bool { return p.Description == *d })
	if i >= 0 {
		p = c.known[i]
	} else {
		p = &plan{Description: *d}
		p.refs.Store(1)
		if len(c.known) < c.limit {
			c.known = append(c.known, nil)
		} else {
			old = c.known[c.limit-1]
		}
		i = len(c.known) - 1
	}
	copy(c.known[1:], c.known[:i])
	c.known[0] = p
	p.refs.Add(1)
	c.newest.Store(p)
	c.mu.Unlock()
	c.give(old)
	return p, nil
}

// give ends a reference to a plan. The last one closes the plan, which waits for its work.
func (c *plans) give(p *plan) {
	if p == nil || p.refs.Add(-1) > 0 {
		return
	}
	err := p.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = errors.Join(c.err, err)
}

// forget removes a plan that could not be made.
func (c *plans) forget(p *plan) {
	c.mu.Lock()
	i := slices.Index(c.known, p)
	if i >= 0 {
		c.known = slices.Delete(c.known, i, i+1)
	}
	c.newest.CompareAndSwap(p, nil)
	c.mu.Unlock()
	if i >= 0 {
		c.give(p)
	}
}

// close gives all plans back, and returns what went wrong when plans were closed.
func (c *plans) close() error {
	c.mu.Lock()
	known := c.known
	c.known, c.closed = nil, true
	c.newest.Store(nil)
	c.mu.Unlock()
	for _, p := range known {
		c.give(p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.err
	c.err = nil
	return err
}
