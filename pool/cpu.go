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

// CPU does n items on all cores. It calls f on GOMAXPROCS goroutines at the same time, for ranges
// that together are [0, n). Each goroutine begins with an equal part, in pieces that get smaller,
// and then takes pieces of slower goroutines. So items of unequal cost keep all cores busy. CPU
// needs no pool and no CUDA. Fallbacks run the same way.
//
// CPU returns after every f has returned. An error or a panic of f, or the end of ctx, stops the
// other goroutines. The error is then an [*Error] that names the ranges that are not done. The
// context of f ends when the call stops; an f that takes long should check it. Its options are
// WithChunk, WithGrain and WithItemBytes.
func CPU(ctx context.Context, n int, f func(ctx context.Context, lo, hi int) error, options ...Option) (*Report, error) {
	if ctx == nil || f == nil || n < 0 {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a context, a function and a number of items that is not negative are needed")
	}
	var c config
	if err := c.apply(ofCPU, options); err != nil {
		return nil, err
	}
	if n == 0 {
		return &Report{}, nil
	}
	start := time.Now()
	tiles, err := parallel(ctx, n, &c, f)
	return &Report{Where: OnCPU, Tiles: tiles, Wall: time.Since(start)}, err
}

// parallel is CPU for a positive n. Each goroutine is a participant of a scheduler.
func parallel(parent context.Context, n int, c *config, f func(ctx context.Context, lo, hi int) error) ([]TileReport, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	s := &scheduler{minPiece: 1, cancel: cancel, ended: make(chan struct{})}
	units := s.cut(n, c)
	cores := min(goruntime.GOMAXPROCS(0), units)
	var all sync.WaitGroup
	s.participants = make([]participant, cores)
	weights := make([]float64, cores)
	for i := range cores {
		s.participants[i], weights[i] = participant{device: i, weight: 1}, 1
	}
	s.start = func(i int) { all.Go(func() { s.runParticipant(ctx, i, f) }) }
	s.run(parent, Partition(weights, units))
	all.Wait()
	return s.result()
}

// runParticipant does pieces on one goroutine until there are none.
func (s *scheduler) runParticipant(ctx context.Context, i int, f func(ctx context.Context, lo, hi int) error) {
	if !s.enter(i) {
		return
	}
	defer s.leave(i)
	for {
		k, ok := s.take(i, math.MaxInt)
		if !ok {
			return
		}
		var w stopwatch
		w.start()
		t := s.tile(i, k)
		contain.Call(func() error { return f(ctx, t.Lo, t.Hi) }, func(err error) { s.record(i, k, w.stop(), err) })
	}
}
