package prometheus_test

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	purecudaprom "github.com/purecuda/purecuda/contrib/prometheus"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/driver/nvml/nvmltest"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
	"github.com/purecuda/purecuda/runtime/metrics"
)

// service is a runtime with two simulated devices, and a server that is scraped.
type service struct {
	gpu      *drivertest.Driver
	rt       *runtime.Runtime
	registry *prometheus.Registry
	url      string
}

func newService(t *testing.T) service {
	t.Helper()
	gpu := drivertest.New(drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(purecudaprom.NewCollector(rt)))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return service{gpu, rt, registry, server.URL}
}

// scrape asks the server and returns the lines of the answer.
func (s service) scrape(t *testing.T) []string {
	t.Helper()
	answer, err := http.Get(s.url)
	require.NoError(t, err)
	defer func() { assert.NoError(t, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, string(body))
	return strings.Split(string(body), "\n")
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

func TestScrape(t *testing.T) {
	s := newService(t)
	before := s.scrape(t)
	assert.Contains(t, before, `purecuda_outcome{outcome="available"} 1`)
	assert.Contains(t, before, `purecuda_device_usable{device="1"} 1`)
	assert.Zero(t, s.gpu.Calls("cuDevicePrimaryCtxRetain"), "scraping opens no context")

	_, x := s.work(t, 0)
	lines := s.scrape(t)
	for _, want := range []string{
		"# TYPE purecuda_device_launches_total counter",
		"# TYPE purecuda_device_memory_in_use_bytes gauge",
		`purecuda_device_launches_total{device="0"} 1`,
		`purecuda_device_copies_total{device="0",direction="upload"} 2`,
		`purecuda_device_copied_bytes_total{device="0",direction="upload"} 24`,
		`purecuda_device_memory_in_use_bytes{device="0"} 12`,
		`purecuda_device_memory_allocations_total{device="0",source="driver"} 2`,
		`purecuda_device_objects{device="0",kind="stream"} 1`,
		`purecuda_compiler_time_seconds_total 0`,
	} {
		assert.Contains(t, lines, want)
	}
	assert.NotContains(t, strings.Join(lines, "\n"), `launches_total{device="1"}`, "nothing was done there")
	assert.Contains(t, strings.Join(lines, "\n"), `purecuda_device_info{compute_capability="9.0",device="0",name="`)

	problems, err := testutil.GatherAndLint(s.registry)
	require.NoError(t, err)
	assert.Empty(t, problems)

	require.NoError(t, x.Close())
	require.NoError(t, s.rt.Close())
	lines = s.scrape(t)
	assert.Contains(t, lines, `purecuda_device_launches_total{device="0"} 1`, "a counter outlives the runtime")
	assert.Contains(t, lines, `purecuda_device_objects{device="0",kind="stream"} 0`)
}

func TestScrapeWhenCUDAIsLost(t *testing.T) {
	s := newService(t)
	stream, x := s.work(t, 0)
	s.scrape(t)
	s.gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	_, err := stream.Query()
	require.ErrorIs(t, err, driver.ResultIllegalAddress)
	lines := s.scrape(t)
	assert.Contains(t, lines, `purecuda_outcome{outcome="fault"} 1`)
	assert.Contains(t, lines, `purecuda_outcome{outcome="available"} 0`)
	assert.Contains(t, lines, `purecuda_device_usable{device="0"} 0`)
	assert.Contains(t, lines, `purecuda_device_errors_total{device="0"} 1`)
	assert.Contains(t, lines, `purecuda_device_launches_total{device="0"} 1`)
	require.NoError(t, x.Close())
	require.NoError(t, s.rt.Close())
	assert.Contains(t, s.scrape(t), `purecuda_outcome{outcome="fault"} 1`)
}

// TestNameOfTheDevice gives a device a name that is no UTF-8, which Prometheus rejects.
func TestNameOfTheDevice(t *testing.T) {
	device := drivertest.H100()
	device.Name = "H100 \xff"
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto),
		runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{Devices: []drivertest.DeviceConfig{device}})))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(purecudaprom.NewCollector(rt)))
	_, err = registry.Gather()
	require.NoError(t, err)
}

func TestScrapeConcurrently(t *testing.T) {
	s := newService(t)
	var all sync.WaitGroup
	for ordinal := range 2 {
		all.Go(func() {
			_, x := s.work(t, ordinal)
			assert.NoError(t, x.Close())
		})
		for range 2 {
			all.Go(func() {
				for range 10 {
					s.scrape(t)
				}
			})
		}
	}
	all.Wait()
	lines := s.scrape(t)
	assert.Contains(t, lines, `purecuda_device_launches_total{device="0"} 1`)
	assert.Contains(t, lines, `purecuda_device_launches_total{device="1"} 1`)
	require.NoError(t, s.rt.Close())
	s.scrape(t)
}

// What NVML tells is a collector of its own.
func TestHealthCollector(t *testing.T) {
	gpu := drivertest.ForTest(t, drivertest.Config{})
	rt, err := runtime.Open(runtime.WithDriver(gpu), runtime.WithPolicy(runtime.PolicyAuto))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	d, err := rt.Device(0)
	require.NoError(t, err)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(purecudaprom.NewHealthCollector(metrics.NewHealthReader(rt, nvmltest.New(
		nvml.Status{UUID: "GPU-" + d.UUID.String(), Temperature: &nvml.Temperature{Now: 55}}))))
	families, err := registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	assert.Equal(t, "purecuda_device_health_temperature_celsius", families[0].GetName())
	assert.Equal(t, 55.0, families[0].GetMetric()[0].GetGauge().GetValue())
}

// TestDocumentListsTheMetrics holds the table of docs/metrics.md against the collectors.
func TestDocumentListsTheMetrics(t *testing.T) {
	document, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	rows := map[string][]string{}
	for line := range strings.Lines(string(document)) {
		if cells := strings.Split(strings.Trim(line, "| \n"), " | "); strings.HasPrefix(line, "| `purecuda.") {
			rows[strings.Trim(cells[1], "`")] = cells
		}
	}
	s := newService(t)
	_, x := s.work(t, 0)
	families, err := s.registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		row := rows[f.GetName()]
		require.Len(t, row, 6, f.GetName())
		kind := map[string]string{"updowncounter": "gauge"}[row[2]]
		assert.Equal(t, strings.ToLower(f.GetType().String()), cmp.Or(kind, row[2]), f.GetName())
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		assert.ElementsMatch(t, labels, slices.DeleteFunc(strings.Split(row[4], ", "), func(l string) bool { return l == "" }), f.GetName())
		assert.Equal(t, f.GetHelp(), row[5])
	}
	all := names(t)
	for name := range all {
		assert.Contains(t, rows, name)
	}
	for name := range rows {
		assert.Contains(t, all, name)
	}
	require.NoError(t, x.Close())
}
