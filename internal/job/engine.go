package job

import (
	"time"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// Chunk is where one chunk lies in the data of a batch, as the sha256_chunks kernel
// reads it. Its offset is a multiple of kernels.ChunkAlign and its length at least 1.
// The bytes between two chunks have no meaning.
type Chunk = kernels.Chunk

// Digest is a SHA-256 value.
type Digest = kernels.Digest

// Shape is how much there may be in one batch.
type Shape struct {
	Bytes  int // of data, a multiple of kernels.ChunkAlign
	Chunks int // largest number of chunks
}

// Place is a device that an engine hashes on, or the CPU.
type Place struct {
	// Name is for reports: "cpu", "gpu 0 (NVIDIA H100)".
	Name string
	// CPU says that the job hashes here by itself.
	CPU bool
	// Workers is how many batches keep the place busy, at least 1. Run may do with fewer,
	// when the input is small or the memory budget asks for it, or with none.
	Workers int
	// BatchBytes is the size of batches that suits the place. Run may ask for less, and
	// for more when one chunk does not fit.
	BatchBytes int
}

// Batch is what is hashed at once.
type Batch struct {
	Data    []byte                    // with the chunks
	Host    *runtime.HostBuffer[byte] // the same, page-locked, up to the end of the last chunk; nil on the CPU and where the engine shares memory
	Shared  Shared                    // the memory of a [Sharer], or nil
	Chunks  []Chunk                   // at least one
	Digests []Digest                  // one for each chunk, to be set
	Rounds  uint32                    // how often each digest is replaced by the SHA-256 of itself
}

// Engine hashes batches, on the CPU or on one or more GPUs. The caller of Run closes the engine after it.
type Engine interface {
	// Name says where the hashing happens, for reports.
	Name() string
	// Places are what the engine hashes on, at least one, always the same: devices in the order of their worker's Index, and then the CPU.
	Places() []Place
	// Open makes a pool of the first devices, of which each does so many batches of at most the given shape at a time. Run closes it. With
	// rounds, Rehash is called as well. Where there are no devices, the pool has none.
	Open(devices, workers int, shape Shape, rounds bool) (*pool.Pool, error)
	// Hash sets the digests of a batch, with a worker of the pool.
	Hash(w *pool.Worker, b *Batch) error
	// Rehasher is what the rounds are left to; nil where Hash does them.
	Rehasher() Rehasher
	// Sharer is where batches are read to; nil for page-locked memory of this process.
	Sharer() Sharer
	// Busy is for how long a device has had work, copies included.
	Busy(device int) time.Duration
	// Close releases the engine.
	Close() error
}

// Rehasher replaces digests by digests of themselves. A GPU needs more of them at once than a batch has.
type Rehasher interface {
	// Enough is how many digests keep a device busy, at least 1.
	Enough() int
	// Rehash replaces each digest rounds times by the SHA-256 of itself, with a worker of the pool. It is called for several
	// workers at the same time, beside Hash with 0 rounds.
	Rehash(w *pool.Worker, digests []Digest, rounds uint32) error
}

// Sharer has memory that an engine shares with other processes.
type Sharer interface {
	// Share returns memory that no batch has, of the size of the shape of Open.
	Share() (Shared, error)
}

// Shared is memory of a Sharer.
type Shared interface {
	Bytes() []byte
	// Return lets another batch have it.
	Return()
}
