package job

import (
	"context"
	"crypto/sha256"
)

// cpuBatch keeps a worker's buffer within the core's second-level cache, so that
// the bytes just read are hashed without another trip to memory.
const cpuBatch = 1 << 20

// NewCPU returns the engine that hashes with crypto/sha256 on the given number of
// goroutines, at least one.
func NewCPU(workers int) Engine { return cpuEngine(max(workers, 1)) }

type cpuEngine int

func (e cpuEngine) Name() string  { return "cpu" }
func (e cpuEngine) Workers() int  { return int(e) }
func (cpuEngine) InTurn() int     { return 1 }
func (cpuEngine) BatchBytes() int { return cpuBatch }
func (cpuEngine) Close() error    { return nil }

func (cpuEngine) NewWorker(_ context.Context, shape Shape) (Worker, error) {
	return &cpuWorker{buf: make([]byte, shape.Bytes)}, nil
}

// cpuWorker hashes in Start: the caller's goroutine is the one that has the core.
type cpuWorker struct {
	buf     []byte
	digests []Digest
}

func (w *cpuWorker) Buffer() []byte { return w.buf }
func (w *cpuWorker) Close() error   { return nil }

func (w *cpuWorker) Start(ctx context.Context, chunks []Chunk, rounds uint32) error {
	w.digests = w.digests[:0]
	for _, c := range chunks {
		digest, err := hashChunk(ctx, w.buf[c.Offset:c.Offset+uint64(c.Length)], rounds)
		if err != nil {
			return err
		}
		w.digests = append(w.digests, digest)
	}
	return nil
}

func (w *cpuWorker) Wait(digests []Digest) error {
	copy(digests, w.digests)
	return nil
}

// hashChunk is the reference for the digest of one chunk.
func hashChunk(ctx context.Context, data []byte, rounds uint32) (digest Digest, err error) {
	// Four billion rounds take minutes, so that asking once a chunk is too rarely.
	const roundsPerCheck = 1 << 16
	if err := ctx.Err(); err != nil {
		return digest, err
	}
	digest = sha256.Sum256(data)
	for r := uint32(1); r <= rounds && r != 0; r++ {
		digest = sha256.Sum256(digest[:])
		if r%roundsPerCheck == 0 && ctx.Err() != nil {
			return digest, ctx.Err()
		}
	}
	return digest, nil
}
