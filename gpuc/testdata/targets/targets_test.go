package targets

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
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
			sum(t, rt, device.Major == 9)
		})
	}
}

// sum runs a kernel for one target alone: elsewhere its launch is an error, and the other kernels run.
func sum(t *testing.T, rt *runtime.Runtime, runs bool) {
	tiles := func(v float32) gpu.Tiles[gpu.Float16] {
		m := gpu.Tiles[gpu.Float16]{Data: make([]gpu.Float16, 64*64), Rows: 64, Cols: 64, Pitch: 64, Box: 64}
		for i := range m.Data {
			m.Data[i] = gpu.ToFloat16(v * float32(i/64))
		}
		return m
	}
	ones := tiles(0)
	for i := range ones.Data {
		ones.Data[i] = gpu.ToFloat16(1)
	}
	shape := runtime.Shape{Grid: runtime.Dim3{X: 1}, SharedBytes: 128*128 + 16}
	want, got := make([]float32, 64), make([]float32, 64)
	require.NoError(t, SumCPU(shape, ones, tiles(0.5), want))
	assert.Equal(t, float32(64), want[2])
	_, err := SumAuto(context.Background(), rt, shape, ones, tiles(0.5), got)
	if !runs {
		assert.ErrorIs(t, err, driver.ErrUnsupported)
		b, err := rt.Probe("test")
		require.NoError(t, err)
		k, err := Load(b.Context)
		require.NoError(t, err)
		defer k.Close()
		err = k.Sum(b.Stream, shape, nil, nil, nil)
		assert.ErrorIs(t, err, driver.ErrUnsupported)
		assert.ErrorContains(t, err, "kernel Sum needs sm_90a, and the device has compute capability 7.5")
		return
	}
	require.NoError(t, err)
	assert.Equal(t, want, got)
}
