package arena

import (
	"errors"
	"maps"
	"slices"
	"time"

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

// startTimer begins a period of the TTL if there is none. p.mu is held.
func (p *Pinned) startTimer() {
	if p.ttl > 0 && p.timer == nil {
		p.timer = time.AfterFunc(p.ttl, p.tick)
	}
}

// tick ends a period, and begins another one while there are blocks.
func (p *Pinned) tick() {
	if !p.ticks.Enter() {
		return
	}
	defer p.ticks.Leave()
	p.expire()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = nil
	if p.usable() == nil && p.claimed > 0 {
		p.startTimer()
	}
}

// expire ends a period, and frees the blocks that nobody has used in all of it.
func (p *Pinned) expire() {
	ended := p.period.Add(1) - 1
	if ended == 0 {
		return // all blocks were used in the first one
	}
	for _, c := range p.users() {
		c.trim(ended - 1)
	}
	p.poll()
	p.mu.Lock()
	var victims []*pinnedBlock
	for class, list := range p.free {
		kept := list[:0]
		for _, block := range list {
			if block.lastUsed >= ended {
				kept = append(kept, block)
				continue
			}
			p.remove(block)
			p.stats.CachedBytes -= block.bytes
			victims = append(victims, block)
		}
		clear(list[len(kept):])
		p.free[class] = kept
	}
	p.mu.Unlock()
	p.destroy(victims)
}
