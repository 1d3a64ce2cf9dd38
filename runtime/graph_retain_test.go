package runtime_test

import (
	"errors"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// collect makes the garbage collector find what is forgotten, and gives it back.
func collect(t testing.TB, c *runtime.Context) {
	t.Helper()
	for range 3 {
		goruntime.GC()
		time.Sleep(time.Millisecond)
		require.NoError(t, newEvent(t, c).Close())
	}
}

// copyAndAdd captures a graph of objects that nobody else refers to, and closes them if
// asked to. It doubles what is in the host buffer from 1000 on.
//
//go:noinline
func captureForgotten(t *testing.T, s *runtime.Stream, in, out *runtime.HostBuffer[uint32], closing bool) *runtime.Graph {
	c := s.Context()
	k := kernel(t, c, "add")
	x, y := alloc[uint32](t, s, in.Len()), alloc[uint32](t, s, in.Len())
	g := capture(t, s, func(s *runtime.Stream) error {
		return errors.Join(runtime.UploadHost(s, x.Slice(0, in.Len()), in), addTo(k, s, x, 1000), runtime.Copy(s, y, x), runtime.DownloadHost(s, out, y))
	})
	if closing {
		require.NoError(t, errors.Join(x.Close(), y.Close(), k.Module().Close()))
		assert.ErrorIs(t, addTo(k, s, y, 1), driver.ErrClosed)
		assert.ErrorIs(t, runtime.Zero(s, y), driver.ErrClosed)
	}
	return g
}

// What a graph uses outlives its owner and its Close, and goes with the graph.
func TestGraphKeepsWhatItUses(t *testing.T) {
	for name, closing := range map[string]bool{"forgotten": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
				const n = 1000
				c := contextOf(t, rt)
				s := newStream(t, c)
				in, out := allocHost[uint32](t, c, n), allocHost[uint32](t, c, n)
				copy(in.Data(), count(5, n))
				before := c.Stats()
				g := captureForgotten(t, s, in, out, closing)
				collect(t, c)
				x := instantiate(t, g)
				require.NoError(t, in.Close())
				collect(t, c)
				for range 3 {
					other := alloc[uint32](t, s, n) // would get the memory
					require.NoError(t, runtime.Fill(s, other, 77))
					clear(out.Data())
					require.NoError(t, x.Launch(s))
					synchronize(t, s)
					assert.Equal(t, count(1005, n), out.Data())
					require.NoError(t, other.Close())
				}
				held := c.Stats()
				assert.Equal(t, before.Refs+2, held.Refs)
				assert.Equal(t, before.Modules+1, held.Modules)
				assert.Equal(t, before.HostBuffers, held.HostBuffers)
				require.NoError(t, x.Close())
				if closing {
					after := c.Stats()
					assert.Equal(t, before.Refs, after.Refs)
					assert.Equal(t, before.Modules, after.Modules)
					assert.Equal(t, before.HostBuffers-1, after.HostBuffers)
				}
				eventually(t, "all of it is given back", func() bool {
					collect(t, c)
					after := c.Stats()
					return after.Refs == before.Refs && after.Modules == before.Modules && after.HostBuffers == before.HostBuffers-1
				})
				goruntime.KeepAlive(out)
			})
		})
	}
}

// Forgotten graphs are given back, and what they hold after them.
func TestForgottenGraphs(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		before := c.Stats()
		for range 5 {
			func() {
				k, x := kernel(t, c, "add"), alloc[uint32](t, s, 100)
				graph, err := capture(t, s, adding(k, x, 2, 1)).Instantiate()
				require.NoError(t, err)
				require.NoError(t, graph.Launch(s))
				require.NoError(t, x.Close())
			}()
		}
		eventually(t, "they are given back", func() bool {
			collect(t, c)
			now := c.Stats()
			return now.Graphs+now.GraphExecs == 0 && now.Refs == before.Refs && now.Modules == before.Modules
		})
	})
}

// An update drops what only the arguments before have used.
func TestGraphUpdateDropsWhatItUsed(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		k := kernel(t, c, "add")
		first, second := upload(t, s, count(0, 8)), upload(t, s, count(0, 8))
		x := instantiate(t, capture(t, s, adding(k, first, 1, 1)))
		require.NoError(t, x.Launch(s))
		live := c.Stats().Refs
		require.NoError(t, first.Close())
		assert.Equal(t, live, c.Stats().Refs)
		changed := capture(t, s, adding(k, second, 1, 1))
		require.NoError(t, x.Update(changed))
		assert.Equal(t, live-1, c.Stats().Refs)

		third := upload(t, s, count(0, 8))
		wrong := capture(t, s, adding(k, third, 2, 1))
		require.ErrorIs(t, x.Update(wrong), driver.ResultGraphExecUpdateFailure)
		require.NoError(t, errors.Join(wrong.Close(), third.Close(), changed.Close()))
		assert.Equal(t, live-1, c.Stats().Refs, "a failed update holds nothing")
		require.NoError(t, x.Launch(s))
		assert.Equal(t, count(1, 8), download(t, s, second))
	})
}

// The copy of a graph on one device holds memory of another.
func TestGraphKeepsMemoryOfAnotherDevice(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
		s := newStream(t, a)
		src, dst := upload(t, newStream(t, b), count(3, 100)), alloc[uint32](t, s, 100)
		x := instantiate(t, capture(t, s, func(s *runtime.Stream) error { return runtime.Copy(s, dst, src) }))
		held := b.Stats().Refs
		require.NoError(t, src.Close())
		assert.Equal(t, held, b.Stats().Refs)
		require.NoError(t, x.Launch(s))
		assert.Equal(t, count(3, 100), download(t, s, dst))
		require.NoError(t, x.Close())
		assert.Equal(t, held-1, b.Stats().Refs)
	})
}

// Memory and code go after the graphs that use them, in whatever order they are closed.
func TestGraphsCloseInAnyOrder(t *testing.T) {
	var calls order
	rt, _ := open(t, drivertest.Config{OnCall: calls.note})
	c := contextOf(t, rt)
	s := newStream(t, c)
	make := func() (g *runtime.Graph, x *runtime.GraphExec, b *runtime.Ref[uint32], m *runtime.Module) {
		k := kernel(t, c, "add")
		b = alloc[uint32](t, s, 8)
		g = capture(t, s, adding(k, b, 1, 1))
		x, err := g.Instantiate()
		require.NoError(t, err)
		return g, x, b, k.Module()
	}
	type closer interface{ Close() error }
	for _, pick := range []func(g, x, b, m closer) []closer{
		func(g, x, b, m closer) []closer { return []closer{b, m, g, x} },
		func(g, x, b, m closer) []closer { return []closer{b, m, x, g} },
		func(g, x, b, m closer) []closer { return []closer{g, b, m, x} },
		func(g, x, b, m closer) []closer { return []closer{g, x, b, m} },
		func(g, x, b, m closer) []closer { return []closer{x, b, g, m} },
	} {
		g, x, b, m := make()
		calls.ops = nil
		open := map[closer]bool{g: true, x: true, b: true}
		for _, o := range pick(g, x, b, m) {
			require.NoError(t, o.Close())
			require.NoError(t, o.Close())
			delete(open, o)
			assert.Equal(t, min(len(open), 1), int(c.Stats().Refs), "the memory lives as long as anybody has it")
		}
		var ends []string
		for _, op := range calls.ops {
			switch op {
			case "cuGraphDestroy", "cuGraphExecDestroy", "cuModuleUnload":
				ends = append(ends, op)
			}
		}
		require.Len(t, ends, 3)
		assert.Less(t, slices.Index(ends, "cuGraphExecDestroy"), slices.Index(ends, "cuModuleUnload"), "%v", ends)
	}
	make()
	synchronize(t, newStream(t, c)) // so that there is memory for tickets
	calls.ops = nil
	require.NoError(t, rt.Close())
	assert.Equal(t, []string{"cuCtxSynchronize", "cuStreamSynchronize", "cuMemFree", "cuEventDestroy", "cuMemPoolDestroy", "cuMemFreeHost", "cuGraphDestroy", "cuStreamDestroy",
		"cuGraphExecDestroy", "cuModuleUnload", "cuDevicePrimaryCtxRelease"}, calls.ends())
}

// Closing a graph waits for the device: the graph may run.
func TestClosingAGraphWaitsForTheDevice(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		b := upload(t, s, count(0, 8))
		x := instantiate(t, capture(t, s, adding(kernel(t, c, "add"), b, 1, 1)))
		release := hold(t, s)
		require.NoError(t, x.Launch(s))
		closed := async(x.Close)
		time.Sleep(20 * time.Millisecond)
		assert.Empty(t, closed)
		release()
		require.NoError(t, await(t, "it closes", closed))
		assert.Equal(t, count(1, 8), download(t, s, b))
	})
}
