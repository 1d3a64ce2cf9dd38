// Package metrics tells what a runtime does and holds as a flat list of named numbers, for
// the systems that watch a service. It is to [runtime.Runtime.Stats] what Go's runtime/metrics
// is to runtime.MemStats: [All] describes the metrics, and a [Reader] reads them.
//
// Adapters for Prometheus and OpenTelemetry are modules of their own in contrib/, so that
// a program without them does not link them. For another system, walk the samples:
//
//	reader := metrics.NewReader(rt)
//	for _, s := range reader.Read() {
//		send(s.Name, s.Labels, s.Value)
//	}
//
// What NVML knows of the devices (temperature, power, ECC) [AllHealth] describes, and a [HealthReader] reads it.
//
// A [Reader] makes no call of the driver and opens no context: a machine on which nothing was
// done so far shows its devices and no more. It works on a runtime without CUDA, on one that is
// lost, and on one that is closed. It takes microseconds for each device, and more where very
// many Refs are open, which are looked at one by one.
package metrics
