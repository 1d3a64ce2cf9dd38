// Package kernels is the kernel catalogue. Its kernels are Go functions, in internal/source. gpuc compiles them to the PTX
// that is embedded here, for devices from compute capability 7.5 on. Each kernel has a function for the CPU, whose name
// ends in CPU. For vector_add and saxpy that is the kernel itself.
//
// The catalogue:
//
//	vector_add     c[i] = a[i] + b[i]                        float32
//	saxpy          y[i] = a*x[i] + y[i], rounded once        float32
//	sum            one partial sum a block                   float32 in, float64 out
//	gram           X'WX of every strip of rows               float64
//	histogram256   how often each byte value occurs          uint64 counters
//	sha256_chunks  SHA-256 of every chunk, one thread each
//	sha256_rounds  SHA-256 of every digest, over and over, one thread each
//
// These are the parameters, in order. A slice is two parameters: its address in device memory, and its length of 64
// bits. A Quad is 16 bytes:
//
//	vector_add    (a, b, c []float32)
//	saxpy         (a float32, x, y []float32)
//	sum           (x []float32, partials []float64)
//	gram          (x, weights []float64, k uint32, strips uint32, partials []float64)
//	histogram256  (data []byte, counts []uint64)
//	sha256_chunks (data []Quad, chunks []Chunk, rounds uint32, digests []Quad)
//	sha256_rounds (digests []Quad, rounds uint32)
//
// Every kernel but gram is correct for any grid of one dimension, also for a grid smaller than the
// data. The grid of gram depends on its strips and columns. sum, gram, sha256_chunks and
// sha256_rounds have fixed block sizes, the others take any. No kernel writes beyond n.
//
// A result never depends on timing. Only integer counters are updated atomically. The arguments and
// the launch shape fix the order in which sum and gram add. A kernel and its function for the CPU
// give the same bits, except for the payload of a NaN.
//
// On a device:
//
//	saxpy, err := kernels.LoadSaxpy(backend.Context)
//	if err != nil {
//		return err
//	}
//	defer saxpy.Close()
//	if err := saxpy.Launch(backend.Stream, 2, x, y); err != nil {
//		return err
//	}
//	return backend.Stream.Synchronize(ctx)
//
// Without one: kernels.SaxpyCPU(2, x, y).
//
// A [Reducer] runs sum, histogram256 and gram over all devices, or over all cores if there are none.
// The results have the same bits.
package kernels
