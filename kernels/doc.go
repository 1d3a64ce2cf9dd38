// Package kernels is the kernel catalogue: [Load] loads one into a context, and its Launch runs it.
//
//	saxpy, err := kernels.Load[kernels.Saxpy](backend.Context)
//	if err != nil {
//		return err
//	}
//	defer saxpy.Close()
//	if err := saxpy.Launch(backend.Stream, 2, x, y); err != nil {
//		return err
//	}
//	return backend.Stream.Synchronize(ctx)
//
// Without a device it is kernels.SaxpyCPU(2, x, y): each kernel has a function for the CPU. A [Reducer] runs sum, histogram256
// and gram over all devices, or over all cores if there are none. The results have the same bits.
//
// The kernels are Go functions, in internal/source and internal/gemm. gpuc compiles them to the PTX that is embedded here, for devices from
// compute capability 7.5 on, and Gemm for those from 8.0 on. vector_add and saxpy are also what runs on the CPU.
//
// The catalogue:
//
//	vector_add     c[i] = a[i] + b[i]                        float32
//	saxpy          y[i] = a*x[i] + y[i], rounded once        float32
//	sum            one partial sum a block                   float32 in, float64 out
//	gram           X'WX of every strip of rows               float64
//	Gemm           C = A * transposed B on tensor cores      Float16, BFloat16, sums in float32
//	histogram256   how often each byte value occurs          uint64 counters
//	sha256_chunks  SHA-256 of every chunk, one thread each
//	sha256_rounds  SHA-256 of every digest, over and over, one thread each
//
// [Scan], [Reduce], [ReduceByKey], [RunLengths], [SegmentedReduce], [Select], [Partition], [Unique], [Histogram], [TopK], [Search], [Sort],
// [SortPairs], [StableSort] and [SegmentedSort] work on the types and operations of a program. A line in its package makes gpuc
// compile them, and write LoadScanPointMinMax:
//
//	//purecuda:instantiate kernels.Scan[Point, MinMax]
//
// A type of another package may change its fields: then the program does not build, or its Load fails, until gpuc has run again. Methods that
// change there are not seen by the program. In CI gpuc -check sees them.
//
// So do [GemmWith], [GemmTo], [Attention] and [Decode], and [LayerNorm], [RMSNorm] and [Softmax] by rows. [SortAll], [SortPairsAll],
// [StableSortAll], [ScanAll] and [ExclusiveScanAll] work over several devices, and the result does not depend on how many there are.
//
// On the CPU they are [ScanCPU] and its brothers, or what package slices has: each says which. A scan and a sum of floats have an
// order that depends on the length alone. It is not that of the CPU, so the last bits can differ.
//
// A result never depends on timing. Only integer counters are updated atomically. The arguments and
// the launch shape fix the order in which sum and gram add. A kernel of the catalogue and its function for the CPU
// give the same bits, except for the payload of a NaN. Gemm differs in the last bits, as [gpu.MMA] does.
package kernels
