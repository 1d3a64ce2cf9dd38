package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/job"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

const (
	isolatedHash = "smoke/sha256/v1"
	// simulateVariable tells a child how many GPUs it has to simulate.
	simulateVariable = "PURECUDA_SMOKE_SIMULATE"
	// isolatedRestarts is how often the child of a GPU may die in a minute, and a batch be repeated on it.
	isolatedRestarts = 10
)

func init() { isolate.Register(isolatedHash, hashInChild) }

// openChild opens the runtime of a child.
func openChild() (*runtime.Runtime, error) {
	value := os.Getenv(simulateVariable)
	if value == "" || value == "0" {
		return runtime.Open()
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > maxSimulated {
		return nil, fmt.Errorf("%s is %q: want a number of simulated GPUs, 0 to %d", simulateVariable, value, maxSimulated)
	}
	return runtime.Open(runtime.WithDriver(drivertest.New(drivertest.Config{Devices: simulatedDevices(n)})))
}

// sha256Chunks is for the device of a child.
var sha256Chunks = pool.PerDevice(kernels.Load[kernels.SHA256Chunks])

// hashRequest is a batch in a shared buffer: Bytes of data, and from At on the chunks and, behind them, the digests.
type hashRequest struct {
	Bytes, At, Chunks int
	Rounds            uint32
}

const (
	chunkBytes  = int(unsafe.Sizeof(job.Chunk{}))
	digestBytes = len(job.Digest{})
)

// hashInChild hashes a batch.
func hashInChild(w *pool.Worker, r *isolate.Request) ([]byte, error) {
	var h hashRequest
	if err := json.Unmarshal(r.Data, &h); err != nil || h.Chunks == 0 {
		return nil, err
	}
	host, err := isolate.HostBuffer[byte](w, r.Buffers[0])
	if err != nil {
		return nil, err
	}
	b, end := batchMemory{}, h.At+h.Chunks*chunkBytes
	b.host.data = host
	if b.host.chunks, err = runtime.CastHost[job.Chunk](host.Slice(h.At, end)); err != nil {
		return nil, err
	}
	if b.host.digests, err = runtime.CastHost[job.Digest](host.Slice(end, end+h.Chunks*digestBytes)); err != nil {
		return nil, err
	}
	err = b.onDevice(w.Stream(), job.Shape{Bytes: h.Bytes, Chunks: h.Chunks})
	if err == nil {
		err = b.enqueue(w.Stream(), sha256Chunks.Of(w), h.Bytes, h.Chunks, h.Rounds)
	}
	if err == nil {
		err = w.Stream().Synchronize(w.CallContext())
	}
	return nil, errors.Join(err, b.Close())
}

// isolated is a gpuOpener that hashes in child processes, on n simulated GPUs or, with none, on those of
// this machine.
func isolated(n int) gpuOpener {
	return func(ctx context.Context, devices []string) (probe, job.Engine, error) {
		if n == 0 {
			return openRuntime(ctx, devices, inChildren(n))
		}
		return openSimulated(ctx, devices, drivertest.Config{Devices: simulatedDevices(n)}, inChildren(n))
	}
}

// isolatedEngine hashes in child processes, one for each device. A batch whose child dies is hashed again.
type isolatedEngine struct {
	rt      *runtime.Runtime
	group   *isolate.Group
	devices []runtime.Device
	opened  time.Time
	busy    []job.Busy
	shape   job.Shape

	mu      sync.Mutex
	buffers []*isolate.Buffer
	free    []*sharedBatch
}

// childEnvironment is for children besides what they get in any case. Only tests change it.
var childEnvironment []string

// inChildren is an [engineMaker] that starts the children, which simulate n GPUs.
func inChildren(n int) engineMaker {
	return func(ctx context.Context, rt *runtime.Runtime, devices []runtime.Device) (job.Engine, error) {
		return newIsolatedEngine(ctx, rt, devices, isolate.WithEnvironment(append(childEnvironment, fmt.Sprint(simulateVariable, "=", n))...))
	}
}

func newIsolatedEngine(ctx context.Context, rt *runtime.Runtime, devices []runtime.Device, environment isolate.Option) (job.Engine, error) {
	ordinals := make([]int, len(devices))
	for i, d := range devices {
		ordinals[i] = d.Ordinal
	}
	group, err := isolate.Open(rt, isolate.WithDevices(ordinals...), isolate.WithRestarts(isolatedRestarts, time.Minute), isolate.WithStandby(), environment)
	if err != nil {
		return nil, err
	}
	e := &isolatedEngine{rt: rt, group: group, devices: devices, opened: time.Now(), busy: make([]job.Busy, len(devices))}
	errs := make([]error, len(devices))
	var all sync.WaitGroup
	for i := range devices {
		all.Go(func() { errs[i] = e.hash(ctx, i, hashRequest{}, nil) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, group.Close())
	}
	return e, nil
}

func (e *isolatedEngine) Name() string { return "gpu " + namesOf(e.devices) + " in child processes" }

func (e *isolatedEngine) Places() []job.Place {
	return gpuPlaces(e.devices)
}

func (e *isolatedEngine) Rehasher() job.Rehasher { return nil }

func (e *isolatedEngine) Busy(place int) time.Duration { return e.busy[place].Total() }

func (e *isolatedEngine) Close() error {
	var errs []error
	for _, b := range e.buffers {
		errs = append(errs, b.Close())
	}
	return errors.Join(errors.Join(errs...), e.group.Close(), e.rt.Close())
}

// hash has a batch hashed on its device, and if the child there dies, by any other one.
func (e *isolatedEngine) hash(ctx context.Context, place int, request hashRequest, b *isolate.Buffer) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	options := []isolate.Option{isolate.WithQueueWait()}
	if b != nil {
		options = append(options, isolate.WithBuffers(b))
	}
	_, report, err := e.group.Do(ctx, isolatedHash, data, append(options, isolate.WithDevices(e.devices[place].Ordinal))...)
	ran := report.Wall
	if errors.Is(err, isolate.ErrChildDied) || errors.Is(err, isolate.ErrGaveUp) {
		_, report, err = e.group.Do(ctx, isolatedHash, data, append(options, isolate.WithRetry(isolatedRestarts))...)
		ran += report.Wall
	}
	to := time.Since(e.opened)
	e.busy[place].Add(to-ran, to)
	return err
}

// children tells what became of the child processes.
func (e *isolatedEngine) children() (all []child) {
	for _, d := range e.group.Stats().Devices {
		c := child{Ordinal: d.Device, Started: d.Starts, Died: d.Deaths}
		if d.Err != nil {
			c.LastDeath = d.Err.Error()
		}
		all = append(all, c)
	}
	return all
}

// childrenOf tells what became of the children of an engine, or is nil.
func childrenOf(engine job.Engine) func() []child {
	switch e := engine.(type) {
	case interface{ children() []child }:
		return e.children
	case *simulatedEngine:
		return childrenOf(e.Engine)
	}
	return nil
}

func (e *isolatedEngine) Sharer() job.Sharer { return e }

// Open makes a pool of the children. They do the rounds.
func (e *isolatedEngine) Open(devices, workers int, shape job.Shape, _ bool) (*pool.Pool, error) {
	e.shape = shape
	ordinals := make([]int, devices)
	for i, d := range e.devices[:devices] {
		ordinals[i] = d.Ordinal
	}
	return e.group.Pool(pool.Options{Devices: ordinals, Streams: workers})
}

func (e *isolatedEngine) Share() (job.Shared, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last := len(e.free) - 1; last >= 0 {
		b := e.free[last]
		e.free = e.free[:last]
		return b, nil
	}
	b, err := e.group.NewBuffer(e.shape.Bytes + e.shape.Chunks*(chunkBytes+digestBytes))
	if err != nil {
		return nil, err
	}
	e.buffers = append(e.buffers, b)
	return &sharedBatch{e, b, e.shape.Bytes}, nil
}

// sharedBatch is a buffer that the children share, for the data of a batch and, behind them, its chunks and digests.
type sharedBatch struct {
	engine *isolatedEngine
	buffer *isolate.Buffer
	at     int // where the chunks begin
}

func (b *sharedBatch) Bytes() []byte { return b.buffer.Bytes()[:b.at] }

func (b *sharedBatch) Return() {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.engine.free = append(b.engine.free, b)
}

func (e *isolatedEngine) Hash(w *pool.Worker, batch *job.Batch) error {
	b, ok := batch.Shared.(*sharedBatch)
	if !ok {
		return driver.Errorf(driver.ErrInvalidArgument, "a batch without a buffer of the group")
	}
	n := len(batch.Chunks)
	chunks := unsafe.Slice((*job.Chunk)(unsafe.Pointer(&b.buffer.Bytes()[b.at])), n)
	digests := unsafe.Slice((*job.Digest)(unsafe.Pointer(&b.buffer.Bytes()[b.at+n*chunkBytes])), n)
	copy(chunks, batch.Chunks)
	if err := e.hash(w.CallContext(), w.Index(), hashRequest{len(batch.Data), b.at, n, batch.Rounds}, b.buffer); err != nil {
		return err
	}
	copy(batch.Digests, digests)
	return nil
}
