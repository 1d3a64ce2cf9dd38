// Package gpu is what a kernel written in Go uses: the indices of a thread, shared memory, barriers,
// warp functions, atomics, and the mathematics that a GPU has instructions for. It needs the standard
// library only, and builds everywhere.
//
// A kernel is an ordinary function. Its first parameter is a [Thread]; it has no results:
//
//	//purecuda:kernel
//	func Saxpy(t *gpu.Thread, a float32, x, y []float32) {
//		for i := t.GlobalX(); i < len(x); i += t.GlobalDimX() {
//			y[i] = gpu.FMA32(a, x[i], y[i])
//		}
//	}
//
// The command gpuc, of the module github.com/purecuda/purecuda/gpuc, compiles it to PTX and writes typed
// launches. [Run] runs such a function on the CPU, over all cores, as the fallback and as the reference
// of a test:
//
//	err := gpu.Run(gpu.Shape1D(len(in), 256), func(t *gpu.Thread) { Blur(t, in, out) })
//
// # What Run finds
//
// A panic in a kernel becomes an error that names the block, the thread and the line. A barrier that some
// threads of a block wait at while others have returned becomes an error too; so does a warp function that
// not all lanes call. Shared memory begins with all bits set, because a GPU does not zero it. In a build with
// -race every thread is a goroutine, so the race detector sees what no barrier separates.
//
// # What differs on a GPU
//
// The functions with Fast in their names are approximate, and differ in the last bits. Atomics are
// relaxed, which means that they order no other memory access, unless they name an [Order]. All else gives the same bits, except what NaN they give.
// docs/go-kernels.md has the whole language.
package gpu
