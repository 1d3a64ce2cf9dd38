package runtime_test

import (
	"errors"
	goruntime "runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// pageElements is how many elements of four bytes a page of the device has, as a rule.
const pageElements = 2 << 20 / 4

// growable makes a Growable, and skips the test on a device without virtual memory.
func growable[T any](t testing.TB, c *runtime.Context, most int) *runtime.Growable[T] {
	t.Helper()
	g, err := runtime.AllocGrowable[T](c, most)
	if errors.Is(err, driver.ErrUnsupported) || errors.Is(err, driver.ErrSymbolMissing) {
		t.Skipf("the device has no virtual memory: %v", err)
	}
	require.NoError(t, err)
	return g
}

// The address, the contents, Refs of before and graphs stay when it grows, and what is new is one with them.
func TestHardwareGrowable(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1000
		c := contextOf(t, rt)
		s, other := newStream(t, c), newStream(t, c)
		k := kernel(t, c, "add")
		before := c.Stats()
		g := growable[uint32](t, c, 1<<36/4)
		assert.Equal(t, [2]int{0, 1 << 36 / 4}, [2]int{g.Len(), g.Cap()})
		assert.Equal(t, before.Memory.Held, c.Stats().Memory.Held, "addresses are no memory")
		assert.Equal(t, before.Refs+1, c.Stats().Refs)
		require.NoError(t, runtime.Fill(s, g.Ref(), 1), "of no elements")

		require.NoError(t, errors.Join(g.Grow(n), g.Grow(n/2)))
		old := g.Ref()
		require.NoError(t, runtime.Upload(bg, s, old, count(0, n)))
		graph := instantiate(t, capture(t, s, adding(k, old, 1, 10)))
		release := hold(t, s)
		require.NoError(t, graph.Launch(s))
		const most = 3*pageElements + 5
		grown := make(chan error, 1)
		go func() { grown <- g.Grow(most) }() // hardware may wait for the device
		if !onHardware(rt) {
			require.NoError(t, await(t, "Grow beside work", grown))
		}
		release()
		if onHardware(rt) {
			require.NoError(t, await(t, "Grow beside work", grown))
		}
		all := g.Ref()
		assert.Equal(t, [2]int{most, n}, [2]int{all.Len(), old.Len()})
		assert.Equal(t, old.Core().Ptr(), all.Core().Ptr())
		stats := c.Stats()
		assert.EqualValues(t, 4*most, stats.RefBytes-before.RefBytes)
		assert.EqualValues(t, 4*most, stats.Memory.Requested-before.Memory.Requested)
		assert.GreaterOrEqual(t, stats.Memory.InUse-before.Memory.InUse, uint64(4*most))

		tail := all.Slice(n, most)
		require.NoError(t, runtime.Upload(bg, other, tail, count(n, most-n)))
		across := all.Slice(pageElements-n, pageElements+n) // on two pages, of two calls of Grow
		require.NoError(t, addTo(k, other, across, 10))
		want := count(0, most)
		for i := range want {
			if i < n || i >= pageElements-n && i < pageElements+n {
				want[i] += 10
			}
		}
		assert.True(t, slices.Equal(want, download(t, s, all)), "behind the graph and the kernel")
		require.NoError(t, graph.Launch(other))
		assert.Equal(t, count(20, n), download(t, s, old))
		copied := alloc[uint32](t, s, across.Len())
		require.NoError(t, runtime.Copy(s, copied, across))
		assert.Equal(t, want[pageElements-n:pageElements+n], download(t, s, copied))
		require.NoError(t, runtime.Fill(s, across, 7))
		host := allocHost[uint32](t, c, across.Len())
		require.NoError(t, runtime.DownloadHost(s, host, across))
		synchronize(t, s)
		for _, v := range host.Data() {
			require.EqualValues(t, 7, v)
		}

		require.NoError(t, errors.Join(g.Close(), g.Close()))
		for _, r := range []*runtime.Ref[uint32]{old, all, tail} {
			assert.ErrorIs(t, runtime.Zero(s, r), driver.ErrClosed)
		}
		assert.ErrorIs(t, g.Grow(most+1), driver.ErrClosed)
		assert.NotZero(t, c.Stats().Refs-before.Refs, "the graph has it")
		require.NoError(t, errors.Join(graph.Launch(s), graph.Close(), copied.Close(), host.Close()))
		require.NoError(t, errors.Join(s.Synchronize(bg), c.TrimMemory(0)))
		assert.Equal(t, [2]uint64{before.Refs, before.Memory.Held}, [2]uint64{c.Stats().Refs, c.Stats().Memory.Held})
	})
}

func onHardware(rt *runtime.Runtime) bool {
	_, simulated := rt.Driver().(*drivertest.Driver)
	return !simulated
}

func TestGrowableInACapture(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		g := growable[uint32](t, c, 8*pageElements)
		require.NoError(t, g.Grow(1))
		graph := instantiate(t, capture(t, s, func(s *runtime.Stream) error {
			return errors.Join(g.Grow(pageElements+1), runtime.Fill(s, g.Ref(), 3))
		}))
		require.NoError(t, graph.Launch(s))
		got := download(t, s, g.Ref())
		assert.Equal(t, []uint32{3, 3}, []uint32{got[0], got[pageElements]})
		_, err := s.Capture(func(s *runtime.Stream) error {
			return errors.Join(runtime.Fill(s, g.Ref(), 4), g.Close())
		})
		require.NoError(t, err)
		require.NoError(t, graph.Launch(s))
		require.NoError(t, graph.Close())
	})
}

// Close does not wait for the work, and the memory goes after it.
func TestGrowableIsFreedAfterItsWork(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	c := contextOf(t, rt)
	s, other := newStream(t, c), newStream(t, c)
	g := growable[uint32](t, c, 100)
	require.NoError(t, g.Grow(100))
	kept := g.Ref().Retain()
	release := hold(t, other)
	require.NoError(t, errors.Join(runtime.Fill(s, g.Ref(), 1), runtime.Fill(other, g.Ref(), 2)))
	require.NoError(t, errors.Join(g.Close(), runtime.Fill(s, kept, 3), kept.Close()))
	assert.Zero(t, c.Stats().Refs)
	assert.EqualValues(t, 2<<20, c.Stats().Memory.Cached)
	assert.Zero(t, gpu.Calls("cuMemUnmap"))
	release()
	require.NoError(t, errors.Join(s.Synchronize(bg), other.Synchronize(bg)))
	newStream(t, c)
	assert.Zero(t, c.Stats().Memory.Held)
}

func TestForgottenGrowable(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c := contextOf(t, rt)
	s := newStream(t, c)
	view := func() *runtime.Ref[uint32] {
		g := growable[uint32](t, c, 100)
		require.NoError(t, g.Grow(100))
		return g.Ref()
	}()
	goruntime.GC()
	require.NoError(t, runtime.Fill(s, view, 1), "a view keeps it")
	synchronize(t, s)
	goruntime.KeepAlive(view)
	eventually(t, "the next allocation frees it", func() bool {
		goruntime.GC()
		x := alloc[byte](t, s, 1)
		require.NoError(t, x.Close())
		return c.Stats().Memory.InUse == 0
	})
}

func TestGrowableThatCannotGrow(t *testing.T) {
	const limit = 16 << 20
	rt, _ := open(t, twoDevices(), runtime.WithMemory(arena.DeviceConfig{CacheBytes: limit, Limit: limit}))
	c := contextOf(t, rt)
	s := newStream(t, c)
	for _, most := range []int{-1, 1 << 60} {
		_, err := runtime.AllocGrowable[uint32](c, most)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}
	_, err := runtime.AllocGrowable[*int](c, 1)
	assert.ErrorContains(t, err, "pointers")
	_, err = runtime.AllocGrowable[int](nil, 1)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)

	var none *runtime.Growable[uint32]
	assert.Equal(t, [2]int{}, [2]int{none.Len(), none.Cap()})
	assert.ErrorIs(t, none.Grow(1), driver.ErrInvalidArgument)
	assert.ErrorIs(t, runtime.Fill(s, none.Ref(), 1), driver.ErrInvalidArgument)
	require.NoError(t, none.Close())

	empty := growable[uint32](t, c, 0)
	require.NoError(t, errors.Join(empty.Grow(0), runtime.Fill(s, empty.Ref(), 1)))
	assert.ErrorContains(t, empty.Grow(1), "want 0 to 0")
	assert.ErrorContains(t, empty.Grow(-1), "grow to -1 elements")
	require.NoError(t, empty.Close())

	g := growable[byte](t, c, 2*limit)
	require.NoError(t, g.Grow(5<<20))
	require.NoError(t, runtime.Fill(s, g.Ref(), 9))
	x := alloc[byte](t, s, 4<<20)
	var e *driver.Error
	require.ErrorAs(t, g.Grow(13<<20), &e)
	assert.Equal(t, driver.ErrOutOfMemory, e.Kind)
	assert.EqualValues(t, 8<<20, e.Bytes)
	assert.Equal(t, 5<<20, g.Len())
	assert.EqualValues(t, 5<<20, g.Ref().Len())
	assert.EqualValues(t, 9<<20, c.Stats().RefBytes)
	require.NoError(t, x.Close())
	require.NoError(t, g.Grow(limit), "what is cached makes room")
	assert.EqualValues(t, 9, download(t, s, g.Ref().Slice(0, 5<<20))[5<<20-1])
	_, err = runtime.Alloc[byte](s, 1)
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	require.NoError(t, g.Close())
	require.NoError(t, alloc[byte](t, s, limit).Close(), "the memory is back, after the work with it")
}

func TestGrowableOnPeers(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		here, there := contextAt(t, rt, 0), contextAt(t, rt, 1)
		onHere, onThere := newStream(t, here), newStream(t, there)
		k := kernel(t, here, "add")
		g := growable[uint32](t, there, 8*pageElements)
		require.NoError(t, errors.Join(g.Grow(10), runtime.Fill(onThere, g.Ref(), 1)))
		assert.ErrorContains(t, addTo(k, onHere, g.Ref(), 1), "see Context.EnablePeer")
		enablePeer(t, here, there)
		require.NoError(t, addTo(k, onHere, g.Ref(), 2))
		require.NoError(t, g.Grow(2*pageElements))
		across := g.Ref().Slice(pageElements-9, pageElements+9)
		require.NoError(t, runtime.Fill(onThere, across, 3))
		require.NoError(t, addTo(k, onHere, across, 4))
		x := alloc[uint32](t, onHere, across.Len())
		require.NoError(t, runtime.Copy(onHere, x, across))
		assert.Equal(t, slices.Repeat([]uint32{7}, 18), download(t, onHere, x))
		assert.Equal(t, []uint32{3, 3}, download(t, onThere, g.Ref().Slice(0, 2)))
		require.NoError(t, errors.Join(addTo(k, onHere, across, 4), g.Close(), x.Close()))
	})
}

// A Reset takes the memory away, as all of the context, and a device that is lost keeps it.
func TestGrowableAfterResetAndLoss(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	c := contextOf(t, rt)
	g := growable[uint32](t, c, pageElements)
	require.NoError(t, g.Grow(5))
	require.NoError(t, c.Reset(bg))
	assert.Equal(t, 1, gpu.Calls("cuMemAddressFree"))
	assert.ErrorContains(t, g.Grow(6), "context rebuilt")
	assert.ErrorContains(t, runtime.Zero(newStream(t, c), g.Ref()), "context rebuilt")
	require.NoError(t, g.Close())
	assert.Equal(t, 1, gpu.Calls("cuMemAddressFree"))

	again := growable[uint32](t, c, pageElements)
	require.NoError(t, again.Grow(5))
	gpu.Vanish(c.Device().Ordinal)
	require.Error(t, c.Synchronize())
	assert.ErrorIs(t, again.Grow(pageElements), driver.ErrDeviceLost)
	require.NoError(t, again.Close())
	assert.Equal(t, 1, gpu.Calls("cuMemAddressFree"))
	gpu.Return(c.Device().Ordinal)
	require.NoError(t, rt.Revive(bg, c.Device().Ordinal))
	last := growable[uint32](t, c, pageElements)
	require.NoError(t, errors.Join(last.Grow(pageElements), runtime.Zero(newStream(t, c), last.Ref())))
	assert.EqualValues(t, 1, c.Stats().Refs, "the context closes it")
}

// Goroutines grow one buffer as they need it, write their own part, and read it again.
func TestHardwareGrowableOnManyGoroutines(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const users, rounds, part = 8, 6, pageElements / 3
		c := contextOf(t, rt)
		k := kernel(t, c, "add")
		g := growable[uint32](t, c, users*rounds*part)
		var all sync.WaitGroup
		for u := range users {
			s := newStream(t, c)
			all.Go(func() {
				for i := range rounds {
					from := (i*users + u) * part
					if !assert.NoError(t, g.Grow(from+part)) {
						return
					}
					mine := g.Ref().Slice(from, from+part)
					got := make([]uint32, 2)
					end := mine.Slice(part-2, part)
					assert.NoError(t, errors.Join(runtime.Fill(s, mine, uint32(from)), addTo(k, s, end, 1), runtime.Download(bg, s, got, end)))
					assert.Equal(t, []uint32{uint32(from) + 1, uint32(from) + 1}, got)
				}
			})
		}
		all.Wait()
		assert.Equal(t, g.Cap(), g.Len())
		require.NoError(t, g.Close())
	})
}
