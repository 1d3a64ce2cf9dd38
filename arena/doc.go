// Package arena manages memory for CUDA: device memory that is reused without the driver,
// page-locked host memory, and copies between Go slices and the device. It knows package
// driver and nothing above it; most programs meet it through package runtime.
//
// # Device memory
//
// A [Device] hands out blocks in the order of streams, as cuMemAllocAsync does, but from
// lists of its own: what was freed on a stream is used again on it at once, in some tens of
// nanoseconds and without a call of the driver.
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
// The rules are those of streams. A block is ready for work on the stream that it was
// allocated on, and is freed behind the work of the stream that it is freed on. If other
// streams use it in between, they must be ordered with both, which is what [Stream.Wait] is
// for: the arena does not see the work. When a stream takes over a block that was freed on
// another one, it waits for that one's work by an event, unless the work is done or was
// waited for before.
//
// Sizes are rounded up to classes, by less than an eighth above 1 KiB, and blocks are
// neither split nor joined: programs that ask for the same sizes again and again, as most
// do, find all they need after the first round. Free memory is kept up to
// DeviceConfig.CacheBytes; that bounds what is lost when sizes change.
//
// New memory comes from a pool of the driver that the Device owns, or from cuMemAlloc
// where there are no pools. That makes no difference but in speed: without pools, memory
// that goes back to the driver is waited for.
//
// When memory is short the whole cache goes back before an allocation fails. Nothing is
// given back that work may still use: memory of which that cannot be proven is lost on
// purpose, and counted ([DeviceStats].Lost).
//
// # Page-locked memory and copies
//
// [Pinned] lends page-locked host memory, and a [Copier] moves Go slices through it in both
// directions with several goroutines, faster than the driver copies pageable memory.
package arena
