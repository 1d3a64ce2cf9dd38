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

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// Goroutines grow, write, read, capture and close the same Growables, while calls of the driver fail, memory is short and
// others reset the context. Each has a part that it alone writes: it reads what it wrote, whatever became of the rest.
// Nothing leaks that the driver takes back.
func TestGrowablesBesideEverything(t *testing.T) {
	var sum growTally
	seeds.Run(t, seeds.Count(6, 40, 6), func(seed uint64) *growWorld { return newGrowWorld(t, seed, &sum) })
	t.Logf("%d made, %d grown, %d refused, %d resets, %d faults, %d parts compared",
		sum.made.Load(), sum.grown.Load(), sum.refused.Load(), sum.resets.Load(), sum.faults.Load(), sum.compared.Load())
}

type growTally struct{ made, grown, refused, resets, faults, compared atomic.Uint64 }

const (
	growUsers  = 6
	growPart   = 64
	growStride = pageElements - growPart/2 // from one part to the next, so that some lie on two pages
)

// growWorld is one machine, with Growables that all users share.
type growWorld struct {
	seed  uint64
	rt    *runtime.Runtime
	gpu   *drivertest.Driver
	tally *growTally
	loss  bool
	slots [3]atomic.Pointer[runtime.Growable[uint32]]

	mu    sync.Mutex
	wrong []error
}

func newGrowWorld(t *testing.T, seed uint64, sum *growTally) *growWorld {
	chance := rand.New(rand.NewPCG(seed, 0x960))
	device := drivertest.T4()
	device.Memory = 56 << 20
	gpu := drivertest.New(drivertest.Config{
		Devices: []drivertest.DeviceConfig{device},
		Version: []driver.Version{11040, 12020, 13000}[chance.IntN(3)],
		Chaos:   &drivertest.Chaos{Seed: seed, SlowWork: 0.2, SlowCalls: 0.01, MaxDelay: 50 * time.Microsecond},
	})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu),
		runtime.WithMemory(arena.DeviceConfig{NoPools: chance.IntN(4) == 0, Limit: uint64(chance.IntN(2)) * 48 << 20}))
	require.NoError(t, err)
	w := &growWorld{seed: seed, rt: rt, gpu: gpu, tally: sum, loss: chance.IntN(6) == 0}
	if w.loss {
		gpu.Fail("cuMemsetD32Async", 1+chance.IntN(60), driver.ResultIllegalAddress)
	}
	for _, op := range append(givingBack, "cuMemAddressReserve", "cuMemCreate", "cuMemMap", "cuMemSetAccess") {
		if chance.IntN(3) > 0 {
			continue
		}
		for range 1 + chance.IntN(3) {
			gpu.Fail(op, 1+chance.IntN(20), []driver.Result{driver.ResultUnknown, driver.ResultOutOfMemory}[chance.IntN(2)])
		}
	}
	return w
}

// givingBack are the calls after whose failure something stays with the driver.
var givingBack = []string{"cuMemRelease", "cuMemUnmap", "cuMemAddressFree"}

// Describe implements [seeds.Program].
func (w *growWorld) Describe() string { return fmt.Sprint(w.gpu.Injected()) }

func (w *growWorld) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 5 {
		w.wrong = append(w.wrong, fmt.Errorf(format, args...))
	}
}

// Run implements [seeds.Program].
func (w *growWorld) Run() error {
	c, err := w.rt.Context(0)
	if err != nil {
		return err
	}
	var users, others sync.WaitGroup
	for g := range uint64(growUsers) {
		users.Go(func() {
			u := &growUser{growWorld: w, c: c, number: int(g), chance: rand.New(rand.NewPCG(w.seed, g))}
			for range 150 {
				u.step()
			}
			if u.chance.IntN(2) == 0 { // otherwise the context ends what is left
				u.forget()
			}
		})
	}
	stop := make(chan struct{})
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if !w.explained("reset", c.Reset(bg)) {
				w.tally.resets.Add(1)
			}
		}
	})
	users.Wait()
	close(stop)
	others.Wait()
	held := c.Stats().Memory
	if held.Held != held.InUse+held.Cached || held.InUse > 1<<40 || held.Cached > 1<<40 {
		w.fail("the figures do not fit: %+v", held)
	}
	w.explained("close", w.rt.Close())
	leaks := w.gpu.Leaks()
	w.tally.faults.Add(uint64(len(w.gpu.Injected())))
	w.wrong = append(w.wrong, w.gpu.Close())
	for _, f := range w.gpu.Findings() {
		w.wrong = append(w.wrong, fmt.Errorf("the driver found a mistake: %v", f))
	}
	stays := slices.ContainsFunc(w.gpu.Injected(), func(i drivertest.Injection) bool { return slices.Contains(givingBack, i.Op) })
	if !stays && w.gpu.Sticky() == driver.Success && len(leaks) > 0 {
		w.wrong = append(w.wrong, fmt.Errorf("leaked: %s", strings.Join(leaks, "; ")))
	}
	return errors.Join(w.wrong...)
}

// explained tells whether a call has failed, and checks that it may.
func (w *growWorld) explained(what string, err error) (failed bool) {
	switch {
	case err == nil:
		return false
	case errors.Is(err, driver.ErrRefStale), errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrOutOfMemory),
		errors.Is(err, driver.ErrCaptureFailed):
	case errors.Is(err, driver.ResultUnknown) && len(w.gpu.Injected()) > 0:
	case strings.Contains(err.Error(), "cannot grow any more") && len(w.gpu.Injected()) > 1:
	case (errors.Is(err, driver.ErrDeviceLost) || errors.Is(err, driver.ResultIllegalAddress)) && w.loss:
	default:
		w.fail("%s: nothing explains %v", what, err)
	}
	w.tally.refused.Add(1)
	return true
}

// growUser is one goroutine, with a part of each Growable.
type growUser struct {
	*growWorld
	c      *runtime.Context
	number int
	chance *rand.Rand
	s      *runtime.Stream
	part   *runtime.Ref[uint32] // of the last one that it wrote: a Retain
	value  uint32               // of all elements of part
}

func (u *growUser) step() {
	if u.s == nil {
		s, err := u.c.NewStream()
		if u.explained("stream", err) {
			time.Sleep(200 * time.Microsecond) // for a Reset
			return
		}
		u.s = s
	}
	at := &u.slots[u.chance.IntN(len(u.slots))]
	g := at.Load()
	if g == nil {
		made, err := runtime.AllocGrowable[uint32](u.c, growUsers*growStride)
		if u.explained("make", err) {
			u.forgetStale(err)
			return
		}
		u.tally.made.Add(1)
		if !at.CompareAndSwap(nil, made) {
			u.explained("close", made.Close())
		}
		return
	}
	from := u.number * growStride
	switch u.chance.IntN(10) {
	case 0:
		at.CompareAndSwap(g, nil)
		u.explained("close", g.Close())
	case 1, 2, 3:
		n := u.chance.IntN(g.Cap() + 1)
		before := g.Len()
		switch err := g.Grow(n); {
		case u.explained("grow", err):
			if gone(err) {
				at.CompareAndSwap(g, nil)
			}
		case g.Len() < max(n, before):
			u.fail("%d elements after Grow(%d) of %d", g.Len(), n, before)
		default:
			u.tally.grown.Add(1)
		}
	case 4, 5:
		if g.Len() >= from+growPart {
			if u.write(g.Ref().Slice(from, from+growPart)) {
				at.CompareAndSwap(g, nil)
			}
		}
	default:
		u.compare()
	}
}

// write writes the user's part, and keeps it. It reports whether that is gone.
func (u *growUser) write(mine *runtime.Ref[uint32]) bool {
	u.forgetPart()
	part := mine.Retain()
	value := u.chance.Uint32()
	fill := func(s *runtime.Stream) error { return runtime.Fill(s, part, value) }
	var err error
	if u.chance.IntN(4) == 0 {
		err = u.launch(fill)
	} else {
		err = fill(u.s)
	}
	if u.explained("write", err) {
		u.explained("close", part.Close())
		u.forgetStale(err)
		return gone(err)
	}
	u.part, u.value = part, value
	return false
}

// launch runs work as a graph.
func (u *growUser) launch(f func(*runtime.Stream) error) error {
	g, err := u.s.Capture(f)
	if err != nil {
		return err
	}
	x, err := g.Instantiate()
	if err != nil {
		return errors.Join(err, g.Close())
	}
	return errors.Join(x.Launch(u.s), x.Close(), g.Close())
}

// compare reads what the user has written last.
func (u *growUser) compare() {
	if u.part == nil {
		return
	}
	got := make([]uint32, growPart)
	if err := runtime.Download(bg, u.s, got, u.part); u.explained("read", err) {
		u.forgetStale(err)
		return
	}
	u.tally.compared.Add(1)
	if i := slices.IndexFunc(got, func(v uint32) bool { return v != u.value }); i >= 0 {
		u.fail("element %d of part %d is %d, want %d", i, u.number, got[i], u.value)
	}
}

// forgetStale drops what is of a context that is gone.
func (u *growUser) forgetStale(err error) {
	if gone(err) {
		u.forget()
	}
}

func gone(err error) bool {
	return errors.Is(err, driver.ErrRefStale) || errors.Is(err, driver.ErrClosed) || errors.Is(err, driver.ErrDeviceLost)
}

func (u *growUser) forget() {
	u.forgetPart()
	if u.s != nil {
		u.explained("close", u.s.Close())
		u.s = nil
	}
}

func (u *growUser) forgetPart() {
	if u.part != nil {
		u.explained("close", u.part.Close())
		u.part = nil
	}
}
