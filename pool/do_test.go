package pool_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// sleeps is a function that takes so long on a device, by index.
func sleeps(by ...time.Duration) func(*pool.Worker) error {
	return func(w *pool.Worker) error {
		time.Sleep(by[w.Index()%len(by)])
		return nil
	}
}

// burst makes n requests at the same time, and counts those of each device.
func burst(t *testing.T, p *pool.Pool, n int, f func(*pool.Worker) error, options ...pool.DoOptions) map[int]int {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	by := map[int]int{}
	for range n {
		all.Go(func() {
			report, err := p.Do(t.Context(), f, options...)
			mu.Lock()
			defer mu.Unlock()
			assert.NoError(t, err)
			by[report.Device]++
		})
	}
	all.Wait()
	return by
}

// 64 requests of 5 ms on four devices take 5 ms.
func TestDoSharesTheDevices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(4))
		start := time.Now()
		assert.Equal(t, map[int]int{0: 16, 1: 16, 2: 16, 3: 16}, burst(t, p, 64, sleeps(5*time.Millisecond)))
		assert.Equal(t, 5*time.Millisecond, time.Since(start))
		s := p.Stats()
		assert.EqualValues(t, 64, s.Requests)
		assert.Zero(t, s.Queued)
		for _, d := range s.Devices {
			assert.EqualValues(t, 16, d.Requests)
			assert.Equal(t, 16, d.Streams)
			assert.Zero(t, d.Busy)
			assert.Zero(t, d.Outstanding)
			assert.Equal(t, 80*time.Millisecond, d.Ran)
		}
	})
}

// A device that is ten times slower gets about a tenth of what the others get.
func TestDoOnASlowDevice(t *testing.T) {
	const ms = time.Millisecond
	for name, goroutines := range map[string]int{"all at once": 2000, "from 64 goroutines": 64} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, _ := open(t, machine(4), pool.Options{Queue: math.MaxInt})
				var mu sync.Mutex
				var all sync.WaitGroup
				by := map[int]int{}
				for range goroutines {
					all.Go(func() {
						for range 2000 / goroutines {
							report, err := p.Do(t.Context(), sleeps(ms, ms, 10*ms, ms))
							mu.Lock()
							assert.NoError(t, err)
							by[report.Device]++
							mu.Unlock()
						}
					})
				}
				all.Wait()
				t.Log(by)
				assert.InDelta(t, 0.1, float64(by[2])/float64(by[0]), 0.03)
			})
		})
	}
}

// Where there is room, a request goes where it is done first: not to a device that is known to be slow.
func TestDoAvoidsTheSlowDevice(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2))
		burst(t, p, 32, sleeps(ms, 10*ms)) // now it is known
		for range 10 {
			assert.Equal(t, map[int]int{0: 4}, burst(t, p, 4, sleeps(ms, 10*ms)))
		}
	})
}

// Costs count, and not requests.
func TestDoByCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2))
		var all sync.WaitGroup
		defer all.Wait()
		do := func(cost time.Duration) (device int) {
			placed := make(chan int)
			all.Go(func() {
				_, err := p.Do(t.Context(), func(w *pool.Worker) error {
					placed <- w.Index()
					time.Sleep(cost)
					return nil
				}, pool.DoOptions{Cost: cost})
				assert.NoError(t, err)
			})
			return <-placed
		}
		assert.Equal(t, 0, do(10*time.Second))
		for range 9 {
			assert.Equal(t, 1, do(time.Second))
		}
		assert.Equal(t, 9*time.Second, p.Stats().Devices[1].Outstanding)
	})
}

func TestDoQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(1), pool.Options{Streams: 2, Queue: 3})
		var all sync.WaitGroup
		var full, done atomic.Int64
		for range 10 {
			all.Go(func() {
				report, err := p.Do(t.Context(), sleeps(time.Second))
				if errors.Is(err, pool.ErrQueueFull) {
					full.Add(1)
					assert.Zero(t, report.Tries)
					return
				}
				assert.NoError(t, err)
				done.Add(1)
			})
		}
		synctest.Wait()
		assert.Equal(t, 3, p.Stats().Queued)
		_, err := p.Scatter(t.Context(), 1, newDone(1).do)
		require.ErrorIs(t, err, pool.ErrQueueFull, "Scatter as well")
		start := time.Now()
		report, err := p.Do(t.Context(), sleeps(time.Second), pool.DoOptions{Wait: true})
		require.NoError(t, err, "one that may wait")
		assert.Equal(t, 2*time.Second, report.Waited)
		assert.Equal(t, 3*time.Second, time.Since(start))
		all.Wait()
		assert.EqualValues(t, 5, done.Load())
		assert.EqualValues(t, 5, full.Load())
		s := p.Stats()
		assert.EqualValues(t, 6, s.Refused)
		assert.EqualValues(t, 4, s.Waits)
		assert.Equal(t, (1+1+2+2)*time.Second, s.Waited)
	})
}

// In the queue priorities come first, then deadlines, then times.
func TestDoOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(1), pool.Options{Streams: 1})
		var all sync.WaitGroup
		var order []string
		do := func(name string, patience time.Duration, options ...pool.DoOptions) {
			ctx := t.Context()
			if patience > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, patience)
				t.Cleanup(cancel)
			}
			all.Go(func() {
				_, err := p.Do(ctx, func(*pool.Worker) error {
					order = append(order, name)
					time.Sleep(time.Second)
					return nil
				}, options...)
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		do("first", 0)
		do("a", 0)
		do("b", 0)
		do("late", time.Hour)
		do("soon", time.Minute)
		do("high", 0, pool.DoOptions{Priority: 1})
		do("low", 0, pool.DoOptions{Priority: -1})
		do("c", 0)
		all.Wait()
		assert.Equal(t, []string{"first", "high", "soon", "late", "a", "b", "c", "low"}, order)
	})
}

func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(1), pool.Options{Streams: 1})
		never := pool.DoOptions{Retry: 3, Fallback: func(context.Context) error { panic("not after the end of the context") }}
		release := make(chan struct{})
		go func() {
			_, err := p.Do(context.Background(), func(*pool.Worker) error { <-release; return nil })
			assert.NoError(t, err)
		}()
		synctest.Wait()
		why := errors.New("the client has gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		report, err := p.Do(ctx, func(*pool.Worker) error { panic("not run") }, never)
		assert.Equal(t, why, err, "in the queue")
		assert.Equal(t, time.Second, report.Waited)
		_, err = p.Do(ctx, func(*pool.Worker) error { panic("not run") }, never)
		assert.Equal(t, why, err, "before")
		assert.Zero(t, p.Stats().Queued)
		close(release)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Do(soon, func(w *pool.Worker) error {
			<-w.CallContext().Done()
			return context.Cause(w.CallContext())
		}, never)
		assert.Equal(t, context.DeadlineExceeded, err, "while it runs")
	})
}

// A stream with work that a request has left whose context has ended goes to nobody before the
// work is done, and Close waits for it.
func TestDoLeavesWork(t *testing.T) {
	p, _ := open(t, machine(1), pool.Options{Streams: 1})
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := p.Do(ctx, func(w *pool.Worker) error {
		if err := w.Stream().LaunchHostFunc(func() { <-release }); err != nil {
			return err
		}
		cancel()
		return w.Stream().Synchronize(w.CallContext())
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 1, p.Stats().Devices[0].Busy)
	ended, stop := context.WithCancel(t.Context())
	stop()
	require.ErrorIs(t, p.Shutdown(ended), context.Canceled)
	close(release)
	require.NoError(t, p.Close())
	assert.Zero(t, p.Stats().Devices[0].Busy)
}

func TestDoFailures(t *testing.T) {
	p, _ := open(t, machine(3))
	_, err := p.Do(t.Context(), func(*pool.Worker) error { return errData })
	assert.Equal(t, errData, err, "as it is")
	_, err = p.Do(t.Context(), func(*pool.Worker) error { panic("so bad") })
	var panicked *pool.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, "so bad", panicked.Value)

	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_, _ = p.Do(t.Context(), func(*pool.Worker) error { goruntime.Goexit(); return nil })
		t.Error("Do has returned")
	}()
	<-exited
	for _, d := range p.Stats().Devices {
		assert.Zero(t, d.Busy)
		assert.False(t, d.Quarantined, "a mistake of the function is none of the device")
	}

	for _, c := range []struct{ retries, tries int }{{0, 1}, {1, 2}, {2, 3}, {9, 3}} {
		var on []int
		report, err := p.Do(t.Context(), func(w *pool.Worker) error { on = append(on, w.Index()); return errData }, pool.DoOptions{Retry: c.retries})
		assert.Equal(t, errData, err)
		assert.Equal(t, c.tries, report.Tries)
		assert.ElementsMatch(t, []int{0, 1, 2}[:c.tries], on, "each time another device")
	}
	ran := 0
	report, err := p.Do(t.Context(), func(*pool.Worker) error {
		if ran++; ran < 3 {
			return errData
		}
		return nil
	}, pool.DoOptions{Retry: 2})
	require.NoError(t, err)
	assert.Empty(t, report.Reason)
	assert.Equal(t, 3, report.Tries)
}

func TestDoFallback(t *testing.T) {
	fine := pool.DoOptions{Fallback: func(context.Context) error { return nil }}
	bad := pool.DoOptions{Fallback: func(context.Context) error { return context.Canceled }}
	failing := func(*pool.Worker) error { return errData }
	lost := func(t *testing.T) *pool.Pool {
		p, gpu := open(t, machine(2))
		gpu.Fail("cuStreamWriteValue64", 1, driver.ResultIllegalAddress)
		return p
	}
	off := func(t *testing.T) *pool.Pool {
		rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
		require.NoError(t, err)
		return openOn(t, rt)
	}
	wait := func(w *pool.Worker) error { return w.Stream().Synchronize(w.CallContext()) }
	for _, c := range []struct {
		name   string
		pool   func(t *testing.T) *pool.Pool
		f      func(*pool.Worker) error
		reason pool.Reason
		why    error
	}{
		{"policy off", off, failing, pool.PolicyOff, driver.ErrDriverLibraryUnavailable},
		{"absent", func(t *testing.T) *pool.Pool { return without(t) }, failing, pool.Absent, driver.ErrDriverLibraryUnavailable},
		{"failed", func(t *testing.T) *pool.Pool { p, _ := open(t, machine(2)); return p }, failing, pool.Failed, errData},
		{"lost", lost, wait, pool.Failed, driver.ErrDeviceLost},
		{"lost before", func(t *testing.T) *pool.Pool {
			p := lost(t)
			_, err := p.Do(t.Context(), wait)
			require.ErrorIs(t, err, driver.ErrDeviceLost)
			return p
		}, func(*pool.Worker) error { panic("not run") }, pool.Fault, driver.ErrDeviceLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.pool(t)
			report, err := p.Do(t.Context(), c.f, fine)
			require.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.Equal(t, c.reason, report.Reason)
			assert.ErrorIs(t, report.Err, c.why)
			assert.Equal(t, driver.NoDevice, report.Device)
			before := p.Stats().Reasons[c.reason]
			assert.NotZero(t, before)
			_, err = p.Do(t.Context(), c.f, bad)
			assert.ErrorIs(t, err, c.why)
			assert.ErrorIs(t, err, context.Canceled, "of the fallback")
			_, err = p.Do(t.Context(), c.f)
			assert.ErrorIs(t, err, c.why)
		})
	}
}

// A call within one is an error where it has the context of the worker, and so is the end of the pool.
func TestDoWithinACall(t *testing.T) {
	p, _ := open(t, machine(1), pool.Options{Streams: 1})
	nested := func(ctx context.Context) error {
		_, err := p.Do(ctx, func(*pool.Worker) error { return nil })
		return err
	}
	for name, use := range map[string]func(context.Context) error{
		"Do":       nested,
		"Shutdown": p.Shutdown,
		"Scatter": func(ctx context.Context) error {
			_, err := p.Scatter(ctx, 1, newDone(1).do)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Do(t.Context(), func(w *pool.Worker) error { return use(w.CallContext()) })
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, "within a call")
		})
	}
	_, err := p.Scatter(t.Context(), 1, func(w *pool.Worker, _ pool.Tile) error { return nested(w.CallContext()) })
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	other, _ := open(t, machine(1))
	_, err = other.Do(t.Context(), func(w *pool.Worker) error { return nested(w.CallContext()) })
	require.NoError(t, err, "another pool")
	_, err = p.Do(t.Context(), func(w *pool.Worker) error {
		_, err := other.Do(w.CallContext(), func(w *pool.Worker) error { return nested(w.CallContext()) })
		return err
	})
	require.ErrorIs(t, err, driver.ErrInvalidArgument, "through another pool")
	_, err = p.Do(t.Context(), func(*pool.Worker) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		return nested(ctx)
	})
	require.ErrorIs(t, err, context.DeadlineExceeded, "with another context it waits until that ends")
	require.NoError(t, nested(t.Context()))
}

func TestDoOnDevices(t *testing.T) {
	p, _ := open(t, machine(4), pool.Options{Devices: []int{0, 1, 2}})
	require.Len(t, p.Devices(), 3)
	nothing := func(*pool.Worker) error { return nil }
	for range 20 {
		report, err := p.Do(t.Context(), nothing, pool.DoOptions{Devices: []int{2}})
		require.NoError(t, err)
		assert.Equal(t, 2, report.Device)
	}
	for name, options := range map[string][]pool.DoOptions{
		"not there":     {{Devices: []int{3}}},
		"negative":      {{Cost: -1}},
		"two of a call": {{}, {}},
	} {
		_, err := p.Do(t.Context(), nothing, options...)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
	}
	_, err := p.Do(t.Context(), nothing, pool.DoOptions{Cost: time.Hour})
	require.NoError(t, err, "a time that 32 bits do not hold")
	work := newDone(300)
	_, err = p.Scatter(t.Context(), 300, work.do, pool.ScatterOptions{Devices: []int{0, 2}})
	require.NoError(t, err)
	assert.Zero(t, work.by[1])
	assert.Equal(t, 300, work.by[0]+work.by[2])
}

func TestStates(t *testing.T) {
	var devices, streams, closed atomic.Int64
	ofDevice := pool.PerDevice(func(c *runtime.Context) (*state, error) {
		devices.Add(1)
		return &state{c.Device().Ordinal, &closed}, nil
	})
	ofStream := pool.PerStream(func(w *pool.Worker) (*state, error) {
		streams.Add(1)
		return &state{ofDevice.Of(w).device, &closed}, w.Stream().Synchronize(w.CallContext())
	})
	unknown := pool.PerDevice(func(*runtime.Context) (int, error) { return 7, nil })
	p, _ := open(t, machine(2), pool.Options{Streams: 4, Setup: []pool.Setup{ofStream, ofDevice}})
	var all sync.WaitGroup
	together := make(chan struct{})
	var inside atomic.Int64
	for range 8 {
		all.Go(func() {
			_, err := p.Do(t.Context(), func(w *pool.Worker) error {
				assert.Equal(t, w.Device().Ordinal, ofStream.Of(w).device)
				assert.Equal(t, w.Device().Ordinal, ofDevice.Of(w).device)
				assert.NotSame(t, ofDevice.Of(w), ofStream.Of(w))
				if inside.Add(1) == 8 {
					close(together)
				}
				<-together
				return nil
			})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.EqualValues(t, 2, devices.Load(), "once for each device")
	assert.EqualValues(t, 8, streams.Load(), "once for each stream")
	assert.Zero(t, closed.Load())
	for name, end := range map[string]func() error{
		"nil": func() error { return nil }, "error": func() error { return errData }, "panic": func() error { panic(errData) },
	} {
		_, err := p.Do(t.Context(), func(w *pool.Worker) error {
			assert.Zero(t, unknown.Of(w))
			return end()
		})
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
		assert.ErrorContains(t, err, "the State of int is not in the Setup of the pool")
	}
	_, err := p.Do(t.Context(), func(*pool.Worker) error { return nil })
	require.NoError(t, err, "the next one")
	require.NoError(t, p.Close())
	assert.EqualValues(t, 10, closed.Load())
	assert.Zero(t, unknown.Of(nil))
	for _, wrong := range []pool.Setup{nil, (*pool.State[int])(nil), pool.PerDevice[int](nil), pool.PerStream[int](nil), new(pool.State[int])} {
		rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
		require.NoError(t, err)
		_, err = pool.Open(rt, pool.Options{Setup: []pool.Setup{ofDevice, wrong}})
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "Setup[1] has no function")
	}
}

// A device that cannot be prepared costs no request: f has not run.
func TestDoWhereADeviceCannotBePrepared(t *testing.T) {
	for _, op := range []string{"cuDevicePrimaryCtxRetain", "cuStreamCreateWithPriority"} {
		p, gpu := open(t, machine(2))
		gpu.Fail(op, 1, driver.ResultDeviceUnavailable)
		report, err := p.Do(t.Context(), func(*pool.Worker) error { return nil })
		require.NoError(t, err, op)
		assert.Equal(t, 1, report.Tries)
		assert.EqualValues(t, 1, p.Stats().Devices[0].Failures+p.Stats().Devices[1].Failures)
	}
	p, _ := open(t, machine(2), pool.Options{Setup: []pool.Setup{pool.PerDevice(func(*runtime.Context) (int, error) { panic(errData) })}})
	report, err := p.Do(t.Context(), func(*pool.Worker) error { panic("not run") })
	require.ErrorIs(t, err, errData)
	assert.Equal(t, pool.Failed, report.Reason)
	assert.Zero(t, report.Tries)
}

// Shutdown says what still runs, and goes on when it is called again.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2), pool.Options{Streams: 1})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := p.Do(t.Context(), sleeps(10*time.Second))
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, "the pool is not closed: 3 calls have not ended, 1 on device 0, 1 on device 1, 1 in the queue: context deadline exceeded")
		_, err = p.Do(t.Context(), sleeps(time.Second))
		require.ErrorIs(t, err, driver.ErrClosed)
		require.NoError(t, p.Close())
		all.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// A Scatter has one stream of a device, and requests the others.
func TestDoBesideScatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2), pool.Options{Streams: 2})
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := p.Scatter(t.Context(), 200, func(*pool.Worker, pool.Tile) error { time.Sleep(time.Hour); return nil }, pool.ScatterOptions{Chunk: whole})
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		start := time.Now()
		burst(t, p, 4, sleeps(time.Second))
		assert.Equal(t, 2*time.Second, time.Since(start))
		all.Wait()
		assert.Equal(t, 2*time.Hour, time.Since(start), "one Scatter after the other")
	})
}

// Ten times more requests than the devices can do: the queue keeps its bound, those that are accepted
// wait no longer than the queue takes, and each request gets one answer.
func TestDoOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, queue, service = 4, 32, 10 * time.Millisecond
		p, _ := open(t, machine(2), pool.Options{Streams: streams, Queue: queue})
		const capacity = 2 * streams * int(time.Second/service) // requests a second
		var all sync.WaitGroup
		var done, full atomic.Int64
		end := time.Now().Add(10 * time.Second)
		for i := 0; time.Now().Before(end); i++ {
			all.Go(func() {
				ran := 0
				report, err := p.Do(t.Context(), func(*pool.Worker) error {
					ran++
					time.Sleep(service)
					return nil
				})
				if errors.Is(err, pool.ErrQueueFull) {
					full.Add(1)
					assert.Zero(t, ran)
					return
				}
				assert.NoError(t, err)
				assert.Equal(t, 1, ran)
				assert.LessOrEqual(t, report.Waited, queue*service/(2*streams))
				done.Add(1)
			})
			if i%100 == 0 {
				assert.LessOrEqual(t, p.Stats().Queued, queue)
			}
			time.Sleep(time.Second / time.Duration(10*capacity))
		}
		all.Wait()
		s := p.Stats()
		t.Logf("%d done, %d refused", done.Load(), full.Load())
		assert.InDelta(t, 10*capacity, done.Load(), 0.01*10*float64(capacity)+queue)
		assert.EqualValues(t, s.Refused, full.Load())
		assert.EqualValues(t, s.Requests, done.Load()+full.Load())
	})
}

// As many callers as there are streams and places in the queue, each of which calls again when its call has ended, are never refused.
func TestClosedLoopIsNeverRefused(t *testing.T) {
	seeds.Each(t, seeds.Count(30, 200, 30), func(t *testing.T, seed uint64) {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS([]int{1, 4}[seed%2]))
		chance := rand.New(rand.NewPCG(seed, 0xc105ed))
		devices, streams, queue := 1+chance.IntN(4), 1+chance.IntN(4), chance.IntN(6)
		p, _ := open(t, machine(devices), pool.Options{Streams: streams, Queue: cmp.Or(queue, -1)})
		var all sync.WaitGroup
		for range devices*streams + queue {
			own := rand.New(rand.NewPCG(seed, chance.Uint64()))
			all.Go(func() {
				for range 300 {
					yields, result := own.IntN(30), []error{nil, errData}[own.IntN(20)/19]
					_, err := p.Do(context.Background(), func(*pool.Worker) error {
						for range yields {
							goruntime.Gosched()
						}
						return result
					})
					if !assert.Equal(t, result, err) {
						return
					}
				}
			})
		}
		all.Wait()
		assert.Zero(t, p.Stats().Refused)
	})
}

func TestDoAllocatesLittle(t *testing.T) {
	nothing := func(*pool.Worker) error { return nil }
	for _, devices := range []int{1, 2} {
		p, _ := open(t, machine(devices))
		for _, options := range [][]pool.DoOptions{nil, {{Retry: 1, Cost: time.Microsecond}}} {
			allocs.AtMost(t, 1, 100, func() {
				_, err := p.Do(context.Background(), nothing, options...)
				require.NoError(t, err)
			}, devices, " devices, ", options)
		}
	}
}
