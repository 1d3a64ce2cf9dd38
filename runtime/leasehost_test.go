package runtime_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

func leaseHost[T any](t testing.TB, c *runtime.Context, n int) *runtime.HostBuffer[T] {
	t.Helper()
	h, err := runtime.LeaseHost[T](c, n)
	require.NoError(t, err)
	return h
}

func addressOf[T any](h *runtime.HostBuffer[T]) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(h.Data()))
}

// What is closed is leased again after the copy that uses it, and Close does not wait for the copy.
func TestLeaseHostIsLeasedAgainAfterItsLastCopy(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1000
		c := contextOf(t, rt)
		s, other := newStream(t, c), newStream(t, c)
		x, y := alloc[uint32](t, s, n), alloc[uint32](t, other, n)
		second := leaseHost[uint32](t, c, n) // the driver need not make one while a stream is held
		h := leaseHost[uint32](t, c, n)
		first := addressOf(h)
		copy(h.Data(), count(7, n))
		require.NoError(t, second.Close())
		release := hold(t, s)
		require.NoError(t, runtime.UploadHost(s, x, h))
		require.NoError(t, runtime.UploadHost(other, y, h.Slice(0, n)))
		require.NoError(t, h.Close())
		require.NoError(t, h.Close())
		assert.EqualValues(t, 4096, c.Stats().Pinned.PendingBytes)

		again := leaseHost[uint32](t, c, n)
		assert.NotEqual(t, first, addressOf(again), "the copy still reads it")
		copy(again.Data(), count(5000, n))
		release()
		synchronize(t, s)
		synchronize(t, other)
		assert.Equal(t, count(7, n), download(t, s, x))
		assert.Equal(t, count(7, n), download(t, s, y))
		third := leaseHost[uint32](t, c, n)
		assert.Equal(t, first, addressOf(third))
		assert.Zero(t, c.Stats().Pinned.PendingBytes)
		require.NoError(t, errors.Join(again.Close(), third.Close()))
		assert.Zero(t, c.Stats().HostBuffers)
	})
}

// Work of another library counts as a copy does, on a stream of others too.
func TestLeaseHostIsLeasedAgainAfterASubmit(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1000
		c := contextOf(t, rt)
		s, err := c.WrapStream(foreignStream(t, c))
		require.NoError(t, err)
		x := alloc[uint32](t, s, n)
		second, h := leaseHost[uint32](t, c, n), leaseHost[uint32](t, c, n)
		first := addressOf(h)
		copy(h.Data(), count(7, n))
		require.NoError(t, second.Close())
		release := hold(t, s)
		require.NoError(t, s.Submit("foreignUpload", func(stream driver.Stream, at []driver.DevicePtr) error {
			return failure(rt.Driver().MemcpyHtoDAsync(at[0], first, x.Bytes(), stream))
		}, runtime.InOut(x), h.Arg()))
		require.NoError(t, h.Close())
		assert.EqualValues(t, 4096, c.Stats().Pinned.PendingBytes)
		again := leaseHost[uint32](t, c, n)
		assert.NotEqual(t, first, addressOf(again), "the upload still reads it")
		copy(again.Data(), count(5000, n))
		release()
		synchronize(t, s)
		assert.Equal(t, count(7, n), download(t, s, x))
		third := leaseHost[uint32](t, c, n)
		assert.Equal(t, first, addressOf(third))
		require.NoError(t, errors.Join(again.Close(), third.Close(), s.Close()))
		assert.Zero(t, c.Stats().Pinned.PendingBytes)
	})
}

// Where no mark can be put on the streams that have used a lease, Close waits for the device.
func TestLeaseHostWaitsWhereItMust(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 16
		c := contextOf(t, rt)
		x := alloc[uint32](t, newStream(t, c), n)
		for name, use := range map[string]func(h *runtime.HostBuffer[uint32]){
			"closed stream": func(h *runtime.HostBuffer[uint32]) {
				s := newStream(t, c)
				require.NoError(t, errors.Join(runtime.DownloadHost(s, h, x), s.Close()))
			},
			"five streams": func(h *runtime.HostBuffer[uint32]) {
				for i := range 5 {
					require.NoError(t, runtime.DownloadHost(newStream(t, c), h.Slice(i, i+1), x.Slice(i, i+1)))
				}
			},
			"graph": func(h *runtime.HostBuffer[uint32]) {
				s := newStream(t, c)
				g := capture(t, s, func(s *runtime.Stream) error { return runtime.DownloadHost(s, h, x) })
				require.NoError(t, h.Close())
				e := instantiate(t, g)
				require.NoError(t, errors.Join(e.Launch(s), g.Close()))
				assert.EqualValues(t, 1, c.Stats().HostBuffers, "the executable graph holds it")
				require.NoError(t, e.Close())
			},
		} {
			h := leaseHost[uint32](t, c, n)
			use(h)
			require.NoError(t, h.Close(), name)
			assert.Zero(t, c.Stats().HostBuffers, name)
			assert.Zero(t, c.Stats().Pinned.PendingBytes, name)
		}
	})
}

// Streams whose copies are done make room for others: after many of them Close waits for none, and not for the device either.
func TestLeaseHostAfterManyStreams(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	const n, rounds = 16, 3
	var streams []*runtime.Stream
	for range 9 {
		streams = append(streams, newStream(t, c))
	}
	busy := newStream(t, c)
	x := alloc[uint32](t, streams[0], n)
	h := leaseHost[uint32](t, c, n)
	for range rounds {
		for _, s := range streams {
			require.NoError(t, errors.Join(runtime.DownloadHost(s, h, x), s.Synchronize(t.Context())))
		}
	}
	release := make(chan struct{})
	require.NoError(t, busy.LaunchHostFunc(func() { <-release }))
	gpu.ResetCalls()
	require.NoError(t, h.Close())
	assert.Zero(t, gpu.Calls("cuCtxSynchronize")+gpu.Calls("cuMemFreeHost"))
	assert.Zero(t, c.Stats().Pinned.PendingBytes)
	assert.EqualValues(t, 1, c.Stats().Pinned.Returns)
	close(release)
}

// The numbers of a stream begin behind those of an earlier one. They prove nothing of work that came before them.
func TestLeaseHostUsedOnANewStream(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	const n = 1000
	old := newStream(t, c)
	for range 5 {
		require.NoError(t, errors.Join(runtime.Zero(old, alloc[uint32](t, old, 1)), old.Synchronize(t.Context())))
	}
	a, b := newStream(t, c), newStream(t, c)
	x, y := alloc[uint32](t, a, n), alloc[uint32](t, b, n)
	require.NoError(t, old.Close())
	h := leaseHost[uint32](t, c, n)
	first := addressOf(h)
	copy(h.Data(), count(7, n))
	release := make(chan struct{})
	require.NoError(t, errors.Join(a.LaunchHostFunc(func() { <-release }), runtime.UploadHost(a, x, h), runtime.UploadHost(b, y, h)))
	stop := a.AfterFunc(func(error) {}) // gives the stream its numbers
	defer stop()
	require.NoError(t, errors.Join(h.Close(), b.Synchronize(t.Context())))
	again := leaseHost[uint32](t, c, n)
	assert.NotEqual(t, first, addressOf(again))
	copy(again.Data(), count(5000, n))
	close(release)
	synchronize(t, a)
	assert.Equal(t, count(7, n), download(t, a, x))
	require.NoError(t, again.Close())
}

// A lease that is closed while a stream that has used it is captured does the capture no harm.
func TestLeaseHostClosedDuringACapture(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := alloc[uint32](t, s, 8)
		h := leaseHost[uint32](t, c, 8)
		copy(h.Data(), count(1, 8))
		require.NoError(t, runtime.UploadHost(s, x, h))
		g := capture(t, s, func(s *runtime.Stream) error { return errors.Join(h.Close(), runtime.Zero(s, x)) })
		collect(t, c)
		assert.Zero(t, c.Stats().HostBuffers)
		assert.Equal(t, count(1, 8), download(t, s, x))
		require.NoError(t, g.Close())
	})
}

// A lease that was closed is an error wherever it is used, also when somebody else has its memory.
func TestLeaseHostAfterClose(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := alloc[uint32](t, s, 8)
	h := leaseHost[uint32](t, c, 8)
	view, cast := h.Slice(0, 8), errorless(runtime.CastHost[uint32](h))
	old := addressOf(h)
	require.NoError(t, h.Close())
	other := leaseHost[uint32](t, c, 8)
	require.Equal(t, old, addressOf(other))
	for i, h := range []*runtime.HostBuffer[uint32]{h, view, cast} {
		assert.Nil(t, h.Data(), i)
		for _, err := range []error{runtime.UploadHost(s, x, h), runtime.DownloadHost(s, h, x), runtime.UploadHost(s, x.Slice(0, 4), h.Slice(0, 4))} {
			assert.ErrorIs(t, err, driver.ErrClosed, i)
			assert.ErrorContains(t, err, "leased host memory", i)
		}
	}
	k := kernel(t, c, "add")
	assert.ErrorIs(t, k.Launch(s, runtime.Shape1D(8, 32), h.Arg(), runtime.Int(8), runtime.Int(1)), driver.ErrClosed)
	require.NoError(t, other.Close())

	for _, n := range []int{0, 3} {
		empty := leaseHost[uint32](t, c, n)
		assert.Len(t, empty.Data(), n)
		require.NoError(t, empty.Close())
	}
	assert.ErrorIs(t, errorOf(runtime.LeaseHost[uint32](c, -1)), driver.ErrInvalidArgument)
	assert.ErrorIs(t, errorOf(runtime.LeaseHost[*int](c, 1)), driver.ErrInvalidArgument)
	assert.ErrorIs(t, errorOf(runtime.LeaseHost[uint32](nil, 1)), driver.ErrInvalidArgument)
}

func errorless[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A lease takes the buffers that copies of Go slices do not use, and at the limit it is an error.
func TestLeaseHostSharesTheLimit(t *testing.T) {
	const limit = 4 << 20
	rt, _ := open(t, drivertest.Config{}, runtime.WithPinned(arena.PinnedConfig{Limit: limit}))
	c := contextOf(t, rt)
	s := newStream(t, c)
	data := count(1, 2<<20)
	x := upload(t, s, data)
	require.Equal(t, data, download(t, s, x))
	before := c.Stats()
	require.NotZero(t, before.Pinned.LeasedBytes, "the buffers of the copies")
	require.NotZero(t, before.Copier.Staged)
	require.NoError(t, before.Copier.PageableCause)

	h := leaseHost[byte](t, c, limit)
	_, err := runtime.LeaseHost[byte](c, 1)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.ErrorContains(t, err, fmt.Sprintf("%d bytes are leased, and the limit is %d", limit, limit))
	require.Equal(t, data, download(t, s, x), "the driver copies")
	stats := rt.Stats()
	assert.Positive(t, stats.Copier.Pageable)
	assert.ErrorIs(t, stats.Copier.PageableCause, driver.ErrOutOfMemory)
	require.NoError(t, h.Close())
	require.Equal(t, data, download(t, s, x))
	assert.Equal(t, stats.Copier.Pageable, rt.Stats().Copier.Pageable, "there is memory again")
	assert.LessOrEqual(t, rt.Stats().Pinned.PeakBytes, uint64(limit))
}

// The host refuses to lock memory, as in a container with a small limit: copies go on, and say why.
func TestCopiesWithoutPageLockedMemory(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{HostMemory: 300 << 10})
	c := contextOf(t, rt)
	s := newStream(t, c)
	data := count(1, 1<<20)
	x := upload(t, s, data)
	require.Equal(t, data, download(t, s, x))
	stats := c.Stats().Copier
	assert.Equal(t, [2]uint64{2, 0}, [2]uint64{stats.Staged, stats.Pageable}, "in small pieces, since the large buffers were refused")

	everything, err := runtime.AllocHost[byte](c, 30<<10) // of others in the process
	require.NoError(t, err)
	require.NoError(t, c.TrimPinned(0))
	more, err := runtime.AllocHost[byte](c, 200<<10)
	require.NoError(t, err)
	require.Equal(t, data, download(t, s, x))
	stats = c.Stats().Copier
	assert.EqualValues(t, 1, stats.Pageable)
	require.ErrorIs(t, stats.PageableCause, driver.ErrOutOfMemory)
	assert.ErrorContains(t, stats.PageableCause, "cuMemHostAlloc")
	assert.ErrorIs(t, errorOf(runtime.LeaseHost[byte](c, 256<<10)), driver.ErrOutOfMemory)
	require.NoError(t, errors.Join(everything.Close(), more.Close()))
	assert.Positive(t, gpu.Calls("cuMemHostAlloc"))
}

func TestLeaseHostAndTheEndOfItsContext(t *testing.T) {
	t.Run("Reset", func(t *testing.T) {
		rt, _ := open(t, drivertest.Config{})
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := alloc[byte](t, s, 100)
		h := leaseHost[byte](t, c, 100)
		require.ErrorContains(t, c.Reset(bg), "1 HostBuffers or Managed of the context are open")
		release := hold(t, s)
		require.NoError(t, errors.Join(runtime.UploadHost(s, x, h), h.Close()))
		reset := async(func() error { return c.Reset(bg) })
		release()
		require.NoError(t, await(t, "Reset", reset))
		assert.Zero(t, c.Stats().Pinned.PeakBytes)
		require.NoError(t, leaseHost[byte](t, c, 100).Close())
	})
	t.Run("Close", func(t *testing.T) { // the driver of open finds what is left
		rt, _ := open(t, drivertest.Config{})
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := alloc[byte](t, s, 100)
		h, closed := leaseHost[byte](t, c, 100), leaseHost[byte](t, c, 100)
		require.NoError(t, errors.Join(runtime.DownloadHost(s, h, x), runtime.DownloadHost(s, closed, x), closed.Close()))
		require.NoError(t, rt.Close())
		assert.Nil(t, h.Data())
		require.NoError(t, h.Close())
		assert.ErrorIs(t, errorOf(runtime.LeaseHost[byte](c, 1)), driver.ErrClosed)
	})
	t.Run("lost", func(t *testing.T) {
		rt, gpu := openFaulty(t, drivertest.Config{})
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := alloc[byte](t, s, 100)
		h, left := leaseHost[byte](t, c, 100), leaseHost[byte](t, c, 100)
		require.NoError(t, runtime.UploadHost(s, x, h))
		gpu.Fail("cuMemsetD8Async", 1, driver.ResultIllegalAddress)
		require.Error(t, runtime.Zero(s, x))
		require.NoError(t, h.Close())
		require.NoError(t, rt.Close())
		require.NoError(t, left.Close())
		assert.ErrorIs(t, errorOf(runtime.LeaseHost[byte](c, 1)), driver.ErrDeviceLost)
	})
}

func TestLeaseHostAllocatesOnce(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	require.NoError(t, leaseHost[uint64](t, c, 512).Close())
	allocs.AtMost(t, 1, 100, func() {
		h, err := runtime.LeaseHost[uint64](c, 512)
		if err != nil || h.Close() != nil {
			t.Error("a lease failed")
		}
	})
}

// Leases of several goroutines go through uploads and downloads on streams that others use and
// close. Nobody's memory is that of another.
func TestLeaseHostCampaign(t *testing.T) {
	seeds.Each(t, seeds.Count(10, 60, 60), func(t *testing.T, seed uint64) {
		rt, _ := open(t, twoDevices(), runtime.WithPinned(arena.PinnedConfig{Limit: 1 << 20, Debug: seed%2 == 0}))
		ended := make(chan struct{})
		var all, trimming sync.WaitGroup
		trimming.Go(func() { // also memory that the others are about to take
			for tick := time.Tick(time.Millisecond); ; {
				select {
				case <-tick:
					for _, c := range rt.Contexts() {
						assert.NoError(t, c.TrimPinned(0))
					}
				case <-ended:
					return
				}
			}
		})
		for g := range uint64(3) {
			all.Go(func() { leaseAndCopy(t, rt, rand.New(rand.NewPCG(seed, g))) })
		}
		all.Wait()
		close(ended)
		trimming.Wait()
		for _, c := range rt.Contexts() {
			assert.Zero(t, c.Stats().HostBuffers)
			assert.Zero(t, c.Stats().Pinned.Findings)
		}
	})
}

func leaseAndCopy(t *testing.T, rt *runtime.Runtime, chance *rand.Rand) {
	from, to := contextAt(t, rt, chance.IntN(2)), contextAt(t, rt, chance.IntN(2))
	s, late := newStream(t, from), newStream(t, to)
	const most = 3000
	x, y := alloc[uint32](t, s, most), alloc[uint32](t, late, most)
	for range 20 {
		n := 1 + chance.IntN(most)
		data := count(chance.Uint32(), n)
		in, err := runtime.LeaseHost[uint32](from, n)
		if errors.Is(err, driver.ErrOutOfMemory) {
			continue
		}
		if !assert.NoError(t, err) {
			return
		}
		copy(in.Data(), data)
		err = errors.Join(runtime.UploadHost(s, x.Slice(0, n), in), runtime.UploadHost(late, y.Slice(0, n), in))
		if chance.IntN(8) == 0 {
			err = errors.Join(err, late.Close())
			late = newStream(t, to)
		}
		err = errors.Join(err, in.Close())
		out := make([]uint32, n)
		if chance.IntN(4) == 0 {
			err = errors.Join(err, from.TrimPinned(0))
		}
		if !assert.NoError(t, errors.Join(err, runtime.Download(bg, s, out, x.Slice(0, n)))) || !assert.Equal(t, data, out) {
			return
		}
		if !assert.NoError(t, runtime.Download(bg, late, out, y.Slice(0, n))) || !assert.Equal(t, data, out) {
			return
		}
	}
}
