package arena

import (
	"errors"
	"math"
	goruntime "runtime"
	"sync"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/gate"
	"github.com/purecuda/purecuda/internal/locks"
	"github.com/purecuda/purecuda/internal/wait"
)

// DefaultCacheBytes is what a device caches where DeviceConfig says nothing.
const DefaultCacheBytes = 256 << 20

// NoCache as DeviceConfig.CacheBytes frees every block in the driver at once: it is a
// limit of one byte, and no block is that small.
const NoCache = 1

// DeviceConfig is what can be chosen about the memory of a device. The zero value is
// what most programs want.
type DeviceConfig struct {
	// CacheBytes is how much free memory is kept for later allocations at most; 0 is
	// DefaultCacheBytes, and NoCache is none. Beyond it the memory that was free for
	// longest is freed in the driver. Parts of blocks that are partly in use stay, even beyond it.
	CacheBytes uint64
	// Limit is how much memory may be in use and cached together at most; 0 is no limit.
	Limit uint64
	// Most is the memory of the device: the driver is not asked for a block that is larger, and the cache stays as it is.
	// 0 is no limit. Package runtime sets it.
	Most uint64
	// NoPools takes memory with cuMemAlloc also where the device has pools. It is a
	// hundred times slower and waits for the device; for comparisons, and for drivers
	// whose pools are broken.
	NoPools bool
	// Exact passes every allocation through to the driver, as large as asked, and gives it
	// back when it is freed; CacheBytes is not used. It is for drivers that check accesses:
	// those after the end of a block, or to one that was freed, are found then.
	Exact bool
	// Zero fills every block with zeros when it is allocated, as work on the stream.
	Zero bool
	// Poison fills every block with the byte 0xDB when it is freed, as work on the
	// stream, so that a program that uses freed memory computes what is obviously wrong.
	Poison bool
	// Sites records where blocks are allocated and freed, for the reports of leaks and
	// of stale blocks. It costs a microsecond each time, and Go memory.
	Sites bool
	// Waits is what waits for the device. Package runtime sets it; else the arena has its own.
	Waits *wait.Device
}

// Device is the memory of one device: blocks that are allocated and freed in the order
// of streams, and reused without the driver. It is safe for concurrent use.
//
// Its streams are made by [Device.NewStream].
type Device struct {
	binding *driver.Binding
	config  DeviceConfig
	waits   *wait.Device
	pool    driver.MemPool // 0: cuMemAlloc
	plain   bool           // neither Exact, Zero, Poison nor Sites
	slots   sync.Pool      // of *uint32: one number for every processor
	slot    atomic.Uint32
	events  events

	// clock orders frees and the marks that are set on streams. An event that is recorded after the
	// clock has moved on covers all blocks that were freed on the stream before.
	clock atomic.Uint64
	// capturing counts streams that capture.
	capturing atomic.Int32
	// standIns counts the streams that stand for the work before blocks of FreeAfter.
	standIns atomic.Int32
	// loss is why CUDA is lost.
	loss atomic.Pointer[driver.Error]

	// calls has those inside that call the driver, and Close suspends it. Exported methods enter it, once, and
	// hold no lock then. A call about two devices goes through enterAll.
	calls   gate.Gate
	closing gate.Turn // of Close
	// full is held by the one goroutine that empties the cache because memory is short, or frees ranges that are parked.
	full locks.Mutex[locks.Full]

	// mu guards what follows. The fast path does not take it, and the driver is not
	// called under it. The locks of stripes are taken after it.
	mu            locks.Mutex[locks.Device]
	closed        bool
	streams       []*Stream // in the order they were made, the closed ones that have blocks as well
	home          *Stream   // free blocks of closed streams whose work is done
	ids           uint64
	blocks        map[*block]struct{} // all memory of the driver, but for ranges
	ranges        map[*Range]struct{} // in use
	parked        []parked            // ranges that were freed; full is held to take them out
	access        []driver.MemAccess  // of ranges; replaced when it changes
	room          int64               // what no stripe has of the bytes that may be cached
	retired       sums                // of streams that are gone
	totals        totals
	leakedAtClose []Leak // in use when the device was closed
	// unproven is why the end of the work of a stream that was closed is not known, or nil.
	// Blocks that are in use may be used by that work for ever.
	unproven error
	// pollFrom is where pollClosed goes on, and carveFrom where carve does.
	pollFrom, carveFrom int
}

// totals are counted where the driver is called anyway.
type totals struct {
	held, heldMost, reserved  uint64 // bytes
	misses, shared, failures  uint64
	allocs, frees             uint64 // of the driver
	evicted, lostBlocks, lost uint64
	reclaims                  uint64
}

// NewDevice makes the arena of a device. The memory comes from a pool of its own where
// device and driver have them (CUDA 11.2), else from cuMemAlloc. The binding's context must
// outlive it.
func NewDevice(b *driver.Binding, c DeviceConfig) (*Device, error) {
	if noDriver(b) {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "an arena needs a driver")
	}
	if b.Ordinal < 0 || b.Ordinal > math.MaxInt32 {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "an arena of device %d: want 0 to %d", b.Ordinal, math.MaxInt32)
	}
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	c.CacheBytes = min(c.CacheBytes, maxBytes)
	if c.Exact {
		c.CacheBytes = NoCache
	}
	d := &Device{
		binding: b, config: c, waits: waits(b, c.Waits),
		plain:  !c.Exact && !c.Zero && !c.Poison && !c.Sites,
		blocks: map[*block]struct{}{},
		ranges: map[*Range]struct{}{},
		room:   int64(c.CacheBytes),
	}
	d.access = []driver.MemAccess{{Location: d.location(), Flags: driver.MemAccessReadWrite}}
	d.clock.Store(1)
	d.slots.New = func() any { n := d.slot.Add(1) - 1; return &n }
	d.home = d.newStream(0)
	d.home.state.Store(int32(streamClosed))
	d.home.done.Store(never)
	if err := d.openPool(); err != nil {
		return nil, err
	}
	return d, nil
}

// NewStream tells the arena of a stream of the device's context; handle must stay valid
// until the Stream is closed. What it returns is the stream's identity: a driver uses the
// handles of streams again. It does not block.
// A Device that was never made returns nil.
func (d *Device) NewStream(handle driver.Stream) *Stream {
	if d.made() != nil {
		return nil
	}
	d.calls.EnterWaiting()
	d.pollClosed()
	d.calls.Leave()
	s := d.newStream(handle)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids++
	s.id = d.ids
	switch {
	case d.closed:
		s.state.Store(int32(streamClosed))
	case d.loss.Load() != nil:
		s.state.Store(int32(streamLost))
	}
	if s.current() == streamOpen {
		d.streams = append(d.streams, s)
	}
	return s
}

func (d *Device) newStream(handle driver.Stream) *Stream {
	return &Stream{dev: d, handle: handle, first: new(stripe), seen: map[*Stream]uint64{}}
}

// stripes is how many stripes a stream has when goroutines meet on it: enough for every
// processor to find one of its own soon.
func stripes() int { return 2 * goruntime.GOMAXPROCS(0) }

// Lose tells the arena that CUDA is lost: from now on it does not call the driver.
// All memory counts as lost, Free succeeds, and everything else fails with the first cause, which may be nil.
// It does not block, and may be called twice. An arena that meets a sticky error does so itself.
func (d *Device) Lose(cause error) {
	if d.made() != nil {
		return
	}
	err := d.errorf(driver.ErrDeviceLost, "the memory of the device is lost")
	err.Err, err.Sticky = cause, true
	var first *driver.Error
	if errors.As(cause, &first); first != nil {
		err.Sticky = first.Sticky
	}
	d.lose(err)
}

// lose gives all memory up, unless that has happened.
func (d *Device) lose(cause *driver.Error) {
	if !d.loss.CompareAndSwap(nil, cause) {
		return
	}
	d.waits.Lose(cause)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.all() {
		s.lockAll()
		if s.current() != streamClosed {
			s.state.Store(int32(streamLost))
		}
		for _, t := range s.stripes() {
			for b := t.all.oldest; b != nil; b = t.all.oldest {
				t.remove(b)
				t.room += int64(b.size)
				d.drop(b)
				d.loseBlock(b)
			}
		}
		s.unlockAll()
	}
	for _, p := range d.parked {
		d.retired.cached -= int64(p.r.mapped + p.r.stuck)
		d.endRange(p.r.mapped+p.r.stuck, p.r.pieces, false)
	}
	d.parked = nil
}

// all are the streams with blocks. d.mu is held.
func (d *Device) all() []*Stream { return append([]*Stream{d.home}, d.streams...) }

// drop takes a block off the account of what is held. d.mu is held.
func (d *Device) drop(b *block) {
	delete(d.blocks, b)
	d.totals.held -= b.size
}

// loseBlock counts memory that is never freed. d.mu is held.
func (d *Device) loseBlock(b *block) {
	d.totals.lost += b.size
	if g := b.segment; g != nil {
		g.lost = true
		if g.parts--; g.parts > 0 {
			return
		}
	}
	d.totals.lostBlocks++
}

// enterAll keeps devices from being closed until leaveAll. It waits while one is, and is in none then: who closes the
// other might wait for that.
func enterAll(devices ...*Device) {
	for i := 0; i < len(devices); i++ {
		if d := devices[i]; !d.calls.Enter() {
			leaveAll(devices[:i]...)
			d.calls.AwaitOpen(nil)
			i = -1
		}
	}
}

func leaveAll(devices ...*Device) {
	for _, d := range devices {
		d.calls.Leave()
	}
}

func (d *Device) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}

// errorf makes an error that no call of the driver has made.
func (d *Device) errorf(kind driver.Kind, format string, args ...any) *driver.Error {
	return bindingError(d.binding, kind, format, args...)
}

// lostAlone reports whether the device alone is lost, and with it all its work. After a sticky error
// nobody knows what runs.
func (d *Device) lostAlone() bool {
	cause := d.loss.Load()
	return cause != nil && !cause.Sticky
}

// lost is the error of calls after CUDA was lost, or nil.
func (d *Device) lost() error {
	if cause := d.loss.Load(); cause != nil {
		return cause
	}
	return nil
}
