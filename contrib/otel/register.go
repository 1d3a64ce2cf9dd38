// Package otel gives the metrics of a purecuda runtime to OpenTelemetry, as asynchronous
// instruments, and makes spans of its requests: see [Trace].
//
//	registration, err := purecudaotel.Register(otel.GetMeterProvider(), rt)
//	if err != nil {
//		return err
//	}
//	defer registration.Unregister()
//
// The metrics come from package runtime/metrics; docs/metrics.md lists them.
package otel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/purecuda/purecuda/pool/poolmetrics"
	"github.com/purecuda/purecuda/runtime"
	"github.com/purecuda/purecuda/runtime/metrics"
)

// Scope is the name of the meter.
const Scope = "github.com/purecuda/purecuda/contrib/otel"

// Register makes the instruments of a runtime, and observes them whenever the provider
// collects, until the registration is unregistered. A nil provider is an error; a nil
// runtime stands for runtime.Global. Register when the runtime is opened: what was lost
// before it was asked once, it has not seen.
//
// Attributes are set on every measurement, in addition to the labels of the metric; they tell
// two runtimes of one process apart.
//
// Observing makes no call of the driver, opens no context and waits for no device. It goes on
// when the runtime is lost or closed.
func Register(provider metric.MeterProvider, rt *runtime.Runtime, attributes ...attribute.KeyValue) (metric.Registration, error) {
	return register(provider, metrics.NewReader(rt), metrics.All(), attributes)
}

// RegisterPool is [Register] for the metrics of a pool, its batchers and its break-even sizes.
func RegisterPool(provider metric.MeterProvider, reader *poolmetrics.Reader, attributes ...attribute.KeyValue) (metric.Registration, error) {
	if reader == nil {
		return nil, errors.New("purecuda/contrib/otel: no Reader; pool/poolmetrics.NewReader makes that of a pool")
	}
	return register(provider, reader, poolmetrics.All(), attributes)
}

// RegisterHealth is [Register] for what NVML knows of the devices. Observing asks NVML, which takes some
// milliseconds for each device. Unregister before NVML is closed.
func RegisterHealth(provider metric.MeterProvider, reader *metrics.HealthReader, attributes ...attribute.KeyValue) (metric.Registration, error) {
	if reader == nil {
		return nil, errors.New("purecuda/contrib/otel: no HealthReader; runtime/metrics.NewHealthReader makes one")
	}
	return register(provider, reader, metrics.AllHealth(), attributes)
}

func register(provider metric.MeterProvider, reader interface{ Read() []metrics.Sample }, all []metrics.Metric, attributes []attribute.KeyValue) (metric.Registration, error) {
	if provider == nil {
		return nil, errors.New("purecuda/contrib/otel: no MeterProvider; otel.GetMeterProvider() is that of the process")
	}
	meter := provider.Meter(Scope)
	instruments := map[string]instrument{}
	var observables []metric.Observable
	for _, m := range all {
		o, err := newInstrument(meter, m)
		if err != nil {
			return nil, fmt.Errorf("purecuda/contrib/otel: instrument %s: %w", m.Name, err)
		}
		instruments[m.Name] = instrument{o, m.Labels}
		observables = append(observables, o)
	}
	return meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, s := range reader.Read() {
			i := instruments[s.Name]
			to.ObserveFloat64(i.observable, s.Value, metric.WithAttributes(i.attributes(s.Labels, attributes)...))
		}
		return nil
	}, observables...)
}

// instrument is what the samples of a metric are observed with.
type instrument struct {
	observable metric.Float64Observable
	labels     []string
}

func newInstrument(meter metric.Meter, m metrics.Metric) (metric.Float64Observable, error) {
	switch unit, help := metric.WithUnit(m.Unit), metric.WithDescription(m.Help); m.Kind {
	case metrics.Counter:
		return meter.Float64ObservableCounter(m.Name, unit, help)
	case metrics.UpDownCounter:
		return meter.Float64ObservableUpDownCounter(m.Name, unit, help)
	default:
		return meter.Float64ObservableGauge(m.Name, unit, help)
	}
}

// attributes are the labels of a sample, and what all measurements have.
func (i instrument) attributes(values []string, all []attribute.KeyValue) []attribute.KeyValue {
	set := make([]attribute.KeyValue, 0, len(values)+len(all))
	for n, v := range values {
		// Exporters refuse what is no UTF-8, and the name of a device is what the driver says.
		set = append(set, attribute.String(i.labels[n], strings.ToValidUTF8(v, "\uFFFD")))
	}
	return append(set, all...)
}
