package wait

import (
	"context"
	goruntime "runtime"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// Ticket is a place in the work of a stream. It is a small value: copies are the same ticket. That
// of the zero value is done.
type Ticket struct {
	s *source
	n uint64
}

// Done tells whether the work before the ticket is known to be done. It makes no call of the
// driver.
func (t Ticket) Done() bool { return t.s == nil || t.s.passed() >= t.n }

// Number of the ticket on its stream, from 1. It is 0 for the zero value.
func (t Ticket) Number() uint64 { return t.n }

const (
	// firstSpin is how long a wait spins of which nothing is known.
	firstSpin = 25 * time.Microsecond
	// longSpin is the wait that is not worth a core.
	longSpin = 150 * time.Microsecond
	// spinStep is how often a spinning goroutine looks between two looks at the clock.
	spinStep = 32
)

// Wait waits until the work before the ticket is done. If ctx ends first it returns its cause, and
// nothing is left behind. It allocates nothing if the work is done while it spins.
func (t Ticket) Wait(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t.s == nil {
		return nil
	}
	t.s.dev.poller.counts.waits.Add(1)
	if t.Done() {
		return nil
	}
	start := clock()
	err, over := t.spin(ctx, start)
	spun := over
	if !over {
		err = t.park(ctx)
	}
	if err == nil {
		took := int64(clock() - start)
		average(&t.s.usual, took)
		if spun {
			t.s.measured(took)
		}
	}
	return err
}

func average(of *atomic.Int64, one int64) {
	before := of.Load()
	of.Store(before + (one-before)/4)
}

// spin looks for about as long as waits on the stream take, and tells whether the wait is over.
func (t Ticket) spin(ctx context.Context, start time.Duration) (err error, over bool) {
	s, p := t.s, t.s.dev.poller
	usual := time.Duration(s.usual.Load())
	if usual > longSpin || !p.spin(s) {
		return nil, false
	}
	defer p.spun()
	limit := firstSpin + 3*usual/2
	if s.prompt.Load() {
		return t.ask(ctx, start+limit)
	}
	for {
		for range spinStep {
			if t.Done() {
				p.counts.spun.Add(1)
				return nil, true
			}
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx), true
		case s.dev.ended.Load() != nil, clock()-start > limit:
			return nil, false
		}
		goruntime.Gosched()
	}
}

// ask asks the driver again and again up to a time, and tells whether the wait is over.
func (t Ticket) ask(ctx context.Context, until time.Duration) (err error, over bool) {
	s, b := t.s, t.s.dev.binding
	if !s.dev.asks.Enter() {
		return nil, false
	}
	defer s.dev.asks.Leave()
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	if err := b.Push(); err != nil {
		return err, true
	}
	defer b.Pop()
	// As Binding.DoRelaxed does, without an allocation.
	switch mode, r := b.API.ThreadExchangeStreamCaptureMode(driver.CaptureRelaxed); {
	case r == driver.Success:
		defer b.API.ThreadExchangeStreamCaptureMode(mode)
	case r.Sticky():
		return s.dev.failed("cuThreadExchangeStreamCaptureMode", r), true
	}
	asks := uint64(0)
	defer func() { s.dev.poller.counts.asks.Add(asks) }()
	for ; !t.Done(); asks++ {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx), true
		case s.dev.ended.Load() != nil, clock() > until:
			return nil, false
		}
		if err := s.ask(false); err != nil {
			return err, true
		}
	}
	s.dev.poller.counts.spun.Add(1)
	return nil, true
}

// park waits until the poller wakes the goroutine.
func (t Ticket) park(ctx context.Context) error {
	p := t.s.dev.poller
	p.counts.parked.Add(1)
	w, _ := p.waiters.Get().(*waiter)
	if w == nil {
		w = &waiter{woken: make(chan error, 1)}
	}
	w.n = t.n
	t.s.park(w)
	var err error
	select {
	case err = <-w.woken:
	case <-ctx.Done():
		if t.s.unpark(w) {
			err = context.Cause(ctx)
		} else {
			err = <-w.woken
		}
	}
	p.waiters.Put(w)
	return err
}

// AfterFunc runs f on a goroutine of its own once the work before the ticket is done: f gets nil.
// If that will never be, f gets the cause. stop keeps f from running; it tells whether it did.
// Unless it is stopped f runs exactly once.
func (t Ticket) AfterFunc(f func(error)) (stop func() bool) {
	if t.s == nil {
		go f(nil)
		return func() bool { return false }
	}
	t.s.dev.poller.counts.waits.Add(1)
	w := &waiter{n: t.n, f: f}
	t.s.park(w)
	return func() bool { return t.s.unpark(w) }
}

// Poll is Done that asks the driver where only that tells. It does not wait.
func (t Ticket) Poll() bool {
	if t.Done() {
		return true
	}
	s, b := t.s, t.s.dev.binding
	if !s.prompt.Load() || s.dev.ended.Load() != nil || !s.dev.asks.Enter() {
		return false
	}
	defer s.dev.asks.Leave()
	b.Cleanup(b.DoRelaxed(func() error { return s.ask(true) }))
	return t.Done()
}
