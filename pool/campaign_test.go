package pool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// Calls with options made by chance run on machines whose devices fail, vanish and slow
// down in the middle. Each call ends with the exact result and every item done once, or
// with an error that names all that is not done and leaves the output as it was. The seed
// says all but the timing.
func TestCampaign(t *testing.T) {
	var sum tally
	seeds.Run(t, seeds.Count(1000, 1500, 1000), func(seed uint64) *campaign {
		c := newCampaign(seed)
		c.sum = &sum
		return c
	})
	t.Logf("%d calls: %d right on the devices (%d pieces repeated), %d right on the CPU, %d errors; %d processes lost, %d devices vanished, %d other faults",
		sum.calls.Load(), sum.onGPU.Load(), sum.repeated.Load(), sum.onCPU.Load(), sum.failed.Load(),
		sum.lost.Load(), sum.vanished.Load(), sum.faults.Load())
}

// Run implements [seeds.Program].
func (c *campaign) Run() error { return c.run(c.sum) }

// Describe implements [seeds.Program].
func (c *campaign) Describe() string { return fmt.Sprintf("injected: %v", c.gpu.Injected()) }

// tally counts what a campaign has met.
type tally struct {
	calls, onGPU, onCPU, failed, repeated, lost, vanished, faults atomic.Int64
}

// campaign is one machine with one pool.
type campaign struct {
	seed   uint64
	chance *rand.Rand
	gpu    *drivertest.Driver
	rt     *runtime.Runtime
	p      *pool.Pool

	errors float64 // probability that a function fails by itself
	slow   int     // device that is slow, or -1
	budget uint64
	sum    *tally
}

func newCampaign(seed uint64) *campaign {
	c := &campaign{seed: seed, chance: rand.New(rand.NewPCG(seed, 0x9001)), slow: -1}
	pick := func(from ...float64) float64 { return from[c.chance.IntN(len(from))] }
	devices := drivertest.Devices(1+c.chance.IntN(5), drivertest.T4())
	for i := range devices {
		if c.chance.IntN(3) == 0 {
			devices[i].SMs = 20 + c.chance.IntN(100)
		}
		if c.chance.IntN(12) == 0 {
			devices[i].VanishAt = 80 + c.chance.IntN(200)
		}
	}
	if c.chance.IntN(3) == 0 {
		c.slow = c.chance.IntN(len(devices))
	}
	c.errors = pick(0, 0, 0.01, 0.1)
	c.budget = []uint64{1 << 30, 1 << 14, 1 << 10}[c.chance.IntN(3)]
	// The machine is found, and what was allocated can be given back.
	results := map[string][]driver.Result{"cuMemFreeAsync": nil, "cuCtxPopCurrent": nil, "cuStreamDestroy": nil, "cuEventDestroy": nil, "cuMemPoolDestroy": nil, "cuMemFreeHost": nil,
		"cuDevicePrimaryCtxRelease": nil, "cuCtxSynchronize": nil}
	for _, e := range driver.Entries() {
		if e.Name == "cuInit" || e.Name == "cuDriverGetVersion" || e.Name == "cuDeviceTotalMem" || len(e.Name) > 11 && e.Name[:11] == "cuDeviceGet" {
			results[e.Name] = nil
		}
	}
	jitter := rand.New(rand.NewPCG(seed, 1)) // OnCall is called concurrently
	var mu sync.Mutex
	c.gpu = drivertest.New(drivertest.Config{
		Devices:             devices,
		HotPathNeedsContext: false,
		Chaos: &drivertest.Chaos{Seed: seed, Failures: pick(0, 0.003, 0.02, 0.1), Sticky: pick(0, 0, 0.05, 0.3), Results: results,
			SlowWork: 0.05, SlowCalls: 0.01, MaxDelay: 50 * time.Microsecond},
		OnCall: func(string) driver.Result {
			mu.Lock()
			wait := jitter.IntN(200) == 0
			mu.Unlock()
			if wait {
				time.Sleep(20 * time.Microsecond)
			}
			return driver.Success
		},
	})
	return c
}

func (c *campaign) run(sum *tally) (err error) {
	c.rt, err = runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(c.gpu),
		runtime.WithBudget(func(runtime.Device) uint64 { return c.budget }))
	if err != nil {
		return errors.Join(c.unexplained(err), c.gpu.Close())
	}
	c.p, err = pool.Open(c.rt)
	if err != nil {
		return err
	}
	for err == nil && c.chance.IntN(8) > 0 {
		err = c.step(sum)
	}
	err = errors.Join(err, c.unexplained(c.p.Close()), c.unexplained(c.rt.Close()), c.gpu.Close())
	for _, f := range c.gpu.Findings() {
		err = errors.Join(err, fmt.Errorf("the driver found a mistake: %v", f))
	}
	kept := false // by the driver: what cannot be reached is not given back
	for _, i := range c.gpu.Injected() {
		kept = kept || i.Vanished || i.Op == "cuCtxPushCurrent"
		if i.Vanished {
			sum.vanished.Add(1)
		} else {
			sum.faults.Add(1)
		}
	}
	if c.gpu.Sticky() != driver.Success {
		sum.lost.Add(1)
	} else if leaks := c.gpu.Leaks(); len(leaks) > 0 && !kept {
		err = errors.Join(err, fmt.Errorf("leaks: %v", leaks))
	}
	return err
}

// step makes one call, or several at the same time.
func (c *campaign) step(sum *tally) error {
	trials := make([]*trial, 1)
	if c.chance.IntN(5) == 0 {
		trials = make([]*trial, 2+c.chance.IntN(3))
	}
	for i := range trials {
		trials[i] = c.newTrial()
	}
	wrong := make([]error, len(trials))
	var all sync.WaitGroup
	for i, call := range trials {
		all.Go(func() { wrong[i] = call.run(sum) })
	}
	all.Wait()
	return errors.Join(wrong...)
}

// trial is one call of Map.
type trial struct {
	*campaign
	n        int
	options  pool.MapOptions[uint32, uint32]
	fallback bool
	patience time.Duration // until it is cancelled, or 0
	fails    map[int]bool  // items whose first piece fails
	panics   bool

	mu     sync.Mutex
	failed map[int]bool
	times  []int // that an item was done on a device
	own    int   // failures of the function itself
}

func (c *campaign) newTrial() *trial {
	r := c.chance
	n := r.IntN(1 << (1 + r.IntN(12)))
	x := &trial{campaign: c, n: n, times: make([]int, n), fails: map[int]bool{}, failed: map[int]bool{}, panics: r.IntN(2) == 0}
	option := func(field *int, one, value int) {
		if r.IntN(one) == 0 {
			*field = value
		}
	}
	option(&x.options.MinPerDevice, 2, r.IntN(64))
	option(&x.options.Chunk, 3, 1+r.IntN(max(n, 1)))
	option(&x.options.Chunk, 6, whole)
	option(&x.options.Grain, 6, 1+r.IntN(100))
	option(&x.options.Retry, 2, r.IntN(6))
	if x.fallback = r.IntN(2) == 0; x.fallback {
		x.options.Fallback = tripleCPU
	}
	if r.IntN(15) == 0 {
		x.patience = time.Duration(1+r.IntN(300)) * time.Microsecond
	}
	if r.Float64() < c.errors*10 {
		for range 1 + r.IntN(3) {
			x.fails[r.IntN(max(n, 1))] = true
		}
	}
	return x
}

// work is the function of the call.
func (x *trial) work(w *pool.Worker, in, out []uint32) error {
	if w.Index() == x.slow {
		time.Sleep(time.Duration(len(in)) * 100 * time.Nanosecond)
	}
	if err := triple(w, in, out); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, item := range in {
		if i := int(item); x.fails[i] && !x.failed[i] {
			x.failed[i] = true
			x.own++
			if x.panics {
				panic(errData)
			}
			return errData
		}
	}
	for _, item := range in {
		x.times[item]++
	}
	return nil
}

func (x *trial) run(sum *tally) error {
	ctx := context.Background()
	if x.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.patience)
		defer cancel()
	}
	in, out := count(x.n), make([]uint32, x.n)
	for i := range out {
		out[i] = 7
	}
	before := slices.Clone(out)
	report, err := pool.Map(ctx, x.p, in, out, x.work, x.options)
	sum.calls.Add(1)
	if !slices.Equal(in, count(x.n)) {
		return errors.New("the input has changed")
	}
	if report.Tiles != nil {
		if err := covers(x.n, report.Tiles); err != nil {
			return fmt.Errorf("the report: %w", err)
		}
	}
	if err != nil {
		sum.failed.Add(1)
		if !slices.Equal(out, before) {
			return fmt.Errorf("the output has changed in a call that failed: %w", err)
		}
		return x.checkFailure(ctx, report, err)
	}
	if !slices.Equal(out, tripled(x.n)) {
		return errors.New("a wrong result")
	}
	return x.checkSuccess(sum, report)
}

// checkSuccess checks the report of a call whose result is right.
func (x *trial) checkSuccess(sum *tally, report pool.Report) error {
	for _, tile := range report.Tiles {
		if !tile.Done {
			return fmt.Errorf("tile [%d, %d) is not done, says the report of a success", tile.Lo, tile.Hi)
		}
		if (tile.Retries > 0) != (tile.Cause != nil) {
			return fmt.Errorf("%d retries because of %w", tile.Retries, tile.Cause)
		}
		if err := x.unexplained(tile.Cause); err != nil {
			return err
		}
		sum.repeated.Add(int64(tile.Retries))
	}
	switch {
	case x.n == 0:
	case report.Where == pool.OnGPU:
		sum.onGPU.Add(1)
		for i, times := range x.times {
			if times != 1 {
				return fmt.Errorf("item %d was done %d times", i, times)
			}
		}
	case !x.fallback || report.Err == nil:
		return fmt.Errorf("on the CPU without a reason: %w", report.Err)
	default:
		sum.onCPU.Add(1)
		return x.unexplained(report.Err)
	}
	return nil
}

// checkFailure checks the error of a call.
func (x *trial) checkFailure(ctx context.Context, report pool.Report, err error) error {
	cancelled := ctx.Err() != nil
	if x.fallback && !cancelled {
		return fmt.Errorf("the fallback should have done it: %w", err)
	}
	var failed *pool.Error
	if !errors.As(err, &failed) {
		if x.rt.Err() == nil || report.Tiles != nil {
			return fmt.Errorf("not the right kind of error: %w", err)
		}
		return x.unexplained(err)
	}
	if len(failed.Tiles) == 0 {
		return errors.New("an error that names no tile")
	}
	var named []pool.TileReport
	for _, tile := range report.Tiles {
		if !tile.Done {
			named = append(named, tile)
		}
	}
	if len(named) != len(failed.Tiles) {
		return fmt.Errorf("the report has %d tiles that are not done, and the error %d", len(named), len(failed.Tiles))
	}
	real := cancelled
	for _, tile := range failed.Tiles {
		if tile.Cause == nil {
			return fmt.Errorf("tile [%d, %d) has no cause", tile.Lo, tile.Hi)
		}
		real = real || !errors.Is(tile.Cause, pool.ErrStopped)
		if errors.Is(tile.Cause, context.DeadlineExceeded) && !cancelled {
			return errors.New("cancelled by nobody")
		}
		if err := x.unexplained(tile.Cause); err != nil {
			return err
		}
	}
	if !real {
		return fmt.Errorf("all tiles were stopped because of others: %w", err)
	}
	return nil
}

// unexplained returns an error if a failure has no reason: no fault struck, and the
// functions themselves did not fail.
func (c *campaign) unexplained(err error) error {
	if err == nil || errors.Is(err, errData) || errors.Is(err, pool.ErrStopped) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if len(c.gpu.Injected()) > 0 {
		var known *driver.Error
		if errors.As(err, &known) {
			return nil
		}
	}
	return fmt.Errorf("nothing explains %w", err)
}
