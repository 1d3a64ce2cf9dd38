package isolate

import (
	"context"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

// Fallback does on the CPU what the function of a name does in a child. It runs in the program itself, on the caller's
// goroutine, and gets the buffers that Do was called with. It should return when ctx ends: nothing can stop it.
type Fallback func(ctx context.Context, name string, r *Request) ([]byte, error)

// WithFallback has a request done on the CPU that the devices did not do. Its tries have failed, the children of all devices have
// died too often, or CUDA is absent. Given to [Open], it holds for all calls of Do, and Open succeeds where CUDA is absent.
//
// It does not run after the end of ctx, for a request that found the queue full, or under runtime.PolicyRequired. As many run at the
// same time as there are cores (GOMAXPROCS), as with pool.DoOptions.Fallback. Others wait, and [WithQueue] bounds how many. The report says
// why, and the runtime logs the first of each reason.
func WithFallback(f Fallback) Option { return func(c *config) { c.fallback = f } }

// fallBack does a request on the CPU.
func (g *Group) fallBack(ctx context.Context, c *request) (err error) {
	g.mu.Lock()
	ending := g.ending
	g.figures.Fallbacks++
	g.mu.Unlock()
	if ending {
		return errClosed()
	}
	if c.result, err = c.fallback(g.states.with(ctx, c.key), c.name, &Request{Data: slices.Clone(c.data), Buffers: c.buffers}); err == nil {
		err = tooLarge(c.result)
	}
	if err != nil {
		c.result = nil
	}
	return err
}

// tooLarge is the error of a result that exceeds what a child can send, or nil.
func tooLarge(result []byte) error {
	if len(result) <= maxData {
		return nil
	}
	return driver.Errorf(driver.ErrInvalidArgument, "a result of %d bytes: want at most %d, or a buffer", len(result), maxData)
}
