package pool_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// doors are the calls of a pool with a fallback. Each does f on a device, or cpu.
var doors = map[string]func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error, cpu func(context.Context) error, options ...pool.DoOptions) error{
	"Do": func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error, cpu func(context.Context) error, options ...pool.DoOptions) error {
		o := only(options)
		o.Fallback = cpu
		_, err := p.Do(ctx, f, o)
		return err
	},
	"Scatter": func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error, cpu func(context.Context) error, options ...pool.DoOptions) error {
		o := only(options)
		_, err := p.Scatter(ctx, 1, func(w *pool.Worker, _ pool.Tile) error { return f(w) },
			pool.ScatterOptions{Retry: o.Retry, Wait: o.Wait, BreakEven: o.BreakEven, Fallback: func(ctx context.Context, _, _ int) error { return cpu(ctx) }})
		return err
	},
	"Map": func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error, cpu func(context.Context) error, options ...pool.DoOptions) error {
		o := only(options)
		_, err := pool.Map(ctx, p, make([]int, 1), make([]int, 1), func(w *pool.Worker, _, _ []int) error { return f(w) },
			pool.MapOptions[int, int]{Retry: o.Retry, Wait: o.Wait, BreakEven: o.BreakEven, Fallback: func(ctx context.Context, _, _ []int) error { return cpu(ctx) }})
		return err
	},
	"Reduce": func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error, cpu func(context.Context) error, options ...pool.DoOptions) error {
		o := only(options)
		_, _, err := pool.Reduce(ctx, p, 1, 1, func(w *pool.Worker, _, _ int, _ []int) error { return f(w) }, func(a, b int) int { return a + b },
			pool.ReduceOptions[int]{Retry: o.Retry, Wait: o.Wait, BreakEven: o.BreakEven, Fallback: func(ctx context.Context, _, _ int, _ []int) error { return cpu(ctx) }})
		return err
	},
	"Batcher": func(ctx context.Context, p *pool.Pool, f func(*pool.Worker) error, cpu func(context.Context) error, options ...pool.DoOptions) error {
		o := only(options)
		b, err := pool.NewBatcher(p, func(w *pool.Worker, _, _ []int, _ []error) error { return f(w) },
			pool.BatcherConfig[int, int]{Retry: o.Retry, Label: o.Label, Reserve: o.Reserve, BreakEven: o.BreakEven,
				Fallback: func(ctx context.Context, _, _ []int, _ []error) error { return cpu(ctx) }})
		if err != nil {
			return err
		}
		_, err = b.Do(ctx, 1)
		return errors.Join(err, b.Close())
	},
}

// only is the one of some options, or none.
func only(options []pool.DoOptions) (o pool.DoOptions) {
	for _, o = range options {
	}
	return o
}

// lose ends CUDA with a sticky error.
func lose(t *testing.T, p *pool.Pool, gpu *drivertest.Driver) {
	t.Helper()
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	_, err := p.Do(t.Context(), asks)
	require.ErrorIs(t, err, driver.ErrDeviceLost)
}

// openWith opens a pool with a policy and a log.
func openWith(t *testing.T, policy runtime.Policy, log *bytes.Buffer, options ...pool.Options) (*pool.Pool, *drivertest.Driver) {
	t.Helper()
	gpu := drivertest.ForTest(t, machine(2))
	rt, err := runtime.Open(runtime.WithPolicy(policy), runtime.WithDriver(gpu), runtime.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	return openOn(t, rt, options...), gpu
}

// The policy required keeps work from the CPU at every door, whatever the reason.
func TestRequired(t *testing.T) {
	cpu := func(context.Context) error { panic("on the CPU") }
	fails := func(*pool.Worker) error { return errData }
	for door, do := range doors {
		t.Run(door, func(t *testing.T) {
			var log bytes.Buffer
			p, gpu := openWith(t, runtime.PolicyRequired, &log)
			assert.Equal(t, nil, do(t.Context(), p, func(*pool.Worker) error { return nil }, cpu))
			err := do(t.Context(), p, fails, cpu)
			require.ErrorIs(t, err, errData)
			require.ErrorIs(t, err, driver.ErrRequired)
			if door == "Do" || door == "Batcher" {
				err = do(t.Context(), p, fails, cpu, pool.DoOptions{Label: "a", Reserve: 1 << 60})
				require.ErrorIs(t, err, driver.ErrOutOfMemory)
				require.ErrorIs(t, err, driver.ErrRequired)
			}
			lose(t, p, gpu)
			for range 3 {
				err = do(t.Context(), p, fails, cpu)
				require.ErrorIs(t, err, driver.ErrDeviceLost)
				require.ErrorIs(t, err, driver.ResultIllegalAddress, "the cause")
				require.ErrorIs(t, err, driver.ErrRequired)
			}
		})
	}
}

// A fault behind a fallback is a line of the log, once for each reason, and counts.
func TestFallbackIsSaid(t *testing.T) {
	for door, do := range doors {
		t.Run(door, func(t *testing.T) {
			var log bytes.Buffer
			p, gpu := openWith(t, runtime.PolicyAuto, &log)
			cpu := func(context.Context) error { return nil }
			for range 3 {
				require.NoError(t, do(t.Context(), p, func(*pool.Worker) error { return errData }, cpu))
			}
			lose(t, p, gpu)
			for range 100 {
				require.NoError(t, do(t.Context(), p, func(*pool.Worker) error { panic("not run") }, cpu))
			}
			var warnings []string
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "the CPU does work") {
					warnings = append(warnings, line)
				}
			}
			require.Len(t, warnings, 2)
			assert.Contains(t, warnings[0], "level=WARN")
			assert.Contains(t, warnings[0], "reason=failed")
			assert.Contains(t, warnings[0], errData.Error())
			assert.Contains(t, warnings[1], "reason=fault")
			assert.Contains(t, warnings[1], "CUDA_ERROR_ILLEGAL_ADDRESS")
			s := p.Stats()
			assert.EqualValues(t, 4, s.Reasons[pool.Failed], "and that which has lost CUDA")
			assert.EqualValues(t, 100, s.Reasons[pool.Fault])
			assert.EqualValues(t, 104, s.Requests, "those on the CPU as well")
		})
	}
}

// As many fallbacks run at the same time as there are cores. The queue has its bound, and who does not find room fails.
func TestFallbackIsBounded(t *testing.T) {
	for door, do := range doors {
		if door == "Batcher" {
			continue // has its own bounds
		}
		t.Run(door, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const room, callers = 8, 1000
				cores := goruntime.GOMAXPROCS(0)
				p := without(t, pool.Options{Queue: room})
				var all sync.WaitGroup
				var running, most, full, done atomic.Int64
				for range callers {
					all.Go(func() {
						err := do(t.Context(), p, func(*pool.Worker) error { panic("not run") }, func(context.Context) error {
							if n := running.Add(1); n > most.Load() {
								most.Store(n)
							}
							time.Sleep(time.Second)
							running.Add(-1)
							return nil
						})
						if err == nil {
							done.Add(1)
						} else if assert.ErrorIs(t, err, pool.ErrQueueFull) {
							full.Add(1)
						}
					})
				}
				time.Sleep(time.Millisecond)
				assert.Equal(t, room, p.Stats().Queued)
				all.Wait()
				assert.EqualValues(t, cores, most.Load())
				assert.EqualValues(t, cores+room, done.Load())
				s := p.Stats()
				assert.EqualValues(t, callers-cores-room, full.Load())
				assert.EqualValues(t, callers-cores-room, s.Refused)
				assert.EqualValues(t, callers, s.Requests)
				assert.Zero(t, s.Queued)
				assert.EqualValues(t, room, s.Waits)
			})
		})
	}
}

// fill occupies all cores with fallbacks until release is closed.
func fill(t *testing.T, p *pool.Pool, release chan struct{}, f func(ctx context.Context) error) (wait func()) {
	var all sync.WaitGroup
	for range goruntime.GOMAXPROCS(0) {
		all.Go(func() {
			_, err := p.Do(t.Context(), func(*pool.Worker) error { panic("not run") }, pool.DoOptions{Fallback: func(ctx context.Context) error {
				<-release
				return f(ctx)
			}})
			assert.NoError(t, err)
		})
	}
	synctest.Wait()
	return all.Wait
}

// A request that waits for the CPU has its place by priority and deadline, and leaves with its context.
func TestQueueOfTheCPU(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := without(t, pool.Options{Queue: 4})
		release := make(chan struct{})
		wait := fill(t, p, release, func(context.Context) error { return nil })
		nothing := func(*pool.Worker) error { return nil }
		never := pool.DoOptions{Fallback: func(context.Context) error { panic("not run") }}
		why := errors.New("the client has gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		report, err := p.Do(ctx, nothing, never)
		require.ErrorIs(t, err, why)
		assert.Equal(t, time.Second, report.Waited)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all, err := p.Scatter(soon, 10, newDone(10).do, pool.ScatterOptions{Fallback: func(context.Context, int, int) error { panic("not run") }})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable, "why the CPU")
		assert.Contains(t, all.String(), "0 of 10 items on the cpu")
		assert.Zero(t, p.Stats().Queued)

		old := goruntime.GOMAXPROCS(1) // one after the other
		defer goruntime.GOMAXPROCS(old)
		var order []string
		var others sync.WaitGroup
		add := func(name string, patience time.Duration, priority int) {
			ctx := t.Context()
			if patience > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, patience)
				t.Cleanup(cancel)
			}
			others.Go(func() {
				_, err := p.Do(ctx, nothing, pool.DoOptions{Priority: priority, Fallback: func(context.Context) error {
					order = append(order, name)
					return nil
				}})
				assert.NoError(t, err)
			})
			synctest.Wait()
		}
		add("first", 0, 0)
		add("late", time.Hour, 0)
		add("soon", time.Minute, 0)
		add("high", 0, 1)
		ended, stop := context.WithCancel(t.Context())
		stop()
		assert.ErrorContains(t, p.Shutdown(ended), "4 in the queue")
		close(release)
		wait()
		others.Wait()
		assert.Equal(t, []string{"high", "soon", "late", "first"}, order)
	})
}

// A fallback may call the pool with its context when all cores have one, on any goroutine.
func TestFallbackCallsThePool(t *testing.T) {
	for door, do := range doors {
		t.Run(door, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := without(t, pool.Options{Queue: -1})
				var ran atomic.Int64
				again := func(ctx context.Context) error {
					return do(ctx, p, func(*pool.Worker) error { panic("not run") }, func(context.Context) error { ran.Add(1); return nil }, pool.DoOptions{Wait: true})
				}
				release := make(chan struct{})
				wait := fill(t, p, release, func(ctx context.Context) error {
					other := make(chan error)
					go func() { other <- again(ctx) }()
					return errors.Join(again(ctx), <-other)
				})
				close(release)
				wait()
				assert.EqualValues(t, 2*goruntime.GOMAXPROCS(0), ran.Load())
			})
		})
	}
}

// What was let in is not refused later: its devices have failed, and it waits for the CPU where the queue is full.
func TestFallbackOfAcceptedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(1), pool.Options{Queue: 1, Streams: 64})
		var all sync.WaitGroup
		var ran atomic.Int64
		for range 64 {
			all.Go(func() {
				_, err := p.Do(t.Context(), func(*pool.Worker) error { time.Sleep(time.Second); return errData },
					pool.DoOptions{Fallback: func(context.Context) error { ran.Add(1); time.Sleep(time.Second); return nil }})
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.EqualValues(t, 64, ran.Load())
	})
}

// Calls of several devices take a place each while no device has begun them. Those that run take none.
func TestPlacesOfScatter(t *testing.T) {
	for _, queue := range []int{-1, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			p, _ := open(t, machine(2), pool.Options{Queue: queue})
			queue := max(queue, 0)
			scatter := func() error {
				_, err := p.Scatter(t.Context(), 1000, func(*pool.Worker, pool.Tile) error { time.Sleep(time.Second); return nil }, pool.ScatterOptions{Chunk: 1000})
				return err
			}
			errs := make(chan error, 20)
			go func() { errs <- scatter() }()
			synctest.Wait() // it runs on both devices
			for range cap(errs) - 1 {
				go func() { errs <- scatter() }()
			}
			synctest.Wait()
			assert.Len(t, errs, cap(errs)-1-queue, "those without a place")
			assert.Equal(t, queue, p.Stats().Queued)
			for range cap(errs) - 1 - queue {
				assert.ErrorIs(t, <-errs, pool.ErrQueueFull)
			}
			for range 1 + queue {
				assert.NoError(t, <-errs)
			}
			assert.Zero(t, p.Stats().Queued)
		})
	}
}

// A function that panics or ends its goroutine at any door costs no stream, no turn on the CPU and no Close of the pool.
func TestFunctionsThatEndTheGoroutine(t *testing.T) {
	ends := map[string]func(){"panic": func() { panic("no") }, "Goexit": goruntime.Goexit}
	for door, do := range doors {
		for name, end := range ends {
			t.Run(door+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					none := without(t, pool.Options{Queue: -1})
					p, _ := open(t, machine(1), pool.Options{Streams: 2, Queue: -1})
					f := func(*pool.Worker) error { end(); return nil }
					cpu := func(context.Context) error { end(); return nil }
					for range 2 * goruntime.GOMAXPROCS(0) {
						for _, p := range []*pool.Pool{none, p} {
							exited := make(chan error, 1)
							go func() {
								err := errors.New("the goroutine has ended")
								defer func() { exited <- err }()
								err = do(t.Context(), p, f, cpu, pool.DoOptions{Wait: true})
							}()
							assert.Error(t, <-exited)
						}
					}
					nothing := func(context.Context) error { return nil }
					require.NoError(t, do(t.Context(), none, func(*pool.Worker) error { panic("not run") }, nothing, pool.DoOptions{Wait: true}))
					require.NoError(t, do(t.Context(), p, func(*pool.Worker) error { return nil }, nothing, pool.DoOptions{Wait: true}))
					assert.Zero(t, p.Stats().Devices[0].Busy)
					require.NoError(t, p.Close())
					require.NoError(t, none.Close())
				})
			})
		}
	}
	p := without(t)
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_, _, _ = pool.Reduce(t.Context(), p, 2, 1, func(*pool.Worker, int, int, []int) error { return nil },
			func(int, int) int { goruntime.Goexit(); return 0 },
			pool.ReduceOptions[int]{Fallback: func(context.Context, int, int, []int) error { return nil }})
	}()
	<-exited
	require.NoError(t, p.Close())
}
