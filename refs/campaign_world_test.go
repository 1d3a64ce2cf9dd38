package refs_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

// campaign is one machine, its state, and what goroutines share.
type campaign struct {
	seed       uint64
	all        *tally
	bypass     bool // the mistake that the checks must find
	goroutines int
	steps      int
	gpu        *drivertest.Driver
	state      *refs.State
	host       driver.Context // of device 1, which page-locked memory is of

	world atomic.Pointer[world]

	mu      sync.Mutex
	wrong   []error
	shared  []*content
	targets []unsafe.Pointer
	causes  map[string]uint64 // of leaks

	done      atomic.Bool
	shutdowns atomic.Int64
	dropped   atomic.Bool
	leakedOld uint64 // bytes leaked in worlds that are gone
	lost      uint64 // blocks that the arenas of worlds which are gone could not free

	tally struct {
		reads, stale, rebuilds, resumes, forgot, closed, unproven atomic.Uint64
	}
}

// world is one generation of the device's context.
type world struct {
	binding *driver.Binding
	arena   *arena.Device
	mu      sync.RWMutex // held for writing to take the world down
	dead    bool
	streams []driver.Stream
}

// content is what a memory holds. Who uses it holds its lock, which settles the order: the
// waits between the streams are the Refs' business.
type content struct {
	mu   sync.Mutex
	refs []*refs.Ref[uint32] // open, as far as the campaign knows
	want []uint32            // nil: not known
	n    int
	// wild memory is used without the lock as well. What it holds is nobody's guess, and
	// what it must not do is harm others.
	wild atomic.Bool
}

func newCampaign(seed uint64) *campaign {
	chance := rand.New(rand.NewPCG(seed, 0xca3))
	pick := func(from ...float64) float64 { return from[chance.IntN(len(from))] }
	c := &campaign{seed: seed, goroutines: 2 + chance.IntN(6), steps: 40 + chance.IntN(60)}
	if chance.IntN(10) == 0 {
		c.goroutines, c.steps = 32, 20
	}
	// What the campaign itself needs does not fail.
	never := map[string][]driver.Result{}
	for _, e := range driver.Entries() {
		for _, prefix := range []string{"cuInit", "cuDevice", "cuDriver", "cuCtx", "cuStreamCreate", "cuStreamDestroy",
			"cuStreamSynchronize", "cuMemHostAlloc", "cuMemFreeHost", "cuMemPool", "cuLaunchHostFunc"} {
			if strings.HasPrefix(e.Name, prefix) {
				never[e.Name] = nil
			}
		}
	}
	c.gpu = drivertest.New(drivertest.Config{
		Devices: drivertest.Devices(2, drivertest.T4()),
		Version: []driver.Version{11000, 13000}[chance.IntN(2)],
		Chaos: &drivertest.Chaos{Seed: seed, Failures: pick(0, 0, 0.01, 0.05), Sticky: pick(0, 0, 0, 0.05), Results: never,
			SlowWork: pick(0.05, 0.3), SlowCalls: 0.005, MaxDelay: 100 * time.Microsecond},
	})
	c.state = refs.NewState(0, refs.StateConfig{OnCleanup: func(err error) { c.explained("cleanup", err) }})
	return c
}

func (c *campaign) start() error {
	c.gpu.Init(0)
	var r driver.Result
	if c.host, r = c.gpu.DevicePrimaryCtxRetain(1); r != driver.Success {
		return driver.Failed("cuDevicePrimaryCtxRetain", r)
	}
	return c.open()
}

// open makes a world.
func (c *campaign) open() error {
	ctx, r := c.gpu.DevicePrimaryCtxRetain(0)
	if r != driver.Success {
		return driver.Failed("cuDevicePrimaryCtxRetain", r)
	}
	w := &world{}
	w.binding = &driver.Binding{API: c.gpu, Context: ctx, OnError: func(e *driver.Error) {
		if e.Sticky {
			c.state.Lose(e)
			if w.arena != nil {
				w.arena.Lose(nil)
			}
		}
	}}
	var err error
	w.arena, err = arena.NewDevice(w.binding, arena.DeviceConfig{Poison: c.seed%2 == 0, CacheBytes: []uint64{0, 4096}[c.seed/2%2]})
	if err == nil {
		c.world.Store(w)
	}
	return err
}

func (w *world) stream(c *campaign) (s *arena.Stream, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return nil, driver.Errorf(driver.ErrClosed, "the world is gone")
	}
	err = w.binding.Do(func() error {
		h, r := c.gpu.StreamCreate(driver.StreamNonBlocking)
		if r == driver.Success {
			w.streams = append(w.streams, h)
			s = w.arena.NewStream(h)
		}
		return w.binding.Failed("cuStreamCreate", r)
	})
	return s, err
}

// destroy destroys a stream of a world, unless that was taken down.
func (w *world) destroy(c *campaign, h driver.Stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return
	}
	w.streams = slices.DeleteFunc(w.streams, func(o driver.Stream) bool { return o == h })
	c.gpu.StreamDestroy(h)
}

// takeDown ends a world. Nobody has a lease.
func (c *campaign) takeDown(w *world) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
	_ = w.arena.Close() // with what is left in use
	c.lost += w.arena.Stats().LostBlocks
	for _, h := range w.streams {
		c.gpu.StreamSynchronize(h)
		c.gpu.StreamDestroy(h)
	}
	c.gpu.DevicePrimaryCtxRelease(0)
}

// inUse compares what the arena has in use with what the state knows. Nothing is allocated
// or freed meanwhile, but the garbage collector may find a handle of an older world: until it
// is reclaimed its memory waits, and is in no arena. It finds many one after the other, so that
// this looks again until it is through with them.
func (c *campaign) inUse(w *world) {
	var wrong string
	for look := range 50 {
		if look > 5 {
			time.Sleep(time.Millisecond)
		}
		c.state.Reclaim()
		stats, has := c.state.Stats(), w.arena.Stats()
		knows := stats.LiveBytes + stats.WaitingBytes + stats.LeakedBytes - c.leakedOld
		if has.Requested == knows || c.state.Lost() != nil || c.dropped.Load() || c.gpu.Sticky() != driver.Success {
			return
		}
		wrong = fmt.Sprintf("the arena has %d bytes in use, and the state knows %d: %+v", has.Requested, knows, stats)
	}
	c.fail("%s", wrong)
}

// control changes the state while the goroutines work.
func (c *campaign) control(chance *rand.Rand) {
	for !c.done.Load() {
		time.Sleep(time.Duration(chance.IntN(6000)) * time.Microsecond)
		switch chance.IntN(12) {
		case 0, 1, 2, 3:
			c.rebuild(chance)
		case 4:
			if c.seed%5 == 0 {
				c.state.Lose(driver.Failed("cuStreamSynchronize", driver.ResultLaunchFailed))
				c.world.Load().arena.Lose(nil)
			}
		case 5:
			if c.seed%7 == 0 {
				c.dropped.Store(true)
				c.state.Close()
			}
		case 6:
			c.state.Reclaim()
		}
	}
}

func (c *campaign) rebuild(chance *rand.Rand) {
	c.shutdowns.Add(1)
	c.state.Suspend()
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+chance.IntN(50))*time.Millisecond)
	defer cancel()
	err := c.state.Drain(ctx)
	if c.state.Status() == refs.Lost || c.state.Status() == refs.Closed {
		return
	}
	w := c.world.Load()
	if err == nil && c.state.Status() == refs.Drained {
		c.inUse(w)
	}
	if err != nil || chance.IntN(3) == 0 {
		if !errors.Is(err, context.DeadlineExceeded) && err != nil {
			c.fail("drain: %v", err)
		}
		c.tally.resumes.Add(1)
		c.state.Resume()
		return
	}
	c.takeDown(w)
	c.leakedOld = c.state.Stats().LeakedBytes
	if err := c.open(); err != nil {
		c.explained("open", err)
		return
	}
	if err := c.state.Rebuild(); err == nil {
		c.tally.rebuilds.Add(1)
	}
}

// finish closes what is left and accounts for every block.
func (c *campaign) finish() error {
	c.state.Resume()
	for _, x := range c.shared {
		for _, r := range x.refs {
			c.explained("close", r.Close())
		}
		x.refs = nil
	}
	c.shared = nil
	deadline := time.Now().Add(20 * time.Second)
	for s := c.state.Stats(); s.Live+s.Stale > 0 && time.Now().Before(deadline); s = c.state.Stats() { // those that were forgotten
		collectNow()
		c.state.Reclaim()
	}
	c.state.Reclaim()
	w := c.world.Load()
	c.inUse(w)
	s := c.state.Stats()
	if s.Live != 0 || s.Stale != 0 || s.Waiting != 0 || s.Leases != 0 {
		return fmt.Errorf("left over: %+v", s)
	}
	var causes uint64
	for _, n := range c.causes {
		causes += n
	}
	if causes != s.Leaked {
		return fmt.Errorf("%d leaks, with causes %v", s.Leaked, c.causes)
	}
	c.state.Close()
	if c.gpu.Sticky() == driver.Success {
		c.takeDown(w)
		_ = withContext(c, func() {
			for _, p := range c.targets {
				c.gpu.MemFreeHost(p)
			}
		})
		c.gpu.DevicePrimaryCtxRelease(1)
		if s.Leaked == 0 && c.lost == 0 && s.Gone == 0 {
			for _, leak := range c.gpu.Leaks() { // an event that cannot be destroyed is no matter of memory
				if strings.Contains(leak, "bytes of device memory") {
					return fmt.Errorf("a leak that is not counted: %s", leak)
				}
			}
		}
	}
	return nil
}

func withContext(c *campaign, f func()) error {
	b := &driver.Binding{API: c.gpu, Context: c.host, Ordinal: 1}
	return b.Do(func() error { f(); return nil })
}

// target is page-locked memory that outlives all worlds.
func (c *campaign) target(n int) *target {
	var p unsafe.Pointer
	_ = withContext(c, func() { p, _ = c.gpu.MemHostAlloc(uint64(n)*4, driver.HostAllocPortable) })
	if p == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.targets = append(c.targets, p)
	return &target{unsafe.Slice((*uint32)(p), n)}
}

func (c *campaign) sum(t *tally) {
	s := c.state.Stats()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.allocated += s.Live + s.Stale + s.Waiting + s.Freed + s.Leaked + s.Gone
	t.freed += s.Freed
	t.leaked += s.Leaked
	t.gone += s.Gone
	if t.causes == nil {
		t.causes = map[string]uint64{}
	}
	for cause, n := range c.causes {
		t.causes[cause] += n
	}
	t.reads += c.tally.reads.Load()
	t.stale += c.tally.stale.Load()
	t.faults += uint64(len(c.gpu.Injected()))
	t.rebuilds += c.tally.rebuilds.Load()
	t.resumes += c.tally.resumes.Load()
	t.forgot += c.tally.forgot.Load()
	t.closed += c.tally.closed.Load()
	t.unproven += c.tally.unproven.Load()
	if c.state.Lost() != nil {
		t.lost++
	}
	if c.dropped.Load() {
		t.dropped++
	}
}
