package arena_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

const page = 2 << 20 // of the simulated driver

func newRange(t testing.TB, d *arena.Device, most uint64) *arena.Range {
	t.Helper()
	return must[*arena.Range](t)(d.NewRange(most))
}

// mapped is how many bytes of the device the memory of ranges takes.
func mapped(t testing.TB, d *arena.Device) uint64 {
	t.Helper()
	return exact(t, d).InUse
}

func TestRangeTakesPages(t *testing.T) {
	m := newMachine(t, drivertest.ForTest(t, drivertest.Config{}))
	d := m.device(t, arena.DeviceConfig{Sites: true})
	r := newRange(t, d, 3*page+1)
	assert.Zero(t, mapped(t, d))
	for _, step := range []struct{ bytes, requested, inUse uint64 }{
		{0, 0, 0}, {1, 1, page}, {0, 1, page}, {page, page, page}, {page + 1, page + 1, 2 * page}, {3*page + 1, 3*page + 1, 4 * page},
		{4 * page, 4 * page, 4 * page},
	} {
		require.NoError(t, r.Grow(step.bytes))
		stats := exact(t, d)
		assert.Equal(t, step.requested, stats.Requested)
		assert.Equal(t, step.inUse, stats.InUse)
	}
	err := r.Grow(4*page + 1)
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	assert.ErrorContains(t, err, "it has addresses for 8388608")
	leak := d.Leaks()
	require.Len(t, leak, 1)
	assert.Equal(t, arena.Leak{Ptr: r.Ptr(), Bytes: 4 * page, Size: 4 * page, Site: leak[0].Site}, leak[0])
	assert.Contains(t, leak[0].Site, "range_test.go")
	require.NoError(t, r.FreeAfter())
	assert.ErrorIs(t, r.FreeAfter(), driver.ErrInvalidArgument)
	assert.ErrorIs(t, r.Grow(1), driver.ErrClosed)
	stats := exact(t, d)
	assert.Zero(t, stats.Held)
	assert.Equal(t, [2]uint64{3, 3}, [2]uint64{stats.DriverAllocs, stats.DriverFrees})
}

// A range goes back after the work of all streams that it is told of, and those who need memory wait for that.
func TestRangeIsFreedAfterItsWork(t *testing.T) {
	for name, next := range map[string]func(t *testing.T, m *machine, d *arena.Device, s *arena.Stream){
		"another stream": func(t *testing.T, m *machine, d *arena.Device, s *arena.Stream) {
			synchronized(t, m, s)
			m.stream(t, d)
		},
		"trim":  func(t *testing.T, _ *machine, d *arena.Device, _ *arena.Stream) { require.NoError(t, d.Trim(0)) },
		"limit": func(t *testing.T, _ *machine, d *arena.Device, s *arena.Stream) { keep(t, s, 8*page) },
		"close": func(t *testing.T, _ *machine, d *arena.Device, s *arena.Stream) { require.NoError(t, d.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, drivertest.ForTest(t, drivertest.Config{}))
			d := m.device(t, arena.DeviceConfig{Limit: 8 * page})
			s, o := m.stream(t, d), m.stream(t, d)
			r := newRange(t, d, 8*page)
			require.NoError(t, r.Grow(8*page))
			release := make(chan struct{})
			require.NoError(t, m.Do(func() error {
				if r := m.API.LaunchHostFunc(s.Handle(), func() { <-release }); r != driver.Success {
					return driver.Failed("cuLaunchHostFunc", r)
				}
				return m.Failed("cuMemsetD8Async", m.MemsetD8Async(r.Ptr(), 1, 8*page, s.Handle()))
			}))
			require.NoError(t, r.FreeAfter(s, o))
			stats := exact(t, d)
			assert.Equal(t, [2]uint64{0, 8 * page}, [2]uint64{stats.InUse, stats.Cached}, "the work has it")
			m.stream(t, d)
			assert.EqualValues(t, 8*page, exact(t, d).Cached, "still")
			close(release)
			next(t, m, d, s)
			assert.Zero(t, exact(t, d).Cached)
			assert.Empty(t, m.complaints())
		})
	}
}

func synchronized(t testing.TB, m *machine, s *arena.Stream) {
	t.Helper()
	require.NoError(t, m.Do(func() error { return m.Failed("cuStreamSynchronize", m.API.StreamSynchronize(s.Handle())) }))
}

// keep allocates and frees again.
func keep(t testing.TB, s *arena.Stream, bytes uint64) {
	t.Helper()
	require.NoError(t, s.Free(allocate(t, s, bytes)))
	require.NoError(t, s.Device().Trim(0))
}

// Where a call fails, the range is as it was before, nothing is left behind, and it grows later.
func TestRangeAndCallsThatFail(t *testing.T) {
	for _, c := range []struct {
		op     string
		result driver.Result
		times  int
		kind   driver.Kind
	}{
		{"cuMemCreate", driver.ResultUnknown, 1, driver.ErrDriverCallFailed},
		{"cuMemCreate", driver.ResultOutOfMemory, 1, ""}, // once more after the cache is empty
		{"cuMemCreate", driver.ResultOutOfMemory, 2, driver.ErrOutOfMemory},
		{"cuMemMap", driver.ResultUnknown, 1, driver.ErrDriverCallFailed},
		{"cuMemSetAccess", driver.ResultUnknown, 1, driver.ErrDriverCallFailed},
		{"cuMemSetAccess", driver.ResultOutOfMemory, 1, driver.ErrOutOfMemory},
	} {
		for _, begun := range []uint64{0, page + 5} {
			t.Run(fmt.Sprint(c.op, c.result, c.times, begun), func(t *testing.T) {
				gpu := drivertest.ForTest(t, drivertest.Config{})
				m := newMachine(t, gpu)
				d := m.device(t, arena.DeviceConfig{})
				r := newRange(t, d, 8*page)
				require.NoError(t, r.Grow(begun))
				before := exact(t, d)
				for range c.times {
					gpu.Fail(c.op, 1, c.result)
				}
				if c.times == 2 {
					gpu.Fail(c.op, 2, c.result)
				}
				err := r.Grow(4 * page)
				if c.kind == "" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, c.kind)
					after := exact(t, d)
					assert.Equal(t, [3]uint64{before.InUse, before.Requested, before.Held}, [3]uint64{after.InUse, after.Requested, after.Held})
					assert.EqualValues(t, 1, after.Failures)
					assert.Zero(t, after.Lost)
				}
				require.NoError(t, r.Grow(5*page))
				assert.EqualValues(t, 5*page, exact(t, d).Requested)
				require.NoError(t, r.FreeAfter())
				assert.Empty(t, m.complaints())
			})
		}
	}
}

// What the driver does not take back is lost, and counted.
func TestRangeThatTheDriverDoesNotTakeBack(t *testing.T) {
	for name, c := range map[string]struct {
		fail    func(gpu *drivertest.Driver)
		grows   bool   // again
		lost    uint64 // then, and at the end
		endLost uint64
		leaks   int // of the driver
	}{
		"handle": {func(gpu *drivertest.Driver) { gpu.Fail("cuMemRelease", 1, driver.ResultUnknown) }, true, page, page, 1},
		"mapping": {func(gpu *drivertest.Driver) {
			gpu.Fail("cuMemSetAccess", 1, driver.ResultUnknown)
			gpu.Fail("cuMemUnmap", 1, driver.ResultUnknown)
		}, false, 0, 0, 0},
		"mapping at the end": {func(gpu *drivertest.Driver) {
			gpu.Fail("cuMemSetAccess", 1, driver.ResultUnknown)
			gpu.Fail("cuMemUnmap", 1, driver.ResultUnknown)
			gpu.Fail("cuMemUnmap", 2, driver.ResultUnknown)
		}, false, 0, 2 * page, 3},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := drivertest.New(drivertest.Config{})
			m := newMachine(t, gpu)
			d := m.device(t, arena.DeviceConfig{})
			r := newRange(t, d, 8*page)
			require.NoError(t, r.Grow(page))
			c.fail(gpu)
			require.ErrorIs(t, r.Grow(2*page), driver.ErrDriverCallFailed)
			assert.Equal(t, c.lost, exact(t, d).Lost)
			require.NoError(t, r.Grow(page))
			if err := r.Grow(2 * page); c.grows {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, "cannot grow any more")
			}
			require.NoError(t, r.FreeAfter())
			stats := exact(t, d)
			assert.Equal(t, c.endLost, stats.Lost)
			assert.Zero(t, stats.Held)
			assert.Len(t, virtualLeaks(gpu), c.leaks)
		})
	}
}

// virtualLeaks are the leaks of addresses, and of memory for them.
func virtualLeaks(gpu *drivertest.Driver) []string {
	return slices.DeleteFunc(gpu.Leaks(), func(leak string) bool {
		return !strings.Contains(leak, "reserved") && !strings.Contains(leak, "mapped") && !strings.Contains(leak, "physical")
	})
}

func TestRangeThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		gpu  func() *drivertest.Driver
		most uint64
		kind driver.Kind
	}{
		"nothing":  {func() *drivertest.Driver { return drivertest.New(drivertest.Config{}) }, 0, driver.ErrInvalidArgument},
		"too much": {func() *drivertest.Driver { return drivertest.New(drivertest.Config{}) }, 1<<47 + 1, driver.ErrInvalidArgument},
		"no virtual memory": {func() *drivertest.Driver {
			c := drivertest.T4()
			c.Attributes = map[driver.DeviceAttribute]int32{driver.DeviceAttributeVirtualAddressManagementSupported: 0}
			return drivertest.New(drivertest.Config{Devices: []drivertest.DeviceConfig{c}})
		}, 1, driver.ErrUnsupported},
		"old driver": {func() *drivertest.Driver {
			return drivertest.New(drivertest.Config{Missing: []string{"cuMemGetAllocationGranularity"}})
		}, 1, driver.ErrSymbolMissing},
		"the attribute fails": {failing("cuDeviceGetAttribute", driver.ResultUnknown, 2), 1, driver.ErrDriverCallFailed},
		"the device fails":    {failing("cuDeviceGet", driver.ResultUnknown, 3), 1, driver.ErrDriverCallFailed},
		"the page fails":      {failing("cuMemGetAllocationGranularity", driver.ResultUnknown, 1), 1, driver.ErrDriverCallFailed},
		"the address fails":   {failing("cuMemAddressReserve", driver.ResultUnknown, 1), 1, driver.ErrDriverCallFailed},
		"no addresses":        {failing("cuMemAddressReserve", driver.ResultOutOfMemory, 1), 1 << 46, driver.ErrOutOfMemory},
	} {
		t.Run(name, func(t *testing.T) {
			gpu := c.gpu()
			m := newMachine(t, gpu)
			d := m.device(t, arena.DeviceConfig{})
			_, err := d.NewRange(c.most)
			assert.ErrorIs(t, err, c.kind)
			assert.Zero(t, exact(t, d).Held)
			require.NoError(t, d.Close())
			assert.Len(t, gpu.Leaks(), 1, "the context, which the test has")
			_, err = d.NewRange(1)
			assert.Error(t, err)
		})
	}
	var r *arena.Range
	assert.ErrorIs(t, errors.Join(r.Grow(1), r.FreeAfter()), driver.ErrInvalidArgument)
	assert.Zero(t, r.Ptr())
}

func failing(op string, result driver.Result, nth int) func() *drivertest.Driver {
	return func() *drivertest.Driver {
		gpu := drivertest.New(drivertest.Config{})
		gpu.Fail(op, nth, result)
		return gpu
	}
}

// Many goroutines grow one range: each gets what it asked for, and nothing is mapped twice.
func TestRangeGrowsOnManyGoroutines(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{})
	m := newMachine(t, gpu)
	d := m.device(t, arena.DeviceConfig{})
	s := m.stream(t, d)
	r := newRange(t, d, 64*page)
	var all sync.WaitGroup
	for g := range uint64(8) {
		all.Go(func() {
			for i := g; i < 64; i += 1 + g%3 {
				assert.NoError(t, r.Grow((i+1)*page))
				assert.NoError(t, m.Failed("cuMemsetD8Async", memset(m, r.Ptr()+driver.DevicePtr(i*page), s)))
				exact(t, d)
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, 64*page, mapped(t, d))
	require.NoError(t, r.FreeAfter(s))
}

func memset(m *machine, at driver.DevicePtr, s *arena.Stream) (r driver.Result) {
	_ = m.Do(func() error {
		r = m.MemsetD8Async(at, 1, page, s.Handle())
		return nil
	})
	return r
}

// Ranges are open to devices that reach the memory of the arena, before and after they grow.
func TestRangeAndPeers(t *testing.T) {
	for _, noPools := range []bool{false, true} {
		for _, c := range []struct {
			result driver.Result
			direct bool
			kind   driver.Kind
		}{
			{driver.Success, true, ""}, {driver.ResultNotSupported, false, ""}, {driver.ResultUnknown, false, driver.ErrDriverCallFailed},
		} {
			t.Run(fmt.Sprint(noPools, c.result), func(t *testing.T) {
				gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
				m, other := newMachine(t, gpu), machineAt(t, gpu, 1, false)
				d := m.device(t, arena.DeviceConfig{NoPools: noPools})
				r, empty := newRange(t, d, 8*page), newRange(t, d, page)
				require.NoError(t, r.Grow(page))
				if c.result != driver.Success {
					gpu.Fail("cuMemSetAccess", 1, c.result)
				}
				var peers arena.Peers
				direct, err := d.Reach(&peers, other.Binding)
				assert.Equal(t, c.direct, direct)
				if c.kind == "" {
					require.NoError(t, err)
				} else {
					require.ErrorIs(t, err, c.kind)
				}
				require.NoError(t, r.Grow(2*page))
				require.NoError(t, empty.Grow(page))
				h := other.handle(t)
				require.NoError(t, other.Do(func() error {
					for _, at := range []driver.DevicePtr{r.Ptr(), r.Ptr() + page, empty.Ptr()} {
						if !c.direct {
							continue
						}
						if r := other.MemsetD8Async(at, 1, page, h); r != driver.Success {
							return driver.Failed("cuMemsetD8Async", r)
						}
					}
					return other.Failed("cuStreamSynchronize", other.API.StreamSynchronize(h))
				}))
				assert.Equal(t, driver.Success, destroy(other, h))
				require.NoError(t, errors.Join(r.FreeAfter(), empty.FreeAfter()))
			})
		}
	}
}

// Once CUDA is lost no call is made, and a range that is freed is lost.
func TestRangeOfALostDevice(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	m := newMachine(t, gpu)
	d := m.device(t, arena.DeviceConfig{})
	s := m.stream(t, d)
	r, waits, open := newRange(t, d, page), newRange(t, d, page), newRange(t, d, page)
	require.NoError(t, errors.Join(r.Grow(page), waits.Grow(page), open.Grow(page)))
	release := make(chan struct{})
	require.NoError(t, m.Do(func() error {
		return m.Failed("cuLaunchHostFunc", m.API.LaunchHostFunc(s.Handle(), func() { <-release }))
	}))
	require.NoError(t, waits.FreeAfter(s))
	close(release)
	d.Lose(nil)
	assert.EqualValues(t, page, exact(t, d).Lost)
	before := gpu.Calls("cuMemUnmap") + gpu.Calls("cuMemCreate")
	assert.ErrorIs(t, r.Grow(2), driver.ErrDeviceLost)
	require.NoError(t, r.FreeAfter(s))
	stats := exact(t, d)
	assert.EqualValues(t, 2*page, stats.Lost)
	assert.EqualValues(t, page, stats.InUse)
	_, err := d.NewRange(1)
	assert.ErrorIs(t, err, driver.ErrDeviceLost)
	assert.Equal(t, before, gpu.Calls("cuMemUnmap")+gpu.Calls("cuMemCreate"))
	assert.Len(t, d.Leaks(), 1)
	require.NoError(t, open.FreeAfter())
}

// A range whose work nobody can prove to be done is lost when the arena is closed.
func TestRangeWhoseWorkIsNotProven(t *testing.T) {
	gpu := drivertest.New(drivertest.Config{})
	m := newMachine(t, gpu)
	d := must[*arena.Device](t)(arena.NewDevice(m.Binding, arena.DeviceConfig{}))
	h := m.handle(t)
	s := d.NewStream(h)
	r := newRange(t, d, page)
	require.NoError(t, r.Grow(1))
	release := make(chan struct{})
	require.NoError(t, m.Do(func() error {
		return m.Failed("cuLaunchHostFunc", m.API.LaunchHostFunc(h, func() { <-release }))
	}))
	gpu.Fail("cuEventRecord", 1, driver.ResultUnknown)
	require.Error(t, s.Close())
	assert.ErrorIs(t, r.FreeAfter(s), driver.ErrDriverCallFailed)
	assert.EqualValues(t, page, mapped(t, d), "it stays in use")
	close(release)
	assert.ErrorContains(t, d.Close(), "cannot be proven")
	assert.EqualValues(t, page, exact(t, d).Lost)
	assert.Equal(t, driver.Success, destroy(m, h))
}
