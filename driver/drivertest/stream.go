package drivertest

import (
	goruntime "runtime"

	"github.com/purecuda/purecuda/driver"
)

// stream runs operations in order, on a goroutine that exists while there are any.
type stream struct {
	handle   driver.Stream // 0: the legacy default stream of the context
	ctx      *context
	id       uint64
	flags    uint32
	priority int32
	made     origin
	// connection is the queue that the stream shares with others, or nil.
	connection *connection

	queue []*operation // the first one runs
	last  *operation   // the latest, done or not
	busy  bool         // the queue is not empty, and a goroutine works on it

	capture  *capture // what it is captured into, or nil
	frontier []*node  // what the next node depends on
}

func (s *stream) nonBlocking() bool { return s.flags&driver.StreamNonBlocking != 0 }

const leastPriority, greatestPriority = 0, -5

// CUDA's names for the default streams.
const (
	streamLegacy    driver.Stream = 1
	streamPerThread driver.Stream = 2
)

// stream finds a stream. The default stream belongs to the current context.
func (c call) stream(h driver.Stream) (*stream, driver.Result) {
	switch h {
	case 0, streamLegacy:
		if r := c.needContext(); r != driver.Success {
			return nil, r
		}
		return c.ctx.null, c.ctx.present()
	case streamPerThread:
		return nil, driver.ResultNotSupported
	}
	s, r := find(c, &c.d.streams, h)
	switch {
	case r != driver.Success:
		return nil, r
	case s.ctx.dead:
		return nil, driver.ResultContextIsDestroyed
	}
	return s, s.ctx.present()
}

func (d *simulated) StreamCreate(flags uint32) (driver.Stream, driver.Result) {
	return get(d, "cuStreamCreate", func(c call) (driver.Stream, driver.Result) { return c.newStream(flags, 0) })
}

func (d *simulated) StreamCreateWithPriority(flags uint32, priority int32) (driver.Stream, driver.Result) {
	return get(d, "cuStreamCreateWithPriority", func(c call) (driver.Stream, driver.Result) {
		return c.newStream(flags, min(max(priority, greatestPriority), leastPriority))
	})
}

func (c call) newStream(flags uint32, priority int32) (driver.Stream, driver.Result) {
	if flags&^driver.StreamNonBlocking != 0 {
		return 0, driver.ResultInvalidValue
	}
	s := &stream{handle: driver.Stream(c.d.newHandle()), ctx: c.ctx, id: c.d.newID(),
		flags: flags, priority: priority, made: c.made, connection: c.ctx.connect()}
	c.d.streams.live[s.handle] = s
	return s.handle, driver.Success
}

func (d *simulated) StreamDestroy(h driver.Stream) driver.Result {
	return on(d, call.stream, "cuStreamDestroy", h, func(c call, s *stream) driver.Result {
		if s == s.ctx.null {
			return driver.ResultInvalidHandle
		}
		if k := s.capture; k != nil {
			k.invalid = true
			delete(k.streams, s)
			if k.origin == s {
				k.end()
			}
		}
		remove(c, &d.streams, h)
		return driver.Success
	})
}

func (d *simulated) StreamQuery(h driver.Stream) driver.Result {
	return on(d, call.stream, "cuStreamQuery", h, func(c call, s *stream) driver.Result {
		if r := c.mayWait(s); r != driver.Success {
			return r
		}
		if s.busy {
			return driver.ResultNotReady
		}
		return d.poison()
	})
}

func (d *simulated) StreamSynchronize(h driver.Stream) driver.Result {
	return on(d, call.stream, "cuStreamSynchronize", h, func(c call, s *stream) driver.Result {
		if r := c.mayWait(s); r != driver.Success {
			return r
		}
		if s == s.ctx.null {
			// It would wait for the blocking streams, so that waiting for it does.
			last := []*operation{s.last}
			for t := range s.ctx.running {
				if !t.nonBlocking() {
					last = append(last, t.last)
				}
			}
			return c.wait(last...)
		}
		return c.wait(s.last)
	})
}

// mayWait refuses to wait for a stream that captures: its work will never run.
func (c call) mayWait(s *stream) driver.Result {
	if s.capture != nil {
		s.capture.invalid = true
		return driver.ResultStreamCaptureUnsupported
	}
	if r := c.checkCaptures(); r != driver.Success {
		return r
	}
	return c.checkImplicit(s)
}

func (d *simulated) StreamWaitEvent(h driver.Stream, event driver.Event, flags uint32) driver.Result {
	return on(d, call.stream, "cuStreamWaitEvent", h, func(c call, s *stream) driver.Result {
		e, r := c.event(event)
		if r != driver.Success {
			return r
		}
		const external = 1
		switch {
		case flags&^external != 0:
			return driver.ResultInvalidValue
		case flags == external && s.capture == nil:
			return driver.ResultIllegalState
		case flags == external:
			return c.submit(s, work{kind: nodeWaitEvent, event: e})
		case e.mark != nil || s.capture != nil:
			return c.joinCapture(s, e)
		case e.record == nil:
			return driver.Success
		}
		if r := c.checkImplicit(s); r != driver.Success {
			return r
		}
		d.enqueue(s, &operation{call: c, deps: []*operation{e.record}})
		return driver.Success
	})
}

func (d *simulated) StreamGetID(h driver.Stream) (uint64, driver.Result) {
	return getOf(d, call.stream, "cuStreamGetId", h, func(_ call, s *stream) (uint64, driver.Result) { return s.id, driver.Success })
}

func (d *simulated) StreamGetCtx(h driver.Stream) (driver.Context, driver.Result) {
	return getOf(d, call.stream, "cuStreamGetCtx", h, func(_ call, s *stream) (driver.Context, driver.Result) { return s.ctx.handle, driver.Success })
}

func (d *simulated) StreamGetFlags(h driver.Stream) (uint32, driver.Result) {
	return getOf(d, call.stream, "cuStreamGetFlags", h, func(_ call, s *stream) (uint32, driver.Result) { return s.flags, driver.Success })
}

func (d *simulated) StreamGetPriority(h driver.Stream) (int32, driver.Result) {
	return getOf(d, call.stream, "cuStreamGetPriority", h, func(_ call, s *stream) (int32, driver.Result) { return s.priority, driver.Success })
}

// LaunchHostFunc implements [driver.API]. A call of the driver from f is a finding
// where threads can be told apart.
func (d *simulated) LaunchHostFunc(h driver.Stream, f func()) driver.Result {
	return on(d, call.stream, "cuLaunchHostFunc", h, func(c call, s *stream) driver.Result {
		if f == nil {
			return driver.ResultInvalidValue
		}
		return c.submit(s, work{kind: nodeHost, run: func() error {
			d.runHostFunc(f)
			return nil
		}})
	})
}

// runHostFunc runs f on a thread that is marked, so that enter knows it again.
func (d *simulated) runHostFunc(f func()) {
	if !realThreads {
		f()
		return
	}
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	mark := func(in bool) {
		d.mu.Lock()
		defer d.mu.Unlock()
		t := d.currentThread()
		t.inHostFunc = in
		d.keep(t)
	}
	mark(true)
	defer mark(false)
	f()
}
