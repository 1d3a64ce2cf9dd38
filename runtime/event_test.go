package runtime_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

func TestEvent(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		e := newEvent(t, c)
		assert.NotZero(t, e.Handle())
		done, err := e.Query()
		require.NoError(t, err)
		assert.True(t, done, "an event that was never recorded is done")

		release := hold(t, s)
		require.NoError(t, e.Record(s))
		done, err = e.Query()
		require.NoError(t, err)
		assert.False(t, done)
		waiting := async(func() error { return e.Synchronize(context.Background()) })
		time.Sleep(10 * time.Millisecond)
		assert.Empty(t, waiting)
		release()
		require.NoError(t, await(t, "the event is done", waiting))
		done, err = e.Query()
		require.NoError(t, err)
		assert.True(t, done)

		// It moves to the end of what is on the stream now.
		hold(t, s)
		require.NoError(t, e.Record(s))
		done, err = e.Query()
		require.NoError(t, err)
		assert.False(t, done)
		assert.Zero(t, rt.Stats().Errors)
	})
}

func TestEventSince(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		start, err := c.NewTimingEvent()
		require.NoError(t, err)
		end, err := c.NewTimingEvent()
		require.NoError(t, err)
		_, err = end.Since(start)
		require.ErrorIs(t, err, driver.ResultInvalidHandle, "they were not recorded")
		assert.ErrorContains(t, err, "both events must be recorded first (Event.Record)")

		const pause = 20 * time.Millisecond
		require.NoError(t, start.Record(s))
		require.NoError(t, s.LaunchHostFunc(func() { time.Sleep(pause) }))
		require.NoError(t, end.Record(s))
		_, err = end.Since(start)
		require.ErrorIs(t, err, driver.ResultNotReady)
		assert.ErrorContains(t, err, "wait for both events first (Event.Synchronize)")
		synchronize(t, s)
		elapsed, err := end.Since(start)
		require.NoError(t, err)
		assert.Greater(t, elapsed, pause*9/10)
		assert.Less(t, elapsed, patience)
		back, err := start.Since(end)
		require.NoError(t, err)
		assert.Equal(t, -elapsed, back)

		plain := newEvent(t, c)
		require.NoError(t, plain.Record(s))
		synchronize(t, s)
		for _, since := range []func() (time.Duration, error){
			func() (time.Duration, error) { return plain.Since(start) },
			func() (time.Duration, error) { return end.Since(plain) },
		} {
			_, err = since()
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, "Event.Since of an event without a time stamp: make it with Context.NewTimingEvent")
		}
	})
}

func TestSinceAnEventOfAnotherDevice(t *testing.T) {
	rt, _ := open(t, twoDevices())
	start, err := contextAt(t, rt, 0).NewTimingEvent()
	require.NoError(t, err)
	end, err := contextAt(t, rt, 1).NewTimingEvent()
	require.NoError(t, err)
	_, err = end.Since(start)
	assert.EqualError(t, err, "InvalidArgument: Event.Since of events of device 1 and device 0: their time stamps do not compare")
}

func TestEventOnAStreamOfAnotherDevice(t *testing.T) {
	rt, _ := open(t, twoDevices())
	e, s := newEvent(t, contextAt(t, rt, 0)), newStream(t, contextAt(t, rt, 1))
	assert.EqualError(t, e.Record(s), "InvalidArgument: record an event of device 0 on a stream of device 1")
}

// A wait is for what the event marked at the call, whatever is done with the event meanwhile, and
// it keeps nobody waiting.
func TestWaitForAnEventThatIsUsedOtherwise(t *testing.T) {
	makes := map[string]func(c *runtime.Context) (*runtime.Event, error){
		"first":    (*runtime.Context).NewEvent,
		"later":    (*runtime.Context).NewEvent,
		"blocking": (*runtime.Context).NewBlockingEvent,
		"timing":   (*runtime.Context).NewTimingEvent,
	}
	for name, make := range makes {
		t.Run(name, func(t *testing.T) {
			onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
				c := contextOf(t, rt)
				s, other := newStream(t, c), newStream(t, c)
				for _, use := range []func(e *runtime.Event) error{
					func(e *runtime.Event) error { return errors.Join(e.Record(other), e.Synchronize(bg)) },
					(*runtime.Event).Close,
					func(e *runtime.Event) error {
						g, err := other.Capture(func(*runtime.Stream) error { return e.Record(other) })
						return errors.Join(err, g.Close(), e.Record(other), e.Synchronize(bg))
					},
				} {
					e, err := make(c)
					require.NoError(t, err)
					if name == "later" {
						require.NoError(t, e.Synchronize(bg))
					}
					release := hold(t, s)
					require.NoError(t, e.Record(s))
					before := rt.Stats().Waits
					waiting := async(func() error { return e.Synchronize(bg) })
					eventually(t, "somebody waits", func() bool { return rt.Stats().Waits > before })
					assert.NoError(t, await(t, "nothing waits for the wait", async(func() error { return use(e) })))
					time.Sleep(2 * time.Millisecond)
					assert.Empty(t, waiting, "the work goes on")
					release()
					assert.NoError(t, await(t, "the wait ends", waiting))
					require.NoError(t, e.Close())
				}
				assert.Zero(t, rt.Stats().Errors)
			})
		})
	}
}

// Goroutines record and await one event; each wait is for what was recorded before it or later.
func TestRecordsBesideWaits(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		e := newEvent(t, c)
		var group sync.WaitGroup
		for range 8 {
			s := newStream(t, c)
			group.Go(func() {
				for range 50 {
					var done atomic.Bool
					err := s.LaunchHostFunc(func() { time.Sleep(20 * time.Microsecond); done.Store(true) })
					own := newEvent(t, c)
					err = errors.Join(err, own.Record(s), e.Record(s), e.Synchronize(bg), own.Synchronize(bg))
					assert.NoError(t, err)
					assert.True(t, done.Load())
				}
			})
		}
		group.Wait()
		assert.NoError(t, e.Close())
	})
}

// A record after a capture leaves no ticket that a later one does without.
func TestWaitForAnEventAfterACapture(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s, e := newStream(t, c), newEvent(t, c)
		g := capture(t, s, func(s *runtime.Stream) error { return e.Record(s) })
		require.NoError(t, errors.Join(g.Close(), e.Record(s)))
		release := hold(t, s)
		require.NoError(t, e.Record(s))
		waiting := async(func() error { return e.Synchronize(bg) })
		time.Sleep(2 * time.Millisecond)
		assert.Empty(t, waiting, "the work goes on")
		release()
		assert.NoError(t, await(t, "the wait ends", waiting))
	})
}
