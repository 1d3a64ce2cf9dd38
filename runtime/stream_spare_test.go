package runtime_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// made counts the streams that the driver makes while f runs.
func made(t *testing.T, gpu *drivertest.Driver, f func()) int {
	t.Helper()
	before := gpu.Calls("cuStreamCreateWithPriority")
	f()
	return gpu.Calls("cuStreamCreateWithPriority") - before
}

func TestStreamsAreKept(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	use := func() {
		s := newStream(t, c)
		x := upload(t, s, count(1, 100))
		assert.Equal(t, count(1, 100), download(t, s, x))
		require.NoError(t, x.Close())
		synchronize(t, s)
		id := s.ID()
		require.NoError(t, s.Close())
		assert.ErrorIs(t, s.Synchronize(t.Context()), driver.ErrClosed)
		next := newStream(t, c)
		assert.NotEqual(t, id, next.ID())
		_, err := s.Query()
		assert.ErrorIs(t, err, driver.ErrClosed, "although the stream of the driver is in use again")
		require.NoError(t, next.Close())
	}
	use()
	assert.Zero(t, made(t, gpu, func() {
		for range 20 {
			use()
		}
	}))
	assert.EqualValues(t, 1, c.Stats().SpareStreams)
	assert.Zero(t, c.Stats().Streams)
	require.NoError(t, rt.Trim())
	assert.Zero(t, c.Stats().SpareStreams)
	assert.Equal(t, 1, made(t, gpu, use))
	require.NoError(t, c.Reset(t.Context()))
	assert.Zero(t, c.Stats().SpareStreams)
	assert.Equal(t, 1, made(t, gpu, use), "that of the old context is gone")
}

// What a stream has had is nothing for the next one.
func TestStreamsThatAreNotKept(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, s *runtime.Stream) (cleanup func()){
		"others have its handle": func(t *testing.T, s *runtime.Stream) func() { s.Handle(); return func() {} },
		"others put work on it": func(t *testing.T, s *runtime.Stream) func() {
			require.NoError(t, s.Submit("work", func(driver.Stream, []driver.DevicePtr) error { return nil }))
			return func() {}
		},
		"captured": func(t *testing.T, s *runtime.Stream) func() {
			require.NoError(t, capture(t, s, func(*runtime.Stream) error { return nil }).Close())
			return func() {}
		},
		"busy": func(t *testing.T, s *runtime.Stream) func() { return hold(t, s) },
	} {
		t.Run(name, func(t *testing.T) {
			rt, gpu := open(t, drivertest.Config{})
			c := contextOf(t, rt)
			s := newStream(t, c)
			cleanup := spoil(t, s)
			require.NoError(t, s.Close())
			assert.Zero(t, c.Stats().SpareStreams)
			assert.Equal(t, 1, made(t, gpu, func() { newStream(t, c) }))
			cleanup()
		})
	}
	t.Run("failed", func(t *testing.T) {
		rt, gpu := open(t, drivertest.Config{})
		c := contextOf(t, rt)
		s := newStream(t, c)
		gpu.Fail("cuStreamQuery", 1, driver.ResultNotSupported)
		_, err := s.Query()
		require.Error(t, err)
		require.NoError(t, s.Close())
		assert.Zero(t, c.Stats().SpareStreams)
	})
	t.Run("priority", func(t *testing.T) {
		rt, gpu := open(t, drivertest.Config{})
		c := contextOf(t, rt)
		s, err := c.NewStreamWithPriority(-1)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		assert.Zero(t, c.Stats().SpareStreams)
		require.NoError(t, newStream(t, c).Close())
		assert.Equal(t, 1, made(t, gpu, func() {
			_, err := c.NewStreamWithPriority(-1)
			require.NoError(t, err)
		}))
	})
}

func TestSpareStreamsAreBounded(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	var all []*runtime.Stream
	for range 100 {
		all = append(all, newStream(t, c))
	}
	for _, s := range all {
		require.NoError(t, s.Close())
	}
	assert.EqualValues(t, 64, c.Stats().SpareStreams)
}

func TestSpareStreamsBesideEverything(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 100 {
				s, err := c.NewStream()
				if !assert.NoError(t, err) {
					return
				}
				x, err := runtime.UploadNew(t.Context(), s, count(uint32(i), 10))
				if !assert.NoError(t, err) {
					return
				}
				got, err := runtime.DownloadNew(t.Context(), s, x)
				assert.NoError(t, err)
				assert.Equal(t, count(uint32(i), 10), got)
				assert.NoError(t, x.Close())
				assert.NoError(t, s.Close())
			}
		})
	}
	all.Go(func() {
		for range 50 {
			assert.NoError(t, c.Trim())
		}
	})
	all.Wait()
}

func TestOnTrim(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	calls, mine := 0, errors.New("mine")
	forget := c.OnTrim(func() error { calls++; return mine })
	forgetPanic := c.OnTrim(func() error { panic(mine) })
	assert.ErrorIs(t, c.Trim(), mine)
	assert.Equal(t, 1, calls)
	forget()
	forget()
	assert.ErrorIs(t, rt.Trim(), mine, "the panic")
	forgetPanic()
	assert.NoError(t, rt.Trim())
	assert.Equal(t, 1, calls)
	c.OnTrim(nil)()
	(*runtime.Context)(nil).OnTrim(func() error { return nil })()
	require.NoError(t, rt.Close())
	assert.Error(t, c.Trim())
}
