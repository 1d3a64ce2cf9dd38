package metrics

// Kind says how a metric behaves over time. The terms are those of OpenTelemetry.
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
	// "module", "ref" or "stream".
	LabelKind = "kind"
)

// The metrics of a runtime.
const (
	outcome        = "purecuda.outcome"
	compiled       = "purecuda.compiler.programs"
	compileTime    = "purecuda.compiler.time"
	artifactLooks  = "purecuda.compiler.cache.lookups"
	deviceInfo     = "purecuda.device.info"
	deviceUsable   = "purecuda.device.usable"
	generation     = "purecuda.device.generation"
	launches       = "purecuda.device.launches"
	graphLaunches  = "purecuda.device.graph.launches"
	copies         = "purecuda.device.copies"
	copied         = "purecuda.device.copied"
	waits          = "purecuda.device.waits"
	failures       = "purecuda.device.errors"
	objects        = "purecuda.device.objects"
	memoryTotal    = "purecuda.device.memory.capacity"
	memoryInUse    = "purecuda.device.memory.in_use"
	memoryStale    = "purecuda.device.memory.stale"
	memoryCached   = "purecuda.device.memory.cached"
	memoryPeak     = "purecuda.device.memory.peak"
	memoryLeaked   = "purecuda.device.memory.leaked"
	allocations    = "purecuda.device.memory.allocations"
	hostMemory     = "purecuda.device.host_memory.in_use"
	cacheLooks     = "purecuda.device.module_cache.lookups"
	cacheEvictions = "purecuda.device.module_cache.evictions"
	cacheModules   = "purecuda.device.module_cache.modules"
	cacheSize      = "purecuda.device.module_cache.size"
	cacheLoadTime  = "purecuda.device.module_cache.load_time"
)

// All describes all metrics, in the order in which they are read.
func All() []Metric {
	device := []string{LabelDevice}
	with := func(label string) []string { return []string{LabelDevice, label} }
	return []Metric{
		{outcome, "", Gauge, "1 for what looking for CUDA has led to (available, absent or fault), 0 for the others.", []string{LabelOutcome}},
		{compiled, "{program}", Counter, "Programs that were compiled while the process runs.", nil},
		{compileTime, "s", Counter, "Time that compiling took.", nil},
		{artifactLooks, "{lookup}", Counter, "Looks for compiled programs in the disk cache, by result.", []string{LabelResult}},

		{deviceInfo, "", Gauge, "1 for each device, with what identifies it.",
			[]string{LabelDevice, "name", "uuid", "pci_bus_id", "compute_capability"}},
		{deviceUsable, "", Gauge, "1 if the device can be used; 0 if its queries failed, its context could not be opened, it was lost alone, or a sticky error has ended the use of CUDA.", device},
		{memoryTotal, "By", UpDownCounter, "Memory of the device.", device},

		{generation, "", Gauge, "Generation of the context, which grows with every Reset.", device},
		{launches, "{launch}", Counter, "Kernels that were launched, those in graphs left out.", device},
		{graphLaunches, "{launch}", Counter, "Graphs that were launched.", device},
		{copies, "{copy}", Counter, "Copies, by direction.", with(LabelDirection)},
		{copied, "By", Counter, "Bytes that were copied, by direction.", with(LabelDirection)},
		{waits, "{wait}", Counter, "Waits for streams and events.", device},
		{failures, "{error}", Counter, "Calls of the driver that failed.", device},
		{objects, "{object}", UpDownCounter, "Objects that are open, by kind.", with(LabelKind)},
		{memoryInUse, "By", UpDownCounter, "Memory of the device that the program uses, by what it asked for.", device},
		{memoryStale, "By", UpDownCounter, "Memory that is gone, after a Reset or a lost device, and that open Refs still refer to.", device},
		{memoryCached, "By", UpDownCounter, "Memory of the device that is kept for later allocations.", device},
		{memoryPeak, "By", Gauge, "The most memory of the device that was held, in use and cached, since the last Reset.", device},
		{memoryLeaked, "By", UpDownCounter, "Memory given up, since it could not be proven that no work uses it.", device},
		{allocations, "{allocation}", Counter, "Allocations of device memory since the last Reset, by where they came from.", with(LabelSource)},
		{hostMemory, "By", UpDownCounter, "Page-locked memory of the host in host buffers.", device},
		{cacheLooks, "{lookup}", Counter, "Looks for modules in the cache of the context, by result.", with(LabelResult)},
		{cacheEvictions, "{module}", Counter, "Modules that were unloaded for want of room.", device},
		{cacheModules, "{module}", UpDownCounter, "Modules in the cache.", device},
		{cacheSize, "By", UpDownCounter, "Code of the modules in the cache.", device},
		{cacheLoadTime, "s", Counter, "Time that loading modules into the cache took.", device},
	}
}
