package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// closers makes one of everything that can be closed, on s and its context.
func closers(t *testing.T, s *runtime.Stream) map[string]interface{ Close() error } {
	t.Helper()
	c := s.Context()
	x, h := upload(t, s, count(0, 100)), allocHost[uint32](t, c, 100)
	shared := allocManaged[uint32](t, s, 100)
	require.NoError(t, errors.Join(runtime.Copy(s, shared.Ref(), x), shared.Prefetch(s)))
	g := capture(t, s, func(s *runtime.Stream) error { return runtime.UploadHost(s, x, h) })
	exec, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, exec.Launch(s))
	return map[string]interface{ Close() error }{"Ref": x, "HostBuffer": h, "Managed": shared, "Graph": g, "GraphExec": exec,
		"Module": loadKernels(t, c), "Event": newEvent(t, c), "Stream": newStream(t, c)}
}

// counts is what a context holds for the program.
func counts(c *runtime.Context) [9]uint64 {
	s := c.Stats()
	return [...]uint64{s.Streams, s.Events, s.Modules, s.Graphs, s.GraphExecs, s.HostBytes, s.ManagedBytes, s.Refs, s.Leaked}
}

func TestCloseBesideADeviceThatIsGone(t *testing.T) {
	for name, link := range map[string]func(t *testing.T, gone, c *runtime.Context){
		"strangers": func(*testing.T, *runtime.Context, *runtime.Context) {},
		"linked": func(t *testing.T, gone, c *runtime.Context) {
			require.NoError(t, second(gone.EnablePeer(c)))
			require.NoError(t, second(c.EnablePeer(gone)))
		},
		"copied": func(t *testing.T, gone, c *runtime.Context) {
			require.NoError(t, copyBetween(gone, c))
			require.NoError(t, copyBetween(c, gone))
			require.NoError(t, errors.Join(c.Synchronize(), gone.Synchronize()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt, gpu := open(t, twoDevices())
			gone, c := contextAt(t, rt, 0), contextAt(t, rt, 1)
			link(t, gone, c)
			s := newStream(t, c)
			before := counts(c)
			old := closers(t, s)
			lost := closers(t, newStream(t, gone))
			gpu.Vanish(0)
			for name, o := range old {
				assert.NoError(t, o.Close(), name)
			}
			for range 3 {
				for name, o := range closers(t, s) {
					assert.NoError(t, o.Close(), name)
				}
			}
			assert.Equal(t, before, counts(c), "nothing is kept back")
			for _, o := range lost {
				_ = o.Close() // the first of them may have to say what has happened
			}
			assert.NoError(t, works(c))
			require.NoError(t, c.Reset(bg))
			assert.NoError(t, works(c))
			assert.NoError(t, rt.Close())
		})
	}
}

// What a device that is gone has used of another one is given back.
func TestWhatADeviceThatIsGoneHasUsedIsFreed(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	gone, c := contextAt(t, rt, 0), contextAt(t, rt, 1)
	s, far := newStream(t, c), newStream(t, gone)
	before := counts(c)
	x, h := upload(t, s, count(0, 100)), allocHost[uint32](t, c, 100)
	y := alloc[uint32](t, far, 100)
	use := func(far *runtime.Stream) error {
		return errors.Join(runtime.Copy(far, y, x), runtime.UploadHost(far, y, h))
	}
	require.NoError(t, use(far))
	g := capture(t, far, use)
	exec, err := g.Instantiate()
	require.NoError(t, err)
	require.NoError(t, exec.Launch(far))
	synchronize(t, far)
	gpu.Vanish(0)
	assert.NoError(t, x.Close())
	assert.NoError(t, h.Close())
	require.ErrorIs(t, second(far.Query()), driver.ErrDeviceLost)
	assert.NoError(t, exec.Close(), "it keeps both")
	assert.NoError(t, g.Close(), "and so does this")
	require.NoError(t, c.TrimMemory(0))
	z := alloc[uint32](t, s, 100) // what waits is freed
	require.NoError(t, z.Close())
	held := counts(c)
	assert.Equal(t, before[5:], held[5:])
}

// A Close waits for the devices whose work may use the memory, and for no other.
func TestCloseWaitsForThoseWhoUseIt(t *testing.T) {
	rt, _ := open(t, twoDevices())
	busy, c := contextAt(t, rt, 0), contextAt(t, rt, 1)
	s := newStream(t, busy)
	y := alloc[uint32](t, s, 10)
	alone, shared := allocHost[uint32](t, c, 10), allocHost[uint32](t, c, 10)
	release := hold(t, s)
	require.NoError(t, await(t, "closing what the busy device does not use", async(alone.Close)))
	require.NoError(t, runtime.UploadHost(s, y, shared))
	closing := async(shared.Close)
	assert.Never(t, func() bool { return len(closing) > 0 }, patience/1000, patience/10000, "its work is not done")
	release()
	require.NoError(t, await(t, "closing what it used", closing))
	require.NoError(t, y.Close())
}

func TestADeviceThatIsGoneShows(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	first, other := contextAt(t, rt, 0), contextAt(t, rt, 1)
	s := newStream(t, first)
	require.NoError(t, rt.Degraded())
	gpu.Vanish(0)
	require.ErrorIs(t, second(s.Query()), driver.ErrDeviceLost, "the call that finds it")
	for name, err := range map[string]error{"Devices": rt.Devices()[0].Err, "Degraded": rt.Degraded(), "Stats": rt.Stats().Lost,
		"of the context": first.Stats().Lost, "Context": second(rt.Context(0)), "Query": second(s.Query()), "NewStream": second(first.NewStream()),
		"MemInfo": third(first.MemInfo()), "Reset": first.Reset(bg)} {
		require.ErrorIs(t, err, driver.ErrDeviceLost, name)
		assert.ErrorIs(t, err, driver.ResultUnknown, name)
		var e *driver.Error
		require.ErrorAs(t, err, &e)
		assert.False(t, e.Sticky, name)
		assert.Equal(t, 0, e.Device, name)
	}
	assert.Zero(t, first.Handle())
	assert.NoError(t, rt.Devices()[1].Err)
	assert.Equal(t, runtime.Available, rt.Outcome())
	assert.NoError(t, rt.Err())
	assert.NoError(t, rt.Refresh())
	assert.NoError(t, works(other))

	gpu.Vanish(1)
	require.Error(t, works(other))
	assert.Equal(t, runtime.Fault, rt.Outcome())
	assert.ErrorIs(t, rt.Err(), driver.ErrDeviceLost)
	assert.ErrorIs(t, rt.Refresh(), driver.ErrDeviceLost)
	assert.NoError(t, rt.Degraded(), "Err says it")
	assert.NoError(t, rt.Close())
}

// One call that fails is no reason to give a device up.
func TestADeviceThatAnswersIsNotGone(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	s := newStream(t, contextOf(t, rt))
	for range 3 {
		gpu.Fail("cuStreamQuery", 1, driver.ResultUnknown)
		gpu.Fail("cuMemGetInfo", 1, driver.ResultUnknown)
		_, err := s.Query()
		require.ErrorIs(t, err, driver.ResultUnknown)
		assert.NotErrorIs(t, err, driver.ErrDeviceLost)
		synchronize(t, s)
	}
	assert.NoError(t, rt.Degraded())
}

func TestProbeTakesTheNextDevice(t *testing.T) {
	for name, c := range map[string]struct {
		result driver.Result
		breaks func(gpu *drivertest.Driver, ordinal int)
	}{
		"busy": {driver.ResultDeviceUnavailable, func(gpu *drivertest.Driver, _ int) {
			gpu.Fail("cuDevicePrimaryCtxRetain", 1, driver.ResultDeviceUnavailable)
		}},
		"gone": {driver.ResultUnknown, func(gpu *drivertest.Driver, ordinal int) { gpu.Vanish(ordinal) }},
		"without memory": {driver.ResultOutOfMemory, func(gpu *drivertest.Driver, _ int) {
			gpu.Fail("cuStreamCreateWithPriority", 1, driver.ResultOutOfMemory)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rt, gpu := open(t, drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.T4(), drivertest.H100(), drivertest.A100()}})
			c.breaks(gpu, 1)
			b, err := rt.Probe("a")
			require.NoError(t, err)
			assert.Equal(t, 2, b.Device().Ordinal)
			require.Len(t, b.Skipped, 1)
			assert.Equal(t, 1, b.Skipped[0].Ordinal)
			assert.ErrorIs(t, b.Skipped[0].Err, c.result)
			synchronize(t, b.Stream)
			other, err := rt.Probe("b")
			require.NoError(t, err)
			assert.Equal(t, 2, other.Device().Ordinal, "labels share a device")
		})
	}
}

func TestProbeWhereAllFail(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	gpu.Fail("cuDevicePrimaryCtxRetain", 1, driver.ResultDeviceUnavailable)
	gpu.Fail("cuDevicePrimaryCtxRetain", 2, driver.ResultOutOfMemory)
	_, err := rt.Probe("a")
	require.ErrorIs(t, err, driver.ResultDeviceUnavailable)
	require.ErrorIs(t, err, driver.ResultOutOfMemory)
	assert.ErrorContains(t, err, "a backend: failed to create CUDA context for device 0")
	assert.ErrorContains(t, err, "a backend: failed to create CUDA context for device 1")
	assert.ErrorIs(t, rt.Devices()[0].Err, driver.ResultDeviceUnavailable)
	assert.Equal(t, runtime.Available, rt.Outcome(), "it is tried again")
	b, err := rt.Probe("a")
	require.NoError(t, err)
	assert.NoError(t, b.Device().Err)
	assert.NoError(t, rt.Devices()[0].Err)
}

// The backend of a known label does not outlive its device or its stream.
func TestProbeOfAKnownLabel(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	b, err := rt.Probe("a")
	require.NoError(t, err)
	require.NoError(t, b.Stream.Close())
	fresh, err := rt.Probe("a")
	require.NoError(t, err)
	assert.True(t, b.Context == fresh.Context)
	synchronize(t, fresh.Stream)

	gpu.Vanish(0)
	require.Error(t, second(fresh.Stream.Query()))
	far, err := rt.Probe("a")
	require.NoError(t, err)
	assert.Equal(t, 1, far.Device().Ordinal)
	synchronize(t, far.Stream)
	require.Len(t, far.Skipped, 1)
	assert.ErrorIs(t, far.Skipped[0].Err, driver.ErrDeviceLost)

	gpu.Vanish(1)
	require.Error(t, second(far.Stream.Query()))
	_, err = rt.Probe("a")
	require.ErrorIs(t, err, driver.ErrDeviceLost)
}

func TestRevive(t *testing.T) {
	revive := func(rt *runtime.Runtime) error { return rt.Revive(bg, 0) }
	for name, again := range map[string]func(*runtime.Runtime) error{"Revive": revive, "Refresh": (*runtime.Runtime).Refresh} {
		t.Run(name, func(t *testing.T) {
			rt, gpu := open(t, twoDevices())
			c, far := contextAt(t, rt, 0), contextAt(t, rt, 1)
			s, h := newStream(t, c), allocHost[uint32](t, c, 10)
			x, e := upload(t, s, count(0, 10)), newEvent(t, c)
			require.NoError(t, copyBetween(c, far))
			require.NoError(t, far.Synchronize())
			m := loadKernels(t, c)
			gpu.Vanish(0)
			require.ErrorIs(t, second(s.Query()), driver.ErrDeviceLost)
			require.ErrorIs(t, second(x.Access()), driver.ErrDeviceLost)
			_ = again(rt)
			require.ErrorIs(t, rt.Devices()[0].Err, driver.ErrDeviceLost, "it is not there")

			gpu.Return(0)
			err := rt.Revive(bg, 0)
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, "1 HostBuffers")
			require.NoError(t, h.Close())
			require.NoError(t, again(rt))
			assert.NoError(t, rt.Degraded())
			assert.NoError(t, rt.Stats().Lost)
			same, err := rt.Context(0)
			require.NoError(t, err)
			assert.True(t, c == same)
			assert.NoError(t, works(c))
			assert.NoError(t, copyBetween(c, far))
			for name, err := range map[string]error{"Ref": second(x.Access()), "stream": s.Synchronize(bg), "event": second(e.Query()), "module": second(m.Kernel("add"))} {
				assert.Equal(t, "context rebuilt", reasonOf(err), name)
			}
			for _, o := range []interface{ Close() error }{x, s, e, m} {
				assert.NoError(t, o.Close())
			}
			calls := allCalls(gpu)
			require.NoError(t, again(rt), "nothing to do")
			assert.Equal(t, calls, allCalls(gpu))
			assert.NoError(t, c.Reset(bg))
			assert.NoError(t, works(c))
		})
	}
}

// A Reset that failed for once is made good.
func TestReviveAfterAReset(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	c := contextOf(t, rt)
	for n := range 3 {
		gpu.Fail("cuDevicePrimaryCtxRetain", 1, driver.ResultDeviceUnavailable)
		require.ErrorIs(t, c.Reset(bg), driver.ErrDeviceLost)
		require.ErrorIs(t, c.Reset(bg), driver.ErrDeviceLost)
		gpu.Fail("cuMemGetInfo", 1, driver.ResultUnknown)
		require.ErrorIs(t, rt.Revive(bg, 0), driver.ErrDeviceLost, n)
		require.NoError(t, rt.Revive(bg, 0))
		require.NoError(t, works(c))
	}
}

func TestReviveWhatCannotBe(t *testing.T) {
	rt, gpu := openFaulty(t, twoDevices())
	var none context.Context
	assert.ErrorIs(t, rt.Revive(none, 0), driver.ErrInvalidArgument)
	assert.ErrorIs(t, rt.Revive(bg, 7), driver.ErrInvalidArgument)
	assert.NoError(t, rt.Revive(bg, 0), "it was never used")
	ended, cancel := context.WithCancel(bg)
	cancel()
	assert.ErrorIs(t, rt.Revive(ended, 0), context.Canceled)
	s := newStream(t, contextOf(t, rt))
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	require.Error(t, second(s.Query()))
	err := rt.Revive(bg, 0)
	require.ErrorIs(t, err, driver.ResultIllegalAddress)
	assert.ErrorContains(t, err, "only a new process gets it back")
	require.NoError(t, rt.Close())
	assert.ErrorIs(t, rt.Revive(bg, 0), driver.ErrClosed)
}

// A call that is still inside a device that is gone keeps Revive waiting, and Close not. It never meets the context that Revive ends.
func TestReviveWaitsForCalls(t *testing.T) {
	for name, call := range map[string]struct {
		op   string
		make func(t *testing.T, c *runtime.Context, s *runtime.Stream) (inside, end func() error)
	}{
		"an event": {"cuEventQuery", func(t *testing.T, c *runtime.Context, _ *runtime.Stream) (inside, end func() error) {
			e := newEvent(t, c)
			return func() error { return second(e.Query()) }, e.Close
		}},
		"a Ref": {"cuMemFreeAsync", func(t *testing.T, _ *runtime.Context, s *runtime.Stream) (inside, end func() error) {
			x := alloc[byte](t, s, 1000)
			return x.Close, s.Close
		}},
		"who asks for a wait": {"cuStreamQuery", func(t *testing.T, _ *runtime.Context, s *runtime.Stream) (inside, end func() error) {
			release := hold(t, s)
			return func() error { return s.Synchronize(bg) }, func() error { release(); return nil }
		}},
		"an allocation": {"cuMemAllocFromPoolAsync", func(t *testing.T, _ *runtime.Context, s *runtime.Stream) (inside, end func() error) {
			return func() error { return errorOf(runtime.Alloc[byte](s, 1000)) }, s.Close
		}},
		"memory that grows": {"cuMemUnmap", func(t *testing.T, c *runtime.Context, s *runtime.Stream) (inside, end func() error) {
			g, err := runtime.AllocGrowable[byte](c, 10)
			require.NoError(t, errors.Join(err, g.Grow(1)))
			return func() error { return errors.Join(g.Close(), c.TrimMemory(0)) }, s.Close
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inside, left := make(chan struct{}), make(chan struct{})
			leave := sync.OnceFunc(func() { close(left) })
			stop := sync.OnceFunc(func() { close(inside); <-left }) // a slow machine asks for other events too
			config := twoDevices()
			var armed atomic.Bool // opening the context makes such calls too
			config.OnCall = func(op string) driver.Result {
				if op == call.op && armed.Load() {
					stop()
				}
				return driver.Success
			}
			rt, gpu := open(t, config, runtime.WithMemory(arena.DeviceConfig{CacheBytes: arena.NoCache}))
			c := contextOf(t, rt)
			s := newStream(t, c)
			stay, end := call.make(t, c, newStream(t, c))
			t.Cleanup(leave)
			armed.Store(true)
			stuck := async(stay)
			await(t, "the call is inside", inside)
			gpu.Vanish(0)
			require.Error(t, s.Synchronize(bg))
			gpu.Return(0)
			ctx, cancel := context.WithTimeoutCause(bg, patience/1000, errors.New("enough"))
			defer cancel()
			require.ErrorContains(t, rt.Revive(ctx, 0), "enough")
			require.ErrorIs(t, rt.Devices()[0].Err, driver.ErrDeviceLost)
			require.NoError(t, end())
			reviving := async(func() error { return rt.Revive(bg, 0) })
			leave()
			_ = await(t, "the call ends", stuck) // it may have succeeded
			require.NoError(t, await(t, "Revive ends", reviving))
			require.NoError(t, works(c))
		})
	}
}

// Who waits for a call that is inside gets up when the device is lost: the call may never end.
func TestALossWakesThoseWhoWaitForCalls(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	config := twoDevices()
	config.OnCall = func(op string) driver.Result {
		if op == "cuLaunchKernel" {
			close(inside)
			<-leave
		}
		return driver.Success
	}
	rt, gpu := open(t, config)
	c := contextOf(t, rt)
	m, s, other := loadKernels(t, c), newStream(t, c), newStream(t, c)
	k, err := m.Kernel("add")
	require.NoError(t, err)
	x := upload(t, s, count(0, 1))
	stuck := async(func() error { return addTo(k, s, x, 1) })
	<-inside
	closing := async(m.Close)
	capturing := async(func() error { return second(s.Capture(func(*runtime.Stream) error { return nil })) })
	time.Sleep(10 * time.Millisecond)
	assert.Empty(t, closing)
	assert.Empty(t, capturing)
	gpu.Vanish(0)
	require.ErrorIs(t, other.Synchronize(bg), driver.ErrDeviceLost)
	assert.NoError(t, await(t, "it closes", closing))
	assert.Error(t, await(t, "it does not capture", capturing))
	assert.Empty(t, stuck)
	close(leave)
	require.Error(t, await(t, "the call ends", stuck))
}

// A device whose queries failed is listed again.
func TestReviveADeviceThatDidNotAnswer(t *testing.T) {
	gpu := drivertest.ForTest(t, twoDevices())
	gpu.Fail("cuDeviceTotalMem", 1, driver.ResultUnknown)
	rt := openOn(t, gpu)
	require.Equal(t, 0, rt.Devices()[1].Ordinal)
	require.ErrorIs(t, rt.Devices()[1].Err, driver.ResultUnknown)
	require.ErrorIs(t, rt.Degraded(), driver.ResultUnknown)
	require.NoError(t, rt.Revive(bg, 0))
	require.NoError(t, rt.Degraded())
	require.NoError(t, works(contextAt(t, rt, 0)))
	assert.Equal(t, rt.Devices()[0].Score, rt.Devices()[1].Score)
}

// The failure of a try that had begun before Revive, when the device was not back yet, is not Revive's.
func TestReviveDoesNotTakeAnOlderTry(t *testing.T) {
	inside, leave := make(chan struct{}), make(chan struct{})
	var tries atomic.Int32
	config := twoDevices()
	config.OnCall = func(op string) driver.Result {
		if op != "cuDevicePrimaryCtxRetain" {
			return driver.Success
		}
		switch tries.Add(1) {
		case 1:
			return driver.ResultUnknown
		case 2:
			close(inside)
			<-leave
			return driver.ResultUnknown
		}
		return driver.Success
	}
	rt, _ := open(t, config)
	opens := func() error { return second(rt.Context(0)) }
	require.ErrorIs(t, opens(), driver.ResultUnknown)
	other := async(opens)
	<-inside
	reviving := async(func() error { return rt.Revive(bg, 0) })
	time.Sleep(10 * time.Millisecond)
	assert.Empty(t, reviving)
	close(leave)
	require.ErrorIs(t, await(t, "the other try ends", other), driver.ResultUnknown)
	require.NoError(t, await(t, "Revive ends", reviving))
	require.EqualValues(t, 3, tries.Load())
	require.NoError(t, works(contextAt(t, rt, 0)))
}

// All at once: devices that vanish, come back and are revived while others work and close.
func TestDevicesComeAndGo(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{Devices: drivertest.Devices(3, drivertest.H100())})
	steady := contextAt(t, rt, 2)
	stop := make(chan struct{})
	var wg []<-chan error
	loop := func(f func() error) {
		wg = append(wg, async(func() error {
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				if err := f(); err != nil {
					return err
				}
			}
		}))
	}
	// Close waits for the devices that may use what it frees. One that is back at once is not known to
	// be gone, and then its error is returned.
	notOfOthers := func(err error) error {
		var e *driver.Error
		if errors.As(err, &e) && e.Code == driver.ResultUnknown && e.Device != steady.Device().Ordinal {
			return nil
		}
		return err
	}
	loop(func() error { return notOfOthers(works(steady)) })
	loop(func() error {
		h, err := runtime.AllocHost[byte](steady, 10)
		if err != nil {
			return err
		}
		return notOfOthers(h.Close())
	})
	loop(func() error {
		_, err := rt.Probe("x")
		rt.Stats()
		if errors.Is(err, driver.ErrRefStale) {
			return nil // the device is being revived
		}
		return err
	})
	for ordinal := range 2 {
		loop(func() error {
			if c, err := rt.Context(ordinal); err == nil {
				_, _ = c.EnablePeer(steady)
				_ = works(c)
			}
			return nil
		})
	}
	for round := range 20 {
		ordinal := round % 2
		gpu.Vanish(ordinal)
		gpu.Return(ordinal)
		if err := rt.Revive(bg, ordinal); err != nil {
			assert.ErrorIs(t, err, driver.ErrDeviceLost)
		}
	}
	close(stop)
	for i, done := range wg {
		assert.NoError(t, await(t, fmt.Sprint("goroutine ", i, " ends"), done))
	}
	_ = rt.Refresh()
	for ordinal := range 2 {
		if c, err := rt.Context(ordinal); assert.NoError(t, err) {
			// It is known to be gone only once a call has failed.
			if works(c) != nil {
				require.NoError(t, rt.Revive(bg, ordinal))
				assert.NoError(t, works(c))
			}
		}
	}
}

// A note whose function panics, or ends its goroutine, keeps nobody else from hearing that a device works, and Refresh goes on.
func TestRevivedThatFails(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("of another") }, "goexit": goruntime.Goexit} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var told []error
			rt, gpu := open(t, drivertest.Config{Devices: drivertest.Devices(3, drivertest.H100())}, runtime.WithErrorHook(func(err error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, err)
			}))
			heard := make(chan int, 10)
			rt.Quarantine(1, io.EOF, fail)
			for ordinal := 1; ordinal < 3; ordinal++ {
				rt.Quarantine(ordinal, io.EOF, func() { heard <- ordinal })
				c := contextAt(t, rt, ordinal)
				gpu.Vanish(ordinal)
				require.Error(t, works(c))
				gpu.Return(ordinal)
			}
			require.NoError(t, rt.Refresh())
			require.Len(t, heard, 2)
			assert.Equal(t, []int{1, 2}, []int{<-heard, <-heard})
			mu.Lock()
			defer mu.Unlock()
			assert.Condition(t, func() bool {
				return slices.ContainsFunc(told, func(err error) bool {
					return strings.Contains(err.Error(), "of another") || strings.Contains(err.Error(), "Goexit")
				})
			}, "%v", told)
		})
	}
}

// Each note of a quarantine ends by itself, and keeps nobody from using the device.
func TestQuarantine(t *testing.T) {
	rt, _ := open(t, twoDevices())
	first, second := rt.Quarantine(1, io.EOF, nil), rt.Quarantine(1, io.ErrUnexpectedEOF, nil)
	assert.NoError(t, rt.Devices()[0].Quarantine)
	assert.Equal(t, io.EOF, rt.Devices()[1].Quarantine)
	assert.EqualError(t, rt.Degraded(), "device 1 is in quarantine: EOF")
	require.NoError(t, rt.Refresh())
	contextAt(t, rt, 1)
	first()
	first()
	assert.Equal(t, io.ErrUnexpectedEOF, rt.Devices()[1].Quarantine)
	second()
	assert.NoError(t, rt.Degraded())
	rt.Quarantine(1, nil, nil)()
	var none *runtime.Runtime
	none.Quarantine(0, io.EOF, nil)()
}
