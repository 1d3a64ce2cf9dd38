package runtime_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/arena"
	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

type particle struct {
	Position, Velocity [3]float32
	Charge             int8
	Alive              bool
	Mass               float64
}

// roundTrip moves n made-up elements of a type through each way to the device and
// back.
func roundTrip[T any](t *testing.T, c *runtime.Context, n int) {
	t.Helper()
	t.Run(fmt.Sprintf("%T x %d", *new(T), n), func(t *testing.T) {
		s := newStream(t, c)
		data := make([]T, n)
		raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), uintptr(n)*unsafe.Sizeof(data[0]))
		for i := range raw {
			raw[i] = byte(i%251) & 1 // a bool must be 0 or 1
		}
		x := upload(t, s, data)
		defer x.Close()
		assert.Equal(t, n, x.Len())
		assert.Equal(t, uint64(len(raw)), x.Bytes())
		require.Equal(t, data, download(t, s, x))

		y, h := alloc[T](t, s, n), allocHost[T](t, c, n)
		defer y.Close()
		defer h.Close()
		require.NoError(t, runtime.Copy(s, y, x))
		require.NoError(t, runtime.DownloadHost(s, h, y))
		synchronize(t, s)
		require.Equal(t, data, h.Data())
		require.NoError(t, runtime.Zero(s, y))
		require.Equal(t, make([]T, n), download(t, s, y))
		require.NoError(t, runtime.UploadHost(s, y, h))
		require.Equal(t, data, download(t, s, y))
	})
}

func TestRoundTrips(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		for _, n := range []int{1, 255, 100_000} {
			roundTrip[uint8](t, c, n)
			roundTrip[bool](t, c, n)
			roundTrip[int16](t, c, n)
			roundTrip[float32](t, c, n)
			roundTrip[int](t, c, n)
			roundTrip[float64](t, c, n)
			roundTrip[complex128](t, c, n)
			roundTrip[[3]float32](t, c, n)
			roundTrip[particle](t, c, n)
		}
	})
}

func TestFill(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		s := newStream(t, contextOf(t, rt))
		fill(t, s, uint8(0xAB))
		fill(t, s, int8(-2))
		fill(t, s, true)
		fill(t, s, int16(-300))
		fill(t, s, float32(math.Pi))
		fill(t, s, uint32(0xDEADBEEF))
		fill(t, s, [4]uint8{1, 2, 3, 4})
		fill(t, s, [2]uint8{5, 6})

		fill(t, s, math.Pi)
		fill(t, s, int64(math.MinInt64+7))
		fill(t, s, [8]uint8{1, 2, 3, 4, 5, 6, 7, 8})
		fill(t, s, complex(math.E, -1))
		fill(t, s, struct{ A, B uint32 }{3, 4})
		for _, n := range []int{1, 2, 3, 4, 5, 63, 64, 65} { // and nothing behind it
			x := upload(t, s, make([]complex128, n+1))
			require.NoError(t, runtime.Fill(s, x.Slice(0, n), 2i))
			assert.Equal(t, append(slices.Repeat([]complex128{2i}, n), 0), download(t, s, x))
		}
		fillInAGraph(t, s)

		x := upload(t, s, [][12]uint8{{1}, {2}})
		err := runtime.Fill(s, x, [12]uint8{})
		require.ErrorIs(t, err, driver.ErrInvalidArgument)
		assert.ErrorContains(t, err, "fill with elements of 12 bytes: want 1, 2, 4, 8 or 16")
		assert.Equal(t, [][12]uint8{{1}, {2}}, download(t, s, x))
		assert.ErrorIs(t, runtime.Fill(s, alloc[[3]byte](t, s, 1), [3]byte{}), driver.ErrInvalidArgument)
	})
}

// fillInAGraph fills by a graph, which runs twice.
func fillInAGraph(t *testing.T, s *runtime.Stream) {
	t.Helper()
	x := upload(t, s, make([]float64, 1000))
	exec := instantiate(t, capture(t, s, func(s *runtime.Stream) error { return runtime.Fill(s, x, 0.5) }))
	for range 2 {
		require.NoError(t, runtime.Zero(s, x))
		require.NoError(t, exec.Launch(s))
		assert.Equal(t, slices.Repeat([]float64{0.5}, 1000), download(t, s, x))
	}
}

// A fill that fails in the middle says so.
func TestFillFails(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	s := newStream(t, contextOf(t, rt))
	x := alloc[float64](t, s, 100)
	for _, op := range []string{"cuMemsetD32Async", "cuMemcpyDtoDAsync"} {
		gpu.ResetCalls()
		gpu.Fail(op, 2, driver.ResultInvalidHandle)
		assert.ErrorIs(t, runtime.Fill(s, x, 1), driver.ResultInvalidHandle, op)
	}
	require.NoError(t, runtime.Fill(s, x, 1))
}

// fill fills the middle of a buffer.
func fill[T any](t *testing.T, s *runtime.Stream, value T) {
	t.Helper()
	x := upload(t, s, make([]T, 1000))
	require.NoError(t, runtime.Fill(s, x.Slice(1, 999), value))
	want := make([]T, 1000)
	for i := 1; i < 999; i++ {
		want[i] = value
	}
	assert.Equal(t, want, download(t, s, x))
}

func TestAllocChecksItsArguments(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	check := func(name string, err error, text string) {
		t.Helper()
		require.ErrorIs(t, err, driver.ErrInvalidArgument, name)
		assert.ErrorContains(t, err, text, name)
	}
	both := func(name, text string, device, host error) {
		t.Helper()
		check(name, device, text)
		check(name+" on the host", host, text)
	}
	both("negative", "-7 elements: want 0 or more", errorOf(runtime.Alloc[byte](s, -7)), errorOf(runtime.AllocHost[byte](c, -7)))
	both("no size", "struct {} has no size", errorOf(runtime.Alloc[struct{}](s, 1)), errorOf(runtime.AllocHost[struct{}](c, 1)))
	both("no size either", "has no size", errorOf(runtime.Alloc[[0]int](s, 1)), errorOf(runtime.AllocHost[[0]int](c, 1)))
	both("overflow", "9223372036854775807 elements of 16 bytes are more than can be addressed",
		errorOf(runtime.Alloc[complex128](s, math.MaxInt)), errorOf(runtime.AllocHost[complex128](c, math.MaxInt)))

	const pointers = "holds pointers, which mean nothing on a device"
	check("pointer", errorOf(runtime.Alloc[*int](s, 1)), "*int "+pointers)
	check("string", errorOf(runtime.Alloc[string](s, 1)), "string "+pointers)
	check("slice", errorOf(runtime.Alloc[[]int](s, 1)), pointers)
	check("map", errorOf(runtime.Alloc[map[int]int](s, 1)), pointers)
	check("interface", errorOf(runtime.Alloc[any](s, 1)), pointers)
	check("function", errorOf(runtime.Alloc[func()](s, 1)), pointers)
	check("channel", errorOf(runtime.Alloc[chan int](s, 1)), pointers)
	check("unsafe pointer", errorOf(runtime.Alloc[unsafe.Pointer](s, 1)), pointers)
	check("within", errorOf(runtime.Alloc[struct {
		n int
		a [2]struct{ p *byte }
	}](s, 1)), pointers)
	check("within on the host", errorOf(runtime.AllocHost[[1]error](c, 1)), pointers)
	assert.Zero(t, gpu.Calls("cuMemAlloc")+gpu.Calls("cuMemAllocFromPoolAsync")+gpu.Calls("cuMemHostAlloc"))
	assert.Zero(t, c.Stats().Refs)

	// An address is a number, and a number is fine.
	alloc[uintptr](t, s, 1)
}

func errorOf[T any](_ T, err error) error { return err }

func TestAllocOutOfMemory(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		free, total, err := c.MemInfo()
		require.NoError(t, err)
		s := newStream(t, c)
		_, err = runtime.Alloc[byte](s, int(total)+1)
		var e *driver.Error
		require.ErrorAs(t, err, &e)
		assert.Equal(t, driver.ErrOutOfMemory, e.Kind)
		assert.Equal(t, driver.ResultOutOfMemory, e.Code)
		assert.Equal(t, total+1, e.Bytes)
		assert.Equal(t, total, e.Total)
		assert.InDelta(t, free, e.Free, float64(total)/10)
		assert.ErrorContains(t, err, fmt.Sprintf("%d bytes, %d of %d bytes free", e.Bytes, e.Free, e.Total))

		assert.Equal(t, count(0, 10), download(t, s, upload(t, s, count(0, 10))), "nothing is broken")
	})
}

// More than the device has costs no cache, and the driver is not asked for it.
func TestAllocOfMoreThanTheDeviceHas(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{}, runtime.WithMemory(arena.DeviceConfig{CacheBytes: arena.DefaultCacheBytes}))
	c := contextOf(t, rt)
	s := newStream(t, c)
	require.NoError(t, alloc[byte](t, s, 1<<20).Close())
	cached := c.Stats().Memory.Cached
	require.Positive(t, cached)
	gpu.ResetCalls()
	_, err := runtime.Alloc[byte](s, int(c.Device().TotalBytes)+1)
	require.ErrorIs(t, err, driver.ErrOutOfMemory)
	require.ErrorContains(t, err, "the driver was not asked for it")
	for _, name := range []string{"cuMemAlloc", "cuMemAllocFromPoolAsync", "cuMemFree", "cuMemFreeAsync", "cuMemPoolTrimTo"} {
		assert.Zero(t, gpu.Calls(name), name)
	}
	assert.Equal(t, cached, c.Stats().Memory.Cached)
}

// hostFlags notes how page-locked memory is asked for.
type hostFlags struct {
	driver.API
	flags uint32
}

func (h *hostFlags) MemHostAlloc(bytes uint64, flags uint32) (unsafe.Pointer, driver.Result) {
	h.flags = flags
	return h.API.MemHostAlloc(bytes, flags)
}

func TestHostMemoryIsForAllDevices(t *testing.T) {
	api := &hostFlags{API: drivertest.ForTest(t, twoDevices())}
	rt := openOn(t, api)
	h := allocHost[uint32](t, contextAt(t, rt, 0), 10)
	assert.Equal(t, uint32(driver.HostAllocPortable), api.flags)
	copy(h.Data(), count(5, 10))
	s := newStream(t, contextAt(t, rt, 1))
	x := alloc[uint32](t, s, 10)
	require.NoError(t, runtime.UploadHost(s, x, h))
	assert.Equal(t, count(5, 10), download(t, s, x))
}

func TestRegisterHost(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		memory := count(5, 1<<12)
		s := newStream(t, contextAt(t, rt, 0))
		h, err := runtime.RegisterHost(s.Context(), memory)
		require.NoError(t, err)
		_, err = runtime.RegisterHost(s.Context(), memory)
		assert.ErrorIs(t, err, driver.ResultHostMemoryAlreadyRegistered)
		assert.EqualValues(t, 1, rt.Stats().HostBuffers)
		x := alloc[uint32](t, s, len(memory))
		require.NoError(t, runtime.UploadHost(s, x, h))
		require.NoError(t, runtime.Zero(s, x.Slice(0, 10)))
		require.NoError(t, runtime.DownloadHost(s, h, x))
		require.NoError(t, s.Synchronize(t.Context()))
		assert.Equal(t, append(make([]uint32, 10), count(15, 1<<12-10)...), memory)
		require.NoError(t, h.Close())
		require.NoError(t, h.Close())
		assert.EqualValues(t, 15, memory[10], "the memory stays the program's")
		assert.Zero(t, rt.Stats().HostBuffers)
		_, err = runtime.RegisterHost(s.Context(), memory[:0])
		assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	})
}

func TestAllocHostOutOfMemory(t *testing.T) {
	rt, _ := open(t, drivertest.Config{HostMemory: 1 << 20})
	c := contextOf(t, rt)
	_, err := runtime.AllocHost[uint32](c, 1<<18+1)
	var e *driver.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, driver.ErrOutOfMemory, e.Kind)
	assert.Equal(t, uint64(1<<20+4), e.Bytes)
	allocHost[uint32](t, c, 1<<18)
}

func TestCopiesCheckTheirArguments(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	c := contextAt(t, rt, 0)
	s, foreign := newStream(t, c), newStream(t, contextAt(t, rt, 1))
	x, y := alloc[uint32](t, s, 8), alloc[uint32](t, s, 8)
	h := allocHost[uint32](t, c, 8)
	shortX, shortH := x.Slice(0, 7), h.Slice(1, 8)
	badX, badH := x.Slice(0, 9), h.Slice(0, 9)
	short, data := make([]uint32, 7), make([]uint32, 8)

	const seven, bounds = "7 elements, and the memory has 8", "slice [0:9] of a Ref of 8 elements"
	const hostBounds = "slice [0:9] of a buffer of 8 elements"
	const device = "on a stream of device 1, and the memory is on device 0"
	calls := allCalls(gpu)
	for _, c := range []struct {
		name string
		err  error
		text string
	}{
		{"Upload, length", runtime.Upload(bg, s, x, short), "upload of " + seven},
		{"Download, length", runtime.Download(bg, s, short, x), "download of " + seven},
		{"UploadHost, length", runtime.UploadHost(s, x, shortH), "upload of " + seven},
		{"DownloadHost, length", runtime.DownloadHost(s, shortH, x), "download of " + seven},
		{"Copy, length", runtime.Copy(s, x, shortX), "copy of " + seven},
		{"Upload, nothing", runtime.Upload(bg, s, x, nil), "upload of 0 elements, and the memory has 8"},

		{"Upload, bounds", runtime.Upload(bg, s, badX, data), bounds},
		{"Download, bounds", runtime.Download(bg, s, data, badX), bounds},
		{"UploadHost, bounds", runtime.UploadHost(s, badX, h), bounds},
		{"UploadHost, bounds of the source", runtime.UploadHost(s, x, badH), hostBounds},
		{"DownloadHost, bounds", runtime.DownloadHost(s, h, badX), bounds},
		{"DownloadHost, bounds of the target", runtime.DownloadHost(s, badH, x), hostBounds},
		{"Copy, bounds", runtime.Copy(s, badX, y), bounds},
		{"Copy, bounds of the source", runtime.Copy(s, x, badX), bounds},
		{"Fill, bounds", runtime.Fill(s, badX, 1), bounds},
		{"Zero, bounds", runtime.Zero(s, badX), bounds},

		{"Upload, stream", runtime.Upload(bg, foreign, x, data), "upload " + device},
		{"Download, stream", runtime.Download(bg, foreign, data, x), "download " + device},
		{"UploadHost, stream", runtime.UploadHost(foreign, x, h), "upload " + device},
		{"DownloadHost, stream", runtime.DownloadHost(foreign, h, x), "download " + device},
		{"Copy, stream", runtime.Copy(foreign, x, y), "copy " + device},
		{"Fill, stream", runtime.Fill(foreign, x, 1), "fill " + device},
		{"Zero, stream", runtime.Zero(foreign, x), "fill " + device},
	} {
		require.ErrorIs(t, c.err, driver.ErrInvalidArgument, c.name)
		assert.ErrorContains(t, c.err, c.text, c.name)
	}
	assert.Equal(t, calls, allCalls(gpu), "the driver is not asked")
}

func TestViews(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := upload(t, s, count(0, 100))
		v := x.Slice(10, 60).Slice(5, 45) // elements 15 to 55
		assert.Equal(t, 40, v.Len())
		assert.Equal(t, uint64(160), v.Bytes())
		assert.Equal(t, x.Core().Ptr()+60, v.Core().Ptr())
		assert.Same(t, c.State(), v.Core().State())
		assert.Equal(t, count(15, 40), download(t, s, v))
		require.NoError(t, runtime.Upload(bg, s, v.Slice(0, 2), []uint32{1000, 1001}))
		want := count(0, 100)
		want[15], want[16] = 1000, 1001
		assert.Equal(t, want, download(t, s, x))

		h := allocHost[uint32](t, c, 100)
		copy(h.Data(), count(500, 100))
		hv := h.Slice(20, 40).Slice(10, 20) // elements 30 to 40
		assert.Equal(t, 10, hv.Len())
		assert.Equal(t, count(530, 10), hv.Data())
		require.NoError(t, runtime.UploadHost(s, x.Slice(0, 10), hv))
		assert.Equal(t, count(530, 10), download(t, s, x.Slice(0, 10)))

		// Nothing is moved by views of nothing.
		empty, emptyHost := x.Slice(100, 100), h.Slice(0, 0)
		assert.Zero(t, empty.Len())
		for _, err := range []error{
			runtime.Upload(bg, s, empty, nil), runtime.Download(bg, s, nil, empty), runtime.UploadHost(s, empty, emptyHost), runtime.DownloadHost(s, emptyHost, empty),
			runtime.Copy(s, empty, x.Slice(3, 3)), runtime.Fill(s, empty, 1), runtime.Zero(s, empty),
		} {
			assert.NoError(t, err)
		}
		assert.Empty(t, emptyHost.Data())

		require.NoError(t, v.Close())
		require.NoError(t, hv.Close())
		assert.Equal(t, count(17, 10), download(t, s, x.Slice(17, 27)), "closing a view closes nothing")
	})
}

func TestViewsOutOfBounds(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	x, h := alloc[uint32](t, s, 8), allocHost[uint32](t, c, 8)
	for _, b := range [][2]int{{-1, 4}, {0, 9}, {5, 4}, {9, 9}, {8, 9}, {math.MinInt, math.MaxInt}, {math.MaxInt, math.MaxInt}} {
		text := fmt.Sprintf("slice [%d:%d] of a Ref of 8 elements", b[0], b[1])
		hostText := fmt.Sprintf("slice [%d:%d] of a buffer of 8 elements", b[0], b[1])
		v, hv := x.Slice(b[0], b[1]), h.Slice(b[0], b[1])
		assert.ErrorContains(t, runtime.Zero(s, v), text)
		assert.ErrorContains(t, runtime.UploadHost(s, x, hv), hostText)
		assert.ErrorContains(t, runtime.Zero(s, v.Slice(0, 0)), text, "a view of it fails with the first reason")
		assert.ErrorContains(t, runtime.UploadHost(s, x, hv.Slice(0, 0)), hostText)
		assert.Zero(t, v.Len())
		assert.Empty(t, hv.Data())
	}
}

func TestPeerCopy(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
		onA, onB := newStream(t, a), newStream(t, b)
		x := upload(t, onA, count(0, 100_000))
		y := alloc[uint32](t, onB, 100_000)
		require.NoError(t, runtime.Copy(onB, y, x))
		assert.Equal(t, count(0, 100_000), download(t, onB, y))
		assert.Equal(t, uint64(1), b.Stats().Copies)
		assert.Equal(t, uint64(400_000), b.Stats().CopyBytes)

		// The copy waits for what another device still does.
		e := newEvent(t, a)
		release := hold(t, onA)
		require.NoError(t, runtime.Fill(onA, x, 9))
		require.NoError(t, e.Record(onA))
		require.NoError(t, onB.Wait(e))
		require.NoError(t, runtime.Copy(onB, y.Slice(0, 10), x.Slice(90, 100)))
		release()
		assert.Equal(t, []uint32{9, 9, 9, 9, 9, 9, 9, 9, 9, 9}, download(t, onB, y.Slice(0, 10)))
		assert.ErrorIs(t, runtime.Copy(onA, y, x), driver.ErrInvalidArgument, "the stream is of the source's device")
	})
}

// A copy that the driver refuses says so, and the memory can be used again.
func TestCopyThatFails(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	h := allocHost[uint32](t, contextOf(t, rt), 10)
	s := newStream(t, contextOf(t, rt))
	x := upload(t, s, count(0, 10))
	data := make([]uint32, 10)
	for _, c := range []struct {
		op   string
		call func() error
	}{
		{"cuMemcpyHtoDAsync", func() error { return runtime.Upload(bg, s, x, data) }},
		{"cuMemcpyDtoHAsync", func() error { return runtime.Download(bg, s, data, x) }},
		{"cuEventRecord", func() error { return runtime.Download(bg, s, data, x) }},
		{"cuMemcpyHtoDAsync", func() error { return runtime.UploadHost(s, x, h) }},
		{"cuMemcpyDtoHAsync", func() error { return runtime.DownloadHost(s, h, x) }},
		{"cuMemcpyDtoDAsync", func() error { return runtime.Copy(s, x.Slice(0, 5), x.Slice(5, 10)) }},
		{"cuMemsetD32Async", func() error { return runtime.Fill(s, x, 1) }},
		{"cuMemsetD8Async", func() error { return runtime.Zero(s, x) }},
	} {
		gpu.Fail(c.op, 1, driver.ResultUnknown)
		err := c.call()
		require.ErrorIs(t, err, driver.ResultUnknown)
		assert.ErrorContains(t, err, c.op)
		assert.Zero(t, x.Core().State().Stats().Leases)
		require.NoError(t, c.call(), c.op)
	}
}
