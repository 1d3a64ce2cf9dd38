package runtime_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/refs"
	"github.com/purecuda/purecuda/runtime"
)

// works does something of every kind in a context.
func works(c *runtime.Context) error {
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	m, err := c.LoadModule(runtime.Image{Code: kernelsPTX})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	x, err := runtime.Alloc[uint32](s, 100)
	if err != nil {
		return errors.Join(err, m.Close(), s.Close())
	}
	k, err := m.Kernel("add")
	got := make([]uint32, x.Len())
	if err == nil {
		err = errors.Join(runtime.Upload(bg, s, x, count(0, x.Len())), addTo(k, s, x, 5), runtime.Download(bg, s, got, x))
	}
	if err == nil && !slices.Equal(count(5, x.Len()), got) {
		err = fmt.Errorf("wrong result: %v", got)
	}
	return errors.Join(err, x.Close(), m.Close(), s.Close())
}

// reasonOf is the reason for which something is stale.
func reasonOf(err error) string {
	var e *driver.Error
	if errors.As(err, &e) && e.Kind == driver.ErrRefStale {
		return e.Detail
	}
	return fmt.Sprint(err)
}

func TestReset(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		for round := range uint64(3) {
			assert.Equal(t, round+1, c.Stats().Generation)
			b, err := rt.Probe("x")
			require.NoError(t, err)
			again, err := rt.Probe("x")
			require.NoError(t, err)
			require.Same(t, b, again)
			handle := c.Handle()
			m := loadKernels(t, c)
			k, err := m.Kernel("add")
			require.NoError(t, err)
			x, e := upload(t, b.Stream, count(0, 100)), newEvent(t, c)
			view := x.Slice(10, 20)
			g := capture(t, b.Stream, zeroing(x))
			exec, err := g.Instantiate()
			require.NoError(t, err)

			require.NoError(t, c.Reset(bg))

			fresh, err := rt.Probe("x")
			require.NoError(t, err)
			require.NotSame(t, b, fresh)
			require.Same(t, c, fresh.Context)
			s := fresh.Stream
			y := alloc[uint32](t, s, 100)
			for name, err := range map[string]error{
				"ref": second(x.Access()), "view": second(view.Access()), "fill": runtime.Fill(s, x, 1),
				"stream": b.Stream.Synchronize(bg), "alloc": second(runtime.Alloc[byte](b.Stream, 1)), "old stream": runtime.Fill(b.Stream, y, 1),
				"event": e.Record(s), "wait": s.Wait(e), "module": second(m.Kernel("store")), "kernel": addTo(k, s, y, 1),
				"graph": second(g.Instantiate()), "exec": exec.Launch(s), "nodes": second(g.Nodes()),
			} {
				assert.Equal(t, "context rebuilt", reasonOf(err), name)
			}
			for _, o := range []interface{ Close() error }{x, view, e, m, g, exec, b.Stream} {
				assert.NoError(t, o.Close())
			}
			assert.NoError(t, works(c))
			assert.NoError(t, y.Close())
			assert.NotZero(t, handle)
			assert.NotZero(t, c.Handle())
			assert.NoError(t, rt.Err())
		}
		assert.Zero(t, rt.Stats().Leaked)
		assert.NoError(t, rt.Close())
		assert.ErrorIs(t, c.Reset(bg), driver.ErrClosed)
	})
}

// What nobody closes is closed by Reset, and no hook hears of it.
func TestResetGivesBackWhatIsOpen(t *testing.T) {
	var heard []error
	rt, gpu := open(t, twoDevices(), runtime.WithErrorHook(func(err error) { heard = append(heard, err) }))
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := upload(t, s, count(0, 1000))
	loadKernels(t, c)
	newEvent(t, c)
	_, err := capture(t, s, zeroing(x)).Instantiate()
	require.NoError(t, err)
	leased, err := c.CachedModule(runtime.Image{Code: kernelsPTX})
	require.NoError(t, err)
	require.NoError(t, c.Reset(bg))
	assert.Empty(t, heard)
	assert.Empty(t, slices.DeleteFunc(gpu.Leaks(), func(l string) bool {
		return strings.Contains(l, "primary context") || strings.Contains(l, "memory pool")
	}))
	assert.Equal(t, "context rebuilt", reasonOf(second(leased.Kernel("add"))))
	assert.NoError(t, leased.Close())
	now := c.Stats()
	assert.Zero(t, now.Streams+now.Events+now.Modules+now.Graphs+now.GraphExecs+now.Refs+now.CachedModules)
	assert.Equal(t, refs.Stats{Stale: 1, StaleBytes: 4000}, c.State().Stats(), "x is open, and nobody else refers to its memory")
	require.NoError(t, x.Close())
	assert.Equal(t, refs.Stats{Gone: 1, GoneBytes: 4000}, c.State().Stats())
}

// Work that is under way is done before the context goes.
func TestResetWaitsForWork(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c, far := contextAt(t, rt, 0), contextAt(t, rt, 1)
	require.NoError(t, second(far.EnablePeer(c))) // its work may use the memory of c
	for _, on := range []*runtime.Context{c, far} {
		s, mine := newStream(t, on), newStream(t, c)
		release := hold(t, s)
		reset := async(func() error { return c.Reset(bg) })
		eventually(t, "the context is drained", func() bool { return c.State().Status() == refs.Drained })
		assert.Equal(t, "device shutting down", reasonOf(mine.LaunchHostFunc(func() {})))
		assert.Equal(t, "device shutting down", reasonOf(second(c.NewEvent())))
		done, err := mine.Query()
		assert.True(t, done)
		assert.NoError(t, err, "asking goes on")
		select {
		case err := <-reset:
			require.Fail(t, "Reset did not wait", "%v", err)
		case <-time.After(5 * time.Millisecond):
		}
		release()
		require.NoError(t, await(t, "Reset ends", reset))
	}
}

func TestResetWaitsForLeases(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := alloc[byte](t, s, 1)
	_, err := x.Acquire()
	require.NoError(t, err)
	reset := async(func() error { return c.Reset(bg) })
	eventually(t, "the intake has stopped", func() bool { return c.State().Status() == refs.Suspended })
	assert.Equal(t, "device shutting down", reasonOf(runtime.Zero(s, x)))
	assert.NoError(t, x.Close())
	x.Release()
	require.NoError(t, await(t, "Reset ends", reset))
}

// Whatever Reset waits for, it can be given up, and then everything is as before.
func TestResetGivenUp(t *testing.T) {
	stuck := make(chan struct{})
	var block, asking atomic.Bool
	config := twoDevices()
	config.OnCall = func(op string) driver.Result {
		if op == "cuStreamQuery" && block.Load() {
			asking.Store(true)
			<-stuck
		}
		return driver.Success
	}
	for _, c := range []struct {
		name  string
		begin func(t *testing.T, c, far *runtime.Context) (end func())
	}{
		{"a lease", func(t *testing.T, c, _ *runtime.Context) func() {
			x := alloc[byte](t, newStream(t, c), 1)
			_, err := x.Acquire()
			require.NoError(t, err)
			return x.Release
		}},
		{"work", func(t *testing.T, c, _ *runtime.Context) func() { return hold(t, newStream(t, c)) }},
		{"work of a device that may use its memory", func(t *testing.T, c, far *runtime.Context) func() {
			require.NoError(t, second(far.EnablePeer(c)))
			return hold(t, newStream(t, far))
		}},
		{"a call", func(t *testing.T, c, _ *runtime.Context) func() {
			s := newStream(t, c)
			block.Store(true)
			asked := async(func() error { return second(s.Query()) })
			eventually(t, "the call has begun", asking.Load)
			return func() {
				block.Store(false)
				close(stuck)
				assert.NoError(t, await(t, "the call ends", asked))
			}
		}},
		{"the Reset of another device", func(t *testing.T, _, far *runtime.Context) func() {
			release := hold(t, newStream(t, far))
			other := async(func() error { return far.Reset(bg) })
			eventually(t, "it has begun", func() bool { return !far.State().Accepting() })
			return func() {
				release()
				assert.NoError(t, await(t, "the other Reset ends", other))
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt, _ := open(t, config)
			first, far := contextAt(t, rt, 0), contextAt(t, rt, 1)
			s := newStream(t, first)
			x := upload(t, s, count(7, 10))
			end := c.begin(t, first, far)
			ctx, cancel := context.WithTimeoutCause(bg, 20*time.Millisecond, errors.New("enough"))
			defer cancel()
			assert.ErrorContains(t, first.Reset(ctx), "enough")
			assert.Equal(t, refs.Accepting, first.State().Status())
			assert.Equal(t, uint64(1), first.State().Generation())
			if c.name != "a call" {
				assert.Equal(t, count(7, 10), download(t, s, x))
			}
			end()
			assert.Equal(t, count(7, 10), download(t, s, x))
			assert.NoError(t, works(first))
			assert.NoError(t, first.Reset(bg), "and then it can be reset")
			assert.NoError(t, works(first))
		})
	}
}

// What is closed while a Reset is about to take the context down is given back if that is
// given up.
func TestCloseDuringResetThatIsGivenUp(t *testing.T) {
	entered, stuck := make(chan struct{}), make(chan struct{})
	var asking, once atomic.Bool
	rt, gpu := open(t, drivertest.Config{OnCall: func(op string) driver.Result {
		if op == "cuStreamQuery" && asking.Load() && once.CompareAndSwap(false, true) {
			close(entered)
			<-stuck
		}
		return driver.Success
	}})
	c := contextOf(t, rt)
	s, e := newStream(t, c), newEvent(t, c)
	asking.Store(true)
	asked := async(func() error { return second(s.Query()) })
	<-entered
	ctx, cancel := context.WithCancel(bg)
	reset := async(func() error { return c.Reset(ctx) })
	eventually(t, "the gates are suspended", func() bool { return c.Handle() == 0 })
	assert.NoError(t, e.Close())
	assert.Zero(t, gpu.Calls("cuEventDestroy"))
	cancel()
	require.ErrorIs(t, await(t, "Reset ends", reset), context.Canceled)
	close(stuck)
	require.NoError(t, await(t, "the call ends", asked))
	require.NoError(t, newEvent(t, c).Close())
	assert.Equal(t, 2, gpu.Calls("cuEventDestroy"), "the next one gives it back")
	assert.ErrorIs(t, second(e.Query()), driver.ErrClosed)
}

func TestResetRefused(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c, far := contextAt(t, rt, 0), contextAt(t, rt, 1)
	s := newStream(t, c)
	x := alloc[uint32](t, s, 8)
	h := allocHost[uint32](t, c, 8)
	err := c.Reset(bg)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "1 HostBuffers")
	require.NoError(t, runtime.UploadHost(s, x, h))
	g := capture(t, s, func(s *runtime.Stream) error { return runtime.UploadHost(s, x, h) })
	require.NoError(t, h.Close(), "a graph keeps it, and nobody has its slice any more")
	for _, of := range []*runtime.Context{c, far} {
		capture(t, newStream(t, of), func(s *runtime.Stream) error {
			require.ErrorIs(t, c.Reset(bg), driver.ErrCaptureFailed)
			return s.LaunchHostFunc(func() {})
		})
	}
	require.NoError(t, runtime.Zero(s, x))
	_, err = runtime.AllocHost[byte](far, 1) // of the other device
	require.NoError(t, err)
	require.NoError(t, c.Reset(bg))
	assert.Equal(t, "context rebuilt", reasonOf(second(g.Nodes())))
	ctx, cancel := context.WithCancel(bg)
	cancel()
	require.ErrorIs(t, c.Reset(ctx), context.Canceled)
	require.NoError(t, works(c))
}

// Each call of the driver that Reset makes fails once. Either nothing has happened, or there is
// a new context, or the device is lost and everything says why.
func TestResetFails(t *testing.T) {
	for _, result := range []driver.Result{driver.ResultUnknown, driver.ResultOutOfMemory, driver.ResultIllegalAddress} {
		t.Run(result.Name(), func(t *testing.T) {
			ends := map[string]int{}
			for n := 1; ; n++ {
				end, struck := resetFails(t, n, result)
				if !struck {
					require.Greater(t, n, 20)
					break
				}
				ends[end]++
				if t.Failed() {
					t.Fatalf("call %d", n)
				}
			}
			t.Log(ends)
			assert.NotZero(t, ends["lost"])
		})
	}
}

// resetFails makes the nth call of a Reset fail and tells how it ended.
func resetFails(t *testing.T, nth int, result driver.Result) (end string, struck bool) {
	var calls atomic.Int64
	op := ""
	config := twoDevices()
	config.OnCall = func(name string) driver.Result {
		if calls.Load() > 0 && calls.Add(1) == int64(nth)+1 {
			op = name
			return result
		}
		return driver.Success
	}
	var hearing sync.Mutex
	var heard []error
	gpu := drivertest.New(config)
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu),
		runtime.WithErrorHook(func(err error) {
			hearing.Lock()
			defer hearing.Unlock()
			heard = append(heard, err)
		}))
	require.NoError(t, err)
	c, far := contextAt(t, rt, 0), contextAt(t, rt, 1)
	s := newStream(t, c)
	x, y := upload(t, s, count(0, 1<<17)), alloc[uint32](t, newStream(t, far), 1<<17)
	require.NoError(t, runtime.Copy(s, x, y))
	loadKernels(t, c)
	_, err = capture(t, s, zeroing(x)).Instantiate()
	require.NoError(t, err)

	calls.Store(1)
	err = c.Reset(bg)
	calls.Store(0)
	end = "reset"
	switch {
	case c.State().Lost() != nil:
		end = "lost"
		require.ErrorIs(t, err, driver.ErrDeviceLost, op)
		for name, err := range map[string]error{"Reset": err, "Reset again": c.Reset(bg), "Access": second(x.Access()),
			"NewStream": second(c.NewStream()), "Query": second(s.Query()), "Context": second(rt.Context(0)), "Stats": rt.Stats().Lost, "MemInfo": third(c.MemInfo())} {
			assert.ErrorIs(t, err, result, "%s: %s", op, name)
		}
		if !result.Sticky() {
			assert.NoError(t, rt.Err(), "there is another device")
			b, err := rt.Probe("x")
			require.NoError(t, err, op)
			assert.Equal(t, 1, b.Device().Ordinal, op)
			assert.NoError(t, works(far), op)
			assert.NoError(t, far.Reset(bg), op)
			assert.NoError(t, works(far), op)
		}
	case err != nil:
		end = "as before"
		require.ErrorIs(t, err, result, op)
		assert.Equal(t, uint64(1), c.State().Generation())
		assert.NoError(t, runtime.Fill(s, x, 1), op)
		assert.NoError(t, works(c), op)
		assert.NoError(t, c.Reset(bg), op)
		assert.NoError(t, works(c), op)
	default:
		assert.Equal(t, uint64(2), c.State().Generation())
		assert.NoError(t, works(c), op)
	}
	assert.NoError(t, x.Close())
	closing := async(rt.Close)
	if err := await(t, "Close ends", closing); err != nil {
		assert.ErrorIs(t, err, result, op)
	}
	require.NoError(t, gpu.Close())
	assert.Empty(t, gpu.Findings(), op)
	hearing.Lock()
	defer hearing.Unlock()
	// What the driver refused to take is reported, and gone with the context.
	refused := strings.Contains(op, "Destroy") || strings.Contains(op, "Free") || strings.Contains(op, "Unload") || op == "cuCtxPushCurrent" || op == "cuStreamSynchronize" || op == "cuEventSynchronize" || op == "cuEventQuery"
	if !result.Sticky() && !refused {
		assert.Empty(t, gpu.Leaks(), "%s, and heard %v", op, heard)
	}
	return end, op != ""
}

func third(_, _ uint64, err error) error { return err }

// If the only device is lost, so is CUDA as far as this runtime goes.
func TestOnlyDeviceIsLost(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	gpu.Fail("cuDevicePrimaryCtxRetain", 1, driver.ResultOutOfMemory)
	err := c.Reset(bg)
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	assert.Equal(t, runtime.Fault, rt.Outcome())
	for _, err := range []error{err, rt.Err(), second(rt.Probe("x")), rt.Stats().Lost} {
		assert.ErrorIs(t, err, driver.ResultOutOfMemory)
		assert.ErrorContains(t, err, "the context could not be made again")
	}
	require.NoError(t, rt.Refresh(), "the reason has gone")
	assert.Equal(t, runtime.Available, rt.Outcome())
	assert.NoError(t, works(c))
}

// Reset, and everything else at the same time.
func TestResetConcurrently(t *testing.T) {
	config := twoDevices()
	config.Chaos = &drivertest.Chaos{Seed: 3, SlowWork: 0.2, SlowCalls: 0.02, MaxDelay: 100 * time.Microsecond}
	rounds := seeds.Count(5, 20, 5)
	for round := range rounds {
		rt, gpu := open(t, config)
		c, far := contextAt(t, rt, 0), contextAt(t, rt, 1)
		var wg sync.WaitGroup
		var resets, refused atomic.Int64
		closed := make(chan struct{})
		run := func(f func() error) {
			wg.Go(func() {
				for {
					select {
					case <-closed:
						return
					default:
					}
					err := f()
					if errors.Is(err, driver.ErrRefStale) || errors.Is(err, driver.ErrClosed) {
						refused.Add(1)
						goruntime.Gosched()
					} else if err != nil {
						t.Errorf("round %d: %v", round, err)
						return
					}
				}
			})
		}
		for _, of := range []*runtime.Context{c, far} {
			run(func() error {
				err := of.Reset(bg)
				if err == nil {
					resets.Add(1)
				}
				time.Sleep(time.Millisecond)
				return err
			})
			for range 3 {
				run(func() error { return works(of) })
			}
			run(func() error { return second(rt.Probe("x")) })
			run(func() error { rt.Stats(); return third(of.MemInfo()) })
		}
		run(func() error { return copyBetween(c, far) })
		run(func() error { return copyBetween(far, c) })
		time.Sleep(20 * time.Millisecond)
		assert.Eventually(t, func() bool { return resets.Load() > 0 }, time.Minute, time.Millisecond)
		require.NoError(t, await(t, "Close ends", async(rt.Close)))
		close(closed)
		wg.Wait()
		require.Empty(t, gpu.Findings())
		require.Empty(t, gpu.Leaks())
	}
}

func copyBetween(a, b *runtime.Context) error {
	from, err := a.NewStream()
	if err != nil {
		return err
	}
	to, err := b.NewStream()
	if err != nil {
		return errors.Join(err, from.Close())
	}
	x, err := runtime.Alloc[uint32](from, 1000)
	if err != nil {
		return errors.Join(err, from.Close(), to.Close())
	}
	y, err := runtime.Alloc[uint32](to, 1000)
	if err != nil {
		return errors.Join(err, x.Close(), from.Close(), to.Close())
	}
	err = errors.Join(runtime.Fill(from, x, 3), runtime.Copy(to, y, x))
	return errors.Join(err, x.Close(), y.Close(), from.Close(), to.Close())
}
