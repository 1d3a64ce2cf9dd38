package targets

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

func TestOnEachTarget(t *testing.T) {
	for _, device := range []drivertest.DeviceConfig{drivertest.T4(), drivertest.H100()} {
		t.Run(device.Name, func(t *testing.T) {
			rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(1, device)})))
			require.NoError(t, err)
			defer rt.Close()
			shape := runtime.Shape1D(3, 32)
			x := []gpu.BFloat16{gpu.ToBFloat16(0.5), gpu.ToBFloat16(1), gpu.ToBFloat16(-0.75)}
			want := slices.Clone(x)
			require.NoError(t, MixCPU(shape, want))
			place, err := MixAuto(context.Background(), rt, shape, x)
			require.NoError(t, err)
			assert.True(t, place.GPU)
			assert.Equal(t, want, x)
			y := []float32{1, 2, 3}
			_, err = TwiceAuto(context.Background(), rt, shape, y)
			require.NoError(t, err)
			assert.Equal(t, []float32{2, 4, 6}, y)
		})
	}
}
