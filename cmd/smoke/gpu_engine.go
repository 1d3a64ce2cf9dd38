package main

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"

	"github.com/purecuda/purecuda/cmd/smoke/internal/job"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

const (
	// gpuBatchBytes is large enough for the copy to run at nearly the full rate of the
	// bus and for a kernel to have a thousand chunks, and small enough for many workers.
	gpuBatchBytes = 4 << 20
	// gpuReaders keep one device busy: a core reads 5 to 8 GB/s, the bus takes 50. More
	// get in each other's way; see docs/benchmarks.md.
	gpuReaders = 8
	// gpuInTurn is how many workers a reader has: while one copies and hashes on the
	// device, it reads into the other.
	gpuInTurn = 2
)

// gpuEngine hashes on the devices of a runtime; the workers take them in turn.
type gpuEngine struct {
	rt    *runtime.Runtime
	names []string
	lanes []lane
	next  atomic.Int64
}

// lane is a device with its kernel.
type lane struct {
	context *runtime.Context
	sha256  kernels.SHA256Chunks
}

// newGPUEngine opens the devices. It owns the runtime from then on, unless it fails.
func newGPUEngine(rt *runtime.Runtime, devices []runtime.Device) (*gpuEngine, error) {
	e := &gpuEngine{rt: rt}
	for _, d := range devices {
		c, err := rt.Context(d.Ordinal)
		if err != nil {
			return nil, err
		}
		k, err := kernels.LoadSHA256Chunks(c)
		if err != nil {
			return nil, err
		}
		e.lanes = append(e.lanes, lane{c, k})
		e.names = append(e.names, fmt.Sprintf("%d (%s)", d.Ordinal, d.Name))
	}
	return e, nil
}

func (e *gpuEngine) Name() string { return "gpu " + strings.Join(e.names, ", ") }

func (e *gpuEngine) Workers() int {
	readers := min(gpuReaders, max(1, goruntime.GOMAXPROCS(0)/len(e.lanes)))
	return gpuInTurn * readers * len(e.lanes)
}

func (e *gpuEngine) InTurn() int { return gpuInTurn }

func (e *gpuEngine) BatchBytes() int { return gpuBatchBytes }

// Close gives everything back, the runtime included.
func (e *gpuEngine) Close() error { return e.rt.Close() }

func (e *gpuEngine) NewWorker(_ context.Context, shape job.Shape) (job.Worker, error) {
	l := e.lanes[int(e.next.Add(1)-1)%len(e.lanes)]
	w := &gpuWorker{lane: l}
	if err := w.open(shape); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// gpuWorker has a stream and, on the host and on the device, room for one batch.
type gpuWorker struct {
	lane
	stream *runtime.Stream
	host   struct {
		data    *runtime.HostBuffer[byte]
		chunks  *runtime.HostBuffer[kernels.Chunk]
		digests *runtime.HostBuffer[kernels.Digest]
	}
	device struct {
		data    *runtime.Buffer[byte]
		chunks  *runtime.Buffer[kernels.Chunk]
		digests *runtime.Buffer[kernels.Digest]
	}
	closers []func() error
}

func (w *gpuWorker) open(shape job.Shape) (err error) {
	if w.stream, err = w.context.NewStream(); err != nil {
		return err
	}
	w.closers = append(w.closers, w.stream.Close)
	return errors.Join(
		open(w, &w.host.data, runtime.AllocHost[byte], shape.Bytes),
		open(w, &w.host.chunks, runtime.AllocHost[kernels.Chunk], shape.Chunks),
		open(w, &w.host.digests, runtime.AllocHost[kernels.Digest], shape.Chunks),
		open(w, &w.device.data, runtime.Alloc[byte], shape.Bytes),
		open(w, &w.device.chunks, runtime.Alloc[kernels.Chunk], shape.Chunks),
		open(w, &w.device.digests, runtime.Alloc[kernels.Digest], shape.Chunks),
	)
}

// open allocates one buffer and notes that it is to be closed.
func open[B interface{ Close() error }](w *gpuWorker, to *B, alloc func(*runtime.Context, int) (B, error), n int) error {
	b, err := alloc(w.context, n)
	if err == nil {
		*to = b
		w.closers = append(w.closers, b.Close)
	}
	return err
}

func (w *gpuWorker) Buffer() []byte { return w.host.data.Data() }

func (w *gpuWorker) Start(ctx context.Context, chunks []kernels.Chunk, rounds uint32) error {
	if err := context.Cause(ctx); err != nil || len(chunks) == 0 {
		return err
	}
	last := chunks[len(chunks)-1]
	bytes := int(kernels.PaddedSize(last.Offset + uint64(last.Length)))
	copy(w.host.chunks.Data(), chunks)
	if err := w.enqueue(bytes, len(chunks), rounds); err != nil {
		return errors.Join(err, w.stream.Synchronize(context.Background()))
	}
	return nil
}

// Wait does not end early: the device uses the buffers until the stream is done. A batch
// takes milliseconds.
func (w *gpuWorker) Wait(digests []kernels.Digest) error {
	if err := w.stream.Synchronize(context.Background()); err != nil {
		return err
	}
	copy(digests, w.host.digests.Data())
	return nil
}

// enqueue puts the batch on the stream: upload, hash, download.
func (w *gpuWorker) enqueue(bytes, n int, rounds uint32) error {
	s, host := w.stream, &w.host
	data, chunks, digests := w.device.data.Slice(0, bytes), w.device.chunks.Slice(0, n), w.device.digests.Slice(0, n)
	if err := data.UploadFrom(s, host.data.Slice(0, bytes)); err != nil {
		return err
	}
	if err := chunks.UploadFrom(s, host.chunks.Slice(0, n)); err != nil {
		return err
	}
	if err := w.sha256.Launch(s, data, chunks, rounds, digests); err != nil {
		return err
	}
	return digests.DownloadTo(s, host.digests.Slice(0, n))
}

// Close waits for the device and gives the buffers back.
func (w *gpuWorker) Close() error {
	var errs []error
	for i := len(w.closers) - 1; i >= 0; i-- {
		errs = append(errs, w.closers[i]())
	}
	return errors.Join(errs...)
}
