// Package pool does work on all GPUs of a machine, and on its cores where there are
// none.
//
// A [Pool] keeps the devices ready. [Scatter] cuts n items into a tile for each device
// and calls a function for the tiles, each with the [Worker] that it has to use. [Map]
// does the same for the elements of a slice, with an output that changes only on success:
// what the tiles compute is gathered in the order of the input. [Reduce] makes one result of
// many items, the same bit for bit on any number of devices. [CPU] is a parallel loop over
// the cores, and what fallbacks run on. [Partition] is the arithmetic of the tiles.
//
//	p, err := pool.Open(rt, pool.WithSetup(loadKernels))
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	report, err := pool.Map(ctx, p, in, out, squareOnGPU,
//		pool.WithMapFallback(squareOnCPU), pool.WithRetry(1))
//
// # Tiles and pieces
//
// Tiles are in proportion to the scores of the devices, or to weights of the caller's or
// to those of earlier calls. A device takes its tile in pieces that get smaller, and one
// that has finished takes pieces from the end of the tile that is furthest behind. So a
// device that is ten times slower than expected costs a few percent. [WithChunk] sets the
// size of the pieces, and a memory budget limits it. Functions should expect some dozens
// of calls for each device, or be given whole tiles by a large chunk.
//
// # All or nothing
//
// A call succeeds when every item was done, once. An error, a panic or a lost device is
// repeated on another device if [WithRetry] allows that, and otherwise fails the call: the
// others are told to stop through [Worker.Ctx], and the [*Error] names every tile that is
// not done, with its device, its range and its cause. With a fallback the CPU then does
// all of it. The [Report] says what ran where, how long it took, and why not on a GPU.
//
// After an error that poisons CUDA for the process ([driver.ErrDeviceLost]) nothing is
// tried on a device any more: only fallbacks run.
//
// # Concurrency and cost
//
// Calls may be made at the same time. Each device serves them in the order in which they
// come, one after the other. Goroutines, streams and the state of [WithSetup] stay between
// calls; the first call opens the contexts, which takes 125 ms a device, and a service
// that does not want its first user to wait makes a small call at the start, with
// WithMinPerDevice(0) so that all devices take part. A call allocates a few kilobytes.
package pool
