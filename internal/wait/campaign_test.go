package wait

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
)

// The campaign waits, gives waits up, closes streams, resets and loses devices at random, on
// simulated drivers that are old, slow or failing. See package seeds for its variables.
func TestCampaign(t *testing.T) {
	before := goruntime.NumGoroutine()
	seeds.Run(t, 40, func(seed uint64) *world { return newWorld(t, seed) })
	poll(t, "goroutines are left", func() bool { return goruntime.NumGoroutine() <= before })
}

// world is one run.
type world struct {
	*machine
	chance  *rand.Rand
	seed    uint64
	failing bool           // calls fail, or a device may
	lives   []sync.RWMutex // of the devices: held for writing by a reset
	pending atomic.Int64   // functions that have neither run nor been stopped
	kinds   Config
}

// numbered is a test whose failures name the seed.
type numbered struct {
	testing.TB
	seed uint64
}

func (n numbered) Errorf(format string, args ...any) {
	n.TB.Errorf("seed %d (PURECUDA_SEED=%d repeats it): %s", n.seed, n.seed, fmt.Sprintf(format, args...))
}

var errReset = driver.Errorf(driver.ErrRefStale, "context rebuilt")

func newWorld(t *testing.T, seed uint64) *world {
	chance := rand.New(rand.NewPCG(seed, 1))
	pick := func(n ...int) int { return n[chance.IntN(len(n))] }
	config := drivertest.Config{
		Devices:     drivertest.Devices(2, drivertest.H100()),
		Version:     driver.Version(pick(11000, 11080, 12020, 13000)),
		Connections: pick(0, 0, 1, 8, 32),
		Chaos:       &drivertest.Chaos{Seed: seed, SlowWork: 0.2, SlowCalls: 0.02, MaxDelay: 300 * time.Microsecond},
	}
	failing := chance.IntN(3) == 0
	if failing {
		config.Chaos.Failures = 0.01
		config.Chaos.Sticky = 0.1
		config.Chaos.Results = map[string][]driver.Result{}
		for _, op := range []string{"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease", "cuCtxPushCurrent", "cuCtxPopCurrent",
			"cuDeviceGetAttribute", "cuDeviceGet", "cuInit", "cuDeviceGetCount", "cuStreamDestroy", "cuEventDestroy",
			"cuMemFreeHost", "cuCtxSynchronize", "cuThreadExchangeStreamCaptureMode"} {
			config.Chaos.Results[op] = nil
		}
	}
	m := &machine{TB: numbered{t, seed}, gpu: drivertest.New(config), poller: new(Poller), quiet: failing}
	return &world{machine: m, chance: chance, seed: seed, failing: failing, lives: make([]sync.RWMutex, 2),
		kinds: Config{MaxBytes: uint64(pick(0, 0, pageBytes)), NoWrites: chance.IntN(8) == 0}}
}

// Describe implements [seeds.Program].
func (w *world) Describe() string { return fmt.Sprintf("calls fail: %t; %+v", w.failing, w.kinds) }

// Run implements [seeds.Program].
func (w *world) Run() error {
	m, chance := w.machine, w.chance
	m.ok(m.gpu.Init(0))
	for ordinal := range 2 {
		m.devices = append(m.devices, m.open(ordinal, w.kinds))
	}
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() { w.work(worker) })
	}
	if ordinal := chance.IntN(4); ordinal < 2 {
		group.Go(func() { w.reset(ordinal) })
	}
	if w.failing && chance.IntN(3) == 0 {
		time.Sleep(time.Duration(chance.IntN(3000)) * time.Microsecond)
		m.gpu.Vanish(chance.IntN(2))
	}
	group.Wait()
	m.close()
	poll(w, "functions did not run", func() bool { return w.pending.Load() == 0 })
	poll(w, "the poller spins", func() bool { return m.poller.spinning.Load() == 0 })
	if !w.failing {
		assert.Empty(w, m.gpu.Findings())
		assert.Empty(w, m.gpu.Leaks())
	}
	return m.gpu.Close()
}

// work uses streams of one device after the other.
func (w *world) work(worker int) {
	chance := rand.New(rand.NewPCG(w.seed, uint64(worker+2)))
	for range 3 {
		ordinal := chance.IntN(2)
		w.lives[ordinal].RLock()
		w.life(chance, ordinal)
		w.lives[ordinal].RUnlock()
	}
}

// life is that of a stream.
func (w *world) life(chance *rand.Rand, ordinal int) {
	d := w.devices[ordinal]
	var handle driver.Stream
	if d.binding.Do(func() error {
		var r driver.Result
		handle, r = w.gpu.StreamCreate(driver.StreamNonBlocking)
		return d.binding.Failed("cuStreamCreate", r)
	}) != nil {
		return
	}
	s := d.NewStream(handle)
	var ran atomic.Int64
	put := int64(0)
	for range 10 + chance.IntN(20) {
		switch chance.IntN(10) {
		case 0, 1, 2:
			length := time.Duration(chance.IntN(200)) * time.Microsecond
			if w.gpu.LaunchHostFunc(handle, func() { time.Sleep(length); ran.Add(1) }) == driver.Success {
				put++
			}
			s.Changed()
		case 3, 4, 5:
			w.check(s.Wait(background), nil, ran.Load() >= put)
		case 6:
			cause := errors.New("the caller has had enough")
			ctx, cancel := context.WithCancelCause(background)
			timer := time.AfterFunc(time.Duration(chance.IntN(300))*time.Microsecond, func() { cancel(cause) })
			w.check(s.Wait(ctx), cause, ran.Load() >= put)
			timer.Stop()
			cancel(nil)
		case 7:
			w.pending.Add(1)
			var times atomic.Int32
			want := put
			stop := s.AfterFunc(func(err error) {
				assert.EqualValues(w, 1, times.Add(1))
				w.check(err, nil, ran.Load() >= want)
				w.pending.Add(-1)
			})
			if chance.IntN(3) == 0 && stop() {
				assert.Zero(w, times.Load())
				w.pending.Add(-1)
			}
		case 8:
			var group sync.WaitGroup
			want := put
			for range 4 {
				group.Go(func() { w.check(s.Wait(background), nil, ran.Load() >= want) })
			}
			group.Wait()
		case 9:
			s.Suspend()
			goruntime.Gosched()
			s.Resume()
		}
	}
	s.Close()
	w.gpu.StreamDestroy(handle)
}

// check checks how a wait ended: done says that the work before it was.
func (w *world) check(err, cause error, done bool) {
	switch {
	case err == nil:
		assert.True(w, done, "the wait ended before the work")
	case cause != nil && errors.Is(err, cause), errors.Is(err, errReset), errors.Is(err, errEnd):
	default:
		assert.True(w, w.failing, "unexpected: %v", err)
	}
}

// reset gives a device a new generation, while functions of the old one may still wait.
func (w *world) reset(ordinal int) {
	w.lives[ordinal].Lock()
	defer w.lives[ordinal].Unlock()
	d := w.devices[ordinal]
	d.Close(errReset)
	w.end(d)
	if w.failing { // the new one might not open
		if ctx, r := w.gpu.DevicePrimaryCtxRetain(driver.Device(ordinal)); r == driver.Success {
			b := &driver.Binding{API: w.gpu, Context: ctx, Ordinal: ordinal}
			if next, err := w.poller.Open(b, w.kinds); err == nil {
				w.devices[ordinal] = next
			}
		}
		return
	}
	w.devices[ordinal] = w.open(ordinal, w.kinds)
}
