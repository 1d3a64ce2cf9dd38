//go:build linux && (amd64 || arm64)

package isolate_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// TestServiceCampaign runs services that have all doors of a pool and of a group on one runtime. Requests share memory, and some
// of them fail. Meanwhile calls of the driver stall, children are stopped and go on, memory and descriptors run out, contexts are
// reset, devices vanish and are revived, and parts are drained and closed in any order. Each request gets one answer: the right data,
// or an error that is its own and that something explains. Nothing is left.
func TestServiceCampaign(t *testing.T) {
	sum := &serviceTally{answers: map[string]int{}}
	seeds.Run(t, seeds.Count(20, 60, 20), func(seed uint64) *service { return newService(seed, sum) })
	t.Logf("%v", sum.answers)
}

// serviceTally counts the answers of a campaign.
type serviceTally struct {
	mu      sync.Mutex
	answers map[string]int
}

func (s *serviceTally) note(answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[answer]++
}

// service is one machine with everything that serves requests.
type service struct {
	seed     uint64
	chance   *rand.Rand
	sum      *serviceTally
	config   drivertest.Config
	gpu      *drivertest.Driver
	rt       *runtime.Runtime
	required bool // no request may run on the CPU
	p        *pool.Pool
	b        *pool.Batcher[uint32, uint32]
	g        *isolate.Group
	children *pool.Pool             // of g
	sharing  sync.Mutex             // orders the requests that use shared, as the program has to
	shared   *runtime.Ref[uint32]   // all words are equal between two launches
	stalled  atomic.Pointer[string] // the function of the driver that stands still
	happened sync.Map               // what was done to the service
	requests atomic.Int64
}

// newService draws the machine.
func newService(seed uint64, sum *serviceTally) *service {
	s := &service{seed: seed, chance: rand.New(rand.NewPCG(seed, 0x5e71)), sum: sum, config: machine(0)}
	pick := func(from ...float64) float64 { return from[s.chance.IntN(len(from))] }
	device := drivertest.T4()
	if s.chance.IntN(4) == 0 {
		device.Memory = 1 << 20
		s.did("fill")
	}
	s.config.Devices = drivertest.Devices(1+s.chance.IntN(3), device)
	results := map[string][]driver.Result{} // the machine is found, and what was made can be given back
	for _, e := range driver.Entries() {
		if slices.Contains([]string{"cuInit", "cuDriverGetVersion", "cuDeviceTotalMem", "cuMemFreeAsync", "cuCtxPopCurrent", "cuStreamDestroy", "cuEventDestroy", "cuMemPoolDestroy",
			"cuMemFreeHost", "cuDevicePrimaryCtxRelease", "cuCtxSynchronize", "cuMemFree", "cuLibraryUnload", "cuMemHostUnregister"}, e.Name) || len(e.Name) > 11 && e.Name[:11] == "cuDeviceGet" {
			results[e.Name] = nil
		}
	}
	s.config.Chaos = &drivertest.Chaos{Seed: seed, Failures: pick(0, 0, 0, 0.002, 0.01), Sticky: pick(0, 0, 0.1), Results: results, SlowWork: 0.05, SlowCalls: 0.01, MaxDelay: 50 * time.Microsecond}
	s.config.OnCall = func(op string) driver.Result {
		if stalled := s.stalled.Load(); stalled != nil && *stalled == op {
			time.Sleep(5 * time.Millisecond)
		}
		return driver.Success
	}
	s.required = s.chance.IntN(4) == 0
	return s
}

// Describe implements [seeds.Program].
func (s *service) Describe() string {
	var done []string
	s.happened.Range(func(what, _ any) bool { done = append(done, what.(string)); return true })
	slices.Sort(done)
	text := fmt.Sprintf("done: %v", done)
	if s.gpu != nil {
		text += fmt.Sprintf(", injected: %v", s.gpu.Injected())
	}
	return text
}

func (s *service) did(what string) { s.happened.Store(what, true) }
func (s *service) has(what string) bool {
	_, ok := s.happened.Load(what)
	return ok
}

// Run implements [seeds.Program].
func (s *service) Run() error {
	s.gpu = drivertest.New(s.config)
	if err := s.open(); err != nil {
		return errors.Join(s.explained(-1, err), s.close())
	}
	wrong := make(chan error, 1000)
	var clients, disturber sync.WaitGroup
	for range 4 + s.chance.IntN(12) {
		own := rand.New(rand.NewPCG(s.seed, s.chance.Uint64()))
		clients.Go(func() {
			for range 1 + own.IntN(10) {
				if err := s.request(own); err != nil {
					wrong <- err
					return
				}
			}
		})
	}
	own, stop := rand.New(rand.NewPCG(s.seed, s.chance.Uint64())), make(chan struct{})
	disturber.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(own.IntN(4000)) * time.Microsecond):
				if err := s.disturb(own); err != nil {
					wrong <- err
				}
			}
		}
	})
	clients.Wait()
	close(stop)
	disturber.Wait()
	wrong <- s.close()
	close(wrong)
	var err error
	for e := range wrong {
		err = errors.Join(err, e)
	}
	return err
}

// open opens all parts.
func (s *service) open() (err error) {
	policy := runtime.PolicyAuto
	if s.required {
		policy = runtime.PolicyRequired
	}
	if s.rt, err = runtime.Open(runtime.WithPolicy(policy), runtime.WithDriver(s.gpu), runtime.WithLogger(slog.New(slog.DiscardHandler))); err != nil {
		return err
	}
	if s.p, err = pool.Open(s.rt, pool.Options{Streams: 1 + s.chance.IntN(4), Queue: s.chance.IntN(30) - 1, Setup: []pool.Setup{ofChecks}}); err != nil {
		return err
	}
	s.b, err = pool.NewBatcher(s.p, func(w *pool.Worker, in, out []uint32, errs []error) error {
		for i, x := range in {
			if x%7 == 0 {
				errs[i] = fmt.Errorf("request-%d fails", x)
			}
		}
		return plusOne(w, in, out)
	}, pool.BatcherConfig[uint32, uint32]{MaxDelay: time.Duration(s.chance.IntN(300)) * time.Microsecond, Queue: s.chance.IntN(3)*20 - 1})
	if err != nil {
		return err
	}
	s.g, err = isolate.Open(s.rt, isolate.WithOutput(nil), isolate.WithEnvironment(fmt.Sprint(simulation, "=", len(s.config.Devices))),
		isolate.WithReady(20*time.Second), isolate.WithRestarts(20, 300*time.Millisecond), isolate.WithStreams(1+s.chance.IntN(3)))
	if err != nil {
		return err
	}
	if s.children, err = s.g.Pool(); err != nil {
		return err
	}
	c, err := s.rt.Context(0)
	if err != nil {
		return err
	}
	stream, err := c.NewStream()
	if err != nil {
		return err
	}
	if s.shared, err = runtime.Alloc[uint32](stream, 1000); err == nil {
		err = runtime.Zero(stream, s.shared)
	}
	return errors.Join(err, stream.Close())
}

// closers are the parts that can be closed.
func (s *service) closers() map[string]func() error {
	soon := func(shutdown func(context.Context) error) func() error {
		return func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			if err := shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, driver.ErrTimeout) {
				return err
			}
			return nil
		}
	}
	all := map[string]func() error{"close runtime": s.rt.Close, "close shared": s.shared.Close}
	if s.p != nil {
		all["close pool"], all["drain pool"] = s.p.Close, soon(s.p.Shutdown)
	}
	if s.b != nil {
		all["close batcher"], all["drain batcher"] = s.b.Close, soon(s.b.Shutdown)
	}
	if s.g != nil {
		all["close group"], all["drain group"] = s.g.Close, soon(s.g.Shutdown)
	}
	if s.children != nil {
		all["close children"] = s.children.Close
	}
	return all
}

// close closes everything in any order, and looks for what is left.
func (s *service) close() (err error) {
	if s.rt != nil {
		all := s.closers()
		names := make([]string, 0, len(all))
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		s.chance.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			s.did(name)
			if e := s.explained(-1, all[name]()); e != nil {
				err = errors.Join(err, fmt.Errorf("%s, of %v: %w", name, names, e))
			}
		}
		if s.g != nil {
			for _, d := range s.g.Stats().Devices {
				if d.PID != 0 || d.Busy != 0 {
					err = errors.Join(err, fmt.Errorf("left behind: %+v", d))
				}
			}
		}
	}
	err = errors.Join(err, s.gpu.Close())
	for _, f := range s.gpu.Findings() {
		err = errors.Join(err, fmt.Errorf("the driver found a mistake: %v", f))
	}
	if len(s.gpu.Injected()) > 0 || s.has("vanish") {
		return err // what cannot be reached, or of which nobody can tell whether it is in use, is kept
	}
	if leaks := s.gpu.Leaks(); len(leaks) > 0 {
		err = errors.Join(err, fmt.Errorf("leaks: %v", leaks))
	}
	return err
}

// disturb does one thing that a service meets.
func (s *service) disturb(r *rand.Rand) error {
	switch r.IntN(12) {
	case 0, 1: // a function of the driver stands still for a while
		ops := []string{"cuStreamSynchronize", "cuLaunchKernel", "cuMemcpyHtoDAsync", "cuMemAllocFromPoolAsync", "cuStreamWriteValue64", "cuEventRecord", "cuStreamCreateWithPriority", "cuLibraryLoadData"}
		s.stalled.Store(&ops[r.IntN(len(ops))])
		time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
		s.stalled.Store(nil)
	case 2, 3, 4: // a child stands still, and goes on or not
		if d := s.g.Stats().Devices; len(d) > 0 {
			if pid := d[r.IntN(len(d))].PID; pid != 0 {
				s.did("signal")
				_ = syscall.Kill(pid, []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL}[r.IntN(2)])
				time.Sleep(time.Duration(r.IntN(20)) * time.Millisecond)
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}
	case 5:
		if c, err := s.rt.Context(r.IntN(len(s.config.Devices))); err == nil {
			s.did("reset")
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(20))*time.Millisecond)
			defer cancel()
			return s.explained(-1, c.Reset(ctx))
		}
	case 6:
		if r.IntN(4) == 0 {
			s.did("vanish")
			s.gpu.Vanish(r.IntN(len(s.config.Devices)))
		}
	case 7:
		for i := range s.config.Devices {
			s.gpu.Return(i)
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(20))*time.Millisecond)
			err := s.explained(-1, s.rt.Revive(ctx, i))
			cancel()
			if err != nil {
				return fmt.Errorf("Revive: %w", err)
			}
		}
	case 8:
		return s.fillDescriptors(time.Duration(r.IntN(3000)) * time.Microsecond)
	case 9:
		if r.IntN(8) == 0 {
			all := s.closers()
			names := []string{"drain pool", "close batcher", "drain batcher", "drain group", "close runtime", "close shared", "close pool", "close group", "close children"}
			name := names[r.IntN(len(names))]
			s.did(name)
			if err := s.explained(-1, all[name]()); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// descriptorsEnded says that somebody has lowered the limit of this process, which all services share.
var (
	descriptorsEnd   sync.Mutex
	descriptorsEnded atomic.Bool
)

// fillDescriptors leaves the process no descriptor for a while.
func (s *service) fillDescriptors(length time.Duration) error {
	descriptorsEnd.Lock()
	defer descriptorsEnd.Unlock()
	descriptorsEnded.Store(true)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: before.Max}); err != nil {
		return err
	}
	time.Sleep(length)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)
}

// plusOne writes the words of in, with one added to each, to out. It computes on the device.
func plusOne(w *pool.Worker, in, out []uint32) error {
	if len(in) == 0 {
		return nil
	}
	x, err := runtime.UploadNew(w.CallContext(), w.Stream(), in)
	if err != nil {
		return err
	}
	defer x.Close()
	if err := launch(w, "add", runtime.Shape1D(len(in), 256), runtime.InOut(x), runtime.Value(uint32(len(in))), runtime.Value(uint32(1))); err != nil {
		return err
	}
	return runtime.Download(w.CallContext(), w.Stream(), out, x)
}

// checks are those of the kernel check in a context, which all requests share.
type checks struct{ *runtime.Checks }

var ofChecks = pool.PerDevice(func(c *runtime.Context) (checks, error) {
	all, err := c.NewChecks(func(words [runtime.CheckWords]uint64) error { return fmt.Errorf("request-%d fails a check", words[1]) })
	return checks{all}, err
})

// check launches a kernel whose check fails, unless the number of the request is 0.
func (s *service) check(w *pool.Worker, request uint64) error {
	c := ofChecks.Of(w)
	m, err := w.Context().CachedModule(runtime.Image{Code: []byte(ptx)})
	if err != nil {
		return err
	}
	defer m.Close()
	k, err := m.Kernel("check")
	if err != nil {
		return err
	}
	return k.Launch(w.Stream(), runtime.Shape1D(1, 1), runtime.Value(request), c.Arg())
}

// addToShared puts work on the stream that adds one to each word of the shared memory.
func (s *service) addToShared(w *pool.Worker) error {
	m, err := w.Context().CachedModule(runtime.Image{Code: []byte(ptx)})
	if err != nil {
		return err
	}
	defer m.Close()
	k, err := m.Kernel("add")
	if err != nil {
		return err
	}
	n := s.shared.Len()
	s.sharing.Lock()
	defer s.sharing.Unlock()
	return k.Launch(w.Stream(), runtime.Shape1D(n, 128), runtime.InOut(s.shared), runtime.Value(uint32(n)), runtime.Value(uint32(1)))
}

func (s *service) readShared(w *pool.Worker, words []uint32) error {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	return runtime.Download(w.CallContext(), w.Stream(), words, s.shared)
}

func plusOneCPU(_ context.Context, in, out []uint32) error {
	for i, x := range in {
		out[i] = x + 1
	}
	return nil
}

// request makes a request through one of the doors, and checks its answer.
func (s *service) request(r *rand.Rand) error {
	id := int(s.requests.Add(1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch r.IntN(6) {
	case 0:
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, time.Duration(r.IntN(20_000))*time.Microsecond)
		defer end()
	case 1:
		time.AfterFunc(time.Duration(r.IntN(20_000))*time.Microsecond, cancel)
	default: // who waits for a child that stands still waits for ever
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, time.Duration(100+r.IntN(400))*time.Millisecond)
		defer end()
	}
	n := []int{0, 1, 2, r.IntN(300), r.IntN(5000), 1 << 14}[r.IntN(6)]
	in, out := make([]uint32, n), make([]uint32, n)
	for i := range in {
		in[i] = r.Uint32()
	}
	doors := []string{"Do", "Map", "Reduce", "Batcher", "Group.Do", "Scatter over children", "shared"}
	door := doors[r.IntN(len(doors))]
	bad := r.IntN(4) == 0 // the function fails, panics, or launches a kernel with a check that fails and does not wait for it
	how := r.IntN(3)
	own := func(w *pool.Worker) error {
		switch {
		case !bad:
			return s.check(w, 0)
		case how == 0:
			return fmt.Errorf("request-%d fails", id)
		case how == 1:
			panic(fmt.Errorf("request-%d panics", id))
		}
		return s.check(w, uint64(id))
	}
	retries := 0
	if r.IntN(3) == 0 {
		retries = r.IntN(3)
	}
	falls := r.IntN(3) == 0
	onCPU, where := false, pool.OnGPU
	var err error
	switch door {
	case "Do":
		options := pool.DoOptions{Retry: retries, Wait: r.IntN(2) == 0}
		if falls {
			options.Fallback = func(ctx context.Context) error { onCPU = true; return plusOneCPU(ctx, in, out) }
		}
		var report pool.Report
		report, err = s.p.Do(ctx, func(w *pool.Worker) error { return errors.Join(plusOne(w, in, out), own(w)) }, options)
		where = report.Where
	case "Map":
		options := pool.MapOptions[uint32, uint32]{Retry: retries}
		if falls {
			options.Fallback = plusOneCPU
		}
		var report pool.Report
		report, err = pool.Map(ctx, s.p, in, out, func(w *pool.Worker, in, out []uint32) error { return errors.Join(plusOne(w, in, out), own(w)) }, options)
		where = report.Where
	case "Reduce":
		var got, want uint64
		for _, x := range in {
			want += uint64(x + 1)
		}
		got, _, err = pool.Reduce(ctx, s.p, n, 100, func(w *pool.Worker, lo, hi int, sums []uint64) error {
			part := make([]uint32, hi-lo)
			if err := plusOne(w, in[lo:hi], part); err != nil {
				return err
			}
			for i, x := range part {
				sums[i/100] += uint64(x)
			}
			return own(w)
		}, func(a, b uint64) uint64 { return a + b }, pool.ReduceOptions[uint64]{Retry: retries})
		if err == nil && got != want {
			return fmt.Errorf("Reduce: %d, and %d is right", got, want)
		}
		out = nil
	case "Batcher":
		item := uint32(id)
		bad = item%7 == 0
		var got uint32
		got, err = s.b.Do(ctx, item)
		if err == nil && got != item+1 {
			return fmt.Errorf("Batcher: %d for %d", got, item)
		}
		out = nil
	case "Group.Do":
		data := make([]byte, 4*n)
		for i, x := range in {
			binary.NativeEndian.PutUint32(data[4*i:], x)
		}
		name := "next/v1"
		switch {
		case bad:
			name, data = "tagged/v1", fmt.Appendf(nil, "request-%d fails", id)
		case n == 0:
			name = "echo/v1"
		}
		var result []byte
		result, _, err = s.g.Do(ctx, name, data, isolate.WithRetry(r.IntN(2)), isolate.WithGrace(time.Duration(r.IntN(20))*time.Millisecond))
		if err == nil && len(result) != 4*n {
			return fmt.Errorf("Group.Do: %d bytes, and %d are right", len(result), 4*n)
		}
		for i := range result {
			if err == nil && i%4 == 0 {
				out[i/4] = binary.NativeEndian.Uint32(result[i:])
			}
		}
	case "Scatter over children":
		bad = false
		var b *isolate.Buffer
		if b, err = s.g.NewBuffer(4 * (n + 1)); err != nil {
			break
		}
		defer b.Close()
		_, err = s.children.Scatter(ctx, n, func(w *pool.Worker, t pool.Tile) error {
			_, err := s.g.Call(w, "set/v1", set(t.Lo, t.Hi), isolate.WithBuffers(b), isolate.WithQueueWait())
			return err
		}, pool.ScatterOptions{Retry: retries, MinPerDevice: 1})
		for i := range n {
			if word := binary.NativeEndian.Uint32(b.Bytes()[4*i:]); err == nil && word != uint32(i) {
				return fmt.Errorf("Scatter: word %d is %d", i, word)
			}
		}
		out = nil
	case "shared":
		words := make([]uint32, 1000)
		_, err = s.p.Do(ctx, func(w *pool.Worker) error {
			if r.IntN(2) == 0 {
				if err := s.addToShared(w); err != nil {
					return err
				}
			}
			if err := s.readShared(w, words); err != nil {
				return err
			}
			return own(w)
		}, pool.DoOptions{Retry: retries, Devices: []int{0}})
		if err == nil && !bad && slices.Min(words) != slices.Max(words) {
			return fmt.Errorf("shared memory: %d and %d at the same time", slices.Min(words), slices.Max(words))
		}
		out = nil
	}
	switch {
	case err == nil && bad && !onCPU && where == pool.OnGPU && n > 0:
		return fmt.Errorf("%s: request-%d has failed, and has no error", door, id)
	case err == nil && where == pool.OnCPU && s.required:
		return fmt.Errorf("%s: on the CPU, and a GPU is required", door)
	case err == nil:
		for i := range out {
			if out[i] != in[i]+1 {
				return fmt.Errorf("%s: word %d of %d is %d, and %d is right", door, i, n, out[i], in[i]+1)
			}
		}
		s.sum.note(door + " " + string(where))
		return nil
	}
	s.sum.note(door + " error")
	if err := s.explained(id, err); err != nil {
		return fmt.Errorf("%s: %w", door, err)
	}
	return nil
}

var tag = regexp.MustCompile(`request-(\d+)`)

// explained returns an error of request id if it is another request's, or if nothing that happened explains it. Close and its kin are
// no requests: their id is -1.
func (s *service) explained(id int, err error) error {
	if err == nil {
		return nil
	}
	tags := tag.FindAllStringSubmatch(err.Error(), -1)
	for _, found := range tags {
		late := id < 0 // a Close tells what the wait of a request could not see any more: that was refused, or its ctx had ended
		if found[1] != fmt.Sprint(id) && !late {
			return fmt.Errorf("request-%d has the error of another: %w", id, err)
		}
	}
	faults := len(s.gpu.Injected()) > 0
	for _, c := range []struct {
		of      error
		because bool
	}{
		{context.DeadlineExceeded, true}, {context.Canceled, true}, {pool.ErrQueueFull, id >= 0}, {pool.ErrStopped, id >= 0},
		{driver.ErrTimeout, true},
		{driver.ErrClosed, s.closes()},
		{driver.ErrRefStale, s.has("reset") || s.has("vanish") || s.has("close shared") || s.closes()},
		{driver.ErrOutOfMemory, s.has("fill")},
		{pool.ErrQuarantined, faults || s.has("vanish") || s.has("reset") || s.has("signal") || s.has("fill")},
		{isolate.ErrChildDied, s.has("signal") || descriptorsEnded.Load()},
		{isolate.ErrGaveUp, s.has("signal") || descriptorsEnded.Load()},
		{syscall.EMFILE, descriptorsEnded.Load()},
	} {
		if c.because && errors.Is(err, c.of) {
			return nil
		}
	}
	if _, of := errors.AsType[*driver.Error](err); len(tags) > 0 || of && (faults || s.has("vanish")) {
		return nil
	}
	return fmt.Errorf("nothing explains %w", err)
}

// closes reports whether a part was closed.
func (s *service) closes() bool {
	for _, what := range []string{"close runtime", "close shared", "close pool", "drain pool", "close batcher", "drain batcher", "close group", "drain group", "close children"} {
		if s.has(what) {
			return true
		}
	}
	return false
}
