package pool_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
)

var errClientGone = errors.New("the client has gone")

// slowToOpen is a machine whose driver takes a minute to open its device.
func slowToOpen() drivertest.Config {
	config := machine(1)
	config.OnCall = func(op string) driver.Result {
		if op == "cuDevicePrimaryCtxRetain" {
			time.Sleep(time.Minute)
		}
		return driver.Success
	}
	return config
}

// A driver that opens a device for long holds nobody whose ctx has ended, and no function is called then, at any door.
func TestContextEndsWhileADeviceIsOpened(t *testing.T) {
	for name, do := range doors {
		for _, other := range []bool{false, true} { // opens it
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p, _ := open(t, slowToOpen())
					if other {
						go func() {
							_, err := p.Do(context.Background(), func(*pool.Worker) error { return nil })
							assert.NoError(t, err)
						}()
						synctest.Wait()
					}
					ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errClientGone)
					defer cancel()
					start := time.Now()
					err := do(ctx, p, func(*pool.Worker) error { panic("called") }, func(context.Context) error { panic("on the CPU") })
					assert.ErrorIs(t, err, errClientGone)
					assert.Equal(t, time.Second, time.Since(start))
					_, err = p.Do(context.Background(), func(*pool.Worker) error { return nil })
					assert.NoError(t, err)
					assert.Equal(t, time.Minute, time.Since(start), "it was opened once")
					assert.Zero(t, p.Stats().Devices[0].Failures)
				})
			})
		}
	}
}

// Close waits for a device that is being opened for a request that has gone.
func TestCloseWaitsForOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := open(t, slowToOpen())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := p.Do(ctx, func(*pool.Worker) error { return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, p.Close())
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

// Requests whose ctx ends during the setup say nothing of the device.
func TestContextEndsDuringSetup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := true
		p, _ := open(t, machine(2), pool.Options{Setup: []pool.Setup{pool.PerStream(func(w *pool.Worker) (int, error) {
			if !slow {
				return 0, nil
			}
			<-w.CallContext().Done()
			return 0, context.Cause(w.CallContext())
		})}})
		for range 5 {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errClientGone)
			_, err := p.Do(ctx, func(*pool.Worker) error { panic("called") }, pool.DoOptions{Devices: []int{0}})
			require.ErrorIs(t, err, errClientGone)
			cancel()
		}
		slow = false
		assert.False(t, p.Stats().Devices[0].Quarantined)
		_, err := p.Do(t.Context(), func(*pool.Worker) error { return nil }, pool.DoOptions{Devices: []int{0}})
		assert.NoError(t, err)
	})
}
