package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Options say how long is measured.
type Options struct {
	// Time is how long a round takes at least, and Count the number of rounds.
	Time  time.Duration
	Count int
	// Started is told the index of a case before it is measured; nil for nobody.
	Started func(index int)
}

// Result is what was measured of a case.
type Result struct {
	Case
	Rounds []Round
	// Table is what the last round has measured, where that is more than numbers.
	Table string
}

// Round is one round.
type Round struct {
	N    int           // operations
	Time time.Duration // of all of them
	load load
	size int // the break-even
}

// The units of values.
const (
	PerOp   = "ns/op"
	Rate    = "MB/s"
	Hashing = "hashes/s"

	// Of cases that measure requests: what the half of them and 99 of 100 took at most, and the
	// slowest. Then the cores that the program kept busy, and its threads at the end.
	P50       = "p50-ns"
	P99       = "p99-ns"
	Slowest   = "max-ns"
	CoresUsed = "cores"
	Threads   = "threads"

	// BreakEven is from how many items on the GPUs win, or 0 if they do not.
	BreakEven = "items"
)

// Units are those that the case has, the first of them always PerOp.
func (c Case) Units() []string {
	units := []string{PerOp}
	if c.Bytes > 0 {
		units = append(units, Rate)
	}
	if c.Hashes > 0 {
		units = append(units, Hashing)
	}
	if c.requests != nil {
		units = append(units, P50, P99, Slowest, CoresUsed, Threads)
	}
	if c.size != nil {
		units = append(units, BreakEven)
	}
	return units
}

// Value is a round in one of the units of the case.
func (c Case) Value(r Round, unit string) float64 {
	perOp := max(float64(r.Time)/float64(r.N), 1e-3) // a coarse clock may see no time pass
	if value, ok := r.load.value(unit); ok {
		return value
	}
	switch unit {
	case Rate:
		return float64(c.Bytes) / perOp * 1e3
	case BreakEven:
		return float64(r.size)
	case Hashing:
		return float64(c.Hashes) / perOp * 1e9
	}
	return perOp
}

// Median is the median of the rounds in a unit.
func (r Result) Median(unit string) float64 {
	all := make([]float64, len(r.Rounds))
	for i, round := range r.Rounds {
		all[i] = r.Value(round, unit)
	}
	slices.Sort(all)
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2
	}
	return all[len(all)/2]
}

// Run measures the cases in order and tells of each when it is done. It ends with the first
// failure, and with ctx's cause soon after ctx has ended.
func Run(ctx context.Context, cases []Case, options Options, done func(Result)) error {
	var (
		current *suite
		open    closers
	)
	for i, c := range cases {
		if options.Started != nil {
			options.Started(i)
		}
		if c.suite != current {
			if err := open.close(); err != nil {
				return fmt.Errorf("after %s: %w", cases[i-1].Name, err)
			}
			current = c.suite
			if err := current.open(ctx, &open); err != nil {
				return errors.Join(fmt.Errorf("preparing %s: %w", c.Name, err), open.close())
			}
		}
		r, err := measure(ctx, c, options)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", c.Name, err), open.close())
		}
		done(r)
	}
	return open.close()
}

// longestStep is how long operations run without a look at the context.
const longestStep = 20 * time.Millisecond

func measure(ctx context.Context, c Case, options Options) (Result, error) {
	r := Result{Case: c}
	// The first operations load code, touch memory and wake the device; they also tell how many
	// fit into a step.
	step := 1
	if _, err := repeat(ctx, c.op, options.Time/4, &step); err != nil {
		return r, err
	}
	for range options.Count {
		c.requests.begin()
		round, err := repeat(ctx, c.op, options.Time, &step)
		if err != nil {
			return r, err
		}
		round.load = c.requests.end()
		if c.size != nil {
			round.size, r.Table = c.size()
		}
		r.Rounds = append(r.Rounds, round)
	}
	return r, nil
}

// repeat does operations until the time has passed, at least one step of them. It keeps step at
// what takes about longestStep.
func repeat(ctx context.Context, do op, least time.Duration, step *int) (r Round, err error) {
	want := min(max(least/4, time.Microsecond), longestStep)
	start := time.Now()
	for r.N == 0 || time.Since(start) < least {
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		began := time.Now()
		timed, err := do(ctx, *step)
		if err != nil {
			return r, err
		}
		took := max(time.Since(began), 1)
		r.N, r.Time = r.N+*step, r.Time+timed
		fit := float64(*step) * float64(want) / float64(took)
		*step = int(max(1, min(fit, 10*float64(*step))))
	}
	return r, nil
}

// each is the operation that calls f and times all of it.
func each(f func() error) op {
	return func(_ context.Context, n int) (time.Duration, error) {
		start := time.Now()
		for range n {
			if err := f(); err != nil {
				return 0, err
			}
		}
		return time.Since(start), nil
	}
}
