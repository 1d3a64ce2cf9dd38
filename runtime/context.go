package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/refs"
)

// Context is the primary context of a device: the one that everybody in the
// process shares. It belongs to its Runtime, which closes it. It is safe for
// concurrent use.
type Context struct {
	rt  *Runtime
	api driver.API
	// state is the truth about the memory, and so about the context: whether it accepts
	// work, and in which generation.
	state *refs.State
	bind  driver.Binding
	_     [40]byte // what every launch reads stands before, what calls write after
	gate  gate.Gate
	// waits are those for events, and errors all that were made.
	waits, errors atomic.Uint64

	memory atomic.Pointer[memory]
	// alive is entered by those who wait for the work of the context. Whoever takes the context
	// down suspends it.
	alive gate.Gate
	// waiters is entered by waits for the whole context. A capture suspends it, since such a wait
	// makes the driver fail the capture. Waits may take as long as the work of the device.
	waiters gate.Gate
	// retained is how often the primary context was retained and not released.
	retained int
	users    users

	ledger  ledger
	modules moduleCache
	stack   locks.Mutex[locks.Object] // so that a smaller stack does not follow a larger one
	streams atomic.Uint64             // counts streams, for their identity
	handles atomic.Uint64             // counts library handles and IPC memory, for theirs
	device  Device
}

// openContext retains the primary context of a device.
func openContext(rt *Runtime, api driver.API, d Device) (*Context, error) {
	c := &Context{rt: rt, api: api, device: d}
	c.modules.ledger = &c.ledger
	c.state = refs.NewState(d.Ordinal, refs.StateConfig{OnChange: rt.cfg.onState, OnCleanup: rt.report})
	c.bind = driver.Binding{API: api, Ordinal: d.Ordinal, OnError: c.noteError, OnCleanup: rt.report}
	if err := c.retain(); err != nil {
		return nil, err
	}
	free, needsCurrent, err := c.tryOut()
	c.device.FreeBytes, c.bind.NeedsCurrent = free, needsCurrent
	if err == nil {
		err = c.openMemory()
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	rt.log(slog.LevelDebug, "opened context", "device", d.String(), "free", c.device.FreeBytes, "hot path needs context", c.bind.NeedsCurrent)
	return c, nil
}

// retain takes the primary context.
func (c *Context) retain() error {
	handle, r := c.api.DevicePrimaryCtxRetain(c.device.handle)
	if r != driver.Success {
		return c.bind.Failed("cuDevicePrimaryCtxRetain", r)
	}
	c.bind.Context = handle
	c.retained++
	return nil
}

// tryOut learns what is known only with a context: the free memory, and whether calls on a
// stream work on a thread without a current context. The latter is tried out, because no
// version number promises it.
func (c *Context) tryOut() (free uint64, needsCurrent bool, err error) {
	var stream *entry
	err = c.bind.Do(func() error {
		var r driver.Result
		free, _, r = c.api.MemGetInfo()
		if r != driver.Success {
			return c.bind.Failed("cuMemGetInfo", r)
		}
		s, r := c.api.StreamCreate(driver.StreamNonBlocking)
		if r != driver.Success {
			return c.bind.Failed("cuStreamCreate", r)
		}
		o, _ := c.newObject(&entry{kind: streamEntry, handle: uint64(s), details: new(details)})
		stream = o.entry
		return nil
	})
	if err != nil {
		return free, false, err
	}
	needsCurrent = c.streamNeedsContext(driver.Stream(stream.handle))
	return free, needsCurrent, c.free(stream)
}

// maxCurrent is how many contexts others may have left current on a thread.
const maxCurrent = 1024

// streamNeedsContext asks for a stream on this thread after all contexts that others
// have left current on it were taken off, and puts those back. Setting no context would
// take only the last one off. Where they do not come to an end the question stays open, and a
// current context is never wrong.
func (c *Context) streamNeedsContext(s driver.Stream) bool {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	var others []driver.Context
	defer func() {
		for _, other := range slices.Backward(others) {
			c.putBack(other)
		}
	}()
	for range maxCurrent {
		current, r := c.api.CtxGetCurrent()
		if r != driver.Success {
			return true
		}
		if current == 0 {
			return c.api.StreamQuery(s) != driver.Success
		}
		if _, r := c.api.CtxPopCurrent(); r != driver.Success {
			return true
		}
		others = append(others, current)
	}
	return true
}

// putBack makes a context of others current that they had left on the thread. They would not hear of it otherwise.
func (c *Context) putBack(other driver.Context) {
	r := c.api.CtxPushCurrent(other)
	c.rt.report(c.bind.Failed("cuCtxPushCurrent", r))
	for try := 1; r != driver.Success && !r.Sticky() && try < maxPings; try++ {
		r = c.api.CtxPushCurrent(other)
	}
}

// Device describes the device, with the memory that was free when the context was
// opened.
func (c *Context) Device() Device { return zero.Or(c).device }

// Handle is the context as package driver takes it, or 0 if there is none at the moment. It
// is another one after a Reset.
func (c *Context) Handle() driver.Context {
	if c.hold() != nil {
		return 0
	}
	defer c.gate.Leave()
	return c.bind.Context
}

// Runtime is the runtime that the context belongs to.
func (c *Context) Runtime() *Runtime { return zero.Or(c).rt }

// MemInfo returns the free and all bytes of the device at this moment.
func (c *Context) MemInfo() (free, total uint64, err error) {
	err = c.call(func() error {
		var r driver.Result
		free, total, r = c.api.MemGetInfo()
		return c.bind.Failed("cuMemGetInfo", r)
	})
	return free, total, err
}

// EnsureStackSize gives each thread of the context's kernels a stack of at least this many bytes. A kernel
// needs it whose functions call themselves. The driver takes the memory for all threads that a
// device can hold, and keeps it.
func (c *Context) EnsureStackSize(bytes uint64) error {
	return c.call(func() error {
		c.stack.Lock()
		defer c.stack.Unlock()
		have, r := c.api.CtxGetLimit(driver.LimitStackSize)
		if err := c.bind.Failed("cuCtxGetLimit", r); err != nil || have >= bytes {
			return err
		}
		return c.bind.Failed("cuCtxSetLimit", c.api.CtxSetLimit(driver.LimitStackSize, bytes))
	})
}

// Synchronize waits for all work of the device's context, that of other users of
// the process included. It refuses while a stream of the context is captured, whose work
// does not run.
//
// A wait for the work on streams of the context costs a goroutine, and neither a thread nor a
// core. For what is left then, that of other users and of streams that were closed, it waits in
// the driver.
func (c *Context) Synchronize() error {
	if c == nil || c.rt == nil {
		return errNothing("context")
	}
	if !c.waiters.Enter() {
		return c.capturedError("Context.Synchronize")
	}
	defer c.waiters.Leave()
	if err := c.hold(); err != nil {
		return err
	}
	defer c.gate.Leave()
	c.await(context.Background(), c.marks(false))
	if err := c.bind.Do(func() error { return c.bind.Failed("cuCtxSynchronize", c.api.CtxSynchronize()) }); err != nil {
		return err
	}
	return c.memory.Load().checks.collect()
}

// Do runs f with the context current, on a thread that no other goroutine has meanwhile. It is for calls
// of other libraries that put nothing on a stream. [Stream.Submit] is for those that do, and
// [Context.NewLibraryHandle] for handles, which have to be destroyed before the context.
//
// It fails as the calls that make something do. An error of f is returned as it is, and a panic as
// an error. Reset and Close wait for f, which must not call them.
func (c *Context) Do(f func() error) error {
	if f == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "Context.Do takes a function that is not nil")
	}
	return c.work(func() error { return contain.Do(f) })
}

// call runs f with the context current: on a locked thread, pushed before and popped
// after, so that a context that was current is current again.
func (c *Context) call(f func() error) error {
	if err := c.hold(); err != nil {
		return err
	}
	defer c.gate.Leave()
	return c.bind.Do(f)
}

// hold lets a call in unless the context is closed or taken down, or CUDA is lost.
func (c *Context) hold() error {
	if c == nil || c.rt == nil {
		return errNothing("context")
	}
	for !c.gate.Enter() {
		if err := refusal(c.rt, c.state, &c.gate, 0); err != nil {
			return err
		}
		if c.gate.Closed() {
			return errClosed("context")
		}
	}
	if err := c.lostError(); err != nil {
		c.gate.Leave()
		return err
	}
	return nil
}

// refusal is why a gate that belongs to a generation of a context was not open, unless it was
// closed by a caller, or has opened again.
func refusal(rt *Runtime, state *refs.State, g *gate.Gate, generation uint64) error {
	if err := rt.lostError(); err != nil {
		return err
	}
	if state.Status() == refs.Closed { // what was closed meanwhile is closed
		if g.Closed() {
			return nil
		}
		return errClosed("context")
	}
	return state.Check(generation)
}

// check reports whether a call would be let in.
func (c *Context) check() error {
	err := c.hold()
	if err == nil {
		c.gate.Leave()
	}
	return err
}

// noteError is told of every error of a call.
func (c *Context) noteError(e *driver.Error) {
	c.errors.Add(1)
	explainCapture(e)
	c.rt.noteError(e)
	// The runtime does not know contexts that are being opened, and the goroutine of an earlier error may not have come to this one yet.
	if e.Sticky && c.lostError() == nil {
		c.loseMemory(c.rt.lost.Load())
	}
	c.detectGone(e)
}

// reclaim frees what was left to the next allocation.
func (c *Context) reclaim() {
	c.state.Reclaim()
	for _, e := range c.ledger.takeDeferred() {
		c.rt.report(c.free(e))
	}
}

// free takes an entry off the ledger and destroys what it is for, unless a graph retains it. Work on the device may still
// use memory and code, and the driver does not promise to wait for it; so this does. If it fails
// before, it is freed at a later allocation, or when the context closes.
func (c *Context) free(e *entry) error {
	if e.kind.usedByWork() && e.leaveToGraphs() {
		return nil
	}
	if c.isLost() {
		return c.freeLost(e, false)
	}
	var err error
	if e.kind.usedByWork() {
		err = c.idle(context.Background())
		if isCaptured(err) {
			c.ledger.freeLater(e)
			return nil
		}
	}
	tried := false
	if err == nil {
		err = c.bind.Do(func() error {
			tried = true
			return c.end(e, false)
		})
	}
	if !tried {
		c.ledger.freeLater(e)
	}
	return err
}

// end destroys what an entry is for, once; see ledger.take for all. The context must be current.
func (c *Context) end(e *entry, all bool) error {
	if !c.ledger.take(e, all) {
		return nil
	}
	return errors.Join(e.destroy(), e.releaseRetained())
}

// freeLost takes off what went with the device. A graph did not, and neither did what graphs retain
// of other devices.
func (c *Context) freeLost(e *entry, all bool) (err error) {
	if !c.ledger.take(e, all) {
		return nil
	}
	switch {
	case e.lease != nil: // to a pool that makes no call any more
		err = e.lease.memory.Free()
	case e.kind == graphEntry && c.rt.lost.Load() == nil:
		err = c.bind.Failed(e.destroyInDriver())
	}
	return errors.Join(err, e.releaseRetained())
}

// idle waits until no work uses what the context has: its own, and that of the contexts which
// may use it. It is called inside the gate of c, so that none of them is released meanwhile,
// also while the runtime closes.
func (c *Context) idle(ctx context.Context) error {
	for _, user := range c.withUsers() {
		if err := user.finish(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// finish waits for all work of the device. One that is lost has none, and neither has one that
// is being taken down: who does that has waited for it. marked are marks of streams that the caller
// has exclusively.
func (c *Context) finish(ctx context.Context, marked []wait.Ticket) error {
	if !c.alive.Enter() {
		return nil
	}
	if c.isLost() {
		c.alive.Leave()
		return c.rt.lostError()
	}
	if !c.waiters.Enter() {
		c.alive.Leave()
		return c.capturedError("wait for the device")
	}
	return within(ctx, c.rt, func() error {
		defer c.alive.Leave()
		defer c.waiters.Leave()
		c.await(ctx, append(marked, c.marks(false)...))
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if c.isLost() {
			return c.rt.lostError()
		}
		err := c.bind.Do(func() error { return c.bind.Failed("cuCtxSynchronize", c.api.CtxSynchronize()) })
		if c.isLost() && c.rt.lost.Load() == nil {
			return nil // it was found to be gone
		}
		return err
	})
}

// await waits for work on streams, as far as that can be. The wait in the driver that follows tells
// how it ended, and has little left to wait for.
func (c *Context) await(ctx context.Context, marked []wait.Ticket) {
	for _, t := range marked {
		err := t.Wait(ctx)
		if ctx.Err() == nil {
			c.rt.report(err)
		}
		if err != nil {
			return
		}
	}
}

// marks marks the work on all streams whose gates let the caller in: on all, if the caller has closed or suspended them.
func (c *Context) marks(shut bool) (marked []wait.Ticket) {
	for _, e := range c.ledger.entries(streamEntry) {
		s := e.stream.Load()
		if s == nil { // it is being made
			continue
		}
		if shut {
			e.gate.EnterAnyway()
		} else if !e.gate.Enter() { // it is closed or captured
			continue
		}
		t, err := s.waits.Rest()
		e.gate.Leave()
		c.rt.report(err)
		marked = append(marked, t)
	}
	return marked
}

// close frees everything that the context owns, and the context itself.
func (c *Context) close() error { return c.rt.closeContexts([]*Context{c}) }

// closeContexts waits for the work of all contexts before it frees anything of one: that of one device may use the memory of another. What fails on one device keeps
// nothing of the others, but of those whose memory it may use.
func (rt *Runtime) closeContexts(contexts []*Context) error {
	var errs []error
	note := func(c *Context, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("closing the context of device %d: %w", c.device.Ordinal, err))
		}
	}
	busy := map[*Context]bool{}
	for _, c := range contexts {
		err := c.drain()
		busy[c] = err != nil
		note(c, err)
	}
	for _, c := range contexts {
		idle := !slices.ContainsFunc(c.withUsers(), func(user *Context) bool { return busy[user] })
		note(c, c.release(idle))
	}
	return errors.Join(errs...)
}

// drain keeps calls out and waits for those inside, and for all work of the device:
// streams that were closed may have left some.
func (c *Context) drain() error {
	c.gate.Close(c.state.Done())
	for _, e := range c.ledger.entries(streamEntry) {
		e.gate.Close(c.state.Done())
	}
	if c.isLost() || c.rt.lost.Load() != nil { // the loss may be on its way to c
		return nil
	}
	return c.finish(context.Background(), c.marks(true))
}

// release frees what a drained context owns. Unless the contexts that may use it are idle, memory
// and code are left to the driver. It frees them with the context, once nobody in the process uses
// that any more. So it is with all that a lost device has. It ends when CUDA is lost: the driver
// frees nothing then.
func (c *Context) release(idle bool) error {
	c.state.Close()
	// What graphs retain that were not destroyed: Refs, which no call of the driver is made for.
	defer func() { c.rt.report(releaseAll(c.ledger.takeRetained())) }()
	if c.rt.lost.Load() != nil || c.isLost() && c.inUse() {
		return nil
	}
	c.alive.Close(nil) // those who gave up waiting for the device may still be at it
	var err error
	if !c.isLost() {
		err = errors.Join(c.closeMemory(idle), c.freeAll(idle))
	}
	err = errors.Join(err, c.freeAllLost())
	ctx, cancel := context.WithTimeout(context.Background(), afterLoss)
	defer cancel()
	if c.rt.lost.Load() == nil && c.quiet(ctx) {
		err = errors.Join(err, c.releasePrimary())
	}
	return err
}

// quiet waits until the driver is not asked any more for waits that have ended, and reports whether that was before the end of ctx. A
// device that is gone may never answer.
func (c *Context) quiet(ctx context.Context) bool {
	m := c.memory.Load()
	return m == nil || m.waits.Quiet(ctx.Done())
}

// freeAllLost is freeLost for all that is left, if the device is lost.
func (c *Context) freeAllLost() error {
	var errs []error
	for _, e := range c.ledger.entries() {
		if !c.isLost() {
			break
		}
		if e.kind == leasedMemory {
			e.gate.Close(c.state.Done())
		}
		errs = append(errs, c.freeLost(e, true))
	}
	return errors.Join(errs...)
}

// inUse reports whether a call is inside the context, or uses what it owns. A device that is gone
// may never let it go.
func (c *Context) inUse() bool {
	return c.gate.Inside() > 0 ||
		slices.ContainsFunc(c.ledger.entries(), func(e *entry) bool { return e.kind != leasedMemory && e.gate.Inside() > 0 })
}

// releasePrimary releases the primary context as often as it was retained: once, unless the
// driver has refused that before.
func (c *Context) releasePrimary() error {
	for c.retained > 0 {
		if r := c.api.DevicePrimaryCtxRelease(c.device.handle); r != driver.Success {
			return c.bind.Failed("cuDevicePrimaryCtxRelease", r)
		}
		c.retained--
	}
	c.bind.Context = 0
	return nil
}

// freeAll frees all that is on the ledger.
func (c *Context) freeAll(idle bool) error {
	if c.isLost() {
		return nil
	}
	err := c.bind.Do(func() error {
		var errs []error
		for kind := range entryKinds {
			if !idle && kind.usedByWork() {
				continue
			}
			for _, e := range c.ledger.entries(kind) {
				if e.gate.Close(c.state.Done()); !c.isLost() {
					errs = append(errs, c.end(e, true))
				}
			}
			if kind == streamEntry {
				errs = append(errs, c.trimStreams()) // with those that it has kept just now
			}
		}
		return errors.Join(errs...)
	})
	c.modules.reset(c.state.Done())
	return err
}

// hostPointer turns the handle of an entry back into a pointer. The memory is
// the driver's, so that the garbage collector has no part in it.
func hostPointer(address uint64) unsafe.Pointer {
	p := uintptr(address)
	return *(*unsafe.Pointer)(unsafe.Pointer(&p))
}
