package runtime

import (
	"errors"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
)

// entryKind is what an entry of a ledger is. It also is the order in which a context frees: what work runs on
// before the code and the memory that the work uses.
type entryKind uint8

const (
	libraryEntry entryKind = iota // of another library, which may refer to all of the others
	eventEntry
	graphEntry
	streamEntry
	execEntry
	moduleEntry
	ipcMemory // of the device, which processes share
	hostMemory
	registeredMemory // of the host, which the program has
	managedMemory    // of the host and of devices
	leasedMemory     // of the host, which the pool of the context has
	entryKinds
)

func (k entryKind) String() string {
	return [...]string{"library handle", "event", "graph", "stream", "executable graph", "module", "IPC memory", "host memory", "registered host memory", "managed memory", "leased host memory"}[k]
}

// usedByWork says that work on the device may use it, so that it is freed when there is none.
func (k entryKind) usedByWork() bool { return k == libraryEntry || k >= execEntry }

// ofHost says that the host may have a slice of it.
func (k entryKind) ofHost() bool { return k >= hostMemory }

// entry is what a ledger has for a thing that the driver has made. The object of the caller refers to it. It does
// not refer to the object, which the garbage collector could not find otherwise.
type entry struct {
	gate       gate.Gate // the calls that use the thing
	ctx        *Context
	generation uint64 // of the context
	handle     uint64
	bytes      uint64
	kind       entryKind
	lease      *hostLease // of page-locked memory of the pool
	*details              // of all but leases

	// The mutex of the ledger guards what follows.
	listed        bool // until it is taken off to be freed
	deferred      bool // it is to be freed at the next allocation
	freeOnRelease bool // it was closed, and the last reference of a graph frees it
	graphs        int  // references of graphs, and of managed memory one for all Refs
	previous      *entry
	next          *entry
}

// details are what is known of things of some kinds.
type details struct {
	// These are set before the entry is on the ledger.
	wrapped       bool         // others own the stream
	destroyHandle func() error // destroys the handle of another library
	ipc           *ipcBlock

	registered unsafe.Pointer // keeps memory of the Go heap until it is not registered any more
	stream     atomic.Pointer[streamParts]
	waits      atomic.Pointer[wait.Event] // for an event

	// The mutex of the ledger guards what follows.
	retains []retainable            // by a graph
	leases  map[*gate.Gate]struct{} // of a cached module: the gates of those that are open
}

// streamParts is what a stream allocates from, what waits for it, and what its kernels report to. It ends with the stream.
type streamParts struct {
	memory *arena.Stream
	waits  *wait.Stream
	checks *streamChecks
	stats  *counters

	priority int32
	// spoiled says that it may differ from a new stream: it was captured, a call has failed, or others have its handle.
	spoiled atomic.Bool
}

// ledger has an entry for each thing that a context owns in the driver. Whoever takes an entry off frees the thing,
// so that this happens once however often and from wherever it is closed.
type ledger struct {
	mu       locks.Mutex[locks.Ledger]
	first    [entryKinds]*entry
	count    [entryKinds]uint64
	bytes    [entryKinds]uint64
	ended    Stats // what was done on streams that are off
	deferred []*entry
	spare    []uint64 // streams that were closed, without work
	onTrim   []*func() error
}

// add puts an entry on the ledger, unless others own the thing and there is an entry with its handle.
func (l *ledger) add(e *entry) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := &l.first[e.kind]
	for known := *first; known != nil && e.details != nil && e.wrapped; known = known.next {
		if known.handle == e.handle {
			return false
		}
	}
	if e.next = *first; e.next != nil {
		e.next.previous = e
	}
	*first, e.listed = e, true
	l.count[e.kind]++
	l.bytes[e.kind] += e.bytes
	return true
}

// take takes an entry off to be freed, and reports whether it did. What a graph retains stays, and goes with the last
// release, unless all of the context goes.
func (l *ledger) take(e *entry, all bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.graphs > 0 && !all {
		e.freeOnRelease = true
		return false
	}
	return l.unlist(e)
}

// unlist is take with the mutex held.
func (l *ledger) unlist(e *entry) bool {
	if !e.listed {
		return false
	}
	if e.previous != nil {
		e.previous.next = e.next
	} else {
		l.first[e.kind] = e.next
	}
	if e.next != nil {
		e.next.previous = e.previous
	}
	e.previous, e.next, e.listed = nil, nil, false
	e.addTo(&l.ended)
	l.count[e.kind]--
	l.bytes[e.kind] -= e.bytes
	return true
}

// freeLater leaves an entry to the next allocation. The garbage collector calls it for what nobody
// refers to any more. It must not call the driver.
func (l *ledger) freeLater(e *entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.listed && !e.deferred {
		e.deferred = true
		l.deferred = append(l.deferred, e)
	}
}

func (l *ledger) takeDeferred() []*entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.deferred
	for _, e := range all {
		e.deferred = false
	}
	l.deferred = nil
	return all
}

// clear takes everything off: the driver has freed it all.
func (l *ledger) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, first := range l.first {
		for first != nil {
			next := first.next
			l.unlist(first)
			first = next
		}
	}
	l.deferred, l.spare = nil, nil
}

// entries returns what is there of some kinds, of all if none is given.
func (l *ledger) entries(kinds ...entryKind) (all []*entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind := range entryKinds {
		for e := l.first[kind]; e != nil && (kinds == nil || slices.Contains(kinds, kind)); e = e.next {
			all = append(all, e)
		}
	}
	return all
}

// openHostMemory counts the memory that somebody may have a slice of: what was
// closed or collected only waits to be freed.
func (l *ledger) openHostMemory() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for kind := range entryKinds {
		for e := l.first[kind]; e != nil && kind.ofHost(); e = e.next {
			if !e.gate.Closed() && !e.freeOnRelease && !e.deferred {
				n++
			}
		}
	}
	return n
}

// sums counts what is there, by kind, and what was done on streams.
func (l *ledger) sums() (count, bytes [entryKinds]uint64, done Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done = l.ended
	done.SpareStreams = uint64(len(l.spare))
	for e := l.first[streamEntry]; e != nil; e = e.next {
		e.addTo(&done)
	}
	return l.count, l.bytes, done
}

// addTo adds what was done on a stream to a snapshot.
func (e *entry) addTo(s *Stats) {
	if e.kind != streamEntry || e.details == nil {
		return
	}
	if parts := e.stream.Load(); parts != nil { // it is not being made
		parts.stats.addTo(s)
	}
}

// retain adds a reference of a graph. It is nil for what is closed, unless another graph retains it.
func (e *entry) retain() retainable {
	l := &e.ctx.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.listed || e.graphs == 0 && e.gate.Closed() {
		return nil
	}
	e.graphs++
	return e
}

// release ends a reference of a graph, and frees what was closed meanwhile.
func (e *entry) release() error {
	if !e.unretain() {
		return nil
	}
	return e.free()
}

// unretain is release that leaves freeing to the caller, if it returns true.
func (e *entry) unretain() (free bool) {
	l := &e.ctx.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.listed { // the context has freed it
		return false
	}
	e.graphs--
	return e.graphs == 0 && e.freeOnRelease
}

// leaveToGraphs leaves freeing to the last release, and reports whether a graph retains the thing.
func (e *entry) leaveToGraphs() (retained bool) {
	l := &e.ctx.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	retained = e.listed && e.graphs > 0
	e.freeOnRelease = e.freeOnRelease || retained
	return retained
}

// retained returns what a graph retains.
func (e *entry) retained() []retainable {
	l := &e.ctx.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	return e.retains
}

// setRetained replaces what a graph retains, and returns what the caller must release.
func (e *entry) setRetained(now []retainable) (before []retainable) {
	l := &e.ctx.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if !e.listed { // the context has freed the graph
		return now
	}
	before, e.retains = e.retains, now
	return before
}

// addRetained lets a graph retain more, and is false if the context has freed the graph.
func (e *entry) addRetained(more []retainable) bool {
	l := &e.ctx.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.listed {
		e.retains = append(slices.Clip(e.retains), more...)
	}
	return e.listed
}

// releaseRetained releases what a graph retains that was taken off the ledger.
func (e *entry) releaseRetained() error {
	if e.details == nil {
		return nil
	}
	return releaseAll(e.retains)
}

// takeRetained returns what all graphs retain, which the caller must release. They retain nothing then.
func (l *ledger) takeRetained() (all []retainable) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kind := range []entryKind{graphEntry, execEntry} {
		for e := l.first[kind]; e != nil; e = e.next {
			all = append(all, e.retains...)
			e.retains = nil
		}
	}
	return all
}

// destroy frees what was taken off the ledger. The context must be current.
func (e *entry) destroy() error {
	c := e.ctx
	if e.lease != nil {
		return e.lease.memory.Free()
	}
	var err error
	if waits := e.waits.Load(); waits != nil {
		waits.Close()
	}
	if s := e.stream.Load(); s != nil {
		err = s.checks.close()
		s.waits.Close()
		if err = errors.Join(err, s.memory.Close()); err == nil && !e.wrapped && e.keep(s) {
			return nil
		}
	}
	switch {
	case e.wrapped:
		return err
	case e.kind == libraryEntry:
		return c.destroyHandle(e.destroyHandle)
	case e.ipc != nil:
		return c.bind.Failed(e.ipc.free(c.api))
	}
	return errors.Join(err, c.bind.Failed(e.destroyInDriver()))
}

func (e *entry) destroyInDriver() (op string, result driver.Result) {
	api := e.ctx.api
	switch e.kind {
	case eventEntry:
		return "cuEventDestroy", api.EventDestroy(driver.Event(e.handle))
	case graphEntry:
		return "cuGraphDestroy", api.GraphDestroy(driver.Graph(e.handle))
	case streamEntry:
		return "cuStreamDestroy", api.StreamDestroy(driver.Stream(e.handle))
	case execEntry:
		return "cuGraphExecDestroy", api.GraphExecDestroy(driver.GraphExec(e.handle))
	case moduleEntry:
		return "cuModuleUnload", api.ModuleUnload(driver.Module(e.handle))
	case managedMemory:
		return "cuMemFree", api.MemFree(driver.DevicePtr(e.handle))
	case registeredMemory:
		return "cuMemHostUnregister", api.MemHostUnregister(hostPointer(e.handle))
	default:
		return "cuMemFreeHost", api.MemFreeHost(hostPointer(e.handle))
	}
}
