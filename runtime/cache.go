package runtime

import (
	"container/list"
	goruntime "runtime"
	"time"
	"weak"

	"github.com/purecuda/purecuda/internal/flight"
	"github.com/purecuda/purecuda/internal/gate"
)

// moduleCache keeps the modules of one context by what they were made of. It owns them, and
// callers get leases: Modules of their own with the same code. What has no lease is unloaded
// when the code together exceeds the limit, what was not asked for for longest first.
//
// It makes no call of the driver: [Context.cached] and [Context.evict] do.
type moduleCache struct {
	// flights lets callers that miss the same module at the same time share its load.
	flights flight.Group[moduleKey, *cachedModule]

	ledger *ledger // whose mutex guards what follows, and the leases of the entries
	byKey  map[moduleKey]*cachedModule
	recent list.List // of *cachedModule, the last one that was asked for first
	counts moduleCounts
}

// moduleCounts are what [Stats] tells of the cache.
type moduleCounts struct {
	hits, misses, evictions uint64
	modules, bytes          uint64 // in the cache now
	loading                 time.Duration
}

// cachedModule is a module that the cache owns. Its entry has the leases.
type cachedModule struct {
	key    moduleKey
	loaded *Module
	place  *list.Element // nil once it has left the cache
}

func (e *cachedModule) bytes() uint64 { return uint64(len(e.loaded.image.Code)) }

// take gives a lease of a module that is there, or nil.
func (mc *moduleCache) take(key moduleKey) *Module {
	mc.ledger.mu.Lock()
	defer mc.ledger.mu.Unlock()
	e := mc.find(key)
	if e == nil {
		return nil
	}
	mc.counts.hits++
	return mc.lease(e)
}

// find is called with the mutex held, as are lease and remove.
func (mc *moduleCache) find(key moduleKey) *cachedModule {
	e := mc.byKey[key]
	if e != nil && e.loaded.gate.Closed() { // by a Reset, or the end of the context
		mc.remove(e)
		return nil
	}
	return e
}

// lease makes a Module for one caller. It is nil if the cached one has left the cache.
func (mc *moduleCache) lease(e *cachedModule) *Module {
	if e.place == nil || e.loaded.gate.Closed() {
		return nil
	}
	mc.recent.MoveToFront(e.place)
	of := e.loaded
	m := &Module{handle: of.handle, image: of.image, log: of.log, names: of.names, cached: e}
	m.object = object{ctx: of.ctx, entry: of.entry, gate: new(gate.Gate)}
	of.entry.leases[m.gate] = struct{}{}
	m.cleanup = goruntime.AddCleanup(m, moduleLease.forgotten, moduleLease{weak.Make(e), m.gate})
	return m
}

// moduleLease is what the cleanup of a lease has; see forgotten.
type moduleLease struct {
	of   weak.Pointer[cachedModule]
	gate *gate.Gate
}

func (l moduleLease) forgotten() {
	if e := l.of.Value(); e != nil {
		e.loaded.ctx.modules.release(e, l.gate)
	}
}

// release ends a lease.
func (mc *moduleCache) release(e *cachedModule, lease *gate.Gate) {
	mc.ledger.mu.Lock()
	defer mc.ledger.mu.Unlock()
	delete(e.loaded.entry.leases, lease)
}

// claim begins a flight: it is what another one has loaded since the caller looked, or nil.
func (mc *moduleCache) claim(key moduleKey) *cachedModule {
	mc.ledger.mu.Lock()
	defer mc.ledger.mu.Unlock()
	e := mc.find(key)
	if e == nil {
		mc.counts.misses++
	}
	return e
}

// land ends one.
func (mc *moduleCache) land(key moduleKey, loaded *Module) *cachedModule {
	mc.ledger.mu.Lock()
	defer mc.ledger.mu.Unlock()
	e := &cachedModule{key: key, loaded: loaded}
	loaded.entry.leases = map[*gate.Gate]struct{}{}
	if mc.byKey == nil {
		mc.byKey = map[moduleKey]*cachedModule{}
	}
	mc.byKey[key], e.place = e, mc.recent.PushFront(e)
	mc.counts.modules++
	mc.counts.bytes += e.bytes()
	return e
}

// join gives a lease of what a flight has brought, which is a hit for all but the caller who has loaded it.
func (mc *moduleCache) join(e *cachedModule, hit bool) *Module {
	mc.ledger.mu.Lock()
	defer mc.ledger.mu.Unlock()
	m := mc.lease(e)
	if m != nil && hit {
		mc.counts.hits++
	}
	return m
}

func (mc *moduleCache) remove(e *cachedModule) {
	mc.recent.Remove(e.place)
	e.place = nil
	delete(mc.byKey, e.key)
	mc.counts.modules--
	mc.counts.bytes -= e.bytes()
}

// surplus takes modules off the cache until at most limit bytes are left: those without a
// lease that no graph retains, and never the given one.
func (mc *moduleCache) surplus(limit uint64, but *cachedModule) (modules []*Module) {
	mc.ledger.mu.Lock()
	defer mc.ledger.mu.Unlock()
	for at := mc.recent.Back(); at != nil && mc.counts.bytes > limit; {
		e := at.Value.(*cachedModule)
		at = at.Prev()
		if e == but || len(e.loaded.entry.leases) > 0 || e.loaded.entry.graphs > 0 {
			continue
		}
		mc.remove(e)
		mc.counts.evictions++
		modules = append(modules, e.loaded)
	}
	return modules
}

// reset empties the cache of a context that is taken down, after the gates of its resources were
// closed. From then on every use of a lease is an error, as with every other module. It waits for
// the calls that use one, until lost is closed.
func (mc *moduleCache) reset(lost <-chan struct{}) {
	for _, g := range mc.clear() {
		g.Close(lost)
	}
}

// clear returns the gates of all leases.
func (mc *moduleCache) clear() (leases []*gate.Gate) {
	mc.ledger.mu.Lock()
	defer mc.ledger.mu.Unlock()
	for _, e := range mc.byKey {
		for g := range e.loaded.entry.leases {
			leases = append(leases, g)
		}
		mc.remove(e)
		e.loaded.cleanup.Stop() // it is gone with the context
	}
	return leases
}

func (mc *moduleCache) snapshot() moduleCounts {
	mc.ledger.mu.Lock()
	defer mc.ledger.mu.Unlock()
	return mc.counts
}

func (mc *moduleCache) loadTook(d time.Duration) {
	mc.ledger.mu.Lock()
	defer mc.ledger.mu.Unlock()
	mc.counts.loading += d
}
