package launch_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/runtime"
)

const ofHopper = ".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n"

func nothing(m *launch.Module, rt *runtime.Runtime) (launch.Place, error) {
	return m.Auto(context.Background(), rt, "Nothing", func(k *launch.Kernels, c *launch.Copies) error {
		return c.Finish(func() error { return k.Launch(0, c.Stream, runtime.Shape1D(1, 1)) })
	}, func() error { return errors.New("the CPU is not asked") })
}

// The best device cannot run the kernel, and another one can: that one does, whatever their scores are.
func TestAutoOnOneOfTwoDevices(t *testing.T) {
	for _, best := range []int{0, 1} {
		m := &launch.Module{Images: []runtime.Image{{Code: []byte(ofHopper)}}, Kernels: []string{"nothing"}}
		gpu := drivertest.ForTest(t, drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.T4(), drivertest.H100()}})
		rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithScore(func(d runtime.Device) float64 {
			if d.Ordinal == best {
				return 2
			}
			return 1
		}))
		require.NoError(t, err)
		for range 5 {
			place, err := nothing(m, rt)
			require.NoError(t, err)
			assert.True(t, place.GPU)
			assert.Contains(t, place.Device, "H100")
		}
		assert.Equal(t, 1, gpu.Calls("cuModuleLoadDataEx"))
		require.NoError(t, rt.Close())
	}
}

func TestAutoWhereNoDeviceCan(t *testing.T) {
	m := &launch.Module{Images: []runtime.Image{{Code: []byte(ofHopper)}}, Kernels: []string{"nothing"}}
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.T4())})
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer rt.Close()
	for range 2 {
		_, err = nothing(m, rt)
		assert.ErrorIs(t, err, driver.ErrModuleLoadFailed)
		assert.ErrorContains(t, err, "[device 1]")
		assert.ErrorIs(t, err, driver.ErrUnsupported)
		assert.ErrorContains(t, err, "gpuc has compiled the kernels for no device of compute capability 7.5: give it -arch sm_75 too")
	}
	m = &launch.Module{Images: m.Images, Kernels: m.Kernels, Needs: []string{"sm_90"}}
	_, err = nothing(m, rt)
	assert.ErrorIs(t, err, driver.ErrUnsupported)
	assert.ErrorContains(t, err, "kernel nothing needs sm_90, and the device has compute capability 7.5: take another device")
}

// An image that the driver cannot read is no matter of the device.
func TestLoadOfABadImage(t *testing.T) {
	m := &launch.Module{Images: []runtime.Image{{Code: []byte(strings.Replace(ofHopper, "ret;", "nonsense;", 1))}}, Kernels: []string{"nothing"}}
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.H100()}})))
	require.NoError(t, err)
	defer rt.Close()
	_, err = nothing(m, rt)
	assert.ErrorIs(t, err, driver.ErrModuleLoadFailed)
	assert.NotErrorIs(t, err, driver.ErrUnsupported)
}

// Trim gives back what Auto keeps, and the next call loads it again.
func TestTrimEmptiesAuto(t *testing.T) {
	m := &launch.Module{Images: []runtime.Image{{Code: []byte(ofHopper)}}, Kernels: []string{"nothing"}}
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.H100()}})
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	for range 3 {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				_, err := nothing(m, rt)
				assert.NoError(t, err)
			})
		}
		all.Wait()
		before := rt.Stats()
		assert.Positive(t, before.Streams)
		assert.EqualValues(t, 1, before.Modules)
		require.NoError(t, rt.Trim())
		after := rt.Stats()
		assert.EqualValues(t, 1, after.Streams, "that of the probe")
		assert.Zero(t, after.SpareStreams)
		assert.Zero(t, after.Modules)
	}
	require.NoError(t, rt.Contexts()[0].Reset(t.Context()))
	_, err = nothing(m, rt)
	require.NoError(t, err)
	require.NoError(t, rt.Trim())
	assert.Zero(t, rt.Stats().Modules)
}

// A Trim beside calls takes nothing from them.
func TestTrimBesideAuto(t *testing.T) {
	m := &launch.Module{Images: []runtime.Image{{Code: []byte(ofHopper)}}, Kernels: []string{"nothing"}}
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: []drivertest.DeviceConfig{drivertest.H100()}})
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				place, err := nothing(m, rt)
				assert.NoError(t, err)
				assert.True(t, place.GPU)
			}
		})
	}
	all.Go(func() {
		for range 100 {
			assert.NoError(t, rt.Trim())
		}
	})
	all.Wait()
	require.NoError(t, rt.Trim())
	assert.Zero(t, rt.Stats().Modules)
	require.NoError(t, rt.Close())
}

func TestPlaceIsPrinted(t *testing.T) {
	assert.Equal(t, "nowhere", launch.Place{}.String())
	assert.Equal(t, "on H100", launch.Place{GPU: true, Device: "H100"}.String())
	assert.Equal(t, "on the CPU: no driver", launch.Place{Reason: errors.New("no driver")}.String())
}
