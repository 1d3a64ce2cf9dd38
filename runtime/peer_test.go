package runtime_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

// enablePeer opens the link from a to b's memory, and skips the test where there is none.
func enablePeer(t *testing.T, a, b *runtime.Context) {
	t.Helper()
	direct, err := a.EnablePeer(b)
	require.NoError(t, err)
	if !direct {
		t.Skipf("device %d cannot use the memory of device %d", a.Device().Ordinal, b.Device().Ordinal)
	}
}

// A kernel of one device works on memory of another one, behind what others do with it.
func TestKernelOnPeerMemory(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		here, there := contextAt(t, rt, 0), contextAt(t, rt, 1)
		enablePeer(t, here, there)
		onHere, onThere := newStream(t, here), newStream(t, there)
		k := kernel(t, here, "add")
		x := upload(t, onThere, count(0, 10_000))
		late := alloc[uint32](t, onThere, 10)
		require.NoError(t, runtime.Fill(onThere, late, 5))

		release := hold(t, onThere)
		require.NoError(t, runtime.Fill(onThere, x, 100))
		require.NoError(t, addTo(k, onHere, x, 11))
		require.NoError(t, addTo(k, onHere, late, 1))
		release()
		assert.Equal(t, []uint32{111, 111, 111}, download(t, onThere, x.Slice(0, 3)))
		assert.Equal(t, []uint32{6, 6, 6}, download(t, onThere, late.Slice(7, 10)), "memory that was allocated after EnablePeer")
		assert.NoError(t, addTo(k, onHere, x, 1))
		assert.NoError(t, x.Close(), "while the kernel of the other device is under way")

		// The way back is not open.
		mine := alloc[uint32](t, onHere, 4)
		assert.ErrorContains(t, addTo(kernel(t, there, "add"), onThere, mine, 1), "see Context.EnablePeer")
	})
}

// A graph keeps the memory of another device as well.
func TestGraphOnPeerMemory(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		here, there := contextAt(t, rt, 0), contextAt(t, rt, 1)
		enablePeer(t, here, there)
		onHere, onThere := newStream(t, here), newStream(t, there)
		k := kernel(t, here, "add")
		x := upload(t, onThere, count(0, 100))
		graph := instantiate(t, capture(t, onHere, adding(k, x, 3, 10)))
		require.NoError(t, graph.Launch(onHere))
		require.NoError(t, graph.Launch(onHere))
		assert.Equal(t, count(60, 100), download(t, onThere, x))
	})
}

func TestEnablePeerAsksOnce(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
	for range 3 {
		direct, err := a.EnablePeer(b)
		assert.True(t, direct)
		assert.NoError(t, err)
	}
	assert.Equal(t, 1, gpu.Calls("cuCtxEnablePeerAccess"))
	assert.Equal(t, 1, gpu.Calls("cuMemPoolSetAccess"))
	direct, err := a.EnablePeer(a)
	assert.True(t, direct)
	assert.NoError(t, err)
}

func TestEnablePeerWhereThereIsNoLink(t *testing.T) {
	config := twoDevices()
	config.Devices[0].NoPeers = true
	rt, _ := open(t, config)
	a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
	direct, err := a.EnablePeer(b)
	assert.NoError(t, err)
	assert.False(t, direct)
	x := alloc[uint32](t, newStream(t, b), 4)
	assert.ErrorIs(t, addTo(kernel(t, a, "add"), newStream(t, a), x, 1), driver.ErrInvalidArgument)
}

func TestEnablePeerOfWhatIsNone(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	other, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	for _, wrong := range []*runtime.Context{nil, contextOf(t, other)} {
		_, err := c.EnablePeer(wrong)
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	}
}

// After a Reset the link has to be opened again: the driver has forgotten it.
func TestResetEndsPeerAccess(t *testing.T) {
	rt, _ := open(t, twoDevices())
	a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
	for _, reset := range []*runtime.Context{a, b} {
		enablePeer(t, a, b)
		x := alloc[uint32](t, newStream(t, b), 4)
		require.NoError(t, addTo(kernel(t, a, "add"), newStream(t, a), x, 1))
		require.NoError(t, reset.Reset(context.Background()))
		y := alloc[uint32](t, newStream(t, b), 4)
		k, s := kernel(t, a, "add"), newStream(t, a)
		assert.ErrorIs(t, addTo(k, s, y, 1), driver.ErrInvalidArgument)
		enablePeer(t, a, b)
		require.NoError(t, addTo(k, s, y, 1))
		synchronize(t, s)
	}
	require.NoError(t, rt.Close())
	_, err := a.EnablePeer(b)
	assert.ErrorIs(t, err, driver.ErrClosed)
}

// The copy between devices opens the pools of both, so that it takes the link.
func TestCopyOpensThePools(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
	onA, onB := newStream(t, a), newStream(t, b)
	x, y := upload(t, onA, count(0, 1000)), alloc[uint32](t, onB, 1000)
	for range 3 {
		require.NoError(t, runtime.Copy(onB, y, x))
	}
	assert.Equal(t, count(0, 1000), download(t, onB, y))
	assert.Equal(t, 2, gpu.Calls("cuMemPoolSetAccess"))
	assert.Equal(t, 2, gpu.Calls("cuCtxEnablePeerAccess"))
}
