package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

func TestUploadNewAndDownloadNew(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		for _, n := range []int{0, 1, 1000, 1 << 20} {
			x, err := runtime.UploadNew(bg, s, count(3, n))
			require.NoError(t, err)
			got, err := runtime.DownloadNew(bg, s, x)
			require.NoError(t, err)
			assert.Equal(t, count(3, n), got)
			got, err = runtime.DownloadNew(bg, s, x.Slice(n/2, n))
			require.NoError(t, err)
			assert.Equal(t, count(3, n)[n/2:], got)
			require.NoError(t, x.Close())
			_, err = runtime.DownloadNew(bg, s, x)
			assert.ErrorIs(t, err, driver.ErrClosed)
		}
	})
}

func TestUploadNewThatFails(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	gpu.Fail("cuMemcpyHtoDAsync", 1, driver.ResultUnknown)
	_, err := runtime.UploadNew(bg, s, count(1, 10))
	require.ErrorIs(t, err, driver.ResultUnknown)
	assert.Zero(t, c.Stats().Refs, "nothing to close")
	x := upload(t, s, count(1, 10))
	gpu.Fail("cuMemcpyDtoHAsync", 1, driver.ResultUnknown)
	got, err := runtime.DownloadNew(bg, s, x)
	require.ErrorIs(t, err, driver.ResultUnknown)
	assert.Nil(t, got)

	ended, cancel := context.WithCancel(bg)
	cancel()
	assert.ErrorIs(t, errorOf(runtime.UploadNew(ended, s, count(1, 10))), context.Canceled)
	assert.ErrorIs(t, errorOf(runtime.DownloadNew(ended, s, x)), context.Canceled)
	assert.ErrorContains(t, errorOf(runtime.UploadNew(bg, s, make([]*int, 1))), "pointer")
	assert.ErrorContains(t, errorOf(runtime.DownloadNew(bg, s, x.Slice(8, 11))), "slice [8:11]")
	assert.ErrorIs(t, errorOf(s.Capture(func(s *runtime.Stream) error {
		assert.ErrorIs(t, errorOf(runtime.UploadNew(bg, s, count(1, 10))), driver.ErrCaptureFailed)
		assert.ErrorIs(t, errorOf(runtime.DownloadNew(bg, s, x)), driver.ErrCaptureFailed)
		return nil
	})), driver.ErrCaptureFailed)
}
