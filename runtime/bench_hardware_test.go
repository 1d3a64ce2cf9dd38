package runtime_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

// The benchmarks below measure what users of this package call, as
// scripts/baseline/baseline.c does in C with the same names and in the same way: work
// that is put on a stream is timed in batches, and the stream is emptied outside of the
// timed part, so that its queue never fills. scripts/gpu-bundle runs both and compares
// them.
const (
	benchBatch  = 512   // entries on a stream before it is emptied
	graphBatch  = 50    // as many, in graphs of ten launches
	benchWarmUp = 20000 // launches, so that clocks and caches are at work
)

var benchShape = runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 32}}

// hardwareBench is a context of the first device with what is measured.
type hardwareBench struct {
	*runtime.Context
	stream        *runtime.Stream
	empty, empty4 *runtime.Kernel
}

func newHardwareBench(b *testing.B, options ...runtime.Option) *hardwareBench {
	b.Helper()
	options = append(options, runtime.WithPolicy(runtime.PolicyRequired), runtime.WithDriver(hardware.Open(b)))
	rt, err := runtime.Open(options...)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, rt.Close()) })
	c, err := rt.Context(0)
	require.NoError(b, err)
	h := &hardwareBench{Context: c}
	h.stream, err = c.NewStream()
	require.NoError(b, err)
	module, err := c.LoadModule(runtime.Image{Code: hardware.EmptyKernels})
	require.NoError(b, err)
	h.empty, err = module.Kernel("empty")
	require.NoError(b, err)
	h.empty4, err = module.Kernel("empty4")
	require.NoError(b, err)
	for range benchWarmUp / benchBatch {
		for range benchBatch {
			if err := h.empty.Launch(h.stream, benchShape); err != nil {
				b.Fatal(err)
			}
		}
		require.NoError(b, h.stream.Synchronize(context.Background()))
	}
	return h
}

// enqueue times what puts work on the stream, without the waiting between batches.
func (h *hardwareBench) enqueue(b *testing.B, f func() error) { h.enqueueBatches(b, benchBatch, f) }

func (h *hardwareBench) enqueueBatches(b *testing.B, batch int, f func() error) {
	b.ReportAllocs()
	var enqueued time.Duration
	for left := b.N; left > 0; left -= batch {
		start := time.Now()
		for range min(left, batch) {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
		enqueued += time.Since(start)
		if err := h.stream.Synchronize(context.Background()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(enqueued.Nanoseconds())/float64(b.N), "ns/op")
}

// benchLoop times calls that leave nothing behind.
func benchLoop(b *testing.B, f func() error) {
	b.ReportAllocs()
	for range b.N {
		if err := f(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHardwareCall(b *testing.B) {
	h := newHardwareBench(b)
	event, err := h.NewEvent()
	require.NoError(b, err)
	b.Run("fn=cuStreamQuery/impl=runtime", func(b *testing.B) {
		benchLoop(b, func() error { _, err := h.stream.Query(); return err })
	})
	b.Run("fn=cuEventQuery/impl=runtime", func(b *testing.B) {
		benchLoop(b, func() error { _, err := event.Query(); return err })
	})
}

func BenchmarkHardwareLaunch(b *testing.B) {
	h := newHardwareBench(b)
	x, err := runtime.Alloc[float32](h.stream, 1)
	require.NoError(b, err)
	b.Run("args=0/impl=runtime", func(b *testing.B) {
		h.enqueue(b, func() error { return h.empty.Launch(h.stream, benchShape) })
	})
	b.Run("args=4/impl=runtime", func(b *testing.B) {
		h.enqueue(b, func() error {
			return h.empty4.Launch(h.stream, benchShape,
				runtime.InOut(x), runtime.InOut(x), runtime.Value(float32(2)), runtime.Value(uint64(1)))
		})
	})
}

// BenchmarkHardwareTrace is a launch without a trace, with one that is told of each launch, and with one that is
// also told how long each kernel took on the device.
func BenchmarkHardwareTrace(b *testing.B) {
	var told atomic.Uint64
	launch := func(context.Context, runtime.TraceLaunch) { told.Add(1) }
	kernel := func(context.Context, runtime.TraceKernel) { told.Add(1) }
	for _, c := range []struct {
		name  string
		trace *runtime.Trace
	}{{"none", nil}, {"empty", &runtime.Trace{}}, {"launch", &runtime.Trace{Launch: launch}}, {"kernel", &runtime.Trace{Launch: launch, Kernel: kernel}}} {
		b.Run("trace="+c.name+"/impl=runtime", func(b *testing.B) {
			h := newHardwareBench(b, runtime.WithTrace(c.trace))
			h.enqueue(b, func() error { return h.empty.Launch(h.stream, benchShape) })
		})
	}
}

// graphNodes is the number of launches in a graph.
const graphNodes = 10

// BenchmarkHardwareGraph is work of ten launches: recorded, made ready, updated, and run as a
// graph and as launches.
func BenchmarkHardwareGraph(b *testing.B) {
	h := newHardwareBench(b)
	x, err := runtime.Alloc[float32](h.stream, 1)
	require.NoError(b, err)
	launches := func(s *runtime.Stream) error {
		for range graphNodes {
			err := h.empty4.Launch(s, benchShape, runtime.InOut(x), runtime.InOut(x), runtime.Value(float32(2)), runtime.Value(uint64(1)))
			if err != nil {
				return err
			}
		}
		return nil
	}
	g := capture(b, h.stream, launches)
	graph, err := g.Instantiate()
	require.NoError(b, err)
	b.Run("do=capture/impl=runtime", func(b *testing.B) {
		benchLoop(b, func() error { return capture(b, h.stream, launches).Close() })
	})
	b.Run("do=instantiate/impl=runtime", func(b *testing.B) {
		benchLoop(b, func() error {
			x, err := g.Instantiate()
			if err != nil {
				return err
			}
			return x.Close()
		})
	})
	b.Run("do=update/impl=runtime", func(b *testing.B) { benchLoop(b, func() error { return graph.Update(g) }) })
	b.Run("do=launches/impl=runtime", func(b *testing.B) {
		h.enqueueBatches(b, benchBatch/graphNodes, func() error { return launches(h.stream) })
	})
}

// BenchmarkHardwareGraphReplay is a graph of ten launches without arguments.
func BenchmarkHardwareGraphReplay(b *testing.B) {
	h := newHardwareBench(b)
	graph := instantiate(b, capture(b, h.stream, func(s *runtime.Stream) error {
		for range graphNodes {
			if err := h.empty.Launch(s, benchShape); err != nil {
				return err
			}
		}
		return nil
	}))
	require.NoError(b, graph.Upload(h.stream))
	b.Run("nodes=10/impl=runtime", func(b *testing.B) {
		h.enqueueBatches(b, graphBatch, func() error { return graph.Launch(h.stream) })
	})
}

func BenchmarkHardwareLaunchSync(b *testing.B) {
	h := newHardwareBench(b)
	b.Run("args=0/impl=runtime", func(b *testing.B) {
		benchLoop(b, func() error {
			if err := h.empty.Launch(h.stream, benchShape); err != nil {
				return err
			}
			return h.stream.Synchronize(context.Background())
		})
	})
}

func BenchmarkHardwareEventRecord(b *testing.B) {
	h := newHardwareBench(b)
	event, err := h.NewEvent()
	require.NoError(b, err)
	b.Run("timing=off/impl=runtime", func(b *testing.B) {
		h.enqueue(b, func() error { return event.Record(h.stream) })
	})
}

func BenchmarkHardwareAllocFree(b *testing.B) {
	h := newHardwareBench(b)
	b.Run("size=1MiB/impl=runtime", func(b *testing.B) {
		benchLoop(b, func() error {
			buffer, err := runtime.Alloc[byte](h.stream, 1<<20)
			if err != nil {
				return err
			}
			return buffer.Close()
		})
	})
}

// copySizes are those of the copies.
var copySizes = []struct {
	name  string
	bytes int
}{
	{"4KiB", 4 << 10},
	{"1MiB", 1 << 20},
	{"256MiB", 256 << 20},
}

// copyBench is the two ends of a copy, the host's once page-locked and once of the Go
// heap.
type copyBench struct {
	*hardwareBench
	device   *runtime.Ref[byte]
	pinned   *runtime.HostBuffer[byte]
	pageable []byte
}

func newCopyBench(b *testing.B) *copyBench {
	b.Helper()
	c := &copyBench{hardwareBench: newHardwareBench(b)}
	largest := copySizes[len(copySizes)-1].bytes
	var err error
	c.device, err = runtime.Alloc[byte](c.stream, largest)
	require.NoError(b, err)
	c.pinned, err = runtime.AllocHost[byte](c.Context, largest)
	require.NoError(b, err)
	c.pageable = make([]byte, largest)
	for _, host := range [][]byte{c.pinned.Data(), c.pageable} {
		for i := range host { // no page is touched first while it is timed
			host[i] = 1
		}
	}
	return c
}

// run measures a copy of every size.
func (c *copyBench) run(b *testing.B, name string, copyOne func(device *runtime.Ref[byte], pinned *runtime.HostBuffer[byte], pageable []byte) error) {
	for _, size := range copySizes {
		device, pinned := c.device.Slice(0, size.bytes), c.pinned.Slice(0, size.bytes)
		b.Run(name+"/size="+size.name+"/impl=runtime", func(b *testing.B) {
			b.SetBytes(int64(size.bytes))
			benchLoop(b, func() error { return copyOne(device, pinned, c.pageable[:size.bytes]) })
		})
	}
}

func BenchmarkHardwareUpload(b *testing.B) {
	c := newCopyBench(b)
	c.run(b, "from=pinned", func(device *runtime.Ref[byte], pinned *runtime.HostBuffer[byte], _ []byte) error {
		if err := runtime.UploadHost(c.stream, device, pinned); err != nil {
			return err
		}
		return c.stream.Synchronize(context.Background())
	})
	c.run(b, "from=pageable", func(device *runtime.Ref[byte], _ *runtime.HostBuffer[byte], pageable []byte) error {
		return runtime.Upload(bg, c.stream, device, pageable)
	})
}

func BenchmarkHardwareDownload(b *testing.B) {
	c := newCopyBench(b)
	c.run(b, "to=pinned", func(device *runtime.Ref[byte], pinned *runtime.HostBuffer[byte], _ []byte) error {
		if err := runtime.DownloadHost(c.stream, pinned, device); err != nil {
			return err
		}
		return c.stream.Synchronize(context.Background())
	})
	c.run(b, "to=pageable", func(device *runtime.Ref[byte], _ *runtime.HostBuffer[byte], pageable []byte) error {
		return runtime.Download(bg, c.stream, pageable, device)
	})
}
