package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
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
		assert.Equal(t, [4]uint64{2, 440, 1, 400}, [4]uint64{copied.Uploads, copied.UploadBytes, copied.Downloads, copied.DownloadBytes},
			"those of Go slices")
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
			assert.Equal(t, uint64(3), sum.Copier.Uploads)
		}
		assert.Zero(t, rt.Stats().Errors)
	})
}

// summary is what package runtime counts itself.
func summary(s runtime.Stats) runtime.Stats {
	s.Memory, s.Pinned, s.Copier = arena.DeviceStats{}, arena.PinnedStats{}, arena.CopierStats{}
	return s
}
