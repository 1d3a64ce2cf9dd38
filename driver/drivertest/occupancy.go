package drivertest

import "github.com/purecuda/purecuda/driver"

// resident is how many blocks of the kernel a multiprocessor holds at once: as
// many as its threads, registers, shared memory and block slots allow.
func (f *function) resident(threads int, dynamicShared uint64) int {
	c := &f.module.ctx.dev.config
	if threads < 1 || threads > f.entry.maxThreads {
		return 0
	}
	shared := uint64(f.entry.staticBytes) + dynamicShared
	if shared > uint64(c.model.sharedPerBlockOptin) {
		return 0
	}
	rounded := wholeWarps(threads)
	return min(c.model.blocksPerSM, c.model.threadsPerSM/rounded, maxRegisters/(roundedRegisters(f.entry.registers)*rounded),
		int(uint64(c.model.sharedPerSM)/(shared+reservedShared)))
}

// OccupancyMaxActiveBlocksPerMultiprocessor implements [driver.API]. A
// kernel counts as using the registers that the interpreter needs.
func (d *simulated) OccupancyMaxActiveBlocksPerMultiprocessor(function driver.Function, blockSize int32, sharedBytes uint64) (int32, driver.Result) {
	return d.occupancy("cuOccupancyMaxActiveBlocksPerMultiprocessor", function, blockSize, sharedBytes, 0)
}

func (d *simulated) OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(function driver.Function, blockSize int32, sharedBytes uint64, flags uint32) (int32, driver.Result) {
	return d.occupancy("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", function, blockSize, sharedBytes, flags)
}

// launchableHere finds a function or a kernel in the current context.
func (c call) launchableHere(h driver.Function) (*function, driver.Result) {
	return c.launchable(h, c.ctx)
}

func (d *simulated) occupancy(op string, h driver.Function, blockSize int32, sharedBytes uint64, flags uint32) (int32, driver.Result) {
	return getOf(d, call.launchableHere, op, h, func(_ call, f *function) (int32, driver.Result) {
		const disableCaching = 1
		if blockSize < 1 || flags&^disableCaching != 0 {
			return 0, driver.ResultInvalidValue
		}
		return int32(f.resident(int(blockSize), sharedBytes)), driver.Success
	})
}

func (d *simulated) OccupancyMaxPotentialBlockSize(h driver.Function, sharedBytes uint64, limit int32) (minGrid, blockSize int32, r driver.Result) {
	_, f, r := enterOn(d, call.launchableHere, "cuOccupancyMaxPotentialBlockSize", h)
	if r != driver.Success {
		return 0, 0, r
	}
	defer d.mu.Unlock()
	if limit < 0 {
		return 0, 0, driver.ResultInvalidValue
	}
	largest := f.entry.maxThreads
	if limit > 0 {
		largest = min(largest, int(limit))
	}
	best := 0
	for threads := largest; threads > 0; threads -= warpSize {
		blocks := f.resident(threads, sharedBytes)
		if blocks*threads > best {
			best = blocks * threads
			minGrid, blockSize = int32(blocks*f.module.ctx.dev.config.SMs), int32(threads)
		}
		threads = wholeWarps(threads) // then go on in whole warps
	}
	if best == 0 {
		return 0, 0, driver.ResultInvalidValue
	}
	return minGrid, blockSize, driver.Success
}

func (d *simulated) OccupancyAvailableDynamicSMemPerBlock(h driver.Function, blocks, blockSize int32) (uint64, driver.Result) {
	return getOf(d, call.launchableHere, "cuOccupancyAvailableDynamicSMemPerBlock", h, func(_ call, f *function) (uint64, driver.Result) {
		if blocks < 1 || blockSize < 1 || int(blocks) > f.resident(int(blockSize), 0) {
			return 0, driver.ResultInvalidValue
		}
		c := &f.module.ctx.dev.config
		share := c.model.sharedPerSM/int(blocks) - reservedShared - f.entry.staticBytes
		return uint64(max(min(share, int(f.settings.dynamicShared)), 0)), driver.Success
	})
}
