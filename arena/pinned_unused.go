package arena

import (
	"errors"
	"maps"
	"slices"

	"github.com/purecuda/purecuda/driver"
)

func isOutOfMemory(err error) bool { return err != nil && errors.Is(err, driver.ErrOutOfMemory) }

// returnUnused makes those who copy return the blocks that they do not use, and asks for which
// returned blocks the work is done. It reports whether that can help with so many bytes.
func (p *Pinned) returnUnused(bytes uint64) bool {
	if _, size := pinnedClass(bytes); size > p.limit {
		return false
	}
	p.poll()
	for _, c := range p.users() {
		c.Trim()
	}
	return true
}

// users are the copiers that may have blocks of the pool.
func (p *Pinned) users() []*Copier {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.copiers))
}

// setUser enters a copier that leases blocks, or takes it out.
func (p *Pinned) setUser(c *Copier, uses bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if uses && p.copiers != nil {
		p.copiers[c] = struct{}{}
	} else {
		delete(p.copiers, c)
	}
}
