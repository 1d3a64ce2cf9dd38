package drivertest_test

import (
	goruntime "runtime"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// TestManyGoroutines does a bit of everything at the same time on two devices.
func TestManyGoroutines(t *testing.T) {
	before := goruntime.NumGoroutine()
	d := drivertest.New(drivertest.Config{Kernels: kernels(), Devices: drivertest.Devices(2, drivertest.H100())})
	assert.Equal(t, driver.Success, d.Init(0))
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			for range 10 {
				churn(t, d, driver.Device(worker%2))
			}
		})
	}
	group.Wait()
	assert.Empty(t, d.Findings())
	assert.Empty(t, d.Leaks())
	assert.NoError(t, d.Close())
	poll(t, "no goroutine is left", func() bool { return goruntime.NumGoroutine() <= before })
}

func churn(t *testing.T, d *drivertest.Driver, dev driver.Device) {
	ok := func(r driver.Result) {
		if r != driver.Success {
			assert.Equal(t, driver.Success, r)
			goruntime.Goexit()
		}
	}
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	ctx, r := d.DevicePrimaryCtxRetain(dev)
	ok(r)
	ok(d.CtxPushCurrent(ctx))
	s, r := d.StreamCreate(driver.StreamNonBlocking)
	ok(r)
	e, r := d.EventCreate(0)
	ok(r)
	m, _, r := d.ModuleLoadData([]byte(ptx), driver.JIT{})
	ok(r)
	f, r := d.ModuleGetFunction(m, "add_one")
	ok(r)
	ptr, r := d.MemAlloc(4000)
	ok(r)
	temp, r := d.MemAllocAsync(4000, s)
	ok(r)
	host := make([]uint32, 1000)
	host[999] = 41
	n := uint32(1000)
	one := driver.Dim3{X: 1, Y: 1, Z: 1}
	ok(d.MemcpyHtoDAsync(temp, pointer(&host[0]), 4000, s))
	ok(d.LaunchKernel(f, one, one, 0, s, []unsafe.Pointer{pointer(&temp), pointer(&n)}))
	ok(d.MemcpyDtoDAsync(ptr, temp, 4000, s))
	ok(d.EventRecord(e, s))
	ok(d.MemFreeAsync(temp, s))
	ok(d.EventSynchronize(e))
	ok(d.MemcpyDtoH(pointer(&host[0]), ptr, 4000))
	assert.EqualValues(t, 42, host[999])
	ok(d.StreamSynchronize(s))
	ok(d.MemFree(ptr))
	ok(d.ModuleUnload(m))
	ok(d.EventDestroy(e))
	ok(d.StreamDestroy(s))
	_, r = d.CtxPopCurrent()
	ok(r)
	ok(d.DevicePrimaryCtxRelease(dev))
}

// TestArgumentsOfAllKinds calls everything with arguments that make no sense: no
// call may panic or hang.
func TestArgumentsOfAllKinds(t *testing.T) {
	g := start(t, drivertest.Config{})
	s := g.stream()
	for _, x := range []uint64{0, 1, 2, 3, 77, 1 << 20, 1 << 52, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		i, u := int32(x), uint32(x)
		dim := driver.Dim3{X: u, Y: u, Z: u}
		p := driver.DevicePtr(x)
		stream, event, ctx := driver.Stream(x), driver.Event(x), driver.Context(x)
		rect := driver.MemcpyRect{SrcType: driver.MemoryDevice, DstType: driver.MemoryDevice, SrcX: x, SrcY: x, DstX: x,
			SrcPitch: x, DstPitch: x, Bytes: x, Height: x, SrcDevice: p, DstDevice: p}
		for _, call := range []func(){
			func() { g.DeviceGet(i) }, func() { g.DeviceGetByPCIBusID(string(rune(i))) },
			func() { g.DeviceGetP2PAttribute(driver.P2PAttribute(i), 0, driver.Device(i)) },
			func() { g.DeviceSetMemPool(0, driver.MemPool(x)) }, func() { g.DevicePrimaryCtxSetFlags(0, u) },
			func() { g.CtxSetLimit(driver.Limit(i), x) }, func() { g.CtxGetID(ctx) }, func() { g.CtxEnablePeerAccess(ctx, u) },
			func() { g.MemFree(p) }, func() { g.MemGetAddressRange(p) }, func() { g.PointerGetAttribute(driver.PointerAttribute(i), p) },
			func() { g.MemFreeAsync(p, s) }, func() { g.MemFreeAsync(p, stream) },
			func() {
				g.MemPoolCreate(driver.MemPoolProps{AllocType: 1, Location: driver.MemLocation{Type: 1, ID: i}})
			},
			func() { g.MemPoolSetAttribute(driver.MemPool(x), driver.MemPoolAttribute(i), x) },
			func() { g.MemcpyHtoD(p, nil, x) }, func() { g.MemcpyDtoH(nil, p, x) }, func() { g.MemcpyDtoD(p, p, x) },
			func() { g.MemcpyPeer(p, ctx, p, ctx, x) }, func() { g.Memcpy2D(rect) }, func() { g.Memcpy2DAsync(rect, s) },
			func() { g.MemsetD8(p, 0, x) }, func() { g.MemsetD16Async(p, 0, x, s) }, func() { g.MemsetD32Async(p, 0, x, s) },
			func() { g.StreamWriteValue64(s, p, x, u) }, func() { g.StreamCreate(u) }, func() { g.StreamCreateWithPriority(0, i) }, func() { g.StreamWaitEvent(s, event, u) },
			func() { g.EventCreate(u) }, func() { g.EventRecordWithFlags(event, stream, u) }, func() { g.EventElapsedTime(event, event) },
			func() { g.StreamBeginCapture(stream, driver.CaptureMode(i)); g.StreamEndCapture(stream) },
			func() { g.ThreadExchangeStreamCaptureMode(driver.CaptureMode(i)); g.ThreadExchangeStreamCaptureMode(0) },
			func() { g.LaunchKernel(driver.Function(x), dim, dim, u, s, nil) },
			func() { g.OccupancyMaxActiveBlocksPerMultiprocessor(driver.Function(x), i, x) },
			func() { g.GraphInstantiate(driver.Graph(x), x) }, func() { g.GraphLaunch(driver.GraphExec(x), s) },
			func() { g.LibraryGetKernel(driver.KernelLibrary(x), "") }, func() { g.KernelGetParamInfo(driver.Kernel(x), x) },
			func() { g.GetErrorName(driver.Result(i)) }, func() { g.GetErrorString(driver.Result(i)) },
		} {
			assert.NotPanics(t, call)
		}
	}
	f := g.function("add_one")
	for _, x := range []int32{-1, 0, 1, 1024, 1025, 1 << 30, -1 << 31} {
		for _, call := range []func(){
			func() { g.OccupancyMaxActiveBlocksPerMultiprocessor(f, x, uint64(x)) },
			func() { g.OccupancyMaxPotentialBlockSize(f, uint64(x), x) },
			func() { g.OccupancyAvailableDynamicSMemPerBlock(f, x, x) },
			func() { g.FuncSetAttribute(f, driver.FunctionAttribute(x), x) },
			func() { g.FuncGetAttribute(driver.FunctionAttribute(x), f) },
			func() { g.FuncSetAttribute(f, driver.FunctionAttributeMaxDynamicSharedSizeBytes, x) },
			func() { g.FuncSetCacheConfig(f, driver.CacheConfig(x)) },
		} {
			assert.NotPanics(t, call)
		}
	}
	g.ok(g.CtxSynchronize())
}
