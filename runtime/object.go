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
	// entry is on the ledger of the context. Leases of a cached module share the module's.
	entry   *entry
	gate    *gate.Gate // the entry's, but for a lease of a cached module
	cleanup goruntime.Cleanup
}

// newObject puts an entry on the ledger of the context, and reports whether it is new there.
func (c *Context) newObject(e *entry) (o object, isNew bool) {
	e.ctx, e.generation = c, c.state.Generation()
	return object{ctx: c, entry: e, gate: &e.gate}, c.ledger.add(e)
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

// There are three ways to enter an object, and one to have it alone:
//
//   - hold: it may not go away until leave. No call of the driver follows.
//   - call: calls of the driver about it follow, with the context bound, until end.
//   - work: as call, and the calls put work on the device. The end of that on a stream is endWork.
//   - alone: no other call is inside meanwhile.

// hold keeps the object from going away until leave.
func (o *object) hold() error {
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

// alone runs f while no other call uses the object: calls that are under way end first, and later
// ones wait. The beginning and the end of a capture need that. The driver does not stand other
// calls about the stream meanwhile, and what a call has seen of the capture holds until it
// returns. turn is the object's, and hold lets the caller into the gate. Events come before streams.
func (o *object) alone(turn *gate.Turn, hold, f func() error) error {
	if !turn.Take(o.ctx.state.Done()) {
		return o.ctx.state.Check(o.entry.generation) // which has ended, also if the device was revived meanwhile
	}
	defer turn.Give()
	return o.suspended(hold, f)
}

// suspended is alone for a caller that no other one of alone or suspended comes beside.
func (o *object) suspended(hold, f func() error) error {
	if err := hold(); err != nil {
		return err
	}
	defer o.leave()
	if !o.gate.Suspend(1, o.ctx.state.Done()) {
		return o.ctx.state.Check(o.entry.generation)
	}
	defer o.gate.Resume()
	return f()
}

// call opens a call of the driver that names the object, and end closes it. It locks nothing and allocates nothing.
func (o *object) call() error {
	if err := o.hold(); err != nil {
		return err
	}
	if err := o.bind(); err != nil {
		o.leave()
		return err
	}
	return nil
}

// bind makes calls of the driver about the object possible, inside the gate, until the binding
// is popped.
func (o *object) bind() error {
	if err := o.ctx.lostError(); err != nil {
		return err
	}
	return o.ctx.bind.Push()
}

// work is call for what puts something new on the device, which a context that is
// being drained refuses. It looks at the state inside the gate, so that what was let in is
// waited for before the context is taken down.
func (o *object) work() error {
	if err := o.call(); err != nil {
		return err
	}
	err := o.ctx.state.Check(o.entry.generation)
	if err != nil {
		o.end()
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
func (c *Context) create(kind entryKind, bytes uint64, op string, f func() (handle uint64, r driver.Result), retained ...retainable) (o object, err error) {
	err = c.work(func() error {
		handle, r := f()
		if r != driver.Success {
			return c.bind.Failed(op, r)
		}
		o, _ = c.newObject(&entry{kind: kind, handle: handle, bytes: bytes, details: &details{retains: retained}})
		return nil
	})
	return o, err
}

// work runs f, which makes something, with the context current. What was forgotten is given back before.
func (c *Context) work(f func() error) error {
	if err := c.hold(); err != nil {
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
