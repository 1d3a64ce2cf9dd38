package metrics

import (
	"strconv"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/nvml"
	"github.com/purecuda/purecuda/runtime"
)

// HealthReader reads what NVML knows of the devices of a runtime. It is safe for concurrent use.
type HealthReader struct {
	rt  *runtime.Runtime
	api nvml.API
}

// NewHealthReader makes a HealthReader of a runtime; nil stands for [runtime.Global]. api is an NVML that
// is open; without one there is nothing to read. Close it after the last Read.
func NewHealthReader(rt *runtime.Runtime, api nvml.API) *HealthReader {
	if rt == nil {
		rt = runtime.Global()
	}
	return &HealthReader{rt, api}
}

// AllHealth describes the metrics of a [HealthReader], in the order in which they are read.
func AllHealth() (all []Metric) {
	for _, f := range ofHealth(nvml.Status{}) {
		all = append(all, f.Metric)
	}
	return all
}

// Read returns what the metrics are now, by device. What a device does not have is left out, and so is
// a device that NVML does not know. It opens no context, and goes on after CUDA is lost. It takes some
// milliseconds for each device, and as long as the driver is busy.
func (r *HealthReader) Read() (samples []Sample) {
	if r == nil || r.api == nil {
		return nil
	}
	for _, d := range r.rt.Devices() {
		var none driver.UUID
		if d.UUID == none { // its queries failed
			continue
		}
		device, err := r.api.Find(d.UUID.String())
		if err != nil {
			continue
		}
		for _, f := range ofHealth(r.api.Read(device)) {
			for _, v := range f.samples {
				samples = append(samples, Sample{f.Name, append([]string{strconv.Itoa(d.Ordinal)}, v.labels...), v.value})
			}
		}
	}
	return samples
}

// known are the samples of a part of the Status, if it is there.
func known[T any](part *T, of func(*T) []sample) []sample {
	if part == nil {
		return nil
	}
	return of(part)
}

func value(v float64) []sample { return []sample{{value: v}} }

// ofHealth has the metrics of a device.
func ofHealth(s nvml.Status) []family {
	ecc := s.ECC
	if ecc != nil && !ecc.On {
		ecc = nil
	}
	var fault []sample
	if s.ECC != nil || s.Rows != nil {
		fault = one(truth(s.Fault() != nil))
	}
	return []family{
		{Metric{"purecuda.device.health.fault", "", Gauge, "1 if the memory of the device has errors for which it needs a reset or repair.", device}, fault},
		{Metric{"purecuda.device.health.memory.free", "By", UpDownCounter, "Memory of the device that no process uses.", device},
			known(s.Memory, func(m *nvml.Memory) []sample { return one(m.Free) })},
		{Metric{"purecuda.device.health.memory.used", "By", UpDownCounter, "Memory of the device that all processes use.", device},
			known(s.Memory, func(m *nvml.Memory) []sample { return one(m.Used) })},
		{Metric{"purecuda.device.health.processes", "{process}", UpDownCounter, "Processes that compute on the device.", device},
			known(s.Processes, func(p *[]nvml.Process) []sample { return one(uint64(len(*p))) })},
		{Metric{"purecuda.device.health.utilization", "1", Gauge, "Part of the time in which a kernel of any process ran.", device},
			known(s.Utilization, func(u *nvml.Utilization) []sample { return value(float64(u.GPU) / 100) })},
		{Metric{"purecuda.device.health.temperature", "Cel", Gauge, "Temperature of the chip.", device},
			known(s.Temperature, func(t *nvml.Temperature) []sample { return value(float64(t.Now)) })},
		{Metric{"purecuda.device.health.power", "W", Gauge, "Power that the device draws.", device},
			known(s.Power, func(p *nvml.Power) []sample { return value(float64(p.Now) / 1000) })},
		{Metric{"purecuda.device.health.clock", "Hz", Gauge, "Clock of the multiprocessors.", device},
			known(s.Clocks, func(c *nvml.Clocks) []sample { return value(float64(c.SM) * 1e6) })},
		{Metric{"purecuda.device.health.slowed", "", Gauge, "1 while heat or a lack of power slows the device down.", device},
			known(s.Clocks, func(c *nvml.Clocks) []sample { return one(truth(c.Reasons.Wrong() != 0)) })},
		{Metric{"purecuda.device.health.ecc_errors", "{error}", Counter, "Errors of the memory since the driver was loaded, by whether ECC has corrected them.", with(labelKind)},
			known(ecc, func(e *nvml.ECC) []sample {
				return []sample{n(e.Corrected, "corrected"), n(e.Uncorrected, "uncorrected")}
			})},
	}
}
