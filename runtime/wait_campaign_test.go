package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// 64 goroutines wait for streams, events, contexts and copies, with and without a ctx that ends,
// register functions, capture and close, while the process is lost, a device vanishes, contexts are
// reset or the runtime closes. Each wait must end, with an error that explains itself and not before
// its work is done. Each function must run once. No goroutine may be left.
func TestWaitsBesideEverything(t *testing.T) {
	before := goruntime.NumGoroutine()
	var sum waitTally
	t.Run("simulated", func(t *testing.T) {
		seeds.Run(t, seeds.Count(15, 100, 15), func(seed uint64) *waitWorld { return simulatedWaits(t, seed, &sum) })
	})
	eventually(t, "no goroutine is left", func() bool { return goruntime.NumGoroutine() <= before })
	t.Logf("%s", &sum)
	t.Run("hardware", func(t *testing.T) {
		var sum waitTally
		rt := openOn(t, hardware.Open(t))
		seeds.Run(t, 20, func(seed uint64) *waitWorld { return &waitWorld{seed: seed, rt: rt, tally: &sum, vanishes: -1} })
		t.Logf("%s", &sum)
	})
}

func simulatedWaits(t *testing.T, seed uint64, sum *waitTally) *waitWorld {
	chance := rand.New(rand.NewPCG(seed, 0x3a17))
	config := drivertest.Config{
		Devices:     drivertest.Devices(2, drivertest.H100()),
		Version:     []driver.Version{11000, 11080, 12020, 13000}[chance.IntN(4)],
		Connections: []int{0, 1, 8, 32}[chance.IntN(4)],
		Chaos:       &drivertest.Chaos{Seed: seed, SlowWork: 0.2, SlowCalls: 0.01, MaxDelay: 200 * time.Microsecond},
	}
	gpu := drivertest.New(config)
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	w := &waitWorld{seed: seed, rt: rt, gpu: gpu, tally: sum, vanishes: -1}
	switch chance.IntN(6) {
	case 0:
		w.loss = true
		ops := []string{"cuStreamQuery", "cuEventQuery", "cuEventRecord", "cuMemcpyDtoHAsync", "cuLaunchHostFunc"}
		gpu.Fail(ops[chance.IntN(len(ops))], 1+chance.IntN(300), driver.ResultIllegalAddress)
	case 1:
		w.vanishes = chance.IntN(2)
	case 2:
		w.closes = true
	case 3, 4:
		w.resets = true
	}
	return w
}

// waitTally is what all seeds together have done.
type waitTally struct {
	waits, givenUp, functions, stopped, refused, stale, lost, gone, closed, resets atomic.Uint64
}

func (s *waitTally) String() string {
	return fmt.Sprintf("%d waits, %d given up; %d functions, %d stopped; %d calls refused for a capture, %d stale, %d lost, %d on a device that is gone, %d closed; %d resets",
		s.waits.Load(), s.givenUp.Load(), s.functions.Load(), s.stopped.Load(), s.refused.Load(), s.stale.Load(), s.lost.Load(), s.gone.Load(), s.closed.Load(), s.resets.Load())
}

// waitWorld is one machine and what the goroutines share.
type waitWorld struct {
	seed     uint64
	rt       *runtime.Runtime
	gpu      *drivertest.Driver // nil: hardware
	tally    *waitTally
	loss     bool // of the process
	vanishes int  // the device that does, or -1
	closes   bool
	resets   bool
	pending  atomic.Int64 // functions that have neither run nor been stopped

	mu     sync.Mutex
	wrong  []error
	events [2]*runtime.Event // that all use
}

// Describe implements [seeds.Program].
func (w *waitWorld) Describe() string {
	return fmt.Sprintf("loss %t, vanishes %d, closes %t, resets %t", w.loss, w.vanishes, w.closes, w.resets)
}

// Run implements [seeds.Program].
func (w *waitWorld) Run() error {
	var wg sync.WaitGroup
	for g := range uint64(64) {
		wg.Go(func() {
			u := &waitUser{waitWorld: w, at: int(g) % min(2, len(w.rt.Devices())), chance: rand.New(rand.NewPCG(w.seed, g))}
			u.run()
		})
	}
	chance := rand.New(rand.NewPCG(w.seed, 0xfa7e))
	moment := time.Duration(chance.IntN(10000)) * time.Microsecond
	if w.vanishes >= 0 {
		time.Sleep(moment)
		w.gpu.Vanish(w.vanishes)
	}
	if w.closes {
		time.Sleep(moment)
		w.explained("close the runtime", 0, w.rt.Close(), nil)
	}
	wg.Wait()
	for at, e := range w.events {
		if e != nil {
			w.explained("close", at, e.Close(), nil)
		}
	}
	for end := time.Now().Add(patience); w.pending.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.fail("%d functions have not run", w.pending.Load())
			break
		}
	}
	if w.gpu == nil {
		return errors.Join(w.wrong...)
	}
	w.explained("close the runtime", max(w.vanishes, 0), w.rt.Close(), nil)
	err := errors.Join(append(w.wrong, w.gpu.Close())...)
	for _, f := range w.gpu.Findings() {
		err = errors.Join(err, fmt.Errorf("the driver found a mistake: %v", f))
	}
	if leaks := w.gpu.Leaks(); w.gpu.Sticky() == driver.Success && w.vanishes < 0 && len(leaks) > 0 {
		err = errors.Join(err, fmt.Errorf("leaked: %v", leaks))
	}
	return err
}

func (w *waitWorld) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 5 {
		w.wrong = append(w.wrong, fmt.Errorf(format, args...))
	}
}

// explained reports whether a call about a device has failed, and checks that it may. cause is that of
// the ctx of the call.
func (w *waitWorld) explained(what string, device int, err, cause error) (failed bool) {
	switch {
	case err == nil:
		return false
	case cause != nil && errors.Is(err, cause):
		w.tally.givenUp.Add(1)
	case errors.Is(err, driver.ErrCaptureFailed):
		w.tally.refused.Add(1)
	case errors.Is(err, driver.ErrSymbolMissing): // an old driver
	case errors.Is(err, driver.ErrClosed): // by the user itself, or all
		w.tally.closed.Add(1)
	case errors.Is(err, driver.ErrRefStale) && (w.resets || w.closes):
		w.tally.stale.Add(1)
	case w.loss && errors.Is(err, driver.ErrDeviceLost) && errors.Is(err, driver.ResultIllegalAddress):
		w.tally.lost.Add(1)
	case w.vanishes == device && (errors.Is(err, driver.ErrDeviceLost) || errors.Is(err, driver.ResultUnknown)):
		w.tally.gone.Add(1)
	default:
		w.fail("%s: nothing explains %v", what, err)
	}
	return true
}

// waitUser is one goroutine with a stream and an event of its own.
type waitUser struct {
	*waitWorld
	at     int // the device
	chance *rand.Rand
	c      *runtime.Context
	s      *runtime.Stream
	e      *runtime.Event
	x      *runtime.Ref[uint32]
	put    int64         // calls that are on the stream
	ran    *atomic.Int64 // those that have run
}

func (u *waitUser) failed(what string, err error) bool { return u.explained(what, u.at, err, nil) }

func (u *waitUser) run() {
	for range 10 + u.chance.IntN(15) {
		if u.open() {
			u.step()
		}
	}
	if u.s != nil {
		u.leave()
	}
}

// open makes what is missing.
func (u *waitUser) open() bool {
	if u.s != nil && u.s.Context().State().Check(0) == nil {
		if _, err := u.s.Query(); err == nil || errors.Is(err, driver.ErrCaptureFailed) {
			return true
		}
		u.leave()
	}
	var err error
	if u.c, err = u.rt.Context(u.rt.Devices()[u.at].Ordinal); u.failed("context", err) {
		return false
	}
	u.at = u.c.Device().Ordinal
	if u.s, err = u.c.NewStream(); u.failed("stream", err) {
		u.s = nil
		return false
	}
	u.put, u.ran = 0, new(atomic.Int64)
	makes := []func() (*runtime.Event, error){u.c.NewEvent, u.c.NewTimingEvent, u.c.NewBlockingEvent}
	if u.e, err = makes[u.chance.IntN(3)](); u.failed("event", err) {
		u.leave()
		return false
	}
	if u.x, err = runtime.Alloc[uint32](u.s, 96); u.failed("alloc", err) {
		u.leave()
		return false
	}
	return true
}

func (u *waitUser) leave() {
	if u.x != nil {
		u.failed("close", u.x.Close())
	}
	if u.e != nil {
		u.failed("close", u.e.Close())
	}
	u.failed("close", u.s.Close())
	u.s, u.e, u.x = nil, nil, nil
}

var errEnough = errors.New("the caller has had enough")

// wait waits, as a rule with a ctx that may end, for what was put on the stream before.
func (u *waitUser) wait(what string, wait func(ctx context.Context) error) {
	u.tally.waits.Add(1)
	ctx, cause, cancel := bg, error(nil), func() {}
	if u.chance.IntN(2) == 0 {
		cause = errEnough
		ctx, cancel = context.WithTimeoutCause(bg, time.Duration(u.chance.IntN(500))*time.Microsecond, cause)
	}
	defer cancel()
	want, ran := u.put, u.ran
	if err := wait(ctx); !u.explained(what, u.at, err, cause) && ran.Load() < want {
		u.fail("%s has ended before the work", what)
	}
	if bytes := u.c.Stats().TicketBytes; bytes > 1<<20 {
		u.fail("%d bytes for tickets", bytes)
	}
}

func (u *waitUser) step() {
	switch u.chance.IntN(16) {
	case 0, 1, 2, 3:
		length, ran := time.Duration(u.chance.IntN(200))*time.Microsecond, u.ran
		if !u.failed("call", u.s.LaunchHostFunc(func() { time.Sleep(length); ran.Add(1) })) {
			u.put++
		}
	case 4, 5:
		u.wait("Stream.Synchronize", u.s.Synchronize)
	case 6, 7:
		u.after()
	case 8, 9:
		if !u.failed("record", u.e.Record(u.s)) {
			u.wait("Event.Synchronize", u.e.Synchronize)
		}
	case 10:
		u.shared()
	case 11:
		u.wait("Context.Synchronize", func(context.Context) error { return u.c.Synchronize() })
	case 12:
		u.copy()
	case 13:
		u.capture()
	case 14: // what is waited for is closed
		var group sync.WaitGroup
		recorded := !u.failed("record", u.e.Record(u.s))
		for _, wait := range []func(context.Context) error{u.s.Synchronize, u.e.Synchronize} {
			want, ran := u.put, u.ran
			group.Go(func() {
				if !u.failed("wait", wait(bg)) && recorded && ran.Load() < want {
					u.fail("a wait has ended before the work")
				}
			})
		}
		goruntime.Gosched()
		u.leave()
		group.Wait()
	case 15:
		if u.resets && u.chance.IntN(4) == 0 {
			ctx, cancel := context.WithTimeoutCause(bg, time.Duration(u.chance.IntN(3))*time.Millisecond, errEnough)
			if !u.explained("reset", u.at, u.c.Reset(ctx), errEnough) {
				u.tally.resets.Add(1)
			}
			cancel()
		}
	}
}

// after registers a function, and stops some.
func (u *waitUser) after() {
	u.tally.functions.Add(1)
	u.pending.Add(1)
	var times atomic.Int32
	want, ran, at := u.put, u.ran, u.at
	stop := u.s.AfterFunc(func(err error) {
		if times.Add(1) != 1 {
			u.fail("a function has run %d times", times.Load())
		}
		if !u.explained("AfterFunc", at, err, nil) && ran.Load() < want {
			u.fail("a function has run before the work was done")
		}
		u.pending.Add(-1)
	})
	if u.chance.IntN(3) == 0 && stop() {
		u.tally.stopped.Add(1)
		if times.Load() != 0 {
			u.fail("a function was stopped and has run")
		}
		u.pending.Add(-1)
	}
}

// shared records and awaits an event that all goroutines use.
func (u *waitUser) shared() {
	at := u.at % 2
	u.mu.Lock()
	e := u.events[at]
	u.mu.Unlock()
	if e == nil || e.Context().State().Check(0) != nil {
		var err error
		if e, err = u.c.NewEvent(); u.failed("event", err) {
			return
		}
		u.mu.Lock()
		u.events[at], e = e, u.events[at]
		u.mu.Unlock()
		if e != nil {
			u.failed("close", e.Close())
		}
		return
	}
	if u.chance.IntN(2) == 0 {
		u.failed("record", e.Record(u.s))
		return
	}
	put := u.put
	u.put = 0 // others may have recorded it last
	u.wait("Event.Synchronize of a shared event", e.Synchronize)
	u.put = put
}

// copy uploads and downloads, which waits as well.
func (u *waitUser) copy() {
	n := []int{96, 96, 100_000}[u.chance.IntN(3)]
	x := u.x
	if n != x.Len() {
		var err error
		if x, err = runtime.Alloc[uint32](u.s, n); u.failed("alloc", err) {
			return
		}
		defer func() { u.failed("close", x.Close()) }()
	}
	want, got := slices.Repeat([]uint32{u.chance.Uint32()}, n), make([]uint32, n)
	if u.failed("upload", runtime.Upload(bg, u.s, x, want)) {
		return
	}
	u.wait("Download", func(ctx context.Context) error {
		err := runtime.Download(ctx, u.s, got, x)
		if err == nil && !slices.Equal(want, got) {
			u.fail("a download has brought something else")
		}
		return err
	})
}

// capture captures the stream while functions wait for it.
func (u *waitUser) capture() {
	g, err := u.s.Capture(func(s *runtime.Stream) error {
		if u.chance.IntN(4) == 0 {
			return errors.Join(u.e.Record(s), s.Synchronize(bg))
		}
		return errors.Join(runtime.Zero(s, u.x), u.e.Record(s))
	})
	if !u.failed("capture", err) {
		u.failed("close", g.Close())
	}
	if !u.failed("record", u.e.Record(u.s)) {
		u.wait("Event.Synchronize", u.e.Synchronize)
	}
}
