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
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// 60 goroutines share a few streams, which some of them capture at any moment. The others upload,
// download, fill, launch, allocate, synchronize, close and reset meanwhile. Each memory belongs
// to one goroutine. Its content must be what was written last, or what was recorded in a graph of
// somebody else's and ran with it. A call may fail because of the capture, by that name.
func TestCapturesBesideEverything(t *testing.T) {
	t.Run("simulated", func(t *testing.T) {
		var sum captureTally
		seeds.Run(t, seeds.Count(6, 60, 6), func(seed uint64) *captureWorld { return simulatedCaptures(t, seed, &sum) })
		t.Logf("%s", &sum)
	})
	t.Run("hardware", func(t *testing.T) {
		var sum captureTally
		rt := openOn(t, hardware.Open(t))
		seeds.Run(t, 60, func(seed uint64) *captureWorld { return &captureWorld{seed: seed, rt: rt, tally: &sum} })
		t.Logf("%s", &sum)
	})
}

func simulatedCaptures(t *testing.T, seed uint64, sum *captureTally) *captureWorld {
	chance := rand.New(rand.NewPCG(seed, 0xca9))
	gpu := drivertest.New(drivertest.Config{
		Devices: drivertest.Devices(1+chance.IntN(2), drivertest.T4()),
		Version: []driver.Version{11000, 12020, 13000}[chance.IntN(3)],
		Chaos:   &drivertest.Chaos{Seed: seed, SlowWork: 0.2, SlowCalls: 0.01, MaxDelay: 50 * time.Microsecond},
	})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu),
		runtime.WithMemory(arena.DeviceConfig{Poison: chance.IntN(2) == 0}))
	require.NoError(t, err)
	w := &captureWorld{seed: seed, rt: rt, gpu: gpu, tally: sum, resets: chance.IntN(3) == 0}
	if chance.IntN(8) == 0 {
		w.loss = true
		ops := []string{"cuStreamSynchronize", "cuEventRecord", "cuStreamEndCapture", "cuStreamBeginCapture", "cuMemsetD32Async", "cuGraphLaunch"}
		gpu.Fail(ops[chance.IntN(len(ops))], 1+chance.IntN(200), driver.ResultIllegalAddress)
	}
	return w
}

// captureTally is what all seeds together have done.
type captureTally struct{ steps, refused, stale, lost, captures, failed, compared, nodes, resets atomic.Uint64 }

func (s *captureTally) String() string {
	return fmt.Sprintf("%d steps, %d refused for a capture, %d stale, %d lost; %d captures with %d operations, %d captures failed; %d contents compared, %d resets",
		s.steps.Load(), s.refused.Load(), s.stale.Load(), s.lost.Load(), s.captures.Load(), s.nodes.Load(), s.failed.Load(), s.compared.Load(), s.resets.Load())
}

const (
	captureGoroutines = 60
	captureStreams    = 4 // of each device
	captureElements   = 96
)

// captureWorld is one machine and what the goroutines share.
type captureWorld struct {
	seed   uint64
	rt     *runtime.Runtime
	gpu    *drivertest.Driver // nil: hardware
	tally  *captureTally
	resets bool
	loss   bool // may happen
	values atomic.Uint32
	places []*capturePlace

	mu    sync.Mutex
	wrong []error
}

// capturePlace is a device with the streams and the event that all goroutines use.
type capturePlace struct {
	c  *runtime.Context
	mu sync.RWMutex
	// guarded by mu
	streams []*runtime.Stream
	event   *runtime.Event
}

// Describe implements [seeds.Program].
func (w *captureWorld) Describe() string { return "" }

// Run implements [seeds.Program].
func (w *captureWorld) Run() error {
	w.work()
	if w.gpu == nil {
		return errors.Join(w.wrong...)
	}
	err := errors.Join(append(w.wrong, w.rt.Close(), w.gpu.Close())...)
	for _, f := range w.gpu.Findings() {
		err = errors.Join(err, fmt.Errorf("the driver found a mistake: %v", f))
	}
	if leaks := w.gpu.Leaks(); w.gpu.Sticky() == driver.Success && len(leaks) > 0 {
		err = errors.Join(err, fmt.Errorf("leaked: %v", leaks))
	}
	return err
}

func (w *captureWorld) work() {
	for at := range min(2, len(w.rt.Devices())) {
		c, err := w.rt.Context(w.rt.Devices()[at].Ordinal)
		if err != nil {
			w.explained("context", err)
			return
		}
		w.places = append(w.places, &capturePlace{c: c, streams: make([]*runtime.Stream, captureStreams)})
	}
	var wg sync.WaitGroup
	for g := range uint64(captureGoroutines) {
		wg.Go(func() {
			u := &captureUser{captureWorld: w, chance: rand.New(rand.NewPCG(w.seed, g))}
			u.place = w.places[u.chance.IntN(len(w.places))]
			for range 12 + u.chance.IntN(12) {
				w.tally.steps.Add(1)
				u.step()
			}
			u.leave()
		})
	}
	wg.Wait()
	for _, p := range w.places {
		for _, s := range p.streams {
			if s != nil {
				w.explained("close", s.Close())
			}
		}
		if p.event != nil {
			w.explained("close", p.event.Close())
		}
	}
}

func (w *captureWorld) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 5 {
		w.wrong = append(w.wrong, fmt.Errorf(format, args...))
	}
}

// explained reports whether a call has failed, and checks that it may.
func (w *captureWorld) explained(what string, err error) (failed bool) {
	switch {
	case err == nil:
		return false
	case errors.Is(err, driver.ErrCaptureFailed):
		w.tally.refused.Add(1)
	case errors.Is(err, driver.ErrClosed): // another goroutine has
	case errors.Is(err, driver.ErrSymbolMissing): // an old driver
	case errors.Is(err, driver.ErrRefStale) && w.resets:
		w.tally.stale.Add(1)
	case errors.Is(err, driver.ErrDeviceLost) && w.loss, errors.Is(err, driver.ResultIllegalAddress) && w.loss:
		w.tally.lost.Add(1)
	default:
		w.fail("%s: nothing explains %v", what, err)
	}
	return true
}

// captureUser is one goroutine, with memory of its own.
type captureUser struct {
	*captureWorld
	chance *rand.Rand
	place  *capturePlace
	x      *runtime.Ref[uint32]
	module *runtime.Module
	kernel *runtime.Kernel
	// All elements have the value last, if that is known, or one of the fills: a graph of somebody
	// else's may have recorded them, and runs at any time.
	last  uint32
	known bool
	fills []uint32
}

// stream is one of the shared streams, which is made where there is none.
func (u *captureUser) stream() *runtime.Stream {
	p, at := u.place, u.chance.IntN(captureStreams)
	p.mu.RLock()
	s := p.streams[at]
	p.mu.RUnlock()
	if s != nil && s.Context().State().Check(0) == nil {
		if _, err := s.Query(); !errors.Is(err, driver.ErrClosed) && !errors.Is(err, driver.ErrRefStale) {
			return s
		}
	}
	fresh, err := p.c.NewStream()
	if u.explained("stream", err) {
		return nil
	}
	p.mu.Lock()
	old := p.streams[at]
	p.streams[at] = fresh
	p.mu.Unlock()
	if old != nil {
		u.explained("close", old.Close())
	}
	return fresh
}

func (u *captureUser) step() {
	s := u.stream()
	if s == nil {
		time.Sleep(10 * time.Microsecond)
		return
	}
	if u.x == nil {
		x, err := runtime.Alloc[uint32](s, captureElements)
		if !u.explained("alloc", err) {
			u.x, u.known, u.fills = x, false, nil
		}
		return
	}
	switch u.chance.IntN(22) {
	case 0, 1, 2:
		v := u.values.Add(1)
		err := runtime.Upload(bg, s, u.x, slices.Repeat([]uint32{v}, captureElements))
		if !u.explained("upload", err) {
			u.last, u.known = v, true
		} else if !errors.Is(err, driver.ErrCaptureFailed) { // nothing was copied then
			u.known = false
		}
	case 3, 4, 5:
		v := u.values.Add(1)
		u.fills = append(u.fills, v)
		u.explained("fill", runtime.Fill(s, u.x, v))
	case 6, 7, 8:
		u.read(s)
	case 9, 10:
		u.launch(s)
	case 11, 12, 13, 14:
		u.capture(s)
	case 15: // what was filled is freed while its stream may be captured
		u.explained("fill", runtime.Fill(s, u.x, u.values.Add(1)))
		u.leave()
	case 16:
		u.explained("synchronize", s.Synchronize(bg))
	case 17:
		u.explained("synchronize a context", u.place.c.Synchronize())
	case 18:
		u.explained("trim", u.place.c.TrimMemory(0))
	case 19:
		u.host(s)
	case 20:
		if u.chance.IntN(4) == 0 {
			u.explained("close", s.Close())
		}
		u.event(s)
	case 21:
		if u.resets && u.chance.IntN(4) == 0 {
			err := u.place.c.Reset(bg)
			if err == nil {
				u.tally.resets.Add(1)
			} else if !errors.Is(err, driver.ErrInvalidArgument) { // a HostBuffer is open
				u.explained("reset", err)
			}
		}
	}
}

// read compares the content. All elements are written at once.
func (u *captureUser) read(s *runtime.Stream) {
	got := make([]uint32, captureElements)
	if u.explained("download", runtime.Download(bg, s, got, u.x)) || !u.known {
		return
	}
	u.tally.compared.Add(1)
	for i, v := range got {
		if v != got[0] || v != u.last && !slices.Contains(u.fills, v) {
			u.fail("element %d is %d beside %d, want %d or one of %v", i, v, got[0], u.last, u.fills)
			return
		}
	}
}

// launch adds nothing.
func (u *captureUser) launch(s *runtime.Stream) {
	if u.kernel == nil {
		m, err := u.place.c.CachedModule(runtime.Image{Code: kernelsPTX})
		if u.explained("module", err) {
			return
		}
		u.module = m
		if u.kernel, err = m.Kernel("add"); u.explained("kernel", err) {
			u.explained("close", m.Close())
			u.module, u.kernel = nil, nil
			return
		}
	}
	if err := addTo(u.kernel, s, u.x, 0); u.explained("launch", err) && !errors.Is(err, driver.ErrCaptureFailed) {
		u.explained("close", u.module.Close())
		u.module, u.kernel = nil, nil
	}
}

// capture records fills of memory of its own and runs them on another stream.
func (u *captureUser) capture(s *runtime.Stream) {
	other := u.stream()
	if other == nil {
		return
	}
	y, err := runtime.Alloc[uint32](other, captureElements)
	if u.explained("alloc", err) {
		return
	}
	defer func() { u.explained("close", y.Close()) }()
	v := u.values.Add(1)
	if u.explained("upload", runtime.Upload(bg, other, y, make([]uint32, captureElements))) {
		return
	}
	g, err := s.Capture(func(s *runtime.Stream) error {
		if u.chance.IntN(8) == 0 {
			time.Sleep(time.Duration(u.chance.IntN(200)) * time.Microsecond)
		}
		if u.chance.IntN(4) == 0 && other != s {
			if err := u.join(s, other, y); err != nil {
				return err
			}
		}
		return errors.Join(runtime.Zero(s, y), runtime.Fill(s, y, v))
	})
	if u.explained("capture", err) {
		u.tally.failed.Add(1)
		return
	}
	u.tally.captures.Add(1)
	defer func() { u.explained("close", g.Close()) }()
	x, err := g.Instantiate()
	if u.explained("instantiate", err) {
		return
	}
	defer func() { u.explained("close", x.Close()) }()
	if n, err := g.Nodes(); !u.explained("nodes", err) {
		u.tally.nodes.Add(uint64(n))
		if n < 2 {
			u.fail("the graph has %d operations, want 2 at least", n)
		}
	}
	if u.explained("launch of a graph", x.Launch(other)) {
		return
	}
	got := make([]uint32, captureElements)
	if u.explained("download", runtime.Download(bg, other, got, y)) {
		return
	}
	u.tally.compared.Add(1)
	if !slices.Equal(got, slices.Repeat([]uint32{v}, captureElements)) {
		u.fail("the graph has written %v, want %d", got[0], v)
	}
}

// join makes another stream take part in the capture for a fill.
func (u *captureUser) join(s, other *runtime.Stream, y *runtime.Ref[uint32]) error {
	e, err := u.place.c.NewEvent()
	if err != nil {
		return err
	}
	defer func() { u.explained("close", e.Close()) }()
	if err := errors.Join(e.Record(s), other.Wait(e), runtime.Fill(other, y, 1), e.Record(other)); err != nil {
		return err
	}
	return s.Wait(e)
}

// host copies by way of page-locked memory, which work may use that is recorded.
func (u *captureUser) host(s *runtime.Stream) {
	h, err := hostMemory[uint32](u.values.Load()%2 == 0, u.place.c, captureElements)
	if u.explained("alloc host", err) {
		return
	}
	v := u.values.Add(1)
	for i := range h.Data() {
		h.Data()[i] = v
	}
	u.fills = append(u.fills, v)
	u.explained("upload host", runtime.UploadHost(s, u.x, h))
	u.explained("close", h.Close())
}

// event records and waits for an event that all goroutines share.
func (u *captureUser) event(s *runtime.Stream) {
	p := u.place
	p.mu.Lock()
	e := p.event
	if e == nil || e.Context().State().Check(0) != nil {
		p.event = nil
		e, _ = p.c.NewEvent()
		p.event = e
	}
	p.mu.Unlock()
	if e == nil {
		return
	}
	if u.chance.IntN(2) == 0 {
		err := e.Record(s)
		if err != nil && strings.Contains(err.Error(), "InvalidArgument") {
			return // a stream of another place
		}
		u.explained("record", err)
		return
	}
	_, err := e.Query()
	u.explained("query", err)
}

func (u *captureUser) leave() {
	if u.x != nil {
		u.explained("close", u.x.Close())
	}
	if u.module != nil {
		u.explained("close", u.module.Close())
	}
	u.x, u.module, u.kernel = nil, nil, nil
}
