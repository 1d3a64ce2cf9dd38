package runtime

import (
	"sync/atomic"
	"time"
)

// counters count what a context has done.
type counters struct {
	launches, graphLaunches, uploads, downloads, copies, waits, errors atomic.Uint64
	uploadBytes, downloadBytes, copyBytes                              atomic.Uint64
}

// Stats is a snapshot of what a runtime or a context has done and holds.
type Stats struct {
	Launches      uint64
	GraphLaunches uint64 // of whole graphs
	Uploads       uint64 // copies from the host
	UploadBytes   uint64
	Downloads     uint64 // copies to the host
	DownloadBytes uint64
	Copies        uint64 // copies between devices or within one
	CopyBytes     uint64
	Waits         uint64 // on streams and events
	Errors        uint64 // calls of the driver that failed

	Contexts    uint64
	Streams     uint64 // these and below: alive now
	Events      uint64
	Modules     uint64
	Graphs      uint64
	GraphExecs  uint64
	HostBuffers uint64
	HostBytes   uint64
	TicketBytes uint64 // page-locked memory that waits for streams have

	Refs         uint64 // memory of the device that is in use
	RefBytes     uint64 // that was asked for
	CachedBytes  uint64 // kept for later allocations
	PeakBytes    uint64 // the most that was held of the device, in use and cached
	Allocs       uint64
	AllocsCached uint64 // those that needed no call to the driver
	Leaked       uint64 // memory given up, since it could not be proven that no work uses it
	LeakedBytes  uint64

	// The module cache: calls of CachedModule and Compile that found the code loaded, or
	// being loaded, and those that had to load it; what was unloaded for want of room; what it
	// has now, and the bytes of that; the time that loading took.
	ModuleHits, ModuleMisses, ModuleEvictions uint64
	CachedModules, CachedModuleBytes          uint64
	ModuleLoadTime                            time.Duration

	// The compiler, of a Runtime only: programs that it has compiled, and the time of that;
	// those that came from the disk cache, and those that were not there.
	Compiles                     uint64
	CompileTime                  time.Duration
	ArtifactHits, ArtifactMisses uint64

	Generation uint64 // of the context: grows with every Reset; for a Runtime, their sum
	// Lost is the first cause for which CUDA, or the device, cannot be used any more; for a
	// Runtime also where other devices go on: that of the first device that is lost.
	Lost error
}

// Stats returns what the context has done and holds.
func (c *Context) Stats() Stats {
	if c == nil || c.rt == nil {
		return Stats{}
	}
	s := Stats{
		Contexts:      1,
		Launches:      c.stats.launches.Load(),
		GraphLaunches: c.stats.graphLaunches.Load(),
		Uploads:       c.stats.uploads.Load(),
		UploadBytes:   c.stats.uploadBytes.Load(),
		Downloads:     c.stats.downloads.Load(),
		DownloadBytes: c.stats.downloadBytes.Load(),
		Copies:        c.stats.copies.Load(),
		CopyBytes:     c.stats.copyBytes.Load(),
		Waits:         c.stats.waits.Load(),
		Errors:        c.stats.errors.Load(),
	}
	count, bytes := c.ledger.sums()
	s.Streams, s.Events, s.Modules = count[streamResource], count[eventResource], count[moduleResource]
	s.Graphs, s.GraphExecs = count[graphResource], count[execResource]
	s.HostBuffers = count[hostMemory] + count[registeredMemory]
	s.HostBytes = bytes[hostMemory] + bytes[registeredMemory]
	m := c.memory.Load()
	s.TicketBytes = m.waits.Bytes()
	held, owned := m.arena.Stats(), c.state.Stats()
	s.Refs, s.RefBytes, s.CachedBytes, s.PeakBytes = owned.Live, owned.LiveBytes, held.Cached, held.HighWater
	s.AllocsCached = held.Hits + held.Shared
	s.Allocs = s.AllocsCached + held.Misses
	s.Leaked, s.LeakedBytes = owned.Leaked+held.LostBlocks, owned.LeakedBytes+held.Lost
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

func (s *Stats) add(o Stats) {
	s.Launches += o.Launches
	s.GraphLaunches += o.GraphLaunches
	s.Uploads += o.Uploads
	s.UploadBytes += o.UploadBytes
	s.Downloads += o.Downloads
	s.DownloadBytes += o.DownloadBytes
	s.Copies += o.Copies
	s.CopyBytes += o.CopyBytes
	s.Waits += o.Waits
	s.Errors += o.Errors
	s.Contexts += o.Contexts
	s.Streams += o.Streams
	s.Events += o.Events
	s.Modules += o.Modules
	s.Graphs += o.Graphs
	s.GraphExecs += o.GraphExecs
	s.HostBuffers += o.HostBuffers
	s.HostBytes += o.HostBytes
	s.TicketBytes += o.TicketBytes
	s.Refs += o.Refs
	s.RefBytes += o.RefBytes
	s.CachedBytes += o.CachedBytes
	s.PeakBytes += o.PeakBytes
	s.Allocs += o.Allocs
	s.AllocsCached += o.AllocsCached
	s.Leaked += o.Leaked
	s.LeakedBytes += o.LeakedBytes
	s.ModuleHits += o.ModuleHits
	s.ModuleMisses += o.ModuleMisses
	s.ModuleEvictions += o.ModuleEvictions
	s.CachedModules += o.CachedModules
	s.CachedModuleBytes += o.CachedModuleBytes
	s.ModuleLoadTime += o.ModuleLoadTime
	s.Generation += o.Generation
	if s.Lost == nil {
		s.Lost = o.Lost
	}
}
