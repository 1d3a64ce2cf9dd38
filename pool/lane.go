package pool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/runtime"
)

// lane is a device and its goroutine, which stays between calls. It serves one call at a
// time, in the order in which they come.
type lane struct {
	rt     *runtime.Runtime
	setup  func(*Worker) error
	device runtime.Device
	worker Worker // the goroutine's; without a stream until the first tile
	speed  float64

	mu      sync.Mutex
	changed sync.Cond
	queue   []visit
	started bool
	ours    atomic.Uint64 // the number of the goroutine
	closing bool
	ended   chan struct{}
}

// visit is a call that wants a lane as its member.
type visit struct {
	call   *call
	member int
}

func newLane(rt *runtime.Runtime, setup func(*Worker) error, index int, d runtime.Device) *lane {
	l := &lane{rt: rt, setup: setup, device: d, ended: make(chan struct{})}
	l.worker.index, l.worker.device = index, d
	if d.Score > 0 && !math.IsInf(d.Score, 1) { // a score of the caller's may be anything
		l.speed = d.Score
	}
	l.changed.L = &l.mu
	return l
}

// put makes the lane serve a call after those that it has.
func (l *lane) put(v visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, v)
	if !l.started {
		l.started = true
		go l.run()
	}
	l.changed.Signal()
}

// next waits for a call. It is false when the lane closes.
func (l *lane) next() (visit, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 && !l.closing {
		l.changed.Wait()
	}
	if len(l.queue) == 0 {
		return visit{}, false
	}
	v := l.queue[0]
	last := copy(l.queue, l.queue[1:])
	l.queue[last] = visit{}
	l.queue = l.queue[:last]
	return v, true
}

func (l *lane) run() {
	l.ours.Store(goroutine())
	done := false
	defer func() {
		if done {
			close(l.ended)
		} else {
			go l.run() // a function of the caller has ended this goroutine
		}
	}()
	for {
		v, ok := l.next()
		if !ok {
			done = true
			return
		}
		l.serve(v)
	}
}

// serve works for a call until it has nothing more for this lane.
func (l *lane) serve(v visit) {
	c := v.call
	if !c.plan.enter(v.member) {
		return
	}
	defer c.plan.leave(v.member)
	l.worker.ctx = c.ctx
	defer func() { l.worker.ctx = nil }()
	ready := false
	contain.Call(l.open, func(err error) {
		if ready = err == nil; !ready {
			c.plan.refuse(v.member, fmt.Errorf("preparing device %d: %w", l.worker.device.Ordinal, err))
		}
	})
	if !ready {
		return
	}
	limit, err := c.itemLimit(l.worker.device.Ordinal)
	if err != nil {
		c.plan.refuse(v.member, err)
		return
	}
	for {
		k, ok := c.plan.take(v.member, limit)
		if !ok {
			return
		}
		l.do(c, v.member, k)
	}
}

// do calls the caller's function for a piece.
func (l *lane) do(c *call, member int, k piece) {
	w := &l.worker
	w.retried = k.retries > 0
	w.watch.start()
	contain.Call(func() error {
		return c.f(w, Tile{Device: w.index, Lo: k.lo, Hi: k.hi})
	}, func(err error) {
		if err != nil && c.parent.Err() == nil {
			// A retry or the fallback is next, and work that was left on the device could
			// still use the caller's memory. The first error is the one to report.
			_ = w.stream.Synchronize(context.Background())
		}
		c.plan.settle(member, k, w.watch.stop(), err)
	})
}

// open makes the worker ready; it does nothing if it is. A try that fails leaves nothing
// behind. What was made before a Reset of the context is made again.
func (l *lane) open() (err error) {
	w := &l.worker
	if w.stream != nil && w.generation == w.context.State().Generation() {
		return nil
	}
	if w.stream != nil {
		_ = l.shut() // it went with the old context, and some of it may say so
	}
	if w.context, err = l.rt.Context(w.device.Ordinal); err != nil {
		return err
	}
	w.device, w.generation = w.context.Device(), w.context.State().Generation()
	if w.stream, err = w.context.NewStream(); err != nil || l.setup == nil {
		return err
	}
	ready := false
	defer func() {
		if !ready {
			err = errors.Join(err, l.shut())
		}
	}()
	err = l.setup(w)
	ready = err == nil
	return err
}

// shut closes what open has made.
func (l *lane) shut() error {
	w := &l.worker
	var errs []error
	if state, ok := w.State.(io.Closer); ok {
		contain.Call(state.Close, func(err error) { errs = append(errs, err) })
	}
	if w.stream != nil {
		errs = append(errs, w.stream.Close())
	}
	w.State, w.stream = nil, nil
	return errors.Join(errs...)
}

// close ends the goroutine and closes what the lane has.
func (l *lane) close() error {
	l.mu.Lock()
	l.closing = true
	started := l.started
	l.changed.Signal()
	l.mu.Unlock()
	if started {
		<-l.ended
	}
	return l.shut()
}
