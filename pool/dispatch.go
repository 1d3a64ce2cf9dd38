package pool

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"time"
)

// ErrQueueFull is the error of a call that would have to wait while the queue of the pool is full. See
// Options.Queue and DoOptions.Wait.
var ErrQueueFull = errors.New("the queue of the pool is full")

// ErrQuarantined is the error of a request whose devices are all quarantined after failures. It wraps
// the errors of the devices.
var ErrQuarantined = errors.New("the devices are quarantined")

// ErrNotReady is an answer of Options.Remote: the process that does the work of the device is being started.
var ErrNotReady = errors.New("the process of the device is not ready")

// errTried is the error of a request that has failed on all its devices. Callers replace it by the
// errors of the devices.
var errTried = errors.New("no other device is left")

// acquire returns a worker of the device that will be free first, and waits until there is one. For the CPU it is nil if
// the request comes from a function that has its turn there.
func (p *Pool) acquire(ctx context.Context, r *request) (w *Worker, err error) {
	if r.only == &p.cpu && ctx.Value(turnOf{p}) != nil {
		return nil, nil // its own turn may end only after the call
	}
	if p.mu.isCrowded() && r.plain() {
		p.turnedAway.Add(1)
		r.refused = true
		return nil, p.errFull
	}
	if !p.queued.Load() && p.mu.TryLock() {
		p.mu.runPosted() // they came first
		w, err = p.begins(r)
		p.mu.Unlock()
		if w != nil || err != nil {
			return w, err
		}
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
			p.cancelRequest(r, context.Cause(ctx))
			<-r.ready
		}
		if r.worker != nil && ctx.Err() != nil { // it was assigned just before, or by who left for the same ctx
			p.release(r.worker)
			r.worker, r.err = nil, context.Cause(ctx)
		}
	}
	w, err = r.worker, r.err
	r.worker, r.err = nil, nil
	return w, err
}

// enqueue answers a request that was posted, or puts it into the queue.
func (p *Pool) enqueue(r *request) {
	if w, err := p.begins(r); w != nil || err != nil {
		p.answer(r, w, err)
		return
	}
	p.queueOf(r).insert(r)
	p.figures.waits++
	p.queued.Store(p.queue.first != nil)
	if r.bytes > 0 {
		p.dispatch() // those before it may wait for something else
		p.pollMemory()
	}
}

// begins returns the worker of a request that has just come, or why it gets none. Without either it has to wait, and may. The call of a
// request that is refused ends here: thousands that waited for mu once more would keep it from the others.
func (p *Pool) begins(r *request) (w *Worker, err error) {
	before := r.accepted
	if err = p.admit(r); err == nil {
		w, err = p.assign(r)
	}
	if w != nil || err != nil || !r.bounded() || r.overflow && !r.refuse {
		return w, err
	}
	if err = p.full(r); err != nil {
		p.figures.refused++
		if r.refused = true; !before {
			r.accepted = false
			p.endCall()
		}
	}
	return nil, err
}

// cancelRequest answers a request that was posted with an error, unless it was answered before.
func (p *Pool) cancelRequest(r *request, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.runPosted() // the request itself may be there
	if r.waiting {
		p.queueOf(r).remove(r)
		p.answer(r, nil, cause)
	}
}

// admit checks a request and counts it as a call.
func (p *Pool) admit(r *request) error {
	if !r.accepted {
		if p.closed && !r.begun {
			return errClosed()
		}
		if err := p.findDevices(); err != nil {
			return err
		}
		if err := haveOrdinals(p.devices, r.devices); err != nil {
			return err
		}
		p.accept(r)
		if err := p.neverFits(r); err != nil {
			return err
		}
	}
	if r.cost == 0 {
		r.cost = p.typicalCost
	}
	return nil
}

// accept counts a request as a call.
func (p *Pool) accept(r *request) {
	r.accepted = true
	p.calls++
	p.figures.requests++
}

// beginCall accepts a call that is no request for a worker, unless the pool is closed.
func (p *Pool) beginCall(r *request) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed && !r.begun {
		return errClosed()
	}
	p.accept(r)
	return nil
}

// assign returns a worker of the device that will be free first for a request. The request has to wait
// if there is neither a worker nor an error.
func (p *Pool) assign(r *request) (*Worker, error) {
	if r.only == &p.cpu {
		if p.cpu.busy < goruntime.GOMAXPROCS(0) {
			return p.cpu.takeWorker(r), nil
		}
		return nil, nil
	}
	var best *device
	var soonest float64
	possible := false
	r.short = nil
	for _, d := range p.devices {
		if d.quarantine.on || !r.may(d) {
			continue
		}
		possible = true
		if d.away || p.remote != nil && !d.mayStart(r) {
			continue
		}
		if d.busy == p.streams || r.waitsFor(d) || r.only != nil && d.scattering || p.memoryBlocked(d, r) {
			continue
		}
		free := (d.outstanding + r.cost) / d.speed
		if best == nil || free < soonest && !d.after(best, soonest/free) || best.after(d, free/soonest) {
			best, soonest = d, free
		}
	}
	switch {
	case best != nil:
		return best.takeWorker(r), nil
	case !possible:
		return nil, p.impossible(r)
	case r.short != nil && r.waiting:
		p.blockMemory(r)
	}
	return nil, nil
}

// impossible returns why no device takes a request.
func (p *Pool) impossible(r *request) error {
	var causes []error
	howLong := " until the pool is closed"
	for _, d := range p.devices {
		if d.quarantine.on && r.may(d) {
			causes = append(causes, d.quarantine.err)
			if !d.quarantine.final {
				howLong = ""
			}
		}
	}
	if len(causes) > 0 {
		return fmt.Errorf("%w%s: %w", ErrQuarantined, howLong, errors.Join(causes...))
	}
	return errTried
}

// full returns the error of a request that finds the queue full, or else nil.
func (p *Pool) full(r *request) error {
	switch {
	case r.refuse:
		return ErrQueueFull
	case p.waiting() < p.limit:
		return nil
	case p.limit == 0 && r.short != nil:
		return r.short
	}
	return p.errFull
}

// crowded reports whether the queue is full and no device can begin a request. It is false where the answer to one would be another
// error: the pool is closed, CUDA is lost, or all devices are quarantined.
func (p *Pool) crowded() bool {
	if p.waiting() < p.limit || p.closed || p.mayBeLost || p.room() {
		return false
	}
	return slices.ContainsFunc(p.devices, func(d *device) bool { return !d.quarantine.on })
}

// waiting returns how many requests wait, for devices and for the CPU. A call of several devices counts once.
func (p *Pool) waiting() int { return p.queue.bounded + p.cpuQueue.bounded + p.places }

// letIn gives a call of several devices the worker of one that is free, or else a place in the queue until one begins.
func (p *Pool) letIn(c *scatterCall) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.runPosted() // workers that were returned
	for i := range c.scheduler.participants {
		m := &c.scheduler.participants[i]
		if m.lo == m.hi {
			continue
		}
		r := c.part(c.devices[i], m.hi-m.lo)
		err := p.admit(r)
		if err != nil {
			return err
		}
		w, _ := p.assign(r)
		p.reuse(r)
		if w != nil { // a device in quarantine is an error of its tile
			c.first, c.begins = w, i
			return nil
		}
	}
	if err := p.full(new(request)); err != nil && !c.Wait {
		p.figures.refused++
		return err
	}
	c.placed = true
	p.places++
	return nil
}

// leave takes back what letIn gave, if no participant has it.
func (p *Pool) leave(c *scatterCall) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.leavePlace()
	if c.first != nil {
		c.first.pooled.returnWorker(c.first)
		p.dispatch()
	}
}

// leavePlace gives up the place in the queue. The mu of the pool is held.
func (c *scatterCall) leavePlace() {
	if c.placed {
		c.placed = false
		c.pool.places--
	}
}

// queueOf returns the queue in which a request waits.
func (p *Pool) queueOf(r *request) *queue {
	if r.only == &p.cpu {
		return &p.cpuQueue
	}
	return &p.queue
}

// dispatch assigns the free workers to the requests in the queue.
func (p *Pool) dispatch() {
	if p.queue.reserving > 0 {
		p.unblockMemory()
	}
	for r := p.queue.first; r != nil && p.room(); {
		next := r.after
		p.try(r)
		r = next
	}
	for p.cpuQueue.first != nil && p.try(p.cpuQueue.first) {
	}
}

// try answers a request if it need not wait any longer. Otherwise it returns false.
func (p *Pool) try(r *request) bool {
	w, err := p.assign(r)
	if w == nil && err == nil {
		return false
	}
	if r.waiting {
		p.queueOf(r).remove(r)
	}
	p.answer(r, w, err)
	return true
}

// answer sets the answer of a request, which is not in the queue any more. Unlock of mu wakes it.
func (p *Pool) answer(r *request, w *Worker, err error) {
	r.worker, r.err = w, err
	waited := time.Since(r.since)
	r.waited += waited
	p.figures.waited += waited
	r.after, p.mu.answered = p.mu.answered, r
	p.queued.Store(p.queue.first != nil)
}

// room reports whether any worker is free.
func (p *Pool) room() bool {
	for _, d := range p.devices {
		if d.busy < p.streams && !d.quarantine.on && !d.away {
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
	w.pooled.returnWorker(w)
	p.dispatch()
}

// finish takes a worker back whose function has succeeded, and ends the call of Do.
func (p *Pool) finish(w *Worker) {
	d := w.pooled
	d.recordSuccess()
	d.figures.ran += w.ran
	if p.remote == nil || w.hinted { // the functions of other processes differ
		d.learn(w.cost, w.ran.Seconds(), requestDecay)
	}
	if p.remote == nil && !w.hinted {
		p.typicalCost += (w.ran.Seconds() - p.typicalCost) * (1 - requestDecay)
	}
	d.returnWorker(w)
	p.endCall()
	p.dispatch()
}

// What is left of the weight of earlier measurements after one more.
const (
	requestDecay = 63.0 / 64
	scatterDecay = 1.0 / 2
)

// releaseAfter takes a worker back once the work on its stream is done. A function whose context has
// ended may have left some.
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
