package runtime_test

import (
	"fmt"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

func TestContextIsOpenedOnce(t *testing.T) {
	config := twoDevices()
	config.OnCall = func(op string) driver.Result {
		if op == "cuDevicePrimaryCtxRetain" {
			time.Sleep(5 * time.Millisecond) // it takes a while on hardware, too
		}
		return driver.Success
	}
	rt, gpu := open(t, config)
	var wg sync.WaitGroup
	var contexts [64]*runtime.Context
	for i := range contexts {
		wg.Go(func() {
			c, err := rt.Context(i % 2)
			assert.NoError(t, err)
			contexts[i] = c
		})
	}
	wg.Wait()
	for i, c := range contexts {
		assert.Same(t, contexts[i%2], c)
		assert.Equal(t, i%2, c.Device().Ordinal)
	}
	assert.NotSame(t, contexts[0], contexts[1])
	assert.Equal(t, 2, gpu.Calls("cuDevicePrimaryCtxRetain"))
	assert.Same(t, rt, contexts[0].Runtime())
	assert.NotZero(t, contexts[0].Handle())
	assert.Equal(t, uint64(2), rt.Stats().Contexts)
}

// A device that takes long to open does not hold up another one.
func TestOpeningOneDeviceDoesNotHoldUpAnother(t *testing.T) {
	slow, proceed := make(chan struct{}), make(chan struct{})
	var retains atomic.Int32
	config := twoDevices()
	config.OnCall = func(op string) driver.Result {
		if op == "cuDevicePrimaryCtxRetain" && retains.Add(1) == 1 {
			close(slow)
			<-proceed
		}
		return driver.Success
	}
	rt, _ := open(t, config)
	done := async(func() error { _, err := rt.Context(0); return err })
	<-slow
	_, err := rt.Context(1)
	assert.NoError(t, err)
	close(proceed)
	assert.NoError(t, await(t, "device 0 opens", done))
}

func TestContextThatCannotBeOpened(t *testing.T) {
	for _, op := range []string{"cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuMemGetInfo", "cuStreamCreate"} {
		t.Run(op, func(t *testing.T) {
			rt, gpu := open(t, drivertest.Config{})
			gpu.Fail(op, 1, driver.ResultOutOfMemory)
			_, err := rt.Context(0)
			require.ErrorIs(t, err, driver.ErrOutOfMemory)
			assert.ErrorContains(t, err, op)
			assert.Empty(t, gpu.Leaks(), "nothing stays behind")
			assert.Zero(t, rt.Stats().Contexts)

			c, err := rt.Context(0)
			require.NoError(t, err, "the next try")
			alloc[byte](t, newStream(t, c), 1)
		})
	}
}

// currentContext is the context of the calling thread.
func currentContext(t *testing.T, api driver.API) driver.Context {
	t.Helper()
	c, r := api.CtxGetCurrent()
	require.Equal(t, driver.Success, r)
	return c
}

// What other code made current on a thread is still current after each call.
func TestCurrentContextIsLeftAlone(t *testing.T) {
	check := func(t *testing.T, rt *runtime.Runtime) {
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		api := rt.Driver()
		mine := contextOf(t, rt)
		others := []driver.Context{0, mine.Handle()}
		if devices := rt.Devices(); len(devices) > 1 {
			others = append(others, contextAt(t, rt, 1).Handle())
		}
		for _, other := range others {
			require.Equal(t, driver.Success, api.CtxSetCurrent(other))
			useEverything(t, mine)
			assert.Equal(t, other, currentContext(t, api))
		}
		require.Equal(t, driver.Success, api.CtxSetCurrent(0))
		require.NoError(t, rt.Close())
		assert.Zero(t, currentContext(t, api))
	}
	onDrivers(t, check)
	t.Run("hot path needs context", func(t *testing.T) {
		config := twoDevices()
		config.HotPathNeedsContext = true
		rt, _ := open(t, config)
		check(t, rt)
	})
}

// Somebody has left a context current on the thread, and it has ended.
func TestEndedContextIsCurrent(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		devices := rt.Devices()
		if len(devices) < 2 {
			t.Skipf("needs 2 devices, and there are %d", len(devices))
		}
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		mine, api := contextOf(t, rt), rt.Driver()
		device, r := api.DeviceGet(int32(devices[1].Ordinal))
		require.Equal(t, driver.Success, r)
		other, r := api.DevicePrimaryCtxRetain(device)
		require.Equal(t, driver.Success, r)
		require.Equal(t, driver.Success, api.CtxSetCurrent(other))
		defer api.CtxSetCurrent(0)
		require.Equal(t, driver.Success, api.DevicePrimaryCtxRelease(device))
		useEverything(t, mine)
	})
}

// A context is opened on a thread where somebody else's is current.
func TestOpeningLeavesTheCurrentContextAlone(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		api := rt.Driver()
		device, r := api.DeviceGet(0)
		require.Equal(t, driver.Success, r)
		other, r := api.DevicePrimaryCtxRetain(device)
		require.Equal(t, driver.Success, r)
		defer api.DevicePrimaryCtxRelease(device)
		require.Equal(t, driver.Success, api.CtxPushCurrent(other))
		defer api.CtxPopCurrent()
		for place := range rt.Devices() {
			contextAt(t, rt, place)
			assert.Equal(t, other, currentContext(t, api))
		}
	})
}

// describePool tells what the driver says of the pool of a context.
func describePool(rt *runtime.Runtime, c *runtime.Context) string {
	pool, api := runtime.PoolOf(c), rt.Driver()
	reserved, r := api.MemPoolGetAttribute(pool, driver.MemPoolReservedMemCurrent)
	used, s := api.MemPoolGetAttribute(pool, driver.MemPoolUsedMemCurrent)
	return fmt.Sprintf("the pool has reserved %d bytes (%v) and uses %d (%v)", reserved, r, used, s)
}

func TestMemInfo(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		before, total, err := c.MemInfo()
		require.NoError(t, err)
		assert.Positive(t, before)
		assert.Less(t, before, total+1)
		assert.GreaterOrEqual(t, c.Device().TotalBytes, total)

		const size = 256 << 20
		s := newStream(t, c)
		var blocks []*runtime.Ref[byte]
		var moved float64
		for len(blocks) < 16 && moved < 0.9*size { // the first may be what earlier users of the context have left in the driver
			before, _, err = c.MemInfo()
			require.NoError(t, err)
			blocks = append(blocks, alloc[byte](t, s, size))
			free, _, err := c.MemInfo()
			require.NoError(t, err)
			moved = float64(before) - float64(free)
		}
		assert.InDelta(t, size, moved, size/10, "of block %d", len(blocks))
		for _, b := range blocks {
			require.NoError(t, b.Close())
		}
		require.NoError(t, c.TrimMemory(0))
		free, _, err := c.MemInfo()
		require.NoError(t, err)
		for began := time.Now(); float64(free) < float64(before)-size/10 && time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
			free, _, err = c.MemInfo() // a driver may unmap memory later
			require.NoError(t, err)
		}
		assert.GreaterOrEqual(t, float64(free), float64(before)-size/10, "after %d blocks, %d MiB less; %s", len(blocks), (int64(before)-int64(free))>>20, describePool(rt, c))
	})
}

func TestCloseGivesMemoryBack(t *testing.T) {
	check := func(t *testing.T, api driver.API) {
		watching := contextOf(t, openOn(t, api))
		before, _, err := watching.MemInfo()
		require.NoError(t, err)
		const size = 256 << 20
		rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(api))
		require.NoError(t, err)
		c := contextOf(t, rt)
		for range 4 {
			alloc[byte](t, newStream(t, c), size)
		}
		during, _, err := watching.MemInfo()
		require.NoError(t, err)
		assert.InDelta(t, 4*size, before-during, size/10)
		require.NoError(t, rt.Close())
		after, _, err := watching.MemInfo()
		require.NoError(t, err, "the context that the other runtime uses still works")
		assert.InDelta(t, 0, float64(before)-float64(after), size/10)
	}
	t.Run("simulated", func(t *testing.T) { check(t, drivertest.ForTest(t, twoDevices())) })
	t.Run("hardware", func(t *testing.T) { check(t, hardware.Open(t)) })
}

func TestContextSynchronize(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		release := hold(t, s)
		done := async(c.Synchronize)
		select {
		case <-done:
			assert.Fail(t, "it did not wait for the stream")
		case <-time.After(20 * time.Millisecond):
		}
		release()
		assert.NoError(t, await(t, "Synchronize returns", done))
	})
}

// TestStacksOfManyCallers has callers that ask for stacks of other sizes at the same time. Each has what it asked for when its call returns.
func TestStacksOfManyCallers(t *testing.T) {
	config := twoDevices()
	config.OnCall = func(op string) driver.Result {
		if op == "cuCtxSetLimit" {
			time.Sleep(rand.N(200 * time.Microsecond))
		}
		return driver.Success
	}
	rt, gpu := open(t, config)
	b, err := rt.Probe("test")
	require.NoError(t, err)
	for round := range uint64(100) {
		var all sync.WaitGroup
		for i := range uint64(8) {
			all.Go(func() {
				bytes := 2048 + round*80 + i*8
				assert.NoError(t, b.Context.EnsureStackSize(bytes))
				assert.NoError(t, b.Context.Do(func() error {
					have, r := gpu.CtxGetLimit(driver.LimitStackSize)
					assert.Equal(t, driver.Success, r)
					assert.GreaterOrEqual(t, have, bytes)
					return nil
				}))
			})
		}
		all.Wait()
	}
}
