package kernels

import (
	"context"

	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

const (
	// sumBlock is 4 MiB of elements: some blocks keep a device busy, and their results are
	// next to nothing.
	sumBlock = 1 << 20
	// sumPartials is with how many blocks of threads a block is added, on every device, so
	// that the order does not depend on the device.
	sumPartials = 256
)

// Sum adds x in float64.
//
// The order is as in [SumPartialsCPU] with 256 partial sums within each 2^20 elements,
// [AddPartials], and a binary tree over those. It is within
//
//	(16 + 10 + 256 + log2(blocks) + 1) * 2^-53 * (the sum of all |x[i]|)
//
// of the exact sum: that is how many roundings an element passes through at most.
func (r *Reducer) Sum(ctx context.Context, x []float32) (float64, pool.Report, error) {
	r = zero.Or(r)
	block := r.sumBlock
	return pool.Reduce(ctx, r.pool, len(x), block,
		func(w *pool.Worker, lo, hi int, out []float64) error {
			return onDevice(w, func(k *reducerKernels, t *temporary) error { return sumOnDevice(w, k, t, x[lo:hi], block, out) })
		},
		func(a, b float64) float64 { return a + b },
		pool.ReduceOptions[float64]{Retry: r.options.Retry, MinPerDevice: r.options.MinPerDevice, BreakEven: r.options.BreakEven, ItemBytes: 4*block + 8*sumPartials, Fallback: func(_ context.Context, lo, hi int, out []float64) error {
			partials := make([]float64, sumPartials)
			for i := range out {
				from, to := blockOf(i, block, hi-lo)
				SumPartialsCPU(x[lo+from:lo+to], partials)
				out[i] = AddPartials(partials)
			}
			return nil
		}})
}

func sumOnDevice(w *pool.Worker, k *reducerKernels, t *temporary, x []float32, block int, out []float64) (err error) {
	if k.sum.k == nil {
		if k.sum, err = Load[Sum](w.Context()); err != nil {
			return err
		}
	}
	w.Phase(pool.Upload)
	data, err := sent(t, x)
	if err != nil {
		return err
	}
	w.Phase(pool.Compute)
	sums, err := room[float64](t, len(out)*sumPartials)
	if err != nil {
		return err
	}
	for i := range out {
		if err := k.sum.Launch(t.stream, data.Slice(blockOf(i, block, len(x))), sums.Slice(i*sumPartials, (i+1)*sumPartials)); err != nil {
			return err
		}
	}
	w.Phase(pool.Download)
	partials := make([]float64, sums.Len())
	if err := runtime.Download(t.ctx, t.stream, partials, sums); err != nil {
		return err
	}
	for i := range out {
		out[i] = AddPartials(partials[i*sumPartials : (i+1)*sumPartials])
	}
	return nil
}
