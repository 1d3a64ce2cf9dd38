package runtime

import (
	goruntime "runtime"
	"weak"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
)

// object is what everything that a context owns has in common: calls that use it
// enter its gate, and closing it waits for them and frees it once.
type object struct {
	ctx *Context
	// entry is on the ledger of the context. Leases of a cached module share that of the module.
	entry   *entry
	gate    *gate.Gate // that of the entry, but for a lease of a cached module
	cleanup goruntime.Cleanup
}

// newObject puts an entry on the ledger of the context.
func (c *Context) newObject(kind entryKind, handle, bytes uint64) object {
	o := c.objectOf(&entry{kind: kind, handle: handle, bytes: bytes})
	c.ledger.add(o.entry)
	return o
}

// objectOf is the object of an entry that is not on the ledger yet.
func (c *Context) objectOf(e *entry) object {
	e.ctx, e.generation = c, c.state.Generation()
	return object{ctx: c, entry: e, gate: &e.gate}
}

// trackGC leaves the entry to the next allocation when the garbage collector finds owner, which embeds o.
func trackGC[T any](owner *T, o *object) {
	o.cleanup = goruntime.AddCleanup(owner, forgotten, weak.Make(o.entry))
}

// forgotten is called by the garbage collector. The reference is weak, since the context may be garbage as well, whose
// error hook may refer to the owner.
func forgotten(e weak.Pointer[entry]) {
	if e := e.Value(); e != nil {
		e.ctx.ledger.freeLater(e)
	}
}

// Context is the context that the object lives in.
func (o *object) Context() *Context { return o.ctx }

// enter lets a call use the object.
func (o *object) enter() error {
	for !o.gate.Enter() {
		if err := refusal(o.ctx.rt, o.ctx.state, o.gate, o.entry.generation); err != nil {
			return err
		}
		if o.gate.Closed() {
			return errClosed(o.entry.kind.String())
		}
		o.gate.AwaitOpen(o.ctx.state.Done()) // a capture begins or ends on the stream
	}
	return nil
}

func (o *object) leave() { o.gate.Leave() }

// exclusively runs f while no other call uses the object: calls that are under way end first, and later
// ones wait. The beginning and the end of a capture need that. The driver does not stand other
// calls about the stream meanwhile, and what a call has seen of the capture holds until it
// returns. enter lets the caller into the gate. turn is that of the object; events come before streams.
func (o *object) exclusively(turn *gate.Turn, enter, f func() error) error {
	if !turn.Take(o.ctx.state.Done()) {
		return o.ctx.state.Check(o.entry.generation)
	}
	defer turn.Give()
	if err := enter(); err != nil {
		return err
	}
	defer o.leave()
	if !o.gate.Suspend(1, o.ctx.state.Done()) {
		return o.ctx.state.Check(o.entry.generation) // which has ended, also if the device was revived meanwhile
	}
	defer o.gate.Resume()
	return f()
}

// begin opens a call of the driver that names the object and needs no current
// context, and end closes it: the hot path. It locks nothing and allocates
// nothing.
func (o *object) begin() error {
	if err := o.enter(); err != nil {
		return err
	}
	if err := o.prepare(); err != nil {
		o.leave()
		return err
	}
	return nil
}

// prepare makes calls of the driver about the object possible, inside the gate, until the binding
// is popped.
func (o *object) prepare() error {
	if err := o.ctx.lostError(); err != nil {
		return err
	}
	return o.ctx.bind.Push()
}

// beginWork is begin for what puts something new on the device, which a context that is
// being drained refuses. It looks at the state inside the gate, so that what was let in is
// waited for before the context is taken down.
func (o *object) beginWork() error {
	if o.beginFast() {
		return nil
	}
	return o.beginSlow()
}

// beginFast is beginWork where nothing is in the way, small enough to be part of its callers. Where
// it fails, beginSlow follows.
func (o *object) beginFast() bool {
	return o.gate.EnterAnyway() && o.ctx.state.Accepting() && !o.ctx.bind.NeedsCurrent
}

// beginSlow is beginWork after beginFast has failed, inside the gate or not.
func (o *object) beginSlow() error {
	o.leave()
	if err := o.begin(); err != nil {
		return err
	}
	if o.ctx.state.Accepting() {
		return nil
	}
	err := o.ctx.state.Check(o.entry.generation)
	if err != nil {
		o.end()
	}
	return err
}

// prepareWork is prepare for what puts something new on the device.
func (o *object) prepareWork() error {
	if err := o.prepare(); err != nil {
		return err
	}
	err := o.ctx.state.Check(o.entry.generation)
	if err != nil {
		o.ctx.bind.Pop()
	}
	return err
}

func (o *object) end() {
	if o.ctx.bind.NeedsCurrent {
		o.ctx.bind.Pop()
	}
	o.leave()
}

// Close waits for the calls that use the object and frees it. It may be called twice. What a graph
// uses is freed after the graph. If the driver fails before, the object is freed at a later
// allocation, or when the context closes. So is memory that is closed while a stream is captured.
func (o *object) Close() error {
	if o.ctx == nil || !o.gate.Close(o.ctx.state.Done()) {
		return nil
	}
	o.cleanup.Stop()
	return o.entry.free()
}

// free frees what was closed, or leaves it to the graphs that retain it.
func (e *entry) free() error {
	if e.lease != nil {
		if ended, err := e.endLease(); ended {
			return err
		}
	}
	c := e.ctx
	if !c.gate.Enter() {
		// The context is closing and frees everything, or is about to be reset: if that is given up
		// the next allocation frees it.
		c.ledger.freeLater(e)
		return nil
	}
	defer c.gate.Leave()
	if c.rt.lost.Load() != nil {
		return nil
	}
	if e.gate.Inside() > 0 { // a lost device that is revived has to wait for them
		c.ledger.freeLater(e)
		return nil
	}
	return c.free(e)
}

// create makes a thing of the driver with the context current, after it has freed what was left to it.
func (c *Context) create(kind entryKind, bytes uint64, op string, f func() (handle uint64, r driver.Result)) (o object, err error) {
	err = c.make(func() error {
		handle, r := f()
		if r != driver.Success {
			return c.failed(op, r)
		}
		o = c.newObject(kind, handle, bytes)
		return nil
	})
	return o, err
}

// make runs f, which makes something, with the context current. What was forgotten is given back before.
func (c *Context) make(f func() error) error {
	if err := c.enter(); err != nil {
		return err
	}
	defer c.gate.Leave()
	if err := c.state.Check(0); err != nil {
		return err
	}
	c.reclaim()
	if err := c.lostError(); err != nil { // known since reclaiming, perhaps
		return err
	}
	return c.bind.Do(f)
}
