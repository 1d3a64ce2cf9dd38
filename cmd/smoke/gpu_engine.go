package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// gpuBatchBytes is large enough for nearly the full rate of the bus, and for a thousand chunks in a
// kernel. It is small enough for many batches at a time.
const gpuBatchBytes = 4 << 20

// gpuEngine hashes on the devices of a runtime, each a place of its own.
type gpuEngine struct {
	rt    *runtime.Runtime
	gpus  []*gpu
	batch *pool.State[*gpuBatch] // of the pool of Open
}

// gpu is an open device with its kernel.
type gpu struct {
	context *runtime.Context
	sha256  kernels.SHA256Chunks
	epoch   *runtime.Event // when it was opened, on the clock of the device
	busy    job.Busy
	// oneAtATime is held while rounds are done, also over calls of the driver: nobody waits for it but other rounds.
	oneAtATime sync.Mutex
	rounds     *roundsLane // opened by the first rounds
}

// newGPUEngine is an [engineMaker]. It opens the devices, all at once: a context takes 125 ms.
func newGPUEngine(_ context.Context, rt *runtime.Runtime, devices []runtime.Device) (job.Engine, error) {
	e := &gpuEngine{rt: rt, gpus: make([]*gpu, len(devices))}
	errs := make([]error, len(devices))
	var all sync.WaitGroup
	for i, d := range devices {
		all.Go(func() { e.gpus[i], errs[i] = openDevice(rt, d.Ordinal) })
	}
	all.Wait()
	return e, errors.Join(errs...)
}

// openDevice opens a device. What it leaves open belongs to the runtime.
func openDevice(rt *runtime.Runtime, ordinal int) (*gpu, error) {
	c, err := rt.Context(ordinal)
	if err != nil {
		return nil, err
	}
	g := &gpu{context: c}
	if g.sha256, err = kernels.Load[kernels.SHA256Chunks](c); err != nil {
		return nil, err
	}
	if g.epoch, err = c.NewTimingEvent(); err != nil {
		return nil, err
	}
	s, err := c.NewStream()
	if err != nil {
		return nil, err
	}
	if err := g.epoch.Record(s); err != nil {
		return nil, err
	}
	return g, errors.Join(s.Synchronize(context.Background()), s.Close())
}

func (e *gpuEngine) Name() string { return "gpu " + namesOf(e.devices()) }

func (e *gpuEngine) Places() []job.Place { return gpuPlaces(e.devices()) }

func (e *gpuEngine) devices() []runtime.Device {
	devices := make([]runtime.Device, len(e.gpus))
	for i, g := range e.gpus {
		devices[i] = g.context.Device()
	}
	return devices
}

// namesOf names devices: "0 (NVIDIA H100), 1 (NVIDIA H100)".
func namesOf(devices []runtime.Device) string {
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = fmt.Sprintf("%d (%s)", d.Ordinal, d.Name)
	}
	return strings.Join(names, ", ")
}

// gpuPlaces are the places of devices.
func gpuPlaces(devices []runtime.Device) []job.Place {
	_, perDevice := pool.Readers(len(devices))
	places := make([]job.Place, len(devices))
	for i := range devices {
		places[i] = job.Place{Name: "gpu " + namesOf(devices[i:i+1]), Workers: perDevice, BatchBytes: gpuBatchBytes}
	}
	return places
}

func (e *gpuEngine) Busy(place int) time.Duration { return e.gpus[place].busy.Total() }

// Close closes everything, with the runtime.
func (e *gpuEngine) Close() error { return e.rt.Close() }

func (e *gpuEngine) Sharer() job.Sharer { return nil }

func (e *gpuEngine) Open(devices, workers int, shape job.Shape, rounds bool) (*pool.Pool, error) {
	ordinals := make([]int, devices)
	for i, g := range e.gpus[:devices] {
		ordinals[i] = g.context.Device().Ordinal
	}
	e.batch = pool.PerStream(func(w *pool.Worker) (*gpuBatch, error) {
		b := &gpuBatch{gpu: e.gpus[w.Index()]}
		if err := b.open(w.Stream(), shape, rounds); err != nil {
			return nil, errors.Join(err, b.Close())
		}
		return b, nil
	})
	if rounds {
		workers++ // for the rounds under way
	}
	return pool.Open(e.rt, pool.Options{Devices: ordinals, Streams: workers, Setup: []pool.Setup{e.batch}})
}

// batchMemory is room for one batch, on the host and on the device. The data on the host belong to the batch.
type batchMemory struct {
	host struct {
		data    *runtime.HostBuffer[byte]
		chunks  *runtime.HostBuffer[kernels.Chunk]
		digests *runtime.HostBuffer[kernels.Digest]
	}
	device struct {
		data    *runtime.Ref[byte]
		chunks  *runtime.Ref[kernels.Chunk]
		digests *runtime.Ref[kernels.Digest]
	}
	closers []func() error
}

// gpuBatch is the state of a worker: a stream and room for one batch.
type gpuBatch struct {
	*gpu
	batchMemory
	stream *runtime.Stream
	begin  *runtime.Event // of the batch, on the clock of the device
	end    *runtime.Event
}

func (b *gpuBatch) open(s *runtime.Stream, shape job.Shape, rounds bool) (err error) {
	if b.stream = s; rounds {
		// A batch goes before the rounds, which fill the device: nothing would be gathered for the next ones meanwhile.
		if b.stream, err = b.context.NewStreamWithPriority(-1); err != nil {
			return err
		}
		b.closers = append(b.closers, b.stream.Close)
	}
	for _, e := range []**runtime.Event{&b.begin, &b.end} {
		if *e, err = b.context.NewTimingEvent(); err != nil {
			return err
		}
		b.closers = append(b.closers, (*e).Close)
	}
	return errors.Join(
		open(&b.batchMemory, &b.host.chunks, runtime.AllocHost[kernels.Chunk], b.context, shape.Chunks),
		open(&b.batchMemory, &b.host.digests, runtime.AllocHost[kernels.Digest], b.context, shape.Chunks),
		b.onDevice(b.stream, shape),
	)
}

// onDevice allocates what is on the device.
func (m *batchMemory) onDevice(s *runtime.Stream, shape job.Shape) error {
	return errors.Join(
		open(m, &m.device.data, runtime.Alloc[byte], s, shape.Bytes),
		open(m, &m.device.chunks, runtime.Alloc[kernels.Chunk], s, shape.Chunks),
		open(m, &m.device.digests, runtime.Alloc[kernels.Digest], s, shape.Chunks),
	)
}

// open allocates one buffer and notes that it is to be closed.
func open[On any, B interface{ Close() error }](m *batchMemory, to *B, alloc func(On, int) (B, error), on On, n int) error {
	b, err := alloc(on, n)
	if err == nil {
		*to = b
		m.closers = append(m.closers, b.Close)
	}
	return err
}

func (e *gpuEngine) Hash(w *pool.Worker, b *job.Batch) error {
	g := e.batch.Of(w)
	g.host.data = b.Host
	copy(g.host.chunks.Data(), b.Chunks)
	// It does not end early: the device uses the buffers until the stream is done. A batch takes milliseconds.
	if err := errors.Join(g.enqueue(b.Host.Len(), len(b.Chunks), b.Rounds), g.stream.Synchronize(context.Background())); err != nil {
		return err
	}
	copy(b.Digests, g.host.digests.Data())
	return g.clock(g.begin, g.end)
}

// clock counts the time that the device had work for.
func (g *gpu) clock(begin, end *runtime.Event) error {
	from, err := begin.Since(g.epoch)
	if err != nil {
		return err
	}
	to, err := end.Since(g.epoch)
	if err != nil {
		return err
	}
	g.busy.Add(from, to)
	return nil
}

// enqueue puts the batch on the stream, with its times.
func (b *gpuBatch) enqueue(bytes, n int, rounds uint32) error {
	if err := b.begin.Record(b.stream); err != nil {
		return err
	}
	if err := b.batchMemory.enqueue(b.stream, b.sha256, bytes, n, rounds); err != nil {
		return err
	}
	return b.end.Record(b.stream)
}

// enqueue puts a batch on a stream: upload, hash, download.
func (m *batchMemory) enqueue(s *runtime.Stream, sha256 kernels.SHA256Chunks, bytes, n int, rounds uint32) error {
	data, chunks, digests := m.device.data.Slice(0, bytes), m.device.chunks.Slice(0, n), m.device.digests.Slice(0, n)
	if err := runtime.UploadHost(s, data, m.host.data.Slice(0, bytes)); err != nil {
		return err
	}
	if err := runtime.UploadHost(s, chunks, m.host.chunks.Slice(0, n)); err != nil {
		return err
	}
	if err := sha256.Launch(s, data, chunks, rounds, digests); err != nil {
		return err
	}
	return runtime.DownloadHost(s, m.host.digests.Slice(0, n), digests)
}

// Close waits for the device and frees the buffers.
func (m *batchMemory) Close() error {
	var errs []error
	for i := len(m.closers) - 1; i >= 0; i-- {
		errs = append(errs, m.closers[i]())
	}
	return errors.Join(errs...)
}
