// Package pool does work on all GPUs of a machine, and on its cores where there are
// none.
//
// A [Pool] keeps the devices ready. [Do] runs a function once, for one request among many: on a
// stream of the device that will be free first. [Scatter] cuts n items into a tile for each device
// and calls a function for the tiles, each with the [Worker] that it has to use. [Map]
// does the same for the elements of a slice, with an output that changes only on success:
// what the tiles compute is gathered in the order of the input. [Reduce] makes one result of
// many items, the same bit for bit on any number of devices. [CPU] is a parallel loop over
// the cores, and what fallbacks run on. [Partition] is the arithmetic of the tiles.
//
//	p, err := pool.Open(rt, pool.WithDeviceSetup(loadKernels))
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
// tried on a device any more: only fallbacks run. A device that fails alone is left out for a
// while, and a probe of the pool's own tries it again.
//
// # Concurrency and cost
//
// Calls may be made at the same time. Each device has several streams ([WithStreams]) and runs a request
// of [Do] on each; of the calls that use all devices it does one after the other. What does not run waits in
// one queue. Streams and the states of [WithSetup] and [WithDeviceSetup] stay between calls. The first
// call opens the contexts, which takes 125 ms a device. A service that does not want its first user to
// wait makes a small call at the start, with WithMinPerDevice(0) so that all devices take part. A
// call of Do allocates little, one of the others a few kilobytes. docs/serving.md has the rest.
package pool
