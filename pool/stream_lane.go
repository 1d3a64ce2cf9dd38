package pool

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/runtime"
)

// lane does one piece of a stream after the other, with a buffer of its own: it reads one while the devices do others.
type lane[In, Out any] struct {
	*stream[In, Out]
	place   int     // index in the places of the stream
	device  *device // that is asked first; nil for the CPU
	beside  bool    // a core beside the devices
	host    *runtime.HostBuffer[byte]
	buffer  []byte
	failed  error // why the lane has no buffer for devices
	options DoOptions
	request request

	// Of the piece:
	in     In
	out    Out
	number int
	bytes  int // that were read
}

// work does pieces until there are none, and ends the stream if that fails.
func (l *lane[In, Out]) work(ready *sync.WaitGroup, usable *atomic.Int64) {
	err := errUnfinished // of a function that ends the goroutine
	defer func() {
		if err != nil {
			l.cancel(err)
		}
	}()
	err = l.pieces(ready, usable)
}

// pieces does pieces until there are none. All lanes are prepared before the first one takes a piece, so that pieces do not wait for
// memory to be page-locked. A lane whose device cannot be prepared ends, unless all have failed: its pieces then tell why.
func (l *lane[In, Out]) pieces(ready *sync.WaitGroup, usable *atomic.Int64) error {
	l.prepare(ready, usable)
	if l.failed != nil {
		info := l.device.info
		info.Err = l.failed
		l.skip(info)
		if usable.Load() > 0 {
			return nil
		}
	}
	if l.buffer == nil && contain.Do(func() error { l.buffer = make([]byte, l.BufferBytes); return nil }) != nil {
		return driver.Errorf(driver.ErrInvalidArgument, "a buffer of %d bytes is more than there can be", l.BufferBytes)
	}
	l.options = l.stream.options
	if l.Fallback != nil {
		l.options.Fallback = func(ctx context.Context) (err error) {
			l.out, err = l.Fallback(ctx, l.in, l.buffer[:l.bytes])
			return err
		}
	}
	for l.take() {
		if err := l.read(); err != nil {
			return err
		}
		if err := l.do(); err != nil {
			return err
		}
	}
	return nil
}

// prepare gets a buffer, and prepares a stream of the device, if one is free.
func (l *lane[In, Out]) prepare(ready *sync.WaitGroup, usable *atomic.Int64) {
	arrive := sync.OnceFunc(ready.Done)
	defer ready.Wait()
	defer arrive()
	if l.device == nil {
		return
	}
	p := l.pool
	if l.BufferBytes > 0 {
		c, err := l.device.open(l.ctx)
		if err == nil {
			l.host, err = runtime.LeaseHost[byte](c, l.BufferBytes)
		}
		if l.failed = err; err != nil {
			return
		}
		l.buffer = l.host.Data()
	}
	w, err := p.prepareOne(l.ctx, l.device)
	if l.failed = err; err != nil {
		return
	}
	usable.Add(1)
	if w != nil {
		defer p.putBack(w)
	}
	arrive()
	ready.Wait() // with the worker, so that each lane prepares another one
}

// take takes the next piece. It is false if there is none, or the stream ends.
func (l *lane[In, Out]) take() bool {
	for _, token := range []<-chan struct{}{l.places.permits(l.place), l.room, l.turn} {
		select {
		case <-token:
		case <-l.drained:
			return false
		case <-l.ctx.Done():
			return false
		}
	}
	in, number, more := l.pull()
	l.turn <- struct{}{}
	l.in, l.number = in, number
	return more && l.ctx.Err() == nil
}

// read reads the piece into the buffer.
func (l *lane[In, Out]) read() error {
	if l.Read == nil {
		return nil
	}
	if l.device != nil {
		select {
		case l.reading <- struct{}{}:
			defer func() { <-l.reading }()
		case <-l.ctx.Done():
			return context.Cause(l.ctx)
		}
	}
	return contain.Do(func() (err error) {
		l.bytes, err = l.Read(l.ctx, l.in, l.buffer)
		if err == nil && (l.bytes < 0 || l.bytes > len(l.buffer)) {
			err = driver.Errorf(driver.ErrInvalidArgument, "Read has read %d bytes into a buffer of %d", l.bytes, len(l.buffer))
		}
		return err
	})
}

// do does the piece, and hands its result on.
func (l *lane[In, Out]) do() error {
	p, r := l.pool, &l.request
	*r = request{ready: r.ready, post: post{request: r}, first: l.device, devices: l.options.Devices, begun: true, overflow: l.number > 0}
	r.deadline, _ = l.ctx.Deadline()
	defer func() {
		if r.accepted {
			p.end()
		}
	}()
	report := Report{Device: driver.NoDevice}
	var err error
	if l.beside {
		if err = p.beginCall(r); err == nil {
			err = p.fallBack(l.ctx, &l.options, r, &report)
		}
	} else {
		err = p.doOrFallBack(l.ctx, &l.options, r, l.run, &report)
	}
	l.done(&report, err == nil)
	return err
}

// run calls the function for a device.
func (l *lane[In, Out]) run(w *Worker) (err error) {
	if l.failed != nil {
		return l.failed
	}
	var data *runtime.HostBuffer[byte]
	if l.host != nil {
		data = l.host.Slice(0, l.bytes)
	}
	l.out, err = l.f(w, l.in, data)
	return err
}

// done hands the result of the piece on, if there is one.
func (l *lane[In, Out]) done(report *Report, ok bool) {
	s := l.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if report.Reason != "" {
		s.report.Reason, s.report.Err = report.Reason, report.Err
	}
	for _, d := range report.Skipped {
		s.noteSkipped(d)
	}
	if !ok {
		return
	}
	s.results[l.number%len(s.results)] = arrival[Out]{l.out, true}
	s.tile(report)
	s.places.done(l.place)
	var none Out
	l.out = none
	s.signal()
}
