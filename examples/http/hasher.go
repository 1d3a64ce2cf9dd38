package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"time"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/poolmetrics"
	"github.com/purecuda/purecuda/runtime"
)

const (
	// chunk is how many bytes a digest is of, but for the last one.
	chunk = 4096
	// small is the size of uploads up to which many are hashed by one call of a GPU.
	small = 64 << 10
	// sample is how many chunks the break-even is measured up to.
	sample = 4096
)

// hasher keeps the GPUs of the machine ready, for all requests.
type hasher struct {
	pool    *pool.Pool
	batcher *pool.Batcher[[]byte, answer]
	worth   *pool.BreakEven
	metrics *poolmetrics.Reader
	onCPU   bool // the CPU does what the GPUs cannot
}

// answer is the result of an upload.
type answer struct {
	root [sha256.Size]byte
	on   pool.Place
	why  pool.Reason // on the CPU
}

// sha256Chunks is loaded once for each device.
var sha256Chunks = pool.PerDevice(kernels.Load[kernels.SHA256Chunks])

func newHasher(rt *runtime.Runtime, onCPU bool, queue int) (h *hasher, err error) {
	h = &hasher{onCPU: onCPU}
	if h.pool, err = pool.Open(rt, pool.Options{Setup: []pool.Setup{sha256Chunks}, Queue: queue}); err != nil {
		return nil, err
	}
	config := pool.BatcherConfig[[]byte, answer]{
		MaxItems: 256,
		MaxBytes: 4 << 20,
		Bytes:    func(data []byte) int { return len(data) },
		MaxDelay: 500 * time.Microsecond,
		Retry:    1, // hashing twice gives the same
	}
	if onCPU {
		config.Fallback = batchOnCPU
	}
	if h.batcher, err = pool.NewBatcher(h.pool, batchOnGPU, config); err != nil {
		return nil, errors.Join(err, h.pool.Close())
	}
	data := make([]byte, sample*chunk)
	h.worth, err = pool.NewBreakEven(h.pool, pool.BreakEvenConfig{
		Name: "examples/http v1", Largest: sample, Logger: slog.Default(),
		Run: func(ctx context.Context, n int) error {
			_, err := h.large(ctx, data[:n*chunk])
			return err
		},
	})
	if err != nil {
		return nil, errors.Join(err, h.close())
	}
	h.metrics = poolmetrics.NewReader(h.pool)
	h.metrics.AddBatcher("small", h.batcher)
	h.metrics.AddBreakEven("large", h.worth)
	return h, nil
}

// close waits for what is under way.
func (h *hasher) close() error { return errors.Join(h.batcher.Close(), h.pool.Close()) }

// hash returns SHA-256 over the digests of all chunks of data. When ctx ends it stops.
func (h *hasher) hash(ctx context.Context, data []byte) (answer, error) {
	if len(data) <= small {
		return h.batcher.Do(ctx, data)
	}
	return h.large(ctx, data)
}

// large hashes an upload by itself: on the GPU that will be free first, or on the CPU where that is faster or
// there is no other.
func (h *hasher) large(ctx context.Context, data []byte) (answer, error) {
	digests := make([]kernels.Digest, (len(data)+chunk-1)/chunk)
	options := pool.DoOptions{Retry: 1, BreakEven: h.worth, Items: len(digests), Label: "large", Reserve: 2 * uint64(len(data))}
	if h.onCPU {
		options.Fallback = func(ctx context.Context) error {
			_, err := pool.Parallel(ctx, len(digests), func(_ context.Context, lo, hi int) error {
				part := data[lo*chunk : min(hi*chunk, len(data))]
				return kernels.SHA256ChunksCPU(part, chunksOf(part, 0), 0, digests[lo:hi])
			})
			return err
		}
	}
	report, err := h.pool.Do(ctx, func(w *pool.Worker) error {
		return onGPU(w, [][]byte{data}, digests)
	}, options)
	return answer{rootOf(digests), report.Where, report.Reason}, err
}

// batchOnGPU hashes small uploads, all with one launch.
func batchOnGPU(w *pool.Worker, uploads [][]byte, answers []answer, _ []error) error {
	count := 0
	for _, data := range uploads {
		count += (len(data) + chunk - 1) / chunk
	}
	digests := make([]kernels.Digest, count)
	if err := onGPU(w, uploads, digests); err != nil {
		return err
	}
	for i, data := range uploads {
		n := (len(data) + chunk - 1) / chunk
		answers[i], digests = answer{root: rootOf(digests[:n]), on: pool.OnGPU}, digests[n:]
	}
	return nil
}

// batchOnCPU does the same where the GPUs do not.
func batchOnCPU(ctx context.Context, uploads [][]byte, answers []answer, _ []error) error {
	_, err := pool.Parallel(ctx, len(uploads), func(_ context.Context, lo, hi int) error {
		for i := lo; i < hi; i++ {
			chunks := chunksOf(uploads[i], 0)
			digests := make([]kernels.Digest, len(chunks))
			if err := kernels.SHA256ChunksCPU(uploads[i], chunks, 0, digests); err != nil {
				return err
			}
			answers[i] = answer{root: rootOf(digests), on: pool.OnCPU}
		}
		return nil
	})
	return err
}

// onGPU computes the digests of all chunks of the uploads, one upload after the other.
func onGPU(w *pool.Worker, uploads [][]byte, digests []kernels.Digest) error {
	ctx, s := w.CallContext(), w.Stream()
	var bytes uint64
	var chunks []kernels.Chunk
	for _, data := range uploads {
		chunks = append(chunks, chunksOf(data, bytes)...)
		bytes += kernels.PaddedSize(uint64(len(data)))
	}
	memory, err := runtime.Alloc[byte](s, int(bytes))
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
	if len(uploads) > 1 { // one copy is cheaper than hundreds
		together := make([]byte, bytes)
		at := 0
		for _, data := range uploads {
			copy(together[at:], data)
			at += int(kernels.PaddedSize(uint64(len(data))))
		}
		uploads = [][]byte{together}
	}
	if err := runtime.Upload(ctx, s, memory.Slice(0, len(uploads[0])), uploads[0]); err != nil {
		return err
	}
	if err := runtime.Upload(ctx, s, where, chunks); err != nil {
		return err
	}
	if err := sha256Chunks.Of(w).Launch(s, memory, where, 0, result); err != nil {
		return err
	}
	return runtime.Download(ctx, s, digests, result)
}

// chunksOf says where the chunks of data lie that begins at an offset.
func chunksOf(data []byte, offset uint64) []kernels.Chunk {
	var chunks []kernels.Chunk
	for at := 0; at < len(data); at += chunk {
		chunks = append(chunks, kernels.Chunk{Offset: offset + uint64(at), Length: uint32(min(chunk, len(data)-at))})
	}
	return chunks
}

func rootOf(digests []kernels.Digest) (root [sha256.Size]byte) {
	all := sha256.New()
	for i := range digests {
		all.Write(digests[i][:])
	}
	all.Sum(root[:0])
	return root
}
