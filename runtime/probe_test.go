package runtime_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

func TestProbe(t *testing.T) {
	config := drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.T4(), drivertest.H100(), drivertest.A100()}}
	rt, gpu := open(t, config)
	sum, err := rt.Probe("sum")
	require.NoError(t, err)
	assert.Equal(t, "sum", sum.Label)
	assert.Equal(t, 1, sum.Device().Ordinal, "the best device")
	assert.Equal(t, runtime.Capability{Major: 9}, sum.Device().Capability)
	again, err := rt.Probe("sum")
	require.NoError(t, err)
	assert.Same(t, sum, again)

	saxpy, err := rt.Probe("saxpy")
	require.NoError(t, err)
	assert.NotSame(t, sum, saxpy)
	assert.Same(t, sum.Context, saxpy.Context, "all labels share one context")
	assert.NotSame(t, sum.Stream, saxpy.Stream, "each label has its own stream")
	assert.NotEqual(t, sum.Stream.ID(), saxpy.Stream.ID())
	assert.Equal(t, 1, gpu.Calls("cuDevicePrimaryCtxRetain"))
}

func TestProbeFromManyGoroutines(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		var wg sync.WaitGroup
		var backends [32]*runtime.Backend
		for i := range backends {
			wg.Go(func() {
				b, err := rt.Probe([]string{"even", "odd"}[i%2])
				assert.NoError(t, err)
				backends[i] = b
			})
		}
		wg.Wait()
		for i, b := range backends {
			require.Same(t, backends[i%2], b)
			require.Same(t, backends[0].Context, b.Context)
			_, err := b.Stream.Query()
			assert.NoError(t, err)
		}
		assert.Equal(t, uint64(2), rt.Stats().Streams, "streams of those who came too late are closed")
	})
}

func TestProbeAbsent(t *testing.T) {
	rt, _ := open(t, drivertest.Config{InitResult: driver.ResultNoDevice})
	_, err := rt.Probe("saxpy")
	var e *driver.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, driver.ErrDriverLibraryUnavailable, e.Kind)
	assert.Equal(t, "saxpy backend: no CUDA runtime available", e.Detail)
	assert.Equal(t, "DriverLibraryUnavailable: saxpy backend: no CUDA runtime available: "+
		"cuInit: CUDA_ERROR_NO_DEVICE (100): the machine has no CUDA device that the process may see: "+
		"the driver library is there, and has no device to work with", err.Error())
	assert.ErrorIs(t, err, driver.ResultNoDevice, "the cause is behind it")
}

func TestProbeContextFails(t *testing.T) {
	config := drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.T4(), drivertest.H100()}}
	rt, gpu := open(t, config, runtime.WithDevices("1"))
	gpu.Fail("cuDevicePrimaryCtxRetain", 1, driver.ResultOutOfMemory)
	_, err := rt.Probe("saxpy")
	var e *driver.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, driver.ErrDriverCallFailed, e.Kind)
	assert.Equal(t, "saxpy backend: failed to create CUDA context for device 1", e.Detail)
	assert.Regexp(t, `^DriverCallFailed: saxpy backend: failed to create CUDA context for device 1\b`, err.Error())
	assert.Equal(t, 1, e.Device)
	assert.ErrorIs(t, err, driver.ResultOutOfMemory, "the cause is behind it")
	assert.NotErrorIs(t, err, driver.ErrDriverLibraryUnavailable, "a fault is not absence")
	assert.Equal(t, runtime.Available, rt.Outcome())

	_, err = rt.Probe("saxpy")
	require.NoError(t, err, "the next try")
}

func TestProbeStreamFails(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	contextOf(t, rt)
	gpu.Fail("cuStreamCreateWithPriority", 1, driver.ResultOutOfMemory)
	_, err := rt.Probe("saxpy")
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	assert.ErrorContains(t, err, "saxpy backend: ")
	_, err = rt.Probe("saxpy")
	require.NoError(t, err)
}

// A device that is lost is no device of the next Probe.
func TestProbeOnTheNextDevice(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	at := func() int {
		b, err := rt.Probe("a")
		require.NoError(t, err)
		synchronize(t, b.Stream)
		return b.Device().Ordinal
	}
	require.Equal(t, 0, at())
	gpu.Vanish(0)
	require.Error(t, works(contextAt(t, rt, 0)))
	assert.Equal(t, 1, at())
	gpu.Return(0)
	require.NoError(t, rt.Refresh())
	gpu.Vanish(1)
	require.Error(t, works(contextAt(t, rt, 1)))
	assert.Equal(t, 0, at())
}

// Required and absent is a kind of its own, and never the one that leads to the CPU.
func TestProbeRequiredAndAbsent(t *testing.T) {
	t.Setenv(runtime.PolicyVariable, "required")
	rt, _ := open(t, drivertest.Config{InitResult: driver.ResultNoDevice}, runtime.WithPolicy(runtime.PolicyAuto))
	_, err := rt.Probe("a")
	assert.ErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
	assert.NotErrorIs(t, err, driver.ErrRequired)
	_, err = runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{InitResult: driver.ResultNoDevice})))
	assert.ErrorIs(t, err, driver.ErrRequired)
	assert.NotErrorIs(t, err, driver.ErrDriverLibraryUnavailable)
}
