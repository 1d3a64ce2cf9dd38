package otel_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	purecudaotel "github.com/purecuda/purecuda/contrib/otel"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/driver/nvml/nvmltest"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/poolmetrics"
	"github.com/purecuda/purecuda/runtime"
	"github.com/purecuda/purecuda/runtime/metrics"
)

// service is a runtime with two simulated devices, and a reader that collects from it.
type service struct {
	gpu      *drivertest.Driver
	rt       *runtime.Runtime
	provider *metric.MeterProvider
	reader   *metric.ManualReader
}

func newService(t *testing.T) service {
	t.Helper()
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	return service{gpu, rt, provider, reader}
}

// collect returns the metrics by name; none if nothing is registered.
func (s service) collect(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, s.reader.Collect(context.Background(), &all))
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		assert.Equal(t, purecudaotel.Scope, scope.Scope.Name)
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// points are the values of a metric by their attributes: "device=0,direction=upload".
func points(t *testing.T, m metricdata.Metrics) map[string]float64 {
	t.Helper()
	var data []metricdata.DataPoint[float64]
	switch d := m.Data.(type) {
	case metricdata.Sum[float64]:
		data = d.DataPoints
	case metricdata.Gauge[float64]:
		data = d.DataPoints
	default:
		require.Failf(t, "metric", "%q has the data %T", m.Name, m.Data)
	}
	values := map[string]float64{}
	for _, p := range data {
		values[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
	}
	return values
}

// work launches saxpy on a device, and leaves the stream and one Ref open.
func (s service) work(t *testing.T, ordinal int) (*runtime.Stream, *runtime.Ref[float32]) {
	t.Helper()
	ctx := context.Background()
	c, err := s.rt.Context(ordinal)
	require.NoError(t, err)
	stream, err := c.NewStream()
	require.NoError(t, err)
	saxpy, err := kernels.Load[kernels.Saxpy](c)
	require.NoError(t, err)
	x, err := runtime.Alloc[float32](stream, 3)
	require.NoError(t, err)
	y, err := runtime.Alloc[float32](stream, 3)
	require.NoError(t, err)
	require.NoError(t, runtime.Upload(ctx, stream, x, []float32{1, 2, 3}))
	require.NoError(t, runtime.Upload(ctx, stream, y, []float32{1, 2, 3}))
	require.NoError(t, saxpy.Launch(stream, 2, x, y))
	require.NoError(t, stream.Synchronize(ctx))
	require.NoError(t, y.Close())
	require.NoError(t, saxpy.Close())
	return stream, x
}

func TestCollect(t *testing.T) {
	s := newService(t)
	registration, err := purecudaotel.Register(s.provider, s.rt, attribute.String("runtime", "batch"))
	require.NoError(t, err)
	s.collect(t)
	assert.Zero(t, s.gpu.Calls("cuDevicePrimaryCtxRetain"), "collecting opens no context")

	_, x := s.work(t, 0)
	found := s.collect(t)
	assert.Equal(t, map[string]float64{"device=0,runtime=batch": 1}, points(t, found["purecuda.device.launches"]))
	assert.Equal(t, map[string]float64{"device=0,runtime=batch": 12}, points(t, found["purecuda.device.memory.in_use"]))
	assert.Equal(t, 24.0, points(t, found["purecuda.device.copied"])["device=0,direction=upload,runtime=batch"])
	assert.Equal(t, map[string]float64{"outcome=available,runtime=batch": 1, "outcome=absent,runtime=batch": 0,
		"outcome=fault,runtime=batch": 0}, points(t, found["purecuda.outcome"]))
	assert.Len(t, points(t, found["purecuda.device.info"]), 2)

	for _, m := range metrics.All() {
		require.Contains(t, found, m.Name)
		got := found[m.Name]
		assert.Equal(t, m.Unit, got.Unit)
		assert.Equal(t, m.Help, got.Description)
		sum, isSum := got.Data.(metricdata.Sum[float64])
		assert.Equal(t, m.Kind != metrics.Gauge, isSum, m.Name)
		assert.Equal(t, m.Kind == metrics.Counter, sum.IsMonotonic, m.Name)
	}
	assert.Len(t, found, len(metrics.All()))

	require.NoError(t, x.Close())
	require.NoError(t, s.rt.Close())
	found = s.collect(t)
	assert.Equal(t, 1.0, points(t, found["purecuda.device.launches"])["device=0,runtime=batch"], "a counter outlives the runtime")
	assert.Equal(t, 0.0, points(t, found["purecuda.device.objects"])["device=0,kind=stream,runtime=batch"])

	require.NoError(t, registration.Unregister())
	assert.Empty(t, s.collect(t))
}

func TestCollectWhenCUDAIsLost(t *testing.T) {
	s := newService(t)
	_, err := purecudaotel.Register(s.provider, s.rt)
	require.NoError(t, err)
	stream, x := s.work(t, 0)
	s.collect(t)
	s.gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	_, err = stream.Query()
	require.ErrorIs(t, err, driver.ResultIllegalAddress)
	found := s.collect(t)
	assert.Equal(t, 1.0, points(t, found["purecuda.outcome"])["outcome=fault"])
	assert.Equal(t, map[string]float64{"device=0": 0, "device=1": 0}, points(t, found["purecuda.device.usable"]))
	assert.Equal(t, 1.0, points(t, found["purecuda.device.launches"])["device=0"])
	require.NoError(t, x.Close())
	require.NoError(t, s.rt.Close())
	assert.Equal(t, 1.0, points(t, s.collect(t)["purecuda.outcome"])["outcome=fault"])
}

func TestCollectConcurrently(t *testing.T) {
	s := newService(t)
	_, err := purecudaotel.Register(s.provider, s.rt)
	require.NoError(t, err)
	var all sync.WaitGroup
	for ordinal := range 2 {
		all.Go(func() {
			_, x := s.work(t, ordinal)
			assert.NoError(t, x.Close())
		})
		all.Go(func() {
			for range 20 {
				s.collect(t)
			}
		})
	}
	all.Wait()
	assert.Equal(t, map[string]float64{"device=0": 1, "device=1": 1}, points(t, s.collect(t)["purecuda.device.launches"]))
}

func TestRegisterWithoutProvider(t *testing.T) {
	s := newService(t)
	_, err := purecudaotel.Register(nil, s.rt)
	require.ErrorContains(t, err, "no MeterProvider")
	_, err = purecudaotel.Register(noop.NewMeterProvider(), s.rt)
	require.NoError(t, err)
}

// TestDocumentListsTheMetrics holds the table of docs/metrics.md against what is registered.
func TestDocumentListsTheMetrics(t *testing.T) {
	document, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	all := slices.Concat(metrics.All(), poolmetrics.All(), metrics.AllHealth())
	for _, m := range all {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+l+"`")
		}
		unit := ""
		if m.Unit != "" {
			unit = "`" + m.Unit + "`"
		}
		row := regexp.QuoteMeta("\n| `"+m.Name+"` | ") + "`[a-z_]+`" +
			regexp.QuoteMeta(" | "+string(m.Kind)+" | "+unit+" | "+strings.Join(labels, ", ")+" | "+m.Help+" |\n")
		assert.Regexp(t, row, string(document))
	}
	assert.Equal(t, len(all), strings.Count(string(document), "\n| `purecuda."), "rows of the table")
}

// What NVML tells has instruments of its own.
func TestRegisterHealth(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{})
	rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithPolicy(runtime.PolicyAuto))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	d, err := rt.Device(0)
	require.NoError(t, err)
	health := metrics.NewHealthReader(rt, nvmltest.New(nvml.Status{UUID: "GPU-" + d.UUID.String(), Temperature: &nvml.Temperature{Now: 55}}))
	reader := metric.NewManualReader()
	registration, err := purecudaotel.RegisterHealth(metric.NewMeterProvider(metric.WithReader(reader)), health)
	require.NoError(t, err)
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &got))
	require.Len(t, got.ScopeMetrics[0].Metrics, 1)
	m := got.ScopeMetrics[0].Metrics[0]
	assert.Equal(t, "purecuda.device.health.temperature", m.Name)
	assert.Equal(t, 55.0, m.Data.(metricdata.Gauge[float64]).DataPoints[0].Value)
	require.NoError(t, registration.Unregister())
	_, err = purecudaotel.RegisterHealth(nil, health)
	assert.Error(t, err)
	_, err = purecudaotel.RegisterHealth(metric.NewMeterProvider(), nil)
	assert.Error(t, err)
}

// A pool has instruments of its own.
func TestRegisterPool(t *testing.T) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	p, err := pool.Open(rt, pool.Options{Queue: 7})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	reader := metric.NewManualReader()
	registration, err := purecudaotel.RegisterPool(metric.NewMeterProvider(metric.WithReader(reader)), poolmetrics.NewReader(p))
	require.NoError(t, err)
	var got metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &got))
	found := false
	for _, m := range got.ScopeMetrics[0].Metrics {
		if m.Name == "purecuda.pool.queue.capacity" {
			found = true
			assert.Equal(t, 7.0, m.Data.(metricdata.Gauge[float64]).DataPoints[0].Value)
		}
	}
	assert.True(t, found)
	require.NoError(t, registration.Unregister())
	_, err = purecudaotel.RegisterPool(nil, poolmetrics.NewReader(p))
	assert.Error(t, err)
	_, err = purecudaotel.RegisterPool(metric.NewMeterProvider(), nil)
	assert.Error(t, err)
}
