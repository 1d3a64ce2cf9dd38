package runtime_test

import (
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// Others may have any number of contexts current on the thread that opens one. They stay
// current, in their order, and do not pass for ours when the hot path is tried out.
func TestOpeningKeepsTheContextsOfOthers(t *testing.T) {
	for _, needed := range []bool{false, true} {
		gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(3, drivertest.T4()), HotPathNeedsContext: needed})
		require.Equal(t, driver.Success, gpu.Init(0))
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		var others []driver.Context
		for device := range driver.Device(2) {
			other, r := gpu.DevicePrimaryCtxRetain(device)
			require.Equal(t, driver.Success, r)
			require.Equal(t, driver.Success, gpu.CtxPushCurrent(other))
			others = append(others, other)
		}
		rt := openOn(t, gpu)
		c, err := rt.Context(2)
		require.NoError(t, err)
		for device, want := range []driver.Context{others[1], others[0]} {
			current, r := gpu.CtxPopCurrent()
			require.Equal(t, driver.Success, r)
			assert.Equal(t, want, current)
			require.Equal(t, driver.Success, gpu.DevicePrimaryCtxRelease(driver.Device(device)))
		}
		_, err = newStream(t, c).Query() // now without a current context
		assert.NoError(t, err)
	}
}

// What cannot be given back when it is closed is given back at the next allocation.
func TestRefusedClosingIsTriedAgain(t *testing.T) {
	for _, op := range []string{"cuCtxSynchronize", "cuCtxPushCurrent"} {
		rt, gpu := open(t, drivertest.Config{})
		c := contextOf(t, rt)
		b := allocHost[byte](t, c, 1)
		gpu.Fail(op, 1, driver.ResultUnknown)
		require.ErrorIs(t, b.Close(), driver.ResultUnknown, op)
		assert.NoError(t, b.Close())
		assert.Zero(t, gpu.Calls("cuMemFreeHost"), op)
		assert.Equal(t, uint64(1), c.Stats().HostBuffers)
		require.NoError(t, newEvent(t, c).Close())
		assert.Equal(t, 1, gpu.Calls("cuMemFreeHost"), op)
		assert.Zero(t, c.Stats().HostBuffers)
	}
}

// Memory that work may still use is not freed while closing.
func TestClosingWithoutAWaitFreesNoMemory(t *testing.T) {
	rt, gpu := openFaulty(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	x := alloc[uint32](t, s, 100)
	release := hold(t, s)
	require.NoError(t, runtime.Fill(s, x, 1))
	require.NoError(t, s.Close(), "of open streams the work is awaited before")
	gpu.Fail("cuCtxSynchronize", 1, driver.ResultStreamCaptureUnsupported)
	closed := async(rt.Close)
	eventually(t, "the context is given up", func() bool { return gpu.Calls("cuDevicePrimaryCtxRelease") == 1 })
	release()
	assert.ErrorIs(t, await(t, "the runtime closes", closed), driver.ResultStreamCaptureUnsupported)
	assert.Zero(t, gpu.Calls("cuMemFree"))
	assert.Empty(t, gpu.Findings(), "no work has lost its memory")
}

// A context that stays current is nothing that a caller could do anything about.
func TestHookHearsOfContextsThatStayCurrent(t *testing.T) {
	var heard []error
	rt, gpu := openFaulty(t, drivertest.Config{}, runtime.WithErrorHook(func(err error) { heard = append(heard, err) }))
	c := contextOf(t, rt)
	gpu.Fail("cuCtxPopCurrent", 1, driver.ResultUnknown)
	_, _, err := c.MemInfo()
	require.NoError(t, err)
	require.Len(t, heard, 1)
	assert.ErrorContains(t, heard[0], "cuCtxPopCurrent")
}

// A context that does not come off a thread at once is taken off all the same, however often that fails. It would be
// current there for others, and after a reset it would be one that is gone.
func TestContextsAreTakenOffTheThread(t *testing.T) {
	for _, failures := range []int{1, 2, 20} {
		rt, gpu := openFaulty(t, drivertest.Config{})
		c := contextOf(t, rt)
		goruntime.LockOSThread()
		for nth := range failures {
			gpu.Fail("cuCtxPopCurrent", nth+1, driver.ResultUnknown)
		}
		_, _, err := c.MemInfo()
		require.NoError(t, err)
		current, r := gpu.CtxGetCurrent()
		require.Equal(t, driver.Success, r)
		assert.Zero(t, current, "%d failures", failures)
		goruntime.UnlockOSThread()
	}
}

// An image is not to blame for what happens before it is loaded.
func TestLoadingWithoutAContext(t *testing.T) {
	rt, gpu := openFaulty(t, drivertest.Config{})
	c := contextOf(t, rt)
	gpu.Fail("cuCtxPushCurrent", 1, driver.ResultUnknown)
	_, err := c.LoadModule(runtime.Image{Code: kernelsPTX})
	require.ErrorIs(t, err, driver.ErrDriverCallFailed)
	assert.NotErrorIs(t, err, driver.ErrModuleLoadFailed)
}
