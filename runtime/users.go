package runtime

import (
	"slices"
	"sync/atomic"
)

// users are the contexts whose work may use what another one has. It is page-locked memory in their
// copies and launches, memory of the device over a link, and anything in their graphs. They are
// noted before the first such work begins, and stay. The zero value is ready.
type users struct {
	all atomic.Pointer[[]*Context] // replaced under Runtime.mu
}

func (u *users) list() []*Context {
	if all := u.all.Load(); all != nil {
		return *all
	}
	return nil
}

// usedBy notes that work of another context may use what c has.
func (c *Context) usedBy(other *Context) {
	if c == other || slices.Contains(c.users.list(), other) {
		return
	}
	c.rt.mu.Lock()
	defer c.rt.mu.Unlock()
	if all := c.users.list(); !slices.Contains(all, other) {
		all = append(slices.Clip(all), other)
		c.users.all.Store(&all)
	}
}

// withUsers are the context and all whose work may use what it has. Users of its users are among
// them, since a graph of a user may run on behalf of them.
func (c *Context) withUsers() []*Context {
	all := []*Context{c}
	for i := 0; i < len(all); i++ {
		for _, user := range all[i].users.list() {
			if !slices.Contains(all, user) {
				all = append(all, user)
			}
		}
	}
	return all
}
