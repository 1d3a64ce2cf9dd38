package pool

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// full opens a pool whose streams run functions that end when they may, with a queue that is full of others.
func full(t *testing.T, devices int, o Options) (p *Pool, gpu *drivertest.Driver, mayEnd chan struct{}) {
	gpu = drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(devices, drivertest.T4())})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	p, err = Open(rt, o)
	require.NoError(t, err)
	mayEnd = make(chan struct{})
	var all sync.WaitGroup
	for range devices*p.streams + p.limit {
		all.Go(func() {
			_, _ = p.Do(context.Background(), func(*Worker) error { <-mayEnd; return nil }, DoOptions{Wait: true})
		})
		synctest.Wait()
	}
	t.Cleanup(func() {
		close(mayEnd)
		all.Wait()
		assert.NoError(t, p.Close())
		assert.NoError(t, rt.Close())
	})
	return p, gpu, mayEnd
}

func nothing(*Worker) error { return nil }

// Where the queue is full and no stream is free, a call is refused without the mutex. One with another answer asks.
func TestRefusedWithoutMutex(t *testing.T) {
	for _, o := range []Options{{Streams: 2, Queue: 3}, {Streams: 1, Queue: -1}} {
		synctest.Test(t, func(t *testing.T) {
			p, _, _ := full(t, 2, o)
			before := p.Stats()
			p.mu.Lock()
			for _, options := range [][]DoOptions{nil, {{Priority: 1, Cost: time.Second, Retry: 2, Fallback: func(context.Context) error { panic("not run") }}}} {
				report, err := p.Do(t.Context(), nothing, options...)
				assert.ErrorIs(t, err, ErrQueueFull)
				assert.Equal(t, Report{Device: driver.NoDevice}, report)
			}
			ctx, cancel := context.WithCancel(t.Context())
			errs := make(chan error, 2)
			for _, o := range []DoOptions{{Wait: true}, {Devices: []int{1}}} {
				go func() {
					_, err := p.Do(ctx, nothing, o)
					errs <- err
				}()
			}
			synctest.Wait()
			assert.Empty(t, errs, "they ask whether the answer is another one")
			p.mu.Unlock()
			assert.ErrorIs(t, <-errs, ErrQueueFull)
			for _, o := range []DoOptions{{Reserve: 1}, {Suits: func(runtime.Device) bool { return true }}} {
				_, err := p.Do(ctx, nothing, o)
				assert.ErrorIs(t, err, ErrQueueFull)
			}
			cancel()
			assert.ErrorIs(t, <-errs, context.Canceled, "the one that may wait")
			after := p.Stats()
			assert.EqualValues(t, 6, after.Requests-before.Requests)
			assert.EqualValues(t, 5, after.Refused-before.Refused)
		})
	}
}

// A call that is refused with the mutex ends there, and does not wait for it again. It tries no fallback, also where CUDA is lost and nobody
// knows it yet.
func TestRefusedCallHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, gpu, _ := full(t, 1, Options{Streams: 1, Queue: 1})
		calls := p.calls
		p.mu.Lock()
		refused := make(chan error, 1)
		go func() {
			_, err := p.Do(t.Context(), nothing, DoOptions{Devices: []int{0}, Fallback: func(context.Context) error { panic("not run") }})
			refused <- err
		}()
		synctest.Wait()
		p.mu.runPosted()
		assert.Equal(t, calls, p.calls)
		gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
		_, err := p.devices[0].workers[0].stream.Query()
		require.Error(t, err)
		require.Error(t, p.rt.Err())
		r := p.mu.answered
		p.mu.answered = nil
		r.ready <- struct{}{}
		assert.ErrorIs(t, <-refused, ErrQueueFull, "with the mutex held")
		p.mu.Unlock()
		assert.Equal(t, calls, p.calls)
	})
}

// A caller whose function has ended is not refused for its own stream, which nobody took back yet.
func TestReturnedWorkerIsNotCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, mayEnd := full(t, 1, Options{Streams: 1, Queue: 1})
		_, err := p.Do(t.Context(), nothing)
		require.ErrorIs(t, err, ErrQueueFull)
		p.mu.Lock()
		mayEnd <- struct{}{} // the first one returns its worker, and cannot take mu
		synctest.Wait()
		answer := make(chan error, 1)
		go func() {
			_, err := p.Do(t.Context(), nothing)
			answer <- err
		}()
		synctest.Wait()
		assert.Empty(t, answer)
		p.mu.Unlock()
		synctest.Wait()
		assert.Empty(t, answer, "it has the place in the queue of the one that began")
		mayEnd <- struct{}{}
		assert.NoError(t, <-answer)
	})
	synctest.Test(t, func(t *testing.T) {
		p, _, mayEnd := full(t, 1, Options{Streams: 1, Queue: -1})
		p.mu.Lock()
		mayEnd <- struct{}{}
		synctest.Wait()
		p.mu.Mutex.Unlock() // just after it has run what was posted before
		_, err := p.Do(t.Context(), nothing)
		assert.NoError(t, err)
	})
}

// Where the answer is another error, a call gets that: whatever changes the state unlocks the mutex.
func TestCrowdedChanges(t *testing.T) {
	do := func(t *testing.T, p *Pool) error {
		_, err := p.Do(t.Context(), nothing)
		return err
	}
	broken := driver.Errorf(driver.ErrDriverCallFailed, "broken")
	for name, change := range map[string]struct {
		change func(p *Pool)
		want   error
	}{
		"closed": {func(p *Pool) {
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			_ = p.Shutdown(ended)
		}, driver.ErrClosed},
		"one in quarantine": {func(p *Pool) { p.takeOut(p.devices[0], broken, true) }, ErrQueueFull},
		"all in quarantine": {func(p *Pool) {
			for _, d := range p.devices {
				p.takeOut(d, broken, true)
			}
		}, ErrQuarantined},
		"CUDA is lost": {func(p *Pool) {
			p.rt.Driver().(*drivertest.Driver).Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
			_, err := p.devices[0].workers[0].stream.Query()
			p.recordFailure(p.devices[0], err, prepared)
		}, driver.ErrDeviceLost},
	} {
		t.Run(name, func(t *testing.T) {
			for _, queue := range []int{2, -1} {
				synctest.Test(t, func(t *testing.T) {
					p, _, _ := full(t, 2, Options{Streams: 2, Queue: queue})
					require.ErrorIs(t, do(t, p), ErrQueueFull)
					change.change(p)
					assert.ErrorIs(t, do(t, p), change.want)
				})
			}
		})
	}
}

// A device whose process is being started is as good as busy, and one whose process was not started is free.
func TestCrowdedRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ready := map[int]bool{0: true}
		remote := func(ordinal int, _ bool) error {
			mu.Lock()
			defer mu.Unlock()
			if ready[ordinal] {
				return nil
			}
			return ErrNotReady
		}
		// The second device is asked once, and begins to start.
		p, _, mayEnd := full(t, 2, Options{Streams: 1, Queue: 1, Remote: remote})
		synctest.Wait()
		_, err := p.Do(t.Context(), nothing)
		assert.ErrorIs(t, err, ErrQueueFull)
		assert.True(t, p.mu.isCrowded(), "away is busy")
		mu.Lock()
		ready[1] = true
		mu.Unlock()
		p.Changed(1)
		synctest.Wait()
		mayEnd <- struct{}{}
		mayEnd <- struct{}{}
		synctest.Wait()
		assert.False(t, p.mu.isCrowded())
		_, err = p.Do(t.Context(), nothing)
		assert.NoError(t, err)
	})
}
