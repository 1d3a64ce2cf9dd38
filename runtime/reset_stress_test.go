package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

// 32 goroutines allocate, write, launch, copy, share and free memory and replay graphs, while
// the contexts are reset and the driver fails by chance, becomes unusable or loses a device.
// What is read must be what was written last, also where memory was freed, poisoned and
// used again; the driver must find no mistake, and so no access to what is gone; all memory
// must be accounted for; and nobody may hang. The seed decides about the machine, the
// faults and the program of each goroutine; how these meet is the scheduler's.
func TestResetStress(t *testing.T) {
	var sum stressTally
	seeds.Run(t, seeds.Count(60, 300, 25), func(seed uint64) *stress { return newStress(seed, &sum) })
	t.Logf("%s", &sum)
}

// stressTally is what all seeds together have done.
type stressTally struct {
	allocated, freed, leaked, gone, compared, refused, faults atomic.Uint64
	resets, givenUp, lost, devices, vanished, graphs          atomic.Uint64
}

func (t *stressTally) String() string {
	return fmt.Sprintf("%d blocks (%d freed, %d leaked on purpose, %d gone with their context), %d reads compared, "+
		"%d uses refused as stale, %d graphs launched, %d resets, %d given up, %d faults injected, "+
		"%d processes lost, %d devices lost in a reset, %d vanished",
		t.allocated.Load(), t.freed.Load(), t.leaked.Load(), t.gone.Load(), t.compared.Load(), t.refused.Load(), t.graphs.Load(),
		t.resets.Load(), t.givenUp.Load(), t.faults.Load(), t.lost.Load(), t.devices.Load(), t.vanished.Load())
}

// stress is one machine and what the goroutines share.
type stress struct {
	seed     uint64
	gpu      *drivertest.Driver
	rt       *runtime.Runtime
	contexts []*runtime.Context
	tally    *stressTally
	fragile  bool // calls fail that the books depend on

	done      atomic.Bool
	vanished  atomic.Bool
	allocated [2]atomic.Uint64
	ids       atomic.Uint64

	mu     sync.Mutex
	wrong  []error
	heard  []error // of what could not be given back
	shared []*stressed
}

// stressed is memory that goroutines share. Who uses it holds its lock, which settles the order.
type stressed struct {
	id   uint64 // the order of locks
	mu   sync.Mutex
	at   int                    // the device
	refs []*runtime.Ref[uint32] // open, as far as the program knows
	want []uint32               // nil: not known
	n    int
}

const (
	stressGoroutines = 32
	stressElements   = 300
)

func newStress(seed uint64, tally *stressTally) *stress {
	chance := rand.New(rand.NewPCG(seed, 0x5e7))
	pick := func(from ...float64) float64 { return from[chance.IntN(len(from))] }
	s := &stress{seed: seed, tally: tally, fragile: chance.IntN(3) == 0}
	// What the machine needs to come up does not fail, nor what would make the books differ:
	// memory that the driver does not take back.
	never := map[string][]driver.Result{}
	prefixes := []string{"cuInit", "cuDeviceGet", "cuDeviceTotalMem", "cuDriver", "cuCtxPopCurrent", "cuCtxPushCurrent",
		"cuStreamDestroy", "cuEventDestroy", "cuMemFree", "cuMemPoolDestroy", "cuModuleUnload", "cuGraphDestroy",
		"cuGraphExecDestroy", "cuDevicePrimaryCtxRelease", "cuStreamIsCapturing", "cuStreamEndCapture"}
	if !s.fragile {
		prefixes = append(prefixes, "cuEvent", "cuStream", "cuCtxSynchronize", "cuMemset")
	}
	for _, e := range driver.Entries() {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(e.Name, p) }) {
			never[e.Name] = nil
		}
	}
	s.gpu = drivertest.New(drivertest.Config{
		Devices: drivertest.Devices(2, drivertest.T4()),
		Version: []driver.Version{11000, 12020, 13000}[chance.IntN(3)],
		Chaos: &drivertest.Chaos{Seed: seed, Failures: pick(0, 0, 0.002, 0.02), Sticky: pick(0, 0, 0, 0.05), Results: never,
			SlowWork: pick(0.05, 0.3), SlowCalls: 0.003, MaxDelay: 100 * time.Microsecond},
	})
	if chance.IntN(6) == 0 {
		ops := []string{"cuStreamQuery", "cuStreamSynchronize", "cuEventRecord", "cuLaunchKernel", "cuMemsetD32Async", "cuCtxSynchronize"}
		s.gpu.Fail(ops[chance.IntN(len(ops))], 1+chance.IntN(60), driver.ResultIllegalAddress)
	}
	return s
}

// Describe implements [seeds.Program].
func (s *stress) Describe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("injected: %v\nheard: %v", s.gpu.Injected(), s.heard)
}

// Run implements [seeds.Program].
func (s *stress) Run() error {
	if err := s.open(); err != nil {
		return errors.Join(err, s.gpu.Close())
	}
	var workers, control sync.WaitGroup
	for g := range uint64(stressGoroutines) {
		workers.Go(func() {
			w := &stressWorker{stress: s, chance: rand.New(rand.NewPCG(s.seed, g))}
			w.run()
		})
	}
	control.Go(func() { s.control(rand.New(rand.NewPCG(s.seed, 0xc0))) })
	workers.Wait()
	s.done.Store(true)
	control.Wait()
	return s.finish()
}

func (s *stress) open() (err error) {
	s.rt, err = runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(s.gpu),
		runtime.WithMemory(arena.DeviceConfig{Poison: true}),
		runtime.WithErrorHook(func(err error) { s.explained("cleanup", err) }))
	if err != nil {
		return err
	}
	for ordinal := range 2 {
		c, err := s.rt.Context(ordinal)
		for err != nil && s.gpu.Sticky() == driver.Success { // chaos
			c, err = s.rt.Context(ordinal)
		}
		if err == nil {
			s.contexts = append(s.contexts, c)
		}
	}
	return nil
}

// control resets contexts as long as there is work, and takes a device out now and then.
func (s *stress) control(chance *rand.Rand) {
	vanishes := chance.IntN(12) == 0
	for !s.done.Load() && len(s.contexts) > 0 {
		time.Sleep(time.Duration(chance.IntN(6000)) * time.Microsecond)
		if vanishes && chance.IntN(6) == 0 && !s.vanished.Swap(true) {
			s.gpu.Vanish(chance.IntN(2))
			s.tally.vanished.Add(1)
		}
		c := s.contexts[chance.IntN(len(s.contexts))]
		before := c.State().Lost()
		ctx, cancel := context.WithTimeout(bg, time.Duration(1+chance.IntN(40))*time.Millisecond)
		err := c.Reset(ctx)
		cancel()
		switch {
		case err == nil:
			s.tally.resets.Add(1)
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, driver.ErrCaptureFailed), errors.Is(err, driver.ErrInvalidArgument):
			s.tally.givenUp.Add(1)
		default:
			s.explained("reset", err)
		}
		if before == nil && c.State().Lost() != nil && s.rt.Err() == nil {
			s.tally.devices.Add(1)
		}
	}
}

func (s *stress) fail(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.wrong) < 10 {
		s.wrong = append(s.wrong, fmt.Errorf(format, args...))
	}
}

// sound reports whether what the device holds is what the program has made it.
func (s *stress) sound() bool { return s.gpu.Sticky() == driver.Success && !s.vanished.Load() }

// explained reports whether there is an error, and checks that it is what a state answers or what
// was injected.
func (s *stress) explained(what string, err error) (failed bool) {
	if err == nil {
		return false
	}
	if what == "cleanup" || what == "close" {
		s.mu.Lock()
		s.heard = append(s.heard, err)
		s.mu.Unlock()
	}
	all := parts(err)
	if len(all) == 0 {
		s.fail("%s: an error without a kind: %v", what, err)
		return true
	}
	for _, e := range all {
		switch e.Kind {
		case driver.ErrRefStale:
			s.tally.refused.Add(1)
			known := []string{"context rebuilt", "device shutting down"}
			if !slices.ContainsFunc(all, func(e *driver.Error) bool { return slices.Contains(known, e.Detail) }) {
				s.fail("%s: stale without a reason: %v", what, err)
			}
			return true
		case driver.ErrClosed, driver.ErrCaptureFailed, driver.ErrSymbolMissing: // of old drivers
			return true
		case driver.ErrDeviceLost:
			if !slices.ContainsFunc(s.contexts, func(c *runtime.Context) bool { return c.State().Lost() != nil }) && s.gpu.Sticky() == driver.Success {
				s.fail("%s: lost, and nothing was: %v", what, err)
			}
			return true
		}
	}
	if s.vanished.Load() && errors.Is(err, driver.ResultUnknown) {
		return true
	}
	// Close does not wait for a call that is inside when the process is lost, so it may outlive the driver.
	if what == "cleanup" && s.gpu.Sticky() != driver.Success && errors.Is(err, driver.ResultDeinitialized) {
		return true
	}
	for _, i := range s.gpu.Injected() {
		if errors.Is(err, i.Result) || i.Result == driver.ResultNotFound && errors.Is(err, driver.ErrInvalidArgument) ||
			errors.Is(err, driver.ErrModuleLoadFailed) {
			return true
		}
	}
	s.fail("%s: nothing explains %v", what, err)
	return true
}

// finish closes everything and accounts for every block.
func (s *stress) finish() error {
	for _, x := range s.shared {
		for _, r := range x.refs {
			s.explained("close", r.Close())
		}
	}
	s.explained("closing", s.rt.Close())
	for i, c := range s.contexts {
		state := c.State().Stats()
		if state.Live+state.Stale+state.Waiting+state.Leases != 0 {
			s.fail("device %d: left over: %+v", i, state)
		}
		if ended := state.Freed + state.Leaked + state.Gone; ended != s.allocated[c.Device().Ordinal].Load() {
			s.fail("device %d: %d blocks were allocated, and %d ended: %+v", i, s.allocated[c.Device().Ordinal].Load(), ended, state)
		}
		s.tally.allocated.Add(s.allocated[c.Device().Ordinal].Load())
		s.tally.freed.Add(state.Freed)
		s.tally.leaked.Add(state.Leaked)
		s.tally.gone.Add(state.Gone)
	}
	s.tally.faults.Add(uint64(len(s.gpu.Injected())))
	if s.gpu.Sticky() != driver.Success {
		s.tally.lost.Add(1)
	}
	err := s.gpu.Close()
	for _, f := range s.gpu.Findings() {
		if s.vanished.Load() && strings.Contains(f.Detail, "before the stream has reached the allocation") {
			continue // a device that vanishes skips its work, the allocation as well
		}
		s.fail("the driver found a mistake: %v", f)
	}
	if s.sound() && (!s.fragile || len(s.gpu.Injected()) == 0) {
		for _, leak := range s.gpu.Leaks() {
			s.fail("leaked: %s", leak)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(append(s.wrong, err)...)
}

// stressWorker is one goroutine, with a stream on a device.
type stressWorker struct {
	*stress
	chance *rand.Rand
	at     int // the device
	s      *runtime.Stream
	k      *runtime.Kernel
	m      *runtime.Module
}

func (w *stressWorker) run() {
	for range 30 + w.chance.IntN(30) {
		if w.s == nil && !w.settle() {
			time.Sleep(20 * time.Microsecond)
			continue
		}
		w.step()
	}
	w.leave()
}

// settle makes a stream and loads the kernel.
func (w *stressWorker) settle() bool {
	if len(w.contexts) == 0 {
		return false
	}
	w.at = w.chance.IntN(len(w.contexts))
	c := w.contexts[w.at]
	var err error
	if w.chance.IntN(4) == 0 {
		_, err = w.rt.Probe("stress")
		w.explained("probe", err)
	}
	if w.s, err = c.NewStream(); w.explained("stream", err) {
		w.s = nil
		return false
	}
	if w.m, err = c.CachedModule(runtime.Image{Code: kernelsPTX}); !w.explained("module", err) {
		w.k, err = w.m.Kernel("add")
		w.explained("kernel", err)
	}
	if w.k == nil || err != nil {
		w.leave()
		return false
	}
	return true
}

func (w *stressWorker) leave() {
	if w.m != nil {
		w.explained("close", w.m.Close())
	}
	if w.s != nil {
		w.explained("close", w.s.Close())
	}
	w.s, w.m, w.k = nil, nil, nil
}

func (w *stressWorker) step() {
	x := w.pick()
	if x == nil || w.chance.IntN(5) == 0 {
		w.alloc()
		return
	}
	x.mu.Lock()
	if len(x.refs) == 0 {
		x.mu.Unlock()
		w.drop(x)
		return
	}
	r := x.refs[w.chance.IntN(len(x.refs))]
	if w.chance.IntN(8) == 0 {
		x.mu.Unlock()
		w.copy(x)
		return
	}
	defer x.mu.Unlock()
	switch w.chance.IntN(14) {
	case 0, 1:
		w.write(x, r)
	case 2, 3:
		w.add(x, r)
	case 4, 5, 6:
		w.read(x, r)
	case 7, 8:
		x.refs = append(x.refs, r.Retain())
	case 9, 10:
		w.explained("close", r.Close())
		if _, err := r.Access(); err == nil {
			w.stress.fail("a Ref that is closed was accessed")
		}
		x.refs = slices.DeleteFunc(x.refs, func(o *runtime.Ref[uint32]) bool { return o == r })
	case 11:
		w.graph(x, r)
	case 12:
		w.host(x, r)
	case 13:
		w.leave()
	}
}

func (w *stressWorker) pick() *stressed {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.shared) == 0 {
		return nil
	}
	return w.shared[w.chance.IntN(len(w.shared))]
}

func (w *stressWorker) drop(x *stressed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared = slices.DeleteFunc(w.shared, func(o *stressed) bool { return o == x })
}

func (w *stressWorker) alloc() {
	n := []int{1 + w.chance.IntN(stressElements), stressElements}[w.chance.IntN(2)]
	r, err := runtime.Alloc[uint32](w.s, n)
	if w.failed("alloc", err) {
		return
	}
	w.allocated[w.contexts[w.at].Device().Ordinal].Add(1)
	x := &stressed{id: w.ids.Add(1), at: w.at, refs: []*runtime.Ref[uint32]{r}, n: n}
	w.write(x, r)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shared = append(w.shared, x)
}

// failed is explained; a stream that is stale is given up.
func (w *stressWorker) failed(what string, err error) bool {
	if !w.explained(what, err) {
		return false
	}
	if w.s != nil {
		if _, err := w.s.Query(); err != nil {
			w.explained("query", err)
			w.leave()
		}
	}
	return true
}

// here reports whether the memory is of the device that the goroutine is at.
func (w *stressWorker) here(x *stressed) bool { return w.s != nil && x.at == w.at }

// write writes all or a part. The lock is held.
func (w *stressWorker) write(x *stressed, r *runtime.Ref[uint32]) {
	if !w.here(x) {
		return
	}
	i, j := 0, x.n
	part := r
	if w.chance.IntN(3) == 0 {
		i = w.chance.IntN(x.n)
		j = i + 1 + w.chance.IntN(x.n-i)
		part = r.Slice(i, j)
	}
	data := make([]uint32, j-i)
	var err error
	if w.chance.IntN(2) == 0 {
		v := w.chance.Uint32()
		for k := range data {
			data[k] = v
		}
		err = runtime.Fill(w.s, part, v)
	} else {
		for k := range data {
			data[k] = w.chance.Uint32()
		}
		err = runtime.Upload(bg, w.s, part, data)
	}
	if w.failed("write", err) {
		x.want = nil
		return
	}
	if i == 0 && j == x.n {
		x.want = data
	} else if x.want != nil {
		copy(x.want[i:j], data)
	}
}

func (x *stressed) added(amount uint32) {
	for i := range x.want {
		x.want[i] += amount
	}
}

func (w *stressWorker) add(x *stressed, r *runtime.Ref[uint32]) {
	if !w.here(x) {
		return
	}
	amount := w.chance.Uint32()
	if w.failed("launch", addTo(w.k, w.s, r, amount)) {
		x.want = nil
		return
	}
	x.added(amount)
}

func (w *stressWorker) read(x *stressed, r *runtime.Ref[uint32]) {
	if !w.here(x) {
		return
	}
	ctx, cancel := bg, func() {}
	if w.chance.IntN(2) == 0 {
		ctx, cancel = context.WithTimeout(bg, time.Minute)
	}
	defer cancel()
	got := make([]uint32, x.n)
	if w.failed("download", runtime.Download(ctx, w.s, got, r)) || x.want == nil {
		return
	}
	if !slices.Equal(got, x.want) && w.sound() {
		i := 0
		for i < len(got) && got[i] == x.want[i] {
			i++
		}
		w.stress.fail("element %d of %d is %#x, want %#x: %v", i, x.n, got[i], x.want[i], r)
	}
	w.tally.compared.Add(1)
}

// graph records an addition and replays it, once after the Ref that was recorded is closed.
func (w *stressWorker) graph(x *stressed, r *runtime.Ref[uint32]) {
	if !w.here(x) {
		return
	}
	own := r.Retain()
	amount := w.chance.Uint32()
	g, err := w.s.Capture(func(s *runtime.Stream) error { return addTo(w.k, s, own, amount) })
	if w.failed("capture", err) {
		w.explained("close", own.Close())
		return
	}
	exec, err := g.Instantiate()
	w.explained("close", errors.Join(own.Close(), g.Close()))
	if w.failed("instantiate", err) {
		return
	}
	for range 1 + w.chance.IntN(2) {
		if w.s == nil || w.failed("launch of a graph", exec.Launch(w.s)) {
			x.want = nil
			break
		}
		w.tally.graphs.Add(1)
		x.added(amount)
	}
	w.explained("close", exec.Close())
}

// host copies by way of page-locked memory.
func (w *stressWorker) host(x *stressed, r *runtime.Ref[uint32]) {
	if !w.here(x) {
		return
	}
	h, err := hostMemory[uint32](w.chance.IntN(2) == 0, w.contexts[w.at], x.n)
	if w.failed("alloc host", err) {
		return
	}
	err = runtime.DownloadHost(w.s, h, r)
	if err == nil {
		err = w.s.Synchronize(bg)
	}
	if !w.failed("download", err) && x.want != nil && w.sound() && !slices.Equal(h.Data(), x.want) {
		w.stress.fail("page-locked memory has %v, want %v", h.Data()[0], x.want[0])
	}
	w.explained("close", h.Close())
}

// copy copies to other memory, of this device or the other one. No lock is held.
func (w *stressWorker) copy(from *stressed) {
	to := w.pick()
	if to == nil || to == from {
		return
	}
	first, second := from, to
	if second.id < first.id {
		first, second = second, first
	}
	first.mu.Lock()
	defer first.mu.Unlock()
	second.mu.Lock()
	defer second.mu.Unlock()
	if !w.here(to) || len(to.refs) == 0 || len(from.refs) == 0 {
		return
	}
	n := min(from.n, to.n)
	if w.failed("copy", runtime.Copy(w.s, to.refs[0].Slice(0, n), from.refs[0].Slice(0, n))) || from.want == nil {
		to.want = nil
		return
	}
	if n == to.n {
		to.want = slices.Clone(from.want[:n])
	} else if to.want != nil {
		copy(to.want, from.want[:n])
	}
}
