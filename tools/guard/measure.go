package main

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

var bg = context.Background()

// longestStep is how long operations run between two looks at the clock.
const longestStep = 20 * time.Millisecond

// timed does n operations, and returns the time that they took.
type timed func(n int) (time.Duration, error)

// loop is a benchmark of an operation: its mean time and allocations, after a quarter of the time for warming up.
func loop(do timed) func(time.Duration) ([]value, error) {
	return func(least time.Duration) ([]value, error) {
		step := 1
		if _, _, err := repeat(do, least/4, &step); err != nil {
			return nil, err
		}
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		n, took, err := repeat(do, least, &step)
		goruntime.ReadMemStats(&after)
		allocs := (after.Mallocs - before.Mallocs) / uint64(max(n, 1)) // rounded down, as package testing does
		return []value{{"ns/op", float64(took) / float64(max(n, 1))}, {"allocs/op", float64(allocs)}}, err
	}
}

// repeat does operations until the time has passed, at least one. It keeps step at what takes about longestStep.
func repeat(do timed, least time.Duration, step *int) (n int, took time.Duration, err error) {
	want := min(max(least/4, time.Microsecond), longestStep)
	for start := time.Now(); n == 0 || time.Since(start) < least; {
		began := time.Now()
		t, err := do(*step)
		if err != nil {
			return n, took, err
		}
		n, took = n+*step, took+t
		fit := float64(*step) * float64(want) / float64(max(time.Since(began), 1))
		*step = int(max(1, min(fit, 10*float64(*step))))
	}
	return n, took, nil
}

// each times all of each call.
func each(f func() error) timed {
	return func(n int) (time.Duration, error) {
		start := time.Now()
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		return time.Since(start), nil
	}
}

// enqueue times what f puts on a stream, which is emptied after so many calls: without the wait, or with it.
func enqueue(s **runtime.Stream, batch int, waiting bool, f func() error) timed {
	return func(n int) (took time.Duration, err error) {
		for left := n; left > 0; left -= batch {
			start := time.Now()
			for range min(left, batch) {
				if err := f(); err != nil {
					return 0, errors.Join(err, (*s).Synchronize(bg))
				}
			}
			enqueued := time.Since(start)
			if err := (*s).Synchronize(bg); err != nil {
				return 0, err
			}
			if waiting {
				enqueued = time.Since(start)
			}
			took += enqueued
		}
		return took, nil
	}
}

// So many goroutines take tens of milliseconds until each has its stack and a thread for its first request. In less time that is all
// that one sees: 45,000 requests of 4 KiB a second on an H200, of 190,000.
const (
	many        = 1000
	leastOfMany = 200 * time.Millisecond
)

// requests is a benchmark of requests on so many goroutines, each of which makes one after the other. It tells how many
// there are in a second, how long half and 99 of 100 took at most, and how many cores were busy. do is told its
// goroutine.
func requests(goroutines int, do func(goroutine int) error) func(time.Duration) ([]value, error) {
	between := func(least time.Duration) ([]value, error) {
		var (
			errs = make([]error, goroutines)
			took = make([][]time.Duration, goroutines)
			all  sync.WaitGroup
		)
		busy, start := processorTime(), time.Now()
		for g := range goroutines {
			all.Go(func() {
				for now := time.Now(); len(took[g]) == 0 || now.Sub(start) < least; {
					if errs[g] = do(g); errs[g] != nil {
						return
					}
					began := now
					now = time.Now()
					took[g] = append(took[g], now.Sub(began))
				}
			})
		}
		all.Wait()
		wall := time.Since(start)
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		sorted := slices.Concat(took...)
		slices.Sort(sorted)
		at := func(part float64) float64 { return float64(sorted[int(part*float64(len(sorted)-1))]) }
		return []value{{"req/s", float64(len(sorted)) / wall.Seconds()}, {"p50-ns", at(0.5)}, {"p99-ns", at(0.99)},
			{"cores", float64(processorTime()-busy) / float64(wall)}}, nil
	}
	return func(least time.Duration) ([]value, error) {
		if goroutines >= many {
			least = max(least, leastOfMany)
		}
		if _, err := between(least / 4); err != nil {
			return nil, err
		}
		return between(least)
	}
}

// processorTime is what the process has used of all cores.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
