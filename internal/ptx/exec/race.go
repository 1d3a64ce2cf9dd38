//go:build race

package exec

// raceDetector makes all accesses of kernels to global memory atomic. Kernels may read
// what others write, and good ones do: the loop around atomicCAS of CUDA's own guide
// begins with a plain load. The race detector, which knows Go's rules and not PTX's,
// would report them. It still reports a kernel and a copy that nothing has ordered.
const raceDetector = true
