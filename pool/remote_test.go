package pool_test

import (
	"context"
	"errors"
	goruntime "runtime"
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
	p, gpu := open(t, machine(3), pool.Options{Setup: []pool.Setup{pool.PerStream(func(*pool.Worker) (int, error) { panic("no setup runs") })}, Remote: func(ordinal int) error {
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

// A state that panics, or ends its goroutine, is an error, and keeps no worker.
func TestRemotePanics(t *testing.T) {
	for _, c := range []struct {
		state func(int) error
		want  string
	}{
		{func(int) error { panic("at the state") }, "at the state"},
		{func(int) error { goruntime.Goexit(); return nil }, "Goexit"},
	} {
		p, _ := open(t, machine(1), pool.Options{Streams: 1, Remote: c.state})
		_, err := p.Scatter(t.Context(), 10, func(*pool.Worker, pool.Tile) error { return nil })
		assert.ErrorContains(t, err, c.want)
		for range 2 {
			_, err = p.Do(t.Context(), func(*pool.Worker) error { return nil })
			assert.ErrorContains(t, err, c.want)
		}
	}
}

// Probes ask the state, and take a device back without a call of the driver.
func TestRemoteQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, machine(2), pool.Options{Remote: func(int) error { return nil }})
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
