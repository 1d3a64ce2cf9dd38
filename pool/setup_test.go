package pool_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

var errSetup = errors.New("no such kernel")

// A device whose setup fails leaves the work to the others at every door. It is quarantined, and the setup is not run
// for each request.
func TestSetupFailsOnOneDevice(t *testing.T) {
	for name, setup := range map[string]func(func(ordinal int) error) pool.Setup{
		"device": func(f func(int) error) pool.Setup {
			return pool.PerDevice(func(c *runtime.Context) (int, error) { return 0, f(c.Device().Ordinal) })
		},
		"stream": func(f func(int) error) pool.Setup {
			return pool.PerStream(func(w *pool.Worker) (int, error) { return 0, f(w.Device().Ordinal) })
		},
	} {
		for door, do := range doors {
			t.Run(name+"/"+door, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var tries atomic.Int64
					p, _ := open(t, machine(3), pool.Options{Setup: []pool.Setup{setup(func(ordinal int) error {
						if ordinal == 0 {
							tries.Add(1)
							return errSetup
						}
						return nil
					})}})
					for range 20 {
						require.NoError(t, do(t.Context(), p, func(*pool.Worker) error { return nil }, func(context.Context) error { panic("on the CPU") }))
						work := newDone(1000)
						report, err := p.Scatter(t.Context(), 1000, work.do)
						require.NoError(t, err)
						work.once(t)
						require.Len(t, report.Skipped, 1, "the report names it")
						assert.Equal(t, 0, report.Skipped[0].Ordinal)
						assert.ErrorIs(t, report.Skipped[0].Err, errSetup)
						assert.Contains(t, []pool.Reason{pool.Failed, pool.Quarantined}, report.Reason)
					}
					assert.EqualValues(t, 3, tries.Load())
					assert.True(t, p.Stats().Devices[0].Quarantined)
					assert.ErrorIs(t, p.Devices()[0].Err, errSetup)
				})
			})
		}
	}
}

// Where the setups of all devices fail, the error or the fallback has the cause.
func TestSetupFailsOnAllDevices(t *testing.T) {
	for door, do := range doors {
		t.Run(door, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tries atomic.Int64
				p, _ := open(t, machine(2), pool.Options{Setup: []pool.Setup{pool.PerDevice(func(*runtime.Context) (int, error) { tries.Add(1); return 0, errSetup })}})
				never := func(*pool.Worker) error { panic("not run") }
				for range 20 {
					err := do(t.Context(), p, never, func(context.Context) error { return errData })
					require.ErrorIs(t, err, errSetup)
					require.ErrorIs(t, err, errData)
					require.NoError(t, do(t.Context(), p, never, func(context.Context) error { return nil }))
					_, err = p.Scatter(t.Context(), 1000, newDone(1000).do)
					require.ErrorIs(t, err, errSetup)
				}
				assert.EqualValues(t, 6, tries.Load())
			})
		})
	}
}

// A setup that fails when streams of the device are prepared takes none of them away.
func TestSetupFailsOnALaterStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries atomic.Int64
		p, _ := open(t, machine(1), pool.Options{Streams: 4, Setup: []pool.Setup{pool.PerStream(func(*pool.Worker) (int, error) {
			if tries.Add(1) > 1 {
				return 0, errSetup
			}
			return 0, nil
		})}})
		nothing := func(*pool.Worker) error { return nil }
		_, err := p.Do(t.Context(), nothing)
		require.NoError(t, err)
		for range 5 {
			_, err = p.Do(t.Context(), func(*pool.Worker) error {
				failed := make(chan error)
				go func() {
					_, err := p.Do(context.Background(), nothing)
					failed <- err
				}()
				assert.ErrorIs(t, <-failed, errSetup)
				return nil
			})
			require.NoError(t, err)
		}
		assert.EqualValues(t, 6, tries.Load(), "never while the good stream is free")
		assert.False(t, p.Stats().Devices[0].Quarantined)
	})
}

// brokenState ends the goroutine that closes it, or panics.
type brokenState struct{ closed *atomic.Int64 }

func (s *brokenState) Close() error {
	if s.closed.Add(1)%2 == 0 {
		panic("no")
	}
	goruntime.Goexit()
	return nil
}

// A state whose Close ends its goroutine takes no stream and no Close of the pool with it.
func TestStateWhoseCloseEndsTheGoroutine(t *testing.T) {
	var closed atomic.Int64
	fails := true
	p, _ := open(t, machine(1), pool.Options{Streams: 1, Setup: []pool.Setup{
		pool.PerStream(func(*pool.Worker) (*brokenState, error) { return &brokenState{&closed}, nil }),
		pool.PerStream(func(*pool.Worker) (int, error) {
			if fails {
				return 0, errSetup
			}
			return 0, nil
		}),
	}})
	nothing := func(*pool.Worker) error { return nil }
	for range 2 {
		_, err := p.Do(t.Context(), nothing)
		require.ErrorIs(t, err, errSetup)
		assert.Zero(t, p.Stats().Devices[0].Busy)
	}
	fails = false
	_, err := p.Do(t.Context(), nothing)
	require.NoError(t, err)
	assert.ErrorContains(t, p.Close(), "Goexit")
	assert.EqualValues(t, 3, closed.Load())
}

// An error that is a nil pointer is an error at every door.
func TestTypedNilErrors(t *testing.T) {
	for door, do := range doors {
		p, _ := open(t, machine(2))
		for _, none := range []error{(*driver.Error)(nil), (*pool.Error)(nil), (*pool.PanicError)(nil), (*pool.ReserveError)(nil), (*broken)(nil)} {
			fails := func(*pool.Worker) error { return none }
			assert.Error(t, do(t.Context(), p, fails, func(context.Context) error { return none }, pool.DoOptions{Retry: 1}), door)
			assert.NoError(t, do(t.Context(), p, fails, func(context.Context) error { return nil }), door)
			assert.Error(t, do(t.Context(), p, func(*pool.Worker) error { panic(none) }, func(context.Context) error { panic(none) }), door)
		}
		b, err := pool.NewBatcher(p, func(_ *pool.Worker, _, _ []int, errs []error) error { errs[0] = (*broken)(nil); return nil }, pool.BatcherConfig[int, int]{})
		require.NoError(t, err)
		_, err = b.Do(t.Context(), 1)
		assert.Error(t, err)
		assert.NoError(t, b.Close())
	}
}

// broken is an error whose methods panic if it is nil.
type broken struct{ cause error }

func (b *broken) Error() string { return b.cause.Error() }
func (b *broken) Unwrap() error { return b.cause }
