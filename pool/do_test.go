package pool_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
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
func burst(t *testing.T, p *pool.Pool, n int, f func(*pool.Worker) error, options ...pool.Option) map[int]int {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	by := map[int]int{}
	for range n {
		all.Go(func() {
			report, err := pool.Do(t.Context(), p, f, options...)
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
				p, _ := open(t, machine(4), pool.WithQueueWait())
				var mu sync.Mutex
				var all sync.WaitGroup
				by := map[int]int{}
				for range goroutines {
					all.Go(func() {
						for range 2000 / goroutines {
							report, err := pool.Do(t.Context(), p, sleeps(ms, ms, 10*ms, ms))
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
				_, err := pool.Do(t.Context(), p, func(w *pool.Worker) error {
					placed <- w.Index()
					time.Sleep(cost)
					return nil
				}, pool.WithCost(cost))
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
		p, _ := open(t, machine(1), pool.WithStreams(2), pool.WithQueue(3))
		var all sync.WaitGroup
		var full, done atomic.Int64
		for range 10 {
			all.Go(func() {
				report, err := pool.Do(t.Context(), p, sleeps(time.Second))
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
		_, err := pool.Scatter(t.Context(), p, 1, newDone(1).do)
		require.ErrorIs(t, err, pool.ErrQueueFull, "Scatter as well")
		start := time.Now()
		report, err := pool.Do(t.Context(), p, sleeps(time.Second), pool.WithQueueWait())
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
		p, _ := open(t, machine(1), pool.WithStreams(1))
		now := time.Now()
		var all sync.WaitGroup
		var order []string
		do := func(name string, options ...pool.Option) {
			all.Go(func() {
				_, err := pool.Do(t.Context(), p, func(*pool.Worker) error {
					order = append(order, name)
					time.Sleep(time.Second)
					return nil
				}, options...)
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		do("first")
		do("a")
		do("b")
		do("late", pool.WithDeadline(now.Add(time.Hour)))
		do("soon", pool.WithDeadline(now.Add(time.Minute)))
		do("high", pool.WithPriority(1))
		do("low", pool.WithPriority(-1))
		do("c")
		all.Wait()
		assert.Equal(t, []string{"first", "high", "soon", "late", "a", "b", "c", "low"}, order)
	})
}

func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(1), pool.WithStreams(1))
		never := pool.WithDoFallback(func(context.Context) error { panic("not after the end of the context") })
		release := make(chan struct{})
		go func() {
			_, err := pool.Do(context.Background(), p, func(*pool.Worker) error { <-release; return nil })
			assert.NoError(t, err)
		}()
		synctest.Wait()
		why := errors.New("the client has gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		report, err := pool.Do(ctx, p, func(*pool.Worker) error { panic("not run") }, never)
		assert.Equal(t, why, err, "in the queue")
		assert.Equal(t, time.Second, report.Waited)
		_, err = pool.Do(t.Context(), p, func(*pool.Worker) error { panic("not run") }, never, pool.WithDeadline(time.Now().Add(time.Second)))
		assert.Equal(t, context.DeadlineExceeded, err)
		_, err = pool.Do(ctx, p, func(*pool.Worker) error { panic("not run") }, never)
		assert.Equal(t, why, err, "before")
		assert.Zero(t, p.Stats().Queued)
		close(release)
		_, err = pool.Do(t.Context(), p, func(w *pool.Worker) error {
			<-w.Ctx().Done()
			return context.Cause(w.Ctx())
		}, never, pool.WithRetry(3), pool.WithDeadline(time.Now().Add(time.Second)))
		assert.Equal(t, context.DeadlineExceeded, err, "while it runs")
	})
}

// A stream with work that a request has left whose context has ended goes to nobody before the
// work is done, and Close waits for it.
func TestDoLeavesWork(t *testing.T) {
	p, _ := open(t, machine(1), pool.WithStreams(1))
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := pool.Do(ctx, p, func(w *pool.Worker) error {
		if err := w.Stream().Call(func() { <-release }); err != nil {
			return err
		}
		cancel()
		return w.Stream().Synchronize(w.Ctx())
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
	_, err := pool.Do(t.Context(), p, func(*pool.Worker) error { return errData })
	assert.Equal(t, errData, err, "as it is")
	_, err = pool.Do(t.Context(), p, func(*pool.Worker) error { panic("so bad") })
	var panicked *pool.PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, "so bad", panicked.Value)

	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_, _ = pool.Do(t.Context(), p, func(*pool.Worker) error { goruntime.Goexit(); return nil })
		t.Error("Do has returned")
	}()
	<-exited
	for _, d := range p.Stats().Devices {
		assert.Zero(t, d.Busy)
		assert.False(t, d.Quarantined, "a mistake of the function is none of the device")
	}

	for _, c := range []struct{ retries, tries int }{{0, 1}, {1, 2}, {2, 3}, {9, 3}} {
		var on []int
		report, err := pool.Do(t.Context(), p, func(w *pool.Worker) error { on = append(on, w.Index()); return errData }, pool.WithRetry(c.retries))
		assert.Equal(t, errData, err)
		assert.Equal(t, c.tries, report.Tries)
		assert.ElementsMatch(t, []int{0, 1, 2}[:c.tries], on, "each time another device")
	}
	ran := 0
	report, err := pool.Do(t.Context(), p, func(*pool.Worker) error {
		if ran++; ran < 3 {
			return errData
		}
		return nil
	}, pool.WithRetry(2))
	require.NoError(t, err)
	assert.Empty(t, report.Reason)
	assert.Equal(t, 3, report.Tries)
}

func TestDoFallback(t *testing.T) {
	fine := pool.WithDoFallback(func(context.Context) error { return nil })
	bad := pool.WithDoFallback(func(context.Context) error { return context.Canceled })
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
	wait := func(w *pool.Worker) error { return w.Stream().Synchronize(w.Ctx()) }
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
			_, err := pool.Do(t.Context(), p, wait)
			require.ErrorIs(t, err, driver.ErrDeviceLost)
			return p
		}, func(*pool.Worker) error { panic("not run") }, pool.Fault, driver.ErrDeviceLost},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := c.pool(t)
			report, err := pool.Do(t.Context(), p, c.f, fine)
			require.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.Equal(t, c.reason, report.Reason)
			assert.ErrorIs(t, report.Why, c.why)
			assert.Equal(t, driver.NoDevice, report.Device)
			before := p.Stats().Reasons[c.reason]
			assert.NotZero(t, before)
			_, err = pool.Do(t.Context(), p, c.f, bad)
			assert.ErrorIs(t, err, c.why)
			assert.ErrorIs(t, err, context.Canceled, "of the fallback")
			_, err = pool.Do(t.Context(), p, c.f)
			assert.ErrorIs(t, err, c.why)
		})
	}
}

// A call within one is an error where it has the context of the worker, and where it would wait.
func TestDoWithinACall(t *testing.T) {
	p, _ := open(t, machine(1), pool.WithStreams(1))
	nested := func(ctx context.Context) error {
		_, err := pool.Do(ctx, p, func(*pool.Worker) error { return nil })
		return err
	}
	for name, use := range map[string]func(*pool.Worker) error{
		"its context":     func(w *pool.Worker) error { return nested(w.Ctx()) },
		"another context": func(*pool.Worker) error { return nested(context.Background()) },
		"Close":           func(*pool.Worker) error { return p.Close() },
		"a Scatter": func(*pool.Worker) error {
			_, err := pool.Scatter(context.Background(), p, 1, newDone(1).do)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pool.Do(t.Context(), p, use)
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, "within a call")
		})
	}
	_, err := pool.Scatter(t.Context(), p, 1, func(*pool.Worker, pool.Tile) error { return nested(context.Background()) })
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	other, _ := open(t, machine(1))
	var deep func(n int) error
	deep = func(n int) error {
		if n > 0 {
			return deep(n - 1)
		}
		return nested(context.Background())
	}
	_, err = pool.Do(t.Context(), other, func(w *pool.Worker) error { return errors.Join(nested(w.Ctx()), deep(200)) })
	require.NoError(t, err, "another pool")
	_, err = pool.Do(t.Context(), p, func(*pool.Worker) error {
		_, err := pool.Do(context.Background(), other, func(*pool.Worker) error { return deep(200) })
		return err
	})
	require.ErrorIs(t, err, driver.ErrInvalidArgument, "through another pool")
	require.NoError(t, nested(t.Context()))
}

func TestDoOnDevices(t *testing.T) {
	p, _ := open(t, machine(4), pool.WithoutDevices(3))
	require.Len(t, p.Devices(), 3)
	nothing := func(*pool.Worker) error { return nil }
	for range 20 {
		report, err := pool.Do(t.Context(), p, nothing, pool.WithDevices(1, 2), pool.WithoutDevices(1))
		require.NoError(t, err)
		assert.Equal(t, 2, report.Device)
	}
	for name, options := range map[string][]pool.Option{
		"not there":    {pool.WithDevices(3)},
		"none left":    {pool.WithoutDevices(0, 1, 2)},
		"contradicted": {pool.WithDevices(0), pool.WithoutDevices(0)},
		"of Open":      {pool.WithStreams(3)},
		"negative":     {pool.WithCost(-1)},
	} {
		_, err := pool.Do(t.Context(), p, nothing, options...)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
	}
	_, err := pool.Scatter(t.Context(), p, 10, newDone(10).do, pool.WithoutDevices(0, 1, 2))
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	work := newDone(300)
	_, err = pool.Scatter(t.Context(), p, 300, work.do, pool.WithoutDevices(1))
	require.NoError(t, err)
	assert.Zero(t, work.by[1])
	assert.Equal(t, 300, work.by[0]+work.by[2])
}

// shares is what the streams of a device share in a test.
type shares struct{ device int }

func TestStates(t *testing.T) {
	var devices, streams, closed atomic.Int64
	p, _ := open(t, machine(2), pool.WithStreams(4), pool.WithDeviceSetup(func(w *pool.Worker) error {
		devices.Add(1)
		w.State = &struct {
			shares
			state
		}{shares{w.Device().Ordinal}, state{0, &closed}}
		return w.Stream().Synchronize(w.Ctx())
	}), pool.WithSetup(func(w *pool.Worker) error {
		streams.Add(1)
		w.State = &state{w.Device().Ordinal, &closed}
		return nil
	}))
	var all sync.WaitGroup
	together := make(chan struct{})
	var inside atomic.Int64
	for range 8 {
		all.Go(func() {
			_, err := pool.Do(t.Context(), p, func(w *pool.Worker) error {
				own, err := pool.State[*state](w)
				assert.NoError(t, err)
				assert.Equal(t, w.Device().Ordinal, own.device)
				shared, err := pool.State[*struct {
					shares
					state
				}](w)
				assert.NoError(t, err)
				assert.Equal(t, w.Device().Ordinal, shared.shares.device)
				_, err = pool.State[int](w)
				assert.ErrorIs(t, err, driver.ErrInvalidArgument)
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
	require.NoError(t, p.Close())
	assert.EqualValues(t, 10, closed.Load())
	_, err := pool.State[int](nil)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
}

// A device that cannot be prepared costs no request: f has not run.
func TestDoWhereADeviceCannotBePrepared(t *testing.T) {
	for _, op := range []string{"cuDevicePrimaryCtxRetain", "cuStreamCreateWithPriority"} {
		p, gpu := open(t, machine(2))
		gpu.Fail(op, 1, driver.ResultDeviceUnavailable)
		report, err := pool.Do(t.Context(), p, func(*pool.Worker) error { return nil })
		require.NoError(t, err, op)
		assert.Equal(t, 1, report.Tries)
		assert.EqualValues(t, 1, p.Stats().Devices[0].Failures+p.Stats().Devices[1].Failures)
	}
	p, _ := open(t, machine(2), pool.WithDeviceSetup(func(*pool.Worker) error { panic(errData) }))
	report, err := pool.Do(t.Context(), p, func(*pool.Worker) error { panic("not run") })
	require.ErrorIs(t, err, errData)
	assert.Equal(t, pool.Failed, report.Reason)
	assert.Zero(t, report.Tries)
}

// Shutdown says what still runs, and goes on when it is called again.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2), pool.WithStreams(1))
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := pool.Do(t.Context(), p, sleeps(10*time.Second))
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.EqualError(t, err, "the pool is not closed: 3 calls have not ended, 1 on device 0, 1 on device 1, 1 in the queue: context deadline exceeded")
		_, err = pool.Do(t.Context(), p, sleeps(time.Second))
		require.ErrorIs(t, err, driver.ErrClosed)
		require.NoError(t, p.Close())
		all.Wait()
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

// A Scatter has one stream of a device, and requests the others.
func TestDoBesideScatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2), pool.WithStreams(2))
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				_, err := pool.Scatter(t.Context(), p, 200, func(*pool.Worker, pool.Tile) error { time.Sleep(time.Hour); return nil }, whole)
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
		p, _ := open(t, machine(2), pool.WithStreams(streams), pool.WithQueue(queue))
		const capacity = 2 * streams * int(time.Second/service) // requests a second
		var all sync.WaitGroup
		var done, full atomic.Int64
		end := time.Now().Add(10 * time.Second)
		for i := 0; time.Now().Before(end); i++ {
			all.Go(func() {
				ran := 0
				report, err := pool.Do(t.Context(), p, func(*pool.Worker) error {
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
