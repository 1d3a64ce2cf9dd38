package arena_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/allocs"
)

// twoArenas is two devices of a machine, each with an arena and a stream.
type twoArenas struct {
	gpu     *drivertest.Driver
	peers   arena.Peers
	machine [2]*machine
	device  [2]*arena.Device
	stream  [2]*arena.Stream
}

func newPair(t *testing.T, config drivertest.Config) *twoArenas {
	t.Helper()
	return newPairOn(t, drivertest.ForTest(t, config), arena.DeviceConfig{})
}

func newPairOn(t *testing.T, gpu *drivertest.Driver, memory arena.DeviceConfig) *twoArenas {
	t.Helper()
	p := &twoArenas{gpu: gpu}
	for i := range p.machine {
		p.machine[i] = machineAt(t, gpu, int32(i), false)
		p.device[i] = p.machine[i].device(t, memory)
		p.stream[i] = p.machine[i].stream(t, p.device[i])
	}
	return p
}

func devices(n int) drivertest.Config {
	return drivertest.Config{Devices: drivertest.Devices(n, drivertest.H100())}
}

// alloc allocates memory that is given back at the end.
func (p *twoArenas) alloc(t *testing.T, on int, bytes uint64) arena.Block {
	t.Helper()
	b, err := p.stream[on].Alloc(bytes)
	require.NoError(t, err)
	t.Cleanup(func() {
		for i := range p.machine {
			assert.Equal(t, driver.Success, p.machine[i].API.StreamSynchronize(p.stream[i].Handle()))
		}
		assert.NoError(t, p.stream[on].Free(b))
	})
	return b
}

// access is what a device may do with the memory of the other one's pool.
func (p *twoArenas) access(t *testing.T, at int) driver.MemAccessFlags {
	t.Helper()
	flags, r := p.gpu.MemPoolGetAccess(p.machine[1-at].pools[0], driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(at)})
	require.Equal(t, driver.Success, r)
	return flags
}

func TestReachOpensLinkAndPoolOnce(t *testing.T) {
	p := newPair(t, devices(2))
	require.Equal(t, driver.MemAccessNone, p.access(t, 0))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			direct, err := p.device[1].Reach(&p.peers, p.machine[0].Binding)
			assert.NoError(t, err)
			assert.True(t, direct)
		})
	}
	all.Wait()
	assert.Equal(t, driver.MemAccessReadWrite, p.access(t, 0))
	assert.Equal(t, driver.MemAccessNone, p.access(t, 1), "the other direction is not opened")
	assert.Equal(t, 1, p.gpu.Calls("cuCtxEnablePeerAccess"))
	assert.Equal(t, 1, p.gpu.Calls("cuMemPoolSetAccess"))
	allocs.AtMost(t, 0, 100, func() { _, _ = p.device[1].Reach(&p.peers, p.machine[0].Binding) })

	direct, err := p.device[0].Reach(&p.peers, p.machine[0].Binding)
	assert.True(t, direct, "of its own memory there is nothing to ask")
	assert.NoError(t, err)
	assert.Equal(t, 1, p.gpu.Calls("cuMemPoolSetAccess"))

	p.peers.Drop(p.machine[0].Binding)
	_, err = p.device[1].Reach(&p.peers, p.machine[0].Binding)
	assert.NoError(t, err)
	assert.Equal(t, 2, p.gpu.Calls("cuMemPoolSetAccess"))
}

func TestReachWithoutPools(t *testing.T) {
	p := newPairOn(t, drivertest.ForTest(t, devices(2)), arena.DeviceConfig{NoPools: true})
	direct, err := p.device[1].Reach(&p.peers, p.machine[0].Binding)
	assert.NoError(t, err)
	assert.True(t, direct)
	assert.Zero(t, p.gpu.Calls("cuMemPoolSetAccess"))
}

func TestReachWhereThereIsNoLink(t *testing.T) {
	config := devices(2)
	config.Devices[1].NoPeers = true
	p := newPair(t, config)
	direct, err := p.device[1].Reach(&p.peers, p.machine[0].Binding)
	assert.NoError(t, err)
	assert.False(t, direct)
	assert.Zero(t, p.gpu.Calls("cuMemPoolSetAccess"))
	copyBetween(t, p)
	assert.Equal(t, 1, p.gpu.Calls("cuMemcpyPeerAsync"))
	assert.Zero(t, p.gpu.Calls("cuCtxEnablePeerAccess"))
}

func TestReachOfPoolsThatCannotBeShared(t *testing.T) {
	p := newPair(t, devices(2))
	p.gpu.Fail("cuMemPoolSetAccess", 1, driver.ResultNotSupported)
	direct, err := p.device[1].Reach(&p.peers, p.machine[0].Binding)
	assert.NoError(t, err)
	assert.False(t, direct)
}

// An error is not remembered, and keeps no copy from being made.
func TestReachThatFails(t *testing.T) {
	for _, op := range []string{"cuMemPoolSetAccess", "cuCtxEnablePeerAccess", "cuDeviceGet", "cuDeviceCanAccessPeer", "cuCtxGetDevice"} {
		p := newPair(t, devices(2))
		p.gpu.Fail(op, 1, driver.ResultUnknown)
		direct, err := p.device[1].Reach(&p.peers, p.machine[0].Binding)
		assert.ErrorIs(t, err, driver.ResultUnknown, op)
		assert.False(t, direct)
		p.gpu.Fail(op, 1, driver.ResultUnknown)
		copyBetween(t, p)
		assert.Len(t, p.machine[0].complaints(), 1, op)
		direct, err = p.device[1].Reach(&p.peers, p.machine[0].Binding)
		assert.NoError(t, err)
		assert.True(t, direct)
	}
}

func TestReachOfMemoryThatIsClosed(t *testing.T) {
	p := newPair(t, devices(2))
	require.NoError(t, p.stream[1].Close())
	require.NoError(t, p.device[1].Close())
	_, err := p.device[1].Reach(&p.peers, p.machine[0].Binding)
	assert.ErrorIs(t, err, driver.ErrClosed)
}

func TestCopyFromOpensBothPools(t *testing.T) {
	p := newPair(t, devices(2))
	copyBetween(t, p)
	copyBetween(t, p)
	assert.Equal(t, driver.MemAccessReadWrite, p.access(t, 0))
	assert.Equal(t, driver.MemAccessReadWrite, p.access(t, 1))
	assert.Equal(t, 2, p.gpu.Calls("cuMemPoolSetAccess"))
	assert.Equal(t, 2, p.gpu.Calls("cuCtxEnablePeerAccess"))
	assert.Equal(t, 2, p.gpu.Calls("cuMemcpyAsync"))
	assert.NoError(t, p.device[0].CopyFrom(&p.peers, p.stream[0].Handle(), 0, p.device[1], 0, 0), "of nothing")

	// Within a device it is a plain copy.
	x := p.alloc(t, 0, 64)
	require.NoError(t, p.device[0].CopyFrom(&p.peers, p.stream[0].Handle(), x.Ptr(), p.device[0], x.Ptr()+32, 32))
	assert.Equal(t, 1, p.gpu.Calls("cuMemcpyDtoDAsync"))
}

func TestCopyFromLostMemory(t *testing.T) {
	p := newPairOn(t, drivertest.New(devices(2)), arena.DeviceConfig{})
	p.device[1].Lose(nil)
	err := p.device[0].CopyFrom(&p.peers, p.stream[0].Handle(), 1, p.device[1], 2, 4)
	assert.ErrorIs(t, err, driver.ErrDeviceLost)
	p.device[0].Lose(nil)
}

// copyBetween copies from device 1 to device 0 and looks at what came over.
func copyBetween(t *testing.T, p *twoArenas) {
	t.Helper()
	const bytes = 100_000
	x, y := p.alloc(t, 0, bytes), p.alloc(t, 1, bytes)
	require.Equal(t, driver.Success, p.gpu.MemsetD8Async(y.Ptr(), 7, bytes, p.stream[1].Handle()))
	require.NoError(t, p.stream[0].Wait(p.stream[1]))
	require.NoError(t, p.device[0].CopyFrom(&p.peers, p.stream[0].Handle(), x.Ptr(), p.device[1], y.Ptr(), bytes))
	require.Equal(t, driver.Success, p.gpu.StreamSynchronize(p.stream[0].Handle()))
	data := make([]byte, bytes)
	require.NoError(t, p.machine[0].Do(func() error {
		return p.machine[0].Failed("cuMemcpyDtoH", p.gpu.MemcpyDtoH(pointerTo(data), x.Ptr(), bytes))
	}))
	for i, v := range data {
		require.Equal(t, byte(7), v, "byte %d", i)
	}
}
