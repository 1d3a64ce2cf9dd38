package bench

import (
	"context"
	"errors"
	"time"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// The work of which the break-even is measured: SHA-256 of chunks of a slice, with the copies.
const (
	chunkBytes      = 4096
	breakEvenChunks = 1 << 14
)

// breakEven measures from how many chunks on the GPUs hash faster than all cores. An operation is
// a measurement.
func breakEven(m *Machine) *suite {
	chunks := breakEvenChunks
	if m.Simulated {
		chunks = 4
	}
	var b *pool.BreakEven
	s := &suite{open: func(_ context.Context, c *closers) error {
		data, digests := make([]byte, chunks*chunkBytes), make([]kernels.Digest, chunks)
		p, err := pool.Open(m.Runtime, pool.Options{Devices: m.ordinals(len(m.Devices)), Setup: []pool.Setup{sha256Chunks}})
		if p, err = opened(c, p, err); err != nil {
			return err
		}
		b, err = pool.NewBreakEven(p, pool.BreakEvenConfig{Name: "smoke bench", Largest: chunks, Dir: "off",
			Run: func(ctx context.Context, n int) error {
				_, err := p.Scatter(ctx, n, func(w *pool.Worker, t pool.Tile) error {
					return hashChunks(w, data[t.Lo*chunkBytes:t.Hi*chunkBytes], digests[t.Lo:t.Hi])
				}, pool.ScatterOptions{ItemBytes: chunkBytes, BreakEven: b, Fallback: func(_ context.Context, lo, hi int) error {
					part := data[lo*chunkBytes : hi*chunkBytes]
					return kernels.SHA256ChunksCPU(part, chunksOf(part), 0, digests[lo:hi])
				}})
				return err
			}})
		return err
	}}
	s.add(Case{
		Name: "BreakEven/do=sha256",
		op: func(ctx context.Context, n int) (time.Duration, error) {
			return each(func() error { return b.Measure(ctx) })(ctx, n)
		},
		size: func() (items int, table string) {
			items, _ = b.Report().Size()
			return items, b.String()
		},
	})
	return s
}

func chunksOf(data []byte) []kernels.Chunk {
	chunks := make([]kernels.Chunk, len(data)/chunkBytes)
	for i := range chunks {
		chunks[i] = kernels.Chunk{Offset: uint64(i * chunkBytes), Length: chunkBytes}
	}
	return chunks
}

// hashChunks hashes the chunks of data on the worker's device, with memory for the time of the call.
var sha256Chunks = pool.PerDevice(kernels.Load[kernels.SHA256Chunks])

func hashChunks(w *pool.Worker, data []byte, digests []kernels.Digest) error {
	ctx, s, chunks := w.CallContext(), w.Stream(), chunksOf(data)
	var free closers
	defer free.close()
	bytes, err := runtime.Alloc[byte](s, int(kernels.PaddedSize(uint64(len(data)))))
	if bytes, err = opened(&free, bytes, err); err != nil {
		return err
	}
	where, err := runtime.Alloc[kernels.Chunk](s, len(chunks))
	if where, err = opened(&free, where, err); err != nil {
		return err
	}
	result, err := runtime.Alloc[kernels.Digest](s, len(digests))
	if result, err = opened(&free, result, err); err != nil {
		return err
	}
	err = errors.Join(runtime.Upload(ctx, s, bytes.Slice(0, len(data)), data), runtime.Upload(ctx, s, where, chunks))
	if err == nil {
		err = sha256Chunks.Of(w).Launch(s, bytes, where, 0, result)
	}
	if err != nil {
		return err
	}
	return runtime.Download(ctx, s, digests, result)
}
