// Package kernels is the kernel catalogue. Its kernels are Go functions, in internal/source. gpuc compiles them to the PTX
// that is embedded here, for devices from compute capability 7.5 on. Each has a function for the CPU beside it, whose name
// ends in CPU: for vector_add and saxpy that is the kernel itself.
//
// The catalogue:
//
//	vector_add     c[i] = a[i] + b[i]                        float32
//	saxpy          y[i] = a*x[i] + y[i], rounded once        float32
//	sum            one partial sum a block                   float32 in, float64 out
//	gram           X'WX of every strip of rows               float64
//	histogram256   how often each byte value occurs          uint64 counters
//	sha256_chunks  SHA-256 of every chunk, one thread each
//
// Parameters, in order. A slice is two: its address in device memory, and its length of 64 bits. A Quad is 16 bytes:
//
//	vector_add    (a, b, c []float32)
//	saxpy         (a float32, x, y []float32)
//	sum           (x []float32, partials []float64)
//	gram          (x, weights []float64, k uint32, strips uint32, partials []float64)
//	histogram256  (data []byte, counts []uint64)
//	sha256_chunks (data []Quad, chunks []Chunk, rounds uint32, digests []Quad)
//
// Every kernel is correct for any grid of one dimension, a grid smaller than the data
// included, but gram, which takes one that its strips and columns give. sum, gram and
// sha256_chunks have a block size to keep to, the others take any. Nothing is written behind
// n. A result never depends on timing: integer counters are the only thing that is updated
// atomically, and sum and gram add in an order that their arguments and launch shape fix.
//
// A reference and its kernel agree bit for bit, but for the payload of a NaN. On a device:
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
// and without one: kernels.SaxpyCPU(2, x, y).
//
// A [Reducer] runs sum, histogram256 and gram over all devices, or over all cores where there
// are none, with the same bits as result.
package kernels
