package nccl

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// group are the raw communicators of the ranks of a process. What destroys them refers to it, and not to the Comm.
type group struct {
	api     API
	life    context.Context // ends with the communicator, and its cause is why
	end     context.CancelCauseFunc
	timeout time.Duration
	closing atomic.Bool
	left    atomic.Int64  // handles that were not destroyed
	quiet   chan struct{} // closed when nothing is left to abort

	mu    sync.Mutex // over each call of NCCL
	comms []RawComm  // NCCL writes here, also after the call that makes them
	over  bool       // they are destroyed
}

func newGroup(api API, n int, timeout time.Duration) *group {
	g := &group{api: api, timeout: timeout, comms: make([]RawComm, n), quiet: make(chan struct{})}
	g.life, g.end = context.WithCancelCause(context.Background())
	return g
}

// ended is why the communicator has ended, or nil.
func (g *group) ended() error {
	if g.life.Err() == nil {
		return nil
	}
	return context.Cause(g.life)
}

// call runs f as a group of NCCL on this thread, and waits until NCCL is done with it or ctx ends. After an error the
// communicator has ended.
func (g *group) call(ctx context.Context, name string, f func() error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.ended(); err != nil {
		return err
	}
	err := g.enclosed(name, f)
	if err == nil {
		err = g.settle(ctx, name)
	}
	if err != nil {
		g.end(err)
		err = errors.Join(err, g.abort())
	}
	return err
}

// enclosed runs f as a group.
func (g *group) enclosed(name string, f func() error) error {
	if s := g.api.GroupStart(); s != StatusSuccess {
		return failed(g.api, 0, "ncclGroupStart", s)
	}
	err := f() // also after an error the group has to end
	s := g.api.GroupEnd()
	if err == nil {
		err = failed(g.api, g.comms[0], name, s)
	}
	return err
}

// lookFor is how long settle asks again and again. A call of NCCL that does not block takes 20 to 50 us on a thread of NCCL's,
// and the shortest sleep of an idle Go program a millisecond.
const lookFor = 200 * time.Microsecond

// settle waits until no call goes on.
func (g *group) settle(ctx context.Context, name string) error {
	began, pause := time.Now(), 10*time.Microsecond
	for looks := 1; ; looks++ {
		going, err := g.state(name)
		if err != nil || !going {
			return err
		}
		if time.Since(began) < lookFor {
			if looks%16 == 0 { // which takes a goroutine that is bound to its thread some microseconds
				goruntime.Gosched()
			}
			continue
		}
		select {
		case <-ctx.Done():
			return driver.Errorf(driver.ErrTimeout, "%s: not all ranks have come: %w", name, context.Cause(ctx))
		case <-g.life.Done():
			return g.ended()
		case <-time.After(pause):
			pause = min(2*pause, 10*time.Millisecond)
		}
	}
}

// state asks NCCL how the communicators are.
func (g *group) state(name string) (going bool, err error) {
	for _, c := range g.comms {
		state, s := g.api.AsyncError(c)
		if s != StatusSuccess {
			return false, failed(g.api, c, "ncclCommGetAsyncError", s)
		}
		if err := failed(g.api, c, name, state); err != nil {
			return false, err
		}
		going = going || state == StatusInProgress
	}
	return going, nil
}

// watchEvery is how often NCCL is asked whether a rank was lost.
const watchEvery = 100 * time.Millisecond

// watch ends the communicator when NCCL reports a fault, and aborts it when it has ended otherwise.
func (g *group) watch(contexts []*runtime.Context) {
	defer close(g.quiet)
	ticks := time.NewTicker(watchEvery)
	defer ticks.Stop()
	for g.ended() == nil {
		select {
		case <-g.life.Done():
		case <-ticks.C:
			g.look(contexts)
		}
	}
	for _, c := range contexts {
		// With a context of the communicator current, because NCCL leaves the thread with a device. What is lost or reset was
		// aborted by the handle or is gone.
		if c.Do(func() error { return g.abortOnce() }) == nil {
			return
		}
	}
}

// look asks for a fault.
func (g *group) look(contexts []*runtime.Context) {
	for _, c := range contexts {
		err := c.Do(func() error {
			if !g.mu.TryLock() {
				return nil // a call is under way, and sees it
			}
			defer g.mu.Unlock()
			if g.over {
				return nil
			}
			_, err := g.state("ncclCommGetAsyncError")
			return err
		})
		if err != nil && !errors.Is(err, driver.ErrRefStale) { // a Reset ends the communicator itself
			g.end(err)
			return
		}
	}
}

func (g *group) abortOnce() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.abort()
}

// abort ends the work and frees the communicators. g.mu is held.
func (g *group) abort() error { return g.each("ncclCommAbort", g.api.Abort, true) }

// each calls a function for all communicators, as a group.
func (g *group) each(name string, f func(RawComm) Status, last bool) error {
	if g.over {
		return nil
	}
	g.over = last
	return g.enclosed(name, func() (err error) {
		for _, c := range g.comms {
			if c != 0 { // or it was never made
				err = errors.Join(err, failed(g.api, c, name, f(c)))
			}
		}
		return err
	})
}

// destroyed is called when the handle of a rank ends, with its context current. After Close the last one frees all; if a context
// ends, the others cannot go on.
func (g *group) destroyed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := g.left.Add(-1)
	switch {
	case g.over:
		return nil
	case g.ended() != nil || !g.closing.Load():
		g.end(driver.Errorf(driver.ErrRefStale, "the communicator ended with a context that was reset or closed, or was forgotten: make a new one"))
		return g.abort()
	case left > 0:
		return nil
	}
	return g.finish()
}

// finish frees the communicators in agreement with the other processes, or without them after a while.
func (g *group) finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	err := g.each("ncclCommFinalize", g.api.Finalize, false)
	if err == nil {
		err = g.settle(ctx, "ncclCommFinalize")
	}
	if err != nil {
		err = errors.Join(err, g.abort())
	} else {
		err = g.each("ncclCommDestroy", g.api.Destroy, true)
	}
	g.end(errClosed)
	return err
}

var errClosed = driver.Errorf(driver.ErrClosed, "the communicator was closed")

// closed tells the watchdog that nothing is left, unless a graph keeps the communicator.
func (g *group) closed() {
	if g.left.Load() == 0 {
		g.end(errClosed)
	}
}
