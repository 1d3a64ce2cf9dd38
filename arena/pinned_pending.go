package arena

import "github.com/purecuda/purecuda/internal/wait"

// FreeAfter is Free of a block that work on a device may still use: it is leased again once all
// tickets are done. It waits for nothing. PinnedConfig.Debug does not fill such a block.
func (l Lease) FreeAfter(tickets ...wait.Ticket) error {
	if l.block == nil {
		return nothing("lease of page-locked memory")
	}
	if done(tickets) {
		return l.Free()
	}
	p, block := l.pool, l.block
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.endLease(l); err != nil {
		return err
	}
	p.stats.Returns++
	if p.closed || p.lost { // nobody knows any more when the work is done
		p.remove(block)
		p.stats.LostBytes += block.bytes
		return nil
	}
	block.after = append(block.after[:0], tickets...)
	p.pending = append(p.pending, block)
	p.stats.PendingBytes += block.bytes
	return nil
}

func done(tickets []wait.Ticket) bool {
	for _, t := range tickets {
		if !t.Done() {
			return false
		}
	}
	return true
}

// cacheDone caches the returned blocks whose work is known to be done. p.mu is held.
func (p *Pinned) cacheDone() {
	left := p.pending[:0]
	for _, block := range p.pending {
		if done(block.after) {
			p.cache(block)
		} else {
			left = append(left, block)
		}
	}
	clear(p.pending[len(left):])
	p.pending = left
}

// cache caches a block of p.pending, which the caller takes off that list. p.mu is held.
func (p *Pinned) cache(block *pinnedBlock) {
	clear(block.after)
	block.after = block.after[:0]
	p.stats.PendingBytes -= block.bytes
	p.stats.CachedBytes += block.bytes
	p.free[block.class] = append(p.free[block.class], block)
}

// poll asks the driver about the work of returned blocks, as far as nothing else tells, and caches
// the blocks whose work is done.
func (p *Pinned) poll() {
	p.mu.Lock()
	var tickets []wait.Ticket
	if !p.lost && !p.closed {
		for _, block := range p.pending {
			tickets = append(tickets, block.after...)
		}
	}
	p.mu.Unlock()
	for _, t := range tickets {
		t.Poll()
	}
	p.mu.Lock()
	p.cacheDone()
	p.mu.Unlock()
}
