package runtime_test

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/runtime"
)

func allocIPC[T any](t testing.TB, s *runtime.Stream, n int) *runtime.Ref[T] {
	t.Helper()
	x, err := runtime.AllocIPC[T](s, n)
	require.NoError(t, err)
	return x
}

func exportIPC[T any](t testing.TB, s *runtime.Stream, x *runtime.Ref[T]) runtime.IPCHandle {
	t.Helper()
	h, err := runtime.ExportIPC(bg, s, x)
	require.NoError(t, err)
	return h
}

func openIPC[T any](t testing.TB, s *runtime.Stream, h runtime.IPCHandle) *runtime.Ref[T] {
	t.Helper()
	x, err := runtime.OpenIPC[T](s, h)
	require.NoError(t, err)
	return x
}

func TestIPC(t *testing.T) {
	rt, gpu := open(t, twoDevices())
	sharesMemory(t, rt, "simulated")
	assert.Equal(t, gpu.Calls("cuIpcOpenMemHandle"), gpu.Calls("cuIpcCloseMemHandle"))
}

func TestHardwareIPC(t *testing.T) {
	api := hardware.Open(t)
	if !inProcess(t) {
		return
	}
	sharesMemory(t, openOn(t, api), "hardware")
}

// sharesMemory opens memory of another process, and lets it open such of this one.
func sharesMemory(t *testing.T, rt *runtime.Runtime, kind string) {
	const n = 1000
	c := contextOf(t, rt)
	s, k := newStream(t, c), kernel(t, c, "add")
	other := startIPC(t, kind)

	at, h := other.alloc(n, 5)
	x := openIPC[uint32](t, s, h)
	assert.Equal(t, n, x.Len())
	assert.Equal(t, count(5, n), download(t, s, x), "what the other process has uploaded")
	again := openIPC[uint32](t, s, h)
	ptr, err := x.Access()
	require.NoError(t, err)
	same, err := again.Access()
	require.NoError(t, err)
	assert.Equal(t, ptr, same, "opened twice")
	require.NoError(t, again.Close())
	require.NoError(t, errors.Join(addTo(k, s, x, 2), s.Synchronize(bg)), "it is still open")
	other.must(ipcCall{Do: "add", At: at, Value: 3})
	assert.Equal(t, count(10, n), download(t, s, x), "of the other process")
	assert.Equal(t, count(10, n), other.must(ipcCall{Do: "read", At: at}).Data, "of this one")
	_, err = runtime.ExportIPC(bg, s, x)
	assert.ErrorContains(t, err, "not of AllocIPC", "another process owns it")
	assert.ErrorIs(t, err, driver.ErrInvalidArgument)
	require.NoError(t, errors.Join(x.Close(), x.Close()))
	_, err = x.Access()
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, count(10, n), other.must(ipcCall{Do: "read", At: at}).Data, "closed here, and not there")

	mine := allocIPC[uint32](t, s, 3<<19) // 6 MiB
	assert.Equal(t, make([]uint32, mine.Len()), download(t, s, mine), "fresh")
	require.NoError(t, runtime.Upload(bg, s, mine, count(0, mine.Len())))
	h = exportIPC(t, s, mine)
	assert.Equal(t, h, exportIPC(t, s, mine), "a handle does not change")
	view := exportIPC(t, s, mine.Slice(1<<19, 1<<19+n))
	whole, part := other.must(ipcCall{Do: "open", Handle: h[:]}), other.must(ipcCall{Do: "open", Handle: view[:]})
	other.must(ipcCall{Do: "add", At: part.At, Value: 7})
	assert.Equal(t, count(1<<19+7, n), download(t, s, mine.Slice(1<<19, 1<<19+n)))
	assert.Equal(t, count(1<<19-n, n), download(t, s, mine.Slice(1<<19-n, 1<<19)))
	assert.Equal(t, count(1<<19+n, n), download(t, s, mine.Slice(1<<19+n, 1<<19+2*n)))
	other.must(ipcCall{Do: "close", At: part.At})
	assert.Equal(t, mine.Len(), whole.N)
	other.must(ipcCall{Do: "add", At: whole.At, Value: 1})
	assert.Equal(t, count(1, n), download(t, s, mine.Slice(0, n)))
	other.must(ipcCall{Do: "close", At: whole.At})
	require.NoError(t, mine.Close())
	assert.Contains(t, other.call(ipcCall{Do: "open", Handle: h[:]}).Err, "must not have freed it", "freed")
	none := allocIPC[uint32](t, s, 0)
	h = exportIPC(t, s, none)
	other.must(ipcCall{Do: "open", Handle: h[:]})
	other.end()
	require.NoError(t, none.Close())
	assert.Zero(t, c.Stats().Refs)
	assert.Zero(t, c.Stats().Leaked)
}

// Memory outlives its owner: what is read then is what it held.
func TestIPCOwnerDies(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	s := newStream(t, contextOf(t, rt))
	owner := startIPC(t, "simulated")
	_, h := owner.alloc(100, 3)
	x := openIPC[uint32](t, s, h)
	owner.kill()
	assert.Equal(t, count(3, 100), download(t, s, x))
	_, err := runtime.OpenIPC[uint32](s, h)
	require.NoError(t, err, "it is open here")
	require.NoError(t, x.Close())
	goruntime.KeepAlive(h)
}

// The same on hardware, in processes of their own: reading may end the use of CUDA, and must not end the process.
func TestHardwareIPCOwnerDies(t *testing.T) {
	api := hardware.Open(t)
	if !inProcess(t) {
		return
	}
	rt := openOn(t, api)
	s := newStream(t, contextOf(t, rt))
	owner := startIPC(t, "hardware")
	_, h := owner.alloc(100, 3)
	x := openIPC[uint32](t, s, h)
	owner.kill()
	got := make([]uint32, 100)
	if err := runtime.Download(bg, s, got, x); err != nil {
		t.Logf("the owner is gone, and reading its memory fails: %v", err)
		var known *driver.Error
		require.ErrorAs(t, err, &known)
		return
	}
	t.Logf("the owner is gone, and its memory holds %d, %d, ...", got[0], got[1])
	assert.Equal(t, count(3, 100), got)
	require.NoError(t, x.Close())
	_, err := runtime.OpenIPC[uint32](s, h)
	t.Logf("opening it then: %v", err)
	assert.ErrorContains(t, err, "its owner must be alive")
}

func TestIPCInOneProcess(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		s := newStream(t, contextOf(t, rt))
		x := allocIPC[uint32](t, s, 10)
		_, err := runtime.OpenIPC[uint32](s, exportIPC(t, s, x))
		require.ErrorIs(t, err, driver.ResultInvalidContext)
		assert.ErrorContains(t, err, "pass the Ref on")
		require.NoError(t, x.Close())
	})
}

func TestIPCOfWhatCannotBe(t *testing.T) {
	rt, _ := open(t, twoDevices())
	c := contextAt(t, rt, 0)
	s, elsewhere := newStream(t, c), newStream(t, contextAt(t, rt, 1))
	x, pooled, closed := allocIPC[uint32](t, s, 8), alloc[uint32](t, s, 8), allocIPC[uint32](t, s, 8)
	h := exportIPC(t, s, x)
	require.NoError(t, closed.Close())
	canceled, cancel := context.WithCancel(bg)
	cancel()
	export := func(ctx context.Context, s *runtime.Stream, x *runtime.Ref[uint32]) error {
		got, err := runtime.ExportIPC(ctx, s, x)
		assert.Zero(t, got)
		return err
	}
	for _, test := range []struct {
		name string
		err  error
		kind error
		text string
	}{
		{"no stream", second(runtime.AllocIPC[uint32](nil, 1)), driver.ErrInvalidArgument, "stream that was never made"},
		{"fewer than none", second(runtime.AllocIPC[uint32](s, -1)), driver.ErrInvalidArgument, "-1 elements"},
		{"too many", second(runtime.AllocIPC[uint32](s, 1<<61)), driver.ErrInvalidArgument, "more than can be addressed"},
		{"more than there is", second(runtime.AllocIPC[uint32](s, 1<<38)), driver.ErrOutOfMemory, "cuMemAlloc"},
		{"pointers", second(runtime.AllocIPC[*int](s, 1)), driver.ErrInvalidArgument, "holds pointers"},
		{"export on no stream", export(bg, nil, x), driver.ErrInvalidArgument, "stream that was never made"},
		{"export without a context", export(nil, s, x), driver.ErrInvalidArgument, "context that is not nil"},
		{"export too late", export(canceled, s, x), context.Canceled, ""},
		{"export nothing", export(bg, s, nil), driver.ErrInvalidArgument, "never allocated"},
		{"export what is closed", export(bg, s, closed), driver.ErrClosed, ""},
		{"export a view out of bounds", export(bg, s, x.Slice(3, 9)), driver.ErrInvalidArgument, "slice [3:9]"},
		{"export on another device", export(bg, elsewhere, x), driver.ErrInvalidArgument, "export memory of device 0 on a stream of device 1"},
		{"export memory of the arena", export(bg, s, pooled), driver.ErrInvalidArgument, "not of AllocIPC"},
		{"open on no stream", second(runtime.OpenIPC[uint32](nil, h)), driver.ErrInvalidArgument, "stream that was never made"},
		{"open other elements", second(runtime.OpenIPC[uint64](s, h)), driver.ErrInvalidArgument, "of elements of 4 bytes, want 8"},
		{"open as pointers", second(runtime.OpenIPC[[2]uint16](s, h)), driver.ResultInvalidContext, ""}, // passed on to the driver
		{"open on another device", second(runtime.OpenIPC[uint32](elsewhere, h)), driver.ErrInvalidArgument, "and the stream of GPU-"},
		{"open zeros", second(runtime.OpenIPC[uint32](s, runtime.IPCHandle{})), driver.ErrInvalidArgument, "ExportIPC has not made it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.ErrorIs(t, test.err, test.kind)
			assert.ErrorContains(t, test.err, test.text)
		})
	}
	assert.EqualValues(t, 2, c.Stats().Refs)
}

// forge changes a handle, and gives it the checksum that fits.
func forge(h runtime.IPCHandle, at int, bytes ...byte) runtime.IPCHandle {
	copy(h[at:], bytes)
	sum := len(h) - crc32.Size
	binary.LittleEndian.PutUint32(h[sum:], crc32.ChecksumIEEE(h[:sum]))
	return h
}

// Where a handle has its parts.
const (
	ipcVersionAt, ipcElementAt, ipcCountAt, ipcOffsetAt, ipcDeviceAt, ipcMemoryAt = 4, 8, 16, 24, 32, 48
)

func TestIPCHandleThatLies(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	other := startIPC(t, "simulated")
	_, h := other.alloc(16, 0)
	ff := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	damaged := h
	damaged[20]++
	for _, test := range []struct {
		name string
		h    runtime.IPCHandle
		kind error
		text string
	}{
		{"of something else", forge(h, 0, 'x'), driver.ErrInvalidArgument, `begins with "xCMH"`},
		{"of another version", forge(h, ipcVersionAt, 9), driver.ErrInvalidArgument, "version 9, want 1"},
		{"damaged", damaged, driver.ErrInvalidArgument, "damaged on its way"},
		{"other elements", forge(h, ipcElementAt, 3), driver.ErrInvalidArgument, "elements of 3 bytes, want 4"},
		{"another device", forge(h, ipcDeviceAt, 1, 2, 3, 4), driver.ErrInvalidArgument, "of device GPU-01020304-"},
		{"more elements than an int", forge(h, ipcCountAt, ff...), driver.ErrInvalidArgument, "18446744073709551615 elements"},
		{"more elements than an address", forge(h, ipcCountAt+6, 0xff, 0x1f), driver.ErrInvalidArgument, "more than can be addressed"},
		{"more elements than there are", forge(h, ipcCountAt+2, 0x10), driver.ErrInvalidArgument, "open 4194368 bytes at offset 0 of IPC memory that has 2097152"},
		{"an offset out of it", forge(h, ipcOffsetAt, ff...), driver.ErrInvalidArgument, "at offset 18446744073709551615"},
		{"an offset at its end", forge(h, ipcOffsetAt+2, 0x20), driver.ErrInvalidArgument, "open 64 bytes at offset 2097152 of IPC memory that has 2097152"},
		{"an odd offset", forge(h, ipcOffsetAt, 2), driver.ErrInvalidArgument, "no multiple of 4"},
		{"what the driver does not know", forge(h, ipcMemoryAt, 1, 2, 3), driver.ResultInvalidValue, "its owner must be alive"},
	} {
		t.Run(test.name, func(t *testing.T) {
			x, err := runtime.OpenIPC[uint32](s, test.h)
			require.ErrorIs(t, err, test.kind)
			assert.ErrorContains(t, err, test.text)
			assert.Nil(t, x)
		})
	}
	assert.Equal(t, 4, gpu.Calls("cuIpcCloseMemHandle"), "of what was opened, and was not as the handle says")
	require.NoError(t, openIPC[uint32](t, s, h).Close())
}

// Whatever call fails, nothing stays behind.
func TestIPCFaults(t *testing.T) {
	const refused = driver.ResultNotPermitted
	_, h := startIPC(t, "simulated").alloc(16, 0)
	for _, test := range []struct {
		name  string
		fail  []string // the next call of each
		with  driver.Result
		alloc string // part of the error of AllocIPC, OpenIPC and Close of each; "" if it works
		open  string
		close string
	}{
		{name: "nothing"},
		{name: "short of memory", fail: []string{"cuMemAlloc"}, with: driver.ResultOutOfMemory},
		{name: "no memory", fail: []string{"cuMemAlloc", "cuMemAlloc"}, with: driver.ResultOutOfMemory, alloc: "cuMemAlloc"},
		{name: "not shared", fail: []string{"cuIpcGetMemHandle"}, with: driver.ResultNotSupported, alloc: "does not share memory of the device"},
		{name: "not filled", fail: []string{"cuMemsetD8Async"}, with: refused, alloc: "cuMemsetD8Async"},
		{name: "not opened", fail: []string{"cuIpcOpenMemHandle"}, with: driver.ResultMapFailed, open: "its owner must be alive"},
		{name: "not measured", fail: []string{"cuMemGetAddressRange"}, with: refused, open: "cuMemGetAddressRange"},
		{name: "not closed after that", fail: []string{"cuMemGetAddressRange", "cuIpcCloseMemHandle"}, with: refused, open: "cuIpcCloseMemHandle"},
		{name: "not freed", fail: []string{"cuMemFree"}, with: refused, close: "cuMemFree"},
		{name: "not closed", fail: []string{"cuIpcCloseMemHandle"}, with: refused, close: "cuIpcCloseMemHandle"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rt, gpu := openFaulty(t, drivertest.Config{})
			c := contextOf(t, rt)
			s := newStream(t, c)
			times := map[string]int{}
			for _, op := range test.fail {
				times[op]++
				gpu.Fail(op, times[op], test.with)
			}
			mine, err := runtime.AllocIPC[uint32](s, 16)
			says(t, err, test.alloc)
			theirs, err := runtime.OpenIPC[uint32](s, h)
			says(t, err, test.open)
			says(t, errors.Join(mine.Close(), theirs.Close()), test.close)
			assert.Zero(t, c.Stats().Refs)
			require.NoError(t, s.Synchronize(bg))
			if !strings.Contains(test.open+test.close, "cuMemFree") && !strings.Contains(test.open+test.close, "cuIpcCloseMemHandle") {
				assert.NotContains(t, strings.Join(gpu.Leaks(), "\n"), "device memory")
			}
		})
	}
}

// says holds an error against a part of its text, or none against "".
func says(t *testing.T, err error, text string) {
	t.Helper()
	if text == "" {
		require.NoError(t, err)
		return
	}
	require.ErrorContains(t, err, text)
	var known *driver.Error
	require.ErrorAs(t, err, &known)
}

// ExportIPC waits for the work that writes, on whatever stream.
func TestIPCExportWaits(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s, writer := newStream(t, c), newStream(t, c)
	x := allocIPC[uint32](t, s, 4)
	synchronize(t, s) // so that nothing but the export has it wait
	release := hold(t, writer)
	require.NoError(t, runtime.Fill(writer, x, 7))
	waits := gpu.Calls("cuStreamWaitEvent")
	ctx, cancel := context.WithCancelCause(bg)
	early := errors.New("given up")
	failed := async(func() error { return second(runtime.ExportIPC(ctx, s, x)) })
	written := async(func() bool {
		_, err := runtime.ExportIPC(bg, s, x)
		done, queryErr := writer.Query()
		return assert.NoError(t, errors.Join(err, queryErr)) && done
	})
	eventually(t, "the stream waits for the writer", func() bool { return gpu.Calls("cuStreamWaitEvent") > waits })
	cancel(early)
	assert.ErrorIs(t, await(t, "the end of an export that is given up", failed), early)
	release()
	assert.True(t, await(t, "the export", written), "exported before it was written")
	require.NoError(t, x.Close())
}

func TestIPCWhileCaptured(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s, captured := newStream(t, c), newStream(t, c)
	other := startIPC(t, "simulated")
	_, h := other.alloc(4, 0)
	mine, theirs := allocIPC[uint32](t, s, 4), openIPC[uint32](t, s, h)
	for _, call := range []func() error{
		func() error { return second(runtime.AllocIPC[uint32](captured, 1)) },
		func() error { return second(runtime.OpenIPC[uint32](captured, h)) },
		func() error { return second(runtime.ExportIPC(bg, captured, mine)) },
	} {
		g, err := captured.Capture(func(*runtime.Stream) error {
			assert.ErrorIs(t, call(), driver.ErrCaptureFailed)
			return nil
		})
		assert.ErrorIs(t, err, driver.ErrCaptureFailed)
		assert.Nil(t, g)
	}
	g, err := captured.Capture(func(*runtime.Stream) error {
		return errors.Join(runtime.Fill(captured, mine, 9), runtime.Fill(captured, theirs, 9), mine.Close(), theirs.Close(),
			second(runtime.AllocIPC[uint32](s, 1)))
	})
	require.NoError(t, err)
	assert.Zero(t, gpu.Calls("cuIpcCloseMemHandle"), "the graph uses it")
	require.NoError(t, g.Close())
	require.NoError(t, alloc[uint32](t, s, 1).Close())
	assert.Equal(t, 1, gpu.Calls("cuIpcCloseMemHandle"))
}

// A Reset takes memory away from its Refs, and so does the end of the runtime.
func TestIPCAndReset(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	other := startIPC(t, "simulated")
	at, h := other.alloc(4, 1)
	mine, theirs := allocIPC[uint32](t, s, 4), openIPC[uint32](t, s, h)
	require.NoError(t, c.Reset(bg))
	assert.Equal(t, 1, gpu.Calls("cuIpcCloseMemHandle"))
	for _, x := range []*runtime.Ref[uint32]{mine, theirs} {
		_, err := x.Access()
		assert.ErrorIs(t, err, driver.ErrRefStale)
		require.NoError(t, x.Close())
	}
	assert.ErrorIs(t, second(runtime.ExportIPC(bg, s, mine)), driver.ErrRefStale)
	s = newStream(t, c)
	assert.ErrorIs(t, second(runtime.ExportIPC(bg, s, mine)), driver.ErrRefStale)
	_, err := runtime.AllocIPC[uint32](s, 4)
	require.NoError(t, err)
	assert.Equal(t, count(1, 4), download(t, s, openIPC[uint32](t, s, h)))
	assert.Equal(t, count(1, 4), other.must(ipcCall{Do: "read", At: at}).Data)
	assert.Equal(t, 1, gpu.Calls("cuIpcCloseMemHandle"), "the end of the runtime closes it")
}

func TestIPCOnALostDevice(t *testing.T) {
	rt, gpu := openFaulty(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	other := startIPC(t, "simulated")
	_, h := other.alloc(4, 1)
	mine, theirs := allocIPC[uint32](t, s, 4), openIPC[uint32](t, s, h)
	gpu.Vanish(0)
	assert.ErrorIs(t, second(runtime.AllocIPC[uint32](s, 1)), driver.ErrDeviceLost)
	assert.ErrorIs(t, second(runtime.OpenIPC[uint32](s, h)), driver.ErrDeviceLost)
	assert.ErrorIs(t, second(runtime.ExportIPC(bg, s, mine)), driver.ErrDeviceLost)
	require.NoError(t, errors.Join(mine.Close(), theirs.Close()))
	assert.Zero(t, gpu.Calls("cuIpcCloseMemHandle"))
}

// The garbage collector finds Refs that nobody has closed.
func TestIPCForgotten(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s := newStream(t, c)
	other := startIPC(t, "simulated")
	_, h := other.alloc(4, 1)
	func() { allocIPC[uint32](t, s, 4); openIPC[uint32](t, s, h) }()
	eventually(t, "both are found", func() bool {
		goruntime.GC()
		require.NoError(t, alloc[uint32](t, s, 1).Close())
		return gpu.Calls("cuIpcCloseMemHandle") == 1 && c.Stats().Refs == 0
	})
}

// Goroutines share memory with another process while the context is reset.
func TestIPCConcurrently(t *testing.T) {
	rt, _ := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	other := startIPC(t, "simulated")
	at, h := other.alloc(64, 1)
	var group sync.WaitGroup
	work := func(s *runtime.Stream) error {
		mine, err := runtime.AllocIPC[uint32](s, 64)
		if err != nil {
			return err
		}
		defer func() { assert.NoError(t, mine.Close()) }()
		theirs, err := runtime.OpenIPC[uint32](s, h)
		if err != nil {
			return err
		}
		defer func() { assert.NoError(t, theirs.Close()) }()
		got := make([]uint32, 64)
		err = errors.Join(runtime.Copy(s, mine, theirs), runtime.Download(bg, s, got, mine), second(runtime.ExportIPC(bg, s, mine)))
		if err == nil {
			assert.Equal(t, count(1, 64), got)
		}
		return err
	}
	for range 4 {
		group.Go(func() {
			for range 20 {
				s, err := c.NewStream()
				if err == nil {
					err = errors.Join(work(s), s.Close())
				}
				if err != nil {
					assert.ErrorIs(t, err, driver.ErrRefStale)
				}
			}
		})
	}
	for range 3 {
		assert.NoError(t, c.Reset(bg))
	}
	group.Wait()
	assert.Equal(t, count(1, 64), other.must(ipcCall{Do: "read", At: at}).Data)
	assert.Zero(t, c.Stats().Refs)
}
