package runtime_test

import (
	"errors"
	"math"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/seeds"
	"github.com/purecuda/purecuda/runtime"
)

func TestManaged(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 10_000
		c := contextOf(t, rt)
		s := newStream(t, c)
		m := allocManaged[uint32](t, s, n)
		x, add := alloc[uint32](t, s, n), kernel(t, c, "add")
		assert.Equal(t, n, m.Len())
		assert.Equal(t, n, m.Ref().Len())
		assert.Equal(t, [2]uint64{1, 4 * n}, [2]uint64{c.Stats().Managed, c.Stats().ManagedBytes})

		copy(m.Data(), count(0, n))
		require.NoError(t, errors.Join(m.Prefetch(s), addTo(add, s, m.Ref(), 3), m.PrefetchHost(s)))
		synchronize(t, s)
		require.Equal(t, count(3, n), m.Data())

		m.Data()[1] = 77
		half := m.Slice(0, n/2)
		require.NoError(t, errors.Join(addTo(add, s, half.Ref(), 1), half.Prefetch(s), m.Slice(5, 5).Prefetch(s)))
		assert.Equal(t, []uint32{4, 78}, download(t, s, m.Ref().Slice(0, 2)))
		assert.Equal(t, []uint32{n/2 + 3}, half.Slice(n/4, n/2).Slice(n/4-1, n/4).Data())
		require.NoError(t, errors.Join(half.Close(), runtime.Copy(s, x, m.Ref()), runtime.Upload(bg, s, m.Ref(), count(9, n)), runtime.Fill(s, half.Ref(), 5)))
		assert.Equal(t, []uint32{4, 78, 6}, download(t, s, x)[:3], "copied before the upload")
		assert.Equal(t, []uint32{5, 5, n/2 + 9}, []uint32{m.Data()[0], half.Data()[n/2-1], m.Data()[n/2]}, "Download has waited")

		for _, advice := range []driver.MemAdvice{driver.MemAdviseSetReadMostly, driver.MemAdviseSetPreferredLocation, driver.MemAdviseSetAccessedBy,
			driver.MemAdviseUnsetReadMostly, driver.MemAdviseUnsetPreferredLocation, driver.MemAdviseUnsetAccessedBy} {
			require.NoError(t, errors.Join(m.Advise(c, advice), half.AdviseHost(advice), m.Slice(3, 3).Advise(c, advice)))
		}
		require.NoError(t, errors.Join(m.Close(), m.Close()))
		assert.Zero(t, c.Stats().Managed+c.Stats().ManagedBytes)
		assert.Nil(t, m.Data())
		assert.Nil(t, half.Data())
		for _, err := range []error{m.Prefetch(s), half.PrefetchHost(s), m.Advise(c, driver.MemAdviseSetReadMostly), runtime.Zero(s, half.Ref())} {
			assert.ErrorIs(t, err, driver.ErrClosed)
		}
	})
}

// A prefetch comes behind what writes the memory on other streams, and what writes it later comes behind
// the prefetch. What reads it does not wait for a prefetch.
func TestManagedIsOrdered(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1000
		c := contextOf(t, rt)
		s, other, third := newStream(t, c), newStream(t, c), newStream(t, c)
		m, y, add := allocManaged[uint32](t, s, n), alloc[uint32](t, third, n), kernel(t, c, "add")
		busy := func(s *runtime.Stream) bool {
			done, err := s.Query()
			require.NoError(t, err)
			return !done
		}
		release := hold(t, s)
		require.NoError(t, errors.Join(runtime.Fill(s, m.Ref(), 4), m.PrefetchHost(other), addTo(add, third, m.Ref(), 2)))
		assert.True(t, busy(other) && busy(third))
		release()
		synchronize(t, third)
		assert.Equal(t, []uint32{6, 6}, []uint32{m.Data()[0], m.Data()[n-1]})

		release = hold(t, other)
		x := m.Ref().Retain()
		require.NoError(t, errors.Join(m.Prefetch(other), runtime.Copy(third, y, m.Ref())))
		synchronize(t, third)
		require.NoError(t, runtime.Zero(s, x))
		assert.True(t, busy(s))
		release()
		synchronize(t, s)
		require.NoError(t, x.Close())

		release = hold(t, s)
		require.NoError(t, addTo(add, s, m.Ref(), 1))
		closed := async(m.Close)
		eventually(t, "Close has begun", func() bool { return m.Data() == nil })
		assert.Empty(t, closed, "the kernel has not run")
		release()
		require.NoError(t, await(t, "Close", closed))
		assert.Zero(t, c.Stats().Managed)
	})
}

func TestManagedErrors(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{HostMemory: 1 << 20})
	c := contextOf(t, rt)
	s := newStream(t, c)
	closed := newStream(t, c)
	require.NoError(t, closed.Close())
	m := allocManaged[uint32](t, s, 100)
	elsewhere := contextOf(t, openOn(t, gpu))
	const advice = driver.MemAdviseSetAccessedBy
	var none *runtime.Managed[uint32]
	for _, test := range []struct {
		name string
		err  error
		kind driver.Kind
		text string
	}{
		{"negative", errorOf(runtime.AllocManaged[uint32](s, -1)), driver.ErrInvalidArgument, "-1 elements"},
		{"overflow", errorOf(runtime.AllocManaged[uint64](s, math.MaxInt)), driver.ErrInvalidArgument, ""},
		{"pointers", errorOf(runtime.AllocManaged[*int](s, 1)), driver.ErrInvalidArgument, "pointer"},
		{"too much", errorOf(runtime.AllocManaged[byte](s, 1<<21)), driver.ErrOutOfMemory, "2097152 bytes"},
		{"closed stream", errorOf(runtime.AllocManaged[byte](closed, 1)), driver.ErrClosed, "stream"},
		{"view out of bounds", m.Slice(90, 101).Prefetch(s), driver.ErrInvalidArgument, "slice [90:101] of a Ref of 100 elements"},
		{"view of nothing", none.Slice(0, 0).Prefetch(s), driver.ErrInvalidArgument, "managed memory"},
		{"nil", none.PrefetchHost(s), driver.ErrInvalidArgument, "managed memory"},
		{"zero", new(runtime.Managed[uint32]).Advise(c, advice), driver.ErrInvalidArgument, "managed memory"},
		{"no stream", m.Prefetch(nil), driver.ErrInvalidArgument, "stream"},
		{"zero stream", m.PrefetchHost(new(runtime.Stream)), driver.ErrInvalidArgument, "stream"},
		{"prefetch on a closed stream", m.PrefetchHost(closed), driver.ErrClosed, "stream"},
		{"no context", m.Advise(nil, advice), driver.ErrInvalidArgument, "context"},
		{"unknown advice", m.AdviseHost(99), driver.ErrInvalidArgument, "advice 99: want"},
		{"no advice", m.Advise(c, 0), driver.ErrInvalidArgument, "advice 0: want"},
		{"prefetch of another runtime", m.Prefetch(newStream(t, elsewhere)), driver.ErrInvalidArgument, "belongs to another runtime"},
		{"advice of another runtime", m.Advise(elsewhere, advice), driver.ErrInvalidArgument, "belongs to another runtime"},
	} {
		require.ErrorIs(t, test.err, test.kind, test.name)
		assert.ErrorContains(t, test.err, test.text, test.name)
	}
	assert.Nil(t, none.Data())
	assert.Nil(t, m.Slice(90, 101).Data())
	assert.Zero(t, none.Len())
	require.NoError(t, errors.Join(none.Close(), new(runtime.Managed[uint32]).Close()))
	empty := allocManaged[uint32](t, s, 0)
	assert.Empty(t, empty.Data())
	require.NoError(t, errors.Join(empty.Prefetch(s), empty.Advise(c, advice), runtime.Zero(s, empty.Ref()), empty.Close()))
	assert.EqualValues(t, 1, c.Stats().Managed)

	for name, f := range map[string]func(s *runtime.Stream) error{
		"AllocManaged": func(s *runtime.Stream) error { return errorOf(runtime.AllocManaged[byte](s, 1)) },
		"Prefetch":     m.Prefetch,
		"PrefetchHost": m.PrefetchHost,
	} {
		calls := gpu.Calls("cuMemPrefetchAsync")
		_, err := s.Capture(func(s *runtime.Stream) error { _ = f(s); return nil })
		require.ErrorIs(t, err, driver.ErrCaptureFailed, name)
		assert.ErrorContains(t, err, "while the stream is captured", name)
		assert.Equal(t, calls, gpu.Calls("cuMemPrefetchAsync"))
	}
	require.NoError(t, m.Prefetch(s))
}

// What the driver or the device cannot do is an error that says so, and does no harm.
func TestManagedIsNotSupported(t *testing.T) {
	apart := drivertest.H100()
	apart.Attributes = map[driver.DeviceAttribute]int32{driver.DeviceAttributeConcurrentManagedAccess: 0}
	rt, gpu := open(t, drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.H100(), apart}})
	c, without := contextAt(t, rt, 0), contextAt(t, rt, 1)
	m, s := allocManaged[byte](t, newStream(t, c), 10), newStream(t, without)
	for _, err := range []error{errorOf(runtime.AllocManaged[byte](s, 10)), m.Prefetch(s), m.PrefetchHost(s), m.Advise(without, driver.MemAdviseSetAccessedBy)} {
		require.ErrorIs(t, err, driver.ErrUnsupported)
		assert.ErrorContains(t, err, "the host would crash")
		assert.ErrorContains(t, err, "device 1")
	}
	assert.Equal(t, [3]int{1, 0, 0}, [3]int{gpu.Calls("cuMemAllocManaged"), gpu.Calls("cuMemPrefetchAsync"), gpu.Calls("cuMemAdvise")})

	rt, _ = open(t, drivertest.Config{Version: 12010})
	s = newStream(t, contextOf(t, rt))
	m = allocManaged[byte](t, s, 10)
	for op, err := range map[string]error{"cuMemPrefetchAsync": m.Prefetch(s), "cuMemAdvise": m.AdviseHost(driver.MemAdviseSetReadMostly)} {
		require.ErrorIs(t, err, driver.ErrSymbolMissing)
		assert.ErrorContains(t, err, op+" needs CUDA driver API 12.2, found 12.1")
	}
	copy(m.Data(), "0123456789")
	require.Equal(t, []byte("0123456789"), download(t, s, m.Ref()))
}

// The memory lives as long as a Ref, a view or a graph uses it, also if nobody closes anything.
func TestManagedLives(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 1000
		c := contextOf(t, rt)
		s := newStream(t, c)
		add := kernel(t, c, "add")
		filled := func(value uint32) *runtime.Managed[uint32] {
			m := allocManaged[uint32](t, s, n)
			require.NoError(t, runtime.Fill(s, m.Ref(), value))
			return m
		}
		reset := func() error {
			_, err := c.NewEvent()
			return errors.Join(err, c.Reset(bg))
		}

		m := filled(7)
		x := m.Ref().Retain()
		require.NoError(t, m.Close())
		assert.EqualValues(t, 1, c.Stats().Managed)
		assert.Nil(t, m.Data())
		require.NoError(t, addTo(add, s, x, 1))
		assert.EqualValues(t, 8, download(t, s, x)[n-1])
		require.NoError(t, x.Close())
		collect(t, c)
		assert.Zero(t, c.Stats().Managed, "a Ref of a closed Managed")

		m = filled(2)
		g := capture(t, s, adding(add, m.Ref(), 2, 5))
		require.NoError(t, m.Close())
		exec := instantiate(t, g)
		require.NoError(t, errors.Join(exec.Launch(s), exec.Close()))
		collect(t, c)
		assert.Zero(t, c.Stats().Managed, "a graph")

		x = func() *runtime.Ref[uint32] { return filled(3).Ref() }()
		collect(t, c)
		assert.EqualValues(t, 3, download(t, s, x)[n-1], "a Ref of a forgotten Managed")
		v := func() *runtime.Managed[uint32] { return filled(4).Slice(1, 3) }()
		collect(t, c)
		synchronize(t, s)
		assert.Equal(t, []uint32{4, 4}, v.Data(), "a view of a forgotten Managed")
		require.ErrorContains(t, reset(), "1 HostBuffers or Managed of the context are open", "the view has a slice, and the Ref has none")
		v = nil
		_ = v
		eventually(t, "the view is collected", func() bool { collect(t, c); return c.Stats().Managed == 1 })
		assert.EqualValues(t, 3, download(t, s, x)[0])
		require.NoError(t, reset())
		assert.Equal(t, "context rebuilt", reasonOf(second(x.Access())))
		assert.Zero(t, c.Stats().Managed)
		require.NoError(t, works(c))
	})
}

// A device that is lost takes the pages with it, so that there is no slice any more.
func TestManagedOfALostDevice(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *drivertest.Driver, *runtime.Context){
		"sticky": func(t *testing.T, gpu *drivertest.Driver, c *runtime.Context) {
			gpu.Fail("cuCtxSynchronize", 1, driver.ResultIllegalAddress)
			require.Error(t, c.Synchronize())
		},
		"gone": func(t *testing.T, gpu *drivertest.Driver, c *runtime.Context) {
			gpu.Vanish(c.Device().Ordinal)
			require.Error(t, c.Synchronize())
		},
		"not rebuilt": func(t *testing.T, gpu *drivertest.Driver, c *runtime.Context) {
			c.State().Lose(driver.ResultUnknown)
		},
		"closed": func(t *testing.T, _ *drivertest.Driver, c *runtime.Context) { require.NoError(t, c.Runtime().Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			rt, gpu := openFaulty(t, twoDevices())
			c := contextAt(t, rt, 0)
			s := newStream(t, c)
			m, left := allocManaged[uint32](t, s, 10), allocManaged[uint32](t, s, 10)
			kept := m.Ref().Retain()
			view := m.Slice(0, 5)
			lose(t, gpu, c)
			assert.Nil(t, m.Data())
			assert.Nil(t, view.Data())
			assert.Error(t, m.Prefetch(s))
			assert.Error(t, m.AdviseHost(driver.MemAdviseSetReadMostly))
			require.NoError(t, errors.Join(m.Close(), m.Close(), kept.Close()))
			require.NoError(t, rt.Close())
			require.NoError(t, left.Close())
			assert.Nil(t, left.Data())
		})
	}
}

// A device that is gone comes back once its managed memory is closed.
func TestManagedAndRevive(t *testing.T) {
	rt, gpu := openFaulty(t, twoDevices())
	c := contextAt(t, rt, 0)
	m := allocManaged[uint32](t, newStream(t, c), 10)
	gpu.Vanish(c.Device().Ordinal)
	require.Error(t, c.Synchronize())
	gpu.Return(c.Device().Ordinal)
	require.ErrorContains(t, rt.Revive(bg, c.Device().Ordinal), "close them before")
	require.NoError(t, m.Close())
	require.NoError(t, rt.Revive(bg, c.Device().Ordinal))
	assert.Nil(t, m.Data())
	assert.Zero(t, c.Stats().Managed)
	require.NoError(t, works(c))
	require.NoError(t, rt.Close())
}

// A prefetch goes to another device as well, whose kernels use the memory over the link.
func TestManagedOnTwoDevices(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		const n = 100_000
		here, there := contextAt(t, rt, 0), contextAt(t, rt, 1)
		s, far := newStream(t, here), newStream(t, there)
		m := allocManaged[uint32](t, s, n)
		require.NoError(t, errors.Join(m.Advise(there, driver.MemAdviseSetAccessedBy), runtime.Fill(s, m.Ref(), 3), m.Prefetch(far)))
		x := alloc[uint32](t, far, n)
		require.NoError(t, runtime.Copy(far, x, m.Ref()))
		assert.EqualValues(t, 3, download(t, far, x)[n-1])
		enablePeer(t, there, here)
		add := kernel(t, there, "add")
		release := hold(t, s)
		require.NoError(t, errors.Join(runtime.Fill(s, m.Ref(), 5), m.Prefetch(far), addTo(add, far, m.Ref(), 1), m.PrefetchHost(far)))
		release()
		synchronize(t, far)
		assert.Equal(t, []uint32{6, 6}, []uint32{m.Data()[0], m.Data()[n-1]})
		require.NoError(t, errors.Join(addTo(add, far, m.Ref(), 1), m.Prefetch(far), m.Close()), "Close waits for the other device")
	})
}

// Whichever call of the driver fails, the error tells, and nothing stays behind.
func TestManagedWithFaults(t *testing.T) {
	for _, test := range []struct {
		op     string
		result driver.Result
		leaks  int  // what the driver did not take back
		silent bool // the call may go on without
	}{
		{"cuMemAllocManaged", driver.ResultOutOfMemory, 0, false},
		{"cuMemAllocManaged", driver.ResultUnknown, 0, false},
		{"cuMemPrefetchAsync", driver.ResultUnknown, 0, false},
		{"cuMemAdvise", driver.ResultInvalidValue, 0, false},
		{"cuLaunchKernel", driver.ResultUnknown, 0, false},
		{"cuMemFree", driver.ResultUnknown, 1, false},
		{"cuCtxPushCurrent", driver.ResultUnknown, 0, true},
	} {
		for nth := 1; ; nth++ {
			rt, gpu := openFaulty(t, drivertest.Config{})
			c := contextOf(t, rt)
			s, add := newStream(t, c), kernel(t, c, "add")
			calls := gpu.Calls(test.op)
			gpu.Fail(test.op, nth, test.result)
			err := useManaged(c, s, add)
			struck := gpu.Calls(test.op)-calls >= nth
			if !struck {
				require.NoError(t, err, "%s %d", test.op, nth)
			} else if err != nil || !test.silent {
				require.ErrorIs(t, err, test.result, "%s %d", test.op, nth)
			}
			collect(t, c)
			assert.Zero(t, c.Stats().Managed+c.Stats().Refs, "%s %d", test.op, nth)
			require.NoError(t, rt.Close())
			if struck {
				assert.Len(t, gpu.Leaks(), test.leaks, "%s %d", test.op, nth)
				assert.Empty(t, gpu.Findings(), "%s %d", test.op, nth)
				continue
			}
			assert.Greater(t, nth, 1, test.op)
			break
		}
	}
}

func useManaged(c *runtime.Context, s *runtime.Stream, add *runtime.Kernel) (err error) {
	var scope runtime.Scope
	defer func() { err = errors.Join(err, scope.Close()) }()
	m := runtime.Keep(runtime.AllocManaged[uint32](s, 100))(&scope)
	if err := scope.Err(); err != nil {
		return err
	}
	clear(m.Data())
	for _, do := range []func() error{
		func() error { return m.Advise(c, driver.MemAdviseSetPreferredLocation) },
		func() error { return m.Prefetch(s) },
		func() error { return addTo(add, s, m.Ref(), 1) },
		func() error { return m.PrefetchHost(s) },
		func() error { return s.Synchronize(bg) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	if m.Data()[99] != 1 {
		return errors.New("the kernel has not run")
	}
	return nil
}

// A context that stops its intake while the driver allocates leaves nothing behind.
func TestManagedWhileTheContextShutsDown(t *testing.T) {
	var stop func()
	rt, gpu := open(t, drivertest.Config{OnCall: func(op string) driver.Result {
		if op == "cuMemAllocManaged" {
			stop()
		}
		return driver.Success
	}})
	c := contextOf(t, rt)
	s := newStream(t, c)
	stop = c.State().Suspend
	_, err := runtime.AllocManaged[byte](s, 100)
	require.ErrorIs(t, err, driver.ErrRefStale)
	assert.Equal(t, [2]int{1, 1}, [2]int{gpu.Calls("cuMemAllocManaged"), gpu.Calls("cuMemFree")})
	assert.Zero(t, c.Stats().Managed)
	require.True(t, c.State().Resume())
	require.NoError(t, works(c))
}

// Goroutines use managed memory on two devices beside each other, and close it at any time. Each finds its
// own elements, and in the end nothing is left.
func TestManagedCampaign(t *testing.T) {
	seeds.Each(t, seeds.Count(6, 24, 24), func(t *testing.T, seed uint64) {
		rt, _ := open(t, twoDevices())
		adds := map[*runtime.Context]*runtime.Kernel{}
		for i := range 2 {
			c := contextAt(t, rt, i)
			enablePeer(t, c, contextAt(t, rt, 1-i))
			adds[c] = kernel(t, c, "add")
		}
		var all sync.WaitGroup
		for g := range uint64(3) {
			all.Go(func() { assert.NoError(t, manageAtRandom(rt, adds, rand.New(rand.NewPCG(seed, g)))) })
		}
		all.Go(goruntime.GC) // finds what is forgotten meanwhile
		all.Wait()
		for _, c := range rt.Contexts() {
			for tries := 0; c.Stats().Managed+c.Stats().Refs > 0 && tries < 10; tries++ { // a collection takes most of the time of a seed
				collect(t, c)
			}
			assert.Zero(t, c.Stats().Managed)
			assert.Zero(t, c.Stats().Refs)
		}
	})
}

func manageAtRandom(rt *runtime.Runtime, adds map[*runtime.Context]*runtime.Kernel, chance *rand.Rand) error {
	contexts := rt.Contexts()
	var streams []*runtime.Stream
	for _, c := range contexts {
		s, err := c.NewStream()
		if err != nil {
			return err
		}
		streams = append(streams, s)
	}
	defer func() { _ = errors.Join(streams[0].Close(), streams[1].Close()) }()
	for range 5 {
		n, home := 1+chance.IntN(3000), chance.IntN(2)
		m, err := runtime.AllocManaged[uint32](streams[home], n)
		if err != nil {
			return err
		}
		first := chance.Uint32N(1 << 20)
		copy(m.Data(), count(first, n))
		for range 8 {
			s := streams[chance.IntN(2)]
			switch chance.IntN(6) {
			case 0:
				err = m.Prefetch(s)
			case 1:
				err = m.Slice(0, 1+chance.IntN(n)).PrefetchHost(s)
			case 2:
				err = m.Advise(s.Context(), driver.MemAdvice(1+chance.IntN(6)))
			case 3, 4:
				first++
				err = addTo(adds[s.Context()], s, m.Ref(), 1)
			case 5:
				if err = errors.Join(streams[0].Synchronize(bg), streams[1].Synchronize(bg)); err == nil && m.Data()[n-1] != first+uint32(n)-1 {
					err = errors.New("an element of somebody else")
				}
			}
			if err != nil {
				return errors.Join(err, m.Close())
			}
		}
		x := m.Ref().Retain()
		if chance.IntN(2) == 0 {
			err = m.Close()
		}
		data, failed := runtime.DownloadNew(bg, streams[home], x)
		if err = errors.Join(err, failed, x.Close(), m.Close()); err != nil {
			return err
		}
		if data[0] != first || data[n-1] != first+uint32(n)-1 {
			return errors.New("another element")
		}
	}
	return nil
}
