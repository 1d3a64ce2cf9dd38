package metrics

import (
	"maps"
	"strconv"
	"sync"

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
	byName := map[string][]Sample{}
	add := func(name string, value float64, labels ...string) {
		byName[name] = append(byName[name], Sample{name, labels, value})
	}
	now := r.rt.Outcome()
	for _, o := range []runtime.Outcome{runtime.Available, runtime.Absent, runtime.Fault} {
		add(outcome, truth(o == now), string(o))
	}
	addCompiler(add, r.rt.Stats())
	contexts := r.look()
	for _, d := range r.rt.Devices() {
		ordinal := strconv.Itoa(d.Ordinal)
		usable := d.Err == nil && now != runtime.Fault
		add(deviceInfo, 1, ordinal, d.Name, d.UUID.String(), d.PCIBusID, d.Capability.String())
		add(memoryTotal, float64(d.TotalBytes), ordinal)
		if c := contexts[d.Ordinal]; c != nil {
			s := c.Stats()
			usable = usable && s.Lost == nil
			addContext(add, ordinal, s)
			add(memoryStale, float64(c.State().Stats().StaleBytes), ordinal)
		}
		add(deviceUsable, truth(usable), ordinal)
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

func addCompiler(add func(name string, value float64, labels ...string), s runtime.Stats) {
	add(compiled, float64(s.Compiles))
	add(compileTime, s.CompileTime.Seconds())
	add(artifactLooks, float64(s.ArtifactHits), "hit")
	add(artifactLooks, float64(s.ArtifactMisses), "miss")
}

func addContext(add func(name string, value float64, labels ...string), ordinal string, s runtime.Stats) {
	for _, v := range []struct {
		name  string
		label string // the one beside the device, if there is one
		value uint64
	}{
		{generation, "", s.Generation},
		{launches, "", s.Launches},
		{graphLaunches, "", s.GraphLaunches},
		{copies, "upload", s.Uploads},
		{copies, "download", s.Downloads},
		{copies, "device", s.Copies},
		{copied, "upload", s.UploadBytes},
		{copied, "download", s.DownloadBytes},
		{copied, "device", s.CopyBytes},
		{waits, "", s.Waits},
		{failures, "", s.Errors},
		{objects, "event", s.Events},
		{objects, "graph", s.Graphs},
		{objects, "graph_exec", s.GraphExecs},
		{objects, "host_buffer", s.HostBuffers},
		{objects, "module", s.Modules},
		{objects, "ref", s.Refs},
		{objects, "stream", s.Streams},
		{memoryInUse, "", s.RefBytes},
		{memoryCached, "", s.CachedBytes},
		{memoryPeak, "", s.PeakBytes},
		{memoryLeaked, "", s.LeakedBytes},
		{allocations, "cache", s.AllocsCached},
		{allocations, "driver", s.Allocs - s.AllocsCached},
		{hostMemory, "", s.HostBytes},
		{cacheLooks, "hit", s.ModuleHits},
		{cacheLooks, "miss", s.ModuleMisses},
		{cacheEvictions, "", s.ModuleEvictions},
		{cacheModules, "", s.CachedModules},
		{cacheSize, "", s.CachedModuleBytes},
	} {
		labels := []string{ordinal}
		if v.label != "" {
			labels = append(labels, v.label)
		}
		add(v.name, float64(v.value), labels...)
	}
	add(cacheLoadTime, s.ModuleLoadTime.Seconds(), ordinal)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
