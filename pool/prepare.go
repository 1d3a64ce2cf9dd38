package pool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/purecuda/purecuda/runtime"
)

// Prepare opens the contexts of all devices, makes their streams, and runs the setup, so that no request has to. It does
// so for all devices at the same time, because a context takes 125 ms and more. Streams that have a request meanwhile are left to
// that. When ctx ends, Prepare returns after the setup that runs.
//
// The error names the devices that cannot be prepared. Others do their work, and requests try them again. Where CUDA is absent there
// is nothing to prepare, and that is no error.
func (p *Pool) Prepare(ctx context.Context) error {
	if err := p.check(ctx, true); err != nil {
		return err
	}
	if err := p.begin(); err != nil {
		return err
	}
	defer p.end()
	devices, err := p.openDevices()
	if err != nil && p.rt.Outcome() == runtime.Absent {
		return nil
	}
	errs := []error{err}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, d := range devices {
		all.Go(func() {
			err := p.prepareDevice(&marked{ctx, within{p}}, d)
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// prepareDevice prepares the free streams of a device.
func (p *Pool) prepareDevice(ctx context.Context, d *device) error {
	for ctx.Err() == nil {
		w, err := p.prepareOne(ctx, d)
		if err != nil {
			return fmt.Errorf("preparing device %d: %w", d.info.Ordinal, err)
		}
		if w == nil {
			return nil
		}
		defer p.putBack(w) // after the last one, so that each is another one
	}
	return context.Cause(ctx)
}

// prepareOne prepares a free stream of a device, until putBack. There is no worker if none is free.
func (p *Pool) prepareOne(ctx context.Context, d *device) (*Worker, error) {
	r := &request{devices: []int{d.info.Ordinal}, refuse: true, accepted: true}
	r.post.request = r
	w, err := p.acquire(ctx, r)
	if errors.Is(err, ErrQueueFull) { // others use the device
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.ctx = ctx
	if err := w.prepare(); err != nil {
		w.unprepared(err)
		p.putBack(w)
		return nil, err
	}
	return w, nil
}

// putBack takes back a worker of prepareOne, which was no request.
func (p *Pool) putBack(w *Worker) {
	p.mu.Lock()
	w.pooled.figures.requests--
	p.mu.Unlock()
	p.release(w)
}
