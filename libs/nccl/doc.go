// Package nccl moves data between GPUs with NVIDIA's NCCL, without cgo. It loads NCCL while the program runs.
//
//	lib, err := nccl.Open()
//	if errors.Is(err, driver.ErrLibraryUnavailable) {
//		return addOnTheHost() // the error names every place, and what to install
//	}
//	if err != nil {
//		return err
//	}
//	c, err := nccl.All(lib, streams, nccl.Options{}) // a stream of each device
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	err = c.Do(ctx, nccl.AllReduce(nccl.Sum, gradients, gradients)) // a Ref of each device
//
// # Communicators
//
// The ranks of a communicator are devices, in one process ([All]) or in several, on several hosts ([Join]). A [Comm] is the part
// that this process has: one rank or more, each with a stream. An operation has a Ref for each rank of this process, in the order of
// the streams. All processes put the same operations on a communicator, in the same order.
//
// # Order
//
// [Comm.Do] puts operations on the streams and returns, ordered with Refs as a launch is. Several operations of one Do run together:
// so a rank can send and receive at the same time. Stream.Capture records them if the communicator has one rank in the process.
//
// # Lost ranks
//
// An operation waits on the device until all ranks have come. Every 100 ms a communicator asks NCCL whether a rank was lost,
// and then aborts: the work ends, its results are worthless, and all calls return why. NCCL does not notice each loss. So wait with
// [Comm.Wait], which aborts when its context ends. A Reset of a context waits for the work there: call [Comm.Abort] before.
//
// # Errors
//
// Errors are [*driver.Error] values. Their kinds are driver.ErrInvalidArgument for wrong use, driver.ErrLibraryUnavailable for no NCCL,
// driver.ErrSymbolMissing for one that is too old, driver.ErrClosed after Close, and driver.ErrDriverCallFailed for a fault. Behind one
// that NCCL itself returned is its [Status].
//
// # Tuning
//
// NCCL reads its own variables: NCCL_DEBUG=INFO says what it does, NCCL_ALGO and NCCL_NVLS_ENABLE choose how, NCCL_SOCKET_IFNAME
// names the network. This package sets none.
//
// # Tests
//
// [API] is NCCL, call by call: [*Library] is the real one, and package nccltest has a simulated one.
package nccl

//go:generate go run -C ../.. ./driver/internal/gen libs/nccl
