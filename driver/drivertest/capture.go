package drivertest

import (
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// capture is a graph that streams are building.
type capture struct {
	d       *simulated
	ctx     *context
	origin  *stream
	mode    driver.CaptureMode
	thread  threadID
	graph   *graph
	streams map[*stream]struct{}
	invalid bool
	ended   bool
}

// mark is the place in a capture that an event was recorded at.
type mark struct {
	capture *capture
	nodes   []*node
}

// end takes all streams out of the capture.
func (k *capture) end() {
	for s := range k.streams {
		s.capture, s.frontier = nil, nil
	}
	k.ended = true
	delete(k.d.captures, k)
}

// work is what a call puts on a stream: it runs there, or becomes a node where the
// stream captures.
type work struct {
	kind nodeKind
	run  func() error
	// holds says that the work waits, and holds up its connection meanwhile.
	holds bool
	// function is what a kernel node launches.
	function *function
	// event is what an event node records or waits for.
	event *event
}

// submit puts work on a stream.
func (c call) submit(s *stream, w work) driver.Result {
	if r := c.checkImplicit(s); r != driver.Success {
		return r
	}
	if k := s.capture; k != nil {
		if k.invalid {
			return driver.ResultStreamCaptureInvalidated
		}
		n := k.graph.add(c, w, s.frontier)
		s.frontier = []*node{n}
		return driver.Success
	}
	o := &operation{call: c, run: w.run}
	if w.holds {
		var err error
		o.until = func() { err = w.run() }
		o.run = func() error { return err }
	}
	c.d.enqueue(s, o)
	return driver.Success
}

// checkImplicit refuses work on the legacy default stream while a blocking stream
// of the context captures: it would have to wait for that.
func (c call) checkImplicit(s *stream) driver.Result {
	if k := c.implicit(s); k != nil {
		k.invalid = true
		return driver.ResultStreamCaptureImplicit
	}
	return driver.Success
}

// implicit returns the capture that work on s would have to wait for, or nil.
func (c call) implicit(s *stream) *capture {
	if s != s.ctx.null {
		return nil
	}
	for k := range c.d.captures {
		for t := range k.streams {
			if t.ctx == s.ctx && !t.nonBlocking() {
				return k
			}
		}
	}
	return nil
}

// checkCaptures refuses calls that a capture forbids: in the mode of the thread,
// those of the thread's own captures, and of all global ones.
func (c call) checkCaptures() driver.Result {
	if c.thread.mode == driver.CaptureRelaxed {
		return driver.Success
	}
	result := driver.Success
	for k := range c.d.captures {
		own := k.thread == c.thread.id && k.mode != driver.CaptureRelaxed
		others := c.thread.mode == driver.CaptureGlobal && k.mode == driver.CaptureGlobal
		if own || others {
			k.invalid = true
			result = driver.ResultStreamCaptureUnsupported
		}
	}
	return result
}

// markCapture makes an event mark the nodes that a stream has captured so far.
func (c call) markCapture(s *stream, e *event) driver.Result {
	if s.capture.invalid {
		return driver.ResultStreamCaptureInvalidated
	}
	e.mark, e.record = &mark{s.capture, slices.Clone(s.frontier)}, nil
	return driver.Success
}

// joinCapture makes a stream wait for an event where one of them is captured.
func (c call) joinCapture(s *stream, e *event) driver.Result {
	switch k := s.capture; {
	case k != nil && k.invalid:
		return driver.ResultStreamCaptureInvalidated
	case e.mark == nil && e.record == nil:
		return driver.Success // an event that marks nothing
	case e.mark == nil:
		k.invalid = true
		return driver.ResultStreamCaptureIsolation
	case e.mark.capture.ended:
		return c.useCaptured(e)
	case e.mark.capture.invalid:
		return driver.ResultStreamCaptureInvalidated
	case k != nil && k != e.mark.capture:
		k.invalid, e.mark.capture.invalid = true, true
		return driver.ResultStreamCaptureMerge
	case s == s.ctx.null:
		e.mark.capture.invalid = true
		return driver.ResultStreamCaptureImplicit
	}
	k := e.mark.capture
	s.capture = k
	k.streams[s] = struct{}{}
	for _, n := range e.mark.nodes {
		if !slices.Contains(s.frontier, n) {
			s.frontier = append(s.frontier, n)
		}
	}
	return driver.Success
}

// useCaptured refuses the use of an event that marks a capture.
func (c call) useCaptured(e *event) driver.Result {
	if e.mark.capture.ended {
		return driver.ResultInvalidValue
	}
	e.mark.capture.invalid = true
	return driver.ResultCapturedEvent
}

func (d *simulated) StreamBeginCapture(h driver.Stream, mode driver.CaptureMode) driver.Result {
	return on(d, call.stream, "cuStreamBeginCapture", h, func(c call, s *stream) driver.Result {
		switch {
		case mode < driver.CaptureGlobal || mode > driver.CaptureRelaxed:
			return driver.ResultInvalidValue
		case s == s.ctx.null:
			return driver.ResultStreamCaptureUnsupported
		case s.capture != nil:
			return driver.ResultIllegalState
		}
		k := &capture{d: d, ctx: s.ctx, origin: s, mode: mode, thread: c.thread.id,
			graph: &graph{made: c.made}, streams: map[*stream]struct{}{s: {}}}
		s.capture, s.frontier = k, nil
		d.captures[k] = struct{}{}
		return driver.Success
	})
}

func (d *simulated) StreamEndCapture(h driver.Stream) (driver.Graph, driver.Result) {
	return getOf(d, call.stream, "cuStreamEndCapture", h, func(c call, s *stream) (driver.Graph, driver.Result) {
		k := s.capture
		switch {
		case k == nil:
			return 0, driver.ResultIllegalState
		case k.mode != driver.CaptureRelaxed && k.thread != c.thread.id:
			k.end()
			return 0, driver.ResultStreamCaptureWrongThread
		case k.origin != s:
			k.invalid = true
			return 0, driver.ResultStreamCaptureUnmatched
		}
		frontier := s.frontier
		k.end()
		switch {
		case k.invalid:
			return 0, driver.ResultStreamCaptureInvalidated
		case !k.graph.endsIn(frontier):
			return 0, driver.ResultStreamCaptureUnjoined
		}
		return c.keepGraph(k.graph), driver.Success
	})
}

func (d *simulated) StreamIsCapturing(h driver.Stream) (driver.CaptureStatus, driver.Result) {
	return getOf(d, call.stream, "cuStreamIsCapturing", h, func(c call, s *stream) (driver.CaptureStatus, driver.Result) {
		switch {
		case s.capture == nil && c.implicit(s) != nil:
			return driver.CaptureNone, driver.ResultStreamCaptureImplicit
		case s.capture == nil:
			return driver.CaptureNone, driver.Success
		case s.capture.invalid:
			return driver.CaptureInvalidated, driver.Success
		}
		return driver.CaptureActive, driver.Success
	})
}

func (d *simulated) ThreadExchangeStreamCaptureMode(mode driver.CaptureMode) (driver.CaptureMode, driver.Result) {
	return get(d, "cuThreadExchangeStreamCaptureMode", func(c call) (driver.CaptureMode, driver.Result) {
		if mode < driver.CaptureGlobal || mode > driver.CaptureRelaxed {
			return 0, driver.ResultInvalidValue
		}
		old := c.thread.mode
		c.thread.mode = mode
		d.keep(c.thread)
		return old, driver.Success
	})
}
