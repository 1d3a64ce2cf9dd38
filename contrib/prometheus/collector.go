// Package prometheus is a Prometheus collector for a purecuda runtime.
//
//	registry.MustRegister(purecudaprom.NewCollector(rt))
//
// The metrics come from package runtime/metrics, and for [NewPoolCollector] from pool/poolmetrics. The README
// lists them, and grafana.json and alerts.yaml beside it use them. Two runtimes in one registry are told apart by a label that the program gives:
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"runtime": "batch"}, registry).MustRegister(...)
package prometheus

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/purecuda/purecuda/pool/poolmetrics"
	"github.com/purecuda/purecuda/runtime"
	"github.com/purecuda/purecuda/runtime/metrics"
)

// collector is a prometheus.Collector.
type collector struct {
	reader       interface{ Read() []metrics.Sample }
	descriptions map[string]description // by the name of the metric
}

type description struct {
	desc      *prometheus.Desc
	valueType prometheus.ValueType
}

// NewCollector makes a collector of the metrics of a runtime; nil stands for runtime.Global.
// Make it when the runtime is opened: what was lost before it was asked once, it has not seen.
//
// It is safe for concurrent use. Collecting makes no call of the driver, opens no context and
// waits for no device. It goes on when the runtime is lost or closed; the collector keeps it
// from the garbage collector until it is unregistered.
func NewCollector(rt *runtime.Runtime) prometheus.Collector {
	return newCollector(metrics.NewReader(rt), metrics.All())
}

// NewPoolCollector makes a collector of the metrics of a pool, its batchers and its break-even sizes. nil
// collects nothing. For the rest it is as [NewCollector].
func NewPoolCollector(reader *poolmetrics.Reader) prometheus.Collector {
	if reader == nil {
		reader = poolmetrics.NewReader(nil)
	}
	return newCollector(reader, poolmetrics.All())
}

// NewHealthCollector makes a collector of what NVML knows of the devices; nil collects nothing. Collecting asks
// NVML, which takes some milliseconds for each device. Unregister it before NVML is closed.
func NewHealthCollector(reader *metrics.HealthReader) prometheus.Collector {
	return newCollector(reader, metrics.AllHealth())
}

func newCollector(reader interface{ Read() []metrics.Sample }, all []metrics.Metric) *collector {
	c := &collector{reader: reader, descriptions: map[string]description{}}
	for _, m := range all {
		d := description{prometheus.NewDesc(name(m), m.Help, m.Labels, nil), prometheus.GaugeValue}
		if m.Kind == metrics.Counter {
			d.valueType = prometheus.CounterValue
		}
		c.descriptions[m.Name] = d
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range c.descriptions {
		descs <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(samples chan<- prometheus.Metric) {
	for _, s := range c.reader.Read() {
		d := c.descriptions[s.Name]
		// A sample that does not fit fails the scrape; it does not end the program.
		metric, err := prometheus.NewConstMetric(d.desc, d.valueType, s.Value, clean(s.Labels)...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(d.desc, err)
		}
		samples <- metric
	}
}

var units = map[string]string{"By": "bytes", "s": "seconds", "Cel": "celsius", "W": "watts", "Hz": "hertz", "1": "ratio"}

// name is the name of a metric as Prometheus has it, by the rules that OpenTelemetry's
// exporter for Prometheus follows as well.
func name(m metrics.Metric) string {
	n := strings.ReplaceAll(m.Name, ".", "_")
	if suffix := units[m.Unit]; suffix != "" {
		n += "_" + suffix
	}
	if m.Kind == metrics.Counter {
		n += "_total"
	}
	return n
}

// clean makes labels valid UTF-8: the name of a device is what the driver says.
func clean(labels []string) []string {
	cleaned := make([]string, len(labels))
	for i, l := range labels {
		cleaned[i] = strings.ToValidUTF8(l, "\uFFFD")
	}
	return cleaned
}
