package metrics_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
	"github.com/purecuda/purecuda/runtime/metrics"
)

func open(t *testing.T, gpu *drivertest.Driver) *runtime.Runtime {
	t.Helper()
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	return rt
}

// twoDevices is the machine that most tests simulate.
func twoDevices() drivertest.Config {
	return drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())}
}

// work launches saxpy on a device and leaves one Ref open.
func work(t *testing.T, rt *runtime.Runtime, ordinal int) *runtime.Ref[float32] {
	t.Helper()
	ctx := context.Background()
	c, err := rt.Context(ordinal)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	saxpy, err := kernels.Load[kernels.Saxpy](c)
	require.NoError(t, err)
	x, y := []float32{1, 2, 3}, []float32{10, 20, 30}
	dx, err := runtime.Alloc[float32](s, len(x))
	require.NoError(t, err)
	dy, err := runtime.Alloc[float32](s, len(y))
	require.NoError(t, err)
	require.NoError(t, runtime.Upload(ctx, s, dx, x))
	require.NoError(t, runtime.Upload(ctx, s, dy, y))
	require.NoError(t, saxpy.Launch(s, 2, dx, dy))
	require.NoError(t, runtime.Download(ctx, s, y, dy))
	assert.Equal(t, []float32{12, 24, 36}, y)
	require.NoError(t, dy.Close())
	require.NoError(t, saxpy.Close())
	return dx
}

// A device that has vanished is not usable, and the other one is.
func TestReadADeviceThatIsGone(t *testing.T) {
	gpu := drivertest.New(twoDevices())
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	rt := open(t, gpu)
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	gpu.Vanish(0)
	require.Error(t, s.Synchronize(context.Background()))
	got := values(metrics.NewReader(rt).Read())
	assert.Equal(t, 0.0, got["purecuda.device.usable 0"])
	assert.Equal(t, 1.0, got["purecuda.device.usable 1"])
	assert.Equal(t, 1.0, got["purecuda.outcome available"], "the other device works")
}

// values are the samples by name and labels: "purecuda.device.launches 0".
func values(samples []metrics.Sample) map[string]float64 {
	all := map[string]float64{}
	for _, s := range samples {
		all[strings.Join(append([]string{s.Name}, s.Labels...), " ")] = s.Value
	}
	return all
}

func TestRead(t *testing.T) {
	gpu := drivertest.ForTest(t, twoDevices())
	rt := open(t, gpu)
	reader := metrics.NewReader(rt)
	before := reader.Read()
	got := values(before)
	assert.Len(t, got, len(before), "every sample has its own labels")
	assert.Equal(t, 1.0, got["purecuda.outcome available"])
	assert.Equal(t, 0.0, got["purecuda.outcome fault"])
	assert.Equal(t, 1.0, got["purecuda.device.usable 1"])
	assert.Contains(t, got, "purecuda.device.memory.capacity 1")
	assert.NotContains(t, got, "purecuda.device.launches 0", "nothing was done there")
	assert.Zero(t, gpu.Calls("cuDevicePrimaryCtxRetain"), "reading opens no context")

	x := work(t, rt, 1)
	got = values(reader.Read())
	for name, want := range map[string]float64{
		"purecuda.device.launches 1":                  1,
		"purecuda.device.graph.launches 1":            0,
		"purecuda.device.copies 1 upload":             2,
		"purecuda.device.copied 1 upload":             24,
		"purecuda.device.copies 1 download":           1,
		"purecuda.device.copied 1 download":           12,
		"purecuda.device.copied 1 device":             0,
		"purecuda.device.errors 1":                    0,
		"purecuda.device.generation 1":                1,
		"purecuda.device.objects 1 ref":               1,
		"purecuda.device.objects 1 stream":            1,
		"purecuda.device.memory.in_use 1":             12,
		"purecuda.device.memory.stale 1":              0,
		"purecuda.device.memory.allocations 1 driver": 2,
		"purecuda.device.memory.allocations 1 cache":  0,
		"purecuda.compiler.programs":                  0,
	} {
		assert.Contains(t, got, name)
		assert.Equal(t, want, got[name], name)
	}
	assert.NotContains(t, got, "purecuda.device.launches 0")

	c, err := rt.Context(1)
	require.NoError(t, err)
	require.NoError(t, c.Reset(context.Background()))
	got = values(reader.Read())
	assert.Equal(t, 2.0, got["purecuda.device.generation 1"])
	assert.Equal(t, 12.0, got["purecuda.device.memory.stale 1"])
	assert.Equal(t, 0.0, got["purecuda.device.memory.in_use 1"])
	assert.Equal(t, 1.0, got["purecuda.device.launches 1"], "counters outlive a Reset")
	require.NoError(t, x.Close())

	require.NoError(t, rt.Close())
	got = values(reader.Read())
	assert.Equal(t, 1.0, got["purecuda.device.launches 1"], "and the runtime")
	assert.Equal(t, 0.0, got["purecuda.device.objects 1 stream"])
}

// TestSamplesFitTheirMetrics holds what is read against what All says of it.
func TestSamplesFitTheirMetrics(t *testing.T) {
	rt := open(t, drivertest.ForTest(t, twoDevices()))
	require.NoError(t, work(t, rt, 0).Close())
	described := map[string]metrics.Metric{}
	for _, m := range metrics.All() {
		assert.NotContains(t, described, m.Name, "described twice")
		assert.NotEmpty(t, m.Help)
		described[m.Name] = m
	}
	read := map[string]bool{}
	for _, s := range metrics.NewReader(rt).Read() {
		require.Contains(t, described, s.Name)
		assert.Len(t, s.Labels, len(described[s.Name].Labels), s.Name)
		read[s.Name] = true
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(described)), slices.Collect(maps.Keys(read)), "all are read")
}

func TestReadWhenCUDAIsLost(t *testing.T) {
	gpu := drivertest.New(twoDevices())
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	rt := open(t, gpu)
	reader := metrics.NewReader(rt)
	x := work(t, rt, 0)
	reader.Read()
	gpu.Fail("cuStreamWriteValue64", 1, driver.ResultIllegalAddress)
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	require.ErrorIs(t, s.Synchronize(context.Background()), driver.ResultIllegalAddress)

	got := values(reader.Read())
	assert.Equal(t, 1.0, got["purecuda.outcome fault"])
	assert.Equal(t, 0.0, got["purecuda.outcome available"])
	assert.Equal(t, 0.0, got["purecuda.device.usable 0"])
	assert.Equal(t, 0.0, got["purecuda.device.usable 1"], "no device of the process can be used")
	assert.Equal(t, 1.0, got["purecuda.device.launches 0"])
	assert.Equal(t, 1.0, got["purecuda.device.errors 0"])
	assert.Equal(t, 12.0, got["purecuda.device.memory.stale 0"]+got["purecuda.device.memory.in_use 0"])
	require.NoError(t, x.Close())
	require.NoError(t, rt.Close())
	assert.Equal(t, 1.0, values(reader.Read())["purecuda.outcome fault"])

	late := values(metrics.NewReader(rt).Read())
	assert.NotContains(t, late, "purecuda.device.launches 0", "it has never seen the context")
	assert.Equal(t, 0.0, late["purecuda.device.usable 0"])
}

func TestReadWithoutCUDA(t *testing.T) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	got := values(metrics.NewReader(rt).Read())
	assert.Equal(t, 1.0, got["purecuda.outcome absent"])
	assert.NotContains(t, got, "purecuda.device.usable 0")
	require.NoError(t, rt.Close())
}

// TestReadWhileADeviceIsBusy reads while a kernel does not end and a goroutine waits for it.
func TestReadWhileADeviceIsBusy(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{})
	config := twoDevices()
	var once sync.Once
	config.Kernels = map[string]drivertest.KernelFunc{"saxpy": func(*drivertest.Launch) error {
		once.Do(func() { close(started) })
		<-release
		return nil
	}}
	rt := open(t, drivertest.ForTest(t, config))
	c, err := rt.Context(0)
	require.NoError(t, err)
	s, err := c.NewStream()
	require.NoError(t, err)
	saxpy, err := kernels.Load[kernels.Saxpy](c)
	require.NoError(t, err)
	x, err := runtime.Alloc[float32](s, 1)
	require.NoError(t, err)
	y, err := runtime.Alloc[float32](s, 1)
	require.NoError(t, err)
	require.NoError(t, saxpy.Launch(s, 1, x, y))
	waited := make(chan error)
	go func() { waited <- s.Synchronize(context.Background()) }()
	<-started
	reader := metrics.NewReader(rt)
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for range 20 {
				assert.Equal(t, 1.0, values(reader.Read())["purecuda.device.launches 0"])
			}
		})
	}
	readers.Wait()
	close(release)
	require.NoError(t, <-waited)
	require.NoError(t, x.Close())
	require.NoError(t, y.Close())
	require.NoError(t, saxpy.Close())
}
