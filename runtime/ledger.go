package runtime

import (
	"sync"

	"github.com/purecuda/purecuda/driver"
)

// resource is something that a context owns in the driver.
type resource struct {
	kind   resourceKind
	handle uint64
}

// resourceKind also is the order in which a context gives its resources back: what
// work runs on before the code and the memory that the work uses.
type resourceKind uint8

const (
	eventResource resourceKind = iota
	graphResource
	streamResource
	execResource // from here on: what work on the device may use
	moduleResource
	deviceMemory
	hostMemory
	resourceKinds
)

func (k resourceKind) String() string {
	return [...]string{"event", "graph", "stream", "executable graph", "module", "device memory", "host memory"}[k]
}

// ledger knows what a context owns. A resource is given back by whoever takes it
// off the ledger, so that this happens exactly once however often and from
// wherever it is closed.
type ledger struct {
	mu        sync.Mutex
	live      map[resource]entry
	forgotten []resource // found by the garbage collector
}

// entry is what the ledger keeps of a resource. It does not refer to the object
// that the caller has, which the garbage collector could not find otherwise.
type entry struct {
	gate  *gate // the calls that use the resource
	bytes uint64
	held  holding
	keeps []kept // what a graph holds
}

func (l *ledger) add(r resource, e entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live == nil {
		l.live = map[resource]entry{}
	}
	l.live[r] = e
}

// take takes r off and tells whether it was there.
func (l *ledger) take(r resource) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.live[r]
	delete(l.live, r)
	return ok
}

// forget notes a resource that nobody refers to any more. It is called on the
// garbage collector's behalf and must not call the driver.
func (l *ledger) forget(r resource) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgotten = append(l.forgotten, r)
}

func (l *ledger) takeForgotten() []resource {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.forgotten
	l.forgotten = nil
	return f
}

// entries returns what is live of a kind.
func (l *ledger) entries(kind resourceKind) map[resource]entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[resource]entry{}
	for r, e := range l.live {
		if r.kind == kind {
			found[r] = e
		}
	}
	return found
}

// sums counts what is live, by kind.
func (l *ledger) sums() (count, bytes [resourceKinds]uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r, e := range l.live {
		count[r.kind]++
		bytes[r.kind] += e.bytes
	}
	return count, bytes
}

// destroy gives a resource back to the driver. The context must be current.
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
	case deviceMemory:
		return "cuMemFree", api.MemFree(driver.DevicePtr(r.handle))
	default:
		return "cuMemFreeHost", api.MemFreeHost(hostPointer(r.handle))
	}
}
