package runtime

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
)

// resource is something that a context owns in the driver.
type resource struct {
	kind   resourceKind
	handle uint64
	// generation is that of the context, since a driver uses handles again.
	generation uint64
}

// resourceKind also is the order in which a context frees its resources: what
// work runs on before the code and the memory that the work uses.
type resourceKind uint8

const (
	libraryResource resourceKind = iota // of another library, which may refer to all of the others
	eventResource
	graphResource
	streamResource
	execResource
	moduleResource
	ipcMemory // of the device, which processes share
	hostMemory
	registeredMemory // of the host, which the program has
	managedMemory    // of the host and of devices
	leasedMemory     // of the host, which the pool of the context has
	resourceKinds
)

func (k resourceKind) String() string {
	return [...]string{"library handle", "event", "graph", "stream", "executable graph", "module", "IPC memory", "host memory", "registered host memory", "managed memory", "leased host memory"}[k]
}

// usedByWork says that work on the device may use it, so that it is freed when there is none.
func (k resourceKind) usedByWork() bool { return k == libraryResource || k >= execResource }

// ofHost says that the host may have a slice of it.
func (k resourceKind) ofHost() bool { return k >= hostMemory }

// resources are what a context owns in the driver. Whoever takes a resource out frees it, so that this
// happens exactly once however often and from wherever it is closed.
type resources struct {
	mu       locks.Mutex[locks.Ledger]
	live     map[resource]entry
	deferred []resource // to be freed at the next allocation
}

// entry is what is known of a resource. It does not refer to the object
// that the caller has, which the garbage collector could not find otherwise.
type entry struct {
	gate  *gate.Gate // the calls that use the resource
	bytes uint64
	// references are those of graphs, and of managed memory one for all Refs, and freeOnRelease says that the last one frees the resource.
	references    int
	freeOnRelease bool
	retains       []retainable // by a graph
	// registered keeps memory of the Go heap until it is not registered any more.
	registered unsafe.Pointer
	// memory is what a stream allocates from, and waits what waits for it; both end with the stream.
	memory     *arena.Stream
	waits      *wait.Stream
	checks     *streamChecks // of a stream
	eventWaits *wait.Event   // for an event
	hostLease  *hostLease    // for page-locked memory of the pool
	// wrapped says that others own a stream, and destroyHandle destroys the handle of another library.
	wrapped       bool
	destroyHandle func() error
	ipc           *ipcBlock // for IPC memory
}

func (rs *resources) add(r resource, e entry) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.live == nil {
		rs.live = map[resource]entry{}
	}
	rs.live[r] = e
}

// addNew is add, unless there is such a resource.
func (rs *resources) addNew(r resource, e entry) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if _, known := rs.live[r]; known {
		return false
	}
	if rs.live == nil {
		rs.live = map[resource]entry{}
	}
	rs.live[r] = e
	return true
}

// take takes r out and reports whether it was there.
func (rs *resources) take(r resource) (entry, bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	e, ok := rs.live[r]
	delete(rs.live, r)
	return e, ok
}

// update changes the entry of r, if there is one.
func (rs *resources) update(r resource, f func(*entry)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if e, ok := rs.live[r]; ok {
		f(&e)
		rs.live[r] = e
	}
}

// freeLater leaves a resource to the next allocation. The garbage collector calls it for what nobody
// refers to any more. It must not call the driver.
func (rs *resources) freeLater(r resource) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.deferred = append(rs.deferred, r)
}

func (rs *resources) takeDeferred() []resource {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	f := rs.deferred
	rs.deferred = nil
	return f
}

// clear removes everything: the driver has freed it all.
func (rs *resources) clear() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.live, rs.deferred = nil, nil
}

// entries returns what is live of a kind.
func (rs *resources) entries(kind resourceKind) map[resource]entry {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	found := map[resource]entry{}
	for r, e := range rs.live {
		if r.kind == kind {
			found[r] = e
		}
	}
	return found
}

// gates are those of all that is live.
func (rs *resources) gates() (all []*gate.Gate) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, e := range rs.live {
		all = append(all, e.gate)
	}
	return all
}

// openHostMemory counts the memory that somebody may have a slice of: what was
// closed or collected only waits to be freed.
func (rs *resources) openHostMemory() (n int) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for r, e := range rs.live {
		if r.kind.ofHost() && !e.gate.Closed() && !e.freeOnRelease && !slices.Contains(rs.deferred, r) {
			n++
		}
	}
	return n
}

// sums counts what is live, by kind.
func (rs *resources) sums() (count, bytes [resourceKinds]uint64) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for r, e := range rs.live {
		count[r.kind]++
		bytes[r.kind] += e.bytes
	}
	return count, bytes
}

// retain adds a reference of a graph, and reports whether it could. It takes the gate as well,
// because the driver uses handles again.
func (rs *resources) retain(r resource, g *gate.Gate) (ok bool) {
	rs.update(r, func(e *entry) {
		if ok = e.gate == g && (e.references > 0 || !g.Closed()); ok {
			e.references++
		}
	})
	return ok
}

// release ends a reference, and reports whether the caller must free the resource now.
func (rs *resources) release(r resource, g *gate.Gate) (free bool) {
	rs.update(r, func(e *entry) { // unless the context has freed it
		if e.gate == g {
			e.references--
			free = e.references == 0 && e.freeOnRelease
		}
	})
	return free
}

// freeOnRelease leaves freeing r to the last release, and reports whether a graph retains r.
func (rs *resources) freeOnRelease(r resource) (retained bool) {
	rs.update(r, func(e *entry) {
		retained = e.references > 0
		e.freeOnRelease = e.freeOnRelease || retained
	})
	return retained
}

// retainedBy returns what a graph retains.
func (rs *resources) retainedBy(r resource) []retainable {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.live[r].retains
}

// takeRetained returns what all graphs retain, which the caller must release. They retain nothing then.
func (rs *resources) takeRetained() (all []retainable) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for r, e := range rs.live {
		all = append(all, e.retains...)
		e.retains = nil
		rs.live[r] = e
	}
	return all
}

// setRetained replaces what a graph retains, and returns what the caller must release.
func (rs *resources) setRetained(r resource, now []retainable) (before []retainable) {
	before = now // if the context has freed the graph
	rs.update(r, func(e *entry) { before, e.retains = e.retains, now })
	return before
}

// destroy frees a resource that was taken out. The context must be current.
func (c *Context) destroy(r resource, e entry) error {
	var err error
	if e.eventWaits != nil {
		e.eventWaits.Close()
	}
	if e.memory != nil {
		err = e.checks.close()
		e.waits.Close()
		err = errors.Join(err, e.memory.Close())
	}
	switch {
	case e.wrapped:
		return err
	case r.kind == libraryResource:
		return c.destroyHandle(e.destroyHandle)
	case e.hostLease != nil:
		return errors.Join(err, e.hostLease.lease.Return())
	case e.ipc != nil:
		return c.failed(e.ipc.free(c.api))
	}
	return errors.Join(err, c.failed(r.destroy(c.api)))
}

func (r resource) destroy(api driver.API) (op string, result driver.Result) {
	switch r.kind {
	case eventResource:
		return "cuEventDestroy", api.EventDestroy(driver.Event(r.handle))
	case graphResource:
		return "cuGraphDestroy", api.GraphDestroy(driver.Graph(r.handle))
	case streamResource:
		return "cuStreamDestroy", api.StreamDestroy(driver.Stream(r.handle))
	case execResource:
		return "cuGraphExecDestroy", api.GraphExecDestroy(driver.GraphExec(r.handle))
	case moduleResource:
		return "cuModuleUnload", api.ModuleUnload(driver.Module(r.handle))
	case managedMemory:
		return "cuMemFree", api.MemFree(driver.DevicePtr(r.handle))
	case registeredMemory:
		return "cuMemHostUnregister", api.MemHostUnregister(hostPointer(r.handle))
	default:
		return "cuMemFreeHost", api.MemFreeHost(hostPointer(r.handle))
	}
}
