package cluster_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/promises"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// unsound is an error whose methods panic where it is nil.
type unsound struct{ cause error }

func (u *unsound) Error() string { return u.cause.Error() }
func (u *unsound) Unwrap() error { return u.cause }

func TestPromises(t *testing.T) {
	mine := errors.New("mine")
	c := onHosts(t, 1)
	piece := func(int) (cluster.Piece, error) { return cluster.Piece{}, nil }
	take := func(int, []byte) error { return nil }
	next := func(t *testing.T) { squares(t, c, "square/v1", 3) }
	promises.Test(t, "cluster.Scatter", map[string]func(t *testing.T){
		"says-so": func(t *testing.T) {
			empty := open(t, connect(t, start(t, embedded.Config{})), cluster.WithPatience(1))
			report, err := cluster.Scatter(within(t), empty, "echo/v1", 2, piece, take,
				cluster.WithFallback(func(context.Context, cluster.Piece) ([]byte, error) { return nil, nil }))
			assert.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.Error(t, report.Err)
		},
		"ctx": func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(within(t))
			cancel(mine)
			_, err := cluster.Scatter(ctx, c, "echo/v1", 1, piece, take)
			assert.ErrorIs(t, err, mine)
			ctx, cancel = context.WithCancelCause(within(t))
			_, err = cluster.Scatter(ctx, c, "wait/v1", 1, func(int) (cluster.Piece, error) { cancel(mine); return cluster.Piece{}, nil }, take)
			assert.ErrorIs(t, err, mine)
			next(t)
		},
		"own-error": func(t *testing.T) {
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					own := fmt.Errorf("of call %d", i)
					_, err := cluster.Scatter(within(t), c, "echo/v1", 2, piece, func(int, []byte) error {
						if i%2 == 1 {
							return own
						}
						return nil
					}, cluster.WithRetry(0))
					if i%2 == 0 {
						assert.NoError(t, err)
					} else {
						assert.ErrorIs(t, err, own)
					}
				})
			}
			all.Wait()
		},
		"panic": func(t *testing.T) {
			_, err := cluster.Scatter(within(t), c, "echo/v1", 2, func(int) (cluster.Piece, error) { panic(mine) }, take)
			assert.ErrorIs(t, err, mine)
			_, err = cluster.Scatter(within(t), c, "echo/v1", 2, piece, func(int, []byte) error { panic(mine) }, cluster.WithRetry(0))
			assert.ErrorIs(t, err, mine)
			next(t)
		},
		"nil-error": func(t *testing.T) {
			_, err := cluster.Scatter(within(t), c, "echo/v1", 2, func(int) (cluster.Piece, error) { return cluster.Piece{}, (*unsound)(nil) }, take)
			assert.Error(t, err)
			_, err = cluster.Scatter(within(t), c, "echo/v1", 2, piece, func(int, []byte) error { return (*unsound)(nil) }, cluster.WithRetry(0))
			assert.Error(t, err)
			next(t)
		},
		"goexit": func(t *testing.T) {
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = cluster.Scatter(within(t), c, "echo/v1", 2, func(int) (cluster.Piece, error) { goruntime.Goexit(); return cluster.Piece{}, nil }, take)
			}()
			select {
			case <-ended:
			case <-within(t).Done():
				assert.Fail(t, "it hangs")
			}
			next(t)
		},
		"empty": func(t *testing.T) {
			report, err := cluster.Scatter(within(t), c, "echo/v1", 0, func(int) (cluster.Piece, error) { panic("no piece") }, func(int, []byte) error { panic("no result") })
			assert.NoError(t, err)
			assert.Empty(t, report.Tiles)
		},
		"huge": func(t *testing.T) {
			_, err := cluster.Scatter(within(t), c, "echo/v1", 1, func(int) (cluster.Piece, error) { return cluster.Piece{Data: make([]byte, 16<<20+1)}, nil }, take)
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			_, err = cluster.Scatter(within(t), c, "echo/v1", -1, piece, take)
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
		},
	})
}

// served opens a cluster with one host, whose pool is on a driver, and which has a function for the CPU.
func served(t *testing.T, gpu driver.API, policy runtime.Policy, options ...cluster.Option) (*cluster.Cluster, *embedded.Server) {
	t.Helper()
	s := start(t, embedded.Config{})
	serve(t, connect(t, s), poolWith(t, []runtime.Option{runtime.WithDriver(gpu), runtime.WithPolicy(policy)}), "host", append([]cluster.Option{
		cluster.WithCPU("square/v1", func(_ context.Context, r *isolate.Request) ([]byte, error) { return square(nil, r) })}, options...)...)
	c := open(t, connect(t, s), cluster.WithPatience(patience))
	require.Eventually(t, func() bool { return len(c.Hosts()) == 1 }, patience, 10*time.Millisecond)
	return c, s
}

// lose loses CUDA in a host, which tells that it has no device any more.
func lose(t *testing.T, c *cluster.Cluster, gpu *drivertest.Driver) {
	t.Helper()
	squares(t, c, "square/v1", 10)
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	_, _, err := cluster.Do(within(t), c, "touch/v1", cluster.Piece{Data: number(1)}, cluster.WithRetry(0))
	require.Error(t, err)
	require.Eventually(t, func() bool { return c.Hosts()[0].Devices[0].Err != "" }, patience, 10*time.Millisecond)
}

func TestServePromises(t *testing.T) {
	on := func() *drivertest.Driver { return drivertest.New(simulated(1)) }
	without := func(t *testing.T, policy runtime.Policy, gpu driver.API) {
		c, _ := served(t, gpu, policy)
		assert.Equal(t, pool.OnCPU, squares(t, c, "square/v1", 20).Where)
	}
	c := onHosts(t, 1)
	next := func(t *testing.T) { squares(t, c, "square/v1", 3) }
	fails := func(function string) func(t *testing.T) {
		return func(t *testing.T) {
			_, _, err := cluster.Do(within(t), c, function, cluster.Piece{}, cluster.WithRetry(0))
			assert.Error(t, err)
			next(t)
		}
	}
	promises.Test(t, "cluster.Serve", map[string]func(t *testing.T){
		"off": func(t *testing.T) { without(t, runtime.PolicyOff, on()) },
		"absent": func(t *testing.T) {
			without(t, runtime.PolicyAuto, drivertest.New(drivertest.Config{InitResult: driver.ResultNoDevice}))
		},
		"lost": func(t *testing.T) {
			gpu := on()
			c, _ := served(t, gpu, runtime.PolicyAuto)
			lose(t, c, gpu)
			assert.Equal(t, pool.OnCPU, squares(t, c, "square/v1", 20).Where)
		},
		"required-lost": func(t *testing.T) { // the host takes no more pieces, which others do
			gpu := on()
			c, s := served(t, gpu, runtime.PolicyRequired)
			lose(t, c, gpu)
			serve(t, connect(t, s), openPool(t, 1), "other")
			slotsBecome(t, c, "other", 2)
			for _, tile := range squares(t, c, "square/v1", 50).Tiles {
				assert.Equal(t, "other", tile.Host)
				assert.Zero(t, tile.Retries)
			}
			slotsBecome(t, c, "host", 0)
		},
		"says-so": func(t *testing.T) {
			c, _ := served(t, on(), runtime.PolicyOff)
			_, report, err := cluster.Do(within(t), c, "square/v1", cluster.Piece{Data: number(1)})
			assert.NoError(t, err)
			assert.Equal(t, pool.OnCPU, report.Where)
			assert.Equal(t, pool.PolicyOff, report.Reason)
		},
		"ctx": func(t *testing.T) {
			s := start(t, embedded.Config{})
			ctx, cancel := context.WithCancel(within(t))
			cancel()
			assert.NoError(t, cluster.Serve(ctx, connect(t, s), openPool(t, 1), nil))
			stop := serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithDrain(time.Millisecond))
			c := open(t, connect(t, s), cluster.WithPatience(patience))
			before := running.Load()
			call, end := context.WithCancel(within(t))
			ended := make(chan error, 1)
			go func() {
				_, _, err := cluster.Do(call, c, "wait/v1", cluster.Piece{})
				ended <- err
			}()
			require.Eventually(t, func() bool { return running.Load() > before }, patience, time.Millisecond)
			stop()
			end()
			assert.ErrorIs(t, <-ended, context.Canceled)
		},
		"bound": func(t *testing.T) {
			s := start(t, embedded.Config{})
			serve(t, connect(t, s), openPool(t, 1), "host", cluster.WithSlots(3))
			c := open(t, connect(t, s), cluster.WithPatience(patience))
			before := running.Load()
			ctx, cancel := context.WithCancel(within(t))
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() { _, _, _ = cluster.Do(ctx, c, "wait/v1", cluster.Piece{}) })
			}
			require.Eventually(t, func() bool { return running.Load() == before+3 }, patience, time.Millisecond)
			time.Sleep(20 * time.Millisecond) // no other one begins
			assert.Equal(t, before+3, running.Load())
			cancel()
			all.Wait()
		},
		"own-error": func(t *testing.T) {
			var all sync.WaitGroup
			for i := range 16 {
				all.Go(func() {
					function := []string{"echo/v1", "fail/v1"}[i%2]
					_, _, err := cluster.Do(within(t), c, function, cluster.Piece{}, cluster.WithRetry(0))
					if i%2 == 0 {
						assert.NoError(t, err)
					} else {
						assert.ErrorContains(t, err, "not today")
					}
				})
			}
			all.Wait()
		},
		"panic":     fails("panic/v1"),
		"nil-error": fails("nil-error/v1"),
		"goexit":    fails("goexit/v1"),
		"empty": func(t *testing.T) {
			result, _, err := cluster.Do(within(t), c, "echo/v1", cluster.Piece{})
			assert.NoError(t, err)
			assert.Empty(t, result)
			s := start(t, embedded.Config{})
			assert.ErrorContains(t, cluster.Serve(within(t), connect(t, s), openPool(t, 1), []string{}), "Serve takes functions")
		},
		"huge": func(t *testing.T) {
			_, _, err := cluster.Do(within(t), c, "large/v1", cluster.Piece{Data: number(16<<20 + 1)}, cluster.WithRetry(0))
			assert.ErrorIs(t, err, driver.ErrInvalidArgument)
			next(t)
		},
	})
}
