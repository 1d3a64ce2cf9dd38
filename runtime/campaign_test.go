package runtime_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// Programs made by chance run on drivers that fail by chance. Each step checks that what
// was injected, and nothing else, came back as an error of the right kind; that data is
// what the steps that succeeded have made it; and at the end that everything was given
// back. The seed says all: the machine, the program and the faults.
func TestCampaign(t *testing.T) {
	var sum campaignTally
	seeds.Run(t, seeds.Count(200, 2000, 200), func(seed uint64) *campaign {
		c := newCampaign(seed)
		c.tally = &sum
		_, c.traced = seeds.One(t)
		return c
	})
	t.Logf("%d faults, %d processes lost", sum.faults.Load(), sum.lost.Load())
}

// campaignTally is what all seeds together have met.
type campaignTally struct{ faults, lost atomic.Int64 }

// Run implements [seeds.Program].
func (c *campaign) Run() error {
	err := c.run()
	c.tally.faults.Add(int64(len(c.gpu.Injected())))
	if c.gpu.Sticky() != driver.Success {
		c.tally.lost.Add(1)
	}
	// The hook of the runtime refers to the campaign, which would keep its objects from being found to be forgotten, and those the
	// driver: the collections of the tests after this one had a heap of 340 MB to look at.
	c.places = nil
	return err
}

// Describe implements [seeds.Program].
func (c *campaign) Describe() string {
	text := fmt.Sprintf("injected: %v", c.gpu.Injected())
	if c.traced {
		text += "\n" + strings.Join(c.trace, "\n")
	}
	return text
}

// The same seed gives the same faults, however the work on the device is timed.
func TestCampaignsRepeat(t *testing.T) {
	for seed, checked := uint64(0), 0; checked < 50; seed++ {
		first := newCampaign(seed)
		if !first.steady {
			_ = first.gpu.Close()
			continue
		}
		checked++
		again := newCampaign(seed)
		require.NoError(t, errors.Join(first.run(), again.run()), seed)
		require.Equal(t, first.faults(), again.faults(), seed)
	}
}

// Goroutines use a runtime at the same time, which fails and is closed meanwhile.
func TestCampaignOfGoroutines(t *testing.T) {
	count := uint64(seeds.Count(40, 200, 40))
	for seed := range count {
		c := newCampaign(seed)
		stop := seeds.Watch(seed, c)
		assert.NoError(t, c.together(), "seed %d, injected: %v", seed, c.gpu.Injected())
		stop()
	}
}

// campaign is one program on one machine.
type campaign struct {
	seed uint64
	// steady says that time has no part in what happens. It has where work fails, since
	// the program learns of it sooner or later; where a device vanishes, since a runtime
	// closes its objects in any order; and where a context stays current on a thread.
	steady bool
	chance *rand.Rand
	gpu    *drivertest.Driver
	memory uint64 // of each device
	rt     *runtime.Runtime

	hearing sync.Mutex
	heard   []error // by the hook during a call

	places []*place
	cause  driver.Result // what CUDA was lost by, as far as the program knows
	seen   int           // injections that were looked at
	gone   bool          // a device has vanished
	// unproven says that a stream was closed and the end of its work could not be marked:
	// memory that it may use is not given back.
	unproven bool
	// doubtful counts copies of which nobody could tell whether they have ended.
	doubtful uint64
	// halfOpen counts contexts that could be made, but not made current in order to
	// give their first stream back.
	halfOpen uint64
	trace    []string
	traced   bool // the trace is part of the description
	tally    *campaignTally
}

// place is what the program has on a device.
type place struct {
	c       *runtime.Context
	streams []*runtime.Stream
	events  []*runtime.Event
	modules []*runtime.Module
	kernels []*runtime.Kernel // of the modules
	buffers []*content
	hosts   []*runtime.HostBuffer[uint32]
}

// content is a buffer, the only stream that uses it, and what it holds; nil if that is
// not known because a step that writes it was cut short.
type content struct {
	buffer *runtime.Ref[uint32]
	stream *runtime.Stream
	want   []uint32
}

func newCampaign(seed uint64) *campaign {
	c := &campaign{seed: seed, chance: rand.New(rand.NewPCG(seed, 0xca3)), memory: 1 << 30}
	device := drivertest.T4()
	if c.chance.IntN(6) == 0 {
		c.memory = 40 << 10
	}
	device.Memory = c.memory
	devices := drivertest.Devices(1+c.chance.IntN(2), device)
	vanishes := c.chance.IntN(8) == 0
	if vanishes {
		devices[c.chance.IntN(len(devices))].VanishAt = 50 + c.chance.IntN(400)
	}
	pick := func(from ...float64) float64 { return from[c.chance.IntN(len(from))] }
	results := map[string][]driver.Result{}
	if c.chance.IntN(4) > 0 { // most programs should come past the beginning
		for _, e := range driver.Entries() {
			if e.Name == "cuInit" || e.Name == "cuDriverGetVersion" || strings.HasPrefix(e.Name, "cuDeviceGet") || e.Name == "cuDeviceTotalMem" {
				results[e.Name] = nil
			}
		}
	}
	if c.chance.IntN(2) == 0 {
		// What the driver is asked in the background, as often as there is time. And a download, whose buffer
		// is in use until the device is past it: another one is allocated or not.
		for _, op := range []string{"cuCtxPopCurrent", "cuCtxPushCurrent", "cuThreadExchangeStreamCaptureMode", "cuStreamQuery", "cuEventQuery", "cuMemcpyDtoHAsync"} {
			results[op] = nil
		}
	}
	chaos := &drivertest.Chaos{
		Seed: seed, Failures: pick(0, 0.003, 0.02, 0.1, 0.3), Sticky: pick(0, 0, 0.02, 0.2), Results: results,
		SlowWork: 0.1, SlowCalls: 0.01, MaxDelay: 60 * time.Microsecond,
	}
	c.gpu = drivertest.New(drivertest.Config{
		Devices:             devices,
		Version:             []driver.Version{11000, 11080, 12020, 13000}[c.chance.IntN(4)],
		HotPathNeedsContext: c.chance.IntN(4) == 0,
		Chaos:               chaos,
	})
	_, pops := results["cuCtxPopCurrent"]
	c.steady = chaos.Sticky == 0 && !vanishes && pops
	return c
}

func (c *campaign) run() error {
	err := c.open()
	if c.rt != nil {
		for step := 0; err == nil && step < 60; step++ {
			err = c.step()
		}
		if err == nil {
			err = c.close()
		} else {
			_ = c.rt.Close()
		}
	}
	return errors.Join(err, c.gpu.Close(), c.mistakes())
}

// mistakes are those that the driver has found.
func (c *campaign) mistakes() (err error) {
	for _, f := range c.gpu.Findings() {
		if c.devicesGone() && strings.Contains(f.Detail, "before the stream has reached the allocation") {
			continue // a device that vanishes skips its work, the allocation as well
		}
		err = errors.Join(err, fmt.Errorf("the driver found a mistake: %v", f))
	}
	return err
}

// faults lists what was injected, in an order that does not depend on that of maps.
func (c *campaign) faults() []string {
	all := []string{}
	for _, i := range c.gpu.Injected() {
		all = append(all, fmt.Sprintf("%s %d %v %v", i.Op, i.Call, i.Result, i.Vanished))
	}
	slices.Sort(all)
	return all
}

// together runs the same job on several goroutines until the runtime is closed.
func (c *campaign) together() error {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(c.gpu))
	if err != nil || rt.Outcome() != runtime.Available {
		return c.gpu.Close()
	}
	var wg sync.WaitGroup
	wrong := make([]error, 4)
	for g := range wrong {
		wg.Go(func() {
			for round := 0; round < 20 && wrong[g] == nil; round++ {
				ctx, err := rt.Context(rt.Devices()[(g+round)%len(rt.Devices())].Ordinal)
				if err == nil {
					err = work(ctx, 100)
				}
				if errors.Is(err, driver.ErrClosed) {
					return
				}
				wrong[g] = c.unexplained(err)
			}
		})
	}
	time.Sleep(time.Duration(c.chance.IntN(5)) * time.Millisecond)
	closing := c.unexplained(rt.Close())
	wg.Wait()
	err = errors.Join(append(wrong, closing, rt.Close(), c.gpu.Close(), c.mistakes())...)
	if err != nil || c.gpu.Sticky() != driver.Success {
		return err
	}
	c.gone = c.devicesGone()
	c.halfOpen, c.doubtful, c.unproven = 1000, 1000, true // not counted here
	held := runtime.Stats{Contexts: 1000, Streams: 1000, Events: 1000, Modules: 1000, Refs: 1000, HostBuffers: 1000}
	return c.account(held, c.gpu.Injected(), nil)
}

func (c *campaign) devicesGone() bool {
	return slices.ContainsFunc(c.gpu.Injected(), func(i drivertest.Injection) bool { return i.Vanished })
}

// unexplained returns an error if a failure is none that was injected.
func (c *campaign) unexplained(err error) error {
	if err == nil {
		return nil
	}
	injected := c.gpu.Injected()
	all := parts(err)
	if len(all) == 0 {
		return fmt.Errorf("an error without a kind: %w", err)
	}
	for _, e := range all {
		natural := e.Code == driver.Success || e.Code == driver.ResultOutOfMemory && c.memory < 1<<20 ||
			e.Code == driver.ResultUnknown && c.devicesGone() || e.Code == c.gpu.Sticky()
		if !natural && !slices.ContainsFunc(injected, func(i drivertest.Injection) bool {
			return i.Result == e.Code && (i.Op == e.Op || makesCurrent(i, e))
		}) {
			return fmt.Errorf("nothing explains %w", err)
		}
		if strings.Contains(e.Detail, "wrong result") {
			return err
		}
	}
	return nil
}

// hear is the hook.
func (c *campaign) hear(err error) {
	c.hearing.Lock()
	defer c.hearing.Unlock()
	c.heard = append(c.heard, err)
}

// struck reports whether a function has failed.
func (c *campaign) struck(op string) bool {
	return slices.ContainsFunc(c.gpu.Injected(), func(i drivertest.Injection) bool { return i.Op == op })
}

// call makes one call of the runtime and checks how it ended. It returns the error of
// the call, and in wrong what is wrong with it.
func (c *campaign) call(name string, f func() error) (err, wrong error) {
	lost, before := c.cause != driver.Success, 0
	if lost {
		before = callsOfLost(c.gpu)
	}
	c.hearing.Lock()
	c.heard = nil
	c.hearing.Unlock()
	err = f()
	c.unproven = c.unproven || err != nil && name == "Close of *runtime.Stream"
	injected := c.gpu.Injected()
	struck := injected[c.seen:]
	c.seen = len(injected)
	if (name == "Upload" || name == "Download") && slices.ContainsFunc(struck, func(i drivertest.Injection) bool { return i.Op == "cuStreamSynchronize" }) {
		c.doubtful++
	}
	c.trace = append(c.trace, fmt.Sprintf("%s: %v %v", name, err, struck))
	wrong = c.check(name, err, struck)
	if lost && wrong == nil {
		if n := allCalls(c.gpu) - before; n != 0 {
			wrong = fmt.Errorf("%d calls of a driver that is lost", n)
		}
	}
	if wrong != nil {
		wrong = fmt.Errorf("%s: %w\nthe call returned: %v\ninjected meanwhile: %v", name, wrong, err, struck)
	}
	return err, wrong
}

func (c *campaign) open() error {
	err, wrong := c.call("Open", func() (err error) {
		c.rt, err = runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(c.gpu),
			runtime.WithErrorHook(c.hear))
		if err == nil && c.rt.Outcome() == runtime.Absent {
			return c.rt.Err()
		}
		return err
	})
	switch {
	case wrong != nil || c.rt == nil:
		return wrong
	case err != nil: // absent
		if err := c.rt.Close(); err != nil {
			return fmt.Errorf("closing where CUDA is absent: %w", err)
		}
		c.rt = nil
		return nil
	}
	for _, d := range c.rt.Devices() {
		if d.Err == nil {
			c.places = append(c.places, nil)
		}
	}
	return nil
}

// close closes everything and accounts for what is left.
func (c *campaign) close() error {
	var held runtime.Stats
	if c.cause == driver.Success {
		held = c.rt.Stats()
	}
	from := c.seen
	var closing error
	if c.cause != driver.Success {
		calls := callsOfLost(c.gpu)
		if err := c.rt.Close(); err != nil || allCalls(c.gpu) != calls {
			return fmt.Errorf("closing after CUDA was lost: %w, and %d calls", err, allCalls(c.gpu)-calls)
		}
	} else {
		var wrong error
		if closing, wrong = c.call("Close", c.rt.Close); wrong != nil {
			return wrong
		}
	}
	if err := c.rt.Close(); err != nil {
		return fmt.Errorf("closing twice: %w", err)
	}
	if _, err := c.rt.Probe("late"); !errors.Is(err, driver.ErrClosed) && !errors.Is(err, driver.ErrDeviceLost) {
		return fmt.Errorf("a probe after closing: %w", err)
	}
	if c.gpu.Sticky() != driver.Success {
		return nil // a poisoned process gives nothing back
	}
	return c.account(held, c.gpu.Injected()[from:], closing)
}
