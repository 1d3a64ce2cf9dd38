package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// ordinals of the first n devices.
func (m *Machine) ordinals(n int) (ordinals []int) {
	for _, d := range m.Devices[:n] {
		ordinals = append(ordinals, d.Ordinal)
	}
	return ordinals
}

var emptyKernel = pool.PerDevice(func(c *runtime.Context) (*runtime.Kernel, error) {
	module, err := c.CachedModule(runtime.Image{Code: emptyKernels})
	if err != nil {
		return nil, err
	}
	return module.Kernel("empty")
})

// scatters are calls of pool.Scatter with one item for each device: by themselves, and with a
// launch and a wait.
func scatters(m *Machine) *suite {
	var p *pool.Pool
	devices := len(m.Devices)
	s := &suite{open: func(_ context.Context, c *closers) (err error) {
		p, err = pool.Open(m.Runtime, pool.Options{Devices: m.ordinals(devices), Setup: []pool.Setup{emptyKernel}})
		p, err = opened(c, p, err)
		return err
	}}
	for _, work := range []struct {
		name string
		f    func(*pool.Worker) error
	}{
		{"nothing", func(*pool.Worker) error { return nil }},
		{"launch", func(w *pool.Worker) error {
			if err := emptyKernel.Of(w).Launch(w.Stream(), oneWarp); err != nil {
				return err
			}
			return w.Stream().Synchronize(context.Background())
		}},
	} {
		s.add(Case{
			Name: fmt.Sprintf("Scatter/do=%s/devices=%d", work.name, devices),
			op: func(ctx context.Context, n int) (time.Duration, error) {
				return each(func() error {
					_, err := p.Scatter(ctx, devices, func(w *pool.Worker, _ pool.Tile) error { return work.f(w) }, pool.ScatterOptions{MinPerDevice: 1})
					return err
				})(ctx, n)
			},
		})
	}
	return s
}

// The work of scaling: so many chunks of hashBytes, each hashed so many rounds, that one large
// device has about 50 ms of it. The chunks lie in a small piece of memory, so that nothing but
// arithmetic takes time.
const (
	hashBytes       = 64
	hashData        = 1 << 20
	hashRounds      = 255
	chunksPerSM     = 2048 * 8 // for each multiprocessor of the first device
	simulatedChunks = 64
	simulatedRounds = 1
)

// hashWork is chunks to hash, in host memory.
type hashWork struct {
	data   []byte
	chunks []kernels.Chunk
	rounds uint32
}

// hashes is how many digests of one or two blocks are computed.
func (h hashWork) hashes() int64 { return int64(len(h.chunks)) * int64(h.rounds+1) }

func newHashWork(chunks int, rounds uint32) hashWork {
	h := hashWork{data: make([]byte, hashData), chunks: make([]kernels.Chunk, chunks), rounds: rounds}
	for i := range h.data {
		h.data[i] = byte(i * 7)
	}
	for i := range h.chunks {
		h.chunks[i] = kernels.Chunk{Offset: uint64(i*hashBytes) % hashData, Length: hashBytes}
	}
	return h
}

// hasher is what a device keeps between the calls.
type hasher struct {
	sha256  kernels.SHA256Chunks
	data    *runtime.Ref[byte]
	chunks  *runtime.Ref[kernels.Chunk]
	digests *runtime.Ref[kernels.Digest]
	closers
}

func (h *hasher) Close() error { return h.close() }

func openHasher(w *pool.Worker, work hashWork) (h *hasher, err error) {
	h = &hasher{}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	on, s, ctx := w.Context(), w.Stream(), context.Background()
	h.later(func() error { return on.TrimMemory(0) })
	sha256, err := kernels.Load[kernels.SHA256Chunks](on)
	if h.sha256, err = opened(&h.closers, sha256, err); err != nil {
		return h, err
	}
	data, err := runtime.Alloc[byte](s, len(work.data))
	if h.data, err = opened(&h.closers, data, err); err != nil {
		return h, err
	}
	chunks, err := runtime.Alloc[kernels.Chunk](s, len(work.chunks))
	if h.chunks, err = opened(&h.closers, chunks, err); err != nil {
		return h, err
	}
	digests, err := runtime.Alloc[kernels.Digest](s, len(work.chunks))
	if h.digests, err = opened(&h.closers, digests, err); err != nil {
		return h, err
	}
	return h, errors.Join(runtime.Upload(ctx, s, data, work.data), runtime.Upload(ctx, s, chunks, work.chunks))
}

// scaling is the same work, bound by arithmetic, on 1, 2, 4 and more devices.
func scaling(m *Machine) *suite {
	chunks, rounds := chunksPerSM*m.Devices[0].Multiprocessors, uint32(hashRounds)
	if m.Simulated {
		chunks, rounds = simulatedChunks*len(m.Devices), simulatedRounds
	}
	var (
		work  hashWork
		pools map[int]*pool.Pool
	)
	hashers := pool.PerStream(func(w *pool.Worker) (*hasher, error) { return openHasher(w, work) })
	counts := upTo(len(m.Devices))
	s := &suite{open: func(_ context.Context, c *closers) error {
		work, pools = newHashWork(chunks, rounds), map[int]*pool.Pool{}
		for _, devices := range counts {
			p, err := pool.Open(m.Runtime, pool.Options{Devices: m.ordinals(devices), Setup: []pool.Setup{hashers}})
			if pools[devices], err = opened(c, p, err); err != nil {
				return err
			}
		}
		return nil
	}}
	for _, devices := range counts {
		s.add(Case{
			Name:   fmt.Sprintf("Scaling/devices=%d", devices),
			Hashes: int64(chunks) * int64(rounds+1),
			op: func(ctx context.Context, n int) (time.Duration, error) {
				return each(func() error {
					_, err := pools[devices].Scatter(ctx, len(work.chunks), func(w *pool.Worker, t pool.Tile) error {
						h := hashers.Of(w)
						err := h.sha256.Launch(w.Stream(), h.data, h.chunks.Slice(t.Lo, t.Hi), work.rounds, h.digests.Slice(t.Lo, t.Hi))
						if err != nil {
							return err
						}
						return w.Stream().Synchronize(context.Background())
					}, pool.ScatterOptions{MinPerDevice: 1, Chunk: chunks}) // one launch for each device
					return err
				})(ctx, n)
			},
		})
	}
	return s
}
