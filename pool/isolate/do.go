package isolate

import (
	"context"
	"errors"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

// Do runs the function of a name in the child that has the least to do, and returns its result. data are at most 16 MiB;
// what is larger goes into buffers ([WithBuffers]). A request waits in a queue where all children are busy.
//
// When ctx ends, Do returns after the function has returned and its work on the device is done. If that takes longer than
// [WithGrace], the child is killed. A request without buffers returns then, and one with buffers when the process has ended, because
// only then nothing writes to them. The error is of kind driver.ErrTimeout if a deadline has
// passed, with ctx's cause behind it, and else ctx's cause. See the package for other errors.
func (g *Group) Do(ctx context.Context, name string, data []byte, options ...Option) (result []byte, report pool.DoReport, err error) {
	report.Device = driver.NoDevice
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
	if err := g.begin(); err != nil {
		leave(c.buffers)
		return nil, report, err
	}
	defer g.end()
	held := false
	defer func() {
		if !held {
			leave(c.buffers)
		}
	}()
	r := &request{only: c.devices}
	for {
		start := time.Now()
		p, waitErr := g.acquire(ctx, r, c.queueWait)
		report.Waited += time.Since(start)
		if waitErr != nil {
			return nil, report, errors.Join(err, g.ended(ctx, waitErr))
		}
		report.Where, report.Device = pool.OnGPU, p.of.device.Ordinal
		report.Tries++
		start = time.Now()
		result, held, err = g.call(ctx, p, name, data, c)
		report.Ran += time.Since(start)
		g.release(p)
		g.count(report.Tries, err)
		if err == nil {
			return result, report, nil
		}
		if report.Tries > c.retries || ctx.Err() != nil || held {
			report.Reason, report.Why = pool.Failed, err
			return nil, report, err
		}
		r.tried = g.others(r, p.of)
	}
}

// configure returns the options of a call.
func (g *Group) configure(ctx context.Context, name string, data []byte, options []Option) (*config, error) {
	switch {
	case g == nil || g.starter == nil || ctx == nil:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "Do takes a context and a group of isolate.Open")
	case len(data) > maxData:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a request of %d bytes: want at most %d, or a buffer (WithBuffers)", len(data), maxData)
	}
	if _, err := lookUp(name); err != nil {
		return nil, err
	}
	c := g.config
	c.devices, c.ofOpen = nil, ""
	if err := c.apply(options); err != nil {
		return nil, err
	}
	if c.ofOpen != "" {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%s is an option of Open", c.ofOpen)
	}
	for _, ordinal := range c.devices {
		if !g.has(ordinal) {
			return nil, noDevice(ordinal)
		}
	}
	const maxBuffers = 1 << 10
	if len(c.buffers) > maxBuffers {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%d buffers: want at most %d", len(c.buffers), maxBuffers)
	}
	return &c, nil
}

func (g *Group) has(ordinal int) bool {
	for _, s := range g.slots {
		if s.device.Ordinal == ordinal {
			return true
		}
	}
	return false
}

func (g *Group) begin() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed()
	}
	g.calls++
	g.figures.Requests++
	return nil
}

func (g *Group) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	if g.closed && g.calls == 0 {
		close(g.drained)
	}
}

func leave(buffers []*Buffer) {
	for _, b := range buffers {
		b.leave()
	}
}

// others are the devices that a request should not try again: one on which it failed, if there is another one.
func (g *Group) others(r *request, failed *slot) []*slot {
	g.mu.Lock()
	defer g.mu.Unlock()
	tried := append(r.tried, failed)
	next := request{only: r.only, tried: tried}
	for _, s := range g.slots {
		if next.may(s) && s.state != LeftOut {
			return tried
		}
	}
	return nil
}

// gonePatience is how long a killed process may take to end before a request does not wait for it any more.
const gonePatience = 5 * time.Second

// call makes one try. held says that the child may still write to the buffers.
func (g *Group) call(ctx context.Context, p *process, name string, data []byte, c *config) (result []byte, held bool, err error) {
	number := g.numbers.Add(1)
	call, unsent := p.begin(number, name, data, c.buffers)
	if unsent != nil {
		p.kill(driver.Errorf(ErrChildDied, "it does not take requests: %w", unsent))
	}
	select {
	case a := <-call:
		return a.result, false, g.failed(p, a.err)
	case <-p.gone:
	case <-ctx.Done():
		if err := p.link.send(cancelFrame, number); err != nil {
			p.kill(driver.Errorf(ErrChildDied, "it does not take requests: %w", err))
		}
		grace := time.NewTimer(c.grace)
		defer grace.Stop()
		select {
		case a := <-call:
			if a.err != nil {
				a.err = g.ended(ctx, g.failed(p, a.err))
			}
			return a.result, false, a.err
		case <-p.gone:
		case <-grace.C:
			if p.kill(driver.Errorf(driver.ErrTimeout, "it was killed: a request of %q had not ended %v after its context", name, c.grace)) {
				g.mu.Lock()
				p.of.figures.Kills++
				g.mu.Unlock()
			}
			err = g.ended(ctx, nil)
			if len(c.buffers) == 0 { // the driver may need half a second to take it down
				return nil, false, err
			}
		}
	}
	limit := time.NewTimer(gonePatience)
	defer limit.Stop()
	select {
	case <-p.gone:
	case <-limit.C:
		return nil, true, driver.Errorf(ErrChildDied, "the child of device %d was killed, and has not ended after %v: its buffers are lost",
			p.of.device.Ordinal, gonePatience)
	}
	select {
	case a := <-call: // it answered before it died
		return a.result, false, g.failed(p, a.err)
	default:
	}
	if err == nil {
		err = g.died(p, p.cause)
	}
	return nil, false, err
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
