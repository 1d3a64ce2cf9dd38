package checked

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
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
	ctx, shape := context.Background(), runtime.Shape1D(40, 32)
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
	err = b.Stream.Synchronize(ctx)
	var failed *launch.CheckError
	require.ErrorAs(t, err, &failed)
	assert.EqualError(t, err, "gpu: kernels.go:19: index out of range [40] with length 40 in block (1,0,0), thread (7,0,0)")
	assert.Equal(t, gpu.Dim3{X: 7}, failed.Thread)
	require.NoError(t, b.Stream.Synchronize(ctx), "it is said once, and the context is good")

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
	free := runtime.Shape{Grid: runtime.Dim3{X: 1}}
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

	for name, run := range map[string]func(shape runtime.Shape, k, ctx []float64) error{
		"GPU": func(shape runtime.Shape, k, other []float64) error {
			_, err := TileAuto(ctx, rt, shape, k, other, true, pair)
			return err
		},
		"CPU": func(shape runtime.Shape, k, other []float64) error {
			return TileCPU(shape, k, other, true, pair)
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.ErrorContains(t, run(runtime.Shape1D(8, 8), two, one), "Tile: the block is 8x1x1; the kernel is compiled for 4x2x1")
			assert.ErrorContains(t, run(free, two, one[:1]), "Tile: the lengths of k, ctx are [2 1]; the kernel is compiled for equal ones")
			assert.NoError(t, run(free, nil, nil))
		})
	}
	_, err = ShiftedAuto(ctx, rt, runtime.Shape1D(1, 32), make([]int32, 9)[:8], make([]int32, 9))
	assert.NoError(t, err)
	shared := make([]int32, 9)
	_, err = ShiftedAuto(ctx, rt, runtime.Shape1D(1, 32), shared[1:], shared)
	assert.ErrorContains(t, err, "the slices y and x overlap")
}

func TestAutoWithoutGPU(t *testing.T) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	defer rt.Close()
	y := make([]int32, 2)
	place, err := ShiftedAuto(context.Background(), rt, runtime.Shape1D(2, 32), y, []int32{1, 2, 3})
	require.NoError(t, err)
	assert.Equal(t, []int32{2, 3}, y)
	assert.False(t, place.GPU)
	assert.ErrorContains(t, place.Reason, "no CUDA runtime available")
	assert.Contains(t, place.String(), "on the CPU: ")
}

func TestNil(t *testing.T) {
	_, b := open(t)
	var k *Kernels
	shape := runtime.Shape1D(1, 32)
	assert.Error(t, k.Trapped(b.Stream, shape, nil))
	assert.Error(t, k.Shifted(b.Stream, shape, nil, nil))
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

// TestRows launches a generic kernel whose parameter is a struct with slices.
func TestRows(t *testing.T) {
	rt, b := open(t)
	ctx := context.Background()
	batch := Batch[int64]{In: []int64{1, 2, 3}, Out: make([]int64, 3), factors: [2]int64{10, 100}}
	batch.Flags.Add, batch.Flags.Negate = true, true
	batch.More[0].Bias = []int64{5, 5, 5}
	w := []int64{7, 8, 9}
	want := []int64{-12, -203, -34}
	for name, run := range map[string]func(k Batch[int64], w []int64) error{
		"GPU": func(k Batch[int64], w []int64) error {
			place, err := RowsInt64Auto(ctx, rt, runtime.Shape1D(3, 32), k, w)
			assert.Equal(t, err == nil, place.GPU && err == nil)
			return err
		},
		"CPU": func(k Batch[int64], w []int64) error { return RowsInt64CPU(runtime.Shape1D(3, 32), k, w) },
	} {
		t.Run(name, func(t *testing.T) {
			clear(batch.Out)
			require.NoError(t, run(batch, w))
			assert.Equal(t, want, batch.Out)
			bad := batch
			bad.Out = batch.Out[:2]
			assert.ErrorContains(t, run(bad, w), "RowsInt64: the lengths of k.In, k.Out are [3 2]")
			bad.Out = w
			assert.ErrorContains(t, run(bad, w), "overlap, and the kernel writes")
		})
	}
	k, err := Load(b.Context)
	require.NoError(t, err)
	defer k.Close()
	memory, err := runtime.Alloc[float32](b.Stream, 8)
	require.NoError(t, err)
	defer memory.Close()
	refs := BatchFloat32Refs{In: memory.Slice(0, 4), Out: memory.Slice(3, 7)}
	refs.More[0].Bias = memory.Slice(0, 4)
	assert.EqualError(t, k.RowsFloat32(b.Stream, runtime.Shape1D(3, 32), refs, memory.Slice(0, 4)),
		"InvalidArgument: RowsFloat32: the slices k.In and k.Out overlap, and the kernel writes one of them")
	refs.Out = memory.Slice(4, 8)
	assert.NoError(t, k.RowsFloat32(b.Stream, runtime.Shape1D(3, 32), refs, memory.Slice(0, 4)))
	assert.Error(t, k.RowsFloat32(b.Stream, runtime.Shape1D(3, 32), BatchFloat32Refs{}, nil))
}

// TestRecursion launches a kernel whose function calls itself too deep for some numbers.
func TestRecursion(t *testing.T) {
	rt, b := open(t)
	ctx := context.Background()
	out := make([]int32, 6)
	_, err := StepsAuto(ctx, rt, runtime.Shape1D(6, 32), out, 1)
	require.NoError(t, err)
	assert.Equal(t, []int32{0, 1, 7, 2, 5, 8}, out)
	_, err = StepsAuto(ctx, rt, runtime.Shape1D(6, 32), out, 4)
	require.Error(t, err)
	assert.Regexp(t, `^gpu: kernels.go:74: collatz is called more than 12 deep \(recursion=12\) in block \(0,0,0\), thread \([35],0,0\)$`, err.Error())
	require.NoError(t, StepsCPU(runtime.Shape1D(6, 32), out, 4), "the stack of a CPU is large")
	assert.EqualValues(t, 16, out[3])
	assert.NoError(t, b.Context.EnsureStackSize(1))
	assert.NoError(t, b.Context.EnsureStackSize(100_000))
	assert.Error(t, (*runtime.Context)(nil).EnsureStackSize(1))
}

// TestPrints compares what a kernel prints on the CPU and on the simulated driver.
func TestPrints(t *testing.T) {
	var onGPU, onCPU bytes.Buffer
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{Printf: &onGPU})))
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	gpu.SetOutput(&onCPU)
	defer gpu.SetOutput(nil)
	x := []float32{1.0 / 3, 12345678, -2e-9}
	_, err = PrintsAuto(context.Background(), rt, runtime.Shape1D(3, 32), x, -5, gpu.ToFloat16(0.1))
	require.NoError(t, err)
	require.NoError(t, PrintsCPU(runtime.Shape1D(3, 32), x, -5, gpu.ToFloat16(0.1)))
	lines := func(b bytes.Buffer) []string { return slices.Sorted(strings.Lines(b.String())) }
	assert.Equal(t, lines(onCPU), lines(onGPU))
	assert.Contains(t, onCPU.String(), "1: x is 1.23457e+07, 12345678.000, 1.235e+07 or 4.11523e+06;    -5 1   | 0x38d7ea4c68000 true true text%  right 0.0999756\n")
}

// TestFaultNamesLine looks for the line of the source in what the simulated driver says about a fault.
func TestFaultNamesLine(t *testing.T) {
	d := drivertest.New(drivertest.Config{})
	defer d.Close()
	rt, err := runtime.Open(runtime.WithDriver(d))
	require.NoError(t, err)
	defer rt.Close()
	_, err = TrappedAuto(context.Background(), rt, runtime.Shape1D(64, 64), make([]int32, 40))
	require.Error(t, err)
	assert.Contains(t, fmt.Sprint(d.Findings()), "of example.com/k/kernels.go:45")
}
