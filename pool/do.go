package pool

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/stack"
	"github.com/purecuda/purecuda/internal/zero"
)

// Do runs f once on a device, or else the fallback on the CPU, and returns when that has ended. There are three
// outcomes:
//
//   - A device did the work. The error is nil, and Report.Where is [OnGPU].
//   - The fallback did it. The error is nil, Report.Where is [OnCPU], and Report.Err says why.
//   - Nobody did it. The error is f's as it is, a [*PanicError] of its panic, [ErrQueueFull], the cause of
//     ctx, or why no device can be used.
//
// f gets a worker of the device that will be free first by costs (DoOptions.Cost) and measured speeds. It runs on the
// caller's goroutine. Each device runs as many requests at the same time as it has streams. A request for which
// no stream is free waits in a bounded queue. If that is full, Do fails at once, unless DoOptions.Wait is set.
//
// With DoOptions.Retry other devices repeat an f that fails. A device that could not be prepared does not
// count as a try: another device takes the request in any case. So it is where the error of f says that the device can never
// do it ([driver.UnfitDevice]). Load kernels in a [State], and such a device is asked once.
//
// When ctx ends, a request in the queue fails. A running f sees the end in [Worker.CallContext] and has to return. It
// must not leave the caller's memory to work that is queued on the device. No other request gets the stream
// before that work is done. After any other error of f, Do waits for the stream.
//
// f must not call the pool itself: it would wait while it keeps a worker. A call with [Worker.CallContext], or
// with a context made from it, is an error of kind driver.ErrInvalidArgument. With another context it is not
// detected, and may wait until that context ends.
//
// A call that need not wait costs less than a microsecond and one or two allocations, without the cost
// of f. The first request on a stream prepares the stream: see [State].
func (p *Pool) Do(ctx context.Context, f func(*Worker) error, options ...DoOptions) (report Report, err error) {
	stack.Grow()
	report.Device = driver.NoDevice
	if err := p.check(ctx, f != nil); err != nil {
		return report, err
	}
	o := &noOptions
	if len(options) > 0 {
		o = &options[0]
		if _, err := one(options); err != nil {
			return report, err
		}
		if err := o.check(); err != nil {
			return report, err
		}
	}
	if ctx, end := p.rt.TraceRequest(ctx, "pool.Do"); end != nil {
		err = p.doTraced(ctx, o, f, &report, end)
	} else {
		err = p.request(ctx, o, f, &report)
	}
	return report, err
}

var noOptions DoOptions

// request is Do with options that were checked.
func (p *Pool) request(ctx context.Context, o *DoOptions, f func(*Worker) error, report *Report) (err error) {
	r := p.newRequest(ctx)
	r.cost, r.priority, r.devices, r.overflow = o.Cost.Seconds(), o.Priority, o.Devices, o.Wait
	r.label, r.bytes = o.Label, o.Reserve
	defer p.forget(r)
	if o.BreakEven == nil {
		return p.doOrFallBack(ctx, o, r, f, report)
	}
	end := o.BreakEven.begin()
	err = errUnfinished
	defer func() { end(max(o.Items, 1), report.Where, report.Reason, err) }()
	err = p.doOrFallBack(ctx, o, r, f, report)
	return err
}

// errUnfinished is the error of a request whose function has ended the goroutine.
var errUnfinished = errors.New("the function has ended its goroutine")

// doOrFallBack does a request on a device, or else on the CPU.
func (p *Pool) doOrFallBack(ctx context.Context, o *DoOptions, r *request, f func(*Worker) error, report *Report) error {
	side, err := o.BreakEven.side(ctx, max(o.Items, 1), o.Fallback != nil)
	switch {
	case err != nil:
		return err
	case side != OnCPU:
		if err = p.suit(o, r, report); err == nil {
			err = p.do(ctx, o, r, f, report)
		}
	default:
		if err = p.beginCall(r); err == nil {
			report.Reason, err = MeasuredSlower, errSlower
		}
	}
	if report.Reason == "" {
		return err
	}
	p.count(report.Reason)
	if report.Err = err; o.Fallback == nil || side == OnGPU || ctx.Err() != nil {
		return err
	}
	if report.Reason != MeasuredSlower {
		if refused := p.rt.FallBack(string(report.Reason), err); refused != nil {
			return refused
		}
	}
	if failed := p.fallBack(ctx, o, r, report); failed != nil {
		return errors.Join(failed, err)
	}
	return nil
}

// fallBack does a request on the CPU when it is its turn. A Batcher has a bound of its own.
func (p *Pool) fallBack(ctx context.Context, o *DoOptions, r *request, report *Report) (err error) {
	var w *Worker
	if !o.ofBatcher {
		r.only, r.label, r.bytes, r.short = &p.cpu, "", 0, nil
		w, err = p.acquire(ctx, r)
		if report.Waited = r.waited; err != nil {
			return err
		}
	}
	start := time.Now()
	report.Where, report.Device = OnCPU, driver.NoDevice
	contain.Call(func() error {
		return o.Fallback(&marked{ctx, turnOf{p}})
	}, func(failed error) {
		err = failed
		report.Wall += time.Since(start)
		if w != nil {
			p.release(w)
		}
	})
	return err
}

// newRequest returns an empty request, until forget or reuse.
func (p *Pool) newRequest(ctx context.Context) *request {
	r, _ := p.requests.Get().(*request)
	r = zero.Or(r)
	r.post.request = r
	r.deadline, _ = ctx.Deadline()
	return r
}

// reuse keeps the memory of a request, and nothing that it has.
func (p *Pool) reuse(r *request) {
	*r = request{ready: r.ready}
	p.requests.Put(r)
}

// forget ends the call of a request, unless it has ended.
func (p *Pool) forget(r *request) {
	if r.accepted {
		p.end()
	}
	p.reuse(r)
}

// do tries devices until f succeeds. The report has a reason if the fallback should do the request.
func (p *Pool) do(ctx context.Context, o *DoOptions, r *request, f func(*Worker) error, report *Report) error {
	var last error     // of earlier devices
	var away []*device // that could not be prepared, or cannot do it
	unfit := 0         // tries on devices that cannot do it
	for {
		if ctx.Err() != nil {
			return join(last, context.Cause(ctx))
		}
		if r.bytes > 0 {
			p.refreshMemory(memoryAge)
		}
		overflow := r.overflow
		w, err := p.acquire(ctx, r)
		report.Waited = r.waited
		if p.remote != nil && errors.Is(err, errTried) && len(r.tried) > len(away) { // another process does the next try
			r.tried = slices.Clone(away)
			continue
		}
		if err != nil {
			return p.notAssigned(r, report, err, last)
		}
		report.Device, report.Stream = w.device.Ordinal, w.number
		w.ctx = &marked{ctx, within{p}}
		if err = w.prepareRequest(); p.remote != nil && errors.Is(err, ErrNotReady) {
			p.notReady(w)
			r.overflow = overflow || r.waited > 0 // it was not let in for that
			continue
		} else if err != nil {
			others := w.unprepared(err)
			p.release(w)
			r.tried, away = append(r.tried, w.pooled), append(away, w.pooled)
			if last = join(last, err); others {
				continue
			}
		} else if err = p.invoke(ctx, o, w, r, f, report); err == nil {
			return nil
		} else if last = err; ctx.Err() == nil && p.rt.Err() == nil {
			if driver.UnfitDevice(err) {
				away, unfit = append(away, w.pooled), unfit+1
				report.skip(w.pooled, err)
				continue
			}
			if report.Tries-unfit <= o.Retry {
				p.countRetries(1)
				continue
			}
		}
		if ctx.Err() == nil {
			report.Reason = Failed
		}
		return last
	}
}

// notAssigned returns the error of a request that got no worker.
func (p *Pool) notAssigned(r *request, report *Report, err, last error) error {
	switch {
	case r.refused: // its call may have ended
	case errors.Is(err, errTried):
		if report.Reason = Failed; p.remote != nil && report.Tries == 0 {
			report.Reason = Quarantined // by those who start its processes
		}
		return last
	case errors.Is(err, ErrQuarantined):
		report.Reason = Quarantined
	case p.neverFits(r) != nil:
		report.Reason = NoMemory
	case !r.accepted && p.rt.Err() != nil && p.beginCall(r) == nil: // the fallback runs as part of the call
		report.Reason = p.unusable()
	}
	return join(last, err)
}

// join is errors.Join, but returns a single error as it is.
func join(last, err error) error {
	if last == nil {
		return err
	}
	return errors.Join(last, err)
}

// invoke calls f with a worker, and takes the worker back.
func (p *Pool) invoke(ctx context.Context, o *DoOptions, w *Worker, r *request, f func(*Worker) error, report *Report) (err error) {
	report.Where = OnGPU
	report.Tries++
	w.retried = report.Tries > 1
	w.stream.SetTraceContext(w.ctx)
	w.stopwatch.start()
	contain.Call(func() error {
		return w.run(f)
	}, func(failed error) {
		ran := time.Since(w.stopwatch.began)
		report.Wall += ran
		if err = w.failed(failed); err == nil {
			w.ctx, w.ran, w.hinted = nil, ran, o.Cost > 0
			r.accepted = false // finish ends the call
			p.mu.post(&w.post)
			return
		}
		r.tried = append(r.tried, w.pooled)
		if ctx.Err() == nil {
			p.synchronizeFailed(w, err)
			p.release(w)
		} else {
			p.releaseAfter(w)
		}
	})
	return err
}

// synchronizeFailed waits for the stream of a function that has failed: before a retry or the fallback,
// no work on the device may use the caller's memory. The error of the function is the one to report.
func (p *Pool) synchronizeFailed(w *Worker, err error) {
	_ = w.stream.Synchronize(context.Background())
	p.recordFailure(w.pooled, err, prepared)
}
