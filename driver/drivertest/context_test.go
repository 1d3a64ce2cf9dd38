package drivertest_test

import (
	goruntime "runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func TestCurrentContextBelongsToTheThread(t *testing.T) {
	if goruntime.GOOS != "linux" && goruntime.GOOS != "windows" && goruntime.GOOS != "freebsd" {
		t.Skip("threads cannot be told apart here")
	}
	g := start(t, drivertest.Config{Devices: drivertest.Devices(4, drivertest.H100())})
	var group sync.WaitGroup
	for dev := range driver.Device(4) {
		group.Go(func() {
			goruntime.LockOSThread()
			defer goruntime.UnlockOSThread()
			current, r := g.CtxGetCurrent()
			assert.Equal(t, driver.Success, r)
			assert.Zero(t, current)
			ctx, r := g.DevicePrimaryCtxRetain(dev)
			assert.Equal(t, driver.Success, r)
			for range 100 {
				assert.Equal(t, driver.Success, g.CtxPushCurrent(ctx))
				goruntime.Gosched()
				on, r := g.CtxGetDevice()
				assert.Equal(t, driver.Success, r)
				assert.Equal(t, dev, on)
				popped, r := g.CtxPopCurrent()
				assert.Equal(t, driver.Success, r)
				assert.Equal(t, ctx, popped)
			}
			assert.Equal(t, driver.Success, g.DevicePrimaryCtxRelease(dev))
		})
	}
	group.Wait()
}

func TestContextsEnd(t *testing.T) {
	g := start(t, drivertest.Config{})
	s, ptr := g.stream(), g.alloc(64)
	e, r := g.EventCreate(0)
	g.ok(r)
	f := g.function("add_one")
	g.ok(g.DevicePrimaryCtxReset(0))
	_, active, r := g.DevicePrimaryCtxGetState(0)
	g.ok(r)
	assert.Zero(t, active)

	_, r = g.MemAlloc(16)
	g.is(driver.ResultContextIsDestroyed, r)
	g.is(driver.ResultContextIsDestroyed, g.StreamQuery(s))
	g.is(driver.ResultContextIsDestroyed, g.EventQuery(e))
	_, r = g.FuncGetAttribute(0, f)
	g.is(driver.ResultContextIsDestroyed, r)
	g.is(driver.ResultContextIsDestroyed, g.CtxPushCurrent(g.ctx))
	g.is(driver.ResultInvalidValue, g.MemFree(ptr))

	again, r := g.DevicePrimaryCtxRetain(0)
	g.ok(r)
	assert.NotEqual(t, g.ctx, again)
	g.ok(g.CtxSetCurrent(again))
	free, total, r := g.MemGetInfo()
	g.ok(r)
	assert.Equal(t, total, free)
	g.ok(g.DevicePrimaryCtxRelease(0))
	g.ok(g.DevicePrimaryCtxRelease(0))
	g.is(driver.ResultInvalidContext, g.DevicePrimaryCtxRelease(0))
}

func TestResetWaitsForRunningWork(t *testing.T) {
	g := start(t, drivertest.Config{})
	s := g.stream()
	started, gate := make(chan struct{}), make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { close(started); <-gate }))
	<-started
	reset := make(chan driver.Result)
	go func() { reset <- g.DevicePrimaryCtxReset(0) }()
	poll(t, "the context counts as destroyed", func() bool {
		return g.StreamQuery(s) == driver.ResultContextIsDestroyed
	})
	close(gate)
	g.ok(<-reset)
}

func TestPeerAccess(t *testing.T) {
	devices := drivertest.Devices(3, drivertest.H100())
	devices[2].NoPeers = true
	g := start(t, drivertest.Config{Devices: devices})
	can, r := g.DeviceCanAccessPeer(0, 1)
	g.ok(r)
	assert.EqualValues(t, 1, can)
	can, r = g.DeviceCanAccessPeer(0, 2)
	g.ok(r)
	assert.Zero(t, can)
	peer, r := g.DevicePrimaryCtxRetain(1)
	g.ok(r)
	far, r := g.DevicePrimaryCtxRetain(2)
	g.ok(r)
	g.ok(g.CtxPushCurrent(peer))
	theirs := g.alloc(64)
	_, r = g.CtxPopCurrent()
	g.ok(r)

	g.is(driver.ResultPeerAccessUnsupported, g.CtxEnablePeerAccess(far, 0))
	g.is(driver.ResultPeerAccessNotEnabled, g.CtxDisablePeerAccess(peer))
	g.ok(g.CtxEnablePeerAccess(peer, 0))
	g.is(driver.ResultPeerAccessAlreadyEnabled, g.CtxEnablePeerAccess(peer, 0))

	s, f, n := g.stream(), g.function("add_one"), uint32(1)
	g.ok(g.MemsetD8(theirs, 0, 64))
	g.ok(g.launch(f, s, pointer(&theirs), pointer(&n)))
	g.ok(g.StreamSynchronize(s))
	mine := g.alloc(64)
	g.ok(g.MemcpyPeer(mine, g.ctx, theirs, peer, 4))
	g.is(driver.ResultInvalidValue, g.MemcpyPeer(mine, peer, theirs, peer, 4))

	g.ok(g.CtxDisablePeerAccess(peer))
	g.ok(g.launch(f, s, pointer(&theirs), pointer(&n)))
	g.is(driver.ResultIllegalAddress, g.StreamSynchronize(s))
	findings := g.Findings()
	assert.Contains(t, findings[len(findings)-1].Detail, "device 0 has no access to memory of device 1")
}
