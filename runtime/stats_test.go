package runtime_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

func TestStats(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		assert.Zero(t, rt.Stats(), "nothing is open yet")
		c := contextOf(t, rt)
		assert.Equal(t, runtime.Stats{Contexts: 1, Generation: 1}, summary(c.Stats()))
		s := newStream(t, c)
		e := newEvent(t, c)
		x, y := alloc[uint32](t, s, 100), alloc[uint32](t, s, 50)
		h := allocHost[uint32](t, c, 100)
		k := kernel(t, c, "add")
		data := make([]uint32, 100)
		require.NoError(t, runtime.Upload(bg, s, x, data))
		require.NoError(t, runtime.UploadHost(s, x, h))
		require.NoError(t, runtime.Upload(bg, s, x.Slice(0, 10), data[:10]))
		require.NoError(t, runtime.Download(bg, s, data, x))
		require.NoError(t, runtime.DownloadHost(s, h, x.Slice(0, 100)))
		require.NoError(t, runtime.Copy(s, y, x.Slice(0, 50)))
		for range 3 {
			require.NoError(t, addTo(k, s, x, 1))
		}
		require.NoError(t, e.Record(s))
		require.NoError(t, e.Synchronize(context.Background()))
		synchronize(t, s)
		want := runtime.Stats{
			Launches: 3,
			Uploads:  3, UploadBytes: 840,
			Downloads: 2, DownloadBytes: 800,
			Copies: 1, CopyBytes: 200,
			Waits:    2,
			Contexts: 1, Streams: 1, Events: 1, Modules: 1,
			Refs: 2, RefBytes: 600,
			HostBuffers: 1, HostBytes: 400,
			TicketBytes: 4096,
			Generation:  1,
		}
		assert.Equal(t, want, summary(c.Stats()))
		assert.Equal(t, c.Stats(), rt.Stats())
		held := c.Stats().Memory
		assert.Equal(t, [5]uint64{1024, 600, 0, 1024, 1024}, [5]uint64{held.InUse, held.Requested, held.Cached, held.Held, held.HighWater}, "blocks of 512 bytes")
		assert.Equal(t, [3]uint64{0, 0, 2}, [3]uint64{held.Hits, held.Shared, held.Misses})
		copied := c.Stats().Copier
		assert.Equal(t, [4]uint64{2, 1, 0, 0}, [4]uint64{copied.Small, copied.Direct, copied.Staged, copied.Pageable}, "those of Go slices")
		assert.EqualValues(t, arena.DefaultPinnedLimit, c.Stats().Pinned.Limit)
		assert.Positive(t, c.Stats().Pinned.LeasedBytes, "buffers of the download")

		require.NoError(t, y.Close())
		require.NoError(t, h.Close())
		require.NoError(t, e.Close())
		want.Refs, want.RefBytes, want.HostBuffers, want.HostBytes, want.Events = 1, 400, 0, 0, 0
		assert.Equal(t, want, summary(c.Stats()))
		assert.EqualValues(t, 512, c.Stats().Memory.Cached)
		again := alloc[uint32](t, s, 60)
		want.Refs, want.RefBytes = 2, 640
		assert.Equal(t, want, summary(c.Stats()))
		held = c.Stats().Memory
		assert.Equal(t, [3]uint64{0, 1, 2}, [3]uint64{held.Cached, held.Hits, held.Misses})
		require.NoError(t, again.Close())
		require.NoError(t, c.TrimMemory(0))
		want.Refs, want.RefBytes = 1, 400
		assert.Equal(t, want, summary(c.Stats()))
		held = c.Stats().Memory
		assert.Equal(t, [3]uint64{0, 512, 1024}, [3]uint64{held.Cached, held.Held, held.HighWater}, "the peak stays")
		require.NoError(t, c.TrimPinned(0))
		assert.Zero(t, c.Stats().Pinned.LeasedBytes+c.Stats().Pinned.CachedBytes)

		if len(rt.Devices()) > 1 { // the runtime's are the sums
			other := contextAt(t, rt, 1)
			upload(t, newStream(t, other), []uint64{1, 2})
			sum := rt.Stats()
			assert.Equal(t, uint64(2), sum.Contexts)
			assert.Equal(t, uint64(2), sum.Streams)
			assert.Equal(t, uint64(4), sum.Uploads)
			assert.Equal(t, uint64(856), sum.UploadBytes)
			assert.Equal(t, uint64(416), sum.RefBytes)
			assert.Equal(t, uint64(1024), sum.Memory.Held, "of two blocks")
			assert.EqualValues(t, 2*arena.DefaultPinnedLimit, sum.Pinned.Limit)
			assert.Equal(t, uint64(3), sum.Copier.Small)
		}
		assert.Zero(t, rt.Stats().Errors)
	})
}

// summary is what package runtime counts itself.
func TestStatsSince(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := upload(t, s, count(0, 100))
	before := c.Stats()
	require.Positive(t, before.Uploads)
	require.NoError(t, runtime.Upload(bg, s, x, count(1, 100)))
	require.NoError(t, addTo(kernel(t, c, "add"), s, x, 1))
	now := c.Stats()
	since := now.Since(before)
	assert.Equal(t, uint64(1), since.Uploads)
	assert.Equal(t, uint64(400), since.UploadBytes)
	assert.Equal(t, uint64(1), since.Launches)
	assert.Equal(t, uint64(1), since.Copier.Small)
	assert.Equal(t, now.Streams, since.Streams)
	assert.Equal(t, now.Memory.InUse, since.Memory.InUse)
	assert.Equal(t, now.Generation, since.Generation)

	require.NoError(t, c.Reset(bg))
	assert.LessOrEqual(t, c.Stats().Since(now).Copier.Small, uint64(1), "it counts anew, and does not go below 0")
	assert.Zero(t, runtime.Stats{}.Since(runtime.Stats{Launches: 5}).Launches)
}

// Each figure is either a count or one of a moment, which Since leaves as it is: who adds a field decides.
func TestStatsSinceKnowsAllFields(t *testing.T) {
	all := runtime.Stats{}
	fillWithThrees(reflect.ValueOf(&all).Elem())
	var same []string
	remaining(reflect.ValueOf(all.Since(all)), "", &same)
	assert.ElementsMatch(t, []string{
		".Contexts", ".Streams", ".SpareStreams", ".Events", ".Handles", ".Modules", ".Graphs", ".GraphExecs", ".HostBuffers", ".HostBytes", ".TicketBytes",
		".Managed", ".ManagedBytes", ".Refs", ".RefBytes", ".Leaked", ".LeakedBytes", ".CachedModules", ".CachedModuleBytes", ".Generation",
		".Memory.InUse", ".Memory.Requested", ".Memory.Cached", ".Memory.Split", ".Memory.Held", ".Memory.HighWater", ".Memory.LostBlocks",
		".Memory.Lost", ".Memory.Streams",
		".Pinned.Leases", ".Pinned.LeasedBytes", ".Pinned.AskedBytes", ".Pinned.CachedBytes", ".Pinned.PendingBytes", ".Pinned.PeakBytes",
		".Pinned.LostBytes", ".Pinned.Limit", ".Copier.Slots", ".Copier.Chunks", ".Copier.Doubtful",
	}, same)
}

func fillWithThrees(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(3)
		case reflect.Int, reflect.Int64:
			f.SetInt(3)
		case reflect.Struct:
			fillWithThrees(f)
		}
	}
}

func remaining(v reflect.Value, path string, names *[]string) {
	for i := range v.NumField() {
		name := path + "." + v.Type().Field(i).Name
		switch f := v.Field(i); {
		case f.Kind() == reflect.Struct:
			remaining(f, name, names)
		case f.Kind() != reflect.Bool && !f.IsZero():
			*names = append(*names, name)
		}
	}
}

func TestTrim(t *testing.T) {
	rt, _ := open(t, twoDevices(), runtime.WithMemory(arena.DeviceConfig{CacheBytes: arena.DefaultCacheBytes}))
	for i := range 2 {
		c := contextAt(t, rt, i)
		s := newStream(t, c)
		require.NoError(t, upload(t, s, count(0, 1<<20)).Close())
		m, err := c.CachedModule(runtime.Image{Code: kernelsPTX})
		require.NoError(t, err)
		require.NoError(t, m.Close())
		synchronize(t, s)
		now := c.Stats()
		require.Positive(t, now.Memory.Cached)
		require.Positive(t, now.Pinned.CachedBytes+now.Pinned.LeasedBytes, "of the copier")
		require.Positive(t, now.CachedModules)
	}
	require.NoError(t, rt.Trim())
	for _, c := range rt.Contexts() {
		now := c.Stats()
		assert.Zero(t, now.Memory.Cached)
		assert.Zero(t, now.Pinned.CachedBytes)
		assert.Zero(t, now.CachedModules)
	}
	require.NoError(t, rt.Close())
	assert.ErrorIs(t, (*runtime.Runtime)(nil).Trim(), driver.ErrInvalidArgument)
}

func summary(s runtime.Stats) runtime.Stats {
	s.Memory, s.Pinned, s.Copier = arena.DeviceStats{}, arena.PinnedStats{}, arena.CopierStats{}
	return s
}

// What was done on a stream counts after its end, and after a Reset.
func TestStatsOfStreamsThatHaveEnded(t *testing.T) {
	c := contextOf(t, openOn(t, drivertest.ForTest(t, drivertest.Config{})))
	add := func(s *runtime.Stream) error {
		return addTo(kernel(t, c, "add"), s, alloc[uint32](t, s, 100), 1)
	}
	for range 3 {
		s := newStream(t, c)
		require.NoError(t, add(s))
		require.NoError(t, s.Synchronize(t.Context()))
		require.NoError(t, s.Close())
	}
	s := newStream(t, c)
	require.NoError(t, add(s))
	assert.Equal(t, [2]uint64{4, 3}, [2]uint64{c.Stats().Launches, c.Stats().Waits})
	require.NoError(t, c.Reset(t.Context()))
	assert.Equal(t, [2]uint64{4, 3}, [2]uint64{c.Stats().Launches, c.Stats().Waits})
}
