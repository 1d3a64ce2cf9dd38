package runtime

import (
	"reflect"
	"sync/atomic"
	"time"

	"github.com/purecuda/purecuda/arena"
)

// counters count what was done on a stream. Streams have their own, so that goroutines on several of them do not write one line of
// the processor's cache.
type counters struct {
	launches, graphLaunches, submits, uploads, downloads, copies, waits atomic.Uint64
	uploadBytes, downloadBytes, copyBytes                               atomic.Uint64

	_ [48]byte // 128 bytes, which no other one's share a line with
}

// addTo adds them to a snapshot.
func (c *counters) addTo(s *Stats) {
	s.Launches += c.launches.Load()
	s.GraphLaunches += c.graphLaunches.Load()
	s.Submits += c.submits.Load()
	s.Uploads += c.uploads.Load()
	s.UploadBytes += c.uploadBytes.Load()
	s.Downloads += c.downloads.Load()
	s.DownloadBytes += c.downloadBytes.Load()
	s.Copies += c.copies.Load()
	s.CopyBytes += c.copyBytes.Load()
	s.Waits += c.waits.Load()
}

// Stats is a snapshot of what a runtime or a context has done and holds.
type Stats struct {
	Launches      uint64
	GraphLaunches uint64 // of whole graphs
	Submits       uint64 // of work of other libraries
	Uploads       uint64 // copies from the host
	UploadBytes   uint64
	Downloads     uint64 // copies to the host
	DownloadBytes uint64
	Copies        uint64 // copies between devices or within one
	CopyBytes     uint64
	Waits         uint64 // on streams and events
	Errors        uint64 // calls of the driver that failed

	Contexts     uint64
	Streams      uint64 // these and below: alive now
	SpareStreams uint64 // kept for later ones, see [Context.NewStream]
	Events       uint64
	Handles      uint64 // of other libraries
	Modules      uint64
	Graphs       uint64
	GraphExecs   uint64
	HostBuffers  uint64
	HostBytes    uint64 // without LeaseHost's, which Pinned has
	TicketBytes  uint64 // page-locked memory that waits for streams have
	// Managed is the managed memory that is not freed. While a Ref of it is open, it counts as that as well.
	Managed, ManagedBytes uint64

	Refs        uint64 // open, with memory of the device
	RefBytes    uint64 // that was asked for
	Leaked      uint64 // memory given up, since it could not be proven that no work uses it
	LeakedBytes uint64

	// What package arena counts, since the last Reset: the memory of the device, the page-locked
	// memory of LeaseHost and of the copies of Go slices, and these copies.
	Memory arena.DeviceStats
	Pinned arena.PinnedStats
	Copier arena.CopierStats

	// The module cache. Hits are calls of CachedModule and Compile that found the code loaded, or
	// being loaded. Misses are calls that had to load it. Evictions are modules that were unloaded to
	// make room. Then follow the modules that it has now, their bytes, and the time of all loads.
	ModuleHits, ModuleMisses, ModuleEvictions uint64
	CachedModules, CachedModuleBytes          uint64
	ModuleLoadTime                            time.Duration

	// The compiler, of a Runtime only: programs that it has compiled, and the time of that;
	// those that came from the disk cache, and those that were not there.
	Compiles                     uint64
	CompileTime                  time.Duration
	ArtifactHits, ArtifactMisses uint64

	Generation uint64 // of the context: grows with every Reset; for a Runtime, their sum
	// Lost is the first cause for which CUDA, or the device, cannot be used any more. For a Runtime
	// it comes from the first lost device, also if other devices go on.
	Lost error
}

// Stats returns what the context has done and holds.
func (c *Context) Stats() Stats {
	if c == nil || c.rt == nil {
		return Stats{}
	}
	count, bytes, s := c.ledger.sums()
	s.Contexts, s.Errors = 1, c.errors.Load()
	s.Waits += c.waits.Load()
	s.Streams, s.Events, s.Modules = count[streamEntry], count[eventEntry], count[moduleEntry]
	s.Graphs, s.GraphExecs, s.Handles = count[graphEntry], count[execEntry], count[libraryEntry]
	s.HostBuffers = count[hostMemory] + count[registeredMemory] + count[leasedMemory]
	s.HostBytes = bytes[hostMemory] + bytes[registeredMemory]
	s.Managed, s.ManagedBytes = count[managedMemory], bytes[managedMemory]
	m := c.memory.Load()
	s.TicketBytes = m.waits.Bytes()
	s.Memory, s.Pinned, s.Copier = m.arena.Stats(), m.pinned.Stats(), m.copier.Stats()
	owned := c.state.Stats()
	s.Refs, s.RefBytes = owned.Live, owned.LiveBytes
	s.Leaked, s.LeakedBytes = owned.Leaked+s.Memory.LostBlocks, owned.LeakedBytes+s.Memory.Lost
	cache := c.modules.snapshot()
	s.ModuleHits, s.ModuleMisses, s.ModuleEvictions = cache.hits, cache.misses, cache.evictions
	s.CachedModules, s.CachedModuleBytes, s.ModuleLoadTime = cache.modules, cache.bytes, cache.loading
	s.Generation, s.Lost = c.state.Generation(), c.state.Lost()
	return s
}

// Stats returns the sums over all open contexts.
func (rt *Runtime) Stats() Stats {
	if rt == nil || rt.life == nil {
		return Stats{}
	}
	var sum Stats
	for _, c := range rt.Contexts() {
		sum.add(c.Stats())
	}
	if compiler := rt.compiler.Load(); compiler != nil {
		s := compiler.Stats()
		sum.Compiles, sum.CompileTime, sum.ArtifactHits, sum.ArtifactMisses = s.Compiles, s.CompileTime, s.Hits, s.Misses
	}
	if first := rt.lost.Load(); first != nil {
		sum.Lost = first
	}
	return sum
}

// Since returns what has been done since another snapshot of the same runtime or context: of what is counted, the
// difference. What is there at a moment, such as Streams and Memory.InUse, and the most that was, is as in s. What is
// smaller now was counted anew, by a Reset say, and is as in s as well.
func (s Stats) Since(before Stats) Stats {
	subtractCounts(reflect.ValueOf(&s).Elem(), reflect.ValueOf(before))
	return s
}

// momentary are the fields of Stats, and of what is in it, that are no counts.
var momentary = map[string]bool{
	"Contexts": true, "Streams": true, "SpareStreams": true, "Events": true, "Handles": true, "Modules": true, "Graphs": true, "GraphExecs": true,
	"HostBuffers": true, "HostBytes": true, "TicketBytes": true, "Managed": true, "ManagedBytes": true,
	"Refs": true, "RefBytes": true, "Leaked": true, "LeakedBytes": true, "CachedModules": true, "CachedModuleBytes": true,
	"Generation": true, "Lost": true,

	"InUse": true, "Requested": true, "Cached": true, "Split": true, "Held": true, "HighWater": true, "LostBlocks": true, "Pooled": true,
	"Leases": true, "LeasedBytes": true, "AskedBytes": true, "CachedBytes": true, "PendingBytes": true, "PeakBytes": true,
	"LostBytes": true, "Limit": true,
	"PageableCause": true, "Slots": true, "Chunks": true, "Doubtful": true,
}

// subtractCounts subtracts the counts of a structure from those of another one.
func subtractCounts(from, what reflect.Value) {
	for i := range from.NumField() {
		if momentary[from.Type().Field(i).Name] {
			continue
		}
		switch from, what := from.Field(i), what.Field(i); from.Kind() {
		case reflect.Uint64:
			if what.Uint() <= from.Uint() {
				from.SetUint(from.Uint() - what.Uint())
			}
		case reflect.Int, reflect.Int64:
			if what.Int() <= from.Int() {
				from.SetInt(from.Int() - what.Int())
			}
		case reflect.Struct:
			subtractCounts(from, what)
		}
	}
}

// add adds the figures of another context.
func (s *Stats) add(o Stats) { addNumbers(reflect.ValueOf(s).Elem(), reflect.ValueOf(o)) }

// addNumbers adds the numbers of a structure to another one's. A flag is set if it is
// in one of them. Of errors the first one stays.
func addNumbers(to, from reflect.Value) {
	for i := range to.NumField() {
		switch to, from := to.Field(i), from.Field(i); to.Kind() {
		case reflect.Uint64:
			to.SetUint(to.Uint() + from.Uint())
		case reflect.Int, reflect.Int64:
			to.SetInt(to.Int() + from.Int())
		case reflect.Bool:
			to.SetBool(to.Bool() || from.Bool())
		case reflect.Interface:
			if to.IsNil() {
				to.Set(from)
			}
		case reflect.Struct:
			addNumbers(to, from)
		}
	}
}
