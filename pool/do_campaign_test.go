package pool_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// Requests with options made by chance, from 64 goroutines and more, on machines whose devices fail and
// vanish: with errors, panics, cancellations, deadlines, priorities, calls within calls, goroutines that end,
// and a Close in the middle. Each request gets one answer, which is true; no worker is used twice at a time, the
// queue keeps its bound, and nothing is left.
func TestDoCampaign(t *testing.T) {
	var sum requestTally
	seeds.Run(t, seeds.Count(100, 300, 100), func(seed uint64) *service {
		return &service{campaign: newCampaign(seed), sum: &sum}
	})
	t.Logf("%d requests: %d on devices, %d on the CPU, %d refused, %d closed, %d cancelled, %d quarantined, %d other errors, %d retries, %d quarantines",
		sum.all.Load(), sum.onGPU.Load(), sum.onCPU.Load(), sum.full.Load(), sum.closed.Load(), sum.cancelled.Load(), sum.quarantined.Load(),
		sum.failed.Load(), sum.retries.Load(), sum.quarantines.Load())
}

// requestTally counts what a campaign has met.
type requestTally struct {
	all, onGPU, onCPU, full, closed, cancelled, quarantined, failed, retries, quarantines atomic.Int64
}

// service is one machine with one pool, and its requests.
type service struct {
	*campaign
	sum     *requestTally
	streams int
	queue   int
	using   sync.Map // workers
	setups  atomic.Int64
	states  atomic.Int64
	closed  atomic.Bool

	ofStream, ofDevice *pool.State[opened]
}

// Describe implements [seeds.Program].
func (s *service) Describe() string { return s.campaign.Describe() }

// opened is a state that has to be closed.
type opened struct{ open *atomic.Int64 }

func (o opened) Close() error {
	o.open.Add(-1)
	return nil
}

func (s *service) setup() (opened, error) {
	if s.setups.Add(1)%17 == 16 {
		panic(errData)
	}
	s.states.Add(1)
	return opened{&s.states}, nil
}

// Run implements [seeds.Program].
func (s *service) Run() (err error) {
	r := s.chance
	s.streams, s.queue = 1+r.IntN(4), r.IntN(40)
	s.ofStream = pool.PerStream(func(*pool.Worker) (opened, error) { return s.setup() })
	s.ofDevice = pool.PerDevice(func(*runtime.Context) (opened, error) { return s.setup() })
	if s.queue == 0 {
		s.queue = -1
	}
	s.rt, err = runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(s.gpu))
	if err != nil {
		return errors.Join(s.unexplained(err), s.gpu.Close())
	}
	s.p, err = pool.Open(s.rt, pool.Options{Streams: s.streams, Queue: s.queue, Setup: []pool.Setup{s.ofStream, s.ofDevice}})
	if err != nil {
		return err
	}
	goroutines := 64 + r.IntN(64)
	wrong := make(chan error, goroutines+1)
	var all sync.WaitGroup
	for range goroutines {
		own := rand.New(rand.NewPCG(s.seed, r.Uint64()))
		all.Go(func() {
			for range 1 + own.IntN(6) {
				if err := s.request(own); err != nil {
					wrong <- err
					return
				}
			}
		})
	}
	if r.IntN(3) == 0 {
		pause := time.Duration(r.IntN(3000)) * time.Microsecond
		all.Go(func() {
			time.Sleep(pause)
			wrong <- s.close()
		})
	}
	all.Wait()
	wrong <- s.close()
	close(wrong)
	for e := range wrong {
		err = errors.Join(err, e)
	}
	return errors.Join(err, s.end())
}

func (s *service) close() error {
	s.closed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Microsecond)
	defer cancel()
	if err := s.p.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return s.unexplained(err)
	}
	return s.unexplained(s.p.Close())
}

// end checks that nothing is left.
func (s *service) end() (err error) {
	stats := s.p.Stats()
	if stats.Queued != 0 {
		err = fmt.Errorf("%d requests in the queue of a closed pool", stats.Queued)
	}
	for _, d := range stats.Devices {
		if d.Busy != 0 || d.Outstanding != 0 || d.Streams > s.streams {
			err = errors.Join(err, fmt.Errorf("after the end: %+v", d))
		}
		if d.Quarantined {
			s.sum.quarantines.Add(1)
		}
	}
	s.sum.retries.Add(int64(stats.Retries))
	if n := s.states.Load(); n != 0 {
		err = errors.Join(err, fmt.Errorf("%d states are not closed", n))
	}
	err = errors.Join(err, s.unexplained(s.rt.Close()), s.gpu.Close())
	for _, f := range s.gpu.Findings() {
		err = errors.Join(err, fmt.Errorf("the driver found a mistake: %v", f))
	}
	for _, i := range s.gpu.Injected() {
		if i.Vanished || i.Op == "cuCtxPushCurrent" {
			return err // the driver keeps what cannot be reached
		}
	}
	if leaks := s.gpu.Leaks(); s.gpu.Sticky() == driver.Success && len(leaks) > 0 {
		err = errors.Join(err, fmt.Errorf("leaks: %v", leaks))
	}
	return err
}

// request makes a request and checks its answer.
func (s *service) request(r *rand.Rand) error {
	s.sum.all.Add(1)
	if n := s.p.Stats().Queued; n > s.queue+128 {
		return fmt.Errorf("%d requests in a queue for %d", n, s.queue)
	}
	if r.IntN(20) == 0 {
		return s.scatter(r)
	}
	waits := r.IntN(2) == 0
	options := pool.DoOptions{Wait: waits}
	if r.IntN(3) == 0 {
		options.Cost = time.Duration(r.IntN(1000)) * time.Microsecond
	}
	if r.IntN(3) == 0 {
		options.Priority = r.IntN(5) - 2
	}
	if r.IntN(3) == 0 {
		options.Retry = r.IntN(4)
	}
	if r.IntN(5) == 0 {
		options.Devices = []int{r.IntN(2)}
	}
	cpu := 0
	if r.IntN(3) == 0 {
		options.Fallback = func(context.Context) error { cpu++; return nil }
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.IntN(8) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(2000))*time.Microsecond)
		defer cancel()
	}
	calls, successes := 0, 0
	returned := false
	what, length := r.IntN(40), r.IntN(60)
	f := func(w *pool.Worker) error {
		if returned {
			return errors.New("called after the end")
		}
		if _, twice := s.using.LoadOrStore(w, true); twice {
			return errors.New("two requests have one worker")
		}
		defer s.using.Delete(w)
		calls++
		switch what {
		case 0:
			return errData
		case 1:
			panic(errData)
		case 2:
			cancel()
			_ = w.Stream().LaunchHostFunc(func() { time.Sleep(50 * time.Microsecond) })
			return w.Stream().Synchronize(w.CallContext())
		case 3:
			_, err := s.p.Do(w.CallContext(), func(*pool.Worker) error { return nil })
			if !errors.Is(err, driver.ErrInvalidArgument) {
				return fmt.Errorf("a call within a call: %w", err)
			}
		case 4:
			if s.ofStream.Of(w).open == nil || s.ofDevice.Of(w).open == nil {
				return errors.New("no state")
			}
		}
		in := count(1 + length)
		if err := triple(w, in, make([]uint32, len(in))); err != nil {
			return err
		}
		successes++
		return nil
	}
	if what == 5 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = s.p.Do(ctx, func(*pool.Worker) error { goruntime.Goexit(); return nil }, options)
		}()
		<-ended
		return nil
	}
	report, err := s.p.Do(ctx, f, options)
	returned = true
	return s.check(ctx, report, err, waits, calls, successes, cpu)
}

func (s *service) check(ctx context.Context, report pool.Report, err error, waits bool, calls, successes, cpu int) error {
	answer := fmt.Sprintf("%+v, %v: %d calls, %d successes, %d on the CPU", report, err, calls, successes, cpu)
	if report.Tries != calls || cpu > 1 || successes > 1 {
		return fmt.Errorf("wrong counts: %s", answer)
	}
	switch {
	case err == nil && report.Where == pool.OnGPU && successes == 1 && cpu == 0 && report.Reason == "":
		s.sum.onGPU.Add(1)
	case err == nil && report.Where == pool.OnCPU && successes == 0 && cpu == 1 && report.Reason != "" && report.Err != nil:
		s.sum.onCPU.Add(1)
		return s.explained(report.Err)
	case err == nil || successes > 0 || cpu > 0:
		return fmt.Errorf("a false answer: %s", answer)
	case errors.Is(err, pool.ErrQueueFull):
		s.sum.full.Add(1)
		if waits {
			return fmt.Errorf("refused, and it may wait: %s", answer)
		}
	case errors.Is(err, driver.ErrClosed) && s.closed.Load():
		s.sum.closed.Add(1)
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		s.sum.cancelled.Add(1)
	default:
		if errors.Is(err, pool.ErrQuarantined) {
			s.sum.quarantined.Add(1)
		} else {
			s.sum.failed.Add(1)
		}
		return s.explained(err)
	}
	return nil
}

// explained is unexplained of a request, which may ask for devices that are not there.
func (s *service) explained(err error) error {
	text := err.Error()
	if errors.Is(err, context.Canceled) || strings.Contains(text, "there is no device 1") {
		return nil
	}
	return s.unexplained(err)
}

// scatter makes a call that needs all devices.
func (s *service) scatter(r *rand.Rand) error {
	n := 1 + r.IntN(500)
	in, out := count(n), make([]uint32, n)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(100+r.IntN(100_000))*time.Microsecond)
	defer cancel()
	_, err := pool.Map(ctx, s.p, in, out, triple, pool.MapOptions[uint32, uint32]{MinPerDevice: r.IntN(100), Retry: r.IntN(3)})
	if err == nil && out[n-1] != uint32(3*(n-1)+1) {
		return errors.New("a wrong result")
	}
	if err == nil || errors.Is(err, pool.ErrQueueFull) || errors.Is(err, driver.ErrClosed) && s.closed.Load() {
		return nil
	}
	return s.explained(err)
}
