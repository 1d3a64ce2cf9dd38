package job

import (
	"context"
	"time"

	"github.com/purecuda/purecuda/kernels"
)

// Chunk is where one chunk lies in a worker's buffer, as the sha256_chunks kernel
// reads it. Its offset is a multiple of kernels.ChunkAlign and its length at least 1.
// The bytes between two chunks have no meaning.
type Chunk = kernels.Chunk

// Digest is a SHA-256 value.
type Digest = kernels.Digest

// Shape is how much a worker must be able to take in one batch.
type Shape struct {
	Bytes  int // size of the buffer, a multiple of kernels.ChunkAlign
	Chunks int // largest number of chunks
}

// Place is a device that an engine hashes on, or the CPU.
type Place struct {
	// Name is for reports: "cpu", "gpu 0 (NVIDIA H100)".
	Name string
	// Workers is how many workers keep the place busy, at least 1. Run may open fewer,
	// when the input is small or the memory budget asks for it, or none.
	Workers int
	// InTurn is how many workers one goroutine serves, at least 1. With 2 it reads into
	// one while the other hashes, which pays where hashing takes no time of the CPU.
	InTurn int
	// BatchBytes is the buffer size that suits the place. Run may ask for less, and
	// for more when one chunk does not fit.
	BatchBytes int
}

// Engine hashes batches, on the CPU or on one or more GPUs. Run calls all methods
// except NewWorker from one goroutine. The caller of Run closes the engine after it.
type Engine interface {
	// Name says where the hashing happens, for reports.
	Name() string
	// Places are what the engine hashes on, at least one, always the same.
	Places() []Place
	// NewWorker opens a worker at a place, by its index, for batches of at most the given
	// shape. It is called from several goroutines at once.
	NewWorker(ctx context.Context, place int, shape Shape) (Worker, error)
	// Rehasher is what the rounds are left to; nil where workers do them.
	Rehasher() Rehasher
	// Busy is for how long a place has had work, the copies of a device included.
	Busy(place int) time.Duration
	// Close releases the engine, after all its workers.
	Close() error
}

// Rehasher replaces digests by digests of themselves. A GPU needs more of them at once than its workers have. Run calls
// one method at a time, while workers hash with 0 rounds.
type Rehasher interface {
	// Enough is how many digests keep the engine busy, at least 1.
	Enough() int
	// Rehash replaces each digest rounds times by the SHA-256 of itself. When ctx ends it may give up with an error.
	Rehash(ctx context.Context, digests []Digest, rounds uint32) error
}

// Worker hashes one batch at a time. Each worker is used by one goroutine.
type Worker interface {
	// Buffer is where Run puts the chunks: at least Shape.Bytes long, and the same
	// memory each time. A GPU engine returns page-locked memory.
	Buffer() []byte
	// Start begins to hash the chunks of the buffer and may return before it is done.
	// The digest of a chunk is SHA-256 of its bytes, replaced rounds times by SHA-256 of
	// itself. The buffer is the worker's until Wait has returned, and stays as it is.
	// When ctx ends Start may give up with an error. After an error there is nothing to
	// wait for.
	Start(ctx context.Context, chunks []Chunk, rounds uint32) error
	// Wait blocks until what Start began is done, and writes the digest of chunks[i] to
	// digests[i]; the two are equally long.
	Wait(digests []Digest) error
	// Close waits for what was started, and releases the worker and its buffer.
	Close() error
}
