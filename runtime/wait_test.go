package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// after registers a function and returns what it gets.
func after(s *runtime.Stream) <-chan error {
	ran := make(chan error, 2)
	s.AfterFunc(func(err error) { ran <- err })
	return ran
}

func TestAfterFunc(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		s := newStream(t, contextOf(t, rt))
		assert.NoError(t, await(t, "a function of an idle stream runs", after(s)))
		release := hold(t, s)
		ran := after(s)
		stop := s.AfterFunc(func(error) { t.Error("it was stopped") })
		assert.True(t, stop())
		assert.False(t, stop(), "it was stopped before")
		assert.Empty(t, ran)
		release()
		assert.NoError(t, await(t, "the function runs", ran))
		require.NoError(t, s.Close())
		assert.ErrorIs(t, await(t, "that of a closed stream runs", after(s)), driver.ErrClosed)
		assert.Empty(t, ran, "once")
	})
}

// The function may wait, close and panic: nothing waits for it.
func TestFunctionsOfAfterFunc(t *testing.T) {
	heard := make(chan error, 2)
	rt, _ := open(t, drivertest.Config{}, runtime.WithErrorHook(func(err error) { heard <- err }))
	s := newStream(t, contextOf(t, rt))
	s.AfterFunc(func(error) { panic("mistake") })
	assert.ErrorContains(t, await(t, "the panic is told", heard), "panic: mistake")
	assert.False(t, s.AfterFunc(nil)())
	assert.ErrorIs(t, await(t, "no function is told", heard), driver.ErrInvalidArgument)
	closed := make(chan error, 1)
	s.AfterFunc(func(err error) { closed <- errors.Join(err, s.Synchronize(bg), rt.Close()) })
	assert.NoError(t, await(t, "the runtime closes", closed))
	var none *runtime.Stream
	assert.ErrorIs(t, await(t, "that of no stream runs", after(none)), driver.ErrInvalidArgument)
}

// Waits of every kind end with the first cause, on all devices.
func TestLossWakesEverybody(t *testing.T) {
	rt, _ := openFaulty(t, twoDevices())
	c, far := contextAt(t, rt, 0), contextAt(t, rt, 1)
	var ended []<-chan error
	for _, s := range []*runtime.Stream{newStream(t, c), newStream(t, c), newStream(t, far)} {
		hold(t, s)
		ended = append(ended, after(s))
		for range 3 {
			ended = append(ended, async(func() error { return s.Synchronize(bg) }))
		}
	}
	eventually(t, "all wait", func() bool { return rt.Stats().Waits == 12 })
	stray := newStream(t, far)
	require.NoError(t, kernel(t, far, "stray").Launch(stray, one, runtime.Value(uint64(64))))
	for _, end := range ended {
		err := await(t, "a wait ends", end)
		assert.ErrorIs(t, err, driver.ErrDeviceLost)
		assert.ErrorIs(t, err, driver.ResultIllegalAddress)
	}
}

// A device that fails alone ends its own waits only.
func TestDeviceThatFailsAloneWakesItsOwn(t *testing.T) {
	rt, gpu := openFaulty(t, twoDevices())
	s, far := newStream(t, contextAt(t, rt, 0)), newStream(t, contextAt(t, rt, 1))
	hold(t, s)
	release := hold(t, far)
	ends := []<-chan error{async(func() error { return s.Synchronize(bg) }), after(s)}
	others := []<-chan error{async(func() error { return far.Synchronize(bg) }), after(far)}
	eventually(t, "all wait", func() bool { return rt.Stats().Waits == 4 })
	gpu.Vanish(0)
	for _, end := range ends {
		assert.ErrorIs(t, await(t, "a wait ends", end), driver.ErrDeviceLost)
	}
	for _, other := range others {
		assert.Empty(t, other)
	}
	release()
	for _, other := range others {
		assert.NoError(t, await(t, "a wait ends", other))
	}
}

// A wait is not inside of the stream: a capture begins and ends while the work goes on.
func TestCaptureDuringAWait(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := alloc[uint32](t, s, 10)
		release := hold(t, s)
		waits := []<-chan error{async(func() error { return s.Synchronize(bg) }), after(s)}
		eventually(t, "both wait", func() bool { return c.Stats().Waits == 2 })
		var within <-chan error
		captured := async(func() error {
			g, err := s.Capture(func(s *runtime.Stream) error {
				within = after(s)
				return runtime.Zero(s, x)
			})
			return errors.Join(err, g.Close())
		})
		assert.ErrorIs(t, await(t, "the capture ends", captured), driver.ErrCaptureFailed, "it was waited for")
		assert.ErrorIs(t, await(t, "the function runs", within), driver.ErrCaptureFailed)
		captured = async(func() error {
			g, err := s.Capture(func(s *runtime.Stream) error { return runtime.Zero(s, x) })
			return errors.Join(err, g.Close())
		})
		assert.NoError(t, await(t, "the capture ends", captured))
		for _, wait := range waits {
			assert.Empty(t, wait)
		}
		release()
		for _, wait := range waits {
			assert.NoError(t, await(t, "a wait ends", wait))
		}
	})
}

// Functions of an old generation run once, whenever the Reset comes.
func TestAfterFuncAndReset(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	for range 20 {
		s := newStream(t, c)
		var runs atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Add(1)
			require.NoError(t, s.LaunchHostFunc(func() {}))
			s.AfterFunc(func(err error) {
				defer all.Done()
				runs.Add(1)
				assert.NoError(t, err)
			})
		}
		require.NoError(t, c.Reset(bg))
		all.Wait()
		assert.EqualValues(t, 8, runs.Load())
		assert.ErrorIs(t, await(t, "that of a stale stream runs", after(s)), driver.ErrRefStale)
	}
	assert.Zero(t, c.Stats().TicketBytes, "no wait in this generation")
}

// A ctx that ends leaves no goroutine, although the work goes on.
func TestWaitsThatEndLeaveNothing(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s, e := newStream(t, c), newEvent(t, c)
	release := hold(t, s)
	require.NoError(t, e.Record(s))
	enough := errors.New("the caller has had enough")
	for range 3 {
		before := goruntime.NumGoroutine()
		for name, wait := range map[string]func(ctx context.Context) error{
			"stream": s.Synchronize, "event": e.Synchronize, "Reset": c.Reset,
		} {
			ctx, cancel := context.WithTimeoutCause(bg, time.Millisecond, enough)
			assert.Equal(t, enough, wait(ctx), name)
			cancel()
			assert.Equal(t, enough, wait(ctx), name)
			assert.ErrorIs(t, wait(nil), driver.ErrInvalidArgument, name)
		}
		eventually(t, "no goroutine is left", func() bool { return goruntime.NumGoroutine() <= before })
		require.NoError(t, e.Record(s), "the next wait is another one")
	}
	done := async(c.Synchronize)
	time.Sleep(time.Millisecond)
	assert.Empty(t, done)
	release()
	assert.NoError(t, await(t, "all work is done", done))
}
