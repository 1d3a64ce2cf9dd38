package runtime_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

func TestAdoptedMemory(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 100
		c := contextOf(t, rt)
		s, other := newStream(t, c), newStream(t, c)
		at := foreignMemory(t, c, 4*n)
		x, err := runtime.WrapRef[uint32](s, at, n)
		require.NoError(t, err)
		assert.Equal(t, n, x.Len())
		got, err := x.Access()
		require.NoError(t, err)
		assert.Equal(t, at, got)
		k := kernel(t, c, "add")
		require.NoError(t, runtime.Upload(bg, s, x, count(0, n)))
		require.NoError(t, addTo(k, other, x, 3), "behind the upload")
		assert.Equal(t, count(3, n), download(t, s, x), "behind the kernel")

		release := hold(t, other)
		require.NoError(t, runtime.Fill(other, x, 9))
		require.NoError(t, errors.Join(x.Close(), x.Close()))
		done, err := s.Query()
		require.NoError(t, err)
		assert.False(t, done, "the stream waits for the work with the memory")
		release()
		require.NoError(t, s.Synchronize(bg))
		_, err = x.Access()
		assert.ErrorIs(t, err, driver.ErrClosed)
		again, err := runtime.WrapRef[uint32](s, at, n)
		require.NoError(t, err, "the memory is still there")
		for _, v := range download(t, s, again) {
			require.EqualValues(t, 9, v)
		}
		assert.EqualValues(t, 1, c.Stats().Refs)
		require.NoError(t, again.Close())
		assert.Zero(t, c.Stats().Refs)
		assert.Zero(t, c.Stats().Leaked)
	})
}

// Who owns the memory is told where the stream cannot wait for the work with it.
func TestAdoptedMemoryWhoseStreamIsClosed(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c := contextOf(t, rt)
	s, other := newStream(t, c), newStream(t, c)
	x, err := runtime.WrapRef[uint32](s, foreignMemory(t, c, 16), 4)
	require.NoError(t, err)
	release := hold(t, other)
	require.NoError(t, runtime.Fill(other, x, 1))
	require.NoError(t, s.Close())
	assert.ErrorContains(t, x.Close(), "synchronize the context before you free it")
	release()
	require.NoError(t, c.Synchronize())
	assert.Zero(t, c.Stats().Leaked)
}

func TestMemoryThatCannotBeAdopted(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		at := foreignMemory(t, c, 64)
		host := allocHost[uint64](t, c, 8)
		onHost := driver.DevicePtr(0)
		require.NoError(t, s.Submit("address", func(_ driver.Stream, at []driver.DevicePtr) error { onHost = at[0]; return nil }, host.Arg()))
		for _, test := range []struct {
			name string
			at   driver.DevicePtr
			n    int
			text string
		}{
			{"null", 0, 1, "wrap 1 elements at address 0x0"},
			{"nothing", at, 0, "wrap 0 elements"},
			{"negative", at, -1, "-1"},
			{"not aligned", at + 4, 1, "which is no multiple of 8"},
			{"unknown", 0x1000, 1, "is no memory that CUDA knows"},
			{"over the end of addresses", ^driver.DevicePtr(7), 2, "which cannot be"},
			{"of the host", onHost, 1, "is memory of type 1"},
		} {
			_, err := runtime.WrapRef[uint64](s, test.at, test.n)
			require.ErrorIs(t, err, driver.ErrInvalidArgument, test.name)
			assert.ErrorContains(t, err, test.text, test.name)
		}
		_, err := s.Capture(func(s *runtime.Stream) error {
			_, err := runtime.WrapRef[uint64](s, at, 1)
			return err
		})
		assert.ErrorIs(t, err, driver.ErrCaptureFailed)
	})
	rt, _ := open(t, twoDevices())
	s := newStream(t, contextAt(t, rt, 0))
	far := foreignMemory(t, contextAt(t, rt, 1), 64)
	_, err := runtime.WrapRef[uint64](s, far, 1)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "is memory of device 1, and the stream is of device 0")
	_, err = runtime.WrapRef[uint64](s, foreignMemory(t, s.Context(), 64), 9)
	require.ErrorIs(t, err, driver.ErrInvalidArgument, "its end")
}

func TestAdoptedStream(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 100
		c := contextOf(t, rt)
		theirs := foreignStream(t, c)
		s, err := c.WrapStream(theirs)
		require.NoError(t, err)
		assert.Equal(t, theirs, s.Handle())
		other := newStream(t, c)
		x := upload(t, other, count(0, n))
		add := kernel(t, c, "add") // the driver waits for the device to load it
		release := hold(t, other)
		require.NoError(t, runtime.Fill(other, x, 2))
		require.NoError(t, addTo(add, s, x, 1), "behind the fill")
		release()
		require.NoError(t, s.Synchronize(bg))
		for _, v := range download(t, s, x) {
			require.EqualValues(t, 3, v)
		}
		g := capture(t, s, zeroing(x))
		require.NoError(t, instantiate(t, g).Launch(s))

		_, err = c.WrapStream(theirs)
		assert.ErrorContains(t, err, "is a Stream of the context already")
		_, err = c.WrapStream(other.Handle())
		assert.ErrorContains(t, err, "is a Stream of the context already")
		require.NoError(t, errors.Join(s.Close(), s.Close()))
		assert.Equal(t, make([]uint32, n), download(t, other, x), "behind the graph")
		again, err := c.WrapStream(theirs)
		require.NoError(t, err, "the stream is still there")
		require.NoError(t, again.Synchronize(bg))
		require.NoError(t, again.Close())
	})
}

func TestStreamThatCannotBeAdopted(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	c, other := contextAt(t, rt, 0), contextAt(t, rt, 1)
	for handle := range driver.Stream(3) {
		_, err := c.WrapStream(handle)
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "is a default stream")
	}
	_, err := c.WrapStream(foreignStream(t, other))
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "is not of the primary context of device 0")
	captured := foreignStream(t, c)
	require.Equal(t, driver.Success, gpu.StreamBeginCapture(captured, driver.CaptureRelaxed))
	_, err = c.WrapStream(captured)
	require.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "which is captured")
	graph, r := gpu.StreamEndCapture(captured)
	require.Equal(t, driver.Success, r)
	require.Equal(t, driver.Success, gpu.GraphDestroy(graph))
}

// A Reset takes what was wrapped.
func TestAdoptedAndReset(t *testing.T) {
	rt, gpu := openFaulty(t, twoDevices())
	c := contextOf(t, rt)
	var stream driver.Stream
	var at driver.DevicePtr
	require.NoError(t, c.Do(func() error {
		var r1, r2 driver.Result
		stream, r1 = gpu.StreamCreate(driver.StreamNonBlocking)
		at, r2 = gpu.MemAlloc(64)
		return errors.Join(failure(r1), failure(r2))
	}))
	s, err := c.WrapStream(stream)
	require.NoError(t, err)
	x, err := runtime.WrapRef[uint32](s, at, 4)
	require.NoError(t, err)
	require.NoError(t, runtime.Zero(s, x))
	require.NoError(t, c.Reset(bg))
	assert.ErrorIs(t, s.Synchronize(bg), driver.ErrRefStale)
	_, err = x.Access()
	assert.ErrorIs(t, err, driver.ErrRefStale)
	require.NoError(t, errors.Join(x.Close(), s.Close()))
}
