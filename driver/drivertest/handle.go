package drivertest

import "github.com/purecuda/purecuda/driver"

// handle is a type of handles.
type handle interface{ ~uintptr | ~uint64 }

// table holds the live objects of a kind by their handles.
type table[H handle, T any] struct {
	kind string
	live map[H]T
}

func (t *table[H, T]) init(kind string) {
	t.kind, t.live = kind, map[H]T{}
}

// newHandle returns a number that was never a handle before. Handles look like
// addresses of objects, so that 0, 1 and 2 stay free for CUDA's special streams.
func (d *simulated) newHandle() uintptr {
	d.lastHandle++
	return 0x10000 + d.lastHandle*0x40
}

func (d *simulated) newID() uint64 {
	d.lastID++
	return d.lastID
}

// find returns the object of a handle. A handle that is none, or not any more, is
// a finding.
func find[H handle, T any](c call, t *table[H, T], h H) (T, driver.Result) {
	if object, ok := t.live[h]; ok {
		return object, driver.Success
	}
	var none T
	if h == 0 {
		c.found(driver.ResultInvalidHandle, "the %s is 0", t.kind)
		return none, driver.ResultInvalidHandle
	}
	if end, ok := c.d.gone.find(uintptr(h)); ok {
		r := driver.ResultInvalidHandle
		if end.withContext {
			r = driver.ResultContextIsDestroyed
		}
		c.found(r, "the %s %#x was destroyed by %v", t.kind, uintptr(h), end.by)
		return none, r
	}
	c.found(driver.ResultInvalidHandle, "%#x is no %s", uintptr(h), t.kind)
	return none, driver.ResultInvalidHandle
}

// end says how an object was destroyed.
type end struct {
	by          origin
	withContext bool // its context was destroyed
}

// history remembers the latest objects that were destroyed, to explain uses of
// their handles.
type history struct {
	ends  map[uintptr]end
	order []uintptr
}

const historyLength = 4096

func (h *history) add(handle uintptr, e end) {
	if h.ends == nil {
		h.ends = map[uintptr]end{}
	}
	if len(h.order) == historyLength {
		delete(h.ends, h.order[0])
		h.order = h.order[1:]
	}
	h.ends[handle] = e
	h.order = append(h.order, handle)
}

func (h *history) find(handle uintptr) (end, bool) {
	e, ok := h.ends[handle]
	return e, ok
}

// remove takes an object out of its table.
func remove[H handle, T any](c call, t *table[H, T], h H) {
	delete(t.live, h)
	c.d.gone.add(uintptr(h), end{by: c.made})
}

// removeWith takes an object out of its table because its context ends.
func removeWith[H handle, T any](c call, t *table[H, T], h H) {
	delete(t.live, h)
	c.d.gone.add(uintptr(h), end{by: c.made, withContext: true})
}
