// Package pool does work on all GPUs of a machine, or on its CPU cores if there are none.
//
// Open a [Pool] once for the life of a service, and call it from any goroutine:
//
//	var kernels = pool.PerDevice(Load) // Load is what gpuc has written: func(*runtime.Context) (*Kernels, error)
//
//	p, err := pool.Open(rt, pool.Options{Setup: []pool.Setup{kernels}})
//	if err != nil {
//		return err
//	}
//	defer p.Close()
//	report, err := p.Do(ctx, func(w *pool.Worker) error {
//		return kernels.Of(w).Sobel(w.Stream(), shape, in, out)
//	}, pool.DoOptions{Fallback: sobelOnCPU, Retry: 1})
//
// These are the calls:
//
//   - [Pool.Do] runs a function once, for one request among many, on a stream of the device that will be
//     free first.
//
//   - [Pool.Scatter] cuts n items into a tile for each device, and calls a function with a [Worker] for
//     each tile.
//
//   - [Map] does the same for the elements of a slice. Its output is in the order of the input, and
//     changes only on success.
//
//   - [Reduce] makes one result of many items, the same bit for bit on any number of devices.
//
//   - [Stream] does the pieces of a source that need not fit in memory. Its results are in the order of the source, and it goes as
//     fast as the caller takes them.
//
//   - A [Batcher] makes one call of a device out of the small requests of many goroutines.
//
//   - [Parallel] is a parallel loop over the cores. Fallbacks run in the same way.
//
// Each call takes a structure of options, or none, whose zero value is right for most. The [Report] of each says what
// ran where, how long it took, and why not on a GPU.
//
// # Tiles and pieces
//
// Tiles are in proportion to the scores of the devices. A device does its tile in pieces that get smaller. A device that has finished takes
// pieces from the end of the tile with the most estimated time left. So a device that is ten times
// slower than expected costs a few percent. Chunk sets the size of the pieces, and a memory
// budget limits it. A function is called some dozens of times for each device. A large chunk gives it
// whole tiles.
//
// # All or nothing
//
// A call succeeds if every item was done once. After an error, a panic or a lost device, another device
// repeats the piece if Retry allows that. Otherwise the call fails. [Worker.CallContext] tells the other
// devices to stop, and the [*Error] names every tile that is not done, with its device, its range and
// its cause. With a fallback the CPU then does all items.
//
// After a sticky error, which ends CUDA for the process ([driver.ErrDeviceLost]), only fallbacks run, or none under
// runtime.PolicyRequired. [DoOptions] says how many run at once, and what the log hears of them. A
// device that fails alone is quarantined for a while, until a probe of the pool succeeds. Options.Health also
// leaves out devices with errors for which they need a reset.
//
// # Concurrency and cost
//
// Calls may be made at the same time. Each device has several streams, and runs a request of
// [Pool.Do] on each. It runs the calls that use all devices one after the other. Requests that do not run wait in
// one queue. Streams, and the values of each [State], stay between calls.
//
// The first work on a device opens its context, which takes 125 ms and more. A service calls [Pool.Prepare] at its start, which
// opens all at once. A call of Do allocates little. A call of the
// other functions allocates a few kilobytes. docs/serving.md has the details.
package pool
