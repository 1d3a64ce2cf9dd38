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

// resourceKind also is the order in which a context gives its resources back: what
// work runs on before the code and the memory that the work uses.
type resourceKind uint8

const (
	eventResource resourceKind = iota
	graphResource
	streamResource
	execResource // from here on: what work on the device may use
	moduleResource
	hostMemory
	registeredMemory // of the host, which the program has
	resourceKinds
)

func (k resourceKind) String() string {
	return [...]string{"event", "graph", "stream", "executable graph", "module", "host memory", "registered host memory"}[k]
}

// ofHost says that a HostBuffer stands on it.
func (k resourceKind) ofHost() bool { return k == hostMemory || k == registeredMemory }

// ledger knows what a context owns. A resource is given back by whoever takes it
// off the ledger, so that this happens exactly once however often and from
// wherever it is closed.
type ledger struct {
	mu        locks.Mutex[locks.Resources]
	live      map[resource]entry
	forgotten []resource // found by the garbage collector
}

// entry is what the ledger keeps of a resource. It does not refer to the object
// that the caller has, which the garbage collector could not find otherwise.
type entry struct {
	gate  *gate.Gate // the calls that use the resource
	bytes uint64
	held  holding
	keeps []kept // what a graph holds
	// registered keeps memory of the Go heap until it is not registered any more.
	registered unsafe.Pointer
	// memory is what a stream allocates from, and waits what waits for it; both end with the stream.
	memory *arena.Stream
	waits  *wait.Stream
	asked  *wait.Event // for an event
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
func (l *ledger) take(r resource) (entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.live[r]
	delete(l.live, r)
	return e, ok
}

// setStream notes what ends with a stream.
func (l *ledger) setStream(r resource, memory *arena.Stream, waits *wait.Stream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.live[r]; ok {
		e.memory, e.waits = memory, waits
		l.live[r] = e
	}
}

// setRegistered notes the memory that was registered.
func (l *ledger) setRegistered(r resource, memory unsafe.Pointer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.live[r]; ok {
		e.registered = memory
		l.live[r] = e
	}
}

// setAsked notes what waits for an event.
func (l *ledger) setAsked(r resource, asked *wait.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e, ok := l.live[r]; ok {
		e.asked = asked
		l.live[r] = e
	}
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

// clear forgets everything: the driver has taken it all.
func (l *ledger) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live, l.forgotten = nil, nil
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

// gates are those of all that is live.
func (l *ledger) gates() (all []*gate.Gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.live {
		all = append(all, e.gate)
	}
	return all
}

// openHostMemory counts the page-locked memory that somebody may have a slice of: what was
// closed or forgotten is only waiting for a graph or for its turn.
func (l *ledger) openHostMemory() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r, e := range l.live {
		if r.kind.ofHost() && !e.gate.Closed() && !e.held.putOff && !slices.Contains(l.forgotten, r) {
			n++
		}
	}
	return n
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

// destroy gives a resource that is off the ledger back to the driver. The context must be
// current.
func (c *Context) destroy(r resource, e entry) error {
	var err error
	if e.asked != nil {
		e.asked.Close()
	}
	if e.memory != nil {
		e.waits.Close()
		err = e.memory.Close()
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
	case registeredMemory:
		return "cuMemHostUnregister", api.MemHostUnregister(hostPointer(r.handle))
	default:
		return "cuMemFreeHost", api.MemFreeHost(hostPointer(r.handle))
	}
}
