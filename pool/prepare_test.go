package pool_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const devices, streams = 4, 3
		var onDevice, onStream atomic.Int64
		var together sync.WaitGroup
		together.Add(devices)
		p, gpu := open(t, machine(devices), pool.Options{Streams: streams, Setup: []pool.Setup{
			pool.PerDevice(func(*runtime.Context) (int, error) {
				onDevice.Add(1)
				together.Done()
				together.Wait() // ends only if all devices are prepared at the same time
				return 0, nil
			}),
			pool.PerStream(func(*pool.Worker) (int, error) { onStream.Add(1); return 0, nil }),
		}})
		require.NoError(t, p.Prepare(t.Context()))
		assert.EqualValues(t, devices, onDevice.Load())
		assert.EqualValues(t, devices*streams, onStream.Load())
		before := gpu.Calls("cuDevicePrimaryCtxRetain") + gpu.Calls("cuStreamCreate")
		require.NoError(t, p.Prepare(t.Context()), "again")
		var all, running sync.WaitGroup
		running.Add(devices * streams)
		for range devices * streams {
			all.Go(func() {
				_, err := p.Do(t.Context(), func(*pool.Worker) error {
					running.Done()
					running.Wait()
					return nil
				})
				assert.NoError(t, err)
			})
		}
		all.Wait()
		assert.Equal(t, before, gpu.Calls("cuDevicePrimaryCtxRetain")+gpu.Calls("cuStreamCreate"), "no request prepares anything")
		assert.EqualValues(t, devices*streams, onStream.Load())
		requests := uint64(0)
		for _, d := range p.Stats().Devices {
			requests += d.Requests
		}
		assert.EqualValues(t, devices*streams, requests, "Prepare makes no requests")
	})
}

func TestPrepareLeavesBusyStreams(t *testing.T) {
	p, _ := open(t, machine(1), pool.Options{Streams: 1})
	_, err := p.Do(t.Context(), func(w *pool.Worker) error {
		assert.NoError(t, p.Prepare(context.Background()))
		assert.ErrorIs(t, p.Prepare(w.CallContext()), driver.ErrInvalidArgument)
		return nil
	})
	require.NoError(t, err)
}

// What cannot be prepared is named, and the other devices are prepared.
func TestPrepareFailsOnOneDevice(t *testing.T) {
	var made atomic.Int64
	p, _ := open(t, machine(3), pool.Options{Streams: 2, Setup: []pool.Setup{pool.PerStream(func(w *pool.Worker) (int, error) {
		if w.Device().Ordinal == 1 {
			return 0, errSetup
		}
		made.Add(1)
		return 0, nil
	})}})
	err := p.Prepare(t.Context())
	require.ErrorIs(t, err, errSetup)
	assert.ErrorContains(t, err, "preparing device 1")
	assert.EqualValues(t, 4, made.Load())
	_, err = p.Do(t.Context(), func(w *pool.Worker) error { return nil })
	require.NoError(t, err)
}

func TestPrepareWithoutDevices(t *testing.T) {
	assert.NoError(t, without(t).Prepare(t.Context()), "absent")
	broken, gpu := open(t, machine(2))
	lose(t, broken, gpu)
	assert.ErrorIs(t, broken.Prepare(t.Context()), driver.ErrDeviceLost)
	p, _ := open(t, machine(1))
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	assert.ErrorIs(t, p.Prepare(ctx), gone)
	var none context.Context
	assert.Error(t, p.Prepare(none))
	assert.Error(t, (*pool.Pool)(nil).Prepare(t.Context()))
	require.NoError(t, p.Close())
	assert.ErrorIs(t, p.Prepare(t.Context()), driver.ErrClosed)
}
