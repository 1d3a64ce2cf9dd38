package main

import (
	"context"
	"crypto/sha256"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

const (
	// chunk is how many bytes a digest is of, but for the last one.
	chunk = 4096
	// gate is how many chunks are worth a GPU: a core hashes 256 KiB in 0.25 ms.
	gate = 64
)

// hasher keeps the GPUs of the machine ready, for all requests.
type hasher struct{ pool *pool.Pool }

func newHasher(rt *runtime.Runtime) (*hasher, error) {
	p, err := pool.Open(rt, pool.WithSizeGate(gate), pool.WithRetry(1), pool.WithSetup(func(w *pool.Worker) error {
		k, err := kernels.LoadSHA256Chunks(w.Context())
		w.State = k
		return err
	}))
	return &hasher{p}, err
}

func (h *hasher) close() error { return h.pool.Close() }

// root is SHA-256 over the digests of all chunks of data. When ctx ends it stops.
func (h *hasher) root(ctx context.Context, data []byte) (root [sha256.Size]byte, report *pool.Report, err error) {
	digests := make([]kernels.Digest, (len(data)+chunk-1)/chunk)
	report, err = pool.Scatter(ctx, h.pool, len(digests),
		func(w *pool.Worker, t pool.Tile) error {
			return onGPU(w, bytesOf(data, t.Lo, t.Hi), digests[t.Lo:t.Hi])
		},
		pool.WithItemBytes(chunk),
		pool.WithFallback(func(_ context.Context, lo, hi int) error {
			part := bytesOf(data, lo, hi)
			return kernels.SHA256ChunksCPU(part, chunksOf(part), 0, digests[lo:hi])
		}))
	all := sha256.New()
	for i := range digests {
		all.Write(digests[i][:])
	}
	all.Sum(root[:0])
	return root, report, err
}

func onGPU(w *pool.Worker, data []byte, digests []kernels.Digest) error {
	ctx, s, chunks := w.Ctx(), w.Stream(), chunksOf(data)
	memory, err := runtime.Alloc[byte](s, int(kernels.PaddedSize(uint64(len(data)))))
	if err != nil {
		return err
	}
	defer memory.Close()
	where, err := runtime.Alloc[kernels.Chunk](s, len(chunks))
	if err != nil {
		return err
	}
	defer where.Close()
	result, err := runtime.Alloc[kernels.Digest](s, len(digests))
	if err != nil {
		return err
	}
	defer result.Close()
	if err := runtime.Upload(ctx, s, memory.Slice(0, len(data)), data); err != nil {
		return err
	}
	if err := runtime.Upload(ctx, s, where, chunks); err != nil {
		return err
	}
	if err := w.State.(kernels.SHA256Chunks).Launch(s, memory, where, 0, result); err != nil {
		return err
	}
	return runtime.Download(ctx, s, digests, result)
}

// bytesOf are the bytes of the chunks from lo to hi.
func bytesOf(data []byte, lo, hi int) []byte { return data[lo*chunk : min(hi*chunk, len(data))] }

// chunksOf says where the chunks lie.
func chunksOf(data []byte) []kernels.Chunk {
	var chunks []kernels.Chunk
	for at := 0; at < len(data); at += chunk {
		chunks = append(chunks, kernels.Chunk{Offset: uint64(at), Length: uint32(min(chunk, len(data)-at))})
	}
	return chunks
}
