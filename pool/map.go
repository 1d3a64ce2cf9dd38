package pool

import (
	"context"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Map computes out from in, element by element, on the devices of the pool. It is [Pool.Scatter] over the
// elements. f gets parts of in and out of the same length, and computes the elements of out. f must
// not change in, and must not keep either slice.
//
// out changes only if the call succeeds. f writes to a temporary slice that is zero at first, also for
// a retry and for the fallback. Map copies it to out at the end, which takes about 0.1 ms for a
// megabyte. in and out may be the same memory.
//
// For the memory budget of a device, an item is one element of in and one of out. Set
// MapOptions.ItemBytes if f needs more.
func Map[In, Out any](ctx context.Context, p *Pool, in []In, out []Out, f func(w *Worker, in []In, out []Out) error, options ...MapOptions[In, Out]) (Report, error) {
	o, err := one(options)
	if len(in) != len(out) {
		err = driver.Errorf(driver.ErrInvalidArgument, "map %d elements to %d", len(in), len(out))
	}
	c := &scatterCall{parent: ctx, pool: p, n: len(in), ScatterOptions: ScatterOptions{Retry: o.Retry, Wait: o.Wait, Devices: o.Devices, Suits: o.Suits, Priority: o.Priority,
		Cost: o.Cost, Chunk: o.Chunk, Grain: o.Grain, ItemBytes: o.ItemBytes, MinPerDevice: o.MinPerDevice, BreakEven: o.BreakEven}}
	result := make([]Out, len(out))
	if o.Fallback != nil {
		c.Fallback = func(ctx context.Context, lo, hi int) error {
			clear(result[lo:hi])
			return o.Fallback(ctx, in[lo:hi:hi], result[lo:hi:hi])
		}
	}
	if f != nil {
		c.f = func(w *Worker, t Tile) error {
			part := result[t.Lo:t.Hi:t.Hi]
			if w.retried {
				clear(part)
			}
			return f(w, in[t.Lo:t.Hi:t.Hi], part)
		}
	}
	if c.ItemBytes == 0 {
		var i In
		var o Out
		c.ItemBytes = int(unsafe.Sizeof(i) + unsafe.Sizeof(o))
	}
	report, err := c.start("pool.Map", err)
	if err == nil {
		copy(out, result)
	}
	return report, err
}
