package job

import (
	"context"
	"crypto/sha256"
	"time"
)

// cpuBatch keeps a worker's buffer within the core's second-level cache, so that
// the bytes just read are hashed without another trip to memory. On many cores it is less:
// together they take no more than the buffers of one GPU do.
const (
	cpuBatch    = 1 << 20
	cpuBatchAll = 64 << 20
)

// NewCPU returns the engine that hashes with crypto/sha256 on the given number of
// goroutines, at least one.
func NewCPU(workers int) Engine { return &cpuEngine{workers: max(workers, 1)} }

type cpuEngine struct {
	workers int
	busy    Busy
}

func (e *cpuEngine) Name() string           { return "cpu" }
func (e *cpuEngine) Busy(int) time.Duration { return e.busy.Total() }
func (e *cpuEngine) Rehasher() Rehasher     { return nil }
func (e *cpuEngine) Close() error           { return nil }

func (e *cpuEngine) Places() []Place {
	batch := min(cpuBatch, max(cpuBatchAll/e.workers, minBatch))
	return []Place{{Name: "cpu", Workers: e.workers, InTurn: 1, BatchBytes: batch}}
}

func (e *cpuEngine) NewWorker(_ context.Context, _ int, shape Shape) (Worker, error) {
	return &cpuWorker{buf: make([]byte, shape.Bytes), busy: &e.busy}, nil
}

// cpuWorker hashes in Start: the caller's goroutine is the one that has the core.
type cpuWorker struct {
	buf     []byte
	digests []Digest
	busy    *Busy
}

func (w *cpuWorker) Buffer() []byte { return w.buf }
func (w *cpuWorker) Close() error   { return nil }

func (w *cpuWorker) Start(ctx context.Context, chunks []Chunk, rounds uint32) error {
	w.digests = w.digests[:0]
	began := time.Since(epoch)
	defer func() { w.busy.Add(began, time.Since(epoch)) }()
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

// epoch is what the times of the CPU count from.
var epoch = time.Now()

// hashChunk is the reference for the digest of one chunk.
func hashChunk(ctx context.Context, data []byte, rounds uint32) (Digest, error) {
	if err := ctx.Err(); err != nil {
		return Digest{}, err
	}
	return hashAgain(ctx, sha256.Sum256(data), rounds)
}

// hashAgain is the reference for the rounds.
func hashAgain(ctx context.Context, digest Digest, rounds uint32) (Digest, error) {
	// Four billion rounds take minutes, so that asking once a chunk is too rarely.
	const roundsPerCheck = 1 << 16
	for r := uint32(1); r <= rounds && r != 0; r++ {
		digest = sha256.Sum256(digest[:])
		if r%roundsPerCheck == 0 && ctx.Err() != nil {
			return digest, ctx.Err()
		}
	}
	return digest, nil
}
