package launch_test

import (
	"context"
	"errors"
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
	}
}
