// Package cufft transforms with NVIDIA's cuFFT, without cgo. It loads it while the program runs.
//
//	lib, err := cufft.Open()
//	if err != nil {
//		return err // of driver.ErrLibraryUnavailable: it names every place, and what to install
//	}
//	h, err := cufft.New(lib, s, cufft.Options{})
//	if err != nil {
//		return err
//	}
//	defer h.Close()
//	shape := cufft.Shape{N: []int{n}, Batch: batch}
//	if err := cufft.R2C(h, shape, signal, spectrum); err != nil { // of n/2+1 numbers each
//		return err
//	}
//	shape.Scale = true
//	return cufft.C2R(h, shape, spectrum, signal) // the same signal again
//
// # Transforms
//
// The functions have the names of cuFFT: [C2C], [R2C] and [C2R] for float32, and [Z2Z], [D2Z] and [Z2D] for float64. A [Shape] says
// how many dimensions there are, how many transforms at once, and where the numbers lie. Numbers lie by rows, as in Go.
//
// cuFFT does not scale: an inverse transform after a forward one gives n times what was there, where n is the product of the
// lengths. With Shape.Scale the results are divided by n, by a kernel of this package behind the transform.
//
// # Plans
//
// A [Handle] belongs to a stream. It makes a plan for each shape and keeps it, up to Options.Plans. The first plan of a process takes
// seconds with cuFFT 12, and each further one milliseconds: [Handle.Prepare] makes it ahead of time. A plan has its work
// area from the memory of the context, so that cuFFT allocates nothing in a call.
//
// # Order
//
// Calls put work on the stream and return, ordered with Refs as a launch is: what they use may be closed behind them. They can be
// recorded by Stream.Capture, once there is a plan.
//
// # Errors
//
// Errors are [*driver.Error] values. Their kinds are driver.ErrInvalidArgument for shapes, driver.ErrLibraryUnavailable for no cuFFT,
// driver.ErrUnsupported for what this cuFFT does not do, and driver.ErrSymbolMissing for one that is too old. Behind one that
// cuFFT itself returned is its [Status].
//
// # Tests
//
// [API] is cuFFT, call by call: [*Library] is the real one, and package cuffttest has a simulated one.
package cufft

//go:generate go run -C ../.. ./driver/internal/gen libs/cufft
