package main

import (
	"context"
	"slices"
	"time"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// stage is a stream with memory of its own, for one batch at a time. Work on one stream runs in
// order. Work on different streams may run at the same time: the upload of one batch, the kernel
// of the batch before, and the download of the batch before that.
//
// Each stage has its own device memory for two reasons. Each batch needs memory, and the runtime
// orders work that writes to one Ref on two streams, so that it would not overlap.
type stage struct {
	stream  *runtime.Stream
	done    *runtime.Event               // after the last batch on the stream
	host    *runtime.HostBuffer[byte]    // page-locked: see enqueue
	data    *runtime.Ref[byte]           // the batch on the device
	digests *runtime.Ref[kernels.Digest] // of its chunks
}

// onGPU returns the digests of data, and the time from the first batch to the last digest. The
// time to open the device and to allocate does not count: a service does that once.
func onGPU(ctx context.Context, b *runtime.Backend, data []byte, streams, batch int) (digests []kernels.Digest, took time.Duration, err error) {
	// Closing page-locked memory waits for the device. So after an error no batch that still runs
	// loses its memory.
	var scope runtime.Scope
	defer scope.Close()
	kernel := runtime.Keep(kernels.Load[kernels.SHA256Chunks](b.Context))(&scope)

	// The last batch may be shorter and has a list of chunks of its own. All other batches share
	// one list: streams that only read may share memory.
	count := (len(data) + batch - 1) / batch
	last := len(data) - (count-1)*batch
	full := runtime.Keep(runtime.UploadNew(ctx, b.Stream, chunksOf(min(batch, len(data)))))(&scope)
	rest := runtime.Keep(runtime.UploadNew(ctx, b.Stream, chunksOf(last)))(&scope)
	results := runtime.Keep(runtime.AllocHost[kernels.Digest](b.Context, (len(data)+chunk-1)/chunk))(&scope)
	stages := make([]stage, streams)
	for i := range stages {
		stages[i] = newStage(&scope, b.Context, min(batch, len(data)))
	}
	if err := scope.Err(); err != nil {
		return nil, 0, err
	}

	start := time.Now()
	for i := range count {
		l := &stages[i%streams]
		// The memory of the stage is free again when its last batch is done. Meanwhile the other
		// stages keep the device busy. With one stream the device is idle.
		if err := l.done.Synchronize(ctx); err != nil {
			return nil, 0, err
		}
		lo := i * batch
		chunks := full
		if i == count-1 {
			chunks = rest
		}
		to := results.Slice(lo/chunk, lo/chunk+chunks.Len())
		if err := l.enqueue(kernel, data[lo:min(lo+batch, len(data))], chunks, to); err != nil {
			return nil, 0, err
		}
	}
	for i := range stages {
		if err := stages[i].done.Synchronize(ctx); err != nil {
			return nil, 0, err
		}
	}
	return slices.Clone(results.Data()), time.Since(start), nil
}

// enqueue puts a batch on the stream of the stage, and returns long before the device has done it.
func (l *stage) enqueue(kernel kernels.SHA256Chunks, batch []byte, chunks *runtime.Ref[kernels.Chunk], to *runtime.HostBuffer[kernels.Digest]) error {
	// The device copies page-locked memory by itself. The program has to copy the batch into it
	// first. A program that reads files or sockets reads into the page-locked memory instead.
	copy(l.host.Data(), batch)
	n, digests := len(batch), l.digests.Slice(0, chunks.Len())
	if err := runtime.UploadHost(l.stream, l.data.Slice(0, n), l.host.Slice(0, n)); err != nil {
		return err
	}
	if err := kernel.Launch(l.stream, l.data, chunks, 0, digests); err != nil {
		return err
	}
	if err := runtime.DownloadHost(l.stream, to, digests); err != nil {
		return err
	}
	return l.done.Record(l.stream)
}

func newStage(scope *runtime.Scope, c *runtime.Context, batch int) (l stage) {
	l.stream = runtime.Keep(c.NewStream())(scope)
	l.done = runtime.Keep(c.NewEvent())(scope)
	l.data = runtime.Keep(runtime.Alloc[byte](l.stream, int(kernels.PaddedSize(uint64(batch)))))(scope)
	l.digests = runtime.Keep(runtime.Alloc[kernels.Digest](l.stream, (batch+chunk-1)/chunk))(scope)
	l.host = runtime.Keep(runtime.AllocHost[byte](c, batch))(scope)
	return l
}
