package runtime

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
)

// A capture that waits while its device is lost, and finds it revived, fails all the same: its stream is gone.
func TestCaptureWhileTheDeviceIsRevived(t *testing.T) {
	rt, err := Open(WithDriver(drivertest.New(drivertest.Config{})))
	require.NoError(t, err)
	defer rt.Close()
	c, err := rt.Context(0)
	require.NoError(t, err)
	for _, held := range []string{"context", "stream"} {
		for range 20 {
			s, err := c.NewStream()
			require.NoError(t, err)
			g := &c.waiters
			if held == "stream" {
				g = s.gate
			}
			require.True(t, g.Enter())
			failed := make(chan error)
			go func() {
				_, err := s.Capture(func(*Stream) error { return nil })
				failed <- err
			}()
			for !g.Suspended() {
				time.Sleep(time.Microsecond)
			}
			c.state.Lose(errors.New("it has fallen off the bus"))
			require.True(t, c.state.Revive())
			require.NoError(t, c.state.Rebuild())
			assert.Error(t, <-failed, held)
			g.Leave()
		}
	}
}

// A capture ends with a loss although a call that records never returns. When it does after all, it releases what the
// capture has recorded.
func TestCaptureEndsBesideACallThatHangs(t *testing.T) {
	rt, err := Open(WithDriver(drivertest.New(drivertest.Config{})))
	require.NoError(t, err)
	defer rt.Close()
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	r, err := Alloc[byte](s, 1)
	require.NoError(t, err)
	var recorded *capture
	_, err = s.Capture(func(s *Stream) error {
		if err := Fill(s, r, 1); err != nil {
			return err
		}
		recorded = s.capture.Load()
		require.NoError(t, s.work())
		c.state.Lose(errors.New("it has fallen off the bus"))
		return nil
	})
	require.Error(t, err)
	assert.Len(t, recorded.retained, 1, "the call is inside")
	assert.Error(t, s.inTurn(), "nobody waits for it")
	s.endWork()
	assert.Empty(t, recorded.retained)
	assert.Empty(t, recorded.held)
}
