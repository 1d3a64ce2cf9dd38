package main

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"time"

	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

const (
	// gpuBatchBytes is large enough for the copy to run at nearly the full rate of the
	// bus and for a kernel to have a thousand chunks, and small enough for many workers.
	gpuBatchBytes = 4 << 20
	// gpuReaders keep one device busy: a core reads 5 to 8 GB/s, the bus takes 50. More
	// gain nothing; see docs/benchmarks.md.
	gpuReaders = 12
	// allReaders is how many of them all devices together keep busy: with more, four H200
	// get less than with these (70 and 88 GB/s).
	allReaders = 16
	// gpuInTurn is how many workers a reader has: while one copies and hashes on the
	// device, it reads into the other.
	gpuInTurn = 2
	// sharedWorkers is how many workers a device has where there are too few readers for all.
	sharedWorkers = 16
)

// gpuEngine hashes on the devices of a runtime, each a place of its own. Package pool is not
// used here: it cuts what is there into tiles, and this reads files that nobody holds in
// memory; see RATIONALE.md.
type gpuEngine struct {
	rt   *runtime.Runtime
	gpus []*gpu
}

// gpu is an open device with its kernel.
type gpu struct {
	context *runtime.Context
	sha256  kernels.SHA256Chunks
	epoch   *runtime.Event // when it was opened, on the clock of the device
	busy    job.Busy
	rounds  *roundsLane // opened by the first rounds
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
	readers, inTurn := readersFor(len(devices), goruntime.GOMAXPROCS(0))
	places := make([]job.Place, len(devices))
	for i := range devices {
		places[i] = job.Place{Name: "gpu " + namesOf(devices[i:i+1]), Workers: inTurn * readers, InTurn: inTurn, BatchBytes: gpuBatchBytes}
	}
	return places
}

// readersFor is how many a device has, and how many workers each of them: where there are many
// devices fewer readers have more workers, so that each device still has much at a time.
func readersFor(devices, cores int) (readers, inTurn int) {
	readers = min(gpuReaders, max(1, cores/devices))
	most := max(1, allReaders/devices)
	if readers <= most {
		return readers, gpuInTurn
	}
	return most, sharedWorkers / most
}

func (e *gpuEngine) Busy(place int) time.Duration { return e.gpus[place].busy.Total() }

// Close closes everything, with the runtime.
func (e *gpuEngine) Close() error { return e.rt.Close() }

func (e *gpuEngine) NewWorker(_ context.Context, place int, shape job.Shape) (job.Worker, error) {
	w := &gpuWorker{gpu: e.gpus[place]}
	if err := w.open(shape); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// batchMemory is room for one batch, on the host and on the device.
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

// gpuWorker has a stream and room for one batch.
type gpuWorker struct {
	*gpu
	batchMemory
	stream *runtime.Stream
	begin  *runtime.Event // of the batch, on the clock of the device
	end    *runtime.Event
}

func (w *gpuWorker) open(shape job.Shape) (err error) {
	// A batch goes before the rounds, which fill the device: nothing would be gathered for the next ones meanwhile.
	if w.stream, err = w.context.NewStreamWithPriority(-1); err != nil {
		return err
	}
	w.closers = append(w.closers, w.stream.Close)
	for _, e := range []**runtime.Event{&w.begin, &w.end} {
		if *e, err = w.context.NewTimingEvent(); err != nil {
			return err
		}
		w.closers = append(w.closers, (*e).Close)
	}
	return errors.Join(
		open(&w.batchMemory, &w.host.data, runtime.AllocHost[byte], w.context, shape.Bytes),
		open(&w.batchMemory, &w.host.chunks, runtime.AllocHost[kernels.Chunk], w.context, shape.Chunks),
		open(&w.batchMemory, &w.host.digests, runtime.AllocHost[kernels.Digest], w.context, shape.Chunks),
		w.onDevice(w.stream, shape),
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
	return w.clock(w.begin, w.end)
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
func (w *gpuWorker) enqueue(bytes, n int, rounds uint32) error {
	if err := w.begin.Record(w.stream); err != nil {
		return err
	}
	if err := w.batchMemory.enqueue(w.stream, w.sha256, bytes, n, rounds); err != nil {
		return err
	}
	return w.end.Record(w.stream)
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
