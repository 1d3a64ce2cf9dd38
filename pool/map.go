package pool

import (
	"context"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Map computes out from in, element by element, on the devices of the pool. It is [Scatter] over the
// elements. f gets parts of in and out of the same length, and computes the elements of out. f must
// not change in, and must not keep either slice.
//
// out changes only if the call succeeds. f writes to a temporary slice that is zero at first, also for
// a retry and for the fallback. Map copies it to out at the end, which takes about 0.1 ms for a
// megabyte. in and out may be the same memory.
//
// For the memory budget of a device, an item is one element of in and one of out. Set [WithItemBytes]
// if f needs more. The fallback is [WithMapFallback].
func Map[In, Out any](ctx context.Context, p *Pool, in []In, out []Out, f func(w *Worker, in []In, out []Out) error, options ...Option) (*Report, error) {
	if len(in) != len(out) {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "map %d elements to %d", len(in), len(out))
	}
	c, err := newScatterCall(ctx, p, ofMap, len(in), f != nil, options)
	if err != nil {
		return nil, err
	}
	result := make([]Out, len(out))
	if c.mapFallback != nil {
		g, ok := c.mapFallback.(func(context.Context, []In, []Out) error)
		if !ok {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "the fallback is a %T, and the elements are %T and %T", c.mapFallback, in, out)
		}
		c.cpu = func(ctx context.Context, lo, hi int) error {
			clear(result[lo:hi])
			return g(ctx, in[lo:hi:hi], result[lo:hi:hi])
		}
	}
	c.f = func(w *Worker, t Tile) error {
		part := result[t.Lo:t.Hi:t.Hi]
		if w.retried {
			clear(part)
		}
		return f(w, in[t.Lo:t.Hi:t.Hi], part)
	}
	if c.itemBytes == 0 {
		var i In
		var o Out
		c.itemBytes = int(unsafe.Sizeof(i) + unsafe.Sizeof(o))
	}
	report, err := c.start("pool.Map")
	if err == nil {
		copy(out, result)
	}
	return report, err
}
