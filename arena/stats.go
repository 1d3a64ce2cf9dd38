package arena

// DeviceStats is what the memory of a device is at one moment. The numbers are exact and
// belong together: InUse and Cached are Held, whatever other goroutines do.
type DeviceStats struct {
	InUse     uint64 // bytes of blocks in use, by the sizes of their classes, and of ranges
	Requested uint64 // bytes of them, by what was asked for
	Cached    uint64 // bytes of free blocks and ranges, also such that work still uses
	Split     uint64 // of them, bytes of parts: these go back to the driver when all parts of a block are free
	Held      uint64 // bytes from the driver: InUse and Cached
	HighWater uint64 // the most that was held at once
	// Lost are the bytes, and LostBlocks the blocks, that the arena never frees. Either the driver
	// refused them, or their last use could not be proven finished, or CUDA is lost. They are not
	// held.
	Lost       uint64
	LostBlocks uint64
	// RetiredEvents counts events that a call has failed for. They are not used again.
	RetiredEvents uint64

	Hits     uint64 // allocations from what was freed on the same stream
	Shared   uint64 // allocations from what was freed on another stream
	Misses   uint64 // allocations from the driver
	Failures uint64 // allocations that failed
	Frees    uint64 // blocks that were freed

	DriverAllocs uint64 // blocks that the driver gave
	DriverFrees  uint64 // blocks that it took back
	Evicted      uint64 // blocks that left the cache for the driver
	Reclaims     uint64 // times that the cache was emptied because memory was short

	Streams int  // that are not closed, or whose work was not done when it was last looked at
	Pooled  bool // the memory comes from a pool of the driver
}

// Stats returns what the memory is now. It stops all streams for a moment, so that the
// numbers fit together, and takes microseconds: ask now and then.
func (d *Device) Stats() DeviceStats {
	if d.made() != nil {
		return DeviceStats{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	sum, parts := d.retired, int64(0)
	all := d.all()
	for _, s := range all {
		s.lockAll()
	}
	for _, s := range all {
		for _, t := range s.stripes() {
			sum.add(&t.sums)
			parts += t.partBytes
		}
	}
	for _, s := range all {
		s.unlockAll()
	}
	return DeviceStats{
		RetiredEvents: d.events.retired,
		InUse:         uint64(sum.inUse), Requested: uint64(sum.requested), Cached: uint64(sum.cached), Split: uint64(parts),
		Held: d.totals.held, HighWater: d.totals.heldMost,
		Lost: d.totals.lost, LostBlocks: d.totals.lostBlocks,
		Hits: uint64(sum.hits), Shared: d.totals.shared, Misses: d.totals.misses,
		Failures: d.totals.failures, Frees: uint64(sum.frees),
		DriverAllocs: d.totals.allocs, DriverFrees: d.totals.frees,
		Evicted: d.totals.evicted, Reclaims: d.totals.reclaims,
		Streams: len(d.streams) - int(d.standIns.Load()), Pooled: d.pool != 0,
	}
}
