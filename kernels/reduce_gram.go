package kernels

import (
	"context"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// gramBlockRows is the number of rows of a block. With many columns a block has more rows, so that its
// result is at most a quarter of its rows.
const gramBlockRows = 4096

// gramBlockStrips returns the number of strips of a block. It is the same on every device, so that the
// order does not depend on the device. With few columns it is 16. With many columns it is less,
// because the entries alone keep a device busy.
func gramBlockStrips(columns int) int { return int(max(1, 16/gramTiles(columns))) }

// Gram computes X'WX. x has columns elements for each element of weights, row by row. The result has
// columns rows of columns elements.
//
// The order of additions is fixed. A block has 4096 rows, or four times the number of columns if that
// is more. Within a block the order is as in [GramPartialsCPU] and [AddGram], with 16 strips up to
// 16 columns, 5 up to 32, 2 up to 48, and otherwise 1. The blocks are added as a binary tree. The
// error of entry (i, j) is at most
//
//	(rows/strips + strips + log2(blocks) + 3) * 2^-53 * (the sum of all |x[r][i] * w[r] * x[r][j]|)
//
// where rows is how many a block has, to first order, unless a value underflows.
func (r *Reducer) Gram(ctx context.Context, x, weights []float64, columns int) ([]float64, pool.Report, error) {
	r = zero.Or(r)
	if _, err := gramShape("gram", len(x), len(weights), columns, columns*columns); err != nil {
		return nil, pool.Report{Device: driver.NoDevice}, err
	}
	size, strips := columns*columns, gramBlockStrips(columns)
	block := max(r.gramRows, 4*columns)
	total, report, err := pool.Reduce(ctx, r.pool, len(weights), block,
		func(w *pool.Worker, lo, hi int, out [][]float64) error {
			return onDevice(w, func(k *reducerKernels, t *temporary) error {
				return gramOnDevice(w, k, t, x[lo*columns:hi*columns], weights[lo:hi], columns, block, out)
			})
		},
		func(a, b []float64) []float64 {
			for i, v := range b {
				a[i] += v
			}
			return a
		},
		pool.ReduceOptions[[]float64]{Retry: r.options.Retry, MinPerDevice: r.options.MinPerDevice, BreakEven: r.options.BreakEven, ItemBytes: 8 * (block*(columns+1) + strips*size), Fallback: func(_ context.Context, lo, hi int, out [][]float64) error {
			partials := make([]float64, strips*size)
			for i := range out {
				from, to := blockOf(i, block, hi-lo)
				from, to = lo+from, lo+to
				if err := GramPartialsCPU(x[from*columns:to*columns], weights[from:to], columns, partials); err != nil {
					return err
				}
				out[i] = make([]float64, size)
				if err := AddGram(partials, out[i]); err != nil {
					return err
				}
			}
			return nil
		}})
	if err == nil && total == nil { // of no rows
		total = make([]float64, size)
	}
	return total, report, err
}

func gramOnDevice(w *pool.Worker, k *reducerKernels, t *temporary, x, weights []float64, columns, block int, out [][]float64) (err error) {
	if k.gram.k == nil {
		if k.gram, err = Load[Gram](w.Context()); err != nil {
			return err
		}
	}
	w.Phase(pool.Upload)
	matrix, err := sent(t, x)
	if err != nil {
		return err
	}
	factors, err := sent(t, weights)
	if err != nil {
		return err
	}
	w.Phase(pool.Compute)
	size := columns * columns
	result := gramBlockStrips(columns) * size // of a block, before its strips are added
	sums, err := room[float64](t, len(out)*result)
	if err != nil {
		return err
	}
	for i := range out {
		from, to := blockOf(i, block, len(weights))
		strips := sums.Slice(i*result, (i+1)*result)
		if err := k.gram.Launch(t.stream, matrix.Slice(from*columns, to*columns), factors.Slice(from, to), columns, strips); err != nil {
			return err
		}
	}
	w.Phase(pool.Download)
	partials := make([]float64, sums.Len())
	if err := runtime.Download(t.ctx, t.stream, partials, sums); err != nil {
		return err
	}
	for i := range out {
		out[i] = make([]float64, size)
		if err := AddGram(partials[i*result:(i+1)*result], out[i]); err != nil {
			return err
		}
	}
	return nil
}
