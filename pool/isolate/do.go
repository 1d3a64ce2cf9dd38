package isolate

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

// Do runs the function of a name in the child that has the least to do, and returns its result. data are at most 16 MiB;
// what is larger goes into buffers ([WithBuffers]). A request waits in a queue where all children are busy.
//
// When ctx ends, Do returns after the function has returned and its work on the device is done. If that takes longer than
// [WithGrace], the child is killed. A request without buffers returns then, and one with buffers when the process has ended, because
// only then nothing writes to them. That is soon, and after 5 s Do returns in any case: see [Buffer]. The error is of kind
// driver.ErrTimeout if a deadline has passed, with ctx's cause behind it, and else ctx's cause. See the package for other errors.
//
// What the devices have not done the CPU does, if there is a [WithFallback].
func (g *Group) Do(ctx context.Context, name string, data []byte, options ...Option) (result []byte, report pool.Report, err error) {
	report.Device = driver.NoDevice
	returns := false // it does not where a fallback ends its goroutine
	c, err := g.configure(ctx, name, data, options)
	if err != nil {
		return nil, report, err
	}
	for i, b := range c.buffers {
		if err := b.enter(g); err != nil {
			leave(c.buffers[:i])
			return nil, report, err
		}
	}
	defer func() {
		if !c.held {
			leave(c.buffers)
		}
	}()
	if c.keyed {
		if err := g.enterKey(c); err != nil {
			return nil, report, err
		}
		defer func() { g.leaveKey(c, returns && err == nil) }()
	}
	o := pool.DoOptions{Retry: c.retries, Wait: c.queueWait, Devices: c.devices} // those of the key, if it has begun
	if c.fallback != nil && (!c.keyed || len(g.slots) == 0) {
		o.Fallback = func(ctx context.Context) error { return g.fallBack(ctx, c) }
	}
	if len(c.buffers) > 0 {
		ctx, c.cancel = context.WithCancel(ctx)
		defer c.cancel()
	}
	report, err = g.pool.Do(ctx, func(w *pool.Worker) (err error) {
		c.trace = g.rt.TraceParent(w.CallContext())
		return g.inChild(w.Device().Ordinal, c)
	}, o)
	if c.held {
		report.Reason, report.Err = pool.Failed, err
	}
	if err != nil && report.Where != pool.OnCPU {
		err = g.ended(c.ctx, err)
	}
	if s := c.session; err != nil && s != nil && s.begun && s.process != nil && s.process.reason() != nil {
		err = g.stateGone(c, err)
	}
	returns = true
	return c.result, report, err
}

// inChild makes one try of a request.
func (g *Group) inChild(ordinal int, c *request) (err error) {
	g.mu.Lock()
	p := g.slot(ordinal).process
	g.mu.Unlock()
	c.result = nil
	if err := c.keyIn(g, p); err != nil {
		return err
	}
	if c.result, c.held, err = g.call(p, c); c.held {
		c.cancel() // nobody else may do the request
	}
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case errors.Is(err, ErrChildDied):
			g.figures.Died++
		case errors.Is(err, driver.ErrTimeout):
			g.figures.TimedOut++
		}
	}
	return err
}

// request is a call of Do.
type request struct {
	config
	ctx  context.Context
	name string
	data []byte
	// trace is that of the request, for the child.
	trace  string
	result []byte
	held   bool // a child may still write to the buffers
	// session is that of the key, or nil.
	session *session
	cancel  context.CancelFunc
}

// configure returns a request.
func (g *Group) configure(ctx context.Context, name string, data []byte, options []Option) (*request, error) {
	switch {
	case g == nil || g.starter == nil || ctx == nil:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "Do takes a context and a group of isolate.Open")
	case len(data) > maxData:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a request of %d bytes: want at most %d, or a buffer (WithBuffers)", len(data), maxData)
	}
	if _, err := lookUp(name); err != nil {
		return nil, err
	}
	c := &request{config: g.config, ctx: ctx, name: name, data: data}
	c.devices, c.ofOpen = nil, ""
	if err := c.apply(options); err != nil {
		return nil, err
	}
	if c.ofOpen != "" {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%s is an option of Open", c.ofOpen)
	}
	if c.keyed && (c.key == "" || len(c.key) > maxName) {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "WithKey(%.40q): a key has 1 to %d bytes", c.key, maxName)
	}
	const maxBuffers = 1 << 10
	if len(c.buffers) > maxBuffers {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%d buffers: want at most %d", len(c.buffers), maxBuffers)
	}
	return c, nil
}

func leave(buffers []*Buffer) {
	for _, b := range buffers {
		b.leave()
	}
}

// gonePatience is how long a killed process may take to end before nobody waits for it any more.
var gonePatience = 5 * time.Second // only tests change it

// call makes one try. held says that the child may still write to the buffers.
func (g *Group) call(p *process, c *request) (result []byte, held bool, err error) {
	ctx := c.ctx
	number := g.numbers.Add(1)
	var w *watch // nil where ctx never ends
	var late chan struct{}
	if ctx.Done() != nil {
		own := &watch{late: make(chan struct{})}
		w, late = own, own.late
		defer context.AfterFunc(ctx, func() { g.overdue(own, p, number, c.name, c.grace) })()
		defer own.settled.Store(true)
	}
	answers, unsent := p.begin(number, c.name, c.key, c.trace, c.data, c.buffers)
	if unsent != nil {
		p.unsent(unsent)
	}
	select {
	case a := <-answers:
		return g.answered(ctx, p, a)
	case <-p.dying: // what it said before is still delivered
	case <-late:
	}
	if len(c.buffers) > 0 {
		late = nil // only when the process has ended nothing writes to them
	}
	limit := time.NewTimer(gonePatience)
	defer limit.Stop()
	select {
	case a := <-answers:
		return g.answered(ctx, p, a)
	case <-late: // the driver may need half a second to take the process down
		return nil, false, g.ended(ctx, nil)
	case <-limit.C:
		err = driver.Errorf(ErrChildDied, "the child of device %d (process %d) was killed, and has not ended after %v: %w",
			p.of.device.Ordinal, p.cmd.Process.Pid, gonePatience, p.reason())
		if len(c.buffers) > 0 {
			err = driver.Errorf(ErrChildDied, "%w: its buffers are lost until it has", err)
			g.lose(p, c.buffers)
		}
		return nil, len(c.buffers) > 0, err
	case <-p.gone:
	}
	select {
	case a := <-answers: // it answered before it died
		return g.answered(ctx, p, a)
	default:
	}
	if w != nil && w.settled.Load() { // by overdue, which killed it
		return nil, false, g.ended(ctx, nil)
	}
	return nil, false, g.died(p, p.cause)
}

// watch is about the end of a call's context.
type watch struct {
	settled atomic.Bool   // the call has ended, or its child was killed for it
	late    chan struct{} // closed when the child was killed for it
}

// overdue tells a function that its context has ended, and kills the child if it has not returned after the grace. It has
// a goroutine of its own, because a child that does not read holds up who tells it something.
func (g *Group) overdue(w *watch, p *process, number uint64, name string, grace time.Duration) {
	time.AfterFunc(grace, func() {
		if !w.settled.CompareAndSwap(false, true) {
			return
		}
		if p.kill(driver.Errorf(driver.ErrTimeout, "it was killed: a request of %q had not ended %v after its context", name, grace)) {
			g.mu.Lock()
			p.of.figures.Kills++
			g.mu.Unlock()
		}
		close(w.late)
	})
	if err := p.link.send(cancelFrame, number); err != nil {
		p.unsent(err)
	}
}

// answered is what a call returns whose child has answered.
func (g *Group) answered(ctx context.Context, p *process, a answer) ([]byte, bool, error) {
	err := g.failed(p, a.err)
	if err != nil && ctx.Err() != nil {
		err = g.ended(ctx, err)
	}
	return a.result, false, err
}

// lose keeps buffers from being used until a process that cannot be killed has ended.
func (g *Group) lose(p *process, buffers []*Buffer) {
	for _, b := range buffers {
		b.lose(1)
	}
	go func() {
		<-p.gone
		for _, b := range buffers {
			b.lose(-1)
		}
		leave(buffers)
	}()
}

// failed is the error of a call that was answered: one that has poisoned the child ends that.
func (g *Group) failed(p *process, err error) error {
	if poisoned(err) {
		return g.died(p, err)
	}
	return err
}

// died is the error of a call whose child ends.
func (g *Group) died(p *process, cause error) error {
	err := driver.Errorf(ErrChildDied, "the child of device %d (process %d) ended: %w", p.of.device.Ordinal, p.cmd.Process.Pid, cause)
	err.Device = p.of.device.Ordinal
	return err
}

// ended is the error of a call whose context has ended.
func (g *Group) ended(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil || errors.Is(err, ErrChildDied) || errors.Is(err, ErrGaveUp):
		return err
	case errors.Is(cause, context.DeadlineExceeded):
		return driver.Errorf(driver.ErrTimeout, "the deadline of the request has passed: %w", cause)
	}
	return cause
}
