package runtime

import (
	"context"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/nvtx"
	"github.com/purecuda/purecuda/internal/traceparent"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/nvrtc"
)

// Trace is a set of functions that a runtime calls for spans and logs. Any of them may be nil.
// [WithTrace] sets it, and it must not be changed afterwards.
//
// A runtime calls Launch, Copy, Wait and Module after the operation, on the goroutine of the operation, and so on
// several goroutines at the same time. The operation returns when they return. They delay nothing else. They
// may use CUDA, but operations of their own are traced as well. A panic goes to the hook of
// [WithErrorHook], and the operation goes on.
//
// A profiler that starts the program, such as Nsight Systems, has requests and code as ranges of NVTX on its time line, without a
// Trace. It sets NVTX_INJECTION64_PATH, and the library of that name is loaded. Otherwise nothing is.
//
// Their ctx is that of the operation, if it takes one. Otherwise it is that of [Stream.SetTraceContext]. Package
// pool sets that of the request there.
type Trace struct {
	// Launch is called for each launch of a kernel or a graph whose shape and stream are valid.
	Launch func(ctx context.Context, l TraceLaunch)
	// Kernel is called with the time of a launched kernel or graph on the device. It is called on a
	// goroutine of its own when the work is done or has failed, which may be after Runtime.Close. It needs
	// two events around each launch, which cost some microseconds. Launches in a capture are left out.
	Kernel func(ctx context.Context, k TraceKernel)
	// Copy is called for copies from and to the host, between devices, and within one.
	Copy func(ctx context.Context, c TraceCopy)
	// Wait is called for Stream.Synchronize and Event.Synchronize. Copies that wait are in Copy alone.
	Wait func(ctx context.Context, w TraceCall)
	// Module is called when code was compiled, linked or loaded. Code that the cache in memory has is neither.
	Module func(ctx context.Context, m TraceModule)
	// Request is called when a request begins, with its name, such as "pool.Do", on the goroutine of the request.
	// It returns the context for the request, and a function that is called once, at the end of the
	// request, on the same goroutine. Both may be nil. See [Runtime.TraceRequest].
	Request func(ctx context.Context, name string) (context.Context, func(TraceRequest))
	// Inject returns what another process needs to continue the trace of ctx, at most 200 bytes, as a traceparent of W3C. "" is nothing.
	Inject func(ctx context.Context) string
	// Extract returns a context that continues a trace of another process: parent is what Inject has returned there. It is called
	// before Request. Nobody has checked parent.
	Extract func(ctx context.Context, parent string) context.Context
}

// TraceCall is a call that puts work on a stream or waits.
type TraceCall struct {
	Device int
	Stream uint64 // see [Stream.ID]; 0 for a wait for an event
	Start  time.Time
	Took   time.Duration // of the host
	Err    error
}

// TraceLaunch is a launch of a kernel or a graph.
type TraceLaunch struct {
	TraceCall
	Kernel string // or the name of a Submit; "" for a graph
	Shape  Shape  // of a kernel
}

// TraceKernel is a launch whose work has ended.
type TraceKernel struct {
	TraceLaunch
	// Time is the time on the device. Work that other goroutines put on the stream in between is a part of it.
	Time time.Duration
	// TimeErr is why Time is not known.
	TimeErr error
}

// TraceCopy is a copy.
type TraceCopy struct {
	TraceCall
	Direction string // "upload", "download" or "device"
	Bytes     uint64
}

// TraceModule is code that was compiled, linked or loaded. Its Stream is 0.
type TraceModule struct {
	TraceCall
	Operation string // "compile", "link" or "load"
	Bytes     uint64 // of the code that came of it
	Cached    bool   // it was in the cache on disk
}

// TraceRequest is a request that has ended. What is not known is zero.
type TraceRequest struct {
	Device int // of the last try, or driver.NoDevice
	// Where is "GPU" or "CPU", and Reason is why the devices did not do it, as in package pool.
	Where, Reason string
	Items, Tries  int
	Waited, Ran   time.Duration // in the queue, and in the caller's function
	Err           error
}

// WithTrace sets functions that are called for launches, copies, waits, code and requests.
func WithTrace(t *Trace) Option { return func(c *config) { c.trace = t } }

// TraceRequest begins a request: it calls Trace.Request, and returns its context and the function that ends
// the request. Without Trace.Request it returns ctx, and nil if no profiler listens ([Trace]). Package pool calls it. A program that serves
// requests on streams of its own may call it too, with SetTraceContext.
func (rt *Runtime) TraceRequest(ctx context.Context, name string) (context.Context, func(TraceRequest)) {
	if rt == nil || rt.life == nil || ctx == nil {
		return ctx, nil
	}
	over := nvtx.Start(name)
	t := rt.cfg.trace
	if t == nil || t.Request == nil {
		if over == nil {
			return ctx, nil
		}
		return ctx, func(TraceRequest) { over() }
	}
	if parent := traceparent.From(ctx); parent != "" && t.Extract != nil {
		rt.hook(func() {
			if own := t.Extract(ctx, parent); own != nil {
				ctx = own
			}
		})
		ctx = traceparent.With(ctx, "") // what comes in ctx from now on is of this process
	}
	own, end := ctx, (func(TraceRequest))(nil)
	rt.hook(func() { own, end = t.Request(ctx, name) })
	if own == nil {
		own = ctx
	}
	return own, func(r TraceRequest) {
		if over != nil {
			over()
		}
		if end != nil {
			rt.hook(func() { end(r) })
		}
	}
}

// TraceParent returns what another process needs to continue the trace of ctx, which Trace.Inject says. Without that it is what the
// process has got from one before. "" is nothing. Package pool/isolate gives it to children.
func (rt *Runtime) TraceParent(ctx context.Context) (parent string) {
	if rt == nil || ctx == nil {
		return ""
	}
	if rt.cfg.trace == nil || rt.cfg.trace.Inject == nil {
		return traceparent.From(ctx)
	}
	rt.hook(func() { parent = rt.cfg.trace.Inject(ctx) })
	if len(parent) > traceparent.Max {
		return ""
	}
	return parent
}

// hook calls a function of the caller's.
func (rt *Runtime) hook(f func()) { contain.Call(func() error { f(); return nil }, rt.report) }

// tracing is the trace of a stream, and the context of calls that take none.
type tracing struct {
	*Trace
	ctx context.Context
}

// SetTraceContext sets the context that the functions of a [Trace] get for calls on the stream which take none,
// such as launches. It is context.Background before. Without a Trace it does nothing.
func (s *Stream) SetTraceContext(ctx context.Context) {
	if s == nil || s.ctx == nil || s.ctx.rt.cfg.trace == nil {
		return
	}
	if ctx == nil {
		ctx = context.Background()
	}
	s.tracing.Store(&tracing{s.ctx.rt.cfg.trace, ctx})
}

// traced is a call on the stream that began at start and has ended.
func (s *Stream) traced(start time.Time, err error) TraceCall {
	return TraceCall{Device: s.ctx.device.Ordinal, Stream: s.id, Start: start, Took: time.Since(start), Err: err}
}

// launchTraced is Launch with a Trace.
func (k *Kernel) launchTraced(s *Stream, shape *Shape, args []Arg) error {
	return s.traceLaunch(TraceLaunch{Kernel: k.name, Shape: *shape}, func() error { return k.launchBeside(s, shape, args) })
}

func (s *Stream) traceLaunch(l TraceLaunch, launch func() error) error {
	t := s.tracing.Load()
	var timer *kernelTimer
	if t.Kernel != nil && s.capture.Load() == nil {
		timer = s.startTimer()
	}
	start := time.Now()
	err := launch()
	l.TraceCall = s.traced(start, err)
	if timer != nil {
		timer.stop(s, t, l)
	}
	if t.Launch != nil {
		s.ctx.rt.hook(func() { t.Launch(t.ctx, l) })
	}
	return err
}

// kernelTimer is the events around a launch.
type kernelTimer struct {
	start, end *Event
	err        error // the first one
}

func (s *Stream) startTimer() *kernelTimer {
	t := new(kernelTimer)
	if t.start, t.err = s.ctx.NewTimingEvent(); t.err == nil {
		t.end, t.err = s.ctx.NewTimingEvent()
	}
	if t.err == nil {
		t.err = t.start.Record(s)
	}
	return t
}

// stop calls Trace.Kernel when the launch is done, unless it has failed.
func (t *kernelTimer) stop(s *Stream, to *tracing, l TraceLaunch) {
	if l.Err != nil {
		t.close(s.ctx.rt)
		return
	}
	if t.err == nil {
		t.err = t.end.Record(s)
	}
	s.afterWork(func(err error) {
		k := TraceKernel{TraceLaunch: l, TimeErr: t.err}
		if k.TimeErr == nil {
			k.TimeErr = err
		}
		if k.TimeErr == nil {
			k.Time, k.TimeErr = t.end.Since(t.start)
		}
		t.close(s.ctx.rt)
		to.Kernel(to.ctx, k)
	}, func(_ wait.Ticket, err error) error { return err }) // a failed check is for waits of the program
}

func (t *kernelTimer) close(rt *Runtime) {
	rt.report(t.start.Close())
	rt.report(t.end.Close())
}

// traceContext is the context of calls that take none, or nil without a Trace.
func (s *Stream) traceContext() context.Context {
	if t := s.tracing.Load(); t != nil {
		return t.ctx
	}
	return nil
}

// traceCopy is transfer for a copy of so many bytes.
func (s *Stream) traceCopy(ctx context.Context, direction, operation string, bytes uint64, a, b Arg, f func(a, b driver.DevicePtr) error) error {
	t := s.tracing.Load()
	if t == nil || t.Copy == nil {
		return s.transfer(operation, a, b, f)
	}
	start := time.Now()
	err := s.transfer(operation, a, b, f)
	c := TraceCopy{TraceCall: s.traced(start, err), Direction: direction, Bytes: bytes}
	s.ctx.rt.hook(func() { t.Copy(ctx, c) })
	return err
}

// traceWait calls a function that waits for a stream, or for an event if that is 0.
func (c *Context) traceWait(ctx context.Context, stream uint64, wait func() error) error {
	t := c.rt.cfg.trace
	if t == nil || t.Wait == nil {
		return wait()
	}
	start := time.Now()
	err := wait()
	w := TraceCall{Device: c.device.Ordinal, Stream: stream, Start: start, Took: time.Since(start), Err: err}
	c.rt.hook(func() { t.Wait(ctx, w) })
	return err
}

// traceModule calls a function that makes code, and returns how many bytes and whether they were in the cache on disk.
func (c *Context) traceModule(ctx context.Context, operation string, make func() (bytes int, cached bool, err error)) error {
	if over := nvtx.Start(operation); over != nil {
		defer over()
	}
	start := time.Now()
	bytes, cached, err := make()
	if t := c.rt.cfg.trace; t != nil && t.Module != nil {
		call := TraceCall{Device: c.device.Ordinal, Start: start, Took: time.Since(start), Err: err}
		c.rt.hook(func() { t.Module(ctx, TraceModule{call, operation, uint64(bytes), cached}) })
	}
	return err
}

// traceArtifact is traceModule for code that is kept on disk.
func (c *Context) traceArtifact(ctx context.Context, operation string, make func() (*nvrtc.Artifact, error)) (a *nvrtc.Artifact, err error) {
	err = c.traceModule(ctx, operation, func() (int, bool, error) {
		if a, err = make(); err != nil {
			return 0, false, err
		}
		return len(a.Code), a.Cached, nil
	})
	return a, err
}
