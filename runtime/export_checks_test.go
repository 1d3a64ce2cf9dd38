package runtime

import (
	"reflect"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/current"
)

// MakesCurrent makes a handle one whose calls make the context current.
func MakesCurrent(h *LibraryHandle) { h.current = new(current.Context) }

// Reports is how many reports of kernels a context has in use.
func Reports(c *Context) int {
	t := c.memory.Load().checks
	reportsMu.Lock()
	defer reportsMu.Unlock()
	return len(t.live)
}

// Written is how many reports of a stream a kernel has written.
func Written(s *Stream) (n int) {
	for _, w := range s.checks.watched() {
		if w.memory.Written() {
			n++
		}
	}
	return n
}

// PoolOf is the driver's pool of the memory of a context, or 0.
func PoolOf(c *Context) driver.MemPool {
	return driver.MemPool(reflect.ValueOf(c.memory.Load().arena).Elem().FieldByName("pool").Uint())
}
