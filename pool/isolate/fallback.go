package isolate

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// Fallback does on the CPU what the function of a name does in a child. It runs in the program itself, on the caller's
// goroutine, and gets the buffers that Do was called with. It should return when ctx ends: nothing can stop it.
type Fallback func(ctx context.Context, name string, r *Request) ([]byte, error)

// WithFallback has a request done on the CPU that the devices did not do. Its tries have failed, the children of all devices have
// died too often, or CUDA is absent. Given to [Open], it holds for all calls of Do, and Open succeeds where CUDA is absent.
//
// It does not run after the end of ctx, for a request that found the queue full, or under runtime.PolicyRequired. As many run at the
// same time as the devices would run ([WithStreams] for each, and for one where there is none); others wait, and
// [WithQueue] bounds how many. The report says why, and the runtime logs the first of each reason.
func WithFallback(f Fallback) Option { return func(c *config) { c.fallback = f } }

// unusable is the reason for which there is no device at all.
func (g *Group) unusable() pool.Reason {
	if g.rt.Policy() == runtime.PolicyOff {
		return pool.PolicyOff
	}
	return pool.Absent
}

// fallBack does a request on the CPU, if it may. cause is the error of the devices.
func (g *Group) fallBack(ctx context.Context, c *config, name string, data []byte, report *pool.Report, cause error) (result []byte, err error) {
	report.Err = cause
	if c.fallback == nil || ctx.Err() != nil {
		return nil, cause
	}
	if err := g.rt.FallBack(string(report.Reason), cause); err != nil {
		return nil, err
	}
	start := time.Now()
	err = g.takeCores(ctx, c.queueWait)
	report.Waited += time.Since(start)
	if err != nil {
		return nil, errors.Join(g.ended(ctx, err), cause)
	}
	defer func() { <-g.cores }()
	g.mu.Lock()
	g.figures.Fallbacks++
	g.mu.Unlock()
	start = time.Now()
	defer func() { report.Wall += time.Since(start) }()
	report.Where, report.Device = pool.OnCPU, driver.NoDevice
	err = contain.Do(func() (err error) {
		result, err = c.fallback(ctx, name, &Request{Data: slices.Clone(data), Buffers: c.buffers})
		return err
	})
	if err == nil {
		err = tooLarge(result)
	}
	if err != nil {
		return nil, errors.Join(err, cause)
	}
	return result, nil
}

// takeCores waits until another request may run on the CPU.
func (g *Group) takeCores(ctx context.Context, wait bool) error {
	select {
	case g.cores <- struct{}{}:
		return nil
	default:
	}
	g.mu.Lock()
	if full := g.waiting >= g.config.queue; full && !wait {
		g.figures.Refused++
		g.mu.Unlock()
		return pool.ErrQueueFull
	}
	g.waiting++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.waiting--
		g.mu.Unlock()
	}()
	select {
	case g.cores <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// tooLarge is the error of a result that exceeds what a child can send, or nil.
func tooLarge(result []byte) error {
	if len(result) <= maxData {
		return nil
	}
	return driver.Errorf(driver.ErrInvalidArgument, "a result of %d bytes: want at most %d, or a buffer", len(result), maxData)
}
