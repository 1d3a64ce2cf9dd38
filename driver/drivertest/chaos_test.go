package drivertest_test

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// outcomes makes n calls and returns their results.
func outcomes(n int, f func() driver.Result) []driver.Result {
	all := make([]driver.Result, n)
	for i := range all {
		all[i] = f()
	}
	return all
}

func TestChaosFollowsTheSeed(t *testing.T) {
	run := func(seed uint64, others int) []driver.Result {
		g := drivertest.New(drivertest.Config{Chaos: &drivertest.Chaos{Seed: seed, Failures: 0.3}})
		defer g.Close()
		return outcomes(200, func() driver.Result {
			for range others { // calls of other functions change nothing
				g.GetErrorName(driver.ResultUnknown)
			}
			_, r := g.DriverGetVersion()
			return r
		})
	}
	assert.Equal(t, run(1, 0), run(1, 3))
	assert.NotEqual(t, run(1, 0), run(2, 0))
}

// Which goroutine makes a call has no part in what the nth one meets.
func TestChaosOfConcurrentCalls(t *testing.T) {
	run := func() map[int]driver.Result {
		g := drivertest.New(drivertest.Config{Chaos: &drivertest.Chaos{Seed: 5, Failures: 0.3}})
		defer g.Close()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					g.Init(0)
				}
			})
		}
		wg.Wait()
		struck := map[int]driver.Result{}
		for _, i := range g.Injected() {
			assert.Equal(t, "cuInit", i.Op)
			struck[i.Call] = i.Result
		}
		return struck
	}
	first := run()
	assert.Greater(t, len(first), 50)
	assert.Equal(t, first, run())
}

func TestChaosFailsAsOftenAsAskedFor(t *testing.T) {
	for _, p := range []float64{0, 0.01, 0.25, 1} {
		g := drivertest.New(drivertest.Config{Chaos: &drivertest.Chaos{Seed: 9, Failures: p}})
		const n = 20_000
		failed := 0
		for _, r := range outcomes(n, func() driver.Result { _, r := g.DriverGetVersion(); return r }) {
			if r != driver.Success {
				failed++
			}
		}
		assert.InDelta(t, p*n, failed, 4*math.Sqrt(n*p*(1-p)+1))
		assert.Len(t, g.Injected(), min(failed, 10_000))
		require.NoError(t, g.Close())
	}
}

// Every function fails if it is asked to, with a result that is in its nature.
func TestChaosReachesEveryFunction(t *testing.T) {
	for _, e := range driver.Entries() {
		results := map[driver.Result]bool{}
		for seed := range uint64(60) {
			g := drivertest.New(drivertest.Config{Chaos: &drivertest.Chaos{Seed: seed, Failures: 1,
				Results: map[string][]driver.Result{"cuInit": {driver.ResultUnknown}}}})
			r := g.Luck(e.Name)
			require.NotEqual(t, driver.Success, r, e.Name)
			require.False(t, r.Sticky(), e.Name)
			results[r] = true
		}
		if e.Name == "cuMemAlloc" {
			assert.Equal(t, map[driver.Result]bool{driver.ResultOutOfMemory: true}, results)
		}
		if e.Name == "cuModuleLoadDataEx" {
			assert.Len(t, results, 5)
		}
	}
}

func TestChaosWithOwnResults(t *testing.T) {
	chaos := &drivertest.Chaos{Failures: 1, Results: map[string][]driver.Result{
		"cuInit":             {},
		"cuDriverGetVersion": {driver.ResultOperatingSystem},
	}}
	g := drivertest.New(drivertest.Config{Chaos: chaos})
	defer g.Close()
	chaos.Results["cuInit"] = []driver.Result{driver.ResultUnknown} // changes nothing any more
	require.Equal(t, driver.Success, g.Init(0))
	_, r := g.DriverGetVersion()
	assert.Equal(t, driver.ResultOperatingSystem, r)
	require.Len(t, g.Injected(), 1)
	assert.Regexp(t, `^call 1 of cuDriverGetVersion: CUDA_ERROR_OPERATING_SYSTEM \(304\), called at chaos_test.go:\d+$`, g.Injected()[0].String())
	assert.Empty(t, g.Findings(), "a fault that was asked for is no mistake")
	assert.Panics(t, func() {
		drivertest.New(drivertest.Config{Chaos: &drivertest.Chaos{Results: map[string][]driver.Result{"cuMemAloc": nil}}})
	})
}

// only makes a single function fail.
func only(op string, c drivertest.Chaos) *drivertest.Chaos {
	c.Failures = 1
	c.Results = map[string][]driver.Result{}
	for _, e := range driver.Entries() {
		if e.Name != op {
			c.Results[e.Name] = nil
		}
	}
	return &c
}

// A sticky failure of a call that puts work on a stream strikes at once, or when the
// work runs.
func TestChaosStrikesWorkThatRuns(t *testing.T) {
	early, late := 0, 0
	for seed := range uint64(40) {
		g := start(t, drivertest.Config{Chaos: only("cuMemsetD8Async", drivertest.Chaos{Seed: seed, Sticky: 1})})
		s, ptr := g.stream(), g.alloc(64)
		r := g.MemsetD8Async(ptr, 1, 64, s)
		end := g.StreamSynchronize(s)
		require.True(t, end.Sticky(), end)
		g.is(end, g.Sticky())
		all := g.Injected()
		require.Len(t, all, 1)
		assert.Equal(t, end, all[0].Result)
		if r == driver.Success {
			late++
			assert.True(t, all[0].Late)
			assert.Contains(t, all[0].String(), "when its work ran")
		} else {
			early++
			g.is(end, r)
		}
		assert.Empty(t, g.Findings())
	}
	assert.Positive(t, early)
	assert.Positive(t, late)
}

// A reader that forgot to wait sees old data.
func TestSlowWork(t *testing.T) {
	g := start(t, drivertest.Config{Chaos: &drivertest.Chaos{SlowWork: 1, MaxDelay: 100 * time.Millisecond}})
	s, ptr := g.stream(), g.alloc(4)
	host, r := g.MemHostAlloc(4, 0)
	g.ok(r)
	data := unsafe.Slice((*byte)(host), 4)
	before := time.Now()
	g.ok(g.MemsetD8Async(ptr, 7, 4, s))
	g.ok(g.MemcpyDtoHAsync(host, ptr, 4, s))
	g.is(driver.ResultNotReady, g.StreamQuery(s))
	g.ok(g.StreamSynchronize(s))
	assert.Equal(t, []byte{7, 7, 7, 7}, data)
	assert.GreaterOrEqual(t, time.Since(before), 100*time.Millisecond)
	assert.Empty(t, g.Injected(), "delays are no faults")
}

func TestSlowCalls(t *testing.T) {
	g := drivertest.New(drivertest.Config{Chaos: &drivertest.Chaos{SlowCalls: 1, MaxDelay: 20 * time.Millisecond}})
	before := time.Now()
	g.Init(0)
	assert.GreaterOrEqual(t, time.Since(before), 10*time.Millisecond)
	assert.Empty(t, g.Injected())
}

// failing is a test that ForTest reports to.
type failing struct {
	cleanups []func()
	failed   bool
	log      []string
}

func (r *failing) Helper()                   {}
func (r *failing) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *failing) Failed() bool              { return r.failed }
func (r *failing) Errorf(f string, a ...any) { r.failed = true }
func (r *failing) Logf(f string, a ...any)   { r.log = append(r.log, fmt.Sprintf(f, a...)) }

func TestFailedTestsLogTheSeed(t *testing.T) {
	for _, failed := range []bool{false, true} {
		var r failing
		d := drivertest.ForTest(&r, drivertest.Config{Chaos: &drivertest.Chaos{Seed: 77, Failures: 1}})
		d.DriverGetVersion()
		r.failed = failed
		r.cleanups[0]()
		if !failed {
			assert.Empty(t, r.log)
			continue
		}
		require.Len(t, r.log, 2)
		assert.Contains(t, r.log[0], "seed 77")
		assert.Contains(t, r.log[1], "call 1 of cuDriverGetVersion")
	}
}

func TestVanish(t *testing.T) {
	g := start(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.T4())})
	other, r := g.DevicePrimaryCtxRetain(1)
	g.ok(r)
	s, ptr, f := g.stream(), g.alloc(64), g.function("unbound")
	ev, r := g.EventCreate(0)
	g.ok(r)
	gate := make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-gate }))
	g.ok(g.MemsetD8Async(ptr, 1, 64, s))
	waiting := make(chan driver.Result)
	go func() { waiting <- g.StreamSynchronize(s) }()
	poll(t, "the wait begins", func() bool { return g.Calls("cuStreamSynchronize") == 1 })
	g.Vanish(0)
	close(gate)
	g.is(driver.ResultUnknown, <-waiting)

	_, alloc := g.MemAlloc(1)
	_, create := g.StreamCreate(0)
	for op, r := range map[string]driver.Result{
		"alloc": alloc, "create": create, "query": g.StreamQuery(s), "record": g.EventRecord(ev, s),
		"launch": g.launch(f, s), "free": g.MemFree(ptr), "destroy": g.StreamDestroy(s), "destroy event": g.EventDestroy(ev),
		"memset": g.MemsetD8(ptr, 0, 64), "synchronize": g.CtxSynchronize(),
	} {
		assert.Equal(t, driver.ResultUnknown, r, op)
	}
	g.is(driver.Success, g.Sticky())
	name, r := g.DeviceGetName(0)
	g.ok(r)
	assert.NotEmpty(t, name)

	// The other device goes on, and what the lost one had is no leak.
	_, r = g.CtxPopCurrent()
	g.ok(r)
	g.ok(g.CtxPushCurrent(other))
	mine := g.alloc(64)
	g.ok(g.MemsetD8(mine, 1, 64))
	g.is(driver.ResultUnknown, g.MemcpyPeer(mine, other, ptr, g.ctx, 64))
	g.ok(g.MemFree(mine))
	g.ok(g.DevicePrimaryCtxRelease(1))
	g.ok(g.DevicePrimaryCtxRelease(0))
	_, r = g.DevicePrimaryCtxRetain(0)
	g.is(driver.ResultUnknown, r)
	assert.Empty(t, g.Leaks())
	assert.Empty(t, g.Findings())
	assert.Panics(t, func() { g.Vanish(2) })
}

func TestVanishAtACall(t *testing.T) {
	device := drivertest.T4()
	device.VanishAt = 6
	g := start(t, drivertest.Config{Devices: []drivertest.DeviceConfig{device}}) // makes three calls
	s := g.stream()
	g.ok(g.StreamQuery(s))
	g.is(driver.ResultUnknown, g.StreamQuery(s))
	require.Len(t, g.Injected(), 1)
	assert.Contains(t, g.Injected()[0].String(), "call 2 of cuStreamQuery: device 0 vanished")
	g.ok(g.DevicePrimaryCtxRelease(0))
	assert.Empty(t, g.Leaks())
}

// Blocks take numbers in the order in which they begin. By chance that is not their own, and a seed gives the same one each time.
func TestChaosOfKernels(t *testing.T) {
	order := func(chaos *drivertest.Chaos) []uint32 {
		g := plain(t, drivertest.Config{Chaos: chaos})
		const blocks = 100
		x, s := g.alloc(4*blocks+4), g.stream()
		g.ok(g.MemsetD8Async(x, 0, 4*blocks+4, s))
		f := g.kernel(`.version 6.4
.target sm_75
.address_size 64
.visible .entry k(.param .u64 x) {
.reg .b64 %x, %at; .reg .b32 %n, %block;
ld.param.u64 %x, [x];
atom.global.add.u32 %n, [%x], 1;
mov.u32 %block, %ctaid.x;
mad.wide.u32 %at, %block, 4, %x;
st.global.u32 [%at+4], %n;
}`)
		before := g.Traffic()
		g.run(f, s, blocks, 1, x)
		g.ok(g.StreamSynchronize(s))
		assert.Equal(t, drivertest.Traffic{Read: before.Read, Written: before.Written + 4*blocks, Atomic: before.Atomic + 4*blocks}, g.Traffic())
		return g.words(x+4, blocks)
	}
	by := func(seed uint64) *drivertest.Chaos { return &drivertest.Chaos{Seed: seed, Kernels: true} }
	assert.Equal(t, order(by(1)), order(by(1)))
	assert.NotEqual(t, order(by(1)), order(by(2)))
	assert.False(t, slices.IsSorted(order(by(3))))
}
