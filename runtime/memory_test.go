package runtime_test

import (
	"errors"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/refs"
	"github.com/purecuda/purecuda/runtime"
)

// ordered is memory that work on several streams uses.
type ordered struct {
	x, spare *runtime.Ref[uint32] // x begins as 0, 1, 2...
	host     *runtime.HostBuffer[uint32]
	add      *runtime.Kernel
	graph    *runtime.GraphExec // adds 1 to x
}

// writers change every element of x to 7 more than it was, or to 7.
var writers = map[string]func(s *runtime.Stream, o *ordered) error{
	"Upload": func(s *runtime.Stream, o *ordered) error { return runtime.Upload(bg, s, o.x, count(7, o.x.Len())) },
	"UploadHost": func(s *runtime.Stream, o *ordered) error {
		copy(o.host.Data(), count(7, o.x.Len()))
		return runtime.UploadHost(s, o.x, o.host)
	},
	"Copy": func(s *runtime.Stream, o *ordered) error {
		return errors.Join(runtime.Upload(bg, s, o.spare, count(7, o.x.Len())), runtime.Copy(s, o.x, o.spare))
	},
	"Upload2D": func(s *runtime.Stream, o *ordered) error {
		half := o.x.Len() / 2
		return runtime.Upload2D(bg, s, o.x, half, count(7, o.x.Len()), half, half, 2)
	},
	"Copy2D": func(s *runtime.Stream, o *ordered) error {
		half := o.x.Len() / 2
		return errors.Join(runtime.Upload(bg, s, o.spare, count(7, o.x.Len())), runtime.Copy2D(s, o.x, half, o.spare, half, half, 2))
	},
	"Launch": func(s *runtime.Stream, o *ordered) error { return addTo(o.add, s, o.x, 7) },
	"Launch of parts": func(s *runtime.Stream, o *ordered) error {
		half := o.x.Len() / 2
		return errors.Join(addTo(o.add, s, o.x.Slice(0, half), 7), addTo(o.add, s, o.x.Slice(half, o.x.Len()), 7))
	},
	"GraphExec.Launch": func(s *runtime.Stream, o *ordered) error {
		return errors.Join(o.graph.Launch(s), addTo(o.add, s, o.x, 6))
	},
}

// readers give what x holds.
var readers = map[string]func(s *runtime.Stream, o *ordered) ([]uint32, error){
	"Download": func(s *runtime.Stream, o *ordered) ([]uint32, error) {
		got := make([]uint32, o.x.Len())
		return got, runtime.Download(bg, s, got, o.x)
	},
	"DownloadHost": func(s *runtime.Stream, o *ordered) ([]uint32, error) {
		err := errors.Join(runtime.DownloadHost(s, o.host, o.x), s.Synchronize(bg))
		return slices.Clone(o.host.Data()), err
	},
	"Copy": func(s *runtime.Stream, o *ordered) ([]uint32, error) {
		got := make([]uint32, o.x.Len())
		return got, errors.Join(runtime.Copy(s, o.spare, o.x), runtime.Download(bg, s, got, o.spare))
	},
	"Download2D": func(s *runtime.Stream, o *ordered) ([]uint32, error) {
		got, half := make([]uint32, o.x.Len()), o.x.Len()/2
		return got, runtime.Download2D(bg, s, got, half, o.x, half, half, 2)
	},
	"Copy2D": func(s *runtime.Stream, o *ordered) ([]uint32, error) {
		got, half := make([]uint32, o.x.Len()), o.x.Len()/2
		return got, errors.Join(runtime.Copy2D(s, o.spare, half, o.x, half, half, 2), runtime.Download(bg, s, got, o.spare))
	},
	"a view": func(s *runtime.Stream, o *ordered) ([]uint32, error) {
		got := make([]uint32, o.x.Len())
		half := o.x.Len() / 2
		return got, errors.Join(runtime.Download(bg, s, got[:half], o.x.Slice(0, half)), runtime.Download(bg, s, got[half:], o.x.Slice(half, o.x.Len())))
	},
	"Launch": func(s *runtime.Stream, o *ordered) ([]uint32, error) {
		got := make([]uint32, o.x.Len())
		err := errors.Join(addTo(o.add, s, o.x, 100), runtime.Download(bg, s, got, o.x))
		for i := range got {
			got[i] -= 100
		}
		return got, err
	},
}

// Work on another stream finds the new data, and new data does not get to those who
// read before: nobody records an event.
func TestStreamsOrderThemselves(t *testing.T) {
	const n = 500
	check := func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		k := kernel(t, c, "add")
		for writer, write := range writers {
			for reader, read := range readers {
				t.Run(writer+" then "+reader, func(t *testing.T) {
					home, a, b := newStream(t, c), newStream(t, c), newStream(t, c)
					o := &ordered{x: upload(t, home, count(0, n)), spare: alloc[uint32](t, home, n), host: allocHost[uint32](t, c, n), add: k}
					o.graph = instantiate(t, capture(t, home, adding(k, o.x, 1, 1)))
					kept := alloc[uint32](t, a, n)
					for round := range 4 {
						// Two streams write in turns, and what is read on the third one is of the last.
						require.NoError(t, runtime.Upload(bg, home, o.x, count(0, n)))
						require.NoError(t, runtime.Copy(b, kept, o.x))
						require.NoError(t, write(a, o))
						got, err := read(b, o)
						require.NoError(t, err)
						require.Equal(t, count(7, n), got, round)
						require.Equal(t, count(0, n), download(t, a, kept), "what was read before the write")
					}
				})
			}
		}
	}
	t.Run("slow", func(t *testing.T) {
		rt, _ := open(t, drivertest.Config{Chaos: &drivertest.Chaos{Seed: 1, SlowWork: 0.7, MaxDelay: 200 * time.Microsecond}})
		check(t, rt)
	})
	onDrivers(t, check)
}

// The same between devices.
func TestDevicesOrderThemselves(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1000
		a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
		onA, otherA, onB := newStream(t, a), newStream(t, a), newStream(t, b)
		x, y := upload(t, onA, count(0, n)), alloc[uint32](t, onB, n)
		require.NoError(t, runtime.Copy(onB, y, x)) // which sets up the link
		synchronize(t, onB)
		release := hold(t, onA)
		require.NoError(t, runtime.Fill(onA, x, 9))
		require.NoError(t, runtime.Copy(onB, y, x))
		require.NoError(t, runtime.Fill(otherA, x, 3), "which waits for the copy")
		for _, s := range []*runtime.Stream{onB, otherA} {
			done, err := s.Query()
			require.NoError(t, err)
			assert.False(t, done)
		}
		release()
		assert.Equal(t, slices.Repeat([]uint32{9}, n), download(t, onB, y))
		assert.Equal(t, slices.Repeat([]uint32{3}, n), download(t, onA, x))
	})
}

// Work that only reads does not wait for other work that does.
func TestReadersDoNotWaitForEachOther(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		m, err := c.LoadModule(runtime.Image{Code: []byte(threePTX)})
		require.NoError(t, err)
		k, err := m.Kernel("three")
		require.NoError(t, err)
		home, a, b, writer := newStream(t, c), newStream(t, c), newStream(t, c), newStream(t, c)
		x := upload(t, home, count(0, 8))
		own := map[*runtime.Stream]*runtime.Ref[uint32]{a: alloc[uint32](t, a, 8), b: alloc[uint32](t, b, 8), writer: alloc[uint32](t, writer, 8)}
		launch := func(s *runtime.Stream, x runtime.Arg) {
			require.NoError(t, k.Launch(s, one, x, runtime.In(own[s]), runtime.InOut(own[s]), runtime.Value(uint64(8))))
		}
		launch(a, runtime.In(x))
		launch(b, runtime.In(x))
		synchronize(t, a)
		synchronize(t, b)
		release := hold(t, a)
		launch(a, runtime.In(x))
		launch(b, runtime.In(x))
		synchronize(t, b)
		launch(writer, runtime.InOut(x))
		done, err := writer.Query()
		require.NoError(t, err)
		assert.False(t, done, "who writes waits for those who read")
		release()
		synchronize(t, writer)
	})
}

// Close does not wait, and the memory is not used again before the work is done.
func TestCloseIsBehindTheWork(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1000
		c := contextOf(t, rt)
		k := kernel(t, c, "add")
		s, other, third := newStream(t, c), newStream(t, c), newStream(t, c)
		x, result := upload(t, s, count(0, n)), alloc[uint32](t, other, n)
		release := hold(t, s)
		require.NoError(t, addTo(k, s, x, 5))
		require.NoError(t, runtime.Copy(other, result, x))
		require.NoError(t, x.Close())
		require.NoError(t, x.Close())
		assert.Equal(t, uint64(1), c.Stats().Refs)
		// Whoever gets the memory next may write it at once.
		var next []*runtime.Ref[uint32]
		for _, s := range []*runtime.Stream{third, other, s} {
			y := alloc[uint32](t, s, n)
			require.NoError(t, runtime.Fill(s, y, 99))
			next = append(next, y)
		}
		release()
		assert.Equal(t, count(5, n), download(t, other, result))
		for _, y := range next {
			assert.Equal(t, slices.Repeat([]uint32{99}, n), download(t, third, y))
		}
	})
}

// The stream that memory was allocated on may be closed before it.
func TestMemoryOutlivesItsStream(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		k := kernel(t, c, "add")
		for range 3 {
			home, s := newStream(t, c), newStream(t, c)
			x, y := upload(t, home, count(0, 100)), upload(t, home, count(0, 100))
			require.NoError(t, home.LaunchHostFunc(func() { time.Sleep(5 * time.Millisecond) }))
			require.NoError(t, errors.Join(addTo(k, home, x, 1), addTo(k, home, y, 1), home.Close()))
			assert.Equal(t, count(1, 100), download(t, s, x), "work of a closed stream is waited for")
			require.NoError(t, x.Close())
			require.NoError(t, y.Close(), "nobody else has used it")
			require.NoError(t, s.Close())
			assert.Zero(t, c.Stats().Refs)
			assert.Zero(t, c.Stats().Leaked)
		}
		before := c.Stats().Memory
		alloc[uint32](t, newStream(t, c), 100)
		after := c.Stats().Memory
		assert.Equal(t, []uint64{before.Hits + before.Shared + 1, before.Misses}, []uint64{after.Hits + after.Shared, after.Misses}, "the memory comes back")
	})
}

func TestForgottenRefsComeBackAtTheNextAlloc(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	func() {
		view := upload(t, s, count(0, 1000)).Slice(1, 2)
		for range 3 {
			goruntime.GC()
		}
		assert.Equal(t, []uint32{1}, download(t, s, view), "a view keeps the memory")
		_ = view.Retain() // forgotten as well
	}()
	eventually(t, "it is found", func() bool { goruntime.GC(); return c.State().Stats().Waiting == 1 })
	calls := gpu.Calls("cuMemAllocFromPoolAsync")
	x := alloc[uint32](t, s, 1000)
	assert.Equal(t, calls, gpu.Calls("cuMemAllocFromPoolAsync"), "it is what is allocated next")
	assert.Zero(t, c.State().Stats().Waiting)
	require.NoError(t, x.Close())
}

// Refs of a runtime that is closed are stale, and closing them does nothing.
func TestRefsOfAClosedRuntime(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := upload(t, s, count(0, 8))
		view, second := x.Slice(0, 4), x.Retain()
		require.NoError(t, rt.Close())
		for _, r := range []*runtime.Ref[uint32]{x, view, second} {
			_, err := r.Access()
			require.ErrorIs(t, err, driver.ErrRefStale)
			assert.ErrorContains(t, err, "device state closed")
			assert.ErrorIs(t, runtime.Zero(s, r), driver.ErrRefStale)
		}
		_, err := runtime.Alloc[uint32](s, 8)
		assert.ErrorIs(t, err, driver.ErrClosed)
		assert.ErrorIs(t, c.TrimMemory(0), driver.ErrClosed)
		assert.Equal(t, refs.Closed, c.State().Status())
		require.NoError(t, errors.Join(x.Close(), second.Close(), view.Close()))
	})
}

// After a sticky error Refs answer with it at once, whatever was asked for.
func TestRefsOfALostDevice(t *testing.T) {
	rt, gpu := openFaulty(t, twoDevices())
	a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
	onA, onB := newStream(t, a), newStream(t, b)
	x, y := upload(t, onA, count(0, 8)), upload(t, onB, count(0, 8))
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	_, err := onA.Query()
	require.ErrorIs(t, err, driver.ErrDeviceLost)
	calls := allCalls(gpu)
	for _, r := range []*runtime.Ref[uint32]{x, y, x.Slice(0, 2)} {
		_, err := r.Access()
		assert.ErrorIs(t, err, driver.ResultIllegalAddress)
		for _, err := range []error{err, runtime.Copy(onB, y, r), runtime.Zero(onA, r), errorOf(runtime.Alloc[byte](onB, 1))} {
			require.ErrorIs(t, err, driver.ErrDeviceLost)
			assert.ErrorIs(t, err, driver.ResultIllegalAddress, "the first cause")
		}
		assert.NoError(t, r.Close())
	}
	for _, c := range []*runtime.Context{a, b} {
		assert.Equal(t, refs.Lost, c.State().Status())
		assert.ErrorIs(t, c.State().Lost(), driver.ResultIllegalAddress)
		assert.ErrorIs(t, c.TrimMemory(0), driver.ErrDeviceLost)
	}
	assert.Equal(t, calls, allCalls(gpu))
}

func TestWithMemory(t *testing.T) {
	rt, _ := open(t, drivertest.Config{}, runtime.WithMemory(arena.DeviceConfig{CacheBytes: 1 << 20, Limit: 1 << 20, Zero: true}))
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := upload(t, s, count(1, 1000))
	require.NoError(t, x.Close())
	y := alloc[uint32](t, s, 1000)
	assert.Equal(t, make([]uint32, 1000), download(t, s, y), "it is zeroed")
	_, err := runtime.Alloc[byte](s, 2<<20)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	stats := c.Stats().Memory
	assert.Equal(t, [4]uint64{1, 1, 1, 1}, [4]uint64{stats.Misses, stats.Frees, stats.Hits, stats.Failures})
}

// Leaks lists what is open, with the lines of the program that allocated it.
func TestLeaks(t *testing.T) {
	for _, sites := range []bool{false, true} {
		rt, _ := open(t, twoDevices(), runtime.WithMemory(arena.DeviceConfig{Sites: sites}))
		c := contextOf(t, rt)
		s := newStream(t, c)
		assert.Empty(t, c.Leaks())
		x, err := runtime.Alloc[uint32](s, 10)
		require.NoError(t, err)
		y, err := runtime.Alloc[uint32](s, 1000)
		require.NoError(t, err)
		require.NoError(t, y.Close())
		check := func() {
			t.Helper()
			leaks := c.Leaks()
			require.Len(t, leaks, 1)
			assert.Equal(t, x.Core().Ptr(), leaks[0].Ptr)
			assert.EqualValues(t, 40, leaks[0].Bytes)
			if sites {
				assert.Regexp(t, `^memory_test\.go:\d+$`, leaks[0].Site)
			} else {
				assert.Empty(t, leaks[0].Site)
			}
		}
		check()
		require.NoError(t, rt.Close())
		check()
	}
	assert.Empty(t, new(runtime.Context).Leaks())
}

// The limit of page-locked memory is for each context, and where it is too low the driver copies.
func TestWithPinned(t *testing.T) {
	const n = 4 << 20
	for _, limit := range []uint64{0, 1, 64 << 10, 256 << 10, 1 << 20, 64 << 20} {
		rt, _ := open(t, drivertest.Config{}, runtime.WithPinned(arena.PinnedConfig{Limit: limit}))
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := upload(t, s, count(1, n))
		require.Equal(t, count(1, n), download(t, s, x), "limit %d", limit)
		stats := c.Stats()
		if limit == 0 {
			limit = arena.DefaultPinnedLimit
		}
		assert.Equal(t, limit, stats.Pinned.Limit)
		assert.LessOrEqual(t, stats.Pinned.PeakBytes, limit)
		staged := limit >= 256<<10 // four buffers of 64 KiB; smaller ones are of no use
		assert.Equal(t, staged, stats.Pinned.PeakBytes > 0, "limit %d", limit)
		assert.Equal(t, staged, stats.Copier.Staged > 0, "limit %d", limit)
		assert.Equal(t, !staged, stats.Copier.Pageable > 0, "limit %d", limit)
	}
}

// hostAllocations is a driver that remembers the page-locked memory that was allocated last for
// a slot of copies.
type hostAllocations struct {
	*drivertest.Driver
	last atomic.Pointer[byte]
}

func (d *hostAllocations) MemHostAlloc(bytes uint64, flags uint32) (unsafe.Pointer, driver.Result) {
	p, r := d.Driver.MemHostAlloc(bytes, flags)
	if bytes == 256<<10 {
		d.last.Store((*byte)(p))
	}
	return p, r
}

// With Debug a write to a page-locked buffer after its return is found.
func TestWithPinnedDebug(t *testing.T) {
	gpu := &hostAllocations{Driver: drivertest.ForTest(t, drivertest.Config{})}
	var heard []error
	rt := openOn(t, gpu, runtime.WithPinned(arena.PinnedConfig{Debug: true}), runtime.WithErrorHook(func(err error) { heard = append(heard, err) }))
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := upload(t, s, count(1, 1000))
	require.Equal(t, count(1, 1000), download(t, s, x)) // through a buffer
	require.NoError(t, c.TrimPinned(1<<30))             // returns it, and keeps it
	require.Positive(t, c.Stats().Pinned.CachedBytes)
	*gpu.last.Load() = 7
	require.NoError(t, c.TrimPinned(0))
	assert.Zero(t, c.Stats().Pinned.CachedBytes)
	assert.Equal(t, 1, c.Stats().Pinned.Findings)
	require.Len(t, heard, 1)
	assert.Regexp(t, `was written to at byte 0 after it was returned; leased at \w+\.go:\d+, returned at \w+\.go:\d+`, heard[0].Error())
}

// On a driver that checks accesses every allocation is the driver's own, as large as asked,
// so that strays are found: behind the end, and after the end.
func TestMemoryOfACheckingDriver(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	c := contextOf(t, rt)
	s := newStream(t, c)
	k := kernel(t, c, "add")
	x := upload(t, s, count(0, 100))
	past := uint64(x.Core().Ptr())
	require.NoError(t, x.Close())
	require.NoError(t, s.Synchronize(bg))
	assert.Zero(t, c.Stats().Memory.Cached)
	require.NoError(t, k.Launch(s, runtime.Shape1D(100, 32), runtime.Value(past), runtime.Value(uint64(100)), runtime.Value(uint32(1))))
	require.ErrorIs(t, s.Synchronize(bg), driver.ResultIllegalAddress)
	require.Len(t, gpu.Findings(), 1)
	assert.Contains(t, gpu.Findings()[0].Allocation, "400 bytes of device memory")
}

func TestTrimMemory(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		for range 4 {
			x := alloc[byte](t, s, 1<<20)
			defer x.Close()
		}
		y, z := alloc[byte](t, s, 1<<20), alloc[byte](t, s, 1<<20)
		require.NoError(t, errors.Join(runtime.Zero(s, y), y.Close(), z.Close()))
		assert.Equal(t, uint64(2<<20), c.Stats().Memory.Cached)
		require.NoError(t, c.TrimMemory(1<<20))
		assert.Equal(t, uint64(1<<20), c.Stats().Memory.Cached)
		require.NoError(t, c.TrimMemory(0))
		assert.Zero(t, c.Stats().Memory.Cached)
		assert.Equal(t, uint64(4), c.Stats().Refs)
		assert.Equal(t, uint64(6<<20), c.Stats().Memory.HighWater)
	})
}

// A nil Ref and the zero one are refused by everything that takes one.
func TestNoRef(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s, k, h := newStream(t, c), kernel(t, c, "add"), allocHost[uint32](t, c, 1)
	x := alloc[uint32](t, s, 1)
	calls := allCalls(gpu)
	for name, none := range map[string]*runtime.Ref[uint32]{"nil": nil, "zero": new(runtime.Ref[uint32])} {
		for i, err := range []error{
			runtime.Upload(bg, s, none, nil), runtime.Upload(bg, s, none, []uint32{1}), runtime.Download(bg, s, nil, none),
			runtime.UploadHost(s, none, h), runtime.DownloadHost(s, h.Slice(0, 0), none),
			runtime.Copy(s, none, x), runtime.Copy(s, x, none), runtime.Copy(s, none, none), runtime.Fill(s, none, 1), runtime.Zero(s, none),
			runtime.Copy(s, x.Slice(0, 0), none), addTo(k, s, none, 1),
			k.Launch(s, one, runtime.In(none), runtime.Value(uint64(1)), runtime.Value(uint32(1))),
		} {
			require.ErrorIs(t, err, driver.ErrInvalidArgument, "%s %d", name, i)
			assert.ErrorContains(t, err, "never allocated", "%s %d", name, i)
		}
	}
	assert.Equal(t, calls, allCalls(gpu))
}

// Memory of another runtime on the same device is not that of this one.
func TestRefsOfAnotherRuntime(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c, foreign := contextOf(t, rt), contextOf(t, openOn(t, rt.Driver()))
	s := newStream(t, c)
	x, y := alloc[uint32](t, s, 8), alloc[uint32](t, newStream(t, foreign), 8)
	for _, err := range []error{runtime.Zero(s, y), runtime.Copy(s, x, y), runtime.Copy(s, y, x), addTo(kernel(t, c, "add"), s, y, 1)} {
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "the memory on device 0 belongs to another runtime")
	}
	assert.Zero(t, y.Core().State().Stats().Leases)
	x2 := alloc[uint32](t, newStream(t, foreign), 8)
	there := newStream(t, foreign)
	e, err := c.NewTimingEvent()
	require.NoError(t, err)
	begin, err := foreign.NewTimingEvent()
	require.NoError(t, err)
	_, since := e.Since(begin)
	for want, err := range map[string]error{
		"launch on a stream of device 0, and the kernel is loaded on device 0": addTo(kernel(t, c, "add"), there, x2, 1),
		"record an event of device 0 on a stream of device 0":                  e.Record(there),
		"Event.Since of events of device 0 and device 0":                       since,
	} {
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, want+", which belong to two runtimes")
	}
}

// Whoever loses the race with Close is told so, and nothing works on memory that is gone.
func TestCloseWhileOthersUseARef(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		k := kernel(t, c, "add")
		var streams []*runtime.Stream
		for range 4 {
			streams = append(streams, newStream(t, c))
		}
		for range 30 {
			x := alloc[uint32](t, streams[0], 100)
			require.NoError(t, runtime.Zero(streams[0], x))
			var wg sync.WaitGroup
			for i, s := range streams {
				part := x.Slice(25*i, 25*i+25) // nobody orders what happens at the same time
				wg.Go(func() {
					got := make([]uint32, 25)
					for _, use := range []func() error{
						func() error { return addTo(k, s, part, 1) },
						func() error { return runtime.Download(bg, s, got, part) },
						func() error { return runtime.Fill(s, part.Slice(10, 20), 1) },
						func() error { return runtime.Copy(s, part.Slice(0, 10), part.Slice(10, 20)) },
					} {
						if err := use(); err != nil {
							assert.ErrorIs(t, err, driver.ErrClosed)
						}
					}
				})
			}
			wg.Go(func() { assert.NoError(t, x.Close()) })
			wg.Wait()
			assert.ErrorIs(t, runtime.Zero(streams[0], x), driver.ErrClosed)
			assert.Zero(t, c.Stats().Refs)
		}
		assert.Zero(t, c.Stats().Leaked)
	})
}

// A graph is work with its memory as every other: it waits for other streams, and they
// for it.
func TestGraphsOrderThemselves(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 100
		c := contextOf(t, rt)
		k := kernel(t, c, "add")
		home, a, b := newStream(t, c), newStream(t, c), newStream(t, c)
		x, y := upload(t, home, count(0, n)), upload(t, home, count(0, n))
		graph := instantiate(t, capture(t, a, func(s *runtime.Stream) error {
			return errors.Join(addTo(k, s, x, 1), runtime.Copy(s, y, x))
		}))
		update := capture(t, a, func(s *runtime.Stream) error {
			return errors.Join(addTo(k, s, y, 1), runtime.Copy(s, x, y))
		})
		release := hold(t, home)
		require.NoError(t, addTo(k, home, x, 10))
		require.NoError(t, graph.Launch(a))
		require.NoError(t, addTo(k, b, y, 100))
		for _, s := range []*runtime.Stream{a, b} {
			done, err := s.Query()
			require.NoError(t, err)
			assert.False(t, done)
		}
		require.NoError(t, graph.Update(update))
		require.NoError(t, graph.Launch(a))
		release()
		assert.Equal(t, count(112, n), download(t, home, x))
		assert.Equal(t, count(112, n), download(t, home, y))
	})
}

// What another stream does with memory has no part in a capture of the stream that used
// it last.
func TestOtherStreamsWhileOneIsCaptured(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 100
		c := contextOf(t, rt)
		k := kernel(t, c, "add")
		s, other := newStream(t, c), newStream(t, c)
		x, y, gone := upload(t, s, count(0, n)), upload(t, s, count(0, n)), upload(t, other, count(0, n))
		require.NoError(t, addTo(k, s, gone, 1))
		g := capture(t, s, func(s *runtime.Stream) error {
			// x was used on s before the capture, y is used in it.
			return errors.Join(addTo(k, s, y, 1), addTo(k, other, x, 1), addTo(k, other, y, 10), gone.Close(), other.Synchronize(bg))
		})
		nodes, err := g.Nodes()
		require.NoError(t, err)
		assert.Equal(t, 1, nodes)
		assert.Equal(t, count(1, n), download(t, other, x))
		assert.Equal(t, count(10, n), download(t, other, y))
		require.NoError(t, instantiate(t, g).Launch(other))
		assert.Equal(t, count(11, n), download(t, s, y))
	})
}
