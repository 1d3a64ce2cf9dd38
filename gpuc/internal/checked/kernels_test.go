package checked

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/runtime"
)

func open(t *testing.T) (*runtime.Runtime, *runtime.Backend) {
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	b, err := rt.Probe("test")
	require.NoError(t, err)
	return rt, b
}

func TestReport(t *testing.T) {
	rt, b := open(t)
	ctx, shape := context.Background(), runtime.Linear(40, 32)
	k, err := Load(b.Context)
	require.NoError(t, err)
	defer k.Close()
	x, err := runtime.Alloc[int32](b.Stream, 40)
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, runtime.Fill(b.Stream, x, 7))
	y, err := runtime.Alloc[int32](b.Stream, 40)
	require.NoError(t, err)
	defer y.Close()
	require.NoError(t, k.Shifted(b.Stream, shape, y, x))
	err = k.Failed(ctx, b.Stream)
	var failed *launch.CheckError
	require.ErrorAs(t, err, &failed)
	assert.EqualError(t, err, "gpu: kernels.go:19: index out of range [40] with length 40 in block (1,0,0), thread (7,0,0)")
	assert.Equal(t, gpu.Dim3{X: 7}, failed.Thread)
	require.NoError(t, k.Failed(ctx, b.Stream), "it is said once, and the context is good")

	_, err = DivideAuto(ctx, rt, shape, make([]int32, 40), make([]int32, 40))
	require.Error(t, err)
	assert.Regexp(t, `kernels.go:28: integer divide by zero in block \([01],0,0\)`, err.Error())
	err = DivideCPU(shape, make([]int32, 40), make([]int32, 40))
	require.Error(t, err)
	assert.Regexp(t, `kernels.go:28: runtime error: integer divide by zero in block \([01],0,0\)`, err.Error())
}

func TestConditions(t *testing.T) {
	rt, _ := open(t)
	ctx, pair := context.Background(), Pair{A: 3, B: 0.5}
	free := runtime.LaunchConfig{Grid: runtime.Dim3{X: 1}}
	two, one := []float64{1, 2}, []float64{10, 20}
	place, err := TileAuto(ctx, rt, free, two, one, true, pair)
	require.NoError(t, err)
	assert.True(t, place.GPU)
	assert.Equal(t, []float64{14.5, 25.5}, two)
	_, err = TileAuto(ctx, rt, free, two, one, false, pair)
	require.NoError(t, err)
	assert.Equal(t, []float64{14.5, 25.5}, two)
	require.NoError(t, TileCPU(free, two, one, true, pair))
	assert.Equal(t, []float64{28, 49}, two)

	for name, run := range map[string]func(shape runtime.LaunchConfig, k, ctx []float64) error{
		"GPU": func(shape runtime.LaunchConfig, k, other []float64) error {
			_, err := TileAuto(ctx, rt, shape, k, other, true, pair)
			return err
		},
		"CPU": func(shape runtime.LaunchConfig, k, other []float64) error {
			return TileCPU(shape, k, other, true, pair)
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, run(runtime.Linear(8, 8), two, one), "Tile: the block is 8x1x1; the kernel is compiled for 4x2x1")
			assert.ErrorContains(t, run(free, two, one[:1]), "Tile: the lengths of k, ctx are [2 1]; the kernel is compiled for equal ones")
			assert.NoError(t, run(free, nil, nil))
		})
	}
	_, err = ShiftedAuto(ctx, rt, runtime.Linear(1, 32), make([]int32, 9)[:8], make([]int32, 9))
	assert.NoError(t, err)
	shared := make([]int32, 9)
	_, err = ShiftedAuto(ctx, rt, runtime.Linear(1, 32), shared[1:], shared)
	assert.ErrorContains(t, err, "the slices y and x overlap")
}

func TestAutoWithoutGPU(t *testing.T) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	defer rt.Close()
	y := make([]int32, 2)
	place, err := ShiftedAuto(context.Background(), rt, runtime.Linear(2, 32), y, []int32{1, 2, 3})
	require.NoError(t, err)
	assert.Equal(t, []int32{2, 3}, y)
	assert.False(t, place.GPU)
	assert.ErrorContains(t, place.Reason, "no CUDA runtime available")
	assert.Contains(t, place.String(), "on the CPU: ")
}

func TestNil(t *testing.T) {
	_, b := open(t)
	var k *Kernels
	shape := runtime.Linear(1, 32)
	assert.Error(t, k.Trapped(b.Stream, shape, nil))
	assert.Error(t, k.Shifted(b.Stream, shape, nil, nil))
	assert.Error(t, k.Failed(context.Background(), b.Stream))
	assert.NoError(t, k.Close())
	_, err := Load(nil)
	assert.Error(t, err)
	k, err = Load(b.Context)
	require.NoError(t, err)
	assert.Error(t, k.Shifted(b.Stream, shape, nil, nil))
	assert.Error(t, k.Shifted(nil, shape, nil, nil))
	require.NoError(t, k.Close())
	assert.Error(t, k.Trapped(b.Stream, shape, nil))
	assert.NoError(t, k.Close())
}
