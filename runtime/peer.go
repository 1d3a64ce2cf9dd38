package runtime

import (
	"maps"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/refs"
)

// EnablePeer lets kernels of the device of c use the memory of other's device, over NVLink or
// PCIe, and reports whether the machine can do that. It takes one direction; call it on other
// for the other one. [Copy] needs no EnablePeer: it asks for the direct link itself, and works
// without one too.
//
// From then on launches on c take Refs of other, what is allocated later included, until one
// of the contexts is reset. They are ordered as uses of c's own memory are. Each access goes
// over the link, at a fraction of the rate of the device's own memory, so it pays for data
// that is read once. Allocating on other becomes slower where the driver is asked for
// memory, which has to be mapped for both devices.
//
// The driver is asked once for each pair. Devices that cannot reach each other are no error.
// Both contexts must be of the same runtime.
func (c *Context) EnablePeer(other *Context) (direct bool, err error) {
	if c == nil || c.rt == nil {
		return false, errNothing("context")
	}
	if other == nil || other.rt != c.rt {
		return false, driver.Errorf(driver.ErrInvalidArgument, "EnablePeer takes a context of the same runtime")
	}
	for _, end := range []*Context{c, other} {
		if err := end.hold(); err != nil {
			return false, err
		}
		defer end.gate.Leave()
	}
	if c == other {
		return true, nil
	}
	other.usedBy(c)
	// Taken down before: if a context is reset meanwhile, the link is one of the past.
	between := linkOf(c.state, other.state)
	direct, err = other.memory.Load().arena.Reach(&c.rt.peers, &c.bind)
	if direct {
		c.rt.addLink(between)
	}
	return direct, err
}

// hasPeerAccess reports whether kernels of the context may use memory of another one.
func (c *Context) hasPeerAccess(other *refs.State) bool {
	return other != nil && c.rt.hasLink(linkOf(c.state, other))
}

// link says that kernels of one context may use the memory of another one, as long as
// neither is reset.
type link struct {
	at, to                     *refs.State
	atGeneration, toGeneration uint64
}

func linkOf(at, to *refs.State) link { return link{at, to, at.Generation(), to.Generation()} }

// hasLink is on the way of launches, so that the map is replaced when it changes.
func (rt *Runtime) hasLink(k link) bool {
	all := rt.links.Load()
	if all == nil {
		return false
	}
	_, ok := (*all)[k]
	return ok
}

func (rt *Runtime) addLink(k link) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	next := map[link]struct{}{k: {}}
	if all := rt.links.Load(); all != nil {
		maps.Copy(next, *all)
		maps.DeleteFunc(next, func(old link, _ struct{}) bool { return old != linkOf(old.at, old.to) && old != k })
	}
	rt.links.Store(&next)
}
