package main

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/runtime"
)

// lane is a stream with memory of its own, for one batch at a time. What is on one stream
// runs in order; what is on different ones may run at the same time: the upload of this
// batch, the kernel of the one before, the download of the one before that.
//
// Each lane has its own device memory not only because a batch needs some: work that writes
// to one Ref on two streams is put in order by the runtime, and would not overlap.
type lane struct {
	stream  *runtime.Stream
	done    *runtime.Event               // behind the last batch that was put on the stream
	host    *runtime.HostBuffer[byte]    // page-locked: see put
	data    *runtime.Ref[byte]           // the batch on the device
	digests *runtime.Ref[kernels.Digest] // of its chunks

	opened []io.Closer // all of these, in the order in which they were opened
}

// onGPU gives the digests of data, and how long that took from the first batch to the last
// digest. Opening the device and allocating are not in the time: a service does that once.
func onGPU(ctx context.Context, b *runtime.Backend, data []byte, streams, batch int) (digests []kernels.Digest, took time.Duration, err error) {
	kernel, err := kernels.LoadSHA256Chunks(b.Context)
	if err != nil {
		return nil, 0, err
	}
	defer kernel.Close()

	// Where the chunks of a batch lie is the same for all batches but the last one, which may
	// be shorter: a list for that one, and one for the others. Streams that only read share.
	count := (len(data) + batch - 1) / batch
	last := len(data) - (count-1)*batch
	full, err := upload(ctx, b.Stream, chunksOf(min(batch, len(data))))
	if err != nil {
		return nil, 0, err
	}
	defer full.Close()
	rest, err := upload(ctx, b.Stream, chunksOf(last))
	if err != nil {
		return nil, 0, err
	}
	defer rest.Close()
	results, err := runtime.AllocHost[kernels.Digest](b.Context, (len(data)+chunk-1)/chunk)
	if err != nil {
		return nil, 0, err
	}
	defer results.Close()
	lanes := make([]lane, streams)
	for i := range lanes {
		// Closing page-locked memory waits for the device. So nothing is taken away from a
		// batch that is still under way because another one has failed.
		defer lanes[i].close()
		if err := lanes[i].open(b.Context, min(batch, len(data))); err != nil {
			return nil, 0, err
		}
	}

	start := time.Now()
	for i := range count {
		l := &lanes[i%streams]
		// The lane's memory is free again when its last batch is done. Meanwhile the other
		// lanes keep the device busy; with one stream there are none, and it has nothing to do.
		if err := l.done.Synchronize(ctx); err != nil {
			return nil, 0, err
		}
		lo := i * batch
		chunks := full
		if i == count-1 {
			chunks = rest
		}
		to := results.Slice(lo/chunk, lo/chunk+chunks.Len())
		if err := l.put(kernel, data[lo:min(lo+batch, len(data))], chunks, to); err != nil {
			return nil, 0, err
		}
	}
	for i := range lanes {
		if err := lanes[i].done.Synchronize(ctx); err != nil {
			return nil, 0, err
		}
	}
	return slices.Clone(results.Data()), time.Since(start), nil
}

// put puts a batch on the lane's stream, and returns long before the device is through.
func (l *lane) put(kernel kernels.SHA256Chunks, batch []byte, chunks *runtime.Ref[kernels.Chunk], to *runtime.HostBuffer[kernels.Digest]) error {
	// The device copies page-locked memory by itself. This copy, which the program has to make
	// first, is its own part of the pipeline; one that reads files or sockets reads into
	// the page-locked memory at once.
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

func (l *lane) open(c *runtime.Context, batch int) (err error) {
	if l.stream, err = c.NewStream(); err != nil {
		return err
	}
	l.opened = append(l.opened, l.stream)
	if l.done, err = c.NewEvent(); err != nil {
		return err
	}
	l.opened = append(l.opened, l.done)
	if l.data, err = runtime.Alloc[byte](l.stream, int(kernels.PaddedSize(uint64(batch)))); err != nil {
		return err
	}
	l.opened = append(l.opened, l.data)
	if l.digests, err = runtime.Alloc[kernels.Digest](l.stream, (batch+chunk-1)/chunk); err != nil {
		return err
	}
	l.opened = append(l.opened, l.digests)
	if l.host, err = runtime.AllocHost[byte](c, batch); err != nil {
		return err
	}
	l.opened = append(l.opened, l.host)
	return nil
}

func (l *lane) close() {
	for _, c := range slices.Backward(l.opened) {
		c.Close()
	}
}

// upload allocates memory for the elements and puts them there.
func upload[T any](ctx context.Context, s *runtime.Stream, elements []T) (*runtime.Ref[T], error) {
	ref, err := runtime.Alloc[T](s, len(elements))
	if err != nil {
		return nil, err
	}
	if err := runtime.Upload(ctx, s, ref, elements); err != nil {
		ref.Close()
		return nil, err
	}
	return ref, nil
}
