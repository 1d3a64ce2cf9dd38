package arena_test

import (
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
)

// faultProgram allocates, fills the cache, and allocates what needs all of the device.
func faultProgram(m *machine, d *arena.Device, s, o *arena.Stream) (failures int, blocks []arena.Block) {
	for i := range 12 {
		on := []*arena.Stream{s, o}[i%2]
		b, err := on.Alloc(uint64(1+i) << 18)
		if err != nil {
			failures++
			continue
		}
		if i%3 == 0 {
			blocks = append(blocks, b)
		} else if on.Free(b) != nil {
			failures++
		}
	}
	return failures, blocks
}

// TestOutOfMemoryAtEveryAllocation lets every allocation of the driver fail in its turn:
// once, which the arena gets over by giving its cache back, and for good.
func TestOutOfMemoryAtEveryAllocation(t *testing.T) {
	for _, noPools := range []bool{false, true} {
		op := map[bool]string{false: "cuMemAllocFromPoolAsync", true: "cuMemAlloc"}[noPools]
		for nth := 1; nth <= 12; nth++ {
			for times := 1; times <= 2; times++ {
				t.Run(fmt.Sprintf("%s %d, %d times", op, nth, times), func(t *testing.T) {
					gpu := drivertest.ForTest(t, drivertest.Config{})
					m := newMachine(t, gpu)
					d := m.device(t, arena.DeviceConfig{NoPools: noPools})
					s, o := m.stream(t, d), m.stream(t, d)
					for i := range times {
						gpu.Fail(op, nth+i, driver.ResultOutOfMemory)
					}
					failures, blocks := faultProgram(m, d, s, o)
					struck := len(gpu.Injected())
					stats := exact(t, d)
					if struck < 2 {
						assert.Zero(t, failures, "the second try works")
					} else {
						assert.Equal(t, 1, failures)
						assert.Equal(t, uint64(1), stats.Failures)
					}
					assert.Equal(t, uint64(min(struck, 1)), stats.Reclaims)
					for _, b := range blocks {
						require.NoError(t, s.Wait(o))
						require.NoError(t, s.Free(b))
					}
					assert.Zero(t, exact(t, d).InUse)
					assert.Empty(t, m.complaints())
				})
			}
		}
	}
}

// TestOutOfMemory is a device that is full.
func TestOutOfMemory(t *testing.T) {
	for _, noPools := range []bool{false, true} {
		gpu := drivertest.ForTest(t, drivertest.Config{
			Devices: []drivertest.DeviceConfig{{Memory: 64 << 20}},
			Chaos:   &drivertest.Chaos{Seed: 3, SlowWork: 1, MaxDelay: 2 * time.Millisecond},
		})
		m := newMachine(t, gpu)
		d := m.device(t, arena.DeviceConfig{NoPools: noPools})
		s, o := m.stream(t, d), m.stream(t, d)
		kept := allocate(t, s, 8<<20)
		for i := range 6 {
			b := allocate(t, s, uint64(4+i)<<20)
			fill(t, m, s, b, 1)
			require.NoError(t, s.Free(b)) // in flight
		}
		big := allocate(t, o, 50<<20) // fits when all of that is back
		assert.Equal(t, uint64(1), exact(t, d).Reclaims)
		_, err := o.Alloc(20 << 20)
		var e *driver.Error
		require.ErrorAs(t, err, &e)
		assert.ErrorIs(t, err, driver.ErrOutOfMemory)
		assert.Equal(t, uint64(20<<20), e.Bytes)
		assert.Equal(t, uint64(64<<20), e.Total)
		assert.Less(t, e.Free, uint64(20<<20))
		assert.ErrorContains(t, err, fmt.Sprintf("%d bytes in use and 0 cached", kept.Size()+big.Size()))
		require.NoError(t, o.Free(big))
		require.NoError(t, s.Free(kept))
		exact(t, d)
	}
}

// A refused allocation is no peak, and neither is what succeeds while the driver is asked for it.
func TestRefusedMemoryIsNoPeak(t *testing.T) {
	for _, noPools := range []bool{false, true} {
		var beside func()
		gpu := drivertest.ForTest(t, drivertest.Config{OnCall: func(op string) driver.Result {
			if f := beside; f != nil && strings.HasPrefix(op, "cuMemAlloc") {
				beside = nil
				f()
			}
			return driver.Success
		}})
		m := newMachine(t, gpu)
		d := m.device(t, arena.DeviceConfig{NoPools: noPools})
		s, o := m.stream(t, d), m.stream(t, d)
		kept := allocate(t, s, 1<<20)
		var other arena.Block
		beside = func() {
			await := make(chan arena.Block)
			go func() {
				b, _ := o.Alloc(2 << 20)
				await <- b
			}()
			other = <-await
			stats := exact(t, d)
			assert.EqualValues(t, 3<<20, stats.InUse, "the driver has not said yes yet")
			assert.EqualValues(t, 3<<20, stats.HighWater)
		}
		_, err := s.Alloc(1 << 45)
		require.ErrorIs(t, err, driver.ErrOutOfMemory)
		stats := exact(t, d)
		assert.EqualValues(t, 3<<20, stats.Held)
		assert.EqualValues(t, 3<<20, stats.HighWater)
		require.NoError(t, s.Free(kept))
		require.NoError(t, o.Free(other))
	}
}

// TestLimit is the arena's own limit.
func TestLimit(t *testing.T) {
	m := newMachine(t, drivertest.ForTest(t, drivertest.Config{}))
	d := m.device(t, arena.DeviceConfig{Limit: 10 << 20})
	s, o := m.stream(t, d), m.stream(t, d)
	a := allocate(t, s, 6<<20)
	require.NoError(t, s.Free(a))
	b := allocate(t, o, 8<<20) // the cached block has to go
	stats := exact(t, d)
	assert.Equal(t, uint64(8<<20), stats.Held)
	_, err := s.Alloc(3 << 20)
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.ErrorContains(t, err, fmt.Sprintf("%d bytes in use and 0 cached, of at most %d", 8<<20, 10<<20))
	require.NoError(t, o.Free(b))
	_, err = s.Alloc(11 << 20)
	assert.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.Equal(t, uint64(8<<20), exact(t, d).Cached, "what cannot fit empties no cache")
}

// TestStickyErrors lets every function that the arena calls report that CUDA is lost.
func TestStickyErrors(t *testing.T) {
	for _, op := range []string{"cuMemAllocFromPoolAsync", "cuMemAlloc", "cuMemFreeAsync", "cuMemFree", "cuEventCreate",
		"cuEventRecord", "cuEventQuery", "cuStreamQuery", "cuStreamWaitEvent", "cuMemsetD8Async", "cuMemPoolTrimTo",
		"cuStreamSynchronize", "cuEventQuery", "cuMemGetInfo", "cuMemPoolCreate", "cuEventDestroy"} {
		for nth := 1; nth <= 3; nth++ {
			for _, config := range []arena.DeviceConfig{{CacheBytes: 1 << 20, Poison: true}, {CacheBytes: 1 << 20, NoPools: true, Zero: true}} {
				t.Run(fmt.Sprintf("%s %d, NoPools %v", op, nth, config.NoPools), func(t *testing.T) {
					gpu := drivertest.New(drivertest.Config{Chaos: &drivertest.Chaos{Seed: 1, SlowWork: 0.5}})
					defer gpu.Close()
					require.Equal(t, driver.Success, gpu.Init(0))
					context, r := gpu.DevicePrimaryCtxRetain(0)
					require.Equal(t, driver.Success, r)
					m := &machine{Binding: &driver.Binding{API: gpu, Context: context}}
					gpu.Fail(op, nth, driver.ResultIllegalAddress)
					d, err := arena.NewDevice(m.Binding, config)
					if err != nil {
						assert.ErrorIs(t, err, driver.ErrDeviceLost)
						return
					}
					s, o := d.NewStream(m.handle(t)), d.NewStream(m.handle(t))
					_, blocks := faultProgram(m, d, s, o)
					trim, wait := d.Trim(0), s.Wait(o)
					if gpu.Sticky() != driver.Success && errors.Join(trim, wait) != nil {
						assert.ErrorIs(t, errors.Join(trim, wait), driver.ErrDeviceLost)
					}
					_ = o.Close()
					if gpu.Sticky() != driver.Success && wait != nil {
						_, err := s.Alloc(1 << 18)
						assert.ErrorIs(t, err, driver.ErrDeviceLost)
					}
					for _, b := range blocks {
						if err := s.Free(b); err != nil {
							assert.ErrorIs(t, err, driver.ErrDeviceLost)
						}
						assert.False(t, b.Valid())
					}
					if err := d.Close(); err != nil {
						assert.ErrorIs(t, err, driver.ErrDeviceLost)
					}
					stats := exact(t, d)
					assert.Zero(t, stats.Held)
					assert.Zero(t, stats.InUse)
				})
			}
		}
	}
}

// TestWaitAcrossDevices orders the work of two devices.
func TestWaitAcrossDevices(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100()),
		Chaos: &drivertest.Chaos{Seed: 1, SlowWork: 1, MaxDelay: time.Millisecond}})
	m0, m1 := machineAt(t, gpu, 0, false), machineAt(t, gpu, 1, false)
	d0, d1 := m0.device(t, arena.DeviceConfig{}), m1.device(t, arena.DeviceConfig{})
	s0, s1 := m0.stream(t, d0), m1.stream(t, d1)
	b := allocate(t, s0, 4096)
	fill(t, m0, s0, b, 9)
	require.NoError(t, s1.Wait(s0))
	require.Equal(t, driver.Success, m1.API.StreamSynchronize(s1.Handle()))
	assert.Equal(t, driver.Success, m0.API.StreamQuery(s0.Handle()), "what was waited for is done")
	assert.ErrorContains(t, s1.Free(b), "a block of device 0 in the arena of device 1")
	require.NoError(t, s0.Free(b))
}

// TestHitsCallNoDriver: the fast path allocates no Go memory and calls nothing.
func TestHitsCallNoDriver(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{})
	m := newMachine(t, gpu)
	d := m.device(t, arena.DeviceConfig{})
	s := m.stream(t, d)
	require.NoError(t, pair(s, 1<<20))
	gpu.ResetCalls()
	allocs.AtMost(t, 0, 1000, func() {
		if err := pair(s, 1<<20); err != nil {
			t.Error(err)
		}
	})
	for _, e := range driver.Entries() {
		assert.Zero(t, gpu.Calls(e.Name), e.Name)
	}
}

// TestTrimWithoutAContext lets each call in turn fail that makes the context current. The driver was not asked to free
// what it has then: it stays in the cache.
func TestTrimWithoutAContext(t *testing.T) {
	for _, noPools := range []bool{false, true} {
		for nth, made := 1, true; made; nth++ { // how often an event is asked about differs from run to run
			t.Run(fmt.Sprintf("no pools %v, call %d", noPools, nth), func(t *testing.T) {
				gpu := drivertest.ForTest(t, drivertest.Config{})
				m := machineAt(t, gpu, 0, true)
				d := m.device(t, arena.DeviceConfig{NoPools: noPools})
				s := m.stream(t, d)
				fillCache := func() {
					a, b := allocate(t, s, 1<<20), allocate(t, s, 2<<20)
					require.NoError(t, s.Free(a))
					require.NoError(t, s.Free(b))
				}
				for range 2 { // the second one has an event
					fillCache()
					gpu.ResetCalls()
					require.NoError(t, d.Trim(0))
				}
				least := 3 // of the free, the event and the wait for it
				assert.GreaterOrEqual(t, gpu.Calls("cuCtxPushCurrent"), least)
				assert.Positive(t, gpu.Calls("cuEventSynchronize"), "so that the driver gives the memory back")

				fillCache()
				gpu.ResetCalls()
				gpu.Fail("cuCtxPushCurrent", nth, driver.ResultInvalidContext)
				err := d.Trim(0)
				if made = gpu.Calls("cuCtxPushCurrent") >= nth; !made {
					assert.NoError(t, err)
					assert.Greater(t, nth, least)
					goruntime.LockOSThread()
					defer goruntime.UnlockOSThread()
					for m.API.CtxPushCurrent(m.Context) == driver.Success { // a plan has to strike
						_, r := m.API.CtxPopCurrent()
						require.Equal(t, driver.Success, r)
					}
					return
				}
				assert.ErrorIs(t, err, driver.ResultInvalidContext)
				assert.Zero(t, exact(t, d).LostBlocks)
				require.NoError(t, d.Trim(0))
				stats := exact(t, d)
				assert.Zero(t, stats.Held)
				assert.Equal(t, uint64(6), stats.DriverFrees)
			})
		}
	}
}
