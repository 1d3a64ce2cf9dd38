package runtime

import (
	"errors"

	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/refs"
)

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

// keptRef is a Ref that graphs keep, by a reference of their own.
type keptRef struct {
	of    *refs.Core
	write bool // the graph writes the memory, or may; set during the capture

	mu    locks.Mutex[locks.KeptRef]
	count int
	own   *refs.Core // while count is not 0
}

func (k *keptRef) hold() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.count == 0 {
		own := k.of.Retain()
		if _, err := own.Access(); err != nil {
			_ = own.Close() // of a Ref that was closed: there is nothing to give back
			return false
		}
		k.own = own
	}
	k.count++
	return true
}

func (k *keptRef) drop() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count--
	if k.count > 0 {
		return nil
	}
	own := k.own
	k.own = nil
	return own.Close()
}

// refsOf are the Refs among what a graph keeps, as arguments of its launch.
func refsOf(all []kept) []Arg {
	var args []Arg
	for _, k := range all {
		switch k, ok := k.(*keptRef); {
		case ok && k.write:
			args = append(args, memoryArg(k.own, writing))
		case ok:
			args = append(args, memoryArg(k.own, reading))
		}
	}
	return args
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
func (l *ledger) hold(r resource, g *gate.Gate) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.live[r]
	if !ok || e.gate != g || e.held.count == 0 && g.Closed() {
		return false
	}
	e.held.count++
	l.live[r] = e
	return true
}

// held tells whether a graph holds the object.
func (o *object) held() bool {
	l := &o.ctx.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.live[o.resource]
	return ok && e.held.count > 0
}

// drop tells whether the resource is to be given back now.
func (l *ledger) drop(r resource, g *gate.Gate) bool {
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

// takeKeeps returns what all graphs hold, and lets them hold nothing.
func (l *ledger) takeKeeps() (all []kept) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r, e := range l.live {
		all = append(all, e.keeps...)
		e.keeps = nil
		l.live[r] = e
	}
	return all
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
