package runtime_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

// assertLost checks what a runtime answers after a sticky error. calls counts those of
// the driver, where that is possible.
func assertLost(t *testing.T, rt *runtime.Runtime, cause driver.Result, uses []namedCall, calls func() int) {
	t.Helper()
	before := calls()
	assert.Equal(t, runtime.Fault, rt.Outcome())
	uses = slices.Concat(uses, []namedCall{
		{"Err", rt.Err},
		{"Refresh", rt.Refresh},
		{"Probe", func() error { _, err := rt.Probe("new"); return err }},
		{"Probe of a known label", func() error { _, err := rt.Probe("old"); return err }},
		{"Context", func() error { _, err := rt.Context(0); return err }},
	})
	for _, use := range uses {
		err := use.call()
		require.ErrorIs(t, err, driver.ErrDeviceLost, use.name)
		assert.ErrorIs(t, err, cause, "%s: the first cause is behind it", use.name)
		assert.NotErrorIs(t, err, driver.ErrDriverLibraryUnavailable, use.name)
		var e *driver.Error
		require.ErrorAs(t, err, &e)
		assert.True(t, e.Sticky, use.name)
	}
	assert.NoError(t, rt.Close())
	assert.Equal(t, before, calls(), "no call of the driver helps any more")
}

func TestStickyErrorsEndTheUseOfCUDA(t *testing.T) {
	for _, c := range []struct {
		name   string
		op     string // fails with result, unless the use itself does
		result driver.Result
		use    func(t *testing.T, c *runtime.Context) error
	}{
		{"launch", "cuLaunchKernel", driver.ResultLaunchFailed, func(t *testing.T, c *runtime.Context) error {
			s := newStream(t, c)
			return addTo(kernel(t, c, "add"), s, alloc[uint32](t, s, 1), 1)
		}},
		{"wait for a stream", "cuStreamWriteValue64", driver.ResultIllegalAddress, func(t *testing.T, c *runtime.Context) error {
			return newStream(t, c).Synchronize(context.Background())
		}},
		{"wait for an event", "cuEventQuery", driver.ResultIllegalInstruction, func(t *testing.T, c *runtime.Context) error {
			return newEvent(t, c).Synchronize(context.Background())
		}},
		{"query", "cuStreamQuery", driver.ResultMisalignedAddress, func(t *testing.T, c *runtime.Context) error {
			_, err := newStream(t, c).Query()
			return err
		}},
		{"allocate", "cuMemAllocFromPoolAsync", driver.ResultHardwareStackError, func(t *testing.T, c *runtime.Context) error {
			_, err := runtime.Alloc[byte](newStream(t, c), 1)
			return err
		}},
		{"load", "cuModuleLoadDataEx", driver.ResultAssert, func(t *testing.T, c *runtime.Context) error {
			_, err := c.LoadModule(runtime.Image{Code: kernelsPTX}, runtime.Image{Code: kernelsPTX})
			return err
		}},
		{"close", "cuEventDestroy", driver.ResultLaunchTimeout, func(t *testing.T, c *runtime.Context) error {
			return newEvent(t, c).Close()
		}},
		{"push", "cuCtxPushCurrent", driver.ResultInvalidPC, func(t *testing.T, c *runtime.Context) error {
			_, _, err := c.MemInfo()
			return err
		}},
		{"a kernel that goes astray", "", driver.ResultIllegalAddress, func(t *testing.T, c *runtime.Context) error {
			s := newStream(t, c)
			require.NoError(t, kernel(t, c, "stray").Launch(s, one, runtime.Value(uint64(64))), "the launch itself is fine")
			return s.Synchronize(context.Background())
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt, gpu := openFaulty(t, twoDevices())
			_, err := rt.Probe("old")
			require.NoError(t, err)
			uses := slices.Concat(hotCalls(t, contextAt(t, rt, 0)), coldCalls(t, contextAt(t, rt, 1)), []namedCall{
				{"the same again", func() error { _, err := rt.Context(1); return err }},
			})
			first := contextAt(t, rt, 0)
			closing := []interface{ Close() error }{newStream(t, first), alloc[byte](t, newStream(t, first), 1), loadKernels(t, first)}
			if c.op != "" {
				// Only the next call is meant, and setting the use up may make it too.
				setUp := c.use
				c.use = func(t *testing.T, ctx *runtime.Context) error {
					before := gpu.Calls(c.op)
					require.NoError(t, setUp(t, ctx))
					gpu.Fail(c.op, gpu.Calls(c.op)-before, c.result)
					return setUp(t, ctx)
				}
			}
			err = c.use(t, first)
			require.ErrorIs(t, err, driver.ErrDeviceLost)
			require.ErrorIs(t, err, c.result)
			if c.op != "" {
				assert.ErrorContains(t, err, c.op)
			}
			calls := callsOfLost(gpu)
			for _, o := range closing {
				assert.NoError(t, o.Close())
			}
			assert.Equal(t, calls, allCalls(gpu))
			assertLost(t, rt, c.result, uses, func() int { return allCalls(gpu) })
			assert.Equal(t, uint64(0), rt.Stats().Contexts)
		})
	}
}

// The first cause stays, whatever fails later.
func TestFirstStickyErrorStays(t *testing.T) {
	rt, gpu := openFaulty(t, drivertest.Config{})
	s := newStream(t, contextOf(t, rt))
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	_, err := s.Query()
	require.ErrorIs(t, err, driver.ResultIllegalAddress)
	var first *driver.Error
	require.ErrorAs(t, err, &first)
	cause := errors.Unwrap(rt.Err())
	var kept *driver.Error
	require.ErrorAs(t, cause, &kept)
	assert.Equal(t, [2]any{first.Op, first.Code}, [2]any{kept.Op, kept.Code})
	for range 3 {
		_, err = s.Query()
		var e *driver.Error
		require.ErrorAs(t, err, &e)
		assert.Same(t, cause, e.Err)
		assert.ErrorContains(t, err, "an earlier error has ended the use of CUDA in this process")
	}
}

// Also of calls that are under way at the same time the first one is the cause.
func TestFirstOfTwoStickyErrorsStays(t *testing.T) {
	second, release := make(chan struct{}), make(chan struct{})
	rt, _ := openFaulty(t, drivertest.Config{OnCall: func(op string) driver.Result {
		switch op {
		case "cuEventQuery":
			close(second)
			<-release
			return driver.ResultLaunchFailed
		case "cuStreamWriteValue64":
			return driver.ResultIllegalAddress
		}
		return driver.Success
	}})
	c := contextOf(t, rt)
	s, e := newStream(t, c), newEvent(t, c)
	late := async(func() error { _, err := e.Query(); return err })
	<-second
	require.ErrorIs(t, s.Synchronize(context.Background()), driver.ResultIllegalAddress)
	close(release)
	require.ErrorIs(t, await(t, "the second call fails", late), driver.ResultLaunchFailed)
	require.ErrorIs(t, rt.Err(), driver.ResultIllegalAddress)
	assert.NotErrorIs(t, rt.Err(), driver.ResultLaunchFailed)
}

// A device can be lost while the runtime closes. That is told once.
func TestLostWhileClosing(t *testing.T) {
	rt, gpu := openFaulty(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	newEvent(t, c)
	alloc[byte](t, s, 1)
	require.NoError(t, kernel(t, c, "stray").Launch(s, one, runtime.Value(uint64(64))))
	err := rt.Close()
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	require.ErrorIs(t, err, driver.ResultIllegalAddress)
	for _, op := range []string{"cuEventDestroy", "cuMemFree", "cuMemFreeAsync", "cuMemPoolDestroy", "cuModuleUnload", "cuDevicePrimaryCtxRelease"} {
		assert.Zero(t, gpu.Calls(op), op)
	}
	assert.Equal(t, runtime.Fault, rt.Outcome())
	assert.NoError(t, rt.Close())
}

// A function never runs after work that fails. An event tells what has become of the work.
func TestCallAfterAKernelThatFails(t *testing.T) {
	rt, _ := openFaulty(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	e := newEvent(t, c)
	stray := kernel(t, c, "stray")
	release := hold(t, s)
	require.NoError(t, stray.Launch(s, one, runtime.Value(uint64(64))))
	var ran atomic.Bool
	require.NoError(t, s.LaunchHostFunc(func() { ran.Store(true) }))
	require.NoError(t, e.Record(s))
	told := async(func() error { return e.Synchronize(bg) })
	release()
	require.ErrorIs(t, await(t, "the event tells", told), driver.ResultIllegalAddress)
	_ = rt.Close() // nothing runs any more
	assert.False(t, ran.Load())
}

// Errors that concern one call only leave everything else as it is.
func TestOtherErrorsDoNotEndTheUseOfCUDA(t *testing.T) {
	for _, r := range []driver.Result{driver.ResultInvalidValue, driver.ResultOutOfMemory, driver.ResultUnknown,
		driver.ResultLaunchOutOfResources, driver.ResultNotSupported, driver.ResultTimeout} {
		rt, gpu := open(t, drivertest.Config{})
		s := newStream(t, contextOf(t, rt))
		gpu.Fail("cuStreamQuery", 1, r)
		_, err := s.Query()
		require.ErrorIs(t, err, r)
		assert.Equal(t, runtime.Available, rt.Outcome())
		synchronize(t, s)
		require.NoError(t, rt.Err())
	}
}

// A kernel that writes astray on real hardware. It takes the process with it.
func TestLostOnHardware(t *testing.T) {
	api := hardware.Open(t)
	if !inProcess(t) {
		return
	}
	rt := openOn(t, api)
	_, err := rt.Probe("old")
	require.NoError(t, err)
	c := contextOf(t, rt)
	uses := slices.Concat(hotCalls(t, c), coldCalls(t, c))
	s := newStream(t, c)
	require.NoError(t, kernel(t, c, "stray").Launch(s, one, runtime.Value(uint64(64))))
	err = s.Synchronize(context.Background())
	require.ErrorIs(t, err, driver.ResultIllegalAddress)
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	assertLost(t, rt, driver.ResultIllegalAddress, uses, func() int { return 0 })
}

// Whoever is told of a loss finds the memory of the device lost. The waits ended before it was.
func TestMemoryIsLostBeforeAnybodyHears(t *testing.T) {
	for range 100 {
		rt, _ := openFaulty(t, twoDevices())
		c, err := rt.Context(0)
		require.NoError(t, err)
		x := alloc[uint32](t, newStream(t, c), 1)
		stray := kernel(t, c, "stray")
		var waits sync.WaitGroup
		var streams [8]*runtime.Stream
		for i := range streams {
			streams[i] = newStream(t, c)
		}
		for _, s := range streams {
			waits.Go(func() {
				err := stray.Launch(s, one, runtime.Value(uint64(x.Core().Ptr())+1<<46))
				if err == nil {
					err = s.Synchronize(bg)
				}
				assert.ErrorIs(t, err, driver.ErrDeviceLost)
				assert.ErrorIs(t, second(x.Access()), driver.ErrDeviceLost)
			})
		}
		waits.Wait()
		assert.NoError(t, rt.Close())
	}
}
