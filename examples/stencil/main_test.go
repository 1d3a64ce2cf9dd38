package main

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// check compares with loops that know nothing of pieces, however small these are.
func check(t *testing.T, where pool.Place, options ...runtime.Option) {
	t.Helper()
	rt, err := runtime.Open(options...)
	require.NoError(t, err)
	defer func() { assert.NoError(t, rt.Close()) }()
	const width = 33
	for _, height := range []int{1, 2, 3, 50} {
		in, want := make([]float32, width*height), make([]float32, width*height)
		for i := range in {
			in[i] = float32(math.Sin(float64(i)))
		}
		for y := range height {
			for x := range width {
				above, below := in[max(y-1, 0)*width+x], in[min(y+1, height-1)*width+x]
				want[y*width+x] = (above + in[y*width+x] + below) / 3
			}
		}
		for _, rows := range []int{1, 7, 1000} {
			out, report, err := blur(context.Background(), rt, width, in, pool.ScatterOptions{Chunk: rows})
			require.NoError(t, err)
			assert.Equal(t, where, report.Where)
			assert.Equal(t, want, out, "%d rows in pieces of %d", height, rows)
		}
	}
}

func TestOnThreeDevices(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(3, drivertest.T4())})
	check(t, pool.OnGPU, runtime.WithDriver(gpu), runtime.WithPolicy(runtime.PolicyAuto))
}

func TestOnTheCPU(t *testing.T) { check(t, pool.OnCPU, runtime.WithPolicy(runtime.PolicyOff)) }

// Every call can fail: the fallback does the work then, and nothing is left behind.
func TestFaults(t *testing.T) {
	for _, op := range []string{"cuModuleLoadDataEx", "cuMemAllocFromPoolAsync", "cuMemcpyHtoDAsync", "cuLaunchKernel", "cuMemcpyDtoHAsync"} {
		gpu := drivertest.ForTest(t, drivertest.Config{})
		rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithPolicy(runtime.PolicyAuto))
		require.NoError(t, err)
		gpu.Fail(op, 1, driver.ResultUnknown)
		out, report, err := blur(context.Background(), rt, 2, []float32{3, 0, 0, 0, 0, 3}, pool.ScatterOptions{})
		require.NoError(t, err, op)
		assert.Equal(t, []float32{2, 0, 1, 1, 0, 2}, out, op)
		assert.ErrorIs(t, report.Err, driver.ResultUnknown, op)
		assert.Zero(t, rt.Stats().Refs, op)
		require.NoError(t, rt.Close(), op)
	}
}

func TestOnHardware(t *testing.T) {
	if _, err := runtime.Probe("test"); errors.Is(err, driver.ErrDriverLibraryUnavailable) {
		t.Skip(err)
	}
	check(t, pool.OnGPU)
}
