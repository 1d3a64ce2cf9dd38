package pool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// ErrQueueFull is the error of a request that would have to wait, and for which the queue of the pool has
// no room. See [WithQueue] and [WithQueueWait].
var ErrQueueFull = errors.New("the queue of the pool is full")

// ErrQuarantined is the error of a request whose devices have all failed, and are left out for a
// while. The errors of the devices are behind it.
var ErrQuarantined = errors.New("the devices are quarantined")

// errTried is that of a request that has failed on all its devices. Callers have better ones.
var errTried = errors.New("no other device is left")

// acquire gets a worker for a request: that of the device that will be free first, now or when
// there is one.
func (p *Pool) acquire(ctx context.Context, r *request) (w *Worker, err error) {
	if !p.crowded.Load() && p.mu.TryLock() {
		if err = p.accept(r); err == nil {
			w, err = p.place(r)
		}
		p.mu.Unlock()
		if w != nil || err != nil {
			return w, err
		}
	}
	// It has to wait, and would never get a worker if it waits for its own goroutine.
	if r.only == nil && p.serving() {
		return nil, errNested()
	}
	if r.ready == nil {
		r.ready = make(chan struct{}, 1)
	}
	r.since = time.Now()
	p.mu.post(&r.post)
	if done := ctx.Done(); done == nil {
		<-r.ready // costs less
	} else {
		select {
		case <-r.ready:
		case <-done:
			p.giveUp(r, context.Cause(ctx))
			<-r.ready
			if r.worker != nil { // it came just before
				p.release(r.worker)
				r.worker, r.err = nil, context.Cause(ctx)
			}
		}
	}
	w, err = r.worker, r.err
	r.worker, r.err = nil, nil
	return w, err
}

// arrive answers a request that was posted, or lets it wait.
func (p *Pool) arrive(r *request) {
	err := p.accept(r)
	if err == nil && p.try(r) {
		return
	}
	if err == nil && r.only == nil && (r.refuse || !r.overflow) {
		if err = p.full(r); err != nil {
			p.figures.refused++
		}
	}
	if err != nil {
		p.answer(r, nil, err)
		return
	}
	p.queue.insert(r)
	p.figures.waits++
	p.crowded.Store(true)
	if r.bytes > 0 {
		p.dispatch() // those before it may wait for something else
		p.watchMemory()
	}
}

// giveUp answers a request that was posted, unless that has happened.
func (p *Pool) giveUp(r *request, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.work() // now it has come
	if r.waiting {
		p.queue.remove(r)
		p.answer(r, nil, cause)
	}
}

// accept lets a request in.
func (p *Pool) accept(r *request) error {
	if !r.accepted {
		if p.closed {
			return errClosed()
		}
		if err := p.find(); err != nil {
			return err
		}
		for _, ordinal := range r.devices {
			if !slices.ContainsFunc(p.devices, func(d *device) bool { return d.info.Ordinal == ordinal }) {
				return noDevice(ordinal)
			}
		}
		r.accepted = true
		p.calls++
		p.figures.requests++
		if err := p.never(r); err != nil {
			return err
		}
	}
	if r.cost == 0 {
		r.cost = p.typical
	}
	return nil
}

// place gives a request the worker of the device that will be free first. Without a worker and an
// error it has to wait.
func (p *Pool) place(r *request) (*Worker, error) {
	var best *device
	var soonest float64
	possible := false
	r.short = nil
	for _, d := range p.devices {
		if d.quarantine.on || !r.may(d) {
			continue
		}
		possible = true
		if d.busy == p.streams || r.only != nil && d.scattering || p.keeps(d, r) {
			continue
		}
		if free := (d.outstanding + r.cost) / d.speed; best == nil || free < soonest {
			best, soonest = d, free
		}
	}
	switch {
	case best != nil:
		return best.take(r), nil
	case !possible:
		return nil, p.impossible(r)
	case r.short != nil && r.waiting:
		p.keep(r)
	}
	return nil, nil
}

// impossible is why no device takes a request.
func (p *Pool) impossible(r *request) error {
	var causes []error
	for _, d := range p.devices {
		if d.quarantine.on && r.may(d) {
			causes = append(causes, d.quarantine.err)
		}
	}
	switch {
	case len(causes) > 0:
		return fmt.Errorf("%w: %w", ErrQuarantined, errors.Join(causes...))
	case len(r.tried) > 0:
		return errTried
	}
	return noneLeft(r)
}

func noneLeft(r *request) error {
	return driver.Errorf(driver.ErrInvalidArgument, "no device is left: WithDevices%v, WithoutDevices%v", r.devices, r.without)
}

// full is the error of a request that finds the queue full, or would have to wait and must not, or nil.
func (p *Pool) full(r *request) error {
	switch {
	case r.refuse && r.short != nil:
		return r.short
	case r.refuse:
		return fmt.Errorf("%w: WithoutQueue, and the request would have to wait", ErrQueueFull)
	case p.queue.length < p.limit:
		return nil
	}
	return fmt.Errorf("%w: %d requests wait", ErrQueueFull, p.queue.length)
}

// dispatch gives requests that wait the workers that are free.
func (p *Pool) dispatch() {
	if p.queue.reserving > 0 {
		p.keepNothing()
	}
	for r := p.queue.first; r != nil && p.room(); {
		next := r.after
		p.try(r)
		r = next
	}
}

// try answers a request if it need not wait any longer.
func (p *Pool) try(r *request) bool {
	w, err := p.place(r)
	if w == nil && err == nil {
		return false
	}
	if r.waiting {
		p.queue.remove(r)
	}
	p.answer(r, w, err)
	return true
}

// answer wakes a request that is not in the queue any more, when mu is free.
func (p *Pool) answer(r *request, w *Worker, err error) {
	r.worker, r.err = w, err
	waited := time.Since(r.since)
	r.waited += waited
	p.figures.waited += waited
	r.after, p.mu.answered = p.mu.answered, r
	p.crowded.Store(p.queue.first != nil)
}

// room tells whether any worker is free.
func (p *Pool) room() bool {
	for _, d := range p.devices {
		if d.busy < p.streams && !d.quarantine.on {
			return true
		}
	}
	return false
}

// release takes a worker back.
func (p *Pool) release(w *Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.ctx = nil
	w.of.put(w)
	p.dispatch()
}

// finish takes a worker back whose function has succeeded, and ends the call.
func (p *Pool) finish(w *Worker) {
	d := w.of
	d.works()
	d.figures.ran += w.ran
	d.learn(w.cost, w.ran.Seconds(), keepOfRequest)
	if !w.hinted {
		p.typical += (w.ran.Seconds() - p.typical) * (1 - keepOfRequest)
	}
	d.put(w)
	p.endCall()
	p.dispatch()
}

// What was measured before counts so much beside one more measurement.
const (
	keepOfRequest = 63.0 / 64
	keepOfScatter = 1.0 / 2
)

// releaseAfter is release once the work is done that a function may have left on its stream because its
// context has ended.
func (p *Pool) releaseAfter(w *Worker) {
	if w.stream == nil || w.ctx == nil || w.ctx.Err() == nil {
		p.release(w)
		return
	}
	if done, err := w.stream.Query(); done || err != nil {
		p.release(w)
		return
	}
	p.mu.Lock()
	p.calls++ // Close waits for it
	p.mu.Unlock()
	w.stream.AfterFunc(func(error) {
		p.release(w)
		p.end()
	})
}

// endCall ends a call. The last one lets Close go on.
func (p *Pool) endCall() {
	p.calls--
	if p.closed && p.calls == 0 {
		close(p.drained)
	}
}
