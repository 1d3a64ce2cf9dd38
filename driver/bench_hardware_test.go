package driver_test

import (
	"math"
	goruntime "runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
)

// The benchmarks below measure bare calls of the driver, as scripts/baseline/baseline.c
// does in C with the same names and in the same way: work that is put on a stream is
// timed in batches, and the stream is emptied outside of the timed part, so that its
// queue never fills. scripts/gpu-bundle runs both and compares them.
const (
	benchBatch      = 512 // entries on a stream before it is emptied
	benchGraphBatch = 50  // as many, in graphs of benchGraphNodes
	benchGraphNodes = 10
	benchWarmUp     = 20000 // launches, so that clocks and caches are at work
	benchAllocBytes = 1 << 20
)

// hardwareBench is a driver that is ready for what is measured.
type hardwareBench struct {
	*driver.Library
	context       driver.Context
	stream        driver.Stream
	event         driver.Event
	empty, empty4 driver.Function
}

func newHardwareBench(b *testing.B) *hardwareBench {
	b.Helper()
	lib := hardware.Open(b)
	device, r := lib.DeviceGet(0)
	benchMust(b, "cuDeviceGet", r)
	context, r := lib.DevicePrimaryCtxRetain(device)
	benchMust(b, "cuDevicePrimaryCtxRetain", r)
	h := &hardwareBench{Library: lib, context: context}
	var module driver.Module
	leave := h.enter(b)
	b.Cleanup(func() {
		lib.StreamDestroy(h.stream)
		lib.EventDestroy(h.event)
		lib.ModuleUnload(module)
		leave()
		lib.DevicePrimaryCtxRelease(device)
	})
	h.stream, r = lib.StreamCreate(driver.StreamNonBlocking)
	benchMust(b, "cuStreamCreate", r)
	h.event, r = lib.EventCreate(driver.EventDisableTiming)
	benchMust(b, "cuEventCreate", r)
	module, log, r := lib.ModuleLoadData(hardware.EmptyKernels, driver.JIT{})
	require.Equal(b, driver.Success, r, log.Error)
	h.empty, r = lib.ModuleGetFunction(module, "empty")
	benchMust(b, "cuModuleGetFunction", r)
	h.empty4, r = lib.ModuleGetFunction(module, "empty4")
	benchMust(b, "cuModuleGetFunction", r)
	h.keepPool(b, device)
	for range benchWarmUp / benchBatch {
		for range benchBatch {
			benchMust(b, "cuLaunchKernel", h.launch(h.empty, nil))
		}
		benchMust(b, "cuStreamSynchronize", h.StreamSynchronize(h.stream))
	}
	return h
}

// enter makes the context current on the thread of the calling goroutine, as it is in
// the C program. The driver's calls need it, or run faster with it.
func (h *hardwareBench) enter(b *testing.B) (leave func()) {
	goruntime.LockOSThread()
	benchMust(b, "cuCtxPushCurrent", h.CtxPushCurrent(h.context))
	return func() {
		h.CtxPopCurrent()
		goruntime.UnlockOSThread()
	}
}

// run is b.Run, which has a goroutine of its own, with the context current there.
func (h *hardwareBench) run(b *testing.B, name string, f func(b *testing.B)) {
	b.Run(name+"/impl=driver", func(b *testing.B) {
		defer h.enter(b)()
		b.ReportAllocs()
		f(b)
	})
}

// keepPool makes the memory pool of the device keep what is freed. By default it
// gives all of it back whenever the stream is waited for.
func (h *hardwareBench) keepPool(b *testing.B, device driver.Device) {
	pool, r := h.DeviceGetDefaultMemPool(device)
	benchMust(b, "cuDeviceGetDefaultMemPool", r)
	before, r := h.MemPoolGetAttribute(pool, driver.MemPoolReleaseThreshold)
	benchMust(b, "cuMemPoolGetAttribute", r)
	benchMust(b, "cuMemPoolSetAttribute", h.MemPoolSetAttribute(pool, driver.MemPoolReleaseThreshold, math.MaxUint64))
	b.Cleanup(func() { h.MemPoolSetAttribute(pool, driver.MemPoolReleaseThreshold, before) })
}

func (h *hardwareBench) launch(f driver.Function, params []unsafe.Pointer) driver.Result {
	return h.LaunchKernel(f, driver.Dim3{X: 1, Y: 1, Z: 1}, driver.Dim3{X: 32, Y: 1, Z: 1}, 0, h.stream, params)
}

func benchMust(tb testing.TB, op string, r driver.Result) {
	if r != driver.Success {
		tb.Helper()
		tb.Fatal(driver.Failed(op, r))
	}
}

// enqueue times what puts work on the stream, without the waiting between batches.
func (h *hardwareBench) enqueue(b *testing.B, op string, batch int, f func() driver.Result) {
	var enqueued time.Duration
	for left := b.N; left > 0; left -= batch {
		start := time.Now()
		for range min(left, batch) {
			if r := f(); r != driver.Success {
				b.Fatal(driver.Failed(op, r))
			}
		}
		enqueued += time.Since(start)
		benchMust(b, "cuStreamSynchronize", h.StreamSynchronize(h.stream))
	}
	b.ReportMetric(float64(enqueued.Nanoseconds())/float64(b.N), "ns/op")
}

// benchLoop times calls that leave nothing behind.
func benchLoop(b *testing.B, op string, f func() driver.Result) {
	for range b.N {
		if r := f(); r != driver.Success {
			b.Fatal(driver.Failed(op, r))
		}
	}
}

func BenchmarkHardwareCall(b *testing.B) {
	h := newHardwareBench(b)
	h.run(b, "fn=cuDriverGetVersion", func(b *testing.B) {
		benchLoop(b, "cuDriverGetVersion", func() driver.Result { _, r := h.DriverGetVersion(); return r })
	})
	h.run(b, "fn=cuCtxGetCurrent", func(b *testing.B) {
		benchLoop(b, "cuCtxGetCurrent", func() driver.Result { _, r := h.CtxGetCurrent(); return r })
	})
	h.run(b, "fn=cuStreamQuery", func(b *testing.B) {
		benchLoop(b, "cuStreamQuery", func() driver.Result { return h.StreamQuery(h.stream) })
	})
	h.run(b, "fn=cuEventQuery", func(b *testing.B) {
		benchLoop(b, "cuEventQuery", func() driver.Result { return h.EventQuery(h.event) })
	})
}

func BenchmarkHardwareLaunch(b *testing.B) {
	h := newHardwareBench(b)
	h.run(b, "args=0", func(b *testing.B) {
		h.enqueue(b, "cuLaunchKernel", benchBatch, func() driver.Result { return h.launch(h.empty, nil) })
	})
	h.run(b, "args=4", func(b *testing.B) {
		x, y, a, n := uint64(0), uint64(0), float32(2), uint64(1)
		params := []unsafe.Pointer{unsafe.Pointer(&x), unsafe.Pointer(&y), unsafe.Pointer(&a), unsafe.Pointer(&n)}
		h.enqueue(b, "cuLaunchKernel", benchBatch, func() driver.Result { return h.launch(h.empty4, params) })
	})
}

// BenchmarkHardwareLaunchNoContext launches on a thread without a current context, as
// package runtime does.
func BenchmarkHardwareLaunchNoContext(b *testing.B) {
	h := newHardwareBench(b)
	b.Run("args=0/impl=driver", func(b *testing.B) {
		b.ReportAllocs()
		h.enqueue(b, "cuLaunchKernel", benchBatch, func() driver.Result { return h.launch(h.empty, nil) })
	})
}

func BenchmarkHardwareLaunchSync(b *testing.B) {
	h := newHardwareBench(b)
	h.run(b, "args=0", func(b *testing.B) {
		benchLoop(b, "cuLaunchKernel", func() driver.Result {
			if r := h.launch(h.empty, nil); r != driver.Success {
				return r
			}
			return h.StreamSynchronize(h.stream)
		})
	})
}

func BenchmarkHardwareEventRecord(b *testing.B) {
	h := newHardwareBench(b)
	h.run(b, "timing=off", func(b *testing.B) {
		h.enqueue(b, "cuEventRecord", benchBatch, func() driver.Result { return h.EventRecord(h.event, h.stream) })
	})
}

func BenchmarkHardwareAllocFree(b *testing.B) {
	h := newHardwareBench(b)
	h.run(b, "size=1MiB", func(b *testing.B) {
		benchLoop(b, "cuMemAlloc", func() driver.Result {
			p, r := h.MemAlloc(benchAllocBytes)
			if r != driver.Success {
				return r
			}
			return h.MemFree(p)
		})
	})
}

func BenchmarkHardwareAllocFreeAsync(b *testing.B) {
	h := newHardwareBench(b)
	h.run(b, "size=1MiB", func(b *testing.B) {
		h.enqueue(b, "cuMemAllocAsync", benchBatch, func() driver.Result {
			p, r := h.MemAllocAsync(benchAllocBytes, h.stream)
			if r != driver.Success {
				return r
			}
			return h.MemFreeAsync(p, h.stream)
		})
	})
}

func BenchmarkHardwareGraphReplay(b *testing.B) {
	h := newHardwareBench(b)
	benchMust(b, "cuStreamBeginCapture", h.StreamBeginCapture(h.stream, driver.CaptureThreadLocal))
	for range benchGraphNodes {
		benchMust(b, "cuLaunchKernel", h.launch(h.empty, nil))
	}
	graph, r := h.StreamEndCapture(h.stream)
	benchMust(b, "cuStreamEndCapture", r)
	defer h.GraphDestroy(graph)
	exec, r := h.GraphInstantiate(graph, 0)
	benchMust(b, "cuGraphInstantiate", r)
	defer h.GraphExecDestroy(exec)
	h.run(b, "nodes=10", func(b *testing.B) {
		h.enqueue(b, "cuGraphLaunch", benchGraphBatch, func() driver.Result { return h.GraphLaunch(exec, h.stream) })
	})
}
