package job

import (
	"fmt"
	"unsafe"

	"github.com/purecuda/purecuda/kernels"
)

const (
	// MemoryBudget bounds the memory of all workers' buffers and all bookkeeping of
	// batches together. Go's collector may let the heap grow to twice what is live,
	// which keeps the process well below 1 GiB.
	MemoryBudget = 384 << 20
	// MaxChunkBytes is the largest chunk: with it, one worker still fits the budget.
	MaxChunkBytes = 256 << 20

	// minBatch is the size below which a batch is not worth another worker.
	minBatch = 256 << 10
	// bytesPerChunk sets the limit on chunks of a batch: one for this many bytes.
	// Smaller chunks fill a batch only in part, which bounds the bookkeeping.
	bytesPerChunk = 512
	// minBatchChunks lets small batches hold a useful number of small files.
	minBatchChunks = 1024
)

// layout is how a job's work is spread over memory: workers, each with a buffer of
// one batch, and a number of batches in flight.
type layout struct {
	workers int
	slots   int // batches in flight: being hashed, or waiting for their turn
	shape   Shape
}

// bytes is the most memory that the layout takes.
func (l layout) bytes() int64 {
	return int64(l.workers)*int64(l.shape.Bytes) + int64(l.slots)*int64(l.shape.Chunks)*bookkeeping
}

// bookkeeping is what a batch keeps for one chunk: descriptor, digest and, at
// worst, a span of its own.
const bookkeeping = int64(unsafe.Sizeof(Chunk{}) + unsafe.Sizeof(Digest{}) + unsafe.Sizeof(span{}))

// slotsFor lets every worker be one batch ahead of the slowest.
func slotsFor(workers int) int { return 2 * workers }

func shapeFor(batch int) Shape {
	return Shape{Bytes: batch, Chunks: max(batch/bytesPerChunk, minBatchChunks)}
}

// layout chooses the layout of a job over the input: the engine's wishes, made smaller when the
// input is small or the budget asks for it.
func (in *Input) layout(chunkBytes, workers, batchBytes int) layout {
	// What the input takes in buffers, each chunk padded, and its largest chunk.
	var total int64
	var largest int
	for _, f := range in.Files {
		total = min(total+padded(f.Size, chunkBytes), plenty)
		largest = max(largest, int(min(f.Size, int64(chunkBytes))))
	}
	largest = align(largest)

	// Smaller batches, before fewer workers: an input that is smaller than the
	// engine's buffers is spread over all workers.
	share := (total + int64(workers) - 1) / int64(workers)
	batch := align(int(min(int64(batchBytes), max(share, minBatch))))
	batch = max(batch, largest)
	fit := func(workers, batch int) layout {
		return layout{workers: workers, slots: slotsFor(workers), shape: shapeFor(batch)}
	}
	for least := max(largest, minBatch); batch > least && fit(workers, batch).bytes() > MemoryBudget; {
		batch = max(align(batch/2), least)
	}
	workers = int(min(int64(workers), max(1, (total+int64(batch)-1)/int64(batch))))
	for workers > 1 && fit(workers, batch).bytes() > MemoryBudget {
		workers--
	}
	return fit(workers, batch)
}

// plenty is more than any layout depends on; sums stop there instead of overflowing.
const plenty = 1 << 50

// padded is the buffer space that a file of the given size takes.
func padded(size int64, chunkBytes int) int64 {
	if size > plenty {
		return plenty
	}
	full, rest := size/int64(chunkBytes), size%int64(chunkBytes)
	return full*int64(align(chunkBytes)) + int64(align(int(rest)))
}

// align rounds up to a multiple of kernels.ChunkAlign.
func align(n int) int { return int(kernels.PaddedSize(uint64(n))) }

// CheckChunkBytes says whether n can be the size of a chunk.
func CheckChunkBytes(n int64) error {
	if n < 1 || n > MaxChunkBytes {
		return &Error{Kind: InvalidArgument,
			Detail: fmt.Sprintf("chunk size %d bytes is outside 1 to %d (%d MiB)", n, MaxChunkBytes, MaxChunkBytes>>20)}
	}
	return nil
}
