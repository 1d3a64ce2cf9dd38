package arena

import (
	"errors"
	"math/bits"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
	"github.com/purecuda/purecuda/internal/zero"
)

// PinnedConfig says how a [Pinned] works. The zero value is useful.
type PinnedConfig struct {
	// Limit is how many bytes may be page-locked at a time, leased and cached, in whole
	// blocks. 0 means 128 MiB. Page-locked memory is taken away from everybody else on
	// the host.
	Limit uint64
	// Debug fills what is returned with a pattern, and looks for writes to it when it is leased
	// again or freed. driver.Binding.OnCleanup hears of them, with the lines of the program that
	// leased and returned the block. It costs as much as writing and reading all blocks.
	Debug bool
}

// DefaultPinnedLimit is the limit of a [PinnedConfig] that names none.
const DefaultPinnedLimit = 128 << 20

// Pinned is a pool of page-locked host memory, which devices copy from and to at the full
// rate of the bus while the host does other things. Page-locking is slow, 1 ms for a page
// and 115 ms for 256 MB; what is returned is kept and leased again.
//
// The memory is usable with all devices of the process, and is not part of the Go heap: the
// garbage collector neither moves nor frees it. A Pinned is safe for concurrent use.
type Pinned struct {
	binding *driver.Binding
	limit   uint64
	debug   bool

	mu      locks.Mutex[locks.Pinned]
	closed  bool
	lost    bool // CUDA is: no call of the driver any more
	free    [pinnedClasses][]*pinnedBlock
	pending []*pinnedBlock            // returned, and a device may still use them
	blocks  map[*pinnedBlock]struct{} // leased, cached and pending
	claimed uint64                    // bytes of these, and of those that are being made
	copiers map[*Copier]struct{}      // that have blocks, of which they may give some away
	stats   PinnedStats
}

// PinnedStats are the figures of a [Pinned] at one time. Bytes count whole blocks.
type PinnedStats struct {
	Leases       int    // under way
	LeasedBytes  uint64 // of these
	AskedBytes   uint64 // what was asked for in these; the rest is waste
	CachedBytes  uint64 // page-locked and free
	PendingBytes uint64 // returned, and a copy of a device may still use it
	PeakBytes    uint64 // page-locked at most
	LostBytes    uint64 // page-locked, and never to be used or freed again
	Limit        uint64
	Hits         uint64 // leases of a cached block
	Misses       uint64 // leases that had to ask the driver, or were refused
	Returns      uint64
	Freed        uint64 // blocks freed in the driver
	Findings     int    // blocks that were written to after their return, with PinnedConfig.Debug
}

// pinnedBlock is a piece of page-locked memory.
type pinnedBlock struct {
	ptr   unsafe.Pointer
	class int
	bytes uint64
	// version is odd while the block is leased. It moves on at each lease and return, so that
	// a lease which has ended never becomes valid again.
	version   version
	requested uint64        // of the lease
	leased    callSite      // of the lease
	previous  callSite      // of the lease that was returned last
	returned  callSite      // of that return
	poisoned  bool          // holds the pattern; only its owner of the moment asks
	after     []wait.Ticket // of the work that may use it after its return
}

// NewPinned makes a pool whose blocks are made and freed in the context of b. It allocates
// nothing before the first lease. Where b has no driver, every lease is an error of kind
// driver.ErrInvalidArgument.
func NewPinned(b *driver.Binding, c PinnedConfig) *Pinned {
	if noDriver(b) {
		return new(Pinned)
	}
	if c.Limit == 0 {
		c.Limit = DefaultPinnedLimit
	}
	return &Pinned{binding: b, limit: c.Limit, debug: c.Debug,
		blocks: map[*pinnedBlock]struct{}{}, copiers: map[*Copier]struct{}{}}
}

// Lease leases a block of at least the given number of bytes, aligned to a page. Its content
// is undefined. A cached block of the same size class is leased without a call of the driver and
// without an allocation; else the driver makes one, which takes long. Blocks are whole
// pages, and above 8 pages at most 1/8 larger than what is asked for. Where the limit or the
// driver does not allow one more, those who copy Go slices return the blocks that they do not use.
//
// Errors: ErrOutOfMemory where the limit or the driver does not allow it, ErrClosed,
// ErrDeviceLost after [Pinned.Lose], ErrInvalidArgument for 0 bytes.
func (p *Pinned) Lease(bytes uint64) (Lease, error) {
	if err := p.made(); err != nil {
		return Lease{}, err
	}
	l, err := p.lease(bytes)
	if isOutOfMemory(err) && p.returnUnused(bytes) {
		l, err = p.lease(bytes)
	}
	return l, err
}

// lease is Lease that takes nothing from those who copy.
func (p *Pinned) lease(bytes uint64) (Lease, error) {
	if bytes == 0 {
		return Lease{}, p.errorf(driver.ErrInvalidArgument, "a lease of 0 bytes")
	}
	class, size := pinnedClass(bytes)
	p.mu.Lock()
	if err := p.usable(); err != nil {
		p.mu.Unlock()
		return Lease{}, err
	}
	if len(p.free[class]) == 0 && len(p.pending) > 0 {
		if p.cacheDone(); len(p.free[class]) == 0 {
			p.mu.Unlock()
			p.poll()
			p.mu.Lock()
			if err := p.usable(); err != nil {
				p.mu.Unlock()
				return Lease{}, err
			}
		}
	}
	if list := p.free[class]; len(list) > 0 {
		block := list[len(list)-1]
		list[len(list)-1] = nil
		p.free[class] = list[:len(list)-1]
		p.stats.Hits++
		p.stats.CachedBytes -= block.bytes
		l := p.leaseBlock(block, bytes)
		p.mu.Unlock()
		p.checkPoison(block)
		return l, nil
	}
	p.stats.Misses++
	victims, err := p.makeRoom(bytes, size)
	p.mu.Unlock()
	if err != nil {
		return Lease{}, err
	}
	p.destroy(victims)
	return p.create(class, size, bytes)
}

// leaseBlock makes a lease of a block that the caller has taken. p.mu is held.
func (p *Pinned) leaseBlock(block *pinnedBlock, bytes uint64) Lease {
	block.requested = bytes
	if p.debug {
		block.leased.record()
	}
	p.stats.Leases++
	p.stats.LeasedBytes += block.bytes
	p.stats.AskedBytes += bytes
	return Lease{pool: p, block: block, version: block.version.next()}
}

// makeRoom claims size bytes of the limit, and takes cached blocks out for the caller to
// destroy where that is necessary. p.mu is held.
func (p *Pinned) makeRoom(bytes, size uint64) (victims []*pinnedBlock, err error) {
	if size > p.limit || p.claimed-p.stats.CachedBytes > p.limit-size {
		e := p.errorf(driver.ErrOutOfMemory, "page-locked memory: %d bytes are leased, and the limit is %d; return leases sooner, or raise PinnedConfig.Limit",
			p.claimed-p.stats.CachedBytes, p.limit)
		e.Bytes = bytes
		return nil, e
	}
	if p.claimed > p.limit-size {
		victims = p.evict(p.claimed - (p.limit - size))
	}
	p.claimed += size
	return victims, nil
}

// create leases a new block, for which room was made.
func (p *Pinned) create(class int, size, bytes uint64) (Lease, error) {
	ptr, err := p.allocate(size)
	if err != nil && err.Kind == driver.ErrOutOfMemory && p.Trim(0) > 0 {
		ptr, err = p.allocate(size)
	}
	block := &pinnedBlock{ptr: ptr, class: class, bytes: size}
	p.mu.Lock()
	if err != nil {
		p.claimed -= size
		p.mu.Unlock()
		err.Bytes = bytes
		return Lease{}, err
	}
	if closed := p.usable(); closed != nil {
		p.claimed -= size
		p.mu.Unlock()
		p.destroy([]*pinnedBlock{block})
		return Lease{}, closed
	}
	defer p.mu.Unlock()
	p.blocks[block] = struct{}{}
	l := p.leaseBlock(block, bytes)
	p.stats.PeakBytes = max(p.stats.PeakBytes, p.stats.LeasedBytes+p.stats.CachedBytes+p.stats.PendingBytes)
	return l, nil
}

func (p *Pinned) allocate(size uint64) (ptr unsafe.Pointer, failed *driver.Error) {
	err := outsideCaptures(p.binding, func() error {
		var r driver.Result
		if ptr, r = p.binding.API.MemHostAlloc(size, driver.HostAllocPortable); r != driver.Success {
			return p.binding.Fault("cuMemHostAlloc", r)
		}
		return nil
	})
	if err == nil {
		return ptr, nil
	}
	failed, ok := err.(*driver.Error)
	if !ok {
		failed = p.errorf(driver.ErrDriverCallFailed, "%w", err)
	}
	return nil, failed
}

// evict takes at least so many bytes of cached blocks out, the largest first. p.mu is held.
func (p *Pinned) evict(bytes uint64) (victims []*pinnedBlock) {
	for class := len(p.free) - 1; class >= 0 && bytes > 0; class-- {
		for list := p.free[class]; len(list) > 0 && bytes > 0; list = p.free[class] {
			block := list[len(list)-1]
			list[len(list)-1] = nil
			p.free[class] = list[:len(list)-1]
			p.remove(block)
			p.stats.CachedBytes -= block.bytes
			victims = append(victims, block)
			bytes -= min(bytes, block.bytes)
		}
	}
	return victims
}

// evictAll takes all blocks out that are not leased. p.mu is held.
func (p *Pinned) evictAll() (victims []*pinnedBlock) {
	for _, block := range p.pending {
		p.cache(block)
	}
	p.pending = nil
	return p.evict(p.stats.CachedBytes)
}

// remove takes a block off the account. p.mu is held.
func (p *Pinned) remove(block *pinnedBlock) {
	delete(p.blocks, block)
	p.claimed -= block.bytes
}

// destroy frees blocks that are on no account any more, and returns how many bytes. What the driver refuses to
// free is lost. Where it could not be asked, the blocks are cached again, unless p is closed.
func (p *Pinned) destroy(blocks []*pinnedBlock) (freed uint64) {
	if len(blocks) == 0 {
		return 0
	}
	for _, block := range blocks {
		p.checkPoison(block)
	}
	p.mu.Lock()
	lost := p.lost
	p.mu.Unlock()
	left, asked := blocks, false
	if !lost {
		p.binding.Cleanup(outsideCaptures(p.binding, func() error {
			var errs []error
			asked, left = true, nil
			for _, block := range blocks {
				if r := p.binding.API.MemFreeHost(block.ptr); r != driver.Success {
					errs = append(errs, p.binding.Fault("cuMemFreeHost", r))
					left = append(left, block)
				} else {
					freed += block.bytes
				}
			}
			return errors.Join(errs...)
		}))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !asked && !p.closed && !p.lost {
		p.recache(blocks)
		return 0
	}
	p.stats.Freed += uint64(len(blocks) - len(left))
	for _, block := range left {
		p.stats.LostBytes += block.bytes
	}
	return freed
}

// recache caches blocks again that were taken out. p.mu is held.
func (p *Pinned) recache(blocks []*pinnedBlock) {
	for _, block := range blocks {
		p.blocks[block] = struct{}{}
		p.claimed += block.bytes
		p.stats.CachedBytes += block.bytes
		p.free[block.class] = append(p.free[block.class], block)
	}
}

// Trim frees cached blocks until at most keep bytes are cached, the
// largest first, and returns how many bytes these were. It may take long.
func (p *Pinned) Trim(keep uint64) (freed uint64) {
	p = zero.Or(p)
	p.poll()
	p.mu.Lock()
	var victims []*pinnedBlock
	if cached := p.stats.CachedBytes; cached > keep {
		victims = p.evict(cached - keep)
	}
	p.mu.Unlock()
	return p.destroy(victims)
}

// Stats returns the figures of this moment.
func (p *Pinned) Stats() PinnedStats {
	p = zero.Or(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Limit = p.limit
	return s
}

// Lose says that CUDA is lost: no call of the driver is made any more. Memory that is
// leased stays where it is, cached memory is lost, and there are no new leases. Leases can be
// returned as before.
func (p *Pinned) Lose() {
	p = zero.Or(p)
	p.mu.Lock()
	p.lost = true
	victims := p.evictAll()
	p.mu.Unlock()
	p.destroy(victims)
}

// Close frees the cached blocks. Blocks that are still leased are freed when they are returned, and are
// an error: no work of a device may use them after the context is gone. The work that follows a
// [Lease.FreeAfter] must be done. A second call does nothing.
func (p *Pinned) Close() error {
	p = zero.Or(p)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	victims := p.evictAll()
	leases, bytes := p.stats.Leases, p.stats.LeasedBytes
	p.mu.Unlock()
	p.destroy(victims)
	if leases > 0 {
		return p.errorf(driver.ErrInvalidArgument, "page-locked memory closed while %d leases of %d bytes are under way",
			leases, bytes)
	}
	return nil
}

// usable returns why there are no more leases, or nil. p.mu is held.
func (p *Pinned) usable() error {
	switch {
	case p.lost:
		return p.errorf(driver.ErrDeviceLost, "page-locked memory was abandoned")
	case p.closed:
		return p.errorf(driver.ErrClosed, "page-locked memory was closed")
	}
	return nil
}

func (p *Pinned) errorf(kind driver.Kind, format string, args ...any) *driver.Error {
	return bindingError(p.binding, kind, format, args...)
}

// bindingError makes an error that no call of the driver has made.
func bindingError(b *driver.Binding, kind driver.Kind, format string, args ...any) *driver.Error {
	err := driver.Errorf(kind, format, args...)
	err.Device = b.Ordinal
	return err
}

// outsideCaptures runs f with the context current, as a thread that takes no part in captures
// of streams: page-locking memory would otherwise end a capture of another goroutine.
func outsideCaptures(b *driver.Binding, f func() error) error { return b.DoRelaxed(f) }

// backToMode restores the mode of a thread.
func backToMode(b *driver.Binding, mode driver.CaptureMode) {
	if _, r := b.API.ThreadExchangeStreamCaptureMode(mode); r.Sticky() {
		b.Cleanup(b.Fault("cuThreadExchangeStreamCaptureMode", r))
	}
}

const (
	pinnedPage    = 4 << 10
	pinnedClasses = 8 + 8*49 // enough for all that 64 bits can count
)

// pinnedClass returns the size class for so many bytes, and the bytes of its blocks: a
// number of pages up to 8, and eight steps to each doubling above.
func pinnedClass(bytes uint64) (class int, size uint64) {
	pages := (bytes-1)/pinnedPage + 1
	if pages <= 8 {
		return int(pages) - 1, pages * pinnedPage
	}
	shift := bits.Len64(pages-1) - 4
	steps := ((pages - 1) >> shift) + 1 // 9 to 16
	size = steps << shift
	if size > ^uint64(0)/pinnedPage {
		return pinnedClasses - 1, ^uint64(0)
	}
	return 8 + 8*shift + int(steps) - 9, size * pinnedPage
}
