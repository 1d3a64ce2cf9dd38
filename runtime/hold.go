package runtime

import "errors"

// kept is what a graph keeps: it may be closed meanwhile, and is given back once no
// graph holds it any more.
type kept interface {
	// hold tells whether it could be held: what is closed cannot, unless it is held
	// already.
	hold() bool
	// drop ends one hold, and gives back what was closed meanwhile. It may wait for the
	// device.
	drop() error
}

// holding is what the ledger knows of the graphs that hold a resource.
type holding struct {
	count  int
	putOff bool // it was closed, or forgotten, while it was held
}

func (o *object) hold() bool { return o.ctx.ledger.hold(o.resource, o.gate) }

func (o *object) drop() error {
	if !o.ctx.ledger.drop(o.resource, o.gate) {
		return nil
	}
	return o.giveBack()
}

// holdAll holds all or none.
func holdAll(all []kept) error {
	for i, k := range all {
		if !k.hold() {
			return errors.Join(errClosed("object that a graph uses"), dropAll(all[:i]))
		}
	}
	return nil
}

func dropAll(all []kept) error {
	var errs []error
	for _, k := range all {
		errs = append(errs, k.drop())
	}
	return errors.Join(errs...)
}

// hold is given the gate as well, because the driver uses handles again.
func (l *ledger) hold(r resource, g *gate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.live[r]
	if !ok || e.gate != g || e.held.count == 0 && g.closed() {
		return false
	}
	e.held.count++
	l.live[r] = e
	return true
}

// drop tells whether the resource is to be given back now.
func (l *ledger) drop(r resource, g *gate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.live[r]
	if !ok || e.gate != g {
		return false // the context has given it back
	}
	e.held.count--
	l.live[r] = e
	return e.held.count == 0 && e.held.putOff
}

// putOff tells whether the resource is held, so that the last drop gives it back.
func (l *ledger) putOff(r resource) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.live[r]
	if !ok || e.held.count == 0 {
		return false
	}
	e.held.putOff = true
	l.live[r] = e
	return true
}

// keeps returns what a graph holds.
func (l *ledger) keeps(r resource) []kept {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[r].keeps
}

// keep replaces what a graph holds, and returns what it held before.
func (l *ledger) keep(r resource, now []kept) (before []kept) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.live[r]
	if !ok {
		return now // the context has given the graph back
	}
	before, e.keeps = e.keeps, now
	l.live[r] = e
	return before
}
