package pool

import (
	"context"
	"errors"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/zero"
)

// DoReport is the outcome of a request.
type DoReport struct {
	// Where is where f or the fallback ran. It is empty if neither ran.
	Where Where
	// Reason says in a stable word why the devices did not do the work, and Why is the error. Both are
	// empty if a device did the work.
	Reason Reason
	Why    error
	// Host is the name of the host of the last try, if that is another one: see module cluster.
	Host string
	// Device is the ordinal of the device of the last try, or driver.NoDevice.
	Device int
	// Stream is the number of the stream among those of its device, from 0.
	Stream int
	// Waited is the time in the queue. Ran is the time of f or of the fallback. Both are for all tries.
	Waited, Ran time.Duration
	// Tries is how often f was called.
	Tries int
}

// Do runs f once, with a worker of the device that will be free first by costs ([WithCost]) and
// measured speeds. Each device runs as many requests at the same time as it has streams
// ([WithStreams]). A request for which no stream is free waits in a bounded queue ([WithQueue]). If the
// queue is full, Do returns [ErrQueueFull] at once. With [WithQueueWait] the request waits until ctx
// ends.
//
// f runs on the caller's goroutine. Do returns its error as it is, and a panic as a [*PanicError].
// With [WithRetry] other devices repeat an f that fails. A device that could not be prepared does not
// count as a try: another device takes the request in any case. After the tries, the fallback of
// [WithDoFallback] runs, unless ctx has ended. With [WithBreakEven] it runs first if the CPU is faster
// for [WithItems].
//
// When ctx ends, a request in the queue fails with ctx's cause. A running f sees the end in
// [Worker.Ctx] and has to return. It must not leave the caller's memory to work that is queued on the
// device. No other request gets the stream before that work is done. After any other error of f, Do
// waits for the stream.
//
// f must not call the pool itself: it would wait while it keeps a worker. A call with [Worker.Ctx], or
// with a context made from it, is an error of kind driver.ErrInvalidArgument. So is a call with any
// context that would have to wait, on the goroutine of f.
//
// A call that need not wait costs less than a microsecond and one or two allocations, without the cost
// of f. The first request on a stream prepares the stream: see [WithSetup].
func Do(ctx context.Context, p *Pool, f func(*Worker) error, options ...Option) (DoReport, error) {
	c, err := p.configure(ctx, ofDo, f != nil, options)
	if err != nil {
		return DoReport{Device: driver.NoDevice}, err
	}
	if ctx, end := p.rt.TraceRequest(ctx, "pool.Do"); end != nil {
		return doTraced(ctx, p, c, f, end)
	}
	return do(ctx, p, c, f)
}

func do(ctx context.Context, p *Pool, c *config, f func(*Worker) error) (DoReport, error) {
	report := DoReport{Device: driver.NoDevice}
	if !c.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, c.deadline)
		defer cancel()
	}
	r, _ := p.requests.Get().(*request)
	r = zero.Or(r)
	*r = request{ready: r.ready, post: post{request: r}, cost: c.cost.Seconds(), priority: c.priority, devices: c.devices, without: c.without, overflow: c.queueWait,
		refuse: c.refuse, label: c.label, bytes: c.bytes}
	r.deadline, _ = ctx.Deadline()
	defer p.forget(r)
	if c.breakEven == nil {
		err := p.doOrFallBack(ctx, c, r, f, &report)
		return report, err
	}
	end, err := c.breakEven.begin(), errUnfinished
	defer func() { end(max(c.items, 1), report.Where, report.Reason, err) }()
	err = p.doOrFallBack(ctx, c, r, f, &report)
	return report, err
}

// errUnfinished is the error of a request whose function has ended the goroutine.
var errUnfinished = errors.New("the function has ended its goroutine")

// doOrFallBack does a request on a device, or else on the CPU.
func (p *Pool) doOrFallBack(ctx context.Context, c *config, r *request, f func(*Worker) error, report *DoReport) error {
	side, err := c.breakEven.side(ctx, max(c.items, 1), c.doFallback != nil)
	switch {
	case err != nil:
		return err
	case side != OnCPU:
		err = p.do(ctx, c, r, f, report)
	default:
		if err = p.beginCall(r); err == nil {
			report.Reason, err = MeasuredSlower, errSlower
		}
	}
	if report.Reason == "" {
		return err
	}
	p.count(report.Reason)
	if report.Why = err; c.doFallback == nil || side == OnGPU || ctx.Err() != nil {
		return err
	}
	if report.Reason != MeasuredSlower {
		if refused := p.rt.FallBack(string(report.Reason), err); refused != nil {
			return refused
		}
	}
	if failed := p.fallBack(ctx, c, r, report); failed != nil {
		return errors.Join(failed, err)
	}
	return nil
}

// fallBack does a request on the CPU when it is its turn. A Batcher has a bound of its own.
func (p *Pool) fallBack(ctx context.Context, c *config, r *request, report *DoReport) (err error) {
	var w *Worker
	if !c.ofBatcher {
		r.only, r.label, r.bytes, r.short = &p.cpu, "", 0, nil
		w, err = p.acquire(ctx, r)
		if report.Waited = r.waited; err != nil {
			return err
		}
	}
	start := time.Now()
	report.Where, report.Device = OnCPU, driver.NoDevice
	contain.Call(func() error {
		return p.onCPU(func() error { return c.doFallback(&turn{ctx, p}) })
	}, func(failed error) {
		err = failed
		report.Ran += time.Since(start)
		if w != nil {
			p.release(w)
		}
	})
	return err
}

// forget ends the call of a request, unless it has ended, and keeps its memory.
func (p *Pool) forget(r *request) {
	if r.accepted {
		p.end()
	}
	p.requests.Put(r)
}

// do tries devices until f succeeds. The report has a reason if the fallback should do the request.
func (p *Pool) do(ctx context.Context, c *config, r *request, f func(*Worker) error, report *DoReport) error {
	var last error // of earlier devices
	for {
		if ctx.Err() != nil {
			return join(last, context.Cause(ctx))
		}
		if r.bytes > 0 {
			p.refreshMemory(memoryAge)
		}
		w, err := p.acquire(ctx, r)
		report.Waited = r.waited
		if err != nil {
			return p.notAssigned(r, report, err, last)
		}
		report.Device, report.Stream = w.device.Ordinal, w.number
		w.ctx = context.WithValue(ctx, within{p}, true)
		if err = w.prepare(); err != nil {
			others := p.recordFailure(w.pooled, err, unprepared)
			p.release(w)
			r.tried = append(r.tried, w.pooled)
			if last = join(last, err); others {
				continue
			}
		} else if err = p.invoke(ctx, c, w, r, f, report); err == nil {
			return nil
		} else if last = err; report.Tries <= c.retries && ctx.Err() == nil && p.rt.Err() == nil {
			p.countRetries(1)
			continue
		}
		if ctx.Err() == nil {
			report.Reason = Failed
		}
		return last
	}
}

// notAssigned returns the error of a request that got no worker.
func (p *Pool) notAssigned(r *request, report *DoReport, err, last error) error {
	switch {
	case errors.Is(err, errTried):
		report.Reason = Failed
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
func (p *Pool) invoke(ctx context.Context, c *config, w *Worker, r *request, f func(*Worker) error, report *DoReport) (err error) {
	report.Where = OnGPU
	report.Tries++
	w.retried = report.Tries > 1
	w.stream.SetTraceContext(w.ctx)
	w.stopwatch.start()
	contain.Call(func() error {
		return p.onDevice(func() error { return w.run(f) })
	}, func(failed error) {
		ran := time.Since(w.stopwatch.began)
		report.Ran += ran
		if err = failed; err == nil {
			w.ctx, w.ran, w.hinted = nil, ran, c.cost > 0
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
