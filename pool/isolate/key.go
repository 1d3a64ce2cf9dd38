package isolate

import (
	"context"
	"slices"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

// WithKey sends requests with one key to one child, one after the other, where they find what an earlier one has left: see [StateOf]. A key
// is 1 to 255 bytes, and [WithStates] bounds how many there are. It begins with the first request that succeeds. WithDevices, WithRetry
// and the load choose a child for that one only.
//
// When the child ends, so does its state: all later requests with the key get an error of kind [ErrStateGone], until [Group.Drop]. A
// fallback does requests with a key only where CUDA is absent, because it has no state of a child.
func WithKey(key string) Option { return func(c *config) { c.key, c.keyed = key, true } }

// WithStates bounds the keys of the group, and the bytes that the states of each child take ([StateOf]). The defaults are 1024 keys and
// 1 GiB. Nothing takes a key away but [Group.Drop]: one more is an error of kind driver.ErrOutOfMemory. It is an option of Open only.
func WithStates(keys int, bytes int64) Option {
	return func(c *config) { c.keys, c.stateBytes, c.ofOpen = keys, bytes, "WithStates" }
}

// session is a key. Who has the turn may use process and begun.
type session struct {
	turn    chan struct{} // has room for one
	process *process      // of the state; nil on the CPU
	begun   bool          // a request has succeeded
	// The group's lock guards them:
	waiting int
	ended   bool
}

// Drop ends the state of a key, once the request that has it has ended. The next request with the key begins anew. A key that
// there is not is no error. Drop returns when the child was told, or when ctx ends.
func (g *Group) Drop(ctx context.Context, key string) error {
	if g == nil || g.pool == nil || ctx == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "Drop takes a context and a group of isolate.Open")
	}
	s, err := g.takeTurn(ctx, key, false, true)
	if err != nil || s == nil {
		return err
	}
	defer s.giveTurn()
	return g.endKey(s, key)
}

// takeTurn waits for the turn of a key, and makes it if asked to.
func (g *Group) takeTurn(ctx context.Context, key string, begin, wait bool) (*session, error) {
	for {
		g.mu.Lock()
		s := g.keys[key]
		switch {
		case s == nil && !begin:
			g.mu.Unlock()
			return nil, nil
		case s == nil && len(g.keys) >= g.config.keys:
			defer g.mu.Unlock()
			return nil, driver.Errorf(driver.ErrOutOfMemory, "%d keys have state, and so many may (WithStates): drop one", len(g.keys))
		case s == nil:
			s = &session{turn: make(chan struct{}, 1)}
			g.keys[key] = s
		}
		select {
		case s.turn <- struct{}{}: // nobody has it
			g.mu.Unlock()
			return s, nil
		default:
		}
		if s.waiting >= g.config.queue && !wait {
			g.figures.Refused++
			g.mu.Unlock()
			return nil, pool.ErrQueueFull
		}
		s.waiting++
		g.mu.Unlock()
		var err error
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			err = g.ended(ctx, nil)
		}
		g.mu.Lock()
		s.waiting--
		ended := s.ended
		g.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if !ended {
			return s, nil
		}
		s.giveTurn() // for others that wait in vain
	}
}

func (s *session) giveTurn() { <-s.turn }

// endKey forgets a key and its state. The caller has the turn.
func (g *Group) endKey(s *session, key string) error {
	g.mu.Lock()
	s.ended = true
	delete(g.keys, key)
	g.mu.Unlock()
	if s.process == nil {
		return closeState(g.states.take(key))
	}
	_ = s.process.link.send(forgetFrame, 0, []byte(key)) // a child that is gone has forgotten it
	return nil
}

// enterKey waits for the turn of a request, and sends it where the state is.
func (g *Group) enterKey(c *request) (err error) {
	if c.session, err = g.takeTurn(c.ctx, c.key, true, c.queueWait); err != nil {
		return err
	}
	s := c.session
	if !s.begun || s.process == nil {
		return nil
	}
	ordinal := s.process.of.device.Ordinal
	if c.ofWorker && !slices.Contains(c.devices, ordinal) {
		s.giveTurn()
		return driver.Errorf(driver.ErrInvalidArgument, "the state of the key %.40q is in a child of device %d, and the worker of Call is of device %d: use Do", c.key, ordinal, c.devices[0])
	}
	c.devices, c.retries = []int{ordinal}, 0
	if why := s.process.reason(); why != nil {
		s.giveTurn()
		return g.stateGone(c, g.died(s.process, why))
	}
	return nil
}

// leaveKey ends the turn of a request. A key of which no request has succeeded is forgotten.
func (g *Group) leaveKey(c *request, succeeded bool) {
	s := c.session
	if succeeded {
		s.begun = true
	} else if !s.begun {
		_ = g.endKey(s, c.key)
	}
	s.giveTurn()
}

// keyIn takes a request to the child of its state.
func (c *request) keyIn(g *Group, p *process) error {
	switch s := c.session; {
	case s == nil:
	case !s.begun:
		if s.process != nil && s.process != p { // a try before
			_ = s.process.link.send(forgetFrame, 0, []byte(c.key))
		}
		s.process = p
	case s.process != p:
		return g.died(s.process, s.process.reason())
	}
	return nil
}

// stateGone is the error of a request whose child has ended with the state.
func (g *Group) stateGone(c *request, died error) error {
	return driver.Errorf(ErrStateGone, "the state of the key %.40q is gone: drop it, and begin anew: %w", c.key, died)
}

// Keys are those that have state, sorted: see [WithKey].
func (g *Group) Keys() []string {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var keys []string
	for key := range g.keys {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
