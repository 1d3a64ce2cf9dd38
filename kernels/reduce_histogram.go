package kernels

import (
	"context"

	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// histogramBlock is 4 MiB, of which the counters are a two-thousandth.
const histogramBlock = 4 << 20

// Histogram256 counts how often each byte value occurs in data. Counting is exact in any
// order.
func (r *Reducer) Histogram256(ctx context.Context, data []byte) ([256]uint64, pool.Report, error) {
	r = zero.Or(r)
	return pool.Reduce(ctx, r.pool, len(data), r.histogramBlock,
		func(w *pool.Worker, lo, hi int, out [][256]uint64) error {
			// One launch counts all blocks of the range; the counters of the others stay zero.
			return onDevice(w, func(k *reducerKernels, t *temporary) error { return histogramOnDevice(w, k, t, data[lo:hi], &out[0]) })
		},
		addHistograms,
		pool.ReduceOptions[[256]uint64]{Retry: r.options.Retry, MinPerDevice: r.options.MinPerDevice, BreakEven: r.options.BreakEven, ItemBytes: r.histogramBlock + 256*8, Fallback: func(_ context.Context, lo, hi int, out [][256]uint64) error {
			Histogram256CPU(data[lo:hi], &out[0])
			return nil
		}})
}

func addHistograms(a, b [256]uint64) [256]uint64 {
	for v, count := range b {
		a[v] += count
	}
	return a
}

func histogramOnDevice(w *pool.Worker, k *reducerKernels, t *temporary, data []byte, counts *[256]uint64) (err error) {
	if k.histogram.k == nil {
		if k.histogram, err = Load[Histogram256](w.Context()); err != nil {
			return err
		}
	}
	w.Phase(pool.Upload)
	x, err := sent(t, data)
	if err != nil {
		return err
	}
	w.Phase(pool.Compute)
	counters, err := room[uint64](t, len(counts))
	if err != nil {
		return err
	}
	if err := runtime.Zero(t.stream, counters); err != nil {
		return err
	}
	if err := k.histogram.Launch(t.stream, x, counters); err != nil {
		return err
	}
	w.Phase(pool.Download)
	return runtime.Download(t.ctx, t.stream, counts[:], counters)
}
