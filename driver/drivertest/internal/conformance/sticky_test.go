package conformance

import (
	goruntime "runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// stickySuite runs a kernel on an address that is not there. It poisons the process:
// the API is of no use afterwards, so give it a process, or a simulated driver, of
// its own.
func stickySuite(t *testing.T, api driver.API) {
	goruntime.LockOSThread() // the context is current on it
	t.Cleanup(goruntime.UnlockOSThread)
	require.Equal(t, driver.Success, api.Init(0))
	dev, r := api.DeviceGet(0)
	require.Equal(t, driver.Success, r)
	ctx, r := api.DevicePrimaryCtxRetain(dev)
	require.Equal(t, driver.Success, r)
	require.Equal(t, driver.Success, api.CtxSetCurrent(ctx))
	e := &env{T: t, api: api, dev: dev, ctx: ctx}
	m, _, r := api.ModuleLoadData([]byte(ramp), driver.JIT{})
	e.ok(r)
	f, r := api.ModuleGetFunction(m, "ramp")
	e.ok(r)
	s, r := api.StreamCreate(driver.StreamNonBlocking)
	e.ok(r)
	ptr, r := api.MemAlloc(64)
	e.ok(r)

	host, r := api.MemHostAlloc(8, 0)
	e.ok(r)
	word := (*uint64)(host)
	*word = 0
	at, r := api.MemHostGetDevicePointer(host, 0)
	e.ok(r)

	const nowhere = 0x40_0000
	const want = driver.ResultIllegalAddress
	e.ok(e.ramp(f, s, nowhere, 1, 16))
	api.StreamWriteValue64(s, at, 1, 0) // it may know of the fault already, or not at all
	e.is(want, api.StreamSynchronize(s))
	assert.Zero(t, atomic.LoadUint64(word), "no value is written after a fault")
	e.is(want, api.StreamSynchronize(s))
	_, r = api.MemAlloc(64)
	assert.Equal(t, want, r)
	assert.Equal(t, want, api.MemFree(ptr))
	assert.Equal(t, want, api.CtxSynchronize())
	assert.Equal(t, want, api.StreamQuery(s))
	assert.Equal(t, want, e.ramp(f, s, ptr, 1, 16))
	_, r = api.StreamCreate(0)
	assert.Equal(t, want, r)
	_, r = api.EventCreate(0)
	assert.Equal(t, want, r)
	assert.Equal(t, want, api.StreamDestroy(s))
	_, _, r = api.MemGetInfo()
	assert.Equal(t, want, r)

	// What touches no device goes on to work, also getting the context once more.
	again, r := api.DevicePrimaryCtxRetain(dev)
	assert.Equal(t, driver.Success, r)
	assert.Equal(t, ctx, again)
	assert.Equal(t, driver.Success, api.CtxSetCurrent(ctx))
	_, r = api.CtxGetDevice()
	assert.Equal(t, driver.Success, r)

	e.ok(api.DevicePrimaryCtxReset(dev))
	_, r = api.DevicePrimaryCtxRetain(dev)
	assert.Equal(t, want, r)
	count, r := api.DeviceGetCount()
	assert.Equal(t, driver.Success, r)
	assert.Positive(t, count)
}
