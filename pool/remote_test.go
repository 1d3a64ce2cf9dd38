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
)

// A pool whose work other processes do opens no context, and leaves out the devices that cannot do work now.
func TestRemote(t *testing.T) {
	away := errors.New("nobody is there")
	var broken atomic.Int32 // a device, or -1
	broken.Store(-1)
	p, gpu := open(t, machine(3), pool.Options{Setup: []pool.Setup{pool.PerStream(func(*pool.Worker) (int, error) { panic("no setup runs") })}, Remote: func(ordinal int, _ bool) error {
		if int32(ordinal) == broken.Load() {
			return away
		}
		return nil
	}})
	on := func(w *pool.Worker, _ pool.Tile) error {
		assert.Nil(t, w.Context())
		assert.Nil(t, w.Stream())
		assert.NotEqual(t, int(broken.Load()), w.Device().Ordinal)
		return w.CallContext().Err()
	}
	report, err := p.Scatter(t.Context(), 1000, on, pool.ScatterOptions{ItemBytes: 1})
	require.NoError(t, err)
	assert.Empty(t, report.Skipped)
	broken.Store(1)
	report, err = p.Scatter(t.Context(), 1000, on)
	require.NoError(t, err)
	require.Len(t, report.Skipped, 1)
	assert.ErrorIs(t, report.Skipped[0].Err, away)
	for range 6 { // without a retry
		_, err := p.Do(t.Context(), func(w *pool.Worker) error { return on(w, pool.Tile{}) })
		require.NoError(t, err)
	}
	_, err = p.Do(t.Context(), func(*pool.Worker) error { panic("not run") }, pool.DoOptions{Devices: []int{1}})
	assert.ErrorIs(t, err, away)
	assert.ErrorIs(t, p.Devices()[1].Err, away)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = p.Do(ctx, func(*pool.Worker) error { cancel(); return ctx.Err() })
	assert.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, gpu.Calls("cuDevicePrimaryCtxRetain"))
}

// A state that panics is an error, and keeps no worker. One that ends its goroutine ends that of the caller of Do, as its function would,
// and is an error of the other calls.
func TestRemotePanics(t *testing.T) {
	for _, c := range []struct {
		state func(int, bool) error
		want  string
		ends  bool
	}{
		{func(int, bool) error { panic("at the state") }, "at the state", false},
		{func(int, bool) error { goruntime.Goexit(); return nil }, "Goexit", true},
	} {
		p, _ := open(t, machine(1), pool.Options{Streams: 1, Remote: c.state})
		_, err := p.Scatter(t.Context(), 10, func(*pool.Worker, pool.Tile) error { return nil })
		assert.ErrorContains(t, err, c.want)
		for range 2 {
			answers := make(chan error, 1)
			go func() {
				defer close(answers)
				_, err := p.Do(t.Context(), func(*pool.Worker) error { return nil })
				answers <- err
			}()
			err, returned := <-answers
			assert.Equal(t, !c.ends, returned)
			if returned {
				assert.ErrorContains(t, err, c.want)
			}
		}
		stats := p.Stats().Devices[0]
		assert.Zero(t, stats.Busy)
		assert.EqualValues(t, 3, stats.Failures)
		assert.NoError(t, p.Close(), "which waits for all calls")
	}
}

// Probes ask the state, and take a device back without a call of the driver.
func TestRemoteQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2), pool.Options{Remote: func(int, bool) error { return nil }})
		for range 3 {
			_, err := p.Do(t.Context(), func(*pool.Worker) error { return driver.Errorf(driver.ErrDriverCallFailed, "there") }, pool.DoOptions{Devices: []int{0}})
			require.Error(t, err)
		}
		require.True(t, p.Stats().Devices[0].Quarantined)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		assert.False(t, p.Stats().Devices[0].Quarantined)
	})
}

// A request waits for a process that is being started, and starts no more than there are requests.
func TestRemoteNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		ready, asked := map[int]bool{}, map[int]bool{}
		p, _ := open(t, machine(3), pool.Options{Queue: 1, Remote: func(ordinal int, begins bool) error {
			mu.Lock()
			defer mu.Unlock()
			asked[ordinal] = asked[ordinal] || begins
			if ready[ordinal] {
				return nil
			}
			return pool.ErrNotReady
		}})
		started := func() int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return len(asked)
		}
		serve := func(ordinal int) {
			mu.Lock()
			ready[ordinal] = true
			mu.Unlock()
			p.Changed(ordinal)
		}
		p.Stats()
		clear(asked)
		done := make(chan pool.Report, 2)
		begin := func(o pool.DoOptions) {
			go func() {
				report, err := p.Do(t.Context(), func(*pool.Worker) error { return nil }, o)
				assert.NoError(t, err)
				done <- report
			}()
		}
		begin(pool.DoOptions{})
		require.Equal(t, 1, started())
		_, err := p.Do(t.Context(), func(*pool.Worker) error { panic("not run") }, pool.DoOptions{Devices: []int{0}})
		require.ErrorIs(t, err, pool.ErrQueueFull, "what waits for a process is in the queue")
		begin(pool.DoOptions{Wait: true})
		require.Equal(t, 2, started())
		serve(0)
		assert.Equal(t, []int{0, 0}, []int{(<-done).Device, (<-done).Device})
		for range 3 { // the others are not needed
			report, err := p.Do(t.Context(), func(*pool.Worker) error { return nil })
			require.NoError(t, err)
			assert.Equal(t, 0, report.Device)
		}
		assert.Equal(t, 2, started())
		requests := 0
		for _, d := range p.Stats().Devices {
			requests += int(d.Requests)
		}
		assert.Equal(t, 5, requests, "what found no process is no request of the device")
		var none *pool.Pool
		none.Changed(0)
	})
}

// A change between the answer and its effect is not missed.
func TestRemoteChangesAtOnce(t *testing.T) {
	var p *pool.Pool
	asked := 0
	p, _ = open(t, machine(1), pool.Options{Remote: func(ordinal int, begins bool) error {
		if asked++; asked > 2 {
			return nil
		}
		p.Changed(ordinal)
		return pool.ErrNotReady
	}})
	_, err := p.Do(t.Context(), func(*pool.Worker) error { return nil })
	require.NoError(t, err)
	assert.Equal(t, 3, asked)
}

// Another process does the next try, also on the same device. One that gets none is left out.
func TestRemoteRetry(t *testing.T) {
	away := errors.New("nobody is there")
	p, _ := open(t, machine(2), pool.Options{Remote: func(ordinal int, _ bool) error {
		if ordinal == 1 {
			return away
		}
		return nil
	}})
	failed := errors.New("not today")
	report, err := p.Do(t.Context(), func(*pool.Worker) error { return failed }, pool.DoOptions{Retry: 2})
	assert.ErrorIs(t, err, failed)
	assert.Equal(t, 3, report.Tries)
	assert.Equal(t, pool.Failed, report.Reason)
	report, err = p.Do(t.Context(), func(*pool.Worker) error { return failed }, pool.DoOptions{Retry: 2, Devices: []int{1}})
	assert.ErrorIs(t, err, away)
	assert.Equal(t, pool.Quarantined, report.Reason)
}
