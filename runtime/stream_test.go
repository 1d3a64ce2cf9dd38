package runtime_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

func TestStreamRunsInOrder(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "add")
		x := alloc[uint32](t, s, 1000)
		h := allocHost[uint32](t, c, 1000)
		release := hold(t, s)
		require.NoError(t, runtime.Fill(s, x, 1))
		for range 10 {
			require.NoError(t, addTo(k, s, x, 2))
		}
		require.NoError(t, runtime.Copy(s, x.Slice(0, 500), x.Slice(500, 1000)))
		require.NoError(t, runtime.Zero(s, x.Slice(0, 250)))
		require.NoError(t, runtime.DownloadHost(s, h, x))
		release()
		synchronize(t, s)
		for i, v := range h.Data() {
			if want := map[bool]uint32{true: 0, false: 21}[i < 250]; v != want {
				require.Equal(t, want, v, i)
			}
		}
	})
}

func TestStreamCallRunsInOrder(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		s := newStream(t, contextOf(t, rt))
		var got []int
		for i := range 100 {
			require.NoError(t, s.LaunchHostFunc(func() { got = append(got, i) }))
		}
		synchronize(t, s)
		require.Len(t, got, 100)
		assert.IsIncreasing(t, got)
	})
}

func TestStreamQuery(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		s := newStream(t, contextOf(t, rt))
		done, err := s.Query()
		require.NoError(t, err)
		assert.True(t, done)
		release := hold(t, s)
		done, err = s.Query()
		require.NoError(t, err)
		assert.False(t, done)
		release()
		synchronize(t, s)
		done, err = s.Query()
		require.NoError(t, err)
		assert.True(t, done)
		assert.Zero(t, rt.Stats().Errors, "not being ready is no error")
	})
}

func TestStreamsAreIndependent(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		held, free := newStream(t, c), newStream(t, c)
		x := alloc[uint32](t, free, 10)
		hold(t, held)
		require.NoError(t, runtime.Upload(bg, free, x, count(0, 10)))
		assert.Equal(t, count(0, 10), download(t, free, x))
		done, err := held.Query()
		require.NoError(t, err)
		assert.False(t, done)
	})
}

func TestStreamWaitsForAnother(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		first, second := newStream(t, c), newStream(t, c)
		e := newEvent(t, c)
		x := alloc[uint32](t, first, 100)
		h := allocHost[uint32](t, c, 100)
		release := hold(t, first)
		require.NoError(t, runtime.Fill(first, x, 7))
		require.NoError(t, e.Record(first))
		require.NoError(t, second.Wait(e))
		require.NoError(t, runtime.DownloadHost(second, h, x))
		done, err := second.Query()
		require.NoError(t, err)
		assert.False(t, done)
		release()
		synchronize(t, second)
		assert.Equal(t, uint32(7), h.Data()[99])
	})
}

func TestStreamsOfTwoDevices(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
		onA, onB := newStream(t, a), newStream(t, b)
		e := newEvent(t, a)
		release := hold(t, onA)
		require.NoError(t, e.Record(onA))
		require.NoError(t, onB.Wait(e))
		done, err := onB.Query()
		require.NoError(t, err)
		assert.False(t, done)
		release()
		synchronize(t, onB)
	})
}

func TestStreamSynchronize(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		s := newStream(t, contextOf(t, rt))
		release := hold(t, s)
		ran := false
		require.NoError(t, s.LaunchHostFunc(func() { ran = true }))
		done := async(func() error { return s.Synchronize(context.Background()) })
		time.Sleep(10 * time.Millisecond)
		assert.Empty(t, done)
		release()
		require.NoError(t, await(t, "Synchronize returns", done))
		assert.True(t, ran)
	})
}

// When the caller gives up, the wait ends, and what waits in the driver ends with the
// work.
func TestWaitsEndWithTheirContext(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		e := newEvent(t, c)
		before := goruntime.NumGoroutine()
		release := hold(t, s)
		require.NoError(t, e.Record(s))
		enough := errors.New("enough")
		for _, wait := range []func(context.Context) error{s.Synchronize, e.Synchronize} {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			assert.ErrorIs(t, wait(ctx), context.DeadlineExceeded)
			cancel()

			ctx, cancelCause := context.WithCancelCause(context.Background())
			done := async(func() error { return wait(ctx) })
			time.Sleep(time.Millisecond)
			cancelCause(enough)
			assert.Equal(t, enough, await(t, "the wait ends", done))
		}
		release()
		eventually(t, "the goroutines end", func() bool { return goruntime.NumGoroutine() <= before })

		// A wait that is long enough gives the result.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, s.Synchronize(ctx))
		assert.NoError(t, e.Synchronize(ctx))
	})
}

func TestWaitThatIsOverBeforeItBegins(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s, e := newStream(t, c), newEvent(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.ErrorIs(t, s.Synchronize(ctx), context.Canceled)
	assert.ErrorIs(t, e.Synchronize(ctx), context.Canceled)
	assert.Zero(t, gpu.Calls("cuStreamSynchronize")+gpu.Calls("cuEventSynchronize"))
	assert.Zero(t, rt.Stats().Waits)
}

func TestStreamPriority(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		priority := func(want int) int32 {
			s, err := c.NewStreamWithPriority(want)
			require.NoError(t, err)
			p, r := rt.Driver().StreamGetPriority(s.Handle())
			require.Equal(t, driver.Success, r)
			return p
		}
		assert.Equal(t, int32(0), priority(0))
		assert.Equal(t, int32(-1), priority(-1))
		assert.Equal(t, int32(0), priority(1000), "brought into the range")
		assert.Equal(t, priority(-1000), priority(-1001))
		assert.Less(t, priority(-1000), int32(0))

		flags, r := rt.Driver().StreamGetFlags(newStream(t, c).Handle())
		require.Equal(t, driver.Success, r)
		assert.Equal(t, uint32(driver.StreamNonBlocking), flags)
	})
}

func TestStreamIDsAreNeverUsedTwice(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c := contextOf(t, rt)
	var mu sync.Mutex
	seen := map[uint64]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				s, err := c.NewStream()
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				assert.False(t, seen[s.ID()])
				seen[s.ID()] = true
				mu.Unlock()
				assert.NoError(t, s.Close())
			}
		})
	}
	wg.Wait()
	assert.Len(t, seen, 160)
}

// Errors of work on a stream carry its identity.
func TestStreamErrors(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	newStream(t, c)
	s := newStream(t, c)
	gpu.Fail("cuStreamQuery", 1, driver.ResultUnknown)
	done, err := s.Query()
	assert.False(t, done)
	var e *driver.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "cuStreamQuery", e.Op)
	assert.Equal(t, s.ID(), e.Stream)
	assert.Equal(t, 0, e.Device)
}
