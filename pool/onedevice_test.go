package pool_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// openOne opens a pool on a simulated machine.
func openOne(t *testing.T, devices int) (*pool.Pool, *runtime.Runtime, *drivertest.Driver) {
	t.Helper()
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(devices, drivertest.H100())})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	p, err := pool.Open(rt)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p, rt, gpu
}

// A device that is known to be lost gets no work, and the report says why.
func TestALostDeviceGetsNoWork(t *testing.T) {
	for name, before := range map[string]bool{"it worked before": true, "it never worked": false} {
		t.Run(name, func(t *testing.T) {
			p, rt, gpu := openOne(t, 4)
			var onLost atomic.Int64
			work := func(w *pool.Worker, _ pool.Tile) error {
				if w.Device().Ordinal == 0 {
					onLost.Add(1)
				}
				_, err := w.Stream().Query() // a wait for an idle stream need not ask the driver
				return err
			}
			scatter := func() (pool.Report, error) {
				return p.Scatter(context.Background(), 400, work, pool.ScatterOptions{MinPerDevice: 1})
			}
			if before {
				_, err := scatter()
				require.NoError(t, err)
			}
			gpu.Vanish(0)
			found, err := scatter()
			if before {
				require.ErrorIs(t, err, driver.ResultUnknown, "the call that finds it")
			} else {
				require.NoError(t, err, "its function was not called")
				require.Len(t, found.Skipped, 1)
				assert.ErrorIs(t, found.Skipped[0].Err, driver.ResultUnknown)
			}
			onLost.Store(0)
			for range 10 {
				report, err := scatter()
				require.NoError(t, err)
				require.Len(t, report.Skipped, 1)
				assert.Equal(t, 0, report.Skipped[0].Ordinal)
				assert.ErrorIs(t, report.Skipped[0].Err, driver.ResultUnknown)
			}
			assert.Zero(t, onLost.Load())
			report, err := p.Scatter(context.Background(), 10, work, pool.ScatterOptions{MinPerDevice: 1, Devices: []int{0},
				Fallback: func(context.Context, int, int) error { return nil }})
			require.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.ErrorIs(t, report.Err, driver.ResultUnknown)

			gpu.Return(0)
			require.NoError(t, rt.Refresh())
			report, err = scatter()
			require.NoError(t, err)
			assert.Empty(t, report.Skipped)
			assert.NotZero(t, onLost.Load())
		})
	}
}

func TestErrorNamesTheCauseFirst(t *testing.T) {
	plain := errors.New("no tables")
	err := &pool.Error{Tiles: []pool.TileReport{{Device: 0, Cause: pool.ErrStopped}, {Device: 1, Cause: plain}, {Device: 2, Cause: pool.ErrStopped}}}
	assert.EqualError(t, err, "pool: not done: device 1, items [0, 0): no tables; "+
		"device 0, items [0, 0): stopped because another tile failed; device 2, items [0, 0): stopped because another tile failed")
	assert.Equal(t, plain, err.Unwrap()[0])
	assert.Equal(t, 0, err.Tiles[0].Device, "the tiles stay in order")
}

// A call of the pool within one, and its Close, are errors with its context.
func TestCallsWithinACall(t *testing.T) {
	p, _, _ := openOne(t, 2)
	nested := func(ctx context.Context) error {
		_, err := p.Scatter(ctx, 10, func(*pool.Worker, pool.Tile) error { return nil })
		return err
	}
	for name, use := range map[string]func(w *pool.Worker) error{
		"its context": func(w *pool.Worker) error { return nested(w.CallContext()) },
		"Shutdown":    func(w *pool.Worker) error { return p.Shutdown(w.CallContext()) },
		"a goroutine with its context": func(w *pool.Worker) error {
			done := make(chan error)
			go func() { done <- nested(w.CallContext()) }()
			return <-done
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.Scatter(context.Background(), 10, func(w *pool.Worker, _ pool.Tile) error { return use(w) }, pool.ScatterOptions{MinPerDevice: 1})
			require.ErrorIs(t, err, driver.ErrInvalidArgument)
			assert.ErrorContains(t, err, "within a call")
		})
	}
	_, err := p.Scatter(context.Background(), 10, func(*pool.Worker, pool.Tile) error { return errors.New("no") },
		pool.ScatterOptions{Fallback: func(ctx context.Context, _, _ int) error { return p.Shutdown(ctx) }})
	require.ErrorIs(t, err, driver.ErrInvalidArgument, "the fallback as well")
	require.NoError(t, nested(context.Background()), "the pool works on")

	other, _, _ := openOne(t, 1)
	_, err = other.Scatter(context.Background(), 1, func(w *pool.Worker, _ pool.Tile) error { return nested(w.CallContext()) })
	require.NoError(t, err, "another pool is no nesting")
}
