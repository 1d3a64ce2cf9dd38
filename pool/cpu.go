package pool

import (
	"context"
	"math"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// CPU does n items on all cores (GOMAXPROCS of them): it calls f, at the same time on
// several goroutines, for ranges that together are [0, n). Each goroutine begins with an
// equal part, in pieces that get smaller, and then helps others, so that items of unequal
// cost keep all cores busy. It needs no pool and no CUDA; fallbacks run the same way.
//
// It returns when every f has returned. An error or a panic of f stops the others, as
// does the end of ctx, and the error is an [*Error] that names the ranges that are not
// done. f should look at its context, which ends then, if it takes long. Of the options,
// WithChunk and WithItemBytes have a meaning here.
func CPU(ctx context.Context, n int, f func(ctx context.Context, lo, hi int) error, options ...Option) (*Report, error) {
	if ctx == nil || f == nil || n < 0 {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a context, a function and a number of items that is not negative are needed")
	}
	var c config
	if err := c.apply(options); err != nil {
		return nil, err
	}
	if n == 0 {
		return &Report{}, nil
	}
	start := time.Now()
	tiles, err := parallel(ctx, n, c.chunk, c.itemBytes, f)
	return &Report{Where: OnCPU, Tiles: tiles, Wall: time.Since(start)}, err
}

// parallel is CPU for a positive n. Its goroutines are the members of a plan.
func parallel(parent context.Context, n, chunk, itemBytes int, f func(ctx context.Context, lo, hi int) error) ([]TileReport, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	members := min(goruntime.GOMAXPROCS(0), n)
	var all sync.WaitGroup
	p := &plan{least: 1, chunk: chunk, itemBytes: itemBytes, cancel: cancel, ended: make(chan struct{})}
	p.members = make([]member, members)
	weights := make([]float64, members)
	for i := range members {
		p.members[i], weights[i] = newMember(i, 1), 1
	}
	p.wake = func(i int) { all.Go(func() { p.work(ctx, i, f) }) }
	p.run(parent, Partition(weights, n))
	all.Wait()
	return p.result()
}

// work is one goroutine of the CPU.
func (p *plan) work(ctx context.Context, i int, f func(ctx context.Context, lo, hi int) error) {
	if !p.enter(i) {
		return
	}
	defer p.leave(i)
	for {
		k, ok := p.take(i, math.MaxInt)
		if !ok {
			return
		}
		var w watch
		w.start()
		contain.Call(func() error { return f(ctx, k.lo, k.hi) }, func(err error) { p.settle(i, k, w.stop(), err) })
	}
}
