package metrics

// Kind says how a metric behaves over time. The terms are OpenTelemetry's.
type Kind string

const (
	// Counter only grows: its rate is what matters.
	Counter Kind = "counter"
	// UpDownCounter goes up and down, and its sum over devices has a meaning: bytes in use.
	UpDownCounter Kind = "updowncounter"
	// Gauge goes up and down, and has a meaning on its own only: a state.
	Gauge Kind = "gauge"
)

// Metric describes a metric.
type Metric struct {
	Name string // "purecuda.device.memory.in_use"
	Unit string // as UCUM writes it: "By", "s", "{launch}", or empty for what has none
	Kind Kind
	Help string
	// Labels are the names of the labels of its samples.
	Labels []string
}

// The labels. What they can be is bounded by the machine or by a list.
const (
	// LabelDevice is the ordinal of a device.
	LabelDevice = "device"
	// LabelOutcome is a runtime.Outcome.
	LabelOutcome = "outcome"
	// LabelDirection is "upload" from the host, "download" to it, or "device" for copies
	// between devices and within one.
	LabelDirection = "direction"
	// LabelSource is where memory came from, "cache" or "driver".
	LabelSource = "source"
	// LabelResult is what a look into a cache found, "hit" or "miss".
	LabelResult = "result"
	// LabelKind is the kind of an object: "event", "graph", "graph_exec", "host_buffer",
	// "library_handle", "module", "ref" or "stream". Of a buffer of copies it is "slot", "chunk" or
	// "doubtful", and of an error of the memory "corrected" or "uncorrected".
	LabelKind = "kind"
	// LabelWay is how a Go slice was copied. "driver" is a small upload, which the driver buffers.
	// "direct" went through one page-locked buffer, and "staged" in pieces through several.
	// "pageable" had no page-locked memory.
	LabelWay = "way"
)
