package runtime

import "sync/atomic"

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
	Buffers     uint64
	BufferBytes uint64
	HostBuffers uint64
	HostBytes   uint64
}

// Stats returns what the context has done and holds.
func (c *Context) Stats() Stats {
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
	s.Buffers, s.BufferBytes = count[deviceMemory], bytes[deviceMemory]
	s.HostBuffers, s.HostBytes = count[hostMemory], bytes[hostMemory]
	return s
}

// Stats returns the sums over all open contexts.
func (rt *Runtime) Stats() Stats {
	var sum Stats
	for _, c := range rt.openContexts() {
		sum.add(c.Stats())
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
	s.Buffers += o.Buffers
	s.BufferBytes += o.BufferBytes
	s.HostBuffers += o.HostBuffers
	s.HostBytes += o.HostBytes
}
