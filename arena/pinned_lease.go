package arena

import (
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// Lease is the right to use a block of a [Pinned] until Return. It is a small value: copies
// are the same lease. The zero Lease is one that has ended.
type Lease struct {
	pool    *Pinned
	block   *pinnedBlock
	version uint64
}

// version counts the leases and returns of a block.
type version struct{ n atomic.Uint64 }

func (t *version) next() uint64 { return t.n.Add(1) }

// valid reports that the lease has not ended.
func (l Lease) valid() bool { return l.block != nil && l.block.version.n.Load() == l.version }

// Bytes is the memory, as long as was asked for, and nil after Free. It must not be used
// after Free, nor while a copy of a device from or to it is under way. It allocates nothing.
func (l Lease) Bytes() []byte {
	if !l.valid() {
		return nil
	}
	return unsafe.Slice((*byte)(l.block.ptr), l.block.requested)
}

// Pointer is the address of the memory for calls of the driver, and nil after Free.
func (l Lease) Pointer() unsafe.Pointer {
	if !l.valid() {
		return nil
	}
	return l.block.ptr
}

// Free ends the lease. The pool leases the block to others at once: no copy of a
// device may be under way. After [Pinned.Close] the block is freed in the driver, which
// may take long; otherwise no call is made and nothing allocated. A second return is
// an error of kind ErrClosed, also when the block is leased again.
func (l Lease) Free() error {
	if l.block == nil {
		return nothing("lease of page-locked memory")
	}
	p := l.pool
	p.mu.Lock()
	if err := p.endLease(l); err != nil {
		p.mu.Unlock()
		return err
	}
	p.stats.Returns++
	if p.debug {
		p.mu.Unlock()
		l.block.poison()
		p.mu.Lock()
	}
	if !p.closed && !p.lost {
		p.free[l.block.class] = append(p.free[l.block.class], l.block)
		p.stats.CachedBytes += l.block.bytes
		p.mu.Unlock()
		return nil
	}
	p.remove(l.block)
	p.mu.Unlock()
	p.destroy([]*pinnedBlock{l.block})
	return nil
}

// abandon ends a lease of memory that a device may still use: nobody gets it any more. A
// leak is better than a write into memory of somebody else.
func (l Lease) abandon() error {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.endLease(l); err != nil {
		return err
	}
	p.remove(l.block)
	p.stats.LostBytes += l.block.bytes
	return nil
}

// endLease ends a lease. p.mu is held.
func (p *Pinned) endLease(l Lease) error {
	if !l.valid() {
		return p.errorf(driver.ErrClosed, "page-locked block of %d bytes returned twice%s", l.block.bytes,
			l.block.returned.text(", first at "))
	}
	l.block.version.next()
	if p.debug {
		l.block.previous.copyFrom(&l.block.leased)
		l.block.returned.record()
	}
	p.stats.Leases--
	p.stats.LeasedBytes -= l.block.bytes
	p.stats.AskedBytes -= l.block.requested
	return nil
}
