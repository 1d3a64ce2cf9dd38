package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// requests notes what each request of a round took. A nil one notes nothing.
type requests struct {
	took  []time.Duration
	began time.Time
	busy  time.Duration // processor time of the process
}

// load is what was noted of a round.
type load struct {
	took    []time.Duration // sorted
	cores   float64
	threads int
}

func (r *requests) begin() {
	if r != nil {
		r.took, r.began, r.busy = r.took[:0], time.Now(), processorTime()
	}
}

func (r *requests) end() (l load) {
	if r == nil {
		return l
	}
	l.cores = float64(processorTime()-r.busy) / float64(max(time.Since(r.began), 1))
	l.threads, l.took = threads(), slices.Clone(r.took)
	slices.Sort(l.took)
	return l
}

// value is the round in one of the units of requests.
func (l load) value(unit string) (value float64, ok bool) {
	if len(l.took) == 0 {
		return 0, false
	}
	at := func(part float64) float64 { return float64(l.took[int(part*float64(len(l.took)-1))]) }
	switch unit {
	case P50:
		return at(0.5), true
	case P99:
		return at(0.99), true
	case Slowest:
		return at(1), true
	case CoresUsed:
		return l.cores, true
	case Threads:
		return float64(l.threads), true
	}
	return 0, false
}

// between is the operation that makes requests on so many goroutines, at least two on each. do is
// told the number of the goroutine. The time is what n requests take at the rate of all.
func (r *requests) between(goroutines int, do func(ctx context.Context, goroutine int) error) op {
	return func(ctx context.Context, n int) (time.Duration, error) {
		each := max((n+goroutines-1)/goroutines, 2)
		errs, took := make([]error, goroutines), make([]time.Duration, goroutines*each)
		var all sync.WaitGroup
		start := time.Now()
		for g := range goroutines {
			all.Go(func() {
				for i := range each {
					began := time.Now()
					if errs[g] = do(ctx, g); errs[g] != nil {
						return
					}
					took[g*each+i] = time.Since(began)
				}
			})
		}
		all.Wait()
		total := time.Since(start)
		r.took = append(r.took, took...)
		return time.Duration(float64(total) * float64(n) / float64(len(took))), errors.Join(errs...)
	}
}
