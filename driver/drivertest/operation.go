package drivertest

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
)

// operation is a piece of work on a stream.
type operation struct {
	call call // that put it there
	deps []*operation
	run  func() error // nil: only a mark
	// after runs when the operation has ended, also if it was skipped.
	after func()
	done  chan struct{} // closed at the end
	// before and begun are closed when the operation before it on its connection, and when
	// this one, has begun. They are nil without a shared connection.
	before, begun chan struct{}
	// until waits for what the operation needs besides, or is nil.
	until func()
	// aside says that what comes later on the connection does not wait for it.
	aside bool
	// Read these when done is closed.
	at     time.Time     // of the end
	result driver.Result // why it was not done, if its device has vanished
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (o *operation) finished() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// enqueue puts an operation behind the work of a stream. The legacy default stream
// waits for all blocking streams of its context, and they wait for it.
func (d *simulated) enqueue(s *stream, o *operation) {
	ctx := s.ctx
	depend := func(t *stream) {
		if t.busy {
			o.deps = append(o.deps, t.last)
		}
	}
	if s == ctx.null {
		for t := range ctx.running {
			if t != s && !t.nonBlocking() {
				depend(t)
			}
		}
	} else if !s.nonBlocking() {
		depend(ctx.null)
	}
	o.deps = slices.DeleteFunc(o.deps, (*operation).finished)
	s.last = o
	if !s.busy && o.run == nil && o.after == nil && len(o.deps) == 0 && s.connection.clear() {
		// A mark on an idle stream is passed at once.
		o.at, o.done = time.Now(), closed
		return
	}
	o.done = make(chan struct{})
	s.connection.join(o)
	s.queue = append(s.queue, o)
	ctx.unfinished++
	if !s.busy {
		s.busy = true
		ctx.running[s] = struct{}{}
		go d.drain(s)
	}
}

// drain runs the operations of a stream in order and ends when there are none: an
// idle stream has no goroutine.
func (d *simulated) drain(s *stream) {
	d.mu.Lock()
	o := s.queue[0]
	d.mu.Unlock()
	for o != nil {
		o = d.step(s, o)
	}
}

// step runs one operation and returns the next one, or nil. Code of the program
// under test may end the goroutine (t.FailNow does); another one goes on then.
func (d *simulated) step(s *stream, o *operation) (next *operation) {
	returned := false
	defer func() {
		var err error
		if !returned {
			err = &fault{result: driver.ResultLaunchFailed, detail: "code on the stream ended its goroutine"}
		}
		next = d.finish(s, o, err)
		if !returned && next != nil {
			go d.drain(s)
		}
	}()
	for _, dep := range o.deps {
		<-dep.done
	}
	time.Sleep(o.call.luck.hold)
	o.begin()
	switch o.result = s.ctx.present(); {
	case o.result != driver.Success, o.run == nil, d.poison() != driver.Success:
	case o.call.luck.late != driver.Success:
		d.strike(o.call)
	default:
		if err := guard(o.run); err != nil {
			d.mu.Lock()
			d.fail(o.call, err)
			d.mu.Unlock()
		}
	}
	returned = true
	return nil
}

// finish marks the end of an operation and takes it off the queue.
func (d *simulated) finish(s *stream, o *operation, err error) (next *operation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.fail(o.call, err)
	}
	if o.after != nil {
		o.after()
	}
	o.deps, o.run, o.after = nil, nil, nil
	o.at = time.Now()
	close(o.done)
	s.queue = s.queue[1:]
	if len(s.queue) == 0 {
		s.queue, s.busy = nil, false
		delete(s.ctx.running, s)
	} else {
		next = s.queue[0]
	}
	s.ctx.unfinished--
	d.idle.Broadcast()
	return next
}

// guard turns a panic into a fault of the device.
func guard(run func() error) (err error) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *fault:
			err = v
		default:
			err = &fault{result: driver.ResultLaunchFailed, detail: fmt.Sprintf("panic: %v\n%s", v, debug.Stack())}
		}
	}()
	return run()
}

// fail records what went wrong on the device and poisons the process: as measured
// on hardware, every later call of the process fails with the first code.
func (d *simulated) fail(c call, err error) {
	f := &fault{result: driver.ResultLaunchFailed, detail: err.Error()}
	var known *fault
	var code driver.Result
	switch {
	case errors.As(err, &known):
		copied := *known
		f = &copied
		if err != error(known) {
			f.detail = err.Error()
		}
	case errors.As(err, &code) && code.Sticky():
		f.result = code
	}
	if d.poisonWith(f.result) {
		d.report(f.finding(c))
	}
}

// wait waits for operations without holding the lock. The waiting may have
// uncovered a fault, whose code is the result then, or the device has vanished.
func (c call) wait(operations ...*operation) driver.Result {
	for _, o := range operations {
		if o == nil || o.finished() {
			continue
		}
		c.d.mu.Unlock()
		<-o.done
		c.d.mu.Lock()
	}
	c.d.settle()
	if r := c.d.poison(); r != driver.Success {
		return r
	}
	for _, o := range operations {
		if o != nil && o.result != driver.Success {
			return o.result
		}
	}
	return driver.Success
}
