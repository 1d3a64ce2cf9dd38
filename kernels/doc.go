// Package kernels is the kernel catalogue. A kernel has three faces that agree:
//
//   - CUDA C++ in cuda/, which a run-time compiler can build for the device at hand;
//   - PTX images in ptx/, embedded in the program and built from the same text by clang alone
//     (scripts/build-ptx), for devices without a run-time compiler;
//   - a Go reference, the function whose name ends in CPU.
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
// Parameters, in order. Pointers are device memory, and n counts elements (bytes for
// histogram256, chunks for sha256_chunks, rows for gram):
//
//	vector_add    (a, b *float32, c *float32, n uint64)
//	saxpy         (a float32, x *float32, y *float32, n uint64)
//	sum           (x *float32, n uint64, partials *float64)
//	gram          (x, weights *float64, n uint64, k uint32, strips uint32, partials *float64)
//	histogram256  (data *byte, n uint64, counts *uint64)
//	sha256_chunks (data *byte, chunks *Chunk, n uint32, rounds uint32, digests *Digest)
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
