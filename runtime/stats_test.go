package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/runtime"
)

func TestStats(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		assert.Zero(t, rt.Stats(), "nothing is open yet")
		c := contextOf(t, rt)
		assert.Equal(t, runtime.Stats{Contexts: 1, Generation: 1}, c.Stats())
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
			Refs: 2, RefBytes: 600, PeakBytes: 1024, // of blocks of 512 bytes
			Allocs:      2,
			HostBuffers: 1, HostBytes: 400,
			TicketBytes: 4096,
			Generation:  1,
		}
		assert.Equal(t, want, c.Stats())
		assert.Equal(t, want, rt.Stats())

		require.NoError(t, y.Close())
		require.NoError(t, h.Close())
		require.NoError(t, e.Close())
		want.Refs, want.RefBytes, want.CachedBytes, want.HostBuffers, want.HostBytes, want.Events = 1, 400, 512, 0, 0, 0
		assert.Equal(t, want, c.Stats())
		again := alloc[uint32](t, s, 60)
		want.Refs, want.RefBytes, want.CachedBytes, want.Allocs, want.AllocsCached = 2, 640, 0, 3, 1
		assert.Equal(t, want, c.Stats())
		require.NoError(t, again.Close())
		require.NoError(t, c.TrimMemory(0))
		want.Refs, want.RefBytes = 1, 400
		assert.Equal(t, want, c.Stats(), "the peak stays")

		if len(rt.Devices()) > 1 { // the runtime's are the sums
			other := contextAt(t, rt, 1)
			upload(t, newStream(t, other), []uint64{1, 2})
			sum := rt.Stats()
			assert.Equal(t, uint64(2), sum.Contexts)
			assert.Equal(t, uint64(2), sum.Streams)
			assert.Equal(t, uint64(4), sum.Uploads)
			assert.Equal(t, uint64(856), sum.UploadBytes)
			assert.Equal(t, uint64(416), sum.RefBytes)
		}
		assert.Zero(t, rt.Stats().Errors)
	})
}
