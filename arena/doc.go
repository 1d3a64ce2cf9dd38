// Package arena manages memory for CUDA: device memory that is reused without the driver,
// page-locked host memory, and copies between Go slices and the device. It knows package
// driver and nothing above it; most programs meet it through package runtime.
//
// # Device memory
//
// A [Device] allocates blocks in stream order, as cuMemAllocAsync does, but from lists of its
// own. A block that was freed on a stream can be allocated on it again at once. That takes some
// tens of nanoseconds and no call of the driver.
//
//	memory, err := arena.NewDevice(binding, arena.DeviceConfig{})
//	if err != nil {
//		return err
//	}
//	defer memory.Close()
//	stream := memory.NewStream(handle)
//	block, err := stream.Alloc(1 << 20)
//	if err != nil {
//		return err
//	}
//	launch(handle, block.Ptr())
//	return stream.Free(block) // after that work
//
// The rules are CUDA's for streams. A block is ready for work on the stream that it was
// allocated on, and is freed after the work of the stream that it is freed on. If other
// streams use it in between, order them with both by [Stream.Wait]: the arena does not see the
// work. A stream may allocate a block that was freed on another stream. It then waits for the
// work of that stream by an event, unless that work is done or it has waited before.
//
// Sizes are rounded up to classes, by less than an eighth above 1 KiB. Most programs ask for the same
// sizes again and again, and find free blocks after the first round. Where there is none of a class,
// neighbours are joined and a larger block is split. Free memory is kept up to DeviceConfig.CacheBytes.
// A part of a block goes back to the driver only with the others ([DeviceStats].Split).
//
// New memory comes from a pool of the driver that the Device owns, or from cuMemAlloc where
// there are no pools. Only the speed differs: without pools, the Device waits when it returns memory
// to the driver. A [Range] has memory of its own, which grows where it is.
//
// When memory is short, the whole cache is returned to the driver before an allocation fails. Memory
// whose last use cannot be proven finished is leaked deliberately and counted ([DeviceStats].Lost).
//
// # Page-locked memory and copies
//
// [Pinned] leases page-locked host memory, and a [Copier] moves Go slices through it in both
// directions with several goroutines, faster than the driver copies pageable memory.
package arena
