package refs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

var errCause = driver.Failed("cuStreamSynchronize", driver.ResultIllegalAddress)

// Every state answers every call in one way, and no call of a state that refuses reaches
// the driver.
func TestWhatEachStateAnswers(t *testing.T) {
	const ok = ""
	for _, c := range []struct {
		name     string
		become   func(*refs.State)
		use      string // of a Ref from before: detail
		kind     driver.Kind
		lost     bool
		fresh    string // of an allocation
		accepts  bool
		after    uint64 // generation
		allClose refs.Stats
	}{
		{name: "accepting", become: func(*refs.State) {}, accepts: true, after: 1, allClose: refs.Stats{Freed: 1}},
		{name: "shutting down", become: (*refs.State).Suspend, use: "device shutting down", kind: driver.ErrRefStale,
			fresh: "device shutting down", after: 1, allClose: refs.Stats{Freed: 1}},
		{name: "drained", become: drain, use: "device shutting down", kind: driver.ErrRefStale,
			fresh: "device shutting down", after: 1, allClose: refs.Stats{Waiting: 1, WaitingBytes: 400}},
		{name: "resumed", become: func(s *refs.State) { drain(s); s.Resume() }, accepts: true, after: 1, allClose: refs.Stats{Freed: 1}},
		{name: "rebuilt", become: func(s *refs.State) { drain(s); _ = s.Rebuild() }, use: "context rebuilt", kind: driver.ErrRefStale,
			fresh: ok, accepts: true, after: 2, allClose: refs.Stats{Gone: 1, GoneBytes: 400}},
		{name: "rebuilt without draining", become: func(s *refs.State) { _ = s.Rebuild() }, use: "context rebuilt", kind: driver.ErrRefStale,
			fresh: ok, accepts: true, after: 2, allClose: refs.Stats{Gone: 1, GoneBytes: 400}},
		{name: "rebuilt and shutting down", become: func(s *refs.State) { _ = s.Rebuild(); s.Suspend() },
			use: "device shutting down", kind: driver.ErrRefStale, fresh: "device shutting down", after: 2,
			allClose: refs.Stats{Gone: 1, GoneBytes: 400}},
		{name: "lost", become: func(s *refs.State) { s.Lose(errCause) }, kind: driver.ErrDeviceLost, lost: true,
			use:   "an earlier error has ended the use of CUDA in this process, and only a new process gets it back",
			fresh: "an earlier error has ended the use of CUDA in this process, and only a new process gets it back",
			after: 2, allClose: refs.Stats{Gone: 1, GoneBytes: 400}},
		{name: "lost while shutting down", become: func(s *refs.State) { s.Suspend(); s.Lose(errCause); s.Lose(errors.New("second")) },
			kind: driver.ErrDeviceLost, lost: true,
			use:   "an earlier error has ended the use of CUDA in this process, and only a new process gets it back",
			fresh: "an earlier error has ended the use of CUDA in this process, and only a new process gets it back",
			after: 2, allClose: refs.Stats{Gone: 1, GoneBytes: 400}},
		{name: "closed", become: (*refs.State).Close, use: "device state closed", kind: driver.ErrRefStale,
			fresh: "device state closed", after: 1, allClose: refs.Stats{Gone: 1, GoneBytes: 400}},
		{name: "closed twice", become: func(s *refs.State) { s.Close(); s.Close() }, use: "device state closed",
			kind: driver.ErrRefStale, fresh: "device state closed", after: 1, allClose: refs.Stats{Gone: 1, GoneBytes: 400}},
		{name: "lost and closed", become: func(s *refs.State) { s.Lose(errCause); s.Close() }, use: "device state closed",
			kind: driver.ErrRefStale, lost: true, fresh: "device state closed", after: 2, allClose: refs.Stats{Gone: 1, GoneBytes: 400}},
		{name: "closed and lost", become: func(s *refs.State) { s.Close(); s.Lose(errCause); s.Suspend(); s.Resume(); _ = s.Rebuild() },
			use: "device state closed", kind: driver.ErrRefStale, fresh: "device state closed", after: 1,
			allClose: refs.Stats{Gone: 1, GoneBytes: 400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachine(t, drivertest.Config{})
			s, other := m.stream(t), m.stream(t)
			r := alloc(t, m, s, 100)
			shut := alloc(t, m, s, 50)
			require.NoError(t, shut.Close())
			c.become(m.state)
			before := m.gpu.Calls("cuMemsetD8Async") + m.gpu.Calls("cuMemcpyDtoHAsync")

			check := func(err error) {
				t.Helper()
				if c.use == "" {
					assert.NoError(t, err)
					return
				}
				var e *driver.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c.use, e.Detail)
				assert.Equal(t, c.kind, e.Kind)
				assert.Equal(t, 0, e.Device)
				assert.Equal(t, c.lost, errors.Is(err, errCause), "the first cause")
				assert.NotContains(t, err.Error(), "second")
			}
			_, err := r.Access()
			check(err)
			_, err = r.Acquire()
			check(err)
			if err == nil {
				r.Release()
			}
			_, err = r.Slice(1, 2).Access()
			check(err)
			_, err = r.Core().Access()
			check(err)
			kept := r.Retain()
			_, err = kept.Access()
			check(err)
			require.NoError(t, kept.Close())
			assert.Contains(t, r.String(), c.use)
			assert.Equal(t, before, m.gpu.Calls("cuMemsetD8Async")+m.gpu.Calls("cuMemcpyDtoHAsync"))
			_ = other

			_, err = shut.Access() // the state is looked at first
			if c.use == "" {
				assert.ErrorIs(t, err, driver.ErrClosed)
			} else {
				check(err)
			}

			fresh, err := refs.New[uint32](m.state, s, 1)
			if c.fresh == ok {
				require.NoError(t, err)
				require.NoError(t, fresh.Close())
				c.allClose.Freed++
			} else {
				var e *driver.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, c.fresh, e.Detail)
			}
			assert.Equal(t, c.accepts, m.state.Accepting())
			assert.Equal(t, c.after, m.state.Generation())
			assert.Equal(t, uint64(1), r.Core().Generation())
			assert.Equal(t, c.lost, m.state.Lost() != nil)

			require.NoError(t, r.Close())
			require.NoError(t, r.Close())
			c.allClose.Freed++ // the one that was closed before
			assert.Equal(t, c.allClose, m.state.Stats())
		})
	}
}

func drain(s *refs.State) {
	s.Suspend()
	_ = s.Drain(context.Background())
}

func TestDrainWaitsForLeases(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	r := alloc(t, m, m.stream(t), 10)
	defer r.Close()
	_, err := r.Acquire()
	require.NoError(t, err)
	assert.Equal(t, uint64(1), m.state.Stats().Leases)
	m.state.Suspend()

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, m.state.Drain(ctx), context.DeadlineExceeded)
	assert.Equal(t, refs.Suspended, m.state.Status())
	_, err = r.Acquire()
	assert.ErrorIs(t, err, driver.ErrRefStale)

	done := make(chan error)
	go func() { done <- m.state.Drain(context.Background()) }()
	select {
	case <-done:
		t.Fatal("did not wait")
	case <-time.After(10 * time.Millisecond):
	}
	r.Release()
	require.NoError(t, <-done)
	assert.Equal(t, refs.Drained, m.state.Status())
	require.NoError(t, m.state.Rebuild())
}

// What is closed while the arena may be taken down waits, and is given back or gone
// according to what comes after.
func TestClosingWhileDrained(t *testing.T) {
	for _, resumes := range []bool{true, false} {
		m := newMachine(t, drivertest.Config{})
		r := alloc(t, m, m.stream(t), 10)
		drain(m.state)
		require.NoError(t, r.Close())
		m.state.Reclaim()
		assert.Equal(t, refs.Stats{Waiting: 1, WaitingBytes: 40}, m.state.Stats())
		if resumes {
			assert.True(t, m.state.Resume())
			m.state.Reclaim()
			assert.Equal(t, refs.Stats{Freed: 1}, m.state.Stats())
			assert.Zero(t, m.arena.Stats().InUse)
		} else {
			require.NoError(t, m.state.Rebuild())
			assert.Equal(t, refs.Stats{Gone: 1, GoneBytes: 40}, m.state.Stats())
			assert.NotZero(t, m.arena.Stats().InUse)
		}
	}
}

func TestOnChange(t *testing.T) {
	var s *refs.State
	var seen []refs.Change
	var cleanup []error
	s = refs.NewState(3, refs.StateConfig{
		OnChange: func(c refs.Change) {
			seen = append(seen, c)
			if c.To == refs.Suspended {
				s.Lose(errCause) // from within: told after this one
				panic(errCause)
			}
		},
		OnCleanup: func(err error) { cleanup = append(cleanup, err) },
	})
	require.NoError(t, s.Rebuild())
	s.Suspend()
	s.Suspend()
	s.Close()
	s.Close()
	require.Len(t, cleanup, 1)
	require.ErrorIs(t, cleanup[0], errCause)
	assert.Equal(t, []refs.Change{
		{Device: 3, Generation: 2, From: refs.Accepting, To: refs.Accepting},
		{Device: 3, Generation: 2, From: refs.Accepting, To: refs.Suspended},
		{Device: 3, Generation: 3, From: refs.Suspended, To: refs.Lost, Lost: errCause},
		{Device: 3, Generation: 3, From: refs.Lost, To: refs.Closed, Lost: errCause},
	}, seen)
	assert.ErrorIs(t, s.Rebuild(), driver.ErrRefStale)
	assert.False(t, s.Resume())
	assert.Equal(t, "unknown", refs.Status(9).String())
	s = refs.NewState(0, refs.StateConfig{})
	s.Lose(nil)
	assert.ErrorIs(t, s.Rebuild(), driver.ErrDeviceLost)
	assert.ErrorContains(t, s.Lost(), "no cause was given")
}
