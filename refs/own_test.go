package refs_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

// The function of Own runs once, when nobody has the memory any more, and as long as it is there.
func TestOwn(t *testing.T) {
	refused := errors.New("refused")
	for _, test := range []struct {
		name  string
		end   func(m *machine, r *refs.Ref[uint32]) error
		fails bool
		calls int
	}{
		{name: "closed twice", calls: 1, fails: true, end: func(_ *machine, r *refs.Ref[uint32]) error {
			return errors.Join(r.Close(), r.Close())
		}},
		{name: "retained", calls: 1, fails: true, end: func(_ *machine, r *refs.Ref[uint32]) error {
			other := r.Retain()
			if err := r.Close(); err != nil {
				return errors.New("too early")
			}
			return other.Close()
		}},
		{name: "leased", calls: 1, end: func(_ *machine, r *refs.Ref[uint32]) error { // whose end tells nobody
			_, err := r.Acquire()
			err = errors.Join(err, r.Close())
			r.Release()
			return err
		}},
		{name: "while drained", calls: 1, end: func(m *machine, r *refs.Ref[uint32]) error {
			m.state.Suspend()
			err := errors.Join(m.state.Drain(t.Context()), r.Close())
			m.state.Resume()
			m.state.Reclaim()
			return err
		}},
		{name: "after a rebuild", end: func(m *machine, r *refs.Ref[uint32]) error { return errors.Join(m.state.Rebuild(), r.Close()) }},
		{name: "after a loss", end: func(m *machine, r *refs.Ref[uint32]) error { m.state.Lose(nil); return r.Close() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newMachine(t, drivertest.Config{})
			s := m.stream(t)
			calls := 0
			r, err := refs.Own[uint32](m.state, s, 4096, 8, func() error { calls++; return refused })
			require.NoError(t, err)
			ptr, err := r.Access()
			require.NoError(t, err)
			assert.EqualValues(t, 4096, ptr)
			assert.Zero(t, calls)
			if err := test.end(m, r); test.fails {
				assert.ErrorIs(t, err, refused)
			} else {
				assert.NoError(t, err)
			}
			assert.Equal(t, test.calls, calls)
			assert.Zero(t, m.state.Stats().Live)
		})
	}
	m := newMachine(t, drivertest.Config{})
	_, err := refs.Own[uint32](m.state, m.stream(t), 0, 8, func() error { return nil })
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
}
