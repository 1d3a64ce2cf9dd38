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

// The labels. docs/metrics.md has what they can be.
const (
	labelDevice    = "device"
	labelOutcome   = "outcome"
	labelDirection = "direction"
	labelSource    = "source"
	labelResult    = "result"
	labelKind      = "kind"
	labelWay       = "way"
)
