package nccl_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/internal/leaks"
	"github.com/purecuda/purecuda/libs/nccl"
	"github.com/purecuda/purecuda/libs/nccl/nccltest"
	"github.com/purecuda/purecuda/runtime"
)

var bg = context.Background()

// patience is how long a test waits for what has to come. Only a test that fails waits so long.
const patience = time.Minute

// TestMain fails when the tests leave goroutines behind.
func TestMain(m *testing.M) { leaks.Main(m, 0) }

// bench is what a test works with: a stream of each device.
type bench struct {
	testing.TB
	rt      *runtime.Runtime
	api     nccl.API
	streams []*runtime.Stream
}

// on opens n devices of a driver.
func on(t testing.TB, gpu driver.API, api nccl.API, n int) bench {
	t.Helper()
	rt, err := runtime.Open(runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	b := bench{t, rt, api, nil}
	for i := range n {
		c, err := rt.Context(i)
		require.NoError(t, err)
		s, err := c.NewStream()
		require.NoError(t, err)
		b.streams = append(b.streams, s)
	}
	return b
}

// simulated opens n simulated devices. At the end no communicator is left.
func simulated(t testing.TB, n int) (bench, *drivertest.Driver, *nccltest.Library) {
	t.Helper()
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(n, drivertest.H100()), Kernels: nccltest.Kernels()})
	lib := nccltest.New(gpu)
	t.Cleanup(func() { assert.Zero(t, lib.Left(), "ranks that were not freed") })
	return on(t, gpu, lib, n), gpu, lib
}

// onHardware opens n devices, or skips the test.
func onHardware(t testing.TB, n int) bench {
	t.Helper()
	gpu := hardware.Open(t)
	if count, r := gpu.DeviceGetCount(); r != driver.Success || int(count) < n {
		t.Skipf("%d devices are there, and the test takes %d", count, n)
	}
	lib, err := nccl.Open()
	if errors.Is(err, driver.ErrLibraryUnavailable) {
		t.Skip(err)
	}
	require.NoError(t, err)
	return on(t, gpu, lib, n)
}

// conform runs a test on the simulated library and on the real one, with n devices.
func conform(t *testing.T, f func(t *testing.T, b bench), devices ...int) {
	for _, n := range devices {
		t.Run(fmt.Sprintf("simulated/%d", n), func(t *testing.T) {
			b, _, _ := simulated(t, n)
			f(t, b)
		})
		t.Run(fmt.Sprintf("hardware/%d", n), func(t *testing.T) { f(t, onHardware(t, n)) })
	}
}

// all makes a communicator of all devices.
func (b bench) all() *nccl.Comm {
	b.Helper()
	c, err := nccl.All(b.api, b.streams, nccl.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { assert.NoError(b, c.Close()) })
	return c
}

// upload has x[i] on device i.
func upload[T any](b bench, x [][]T) (all []*runtime.Ref[T]) {
	b.Helper()
	for i, s := range b.streams {
		r, err := runtime.UploadNew(bg, s, x[i])
		require.NoError(b, err)
		b.Cleanup(func() { assert.NoError(b, r.Close()) })
		all = append(all, r)
	}
	return all
}

func download[T any](b bench, i int, r *runtime.Ref[T]) []T {
	b.Helper()
	x, err := runtime.DownloadNew(bg, b.streams[i], r)
	require.NoError(b, err)
	return x
}

// within waits for f.
func within(t testing.TB, what string, f func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		require.FailNow(t, what+" does not end")
		return nil
	}
}

// to and from convert elements.
func to[T nccl.Element](x float64) T {
	var out T
	switch p := any(&out).(type) {
	case *int8:
		*p = int8(x)
	case *uint8:
		*p = uint8(int64(x))
	case *int32:
		*p = int32(x)
	case *uint32:
		*p = uint32(int64(x))
	case *int64:
		*p = int64(x)
	case *uint64:
		*p = uint64(int64(x))
	case *float32:
		*p = float32(x)
	case *float64:
		*p = x
	case *gpu.Float16:
		*p = gpu.ToFloat16(float32(x))
	case *gpu.BFloat16:
		*p = gpu.ToBFloat16(float32(x))
	}
	return out
}

func from[T nccl.Element](x T) float64 {
	switch v := any(x).(type) {
	case int8:
		return float64(v)
	case uint8:
		return float64(v)
	case int32:
		return float64(v)
	case uint32:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	case float32:
		return float64(v)
	case float64:
		return v
	case interface{ Float32() float32 }:
		return float64(v.Float32())
	}
	panic("no element")
}
