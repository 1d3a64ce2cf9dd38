package runtime_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/runtime"
)

func TestCloseTwice(t *testing.T) {
	rt, gpu := open(t, drivertest.Config{})
	c := contextOf(t, rt)
	s, err := c.NewStreamWithPriority(-1) // which is not kept
	require.NoError(t, err)
	for _, o := range []struct {
		name, op string
		close    func() error
	}{
		{"stream", "cuStreamDestroy", s.Close},
		{"event", "cuEventDestroy", newEvent(t, c).Close},
		{"host buffer", "cuMemFreeHost", allocHost[byte](t, c, 1).Close},
		{"module", "cuModuleUnload", loadKernels(t, c).Close},
		{"runtime", "cuDevicePrimaryCtxRelease", rt.Close},
	} {
		before := gpu.Calls(o.op)
		assert.NoError(t, o.close(), o.name)
		assert.Equal(t, before+1, gpu.Calls(o.op), o.name)
		assert.NoError(t, o.close(), o.name)
		assert.Equal(t, before+1, gpu.Calls(o.op), o.name)
	}
	assert.Empty(t, gpu.Leaks())
}

// closedUses are uses of objects that were closed one by one.
func closedUses(t *testing.T, c *runtime.Context) []namedCall {
	t.Helper()
	s, gone := newStream(t, c), newStream(t, c)
	e, goneEvent := newEvent(t, c), newEvent(t, c)
	x, goneRef := alloc[uint32](t, s, 8), alloc[uint32](t, s, 8)
	h, goneHost := allocHost[uint32](t, c, 8), allocHost[uint32](t, c, 8)
	k := kernel(t, c, "add")
	goneModule := loadKernels(t, c)
	goneKernel, err := goneModule.Kernel("add")
	require.NoError(t, err)
	view := goneRef.Slice(0, 8)
	graph, goneGraph := capture(t, s, zeroing(x)), capture(t, s, zeroing(x))
	exec, err := graph.Instantiate()
	require.NoError(t, err)
	goneExec, err := graph.Instantiate()
	require.NoError(t, err)
	for _, o := range []interface{ Close() error }{gone, goneEvent, goneRef, goneHost, goneModule, goneGraph, goneExec} {
		require.NoError(t, o.Close())
	}
	ctx := context.Background()
	withEnd, cancel := context.WithCancel(ctx)
	t.Cleanup(cancel)
	data := make([]uint32, 8)
	return []namedCall{
		{"Stream.Query", func() error { _, err := gone.Query(); return err }},
		{"Stream.Synchronize", func() error { return gone.Synchronize(ctx) }},
		{"Stream.Synchronize, with an end", func() error { return gone.Synchronize(withEnd) }},
		{"Stream.LaunchHostFunc", func() error { return gone.LaunchHostFunc(func() {}) }},
		{"Stream.Wait", func() error { return gone.Wait(e) }},
		{"Stream.Wait for an event", func() error { return s.Wait(goneEvent) }},
		{"Event.Record", func() error { return goneEvent.Record(s) }},
		{"Event.Record on a stream", func() error { return e.Record(gone) }},
		{"Event.Query", func() error { _, err := goneEvent.Query(); return err }},
		{"Event.Synchronize", func() error { return goneEvent.Synchronize(ctx) }},
		{"Event.Since", func() error { _, err := goneEvent.Since(e); return err }},
		{"Event.Since start", func() error { _, err := e.Since(goneEvent); return err }},
		{"Upload", func() error { return runtime.Upload(bg, s, goneRef, data) }},
		{"Upload on a stream", func() error { return runtime.Upload(bg, gone, x, data) }},
		{"Download", func() error { return runtime.Download(bg, s, data, goneRef) }},
		{"Download of a view", func() error { return runtime.Download(bg, s, data, view) }},
		{"UploadHost", func() error { return runtime.UploadHost(s, goneRef, h) }},
		{"UploadHost host", func() error { return runtime.UploadHost(s, x, goneHost) }},
		{"DownloadHost", func() error { return runtime.DownloadHost(s, h, goneRef) }},
		{"DownloadHost host", func() error { return runtime.DownloadHost(s, goneHost.Slice(0, 8), x) }},
		{"Copy", func() error { return runtime.Copy(s, goneRef, x) }},
		{"Copy source", func() error { return runtime.Copy(s, x, goneRef) }},
		{"Copy stream", func() error { return runtime.Copy(gone, x, x) }},
		{"Fill", func() error { return runtime.Fill(s, goneRef, 1) }},
		{"Zero", func() error { return runtime.Zero(s, view) }},
		{"Launch", func() error { return addTo(goneKernel, s, x, 1) }},
		{"Launch on a stream", func() error { return addTo(k, gone, x, 1) }},
		{"Launch with a buffer", func() error { return addTo(k, s, view, 1) }},
		{"Capture", func() error { _, err := gone.Capture(func(*runtime.Stream) error { return nil }); return err }},
		{"Graph.Nodes", func() error { _, err := goneGraph.Nodes(); return err }},
		{"Graph.Instantiate", func() error { _, err := goneGraph.Instantiate(); return err }},
		{"GraphExec.Launch", func() error { return goneExec.Launch(s) }},
		{"GraphExec.Launch on a stream", func() error { return exec.Launch(gone) }},
		{"GraphExec.Upload", func() error { return goneExec.Upload(s) }},
		{"GraphExec.Update", func() error { return goneExec.Update(graph) }},
		{"GraphExec.Update with a graph", func() error { return exec.Update(goneGraph) }},
		{"Variable", func() error { _, err := runtime.FindVariable[uint32](goneModule, "answer"); return err }},
		{"Kernel.Shape", func() error { _, err := goneKernel.Shape(10); return err }},
		{"Module.Kernel", func() error { _, err := goneModule.Kernel("add"); return err }},
		{"Module.Variable", func() error { _, _, err := goneModule.Variable("answer"); return err }},
		{"Kernel.MaxPotentialBlockSize", func() error { _, _, err := goneKernel.MaxPotentialBlockSize(0); return err }},
		{"Kernel.MaxActiveBlocks", func() error { _, err := goneKernel.MaxActiveBlocks(1, 0); return err }},
	}
}

func TestUseAfterClose(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		for _, use := range closedUses(t, contextOf(t, rt)) {
			assert.ErrorIs(t, use.call(), driver.ErrClosed, use.name)
		}
	})
	rt, gpu := open(t, drivertest.Config{})
	uses := closedUses(t, contextOf(t, rt))
	calls := allCalls(gpu)
	for _, use := range uses {
		assert.ErrorIs(t, use.call(), driver.ErrClosed, use.name)
	}
	assert.Equal(t, calls, allCalls(gpu), "the driver hears nothing of it")
}

// Closing the runtime closes all that it owns.
func TestUseAfterCloseOfTheRuntime(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		b, err := rt.Probe("test")
		require.NoError(t, err)
		uses := slices.Concat(hotCalls(t, c), coldCalls(t, c), []namedCall{
			{"Probe of the same label", func() error { _, err := rt.Probe("test"); return err }},
			{"Probe of another label", func() error { _, err := rt.Probe("other"); return err }},
			{"Backend.Stream", func() error { _, err := b.Stream.Query(); return err }},
			{"Context", func() error { _, err := rt.Context(c.Device().Ordinal); return err }},
			{"Refresh", rt.Refresh},
		})
		closing := []interface{ Close() error }{newStream(t, c), newEvent(t, c), alloc[byte](t, newStream(t, c), 1), allocHost[byte](t, c, 1), loadKernels(t, c)}
		require.NoError(t, rt.Close())
		copies := []string{"Upload", "Download", "UploadHost", "DownloadHost", "Copy", "Fill", "Zero"}
		for _, use := range uses {
			if err := use.call(); slices.Contains(copies, use.name) { // whose memory is looked at first
				require.ErrorIs(t, err, driver.ErrRefStale, use.name)
				assert.ErrorContains(t, err, "device state closed", use.name)
			} else {
				assert.ErrorIs(t, err, driver.ErrClosed, use.name)
			}
		}
		for _, o := range closing {
			assert.NoError(t, o.Close())
		}
		assert.NoError(t, rt.Close())
		assert.Zero(t, rt.Stats())
		assert.NotEmpty(t, rt.Devices(), "what is known about the machine is still known")
	})
}

// order notes the functions that are called.
type order struct {
	mu  sync.Mutex
	ops []string
}

func (o *order) note(op string) driver.Result {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.ops) == 0 || o.ops[len(o.ops)-1] != op {
		o.ops = append(o.ops, op)
	}
	return driver.Success
}

// ends are the functions that end something, and the waits before.
func (o *order) ends() []string {
	return slices.DeleteFunc(slices.Clone(o.ops), func(op string) bool {
		return !regexp.MustCompile("Destroy|Free|Unload|Release|Synchronize").MatchString(op)
	})
}

func TestCloseGivesBackInOrder(t *testing.T) {
	var calls order
	rt, _ := open(t, drivertest.Config{OnCall: calls.note})
	c := contextOf(t, rt)
	for range 3 { // in another order than they are given back in
		allocHost[byte](t, c, 1)
		alloc[byte](t, newStream(t, c), 1)
		loadKernels(t, c)
		newStream(t, c)
		newEvent(t, c)
	}
	synchronize(t, newStream(t, c)) // so that there is memory for tickets
	calls.ops = nil
	require.NoError(t, rt.Close())
	assert.Equal(t, []string{"cuCtxSynchronize", "cuStreamSynchronize", "cuMemFree", "cuMemPoolDestroy", "cuMemFreeHost", "cuEventDestroy", "cuStreamDestroy",
		"cuModuleUnload", "cuMemFreeHost", "cuDevicePrimaryCtxRelease"}, calls.ends())
}

// What still runs uses what is about to be given back.
func TestCloseWaitsForTheDevice(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		x, h := alloc[uint32](t, s, 1000), allocHost[uint32](t, c, 1000)
		k := kernel(t, c, "add")
		release := hold(t, s)
		require.NoError(t, runtime.Fill(s, x, 1))
		require.NoError(t, addTo(k, s, x, 1))
		require.NoError(t, runtime.DownloadHost(s, h, x))
		closed := async(rt.Close)
		time.Sleep(20 * time.Millisecond)
		assert.Empty(t, closed)
		release()
		assert.NoError(t, await(t, "the runtime closes", closed))
	})
}

// Work of one device uses memory of another, which must not go before.
func TestCloseWaitsForAllDevices(t *testing.T) {
	check := func(t *testing.T, rt *runtime.Runtime, first int) {
		a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
		onA, onB := newStream(t, a), newStream(t, b)
		fromA, toA := alloc[uint32](t, onA, 1000), alloc[uint32](t, onA, 1000)
		fromB, toB := alloc[uint32](t, onB, 1000), alloc[uint32](t, onB, 1000)
		release := []func(){hold(t, onA), hold(t, onB)}
		require.NoError(t, runtime.Copy(onA, toA, fromB))
		require.NoError(t, runtime.Copy(onB, toB, fromA))
		closing := []<-chan error{async(rt.Close)}
		time.Sleep(10 * time.Millisecond)
		// One of the contexts may be closing by now, and the other may not.
		closing = append(closing, async(fromA.Close), async(fromB.Close))
		time.Sleep(10 * time.Millisecond)
		for _, device := range []int{first, 1 - first} {
			assert.Empty(t, closing[0], "device %d works", device)
			release[device]()
			time.Sleep(10 * time.Millisecond)
		}
		for _, c := range closing {
			assert.NoError(t, await(t, "everything closes", c))
		}
	}
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		for round := range 8 { // in which order the devices are closed is random
			check(t, openOn(t, rt.Driver()), round%2)
		}
	})
}

// A stream that was closed may have left work behind.
func TestCloseWaitsForWorkOfClosedStreams(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := alloc[uint32](t, s, 1000)
		release := hold(t, s)
		require.NoError(t, runtime.Fill(s, x, 1))
		require.NoError(t, s.Close())
		closed := async(rt.Close)
		time.Sleep(20 * time.Millisecond)
		assert.Empty(t, closed)
		release()
		assert.NoError(t, await(t, "the runtime closes", closed))
	})
}

// Closing memory of the host or a module waits for the work that may use it. That of the
// device is given back behind the work.
func TestClosingWaitsForTheDevice(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		a := contextAt(t, rt, 0)
		s := newStream(t, a)
		x, y, h := alloc[uint32](t, s, 1000), alloc[uint32](t, s, 1000), allocHost[uint32](t, a, 1000)
		m := loadKernels(t, a)
		k, err := m.Kernel("add")
		require.NoError(t, err)
		release := hold(t, s)
		require.NoError(t, runtime.UploadHost(s, x, h))
		require.NoError(t, runtime.Copy(s, y, x))
		require.NoError(t, addTo(k, s, x, 1))
		require.NoError(t, errors.Join(x.Close(), y.Close()))
		closing := []<-chan error{async(h.Close), async(m.Close)}
		time.Sleep(20 * time.Millisecond)
		for _, c := range closing {
			assert.Empty(t, c)
		}
		release()
		for _, c := range closing {
			assert.NoError(t, await(t, "it closes", c))
		}
	})
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		a, b := contextAt(t, rt, 0), contextAt(t, rt, 1)
		s := newStream(t, b)
		h, y := allocHost[uint32](t, a, 1000), alloc[uint32](t, s, 1000)
		release := hold(t, s)
		require.NoError(t, runtime.UploadHost(s, y, h))
		closing := async(h.Close) // which the other device still reads
		time.Sleep(20 * time.Millisecond)
		assert.Empty(t, closing)
		release()
		assert.NoError(t, await(t, "it closes", closing))
	})
}

func TestCloseWaitsForCallsInside(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s := newStream(t, c)
		x := alloc[uint32](t, s, 1)
		release := hold(t, s)
		waits := []<-chan error{async(func() error { return runtime.Download(bg, s, make([]uint32, 1), x) })}
		time.Sleep(10 * time.Millisecond)
		var closing []<-chan error
		for range 2 { // the second Close waits just as the first
			closing = append(closing, async(s.Close))
		}
		time.Sleep(10 * time.Millisecond)
		closing = append(closing, async(rt.Close))
		time.Sleep(10 * time.Millisecond)
		for _, c := range closing {
			assert.Empty(t, c)
		}
		_, err := s.Query()
		assert.ErrorIs(t, err, driver.ErrClosed, "no new calls meanwhile")
		release()
		for _, c := range append(waits, closing...) {
			assert.NoError(t, await(t, "the calls end", c))
		}
	})
}

// Waits are not inside: they outlive what they wait for, and end with the work.
func TestCloseDoesNotWaitForWaits(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		s := newStream(t, contextOf(t, rt))
		release := hold(t, s)
		waits := []<-chan error{async(func() error { return s.Synchronize(bg) })}
		ran := make(chan error, 1)
		s.AfterFunc(func(err error) { ran <- err })
		eventually(t, "both wait", func() bool { return rt.Stats().Waits == 2 })
		require.NoError(t, s.Close())
		closing := async(rt.Close)
		time.Sleep(10 * time.Millisecond)
		assert.Empty(t, closing)
		assert.Empty(t, ran)
		release()
		for _, c := range append(waits, closing, ran) {
			assert.NoError(t, await(t, "the calls end", c))
		}
	})
}

// A failure while closing does not keep the rest from being given back.
func TestCloseReportsFailures(t *testing.T) {
	rt, gpu := openFaulty(t, drivertest.Config{})
	c := contextOf(t, rt)
	newEvent(t, c)
	alloc[byte](t, newStream(t, c), 1)
	gpu.Fail("cuEventDestroy", 1, driver.ResultUnknown)
	gpu.Fail("cuMemFree", 1, driver.ResultInvalidValue)
	err := rt.Close()
	require.ErrorContains(t, err, "closing the context of device 0")
	assert.ErrorIs(t, err, driver.ResultUnknown)
	assert.ErrorIs(t, err, driver.ResultInvalidValue)
	assert.Equal(t, 1, gpu.Calls("cuDevicePrimaryCtxRelease"))
	assert.NoError(t, rt.Close())

	rt, gpu = openFaulty(t, drivertest.Config{})
	s, err := contextOf(t, rt).NewStreamWithPriority(-1) // which is not kept
	require.NoError(t, err)
	gpu.Fail("cuStreamDestroy", 1, driver.ResultUnknown)
	assert.ErrorIs(t, s.Close(), driver.ResultUnknown)
	assert.NoError(t, s.Close())
}

// All calls of goroutines that are at work end, either well or because the runtime is
// closed, and nothing is left over.
func TestCloseWhileOthersWork(t *testing.T) {
	onDrivers(t, func(t *testing.T, rt *runtime.Runtime) {
		var contexts []*runtime.Context
		for place := range min(2, len(rt.Devices())) {
			contexts = append(contexts, contextAt(t, rt, place))
		}
		var wg, working sync.WaitGroup
		working.Add(16)
		for i := range 16 {
			wg.Go(func() {
				c := contexts[i%len(contexts)]
				for round := 0; ; round++ {
					err := work(c, 100)
					if round == 1 || err != nil && round < 1 {
						working.Done()
					}
					if err != nil {
						assert.ErrorIs(t, err, driver.ErrClosed)
						return
					}
				}
			})
		}
		working.Wait()
		assert.NoError(t, rt.Close())
		wg.Wait()
	})
}

// work does a job from the beginning to the end.
func work(c *runtime.Context, n int) error {
	s, err := c.NewStream()
	if err != nil {
		return err
	}
	defer s.Close()
	m, err := c.LoadModule(runtime.Image{Code: kernelsPTX})
	if err != nil {
		return err
	}
	defer m.Close()
	k, err := m.Kernel("add")
	if err != nil {
		return err
	}
	x, err := runtime.Alloc[uint32](s, n)
	if err != nil {
		return err
	}
	defer x.Close()
	if err := runtime.Upload(bg, s, x, count(0, n)); err != nil {
		return err
	}
	if err := addTo(k, s, x, 5); err != nil {
		return err
	}
	got := make([]uint32, n)
	if err := runtime.Download(bg, s, got, x); err != nil {
		return err
	}
	if !slices.Equal(got, count(5, n)) {
		return driver.Errorf(driver.ErrDriverCallFailed, "wrong result %v", got)
	}
	return nil
}
