package runtime_test

import (
	goruntime "runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// makeAndForget makes one of each and keeps none.
//
//go:noinline
func makeAndForget(t *testing.T, c *runtime.Context) {
	newStream(t, c)
	newEvent(t, c)
	alloc[byte](t, newStream(t, c), 1<<20)
	allocHost[byte](t, c, 1<<20)
	allocManaged[byte](t, newStream(t, c), 1<<20)
	loadKernels(t, c)
}

// alive is what a context holds, with what waits to be given back.
func alive(c *runtime.Context) uint64 {
	s := c.Stats()
	return s.Streams + s.Events + s.Refs + c.State().Stats().Waiting + s.HostBuffers + s.Managed + s.Modules
}

func TestForgottenObjectsAreGivenBack(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	for range 10 {
		makeAndForget(t, c)
	}
	held := alive(c)
	require.Positive(t, held)
	eventually(t, "they are given back", func() bool {
		calls := allCalls(gpu)
		for range 3 {
			goruntime.GC()
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, calls, allCalls(gpu), "the garbage collector must not call the driver")
		// What is on its way from one count to another is in none of them.
		eventually(t, "all that was forgotten is counted", func() bool { return alive(c) == held })
		require.NoError(t, newEvent(t, c).Close()) // the next allocation
		held = alive(c)
		return held == 0
	})
	assert.Zero(t, c.Stats().RefBytes)
	assert.Equal(t, uint64(20), c.State().Stats().Freed, "half of it is managed")
	assert.Positive(t, c.Stats().Memory.Cached)
	assert.Zero(t, rt.Stats().Errors)
}

func TestForgottenObjectsAreGivenBackOnHardware(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		for range 10 {
			makeAndForget(t, c)
		}
		eventually(t, "they are given back", func() bool {
			goruntime.GC()
			require.NoError(t, newEvent(t, c).Close())
			return alive(c) == 0
		})
		assert.Zero(t, rt.Stats().Errors)
	})
}

// Forgotten memory that the device still uses stays until the device is done.
func TestForgottenMemoryInUse(t *testing.T) {
	rt, _ := open(t, twoDevices())
	a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
	for range 20 {
		func() {
			s := newStream(t, b)
			x, y := alloc[uint32](t, newStream(t, a), 100_000), alloc[uint32](t, s, 100_000)
			h := allocHost[uint32](t, b, 100_000)
			require.NoError(t, s.LaunchHostFunc(func() { time.Sleep(time.Millisecond) }))
			require.NoError(t, runtime.Copy(s, y, x))
			require.NoError(t, runtime.DownloadHost(s, h, y))
		}()
		goruntime.GC()
		for _, c := range []*runtime.Context{a, b} {
			require.NoError(t, newEvent(t, c).Close())
		}
	}
}

// What is still used in any way is not forgotten.
func TestViewsAndKernelsKeepTheirOwner(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		view := upload(t, s, count(0, 100)).Slice(40, 50)
		host := allocHost[uint32](t, c, 100).Slice(0, 10)
		k := kernel(t, c, "add")
		for range 5 {
			goruntime.GC()
			time.Sleep(time.Millisecond)
			require.NoError(t, newEvent(t, c).Close())
		}
		require.NoError(t, addTo(k, s, view, 1))
		require.NoError(t, runtime.DownloadHost(s, host, view))
		synchronize(t, s)
		assert.Equal(t, count(41, 10), host.Data())
		goruntime.KeepAlive(host)
	})
}

// oneHandle is a driver that uses handles again, as the real one does: all events have
// the same one, so that there is one event at a time.
type oneHandle struct {
	driver.API
	event driver.Event
}

func (o *oneHandle) EventCreate(flags uint32) (driver.Event, driver.Result) {
	var r driver.Result
	o.event, r = o.API.EventCreate(flags)
	return 1, r
}

func (o *oneHandle) EventDestroy(driver.Event) driver.Result { return o.API.EventDestroy(o.event) }

// An object that was closed is not given back a second time, and neither is another
// one that got its handle.
func TestClosedObjectsAreNotGivenBackAgain(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{})
	c := contextOf(t, openOn(t, &oneHandle{API: gpu}))
	for range 10 {
		require.NoError(t, newEvent(t, c).Close())
	}
	e := newEvent(t, c)
	for range 10 {
		goruntime.GC()
		time.Sleep(time.Millisecond)
		newStream(t, c) // gives back what was forgotten
	}
	assert.Equal(t, 10, gpu.Calls("cuEventDestroy"))
	require.NoError(t, e.Close())
	assert.Equal(t, 11, gpu.Calls("cuEventDestroy"))
}

// No caller waits for what is given back, so the hook hears of failures.
func TestErrorHookHearsOfFailures(t *testing.T) {
	var mu sync.Mutex
	var heard []error
	rt, gpu := openFaulty(t, drivertest.Config{}, runtime.WithErrorHook(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, err)
	}))
	c := contextOf(t, rt)
	func() { newStream(t, c).Handle() }() // so that it is not kept
	gpu.Fail("cuStreamDestroy", 1, driver.ResultInvalidHandle)
	eventually(t, "the hook hears", func() bool {
		goruntime.GC()
		require.NoError(t, newEvent(t, c).Close(), "the caller does not")
		mu.Lock()
		defer mu.Unlock()
		return len(heard) > 0
	})
	require.Len(t, heard, 1)
	assert.ErrorIs(t, heard[0], driver.ResultInvalidHandle)
	assert.ErrorContains(t, heard[0], "cuStreamDestroy")
	assert.Equal(t, uint64(1), rt.Stats().Errors)
}
