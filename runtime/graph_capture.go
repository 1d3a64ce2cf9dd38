package runtime

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/refs"
)

// capture is a graph that streams are recording. It begins on one stream; others join it
// when they wait for an event that was recorded in it.
type capture struct {
	ctx    *Context
	origin *Stream
	lost   <-chan struct{} // closed when the device is lost, also if it is revived then

	sealed atomic.Bool           // no stream joins any more
	over   atomic.Bool           // the driver records no more
	failed atomic.Pointer[error] // the first thing that went wrong
	called atomic.Bool           // there was a call on one of its streams

	// turn is held over each call of the driver that records: the driver does not lock graphs, and a
	// capture makes one. It is taken inside the gate of a stream, and guards what follows.
	turn gate.Turn
	recorded
}

// recorded is what a capture has recorded, and what it retains until its end.
type recorded struct {
	streams    []*Stream                   // the origin first; each is among held
	held       []retainable                // until the end: streams, events since the driver refers to them, reports
	reports    map[*Checks]*report         // that the kernels write
	retained   []retainable                // for the graph
	refs       map[*refs.Core]*retainedRef // those of retained
	operations []string
}

// Capture records what f puts on the stream as a graph, and runs nothing of it. f may be
// called on any goroutine and start others; the capture ends when f returns. A second
// stream joins when it waits for an event that f has recorded on the first one, and must
// be joined back the same way before f returns.
//
// The beginning and the end exclude other calls on the stream. Capture first waits for those that
// are under way, a Download included, and for calls that wait for the whole context. Calls of other
// goroutines that come during the capture are recorded as well, or fail by name. An event that is
// recorded in the capture cannot be recorded elsewhere before the end.
//
// Launches, copies from and to host buffers, fills and calls of the host can be recorded.
// Calls that wait or copy from Go memory cannot (Synchronize, Query, Upload, Download). They
// return an error of kind driver.ErrCaptureFailed that names them. Capture returns the first such
// error even if f ignores it. Calls that name no stream are not recorded and happen at once, so
// that f may allocate, load and close. What is closed meanwhile is freed later. f must not close the
// runtime: that waits for f.
//
// An error of f is returned as it is, and a panic of f as an error. However f ends, the stream is
// an ordinary one again. A function that is recorded with Stream.LaunchHostFunc runs at every launch
// and is remembered for the life of the process.
func (s *Stream) Capture(f func(s *Stream) error) (*Graph, error) {
	if s == nil || s.ctx == nil {
		return nil, errNothing("stream")
	}
	if f == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "capture of no function")
	}
	c, err := s.beginCapture()
	if err != nil {
		return nil, err
	}
	var graph *Graph
	contain.Call(func() error { return f(s) }, func(failed error) { graph, err = c.finish(failed) })
	return graph, err
}

// beginCapture makes the stream record. The mode is relaxed. In the other modes a capture belongs
// to the thread that began it, which goroutines leave, and calls that have nothing to do with the
// graph ruin it. Such calls allocate, wait for another stream, or free what the garbage collector
// has found. What cannot be recorded is refused in every mode.
func (s *Stream) beginCapture() (*capture, error) {
	ctx := s.ctx
	if err := ctx.hold(); err != nil { // until the end
		return nil, err
	}
	c := &capture{ctx: ctx, origin: s, lost: ctx.state.Done()}
	// Suspended before the state is looked at, so that either this sees that the context is about to
	// be reset, or who resets it sees the capture.
	if !ctx.waiters.Suspend(0, c.lost) {
		ctx.gate.Leave()
		return nil, c.lostError()
	}
	err := s.exclusively(func() error {
		if s.capture.Load() != nil {
			return s.captureError("Stream.Capture", "the stream is captured already")
		}
		return c.join(s, func() error {
			return s.failed("cuStreamBeginCapture", ctx.api.StreamBeginCapture(s.handle, driver.CaptureRelaxed))
		})
	})
	if err != nil {
		_, _ = c.close() // nothing was recorded
		c.leave()
		return nil, err
	}
	return c, nil
}

// lostError is why the capture has ended, also if the device was revived meanwhile.
func (c *capture) lostError() error { return c.ctx.state.Check(c.origin.entry.generation) }

// join makes a stream part of the capture by a call of the driver. The caller has the stream
// exclusively, and the turn. The stream may be closed meanwhile, and is destroyed after the capture.
func (c *capture) join(s *Stream, call func() error) error {
	if c.sealed.Load() || s.entry.retain() == nil {
		return errClosed("stream or the capture")
	}
	s.ctx.usedBy(c.ctx)
	s.spoil()
	c.streams, c.held = append(c.streams, s), append(c.held, s.entry)
	s.memory.Capture(true) // the arena marks what is on the stream now
	s.waits.Suspend()      // the driver must not be asked about a stream that is captured
	s.capture.Store(c)
	err := call()
	if err != nil && !c.records(s) {
		s.leaveCapture()
		c.streams, c.held = c.streams[:len(c.streams)-1], c.held[:len(c.held)-1] // the turn is still the caller's
		s.ctx.rt.report(s.entry.release())
	}
	return err
}

// give ends the turn of a call that records. The end of a capture does not wait for a call that never returns because the device is lost.
// If it does return, it releases what the capture has recorded.
func (c *capture) give() {
	c.turn.Give()
	if c.over.Load() {
		c.drop()
	}
}

// drop releases what the capture has recorded, unless a call has the turn, which does it then.
func (c *capture) drop() {
	if c.turn.TryTake() {
		all := c.recorded
		c.recorded = recorded{}
		c.turn.Give()
		c.ctx.rt.report(releaseAll(append(all.held, all.retained...)))
	}
}

// close ends the capture for all that may still record, and returns what was recorded. Events may refer to c for long.
func (c *capture) close() (all recorded, err error) {
	if !c.turn.Take(c.lost) {
		c.over.Store(true)
		c.drop() // who had the turn may have given it before
		return all, c.lostError()
	}
	all, c.recorded = c.recorded, recorded{}
	c.over.Store(true)
	c.turn.Give()
	c.ctx.rt.report(releaseAll(all.held))
	return all, nil
}

func (c *capture) leave() {
	c.ctx.waiters.Resume()
	c.ctx.gate.Leave()
}

// finish ends the capture, and makes a graph of it if nothing went wrong.
func (c *capture) finish(err error) (*Graph, error) {
	ctx := c.ctx
	defer c.leave()
	c.sealed.Store(true)
	handle, ended := driver.Graph(0), error(nil)
	if c.turn.Take(c.lost) { // no stream is about to join
		c.turn.Give()
		handle, ended = c.endExclusively(c.streams)
	} else {
		ended = c.lostError()
	}
	all, lost := c.close()
	if failed := c.failed.Load(); failed != nil {
		err = cmp.Or(err, *failed)
	}
	if err = cmp.Or(err, ended, lost); err == nil {
		g := &Graph{handle: handle, operations: all.operations}
		g.object, _ = ctx.newObject(&entry{kind: graphEntry, handle: uint64(handle), details: &details{retains: all.retained}})
		trackGC(g, &g.object)
		return g, nil
	}
	if handle != 0 {
		ctx.rt.report(ctx.bind.Failed("cuGraphDestroy", ctx.api.GraphDestroy(handle)))
	}
	ctx.rt.report(releaseAll(all.retained))
	return nil, err
}

// endExclusively has all streams of the capture exclusively, ends it and lets them leave it. When
// CUDA is lost meanwhile the driver is not called.
func (c *capture) endExclusively(streams []*Stream) (handle driver.Graph, err error) {
	if len(streams) == 0 {
		return c.end()
	}
	s := streams[0]
	hold := func() error { // the capture retains the stream, also when it was closed
		s.gate.EnterAnyway()
		return nil
	}
	lost := s.alone(&s.turn, hold, func() error {
		handle, err = c.endExclusively(streams[1:])
		s.leaveCapture()
		return nil
	})
	if lost != nil {
		// Calls are inside, which go by the capture. The streams are lost, and stay as they are.
		err = lost
	}
	return handle, err
}

// leaveCapture ends the part of the stream in a capture.
func (s *Stream) leaveCapture() {
	s.capture.Store(nil)
	s.waits.Resume()
	s.memory.Capture(false)
}

// end takes the graph from the driver. If that fails and the stream still records, it tries
// once more: nothing could run on the stream otherwise.
func (c *capture) end() (driver.Graph, error) {
	handle, err := c.tryEnd()
	if err != nil && c.records(c.origin) {
		if late, failed := c.tryEnd(); failed == nil {
			c.ctx.rt.report(c.ctx.bind.Failed("cuGraphDestroy", c.ctx.api.GraphDestroy(late)))
		}
	}
	return handle, err
}

func (c *capture) tryEnd() (driver.Graph, error) {
	s := c.origin
	if err := s.bind(); err != nil {
		return 0, err
	}
	defer s.ctx.bind.Pop()
	handle, r := s.ctx.api.StreamEndCapture(s.handle)
	if r == driver.Success {
		return handle, nil
	}
	err := s.fault("cuStreamEndCapture", r)
	if r == driver.ResultStreamCaptureUnjoined {
		err.Detail += c.others()
	}
	return 0, err
}

// records reports whether a stream records, as far as can be found out.
func (c *capture) records(s *Stream) bool {
	if s.ctx.rt.lost.Load() != nil {
		return false
	}
	if s.ctx.bind.Push() != nil {
		return true
	}
	defer s.ctx.bind.Pop()
	status, r := s.ctx.api.StreamIsCapturing(s.handle)
	return r != driver.Success || status != driver.CaptureNone
}

// others names the streams that have joined. The caller has all of them exclusively.
func (c *capture) others() string {
	var ids []string
	for _, s := range c.streams[1:] {
		ids = append(ids, fmt.Sprint(s.id))
	}
	return "; joined were streams " + strings.Join(ids, ", ")
}

// record notes an operation on a stream that is captured, and retains what it uses. The caller has the turn.
func (c *capture) record(operation string, args ...Arg) error {
	if c.over.Load() { // without the driver: CUDA is lost
		return errClosed("capture")
	}
	for i := range args {
		if !c.retain(&args[i]) {
			return errClosed("object that the graph would use")
		}
	}
	c.operations = append(c.operations, operation)
	return nil
}

// hold retains an event, which is about to be recorded, or a report until the end. The caller has the turn.
func (c *capture) hold(k retainable) error {
	if slices.Contains(c.held, k) {
		return nil
	}
	if k.retain() == nil {
		return errClosed("event")
	}
	c.held = append(c.held, k)
	return nil
}

// retain retains what an argument is for the graph, once however often it is used. It reports false for what was closed.
func (c *capture) retain(a *Arg) bool {
	var k retainable
	if ref := a.ref(); ref != nil {
		if known := c.refs[ref]; known != nil {
			known.write = known.write || a.writes()
			return true
		}
		own := &retainedRef{ref.Retain(), a.writes()}
		if _, err := own.own.Access(); err != nil { // it was closed
			_ = own.release() // there is nothing to free
			return false
		}
		if c.refs == nil {
			c.refs = map[*refs.Core]*retainedRef{}
		}
		c.refs[ref], k = own, own
	} else {
		switch o := a.object(); {
		case a.kind == reportArg:
			k = c.reports[(*Checks)(a.of)]
		case o != nil:
			k = o.entry
		}
		if k == nil || slices.Contains(c.retained, k) {
			return true
		}
		if k.retain() == nil {
			return false
		}
	}
	c.retained = append(c.retained, k)
	return true
}

// fail notes what makes the capture fail.
func (c *capture) fail(err error) { c.failed.CompareAndSwap(nil, &err) }
