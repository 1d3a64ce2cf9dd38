package refs_test

import (
	"context"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
)

// Memory of one's own is freed once, when nobody refers to it any more, however that comes. What has gone with its context is not.
func TestOwn(t *testing.T) {
	m := newMachine(t, drivertest.Config{})
	s := m.stream(t)
	ended := 0
	adopt := func() *refs.Ref[uint32] {
		ended = 0
		r, err := refs.Own[uint32](m.state, s, 0x1000, 10, func() error { ended++; return nil })
		require.NoError(t, err)
		return r
	}
	freed := func() uint64 { return m.state.Stats().Freed }

	r := adopt()
	other, view := r.Retain(), r.Slice(0, 5)
	require.NoError(t, view.Close())
	require.NoError(t, r.Close())
	require.NoError(t, r.Close())
	_, err := other.Acquire()
	require.NoError(t, err)
	require.NoError(t, other.Close())
	assert.Zero(t, ended, "a lease holds it")
	other.Release()
	assert.Equal(t, 1, ended)
	assert.EqualValues(t, 1, freed())

	r = adopt()
	m.state.Shutdown()
	require.NoError(t, m.state.Drain(context.Background()))
	require.NoError(t, r.Close())
	assert.Zero(t, ended, "drained")
	require.True(t, m.state.Resume())
	m.state.Reclaim()
	assert.Equal(t, 1, ended)

	func() { adopt() }()
	for end := time.Now().Add(time.Minute); ended == 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		goruntime.GC()
		m.state.Reclaim()
	}
	assert.Equal(t, 1, ended, "forgotten")
	assert.EqualValues(t, 3, freed())

	r = adopt()
	require.NoError(t, m.state.Rebuild())
	require.NoError(t, r.Close())
	assert.Zero(t, ended, "stale")
	r = adopt()
	m.state.Lose(driver.ErrorUnknown)
	require.NoError(t, r.Close())
	assert.Zero(t, ended, "lost")
	_, err = refs.Own[uint32](m.state, s, 0x1000, 10, func() error { ended++; return nil })
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	assert.Zero(t, ended, "there was no Ref")
	assert.EqualValues(t, 3, freed())
	assert.EqualValues(t, 2, m.state.Stats().Gone)
}
