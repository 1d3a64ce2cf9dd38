package job

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// cpuBatch keeps the buffer of a core within its second-level cache, so that
// the bytes just read are hashed without another trip to memory. On many cores it is less:
// together they take no more than the buffers of one GPU do.
const (
	cpuBatch    = 1 << 20
	cpuBatchAll = 64 << 20
)

// NewCPU returns the engine that hashes with crypto/sha256 on the given number of
// cores, at least one.
func NewCPU(cores int) Engine { return cpuEngine(max(cores, 1)) }

type cpuEngine int

func (e cpuEngine) Name() string                    { return "cpu" }
func (e cpuEngine) Busy(int) time.Duration          { return 0 }
func (e cpuEngine) Rehasher() Rehasher              { return nil }
func (e cpuEngine) Sharer() Sharer                  { return nil }
func (e cpuEngine) Close() error                    { return nil }
func (e cpuEngine) Hash(*pool.Worker, *Batch) error { return nil } // there is no device

func (e cpuEngine) Places() []Place {
	return []Place{{Name: "cpu", CPU: true, Workers: int(e), BatchBytes: min(cpuBatch, max(cpuBatchAll/int(e), minBatch))}}
}

func (e cpuEngine) Open(int, int, Shape, bool) (*pool.Pool, error) {
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyOff), runtime.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, err
	}
	return pool.Open(rt) // the runtime has nothing to close
}

// WithCPU is the engine that hashes on cores as well, at least one, beside its devices.
func WithCPU(devices Engine, cores int) Engine { return withCPU{devices, cores} }

type withCPU struct {
	Engine
	cores int
}

func (e withCPU) Name() string    { return e.Engine.Name() + " and cpu" }
func (e withCPU) Places() []Place { return append(e.Engine.Places(), NewCPU(e.cores).Places()...) }

// HashOnCPU is Hash without a device.
func (b *Batch) HashOnCPU(ctx context.Context) (err error) {
	for i, c := range b.Chunks {
		if b.Digests[i], err = hashChunk(ctx, b.Data[c.Offset:c.Offset+uint64(c.Length)], b.Rounds); err != nil {
			return err
		}
	}
	return nil
}

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
