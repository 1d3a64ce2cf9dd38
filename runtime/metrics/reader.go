package metrics

import (
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/runtime"
)

// Sample is the value of a metric for one combination of labels.
type Sample struct {
	Name   string   // of the Metric
	Labels []string // the values, in the order of Metric.Labels
	Value  float64
}

// Reader reads the metrics of a runtime. It is safe for concurrent use.
//
// It remembers the contexts that it has seen, so that their counters go on after the runtime
// is closed. Make it when the runtime is opened: it sees no context that was opened after its
// last Read and closed before the next.
type Reader struct {
	rt *runtime.Runtime

	mu       sync.Mutex
	contexts map[int]*runtime.Context // by ordinal
}

// NewReader makes a Reader of a runtime; nil stands for [runtime.Global].
func NewReader(rt *runtime.Runtime) *Reader {
	if rt == nil {
		rt = runtime.Global()
	}
	return &Reader{rt: rt, contexts: map[int]*runtime.Context{}}
}

// Read returns what the metrics are now, in the order of [All]. The samples of one device
// belong to nearly the same moment. The result is the caller's.
func (r *Reader) Read() []Sample {
	r = zero.Or(r)
	byName := map[string][]Sample{}
	add := func(families []family, labels ...string) {
		for _, f := range families {
			for _, v := range f.samples {
				byName[f.Name] = append(byName[f.Name], Sample{f.Name, slices.Concat(labels, v.labels), v.value})
			}
		}
	}
	now := r.rt.Outcome()
	add(ofRuntime(now, r.rt.Stats()))
	contexts := r.look()
	for _, d := range r.rt.Devices() {
		ordinal := strconv.Itoa(d.Ordinal)
		usable := d.Err == nil && now != runtime.Fault
		if c := contexts[d.Ordinal]; c != nil {
			s := c.Stats()
			usable = usable && s.Lost == nil
			add(ofContext(s, c.State().Stats().StaleBytes), ordinal)
		}
		add(ofDevice(d, usable), ordinal)
	}
	var samples []Sample
	for _, m := range All() {
		samples = append(samples, byName[m.Name]...)
	}
	return samples
}

// look notes the contexts that are open, and returns all that were seen, by ordinal.
func (r *Reader) look() map[int]*runtime.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.rt.Contexts() {
		r.contexts[c.Device().Ordinal] = c
	}
	return maps.Clone(r.contexts)
}
