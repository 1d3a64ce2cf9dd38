package refs_test

import (
	"context"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

// While somebody has a lease, no context is taken down and no memory is freed, however
// leases, closing, shutting down and rebuilding meet.
func TestLeasesAgainstRebuilds(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	var down, over atomic.Bool
	var current atomic.Pointer[refs.Ref[uint32]]
	current.Store(alloc(t, m, s, 16))
	var wg sync.WaitGroup
	var leases atomic.Int64
	for range 6 {
		wg.Go(func() {
			for ; !over.Load(); goruntime.Gosched() { // one processor is enough
				mine := current.Load().Retain()
				if _, err := mine.Acquire(); err == nil {
					leases.Add(1)
					assert.NoError(t, mine.Close()) // the lease alone keeps it
					assert.False(t, down.Load(), "a lease on what is taken down")
					mine.Release()
					continue
				}
				assert.NoError(t, mine.Close())
			}
		})
	}
	for round := range 100 {
		for leases.Load() < int64(round) { // so that they meet
			time.Sleep(10 * time.Microsecond)
		}
		m.state.Suspend()
		require.NoError(t, m.state.Drain(context.Background()))
		down.Store(true)
		_ = m.state.Stats()
		goruntime.Gosched()
		down.Store(false)
		require.NoError(t, m.state.Rebuild())
		old := current.Swap(alloc(t, m, s, 16))
		require.NoError(t, old.Close())
	}
	over.Store(true)
	wg.Wait()
	require.NoError(t, current.Load().Close())
	stats := m.state.Stats()
	assert.Equal(t, uint64(101), stats.Freed+stats.Gone)
	assert.Zero(t, stats.Live+stats.Stale+stats.Waiting+stats.Leaked+stats.Leases)
	t.Logf("%d leases, %+v", leases.Load(), stats)
}

// A loss waits for nobody and makes every Ref stale at once.
func TestLossWhileLeased(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	r := alloc(t, m, m.stream(t), 16)
	_, err := r.Acquire()
	require.NoError(t, err)
	done := m.state.Done()
	select {
	case <-done:
		t.Fatal("it is not lost")
	default:
	}
	m.state.Lose(errCause)
	m.state.Lose(errCause)
	<-done
	_, err = r.Access()
	assert.ErrorIs(t, err, errCause)
	require.NoError(t, r.Close())
	assert.Equal(t, refs.Stats{Stale: 1, StaleBytes: 64, Leases: 1}, m.state.Stats())
	r.Release()
	require.NoError(t, m.state.Drain(context.Background()))
	assert.Equal(t, refs.Stats{Gone: 1, GoneBytes: 64}, m.state.Stats())
	require.True(t, m.state.Revive())
	again := m.state.Done()
	assert.NotEqual(t, done, again)
	m.state.Lose(errCause)
	<-again
}
