package arena_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
)

// behind is a block of 4 KiB with work of two streams that were closed and destroyed. The
// work of the first goes on until it is released.
type behind struct {
	*machine
	gpu      *drivertest.Driver
	d        *arena.Device
	b        arena.Block
	ptr      driver.DevicePtr
	s1, s2   *arena.Stream
	o        *arena.Stream // open
	released func()        // and done
}

func newBehind(t *testing.T, c arena.DeviceConfig) *behind {
	gpu := drivertest.ForTest(t, drivertest.Config{})
	m := newMachine(t, gpu)
	d := m.device(t, c)
	x := &behind{machine: m, gpu: gpu, d: d, o: m.stream(t, d), s1: d.NewStream(m.handle(t)), s2: d.NewStream(m.handle(t))}
	x.b = allocate(t, x.s1, 4096)
	x.ptr = x.b.Ptr()
	require.Equal(t, driver.Success, m.API.StreamSynchronize(x.s1.Handle())) // s2 may use it
	release := hold(t, m, x.s1.Handle())
	// A host function behind the work tells when it is done: the streams are gone by then.
	fill(t, m, x.s1, x.b, 1)
	var done sync.WaitGroup
	done.Add(1)
	require.Equal(t, driver.Success, m.API.LaunchHostFunc(x.s1.Handle(), done.Done))
	fill(t, m, x.s2, x.b, 2)
	require.Equal(t, driver.Success, m.API.StreamSynchronize(x.s2.Handle()))
	for _, s := range []*arena.Stream{x.s1, x.s2} {
		require.NoError(t, s.Close())
		require.Equal(t, driver.Success, destroy(m, s.Handle()))
	}
	x.released = func() {
		release()
		done.Wait()
		time.Sleep(5 * time.Millisecond) // until the guard, which is behind it, has passed
	}
	t.Cleanup(release)
	return x
}

// TestDeviceFreeAfter: a block is kept out of use as long as work of closed streams uses it,
// and nobody waits.
func TestDeviceFreeAfter(t *testing.T) {
	for _, noPools := range []bool{false, true} {
		x := newBehind(t, arena.DeviceConfig{NoPools: noPools})
		waits := x.gpu.Calls("cuStreamWaitEvent")
		require.NoError(t, x.d.FreeAfter(x.b, x.s1, x.s2, x.s1))
		assert.ErrorIs(t, x.d.FreeAfter(x.b, x.s1), driver.ErrInvalidArgument)
		assert.ErrorIs(t, x.o.Free(x.b), driver.ErrInvalidArgument)
		stats := exact(t, x.d)
		assert.Zero(t, stats.InUse)
		assert.Equal(t, uint64(4096), stats.Cached)
		assert.Equal(t, uint64(1), stats.Frees)
		assert.Equal(t, 2, stats.Streams, "o, and s1 with its work")

		other := allocate(t, x.o, 4096)
		assert.NotEqual(t, x.ptr, other.Ptr())
		x.released()
		next := allocate(t, x.o, 4096)
		assert.Equal(t, x.ptr, next.Ptr(), "a miss looks for it")
		assert.Equal(t, uint64(1), exact(t, x.d).Shared)
		assert.Equal(t, waits, x.gpu.Calls("cuStreamWaitEvent"))
		require.NoError(t, x.d.FreeAfter(other)) // behind nothing
		require.NoError(t, x.d.FreeAfter(next, x.s1, x.s2))
		assert.Equal(t, 1, exact(t, x.d).Streams)
		last := allocate(t, x.o, 4096)
		require.NoError(t, x.o.Free(last))
		assert.Equal(t, uint64(2), exact(t, x.d).Shared)
		assert.Empty(t, x.complaints())
	}
}

// TestDeviceFreeAfterOpen: the work that counts is that of the call.
func TestDeviceFreeAfterOpen(t *testing.T) {
	m := newMachine(t, drivertest.ForTest(t, drivertest.Config{}))
	d := m.device(t, arena.DeviceConfig{})
	s, o := m.stream(t, d), m.stream(t, d)
	b := allocate(t, s, 4096)
	ptr := b.Ptr()
	first := hold(t, m, s.Handle())
	defer first()
	require.NoError(t, d.FreeAfter(b, s, o))
	second := hold(t, m, s.Handle())
	defer second()
	first()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		next := allocate(t, o, 4096)
		defer o.Free(next)
		if next.Ptr() == ptr {
			second()
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the block waits for later work")
}

// TestDeviceFreeAfterFails: what cannot be given back stays in use.
func TestDeviceFreeAfterFails(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	t.Cleanup(func() { _ = gpu.Close() })
	m := newMachine(t, gpu)
	d := must[*arena.Device](t)(arena.NewDevice(m.Binding, arena.DeviceConfig{}))
	d2 := m.device(t, arena.DeviceConfig{})
	s, o := d.NewStream(m.handle(t)), d.NewStream(m.handle(t))
	b := allocate(t, s, 4096)
	release := hold(t, m, s.Handle())
	defer release()

	assert.ErrorIs(t, d.FreeAfter(arena.Block{}, s), driver.ErrInvalidArgument)
	assert.ErrorIs(t, d2.FreeAfter(b, s), driver.ErrInvalidArgument)
	assert.ErrorIs(t, d.FreeAfter(b, s, nil), driver.ErrInvalidArgument)
	gpu.Fail("cuEventRecord", 1, driver.ResultUnknown)
	assert.ErrorIs(t, d.FreeAfter(b, s), driver.ResultUnknown)
	gpu.Fail("cuEventRecord", 1, driver.ResultUnknown)
	require.ErrorIs(t, s.Close(), driver.ResultUnknown)
	assert.ErrorContains(t, d.FreeAfter(b, o, s), "cannot be proven")
	require.True(t, b.Valid())
	assert.Equal(t, uint64(4096), exact(t, d).InUse)
	release()
	require.Error(t, d.Close(), "it is lost")
	assert.ErrorIs(t, d.FreeAfter(b), driver.ErrClosed)
	assert.Equal(t, uint64(1), exact(t, d).LostBlocks)
}

// TestDeviceFreeAfterLimits: what is kept may be more than the cache should hold, until the
// work is done; Trim, the limit and Close wait for it.
func TestDeviceFreeAfterLimits(t *testing.T) {
	t.Run("cache", func(t *testing.T) {
		x := newBehind(t, arena.DeviceConfig{CacheBytes: arena.NoCache})
		require.NoError(t, x.d.FreeAfter(x.b, x.s1))
		assert.Equal(t, uint64(4096), exact(t, x.d).Cached)
		require.NoError(t, x.o.Free(allocate(t, x.o, 512)))
		assert.Equal(t, uint64(4096), exact(t, x.d).Cached)
		x.released()
		require.NoError(t, x.d.NewStream(x.o.Handle()).Close()) // polls the closed streams
		assert.Zero(t, exact(t, x.d).Held)
		b := allocate(t, x.o, 512)
		require.NoError(t, x.d.FreeAfter(b, x.s1))
		assert.Zero(t, exact(t, x.d).Held)
	})
	t.Run("trim", func(t *testing.T) {
		x := newBehind(t, arena.DeviceConfig{})
		require.NoError(t, x.d.FreeAfter(x.b, x.s1))
		time.AfterFunc(time.Millisecond, x.released)
		require.NoError(t, x.d.Trim(0))
		assert.Zero(t, exact(t, x.d).Held)
	})
	t.Run("limit", func(t *testing.T) {
		x := newBehind(t, arena.DeviceConfig{Limit: 4096})
		require.NoError(t, x.d.FreeAfter(x.b, x.s1))
		time.AfterFunc(time.Millisecond, x.released)
		require.NoError(t, x.o.Free(allocate(t, x.o, 2048)))
	})
	t.Run("out of memory", func(t *testing.T) {
		x := newBehind(t, arena.DeviceConfig{})
		require.NoError(t, x.d.FreeAfter(x.b, x.s1))
		time.AfterFunc(time.Millisecond, x.released)
		x.gpu.Fail("cuMemAllocFromPoolAsync", 1, driver.ResultOutOfMemory)
		require.NoError(t, x.o.Free(allocate(t, x.o, 2048)))
		assert.Equal(t, uint64(2048), exact(t, x.d).Held)
	})
	t.Run("close", func(t *testing.T) {
		x := newBehind(t, arena.DeviceConfig{})
		require.NoError(t, x.d.FreeAfter(x.b, x.s1, x.s2))
		time.AfterFunc(time.Millisecond, x.released)
		require.NoError(t, x.d.Close())
		stats := exact(t, x.d)
		assert.Zero(t, stats.Held+stats.Lost+uint64(stats.Streams))
	})
}

// TestDeviceFreeAfterLost: once CUDA is lost everything is.
func TestDeviceFreeAfterLost(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	t.Cleanup(func() { _ = gpu.Close() })
	m := newMachine(t, gpu)
	d := must[*arena.Device](t)(arena.NewDevice(m.Binding, arena.DeviceConfig{}))
	s := d.NewStream(m.handle(t))
	b, c := allocate(t, s, 4096), allocate(t, s, 4096)
	defer hold(t, m, s.Handle())()
	require.NoError(t, d.FreeAfter(b, s))
	d.Lose(nil)
	assert.Equal(t, uint64(4096), exact(t, d).Lost)
	require.NoError(t, d.FreeAfter(c, s))
	assert.ErrorIs(t, d.FreeAfter(c, s), driver.ErrInvalidArgument)
	stats := exact(t, d)
	assert.Zero(t, stats.Held)
	assert.Equal(t, uint64(2), stats.LostBlocks)
	require.NoError(t, d.Close())
}

// TestDeviceFreeAfterFar: work of another device counts, whatever becomes of that one.
func TestDeviceFreeAfterFar(t *testing.T) {
	for _, becomes := range []string{"done", "closed", "lost"} {
		for _, open := range []bool{false, true} {
			t.Run(becomes, func(t *testing.T) {
				gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
				t.Cleanup(func() { _ = gpu.Close() })
				m, m1 := machineAt(t, gpu, 0, false), machineAt(t, gpu, 1, false)
				d := m.device(t, arena.DeviceConfig{})
				d1 := must[*arena.Device](t)(arena.NewDevice(m1.Binding, arena.DeviceConfig{}))
				s, far := m.stream(t, d), d1.NewStream(m1.handle(t))
				b := allocate(t, s, 4096)
				ptr := b.Ptr()
				release := hold(t, m1, far.Handle())
				defer release()
				if !open {
					require.NoError(t, far.Close())
				}
				require.NoError(t, d.FreeAfter(b, s, far))
				next := allocate(t, s, 4096)
				require.NotEqual(t, ptr, next.Ptr())
				if becomes == "lost" {
					d1.Lose(nil)
				} else {
					release()
				}
				if becomes == "closed" {
					require.NoError(t, d1.Close())
				}
				if becomes == "done" || becomes == "closed" && !open {
					require.Equal(t, driver.Success, m1.API.StreamSynchronize(far.Handle()), becomes)
				}
				require.Equal(t, driver.Success, m.API.StreamSynchronize(s.Handle()))
				require.NoError(t, d.Trim(1<<20)) // polls the closed streams
				stats := exact(t, d)
				if becomes == "lost" {
					assert.Equal(t, uint64(4096), stats.Lost)
				} else {
					again := allocate(t, s, 4096)
					assert.Equal(t, ptr, again.Ptr())
					require.NoError(t, s.Free(again))
				}
				require.NoError(t, s.Free(next))
				require.NoError(t, d1.Close())
			})
		}
	}
}

// TestDeviceAllocDuringClose: what was allocated before or while the device was closed is
// stale after, since its memory went back.
func TestDeviceAllocDuringClose(t *testing.T) {
	rounds := seeds.Count(60, 300, 300)
	gpu := drivertest.ForTest(t, drivertest.Config{})
	m := newMachine(t, gpu)
	for i := range rounds {
		d := must[*arena.Device](t)(arena.NewDevice(m.Binding, arena.DeviceConfig{Zero: i%2 == 0, Sites: i%2 == 1}))
		h := m.handle(t)
		s := d.NewStream(h)
		var some []arena.Block
		for range 64 {
			some = append(some, allocate(t, s, 512))
		}
		for _, b := range some {
			require.NoError(t, s.Free(b))
		}
		var started atomic.Int32
		var blocks [2][]arena.Block
		var group sync.WaitGroup
		for g := range blocks {
			group.Go(func() {
				for {
					b, err := s.Alloc(512)
					if err != nil {
						return
					}
					started.Add(1)
					blocks[g] = append(blocks[g], b)
				}
			})
		}
		for started.Load() < int32(i%64) {
			time.Sleep(time.Microsecond)
		}
		require.NoError(t, d.Close())
		group.Wait()
		for _, b := range append(blocks[0], blocks[1]...) {
			require.False(t, b.Valid())
		}
		assert.Zero(t, exact(t, d).Held)
		require.Equal(t, driver.Success, destroy(m, h))
	}
}
