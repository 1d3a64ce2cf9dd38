package pool

import (
	"cmp"
	"context"
	"math"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
)

// Parallel does n items on all cores. It calls f on GOMAXPROCS goroutines at the same time, for ranges
// that together are [0, n). Each goroutine begins with an equal part, in pieces that get smaller,
// and then takes pieces of slower goroutines. So items of unequal cost keep all cores busy. Parallel
// needs no pool and no CUDA. Fallbacks run the same way.
//
// Parallel returns after every f has returned. An error or a panic of f, or the end of ctx, stops the
// other goroutines. The error is then an [*Error] that names the ranges that are not done. The
// context of f ends when the call stops; an f that takes long should check it.
func Parallel(ctx context.Context, n int, f func(ctx context.Context, lo, hi int) error, options ...ParallelOptions) (Report, error) {
	report := Report{Device: driver.NoDevice}
	if ctx == nil || f == nil || n < 0 {
		return report, driver.Errorf(driver.ErrInvalidArgument, "a context, a function and a number of items that is not negative are needed")
	}
	o, err := one(options)
	if err = cmp.Or(err, notNegative(number{"Chunk", int64(o.Chunk)}, number{"Grain", int64(o.Grain)})); err != nil || n == 0 {
		return report, err
	}
	start := time.Now()
	report.Tiles, err = parallel(ctx, n, &ScatterOptions{Chunk: o.Chunk, Grain: o.Grain}, f)
	report.Where, report.Wall = OnCPU, time.Since(start)
	return report, err
}

// parallel is Parallel for a positive n. Each goroutine is a participant of a scheduler.
func parallel(parent context.Context, n int, o *ScatterOptions, f func(ctx context.Context, lo, hi int) error) ([]TileReport, error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	c := &cores{ctx: ctx, f: f}
	s := &c.scheduler
	s.crew, s.minPiece, s.cancel, s.ended = c, 1, cancel, make(chan struct{})
	units := s.cut(n, o.Chunk, o.Grain, o.ItemBytes)
	s.participants = make([]participant, min(goruntime.GOMAXPROCS(0), units))
	weights := make([]float64, len(s.participants))
	for i := range weights {
		s.participants[i], weights[i] = participant{device: i, weight: 1}, 1
	}
	s.divide(weights, units)
	s.run(parent)
	c.goroutines.Wait()
	return s.result()
}

// cores are the participants of one call of parallel.
type cores struct {
	scheduler  scheduler
	ctx        context.Context
	f          func(ctx context.Context, lo, hi int) error
	goroutines sync.WaitGroup
}

func (c *cores) ordinal(int) int { return driver.NoDevice }
func (c *cores) lost() bool      { return false }

func (c *cores) startParticipant(i int) { c.goroutines.Go(func() { c.participate(i) }) }

// participate does pieces on one goroutine until there are none.
func (c *cores) participate(i int) {
	s := &c.scheduler
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
		contain.Call(func() error { return c.f(c.ctx, t.Lo, t.Hi) }, func(err error) { s.record(i, k, w.stop(), err, false) })
	}
}

// marked is the context of a function of a call.
type marked struct {
	context.Context
	as any // within or turnOf
}

// Keys of marked contexts, of functions that have a worker of a pool, and of functions that have a turn on the CPU. A call with the latter
// does not wait for another turn.
type (
	within struct{ pool *Pool }
	turnOf struct{ pool *Pool }
)

// Value is the context's, and has the mark.
func (m *marked) Value(key any) any {
	if key == m.as {
		return true
	}
	return m.Context.Value(key)
}
