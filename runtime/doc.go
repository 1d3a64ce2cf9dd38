// Package runtime uses the GPUs of the machine it runs on, if there are any.
//
// A [Runtime] finds the driver, lists the devices, and keeps one [Context] for
// each device that is used. On a context live streams, events, typed buffers in
// device memory, page-locked host memory, modules and their kernels.
//
//	rt, err := runtime.Open()
//	if err != nil {
//		return err // CUDA is there and broken, or was required and is absent
//	}
//	defer rt.Close()
//	backend, err := rt.Probe("saxpy")
//	if errors.Is(err, driver.ErrDriverLibraryUnavailable) {
//		return saxpyOnTheCPU(a, x, y)
//	}
//
// # Three outcomes
//
// A machine is [Available], [Absent] or [Fault], and the three are never mixed
// up. Absence means that the work belongs on the CPU. A fault is hardware or a
// driver that is there and does not work. It is reported: a service that
// quietly fell back would run at CPU speed for months.
//
// # Threads
//
// All methods are safe for concurrent use and may be called on any goroutine.
// Calls that name a stream (launches, copies, events) go straight to the driver
// on the current thread. Few calls need a current context (allocating, creating).
// They lock the goroutine to its thread, push the context, and pop it again. So a
// context that other code made current is still current afterwards.
//
// # Ownership
//
// What a context creates is closed by its Close method, which may be called
// twice. An object that is not closed is freed at a later allocation once the
// garbage collector has found it, and at the latest when the context closes. Using
// a closed object is an error of kind [driver.ErrClosed].
//
// # Graphs
//
// [Stream.Capture] records what a function enqueues on a stream, and one call replays the
// graph. For many short kernels that costs a fraction of single launches.
// [GraphExec.Update] changes the arguments. What a graph uses may be closed meanwhile. It
// is freed after the graph.
//
// # Errors
//
// Errors are [*driver.Error] values; match their kind with errors.Is. After an
// error that poisons CUDA for the whole process (an illegal address in a kernel,
// say) every call returns [driver.ErrDeviceLost], which wraps that first cause.
//
// Files that need Go's own runtime package as well import it as goruntime.
package runtime
