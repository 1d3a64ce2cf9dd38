package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// BreakEven knows from which size on the GPUs do a work faster than the cores. It times both sides
// and keeps the result on disk. A call that has it in its options uses it: work that the cores do faster
// goes to the fallback, without a call of the driver.
//
//	var b *pool.BreakEven
//	hash := func(ctx context.Context, n int) error {
//		_, err := p.Scatter(ctx, n, hashOnGPU, pool.ScatterOptions{Fallback: hashOnCPU, BreakEven: b})
//		return err
//	}
//	b, err := pool.NewBreakEven(p, pool.BreakEvenConfig{Name: "hash/v1", Largest: 100_000, Run: hash})
//	if err != nil {
//		return err
//	}
//	err = b.Learn(ctx) // before the first request, and now and then
//	fmt.Println(b)
//
// A BreakEven is safe for concurrent use. It holds nothing that has to be closed.
type BreakEven struct {
	pool   *Pool
	config BreakEvenConfig

	measuring chan struct{} // holds a value while somebody measures
	learned   atomic.Pointer[BreakEvenReport]

	// A call counts as alone if no other one was under way at any time of it.
	active, begun atomic.Int64
	mu            sync.Mutex
	drift         map[Place]*drift
}

// BreakEvenConfig describes the work. Name, Largest and Run are needed.
type BreakEvenConfig struct {
	// Name names the work on disk. A function that became faster or slower needs a new name.
	Name string
	// Largest is the largest number of items to measure. It should be the largest of the program:
	// the side that wins there is expected to win beyond it.
	Largest int
	// Run does the first n items of a sample of the work, as the program does them. It calls the
	// pool with a fallback and b, for n items. It passes on its ctx, which decides where the
	// call does the work.
	Run func(ctx context.Context, n int) error

	// Dir is the folder of what is kept on disk, as nvrtc.Config.CacheDir. The default is
	// PURECUDA_CACHE_DIR, or else "purecuda" in the user's cache directory. "off" keeps nothing.
	Dir string
	// Logger hears of files that are damaged or could not be written. The default is silence.
	Logger *slog.Logger

	now func() time.Time // time.Now, but for tests
}

// advantage is how much of the time of the cores the GPUs may take to be worth it.
const advantage = 0.95

// NewBreakEven makes a BreakEven that has learned nothing: all work goes to the GPUs. It takes no
// time. Without a pool, a name, a function or a size of 1 at least it fails with
// driver.ErrInvalidArgument.
func NewBreakEven(p *Pool, config BreakEvenConfig) (*BreakEven, error) {
	if p == nil || p.rt == nil || config.Name == "" || config.Run == nil || config.Largest < 1 {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a break-even needs a pool, a Name, a Run and a Largest of 1 at least: Name %q, Largest %d", config.Name, config.Largest)
	}
	if config.now == nil {
		config.now = time.Now
	}
	b := &BreakEven{pool: p, config: config, measuring: make(chan struct{}, 1)}
	b.forgetDrift()
	return b, nil
}

// Learn sees to it that b knows its size: from an earlier Learn, from disk, or by measuring, which
// takes a second or two. It measures again where [BreakEven.Drifted] says so. It does nothing where
// CUDA is absent, because all work goes to the cores there.
//
// Learn runs Config.Run. Its errors come from Run and [runtime.Runtime.Err], or are ctx's cause; b
// then knows what it knew before. Calls at the same time measure once.
func (b *BreakEven) Learn(ctx context.Context) error { return b.learn(ctx, false) }

// Measure is Learn, but it measures in every case. Where CUDA is absent it fails with
// driver.ErrDriverLibraryUnavailable.
func (b *BreakEven) Measure(ctx context.Context) error { return b.learn(ctx, true) }

func (b *BreakEven) learn(ctx context.Context, again bool) error {
	if b == nil || b.pool == nil || ctx == nil {
		return driver.Errorf(driver.ErrInvalidArgument, "a break-even of NewBreakEven and a context are needed")
	}
	rt := b.pool.rt
	if err := rt.Err(); err != nil && (again || rt.Outcome() != runtime.Absent) {
		return err
	} else if err != nil {
		return nil
	}
	select {
	case b.measuring <- struct{}{}:
		defer func() { <-b.measuring }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	known := b.learned.Load()
	if again || b.Drifted() {
		known = nil
	} else if known == nil {
		known = b.load()
	}
	if known == nil {
		var err error
		if known, err = b.measure(ctx); err != nil {
			return fmt.Errorf("measuring the break-even of %q: %w", b.config.Name, err)
		}
		b.store(known)
	}
	if b.learned.Swap(known) != known {
		b.forgetDrift()
	}
	return nil
}

// wins tells whether the GPUs are expected to do n items in less than 0.95 of the time that the cores
// take. It is true as long as b has not learned. It takes nanoseconds.
func (b *BreakEven) wins(n int) bool {
	if b == nil {
		return true
	}
	known := b.learned.Load()
	return known == nil || known.wins(n)
}

// Report is what b has learned, or nil. It must not be changed.
func (b *BreakEven) Report() *BreakEvenReport { return zero.Or(b).learned.Load() }

// String is the report, or why there is none.
func (b *BreakEven) String() string {
	b = zero.Or(b)
	if known := b.learned.Load(); known != nil {
		return known.String()
	}
	why := "Learn was not called, or has failed"
	if b.pool != nil && b.pool.rt.Err() != nil {
		why = b.pool.rt.Err().Error()
	}
	return fmt.Sprintf("%s: nothing learned: %s", b.config.Name, why)
}

// drift is whether the last calls of a side took as long as expected.
type drift struct {
	off  uint32 // a bit for each call, set if it did not
	seen int
}

// A call did not take as long as expected if it is off by more than driftFactor. More than half of the
// last driftCalls have to be off, so that opened contexts and garbage collections do not count.
const (
	driftFactor = 2
	driftCalls  = 32
)

// Drifted tells whether calls take less than half or more than twice the time that b expects: the
// machine, its other tenants or the work have changed. Only calls count that were alone, because
// calls at the same time wait for each other. [BreakEven.Learn] then measures again.
func (b *BreakEven) Drifted() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.drift {
		if d.seen >= driftCalls && bits.OnesCount32(d.off) > driftCalls/2 {
			return true
		}
	}
	return false
}

func (b *BreakEven) forgetDrift() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drift = map[Place]*drift{OnGPU: {}, OnCPU: {}}
}

// begin notes a call that uses b, and returns what notes its end. Calls that have failed, or were done on
// the CPU for another reason, tell nothing about its times.
func (b *BreakEven) begin() (end func(n int, where Place, reason Reason, err error)) {
	if b == nil {
		return func(int, Place, Reason, error) {}
	}
	others, number := b.active.Add(1)-1, b.begun.Add(1)
	known, start := b.learned.Load(), b.config.now()
	return func(n int, where Place, reason Reason, err error) {
		took := b.config.now().Sub(start)
		alone := others == 0 && b.begun.Load() == number
		told := err == nil && n > 0 && (where == OnGPU || where == OnCPU && reason == MeasuredSlower)
		if b.active.Add(-1); !alone || !told || known == nil {
			return
		}
		expected := known.at(where, n)
		off := took > driftFactor*expected || took < expected/driftFactor
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.learned.Load() != known {
			return
		}
		d := b.drift[where]
		if d.off <<= 1; off {
			d.off |= 1
		}
		d.seen = min(d.seen+1, driftCalls)
	}
}

// measured is the key of the side that a measurement asks for in its context.
type measured struct{ b *BreakEven }

// errSlower is why the cores do what they do faster.
var errSlower = errors.New("the CPU is faster for so few items, by the break-even that was measured")

// side is where a call of n items has to do its work: OnGPU without its fallback, OnCPU with nothing but
// that, or "" for the devices first.
func (b *BreakEven) side(ctx context.Context, n int, fallback bool) (Place, error) {
	if b == nil {
		return "", nil
	}
	switch where, _ := ctx.Value(measured{b}).(Place); {
	case where != "" && !fallback:
		return "", driver.Errorf(driver.ErrInvalidArgument, "a call that a BreakEven measures needs a fallback")
	case where != "":
		return where, nil
	case fallback && !b.wins(n):
		return OnCPU, nil
	}
	return "", nil
}

// How long is measured. A side is not measured at sizes at which it is expected to take more than
// longestRun.
const (
	sizeStep   = 4
	precision  = 16 // the size is found to one part in so many
	longestRun = time.Second
	enoughRuns = 3
	enoughTime = 10 * time.Millisecond
	mostTime   = 750 * time.Millisecond
	mostRuns   = 25
)

var errNoTime = errors.New("a run took no time by the clock")

// measure times both sides at sizes from 1 to Largest, and then at some between the last one at which the
// cores win and the next.
func (b *BreakEven) measure(ctx context.Context) (*BreakEvenReport, error) {
	r := &BreakEvenReport{Name: b.config.Name, Machine: b.machine(), When: b.config.now().Truncate(time.Second)}
	for n := 1; ; n = min(n*sizeStep, b.config.Largest) {
		more, err := b.add(ctx, r, n)
		if err != nil {
			return nil, err
		}
		if !more || n >= b.config.Largest {
			break
		}
	}
	for {
		if err := r.settle(); err != nil {
			return nil, err
		}
		n := r.between()
		if n == 0 {
			return r, nil
		}
		if more, err := b.add(ctx, r, n); err != nil || !more {
			return r, err
		}
	}
}

// add measures a point. It is false if that would take too long on both sides.
func (b *BreakEven) add(ctx context.Context, r *BreakEvenReport, n int) (more bool, err error) {
	p := BreakEvenPoint{Items: n}
	for _, s := range []struct {
		where Place
		took  *time.Duration
	}{{OnCPU, &p.CPU}, {OnGPU, &p.GPU}} {
		if r.at(s.where, n) > longestRun {
			continue
		}
		if *s.took, err = b.time(ctx, s.where, n); err != nil {
			return false, fmt.Errorf("%d items on the %s: %w", n, s.where, err)
		}
		more = true
	}
	if more {
		at, _ := slices.BinarySearchFunc(r.Points, n, func(p BreakEvenPoint, n int) int { return cmp.Compare(p.Items, n) })
		r.Points = slices.Insert(r.Points, at, p)
	}
	return more, nil
}

// time is the median of some runs of a side, after one that does not count: it opens contexts, loads
// code and allocates memory.
func (b *BreakEven) time(ctx context.Context, where Place, n int) (time.Duration, error) {
	ctx = context.WithValue(ctx, measured{b}, where)
	var runs []time.Duration
	var all time.Duration
	for warm := false; len(runs) < mostRuns && (len(runs) < enoughRuns && all < mostTime || all < enoughTime); warm = true {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		start := b.config.now()
		if err := contain.Do(func() error { return b.config.Run(ctx, n) }); err != nil {
			return 0, err
		}
		took := b.config.now().Sub(start)
		if warm {
			runs, all = append(runs, took), all+took
		}
	}
	slices.Sort(runs)
	if took := runs[len(runs)/2]; took > 0 {
		return took, nil
	}
	return 0, errNoTime
}
