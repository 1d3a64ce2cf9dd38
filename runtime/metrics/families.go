package metrics

import (
	"slices"
	"time"

	"github.com/purecuda/purecuda/runtime"
)

// family is a metric with its samples: of a runtime, or of one device.
type family struct {
	Metric
	samples []sample
}

// sample is a value and the values of the labels, without the device's.
type sample struct {
	value  float64
	labels []string
}

func n(value uint64, labels ...string) sample { return sample{float64(value), labels} }
func one(value uint64) []sample               { return []sample{n(value)} }

var (
	device       = []string{labelDevice}
	deviceLabels = []string{labelDevice, "name", "uuid", "pci_bus_id", "compute_capability"}
)

func with(label string) []string { return []string{labelDevice, label} }

// All describes all metrics, in the order in which they are read.
func All() (all []Metric) {
	for _, f := range allFamilies() {
		all = append(all, f.Metric)
	}
	return all
}

func allFamilies() []family {
	return slices.Concat(ofRuntime("", runtime.Stats{}), ofDevice(runtime.Device{}, false), ofContext(runtime.Stats{}, 0))
}

func ofRuntime(now runtime.Outcome, s runtime.Stats) []family {
	var outcomes []sample
	for _, o := range []runtime.Outcome{runtime.Available, runtime.Absent, runtime.Fault} {
		outcomes = append(outcomes, n(truth(o == now), string(o)))
	}
	return []family{
		{Metric{"purecuda.outcome", "", Gauge, "1 for what looking for CUDA has led to (available, absent or fault), 0 for the others.", []string{labelOutcome}}, outcomes},
		{Metric{"purecuda.compiler.programs", "{program}", Counter, "Programs that were compiled while the process runs.", nil}, one(s.Compiles)},
		{Metric{"purecuda.compiler.time", "s", Counter, "Time that compiling took.", nil}, seconds(s.CompileTime)},
		{Metric{"purecuda.compiler.cache.lookups", "{lookup}", Counter, "Looks for compiled programs in the disk cache, by result.", []string{labelResult}},
			[]sample{n(s.ArtifactHits, "hit"), n(s.ArtifactMisses, "miss")}},
	}
}

func ofDevice(d runtime.Device, usable bool) []family {
	return []family{
		{Metric{"purecuda.device.info", "", Gauge, "1 for each device, with what identifies it.", deviceLabels},
			[]sample{n(1, d.Name, d.UUID.String(), d.PCIBusID, d.Capability.String())}},
		{Metric{"purecuda.device.usable", "", Gauge, "1 if the device can be used; 0 if its queries failed, its context could not be opened, it was lost alone, or a sticky error has ended the use of CUDA.", device}, one(truth(usable))},
		{Metric{"purecuda.device.memory.capacity", "By", UpDownCounter, "Memory of the device.", device}, one(d.TotalBytes)},
	}
}

// ofContext has what runtime.Stats says of a context. Memory and the copies of Go slices are
// counted since the last Reset.
func ofContext(s runtime.Stats, stale uint64) []family {
	m, p, c := s.Memory, s.Pinned, s.Copier
	return []family{
		{Metric{"purecuda.device.generation", "", Gauge, "Generation of the context, which grows with every Reset.", device}, one(s.Generation)},
		{Metric{"purecuda.device.launches", "{launch}", Counter, "Kernels that were launched, those in graphs left out.", device}, one(s.Launches)},
		{Metric{"purecuda.device.graph.launches", "{launch}", Counter, "Graphs that were launched.", device}, one(s.GraphLaunches)},
		{Metric{"purecuda.device.submits", "{submit}", Counter, "Work of other libraries that was put on streams.", device}, one(s.Submits)},
		{Metric{"purecuda.device.copies", "{copy}", Counter, "Copies, by direction.", with(labelDirection)},
			[]sample{n(s.Uploads, "upload"), n(s.Downloads, "download"), n(s.Copies, "device")}},
		{Metric{"purecuda.device.copied", "By", Counter, "Bytes that were copied, by direction.", with(labelDirection)},
			[]sample{n(s.UploadBytes, "upload"), n(s.DownloadBytes, "download"), n(s.CopyBytes, "device")}},
		{Metric{"purecuda.device.waits", "{wait}", Counter, "Waits for streams and events.", device}, one(s.Waits)},
		{Metric{"purecuda.device.errors", "{error}", Counter, "Calls of the driver that failed.", device}, one(s.Errors)},
		{Metric{"purecuda.device.objects", "{object}", UpDownCounter, "Objects that are open, by kind.", with(labelKind)},
			[]sample{n(s.Events, "event"), n(s.Graphs, "graph"), n(s.GraphExecs, "graph_exec"), n(s.HostBuffers, "host_buffer"),
				n(s.Handles, "library_handle"), n(s.Managed, "managed"), n(s.Modules, "module"), n(s.Refs, "ref"), n(s.Streams, "stream")}},

		{Metric{"purecuda.device.memory.in_use", "By", UpDownCounter, "Memory of the device that the program uses, by what it asked for.", device}, one(s.RefBytes)},
		{Metric{"purecuda.device.memory.blocks", "By", UpDownCounter, "Memory of the device that the program uses, by the sizes of its blocks.", device}, one(m.InUse)},
		{Metric{"purecuda.device.memory.stale", "By", UpDownCounter, "Memory that is gone, after a Reset or a lost device, and that open Refs still refer to.", device}, one(stale)},
		{Metric{"purecuda.device.memory.cached", "By", UpDownCounter, "Memory of the device that is kept for later allocations.", device}, one(m.Cached)},
		{Metric{"purecuda.device.memory.split", "By", UpDownCounter, "Cached memory in parts of blocks that are partly in use: the driver gets it back with the rest.", device}, one(m.Split)},
		{Metric{"purecuda.device.memory.held", "By", UpDownCounter, "Memory of the device that is in use or cached.", device}, one(m.Held)},
		{Metric{"purecuda.device.memory.peak", "By", Gauge, "The most memory of the device that was held, in use and cached, since the last Reset.", device}, one(m.HighWater)},
		{Metric{"purecuda.device.memory.leaked", "By", UpDownCounter, "Memory given up, since it could not be proven that no work uses it.", device}, one(s.LeakedBytes)},
		{Metric{"purecuda.device.memory.leaked_blocks", "{block}", UpDownCounter, "Blocks of the memory that was given up.", device}, one(s.Leaked)},
		{Metric{"purecuda.device.memory.allocations", "{allocation}", Counter, "Allocations of device memory since the last Reset, by where they came from.", with(labelSource)},
			[]sample{n(m.Hits+m.Shared, "cache"), n(m.Misses, "driver")}},
		{Metric{"purecuda.device.memory.shared", "{allocation}", Counter, "Allocations from the cache of what was freed on another stream.", device}, one(m.Shared)},
		{Metric{"purecuda.device.memory.failures", "{allocation}", Counter, "Allocations that failed.", device}, one(m.Failures)},
		{Metric{"purecuda.device.memory.frees", "{block}", Counter, "Blocks that the program freed.", device}, one(m.Frees)},
		{Metric{"purecuda.device.memory.driver_allocations", "{block}", Counter, "Blocks that the driver gave.", device}, one(m.DriverAllocs)},
		{Metric{"purecuda.device.memory.driver_frees", "{block}", Counter, "Blocks that the driver took back.", device}, one(m.DriverFrees)},
		{Metric{"purecuda.device.memory.evictions", "{block}", Counter, "Blocks that left the cache for the driver.", device}, one(m.Evicted)},
		{Metric{"purecuda.device.memory.reclaims", "{reclaim}", Counter, "Times that the cache was emptied because memory was short.", device}, one(m.Reclaims)},
		{Metric{"purecuda.device.memory.retired_events", "{event}", Counter, "Events of the memory that are not used again, since a call failed for them.", device}, one(m.RetiredEvents)},
		{Metric{"purecuda.device.memory.pooled", "", Gauge, "1 if memory comes from a pool of the driver, 0 if from cuMemAlloc.", device}, one(truth(m.Pooled))},

		{Metric{"purecuda.device.host_memory.in_use", "By", UpDownCounter, "Page-locked memory of the host in host buffers, those that are leased left out.", device}, one(s.HostBytes)},
		{Metric{"purecuda.device.managed_memory.in_use", "By", UpDownCounter, "Managed memory, which is on the host or on devices.", device}, one(s.ManagedBytes)},
		{Metric{"purecuda.device.host_memory.tickets", "By", UpDownCounter, "Page-locked memory that waits for streams use.", device}, one(s.TicketBytes)},
		{Metric{"purecuda.device.pinned.leases", "{lease}", UpDownCounter, "Leases of page-locked buffers, by the program and for copies of Go slices.", device}, one(uint64(p.Leases))},
		{Metric{"purecuda.device.pinned.leased", "By", UpDownCounter, "Page-locked buffers that are leased.", device}, one(p.LeasedBytes)},
		{Metric{"purecuda.device.pinned.asked", "By", UpDownCounter, "Page-locked buffers that are leased, by what was asked for.", device}, one(p.AskedBytes)},
		{Metric{"purecuda.device.pinned.cached", "By", UpDownCounter, "Page-locked buffers that are kept for later leases.", device}, one(p.CachedBytes)},
		{Metric{"purecuda.device.pinned.pending", "By", UpDownCounter, "Page-locked buffers that were returned, and that copies may still use.", device}, one(p.PendingBytes)},
		{Metric{"purecuda.device.pinned.peak", "By", Gauge, "The most page-locked memory that was leased and cached.", device}, one(p.PeakBytes)},
		{Metric{"purecuda.device.pinned.limit", "By", Gauge, "Limit of the page-locked memory that is leased and cached.", device}, one(p.Limit)},
		{Metric{"purecuda.device.pinned.lost", "By", UpDownCounter, "Page-locked memory that is never used or freed again.", device}, one(p.LostBytes)},
		{Metric{"purecuda.device.pinned.lookups", "{lease}", Counter, "Leases of page-locked buffers, by whether one was cached.", with(labelResult)},
			[]sample{n(p.Hits, "hit"), n(p.Misses, "miss")}},
		{Metric{"purecuda.device.pinned.returns", "{lease}", Counter, "Leases that were returned.", device}, one(p.Returns)},
		{Metric{"purecuda.device.pinned.frees", "{block}", Counter, "Page-locked buffers that the driver took back.", device}, one(p.Freed)},
		{Metric{"purecuda.device.pinned.findings", "{finding}", Counter, "Writes to page-locked buffers after their return, which arena.PinnedConfig.Debug finds.", device}, one(uint64(p.Findings))},
		{Metric{"purecuda.device.copier.copies", "{copy}", Counter, "Copies of Go slices, by the way that they took.", with(labelWay)},
			[]sample{n(c.Small, "driver"), n(c.Direct, "direct"), n(c.Staged, "staged"), n(c.Pageable, "pageable")}},
		{Metric{"purecuda.device.copier.buffers", "{buffer}", UpDownCounter, "Page-locked buffers of the copies of Go slices, by kind.", with(labelKind)},
			[]sample{n(uint64(c.Slots), "slot"), n(uint64(c.Chunks), "chunk"), n(uint64(c.Doubtful), "doubtful")}},

		{Metric{"purecuda.device.module_cache.lookups", "{lookup}", Counter, "Looks for modules in the cache of the context, by result.", with(labelResult)},
			[]sample{n(s.ModuleHits, "hit"), n(s.ModuleMisses, "miss")}},
		{Metric{"purecuda.device.module_cache.evictions", "{module}", Counter, "Modules that were unloaded for want of room.", device}, one(s.ModuleEvictions)},
		{Metric{"purecuda.device.module_cache.modules", "{module}", UpDownCounter, "Modules in the cache.", device}, one(s.CachedModules)},
		{Metric{"purecuda.device.module_cache.size", "By", UpDownCounter, "Code of the modules in the cache.", device}, one(s.CachedModuleBytes)},
		{Metric{"purecuda.device.module_cache.load_time", "s", Counter, "Time that loading modules into the cache took.", device}, seconds(s.ModuleLoadTime)},
	}
}

func seconds(d time.Duration) []sample { return []sample{{value: d.Seconds()}} }

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
