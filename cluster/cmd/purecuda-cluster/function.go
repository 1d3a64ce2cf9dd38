package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"strconv"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

const (
	hashFunction = "purecuda/sha256/v1"
	echoFunction = "purecuda/echo/v1"
)

func init() {
	isolate.Register(hashFunction, hashOnGPU)
	isolate.Register(echoFunction, func(_ *pool.Worker, r *isolate.Request) ([]byte, error) { return r.Data, nil })
}

// simulateVariable tells a worker and its children how many GPUs to simulate.
const simulateVariable = "PURECUDA_CLUSTER_SIMULATE"

func openRuntime() (*runtime.Runtime, error) {
	n, _ := strconv.Atoi(os.Getenv(simulateVariable))
	if n == 0 {
		return runtime.Open()
	}
	device := drivertest.H100()
	device.Name = "simulated H100"
	return runtime.Open(runtime.WithDriver(drivertest.New(drivertest.Config{Devices: drivertest.Devices(n, device)})))
}

// load loads the kernel once for each device.
var sha256Chunks = pool.PerDevice(kernels.Load[kernels.SHA256Chunks])

// hashRequest says how to hash the parts of a request. A part is what Inline has at its place, or else the next buffer. The result is the
// digests of all chunks.
type hashRequest struct {
	Chunk  int
	Rounds uint32
	Inline map[int][]byte `json:",omitempty"`
}

// parts are the data to hash, each of which begins with a chunk.
func (h *hashRequest) parts(r *isolate.Request) (parts [][]byte, err error) {
	if err := json.Unmarshal(r.Data, h); err != nil {
		return nil, err
	}
	if h.Chunk < 1 || h.Chunk > job.MaxChunkBytes {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "chunks of %d bytes: want 1 to %d", h.Chunk, job.MaxChunkBytes)
	}
	buffers := r.Buffers
	for i := range len(h.Inline) + len(buffers) {
		part, inline := h.Inline[i]
		if !inline {
			if len(buffers) == 0 {
				return nil, driver.Errorf(driver.ErrInvalidArgument, "part %d of a request is missing", i)
			}
			part, buffers = buffers[0].Bytes(), buffers[1:]
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// hashOnCPU is the function on a host without CUDA.
func hashOnCPU(ctx context.Context, r *isolate.Request) (result []byte, err error) {
	var h hashRequest
	parts, err := h.parts(r)
	for _, part := range parts {
		for len(part) > 0 {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			n := min(h.Chunk, len(part))
			digest := hash(part[:n], h.Rounds)
			result, part = append(result, digest[:]...), part[n:]
		}
	}
	return result, err
}

func hash(chunk []byte, rounds uint32) job.Digest {
	digest := sha256.Sum256(chunk)
	for range rounds {
		digest = sha256.Sum256(digest[:])
	}
	return digest
}

// hashOnGPU is the function on a device.
func hashOnGPU(w *pool.Worker, r *isolate.Request) (result []byte, err error) {
	var h hashRequest
	parts, err := h.parts(r)
	if err != nil {
		return nil, err
	}
	// Each chunk begins where the kernel takes it. Where their size allows it, a part is copied as a whole.
	whole := h.Chunk%kernels.ChunkAlign == 0
	var chunks []kernels.Chunk
	var starts []uint64
	end := uint64(0)
	for _, part := range parts {
		starts = append(starts, end)
		for at := 0; at < len(part); at += h.Chunk {
			n := min(h.Chunk, len(part)-at)
			chunks = append(chunks, kernels.Chunk{Offset: end, Length: uint32(n)})
			end += kernels.PaddedSize(uint64(n))
		}
	}
	if len(chunks) == 0 {
		return nil, nil
	}
	s, ctx := w.Stream(), w.CallContext()
	scope := []interface{ Close() error }{}
	defer func() {
		for _, c := range scope {
			err = errors.Join(err, c.Close())
		}
	}()
	data, err := runtime.Alloc[byte](s, int(end))
	if err != nil {
		return nil, err
	}
	scope = append(scope, data)
	for i, part := range parts {
		if !whole {
			part = spread(part, h.Chunk)
		}
		if len(part) == 0 {
			continue
		}
		if err := runtime.Upload(ctx, s, data.Slice(int(starts[i]), int(starts[i])+len(part)), part); err != nil {
			return nil, err
		}
	}
	list, err := runtime.Alloc[kernels.Chunk](s, len(chunks))
	if err != nil {
		return nil, err
	}
	scope = append(scope, list)
	if err := runtime.Upload(ctx, s, list, chunks); err != nil {
		return nil, err
	}
	digests, err := runtime.Alloc[kernels.Digest](s, len(chunks))
	if err != nil {
		return nil, err
	}
	scope = append(scope, digests)
	if err := sha256Chunks.Of(w).Launch(s, data, list, h.Rounds, digests); err != nil {
		return nil, err
	}
	all := make([]kernels.Digest, len(chunks))
	if err := runtime.Download(ctx, s, all, digests); err != nil {
		return nil, err
	}
	result = make([]byte, 0, len(all)*sha256.Size)
	for _, d := range all {
		result = append(result, d[:]...)
	}
	return result, nil
}

// spread moves chunks to where the kernel takes them.
func spread(part []byte, chunk int) []byte {
	var all []byte
	for len(part) > 0 {
		n := min(chunk, len(part))
		all = append(all, part[:n]...)
		all = append(all, make([]byte, kernels.PaddedSize(uint64(n))-uint64(n))...)
		part = part[n:]
	}
	return all
}
