package runtime_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// Goroutines submit work of another library with Refs and handles, capture it, and close both, while
// others reset and at last close the runtime. A handle that is used is never destroyed, and each is
// destroyed once, in its own context, unless CUDA is lost. Memory has what was written last.
func TestForeignWorkBesideEverything(t *testing.T) {
	var sum foreignTally
	seeds.Run(t, seeds.Count(10, 60, 10), func(seed uint64) *foreignWorld { return newForeignWorld(t, seed, &sum) })
	t.Logf("%d submits, %d refused, %d handles, %d resets, %d contents compared",
		sum.submits.Load(), sum.refused.Load(), sum.handles.Load(), sum.resets.Load(), sum.compared.Load())
}

type foreignTally struct{ submits, refused, handles, resets, compared atomic.Uint64 }

// foreignWorld is one machine.
type foreignWorld struct {
	seed  uint64
	rt    *runtime.Runtime
	gpu   *drivertest.Driver
	tally *foreignTally
	loss  bool

	// shared is the handle of one of the users, which others use while it closes it.
	shared atomic.Pointer[foreignPair]

	mu    sync.Mutex
	made  []*foreignHandle
	wrong []error
}

// foreignPair is a handle and what the other library has for it.
type foreignPair struct {
	h   *runtime.LibraryHandle
	own *foreignHandle
}

// foreignHandle is what the other library has: it knows when it is used wrongly.
type foreignHandle struct {
	context   driver.Context // that it was made in
	using     atomic.Int64
	destroyed atomic.Int64
}

func newForeignWorld(t *testing.T, seed uint64, sum *foreignTally) *foreignWorld {
	chance := rand.New(rand.NewPCG(seed, 0xf0e))
	gpu := drivertest.New(drivertest.Config{
		Devices: drivertest.Devices(1, drivertest.T4()),
		Version: []driver.Version{11040, 12020, 13000}[chance.IntN(3)],
		Chaos:   &drivertest.Chaos{Seed: seed, SlowWork: 0.2, SlowCalls: 0.01, MaxDelay: 50 * time.Microsecond},
	})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	w := &foreignWorld{seed: seed, rt: rt, gpu: gpu, tally: sum, loss: chance.IntN(6) == 0}
	if w.loss {
		gpu.Fail("cuMemsetD32Async", 1+chance.IntN(100), driver.ResultIllegalAddress)
	}
	return w
}

// Describe implements [seeds.Program].
func (w *foreignWorld) Describe() string { return "" }

func (w *foreignWorld) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 5 {
		w.wrong = append(w.wrong, fmt.Errorf(format, args...))
	}
}

// Run implements [seeds.Program].
func (w *foreignWorld) Run() error {
	c, err := w.rt.Context(0)
	if err != nil {
		return err
	}
	var users, others sync.WaitGroup
	for g := range uint64(8) {
		users.Go(func() {
			u := &foreignUser{foreignWorld: w, c: c, chance: rand.New(rand.NewPCG(w.seed, g))}
			for range 100 {
				u.step()
			}
			if u.chance.IntN(2) == 0 { // otherwise the context ends what is left
				u.end()
			}
		})
	}
	stop := make(chan struct{})
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
			if err := c.Reset(bg); err == nil {
				w.tally.resets.Add(1)
			} else {
				w.explained("reset", err)
			}
		}
	})
	users.Wait()
	close(stop)
	others.Wait()
	w.wrong = append(w.wrong, w.rt.Close(), w.gpu.Close())
	for _, h := range w.made {
		if n := h.destroyed.Load(); n > 1 || n == 0 && w.gpu.Sticky() == driver.Success {
			w.wrong = append(w.wrong, fmt.Errorf("a handle was destroyed %d times", n))
		}
	}
	for _, f := range w.gpu.Findings() {
		w.wrong = append(w.wrong, fmt.Errorf("the driver found a mistake: %v", f))
	}
	return errors.Join(w.wrong...)
}

// explained tells whether a call has failed, and checks that it may.
func (w *foreignWorld) explained(what string, err error) (failed bool) {
	switch {
	case err == nil:
		return false
	case errors.Is(err, driver.ErrRefStale), errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrCaptureFailed):
	case (errors.Is(err, driver.ErrDeviceLost) || errors.Is(err, driver.ResultIllegalAddress)) && w.loss:
	default:
		w.fail("%s: nothing explains %v", what, err)
	}
	w.tally.refused.Add(1)
	return true
}

// foreignUser is one goroutine with a stream, a memory and a handle, which are made again when they are gone.
type foreignUser struct {
	*foreignWorld
	c      *runtime.Context
	chance *rand.Rand
	s      *runtime.Stream
	x      *runtime.Ref[uint32]
	h      *runtime.LibraryHandle
	own    *foreignHandle // of h
	value  uint32         // of all elements, or 0 if it is not known
}

const foreignElements = 64

// begin makes what is not there.
func (u *foreignUser) begin() bool {
	var err error
	if u.s == nil {
		if u.s, err = u.c.NewStream(); u.explained("stream", err) {
			u.s = nil
			return false
		}
	}
	if u.x == nil {
		u.value = 0
		if u.x, err = runtime.Alloc[uint32](u.s, foreignElements); u.explained("alloc", err) {
			u.x = nil
			return false
		}
	}
	if u.h == nil {
		u.h, err = u.c.NewLibraryHandle("create", u.create)
		if u.explained("handle", err) {
			u.h = nil
			return false
		}
		u.shared.Store(&foreignPair{u.h, u.own})
	}
	return true
}

// create must not keep u, whose handle would never be found.
func (u *foreignUser) create() (func() error, error) {
	w, own := u.foreignWorld, new(foreignHandle)
	own.context, _ = w.gpu.CtxGetCurrent()
	u.own = own
	w.mu.Lock()
	w.made = append(w.made, own)
	w.mu.Unlock()
	w.tally.handles.Add(1)
	return func() error {
		if own.using.Load() != 0 {
			w.fail("a handle is destroyed while it is used")
		}
		if current, r := w.gpu.CtxGetCurrent(); r == driver.Success && current != own.context {
			w.fail("a handle of context %#x is destroyed in %#x", own.context, current)
		}
		own.destroyed.Add(1)
		return nil
	}, nil
}

// end closes what is there, in any order.
func (u *foreignUser) end() {
	var all []interface{ Close() error }
	if u.s != nil {
		all = append(all, u.s)
	}
	if u.x != nil {
		all = append(all, u.x)
	}
	if u.h != nil {
		all = append(all, u.h)
	}
	u.chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, o := range all {
		u.explained("close", o.Close())
	}
	u.s, u.x, u.h = nil, nil, nil
}

func (u *foreignUser) step() {
	if !u.begin() { // a Reset goes on
		u.end()
		time.Sleep(50 * time.Microsecond)
		return
	}
	switch u.chance.IntN(8) {
	case 0:
		u.end()
	case 1:
		u.explained("close", u.h.Close())
		u.h = nil
	case 2: // on another stream than before
		u.explained("close", u.s.Close())
		u.s = nil
	case 3:
		u.capture()
	case 4, 5:
		u.read()
	default:
		if u.submit(u.s, u.chance.Uint32()|1) != nil {
			u.end()
		}
	}
}

// submit fills the memory.
func (u *foreignUser) submit(s *runtime.Stream, v uint32) error {
	h, own := u.h, u.own
	if other := u.shared.Load(); other != nil && u.chance.IntN(2) == 0 {
		h, own = other.h, other.own
	}
	slow := u.chance.IntN(4) == 0
	ran := false
	err := s.Submit("fill", func(stream driver.Stream, at []driver.DevicePtr) error {
		ran = true
		own.using.Add(1)
		defer own.using.Add(-1)
		if own.destroyed.Load() != 0 {
			u.fail("a handle is used that was destroyed")
		}
		if current, r := u.gpu.CtxGetCurrent(); r == driver.Success && current != own.context {
			u.fail("a handle of context %#x is used in %#x", own.context, current)
		}
		if slow {
			time.Sleep(100 * time.Microsecond)
		}
		return failure(u.gpu.MemsetD32Async(at[1], v, foreignElements, stream))
	}, h.Arg(), runtime.InOut(u.x))
	if ran && err != nil {
		u.value = 0
	}
	if u.explained("submit", err) {
		return err
	}
	u.tally.submits.Add(1)
	u.value = v
	return nil
}

// capture runs a graph of foreign work, which may keep the handle after its Close.
func (u *foreignUser) capture() {
	v := u.chance.Uint32() | 1
	before := u.value
	g, err := u.s.Capture(func(s *runtime.Stream) error { return u.submit(s, v) })
	u.value = before
	if u.explained("capture", err) {
		u.end()
		return
	}
	defer func() { u.explained("close", g.Close()) }()
	if u.chance.IntN(2) == 0 {
		u.explained("close", u.h.Close())
		u.h = nil
	}
	x, err := g.Instantiate()
	if u.explained("instantiate", err) {
		return
	}
	defer func() { u.explained("close", x.Close()) }()
	u.value = 0
	if !u.explained("launch of a graph", x.Launch(u.s)) {
		u.value = v
	}
}

// read compares the content.
func (u *foreignUser) read() {
	got := make([]uint32, foreignElements)
	if u.explained("download", runtime.Download(bg, u.s, got, u.x)) {
		u.end()
		return
	}
	if u.value == 0 {
		return
	}
	u.tally.compared.Add(1)
	if i := slices.IndexFunc(got, func(v uint32) bool { return v != u.value }); i >= 0 {
		u.fail("element %d is %d, want %d", i, got[i], u.value)
	}
}
