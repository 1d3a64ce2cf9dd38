package runtime_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/internal/allocs"
	"github.com/purecuda/purecuda/runtime"
)

// namedCall is a call of the runtime that a test makes in several states.
type namedCall struct {
	name string
	call func() error
}

// hotCalls are the calls that name a stream or an event.
func hotCalls(t testing.TB, c *runtime.Context) []namedCall {
	t.Helper()
	const n = 64
	ctx := context.Background()
	s, other := newStream(t, c), newStream(t, c)
	x, y := upload(t, s, count(0, n)), alloc[uint32](t, s, n)
	pinned := allocHost[uint32](t, c, n)
	start, err := c.NewTimingEvent()
	require.NoError(t, err)
	end, err := c.NewTimingEvent()
	require.NoError(t, err)
	require.NoError(t, start.Record(s))
	require.NoError(t, end.Record(s))
	synchronize(t, s)
	k := kernel(t, c, "add")
	data := download(t, s, x) // which makes what copies go through
	graph := instantiate(t, capture(t, s, adding(k, x, 2, 1)))
	return []namedCall{
		{"Launch", func() error { return addTo(k, s, x, 1) }},
		{"GraphExec.Launch", func() error { return graph.Launch(s) }},
		{"GraphExec.Upload", func() error { return graph.Upload(s) }},
		{"Upload", func() error { return runtime.Upload(bg, s, x, data) }},
		{"Download", func() error { return runtime.Download(bg, s, data, x) }},
		{"UploadHost", func() error { return runtime.UploadHost(s, x, pinned) }},
		{"DownloadHost", func() error { return runtime.DownloadHost(s, pinned, x) }},
		{"Copy", func() error { return runtime.Copy(s, y, x) }},
		{"Fill", func() error { return runtime.Fill(s, y, 7) }},
		{"Zero", func() error { return runtime.Zero(s, y) }},
		{"Stream.LaunchHostFunc", func() error { return s.LaunchHostFunc(func() {}) }},
		{"Stream.Query", func() error { _, err := s.Query(); return err }},
		{"Stream.Wait", func() error { return s.Wait(end) }},
		{"Stream.Synchronize", func() error { return s.Synchronize(ctx) }},
		{"Event.Since", func() error { _, err := end.Since(start); return err }},
		{"Event.Record", func() error { return start.Record(other) }},
		{"Event.Query", func() error { _, err := start.Query(); return err }},
		{"Event.Synchronize", func() error { return start.Synchronize(ctx) }},
	}
}

// coldCalls are the calls that need a current context.
func coldCalls(t testing.TB, c *runtime.Context) []namedCall {
	t.Helper()
	m := loadKernels(t, c)
	k, err := m.Kernel("add")
	require.NoError(t, err)
	s := newStream(t, c)
	return []namedCall{
		{"NewStream", func() error { _, err := c.NewStream(); return err }},
		{"NewEvent", func() error { _, err := c.NewEvent(); return err }},
		{"NewTimingEvent", func() error { _, err := c.NewTimingEvent(); return err }},
		{"Alloc", func() error { _, err := runtime.Alloc[byte](s, 1); return err }},
		{"AllocHost", func() error { _, err := runtime.AllocHost[byte](c, 1); return err }},
		{"LoadModule", func() error { _, err := c.LoadModule(runtime.Image{Code: kernelsPTX}); return err }},
		{"Kernel", func() error { _, err := m.Kernel("store"); return err }},
		{"Global", func() error { _, _, err := m.Variable("answer"); return err }},
		{"MaxPotentialBlockSize", func() error { _, _, err := k.MaxPotentialBlockSize(0); return err }},
		{"MaxActiveBlocks", func() error { _, err := k.MaxActiveBlocks(128, 0); return err }},
		{"MemInfo", func() error { _, _, err := c.MemInfo(); return err }},
		{"Synchronize", c.Synchronize},
	}
}

// useEverything makes every call of the runtime once and closes a few things.
func useEverything(t *testing.T, c *runtime.Context) {
	t.Helper()
	for _, calls := range [][]namedCall{hotCalls(t, c), coldCalls(t, c)} {
		for _, call := range calls {
			require.NoError(t, call.call(), call.name)
		}
	}
	for _, o := range []interface{ Close() error }{
		instantiate(t, capture(t, newStream(t, c), func(*runtime.Stream) error { return nil })),
		newStream(t, c), newEvent(t, c), alloc[byte](t, newStream(t, c), 1), allocHost[byte](t, c, 1), loadKernels(t, c),
	} {
		require.NoError(t, o.Close())
	}
}

// On a slow machine a call may make an event or a buffer first, which it keeps.
func TestHotPathTouchesNoContext(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	for _, call := range hotCalls(t, contextOf(t, rt)) {
		touched := 1
		for try := 0; touched > 0 && try < 20; try++ {
			gpu.ResetCalls()
			require.NoError(t, call.call(), call.name)
			touched = gpu.Calls("cuCtxPushCurrent") + gpu.Calls("cuCtxPopCurrent") + gpu.Calls("cuCtxSetCurrent") + gpu.Calls("cuCtxGetCurrent")
		}
		assert.Zero(t, touched, call.name)
	}
}

func TestHotPathOfDriversThatNeedAContext(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{HotPathNeedsContext: true})
	for _, call := range hotCalls(t, contextOf(t, rt)) {
		gpu.ResetCalls()
		require.NoError(t, call.call(), call.name)
		assert.Positive(t, gpu.Calls("cuCtxPushCurrent"), call.name)
		assert.Equal(t, gpu.Calls("cuCtxPushCurrent"), gpu.Calls("cuCtxPopCurrent"), call.name)
	}
	useEverything(t, contextOf(t, rt))

	c := contextOf(t, rt)
	s := newStream(t, c)
	x := upload(t, s, count(1, 1000))
	require.NoError(t, addTo(kernel(t, c, "add"), s, x, 5))
	assert.Equal(t, count(6, 1000), download(t, s, x))

	gpu.Fail("cuCtxPushCurrent", 1, driver.ResultUnknown)
	_, err := s.Query()
	require.ErrorIs(t, err, driver.ResultUnknown)
	_, err = s.Query()
	require.NoError(t, err)
}

// nothing is a driver whose hot path does nothing, so that what the runtime itself
// allocates can be counted.
type nothing struct{ driver.API }

func (nothing) LaunchKernel(driver.Function, driver.Dim3, driver.Dim3, uint32, driver.Stream, []unsafe.Pointer) driver.Result {
	return driver.Success
}

func (nothing) LaunchCooperativeKernel(driver.Function, driver.Dim3, driver.Dim3, uint32, driver.Stream, []unsafe.Pointer) driver.Result {
	return driver.Success
}

func (nothing) GraphLaunch(driver.GraphExec, driver.Stream) driver.Result { return driver.Success }
func (nothing) GraphUpload(driver.GraphExec, driver.Stream) driver.Result { return driver.Success }

func (nothing) MemcpyHtoDAsync(driver.DevicePtr, unsafe.Pointer, uint64, driver.Stream) driver.Result {
	return driver.Success
}

func (nothing) MemcpyDtoHAsync(unsafe.Pointer, driver.DevicePtr, uint64, driver.Stream) driver.Result {
	return driver.Success
}

func (nothing) MemcpyDtoDAsync(driver.DevicePtr, driver.DevicePtr, uint64, driver.Stream) driver.Result {
	return driver.Success
}

func (nothing) MemsetD32Async(driver.DevicePtr, uint32, uint64, driver.Stream) driver.Result {
	return driver.Success
}

func (nothing) MemsetD8Async(driver.DevicePtr, uint8, uint64, driver.Stream) driver.Result {
	return driver.Success
}

func (nothing) EventRecord(driver.Event, driver.Stream) driver.Result { return driver.Success }
func (nothing) EventQuery(driver.Event) driver.Result                 { return driver.Success }
func (nothing) EventSynchronize(driver.Event) driver.Result           { return driver.Success }
func (nothing) EventElapsedTime(driver.Event, driver.Event) (float32, driver.Result) {
	return 0, driver.Success
}
func (nothing) StreamIsCapturing(driver.Stream) (driver.CaptureStatus, driver.Result) {
	return driver.CaptureNone, driver.Success
}
func (nothing) StreamQuery(driver.Stream) driver.Result { return driver.Success }
func (nothing) StreamWaitEvent(driver.Stream, driver.Event, uint32) driver.Result {
	return driver.Success
}
func (nothing) StreamWriteValue64(_ driver.Stream, at driver.DevicePtr, value uint64, _ uint32) driver.Result {
	atomic.StoreUint64(*(**uint64)(unsafe.Pointer(&at)), value) // the memory of tickets is the host's
	return driver.Success
}
func (nothing) StreamSynchronize(driver.Stream) driver.Result      { return driver.Success }
func (nothing) LaunchHostFunc(driver.Stream, func()) driver.Result { return driver.Success }

func TestHotPathDoesNotAllocate(t *testing.T) {
	allocations := func(t *testing.T, rt *runtime.Runtime, perRun float64) {
		c := contextOf(t, rt)
		for _, call := range slices.Concat(hotCalls(t, c), moreLaunches(t, c), refCalls(t, c)) {
			failed := 0
			allocs.AtMost(t, perRun, 200, func() {
				if call.call() != nil {
					failed++
				}
			}, call.name)
			assert.Zero(t, failed, call.name)
		}
		synchronize(t, newStream(t, c))
	}
	t.Run("runtime alone", func(t *testing.T) {
		allocations(t, openOn(t, nothing{drivertest.ForTest(t, drivertest.Config{})}), 0)
	})
	t.Run("hardware", func(t *testing.T) { allocations(t, openOn(t, hardware.Open(t)), 0) })
}

// moreLaunches are launches with every kind of argument and shape.
func moreLaunches(t *testing.T, c *runtime.Context) []namedCall {
	s := newStream(t, c)
	m := loadKernels(t, c)
	storing, err := m.Kernel("store")
	require.NoError(t, err)
	reversing, err := m.Kernel("reverse")
	require.NoError(t, err)
	meeting, err := m.Kernel("meet")
	require.NoError(t, err)
	out, words := alloc[int64](t, s, 9), upload(t, s, count(0, 64))
	arrived := alloc[uint32](t, s, 1)
	require.NoError(t, runtime.Zero(s, arrived))
	synchronize(t, s)
	mixed := mixed{1, 2, 3}
	view := words.Slice(0, 64)
	return []namedCall{
		{"Launch with a structure", func() error {
			return storing.Launch(s, one, runtime.InOut(out), runtime.Value(int8(1)), runtime.Value(int16(2)), runtime.Value(int32(3)),
				runtime.Value(int64(4)), runtime.Value(float32(5)), runtime.Value(6.0), runtime.Struct(&mixed))
		}},
		{"Launch with shared memory", func() error {
			return reversing.Launch(s, runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 32}, SharedBytes: 256},
				runtime.InOut(view), runtime.Value(uint32(64)))
		}},
		{"Launch cooperatively", func() error {
			return meeting.Launch(s, runtime.Shape{Grid: runtime.Dim3{X: 1}, Block: runtime.Dim3{X: 1}, Cooperative: true}, runtime.InOut(arrived))
		}},
	}
}
