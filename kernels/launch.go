package kernels

import (
	"math"

	"github.com/purecuda/purecuda/gpu/launch"
	"github.com/purecuda/purecuda/runtime"
)

// The kernels below are loaded into one context. Launch puts the work after what is on the
// stream and returns. Arguments whose lengths do not belong together fail with driver.ErrInvalidArgument, and so does a
// result that overlaps what is read. Nothing here allocates.

// onCPU is the shape that gives each of n elements a thread of its own.
func onCPU(n int, block uint32) runtime.Shape {
	return runtime.Shape{Grid: runtime.Dim3{X: linearGrid(uint64(n), block)}, Block: runtime.Dim3{X: block}}
}

// VectorAdd is vector_add on a device.
type VectorAdd struct{ kernel }

// Launch computes c[i] = a[i] + b[i]. c may be a or b.
func (k VectorAdd) Launch(s *runtime.Stream, a, b, c *runtime.Ref[float32]) error {
	if a.Len() != c.Len() || b.Len() != c.Len() {
		return invalidArgument("vector_add: lengths %d, %d and %d differ", a.Len(), b.Len(), c.Len())
	}
	if err := launch.Apart("vector_add", operand("a", a, c), operand("b", b, c), launch.Device("c", c, true)); err != nil {
		return err
	}
	n := uint64(c.Len())
	return k.launch(s, linearGrid(n, vectorAddThreads), vectorAddThreads,
		runtime.In(a), runtime.Value(n), runtime.In(b), runtime.Value(n), runtime.InOut(c), runtime.Value(n))
}

// Saxpy is saxpy on a device.
type Saxpy struct{ kernel }

// Launch computes y[i] = a*x[i] + y[i]. x may be y.
func (k Saxpy) Launch(s *runtime.Stream, a float32, x, y *runtime.Ref[float32]) error {
	if x.Len() != y.Len() {
		return invalidArgument("saxpy: lengths %d and %d differ", x.Len(), y.Len())
	}
	if err := launch.Apart("saxpy", operand("x", x, y), launch.Device("y", y, true)); err != nil {
		return err
	}
	n := uint64(y.Len())
	return k.launch(s, linearGrid(n, saxpyThreads), saxpyThreads,
		runtime.Value(a), runtime.In(x), runtime.Value(n), runtime.InOut(y), runtime.Value(n))
}

// Sum is sum on a device.
type Sum struct{ kernel }

// Blocks is how many partial sums suit n elements on the kernel's device.
func (k Sum) Blocks(n int) int { return int(sumBlocks(uint64(n), k.multiprocessors())) }

// Launch adds x into one partial sum for each element of partials, of which Blocks says how
// many suit. AddPartials adds those.
func (k Sum) Launch(s *runtime.Stream, x *runtime.Ref[float32], partials *runtime.Ref[float64]) error {
	if partials.Len() > maxGrid {
		return invalidArgument("sum: %d partial sums, at most %d", partials.Len(), maxGrid)
	}
	return k.launch(s, uint32(partials.Len()), sumThreads,
		runtime.In(x), runtime.Value(x.Len()), runtime.InOut(partials), runtime.Value(partials.Len()))
}

// Gram is gram on a device.
type Gram struct{ kernel }

// Strips is into how many strips a matrix is best divided on the kernel's device.
func (k Gram) Strips(rows, columns int) int {
	return gramStrips(uint64(max(rows, 0)), columns, k.multiprocessors())
}

// Launch computes X'WX of every strip of x, a matrix of weights.Len() rows that stand row by
// row. partials has columns*columns elements for each strip; Strips says how many suit.
// AddGram adds those.
func (k Gram) Launch(s *runtime.Stream, x, weights *runtime.Ref[float64], columns int, partials *runtime.Ref[float64]) error {
	strips, err := gramShape("gram", x.Len(), weights.Len(), columns, partials.Len())
	if err != nil {
		return err
	}
	if err := launch.Apart("gram", launch.Device("x", x, false), launch.Device("weights", weights, false), launch.Device("partials", partials, true)); err != nil {
		return err
	}
	grid := uint64(strips) * gramTiles(columns)
	if grid > maxGrid {
		return invalidArgument("gram: %d strips of %d columns are %d blocks, at most %d", strips, columns, grid, maxGrid)
	}
	return k.launch(s, uint32(grid), gramThreads,
		runtime.In(x), runtime.Value(x.Len()), runtime.In(weights), runtime.Value(weights.Len()),
		runtime.Value(uint32(columns)), runtime.Value(uint32(strips)), runtime.InOut(partials), runtime.Value(partials.Len()))
}

// Histogram256 is histogram256 on a device.
type Histogram256 struct{ kernel }

// Launch adds to counts, which has 256 elements, how often each byte occurs in data. Zero
// the counters before the first launch.
func (k Histogram256) Launch(s *runtime.Stream, data *runtime.Ref[byte], counts *runtime.Ref[uint64]) error {
	if counts.Len() != 256 {
		return invalidArgument("histogram256: %d counters, want 256", counts.Len())
	}
	n := uint64(data.Len())
	return k.launch(s, histogram256Blocks(n, k.multiprocessors()), histogram256Threads,
		runtime.In(data), runtime.Value(n), runtime.InOut(counts), runtime.Value(counts.Len()))
}

// SHA256Chunks is sha256_chunks on a device.
type SHA256Chunks struct{ kernel }

// Launch writes the digest of each chunk of data, hashed again rounds times. data must reach
// to PaddedSize of the end of every chunk, which is not checked: the chunks are on the device.
func (k SHA256Chunks) Launch(s *runtime.Stream, data *runtime.Ref[byte], chunks *runtime.Ref[Chunk], rounds uint32, digests *runtime.Ref[Digest]) error {
	if chunks.Len() != digests.Len() {
		return invalidArgument("sha256_chunks: %d chunks but %d digests", chunks.Len(), digests.Len())
	}
	if uint64(chunks.Len()) > math.MaxUint32 {
		return invalidArgument("sha256_chunks: %d chunks in one launch, at most %d", chunks.Len(), uint32(math.MaxUint32))
	}
	n := uint64(chunks.Len())
	return k.launch(s, linearGrid(n, sha256ChunksThreads), sha256ChunksThreads,
		runtime.In(data), runtime.Value(PaddedSize(uint64(data.Len()))/ChunkAlign), runtime.In(chunks), runtime.Value(n),
		runtime.Value(rounds), runtime.InOut(digests), runtime.Value(2*n))
}

// SHA256Rounds is sha256_rounds on a device.
type SHA256Rounds struct{ kernel }

// Launch replaces each digest rounds times by the SHA-256 of itself. Other work of the device may wait for the end of a
// thread: launches of a hundred rounds let it in after a millisecond, and cost nothing.
func (k SHA256Rounds) Launch(s *runtime.Stream, digests *runtime.Ref[Digest], rounds uint32) error {
	n := uint64(digests.Len())
	return k.launch(s, linearGrid(n, sha256RoundsThreads), sha256RoundsThreads, runtime.InOut(digests), runtime.Value(2*n), runtime.Value(rounds))
}
