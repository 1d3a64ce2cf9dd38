package pool

import (
	"context"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// Reduce computes one result from n items. f computes a result for each block of items, on the devices
// of the pool. combine computes one result from the results of two adjacent blocks, until one is left.
//
// f gets a range of whole blocks, and writes the result of block i of the range to out[i]. Only the
// last block of all may be shorter. The rules of [Pool.Scatter] hold, with blocks as items: Chunk and
// MinPerDevice count blocks, and ItemBytes is the memory of one block.
//
// The order is fixed. Blocks depend on their size alone, and the results are combined as a binary tree,
// (0 1) (2 3) ..., on the caller's goroutine. So the same n and block give the same result bit for bit
// on any number of devices, in any pieces, and on the CPU. f and the fallback must give the same result
// for a block. The rounding errors of sums grow only with the logarithm of the number of blocks.
//
// combine may change and return its first argument. The results take memory: choose blocks that are
// large beside a result. For n = 0 the result is the zero value.
func Reduce[R any](ctx context.Context, p *Pool, n, block int, f func(w *Worker, lo, hi int, out []R) error, combine func(a, b R) R, options ...ReduceOptions[R]) (R, Report, error) {
	var zero R
	o, err := one(options)
	if block < 1 || n < 0 || combine == nil {
		return zero, Report{Device: driver.NoDevice}, driver.Errorf(driver.ErrInvalidArgument, "reduce %d items in blocks of %d: a number of items that is not negative, a positive size and a function to combine are needed", n, block)
	}
	blocks := n / block
	if n%block != 0 {
		blocks++
	}
	c := &scatterCall{parent: ctx, pool: p, n: blocks, ScatterOptions: ScatterOptions{Retry: o.Retry, Wait: o.Wait, Devices: o.Devices, Suits: o.Suits, Priority: o.Priority,
		Cost: o.Cost, Chunk: o.Chunk, ItemBytes: o.ItemBytes, MinPerDevice: o.MinPerDevice, BreakEven: o.BreakEven}}
	items := func(lo, hi int) (int, int) {
		if hi == blocks {
			return lo * block, n
		}
		return lo * block, hi * block
	}
	var results []R
	if err := contain.Do(func() error { results = make([]R, blocks); return nil }); err != nil {
		return zero, Report{Device: driver.NoDevice}, driver.Errorf(driver.ErrInvalidArgument, "reduce %d items in blocks of %d: %d results take more memory than there can be: choose larger blocks", n, block, blocks)
	}
	if o.Fallback != nil {
		c.Fallback = func(ctx context.Context, lo, hi int) error {
			part := results[lo:hi:hi]
			clear(part)
			lo, hi = items(lo, hi)
			return o.Fallback(ctx, lo, hi, part)
		}
	}
	if f != nil {
		c.f = func(w *Worker, t Tile) error {
			part := results[t.Lo:t.Hi:t.Hi]
			if w.retried {
				clear(part)
			}
			lo, hi := items(t.Lo, t.Hi)
			return f(w, lo, hi, part)
		}
	}
	report, err := c.start("pool.Reduce", err)
	if err != nil || blocks == 0 {
		return zero, report, err
	}
	contain.Call(func() error {
		combineTree(results, combine)
		return nil
	}, func(failed error) { err = failed })
	if err != nil {
		return zero, report, err
	}
	return results[0], report, nil
}

// combineTree combines all results into the first one.
func combineTree[R any](results []R, combine func(a, b R) R) {
	var zero R
	for n := len(results); n > 1; n = (n + 1) / 2 {
		for i := range n / 2 {
			results[i] = combine(results[2*i], results[2*i+1])
		}
		if n%2 == 1 {
			results[n/2] = results[n-1]
		}
		for i := (n + 1) / 2; i < n; i++ {
			results[i] = zero // the garbage collector may have it
		}
	}
}
