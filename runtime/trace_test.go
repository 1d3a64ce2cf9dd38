package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/driver/drivertest/hardware"
	"github.com/purecuda/purecuda/nvrtc/nvrtctest"
	"github.com/purecuda/purecuda/runtime"
)

// named is a context that a test knows again.
func named(name string) context.Context { return context.WithValue(bg, namedKey{}, name) }

type namedKey struct{}

func nameOf(ctx context.Context) string {
	name, _ := ctx.Value(namedKey{}).(string)
	return name
}

// heard is what the functions of a trace were told: "launch add of request".
type heard struct {
	mu      sync.Mutex
	events  []string
	calls   []runtime.TraceCall
	kernels chan runtime.TraceKernel // nil: device times are not asked for
}

func (h *heard) note(ctx context.Context, c runtime.TraceCall, format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, fmt.Sprintf(format, args...)+" of "+nameOf(ctx))
	h.calls = append(h.calls, c)
}

// take returns what was told since the last take.
func (h *heard) take() (events []string, calls []runtime.TraceCall) {
	h.mu.Lock()
	defer h.mu.Unlock()
	events, calls, h.events, h.calls = h.events, h.calls, nil, nil
	return events, calls
}

func (h *heard) trace() *runtime.Trace {
	t := &runtime.Trace{
		Launch: func(ctx context.Context, l runtime.TraceLaunch) {
			h.note(ctx, l.TraceCall, "launch %s %d", l.Kernel, l.Shape.Grid.X)
		},
		Copy: func(ctx context.Context, c runtime.TraceCopy) {
			h.note(ctx, c.TraceCall, "%s %d", c.Direction, c.Bytes)
		},
		Wait: func(ctx context.Context, w runtime.TraceCall) { h.note(ctx, w, "wait") },
	}
	if h.kernels != nil {
		t.Kernel = func(ctx context.Context, k runtime.TraceKernel) { h.kernels <- k }
	}
	return t
}

// traced runs a test on a simulated driver and on the one of this machine, with a trace.
func traced(t *testing.T, f func(t *testing.T, h *heard, rt *runtime.Runtime)) {
	for _, on := range []struct {
		name string
		api  func(t *testing.T) driver.API
	}{
		{"simulated", func(t *testing.T) driver.API { return drivertest.ForTest(t, twoDevices()) }},
		{"hardware", func(t *testing.T) driver.API { return hardware.Open(t) }},
	} {
		t.Run(on.name, func(t *testing.T) {
			h := &heard{kernels: make(chan runtime.TraceKernel, 16)}
			f(t, h, openOn(t, on.api(t), runtime.WithTrace(h.trace())))
		})
	}
}

func TestTrace(t *testing.T) {
	traced(t, func(t *testing.T, h *heard, rt *runtime.Runtime) {
		const n = 1000
		c := contextOf(t, rt)
		s, k := newStream(t, c), kernel(t, c, "add")
		x, y := alloc[uint32](t, s, n), alloc[uint32](t, s, n)
		pinned := allocHost[uint32](t, c, n)
		graph := instantiate(t, capture(t, s, adding(k, x, 1, 1)))
		event := newEvent(t, c)
		h.take()
		s.SetTraceContext(named("request"))
		began := time.Now()
		for _, call := range []struct {
			call func() error
			want string
		}{
			{func() error { return runtime.Upload(named("upload"), s, x, count(0, n)) }, "upload 4000 of upload"},
			{func() error { return addTo(k, s, x, 5) }, "launch add 8 of request"},
			{func() error { return graph.Launch(s) }, "launch  0 of request"},
			{func() error { return runtime.Copy(s, y, x) }, "device 4000 of request"},
			{func() error { return runtime.Upload2D(named("upload"), s, y, 100, count(0, n), 100, 50, 10) }, "upload 2000 of upload"},
			{func() error { return runtime.Copy2D(s, y, 100, x, 100, 50, 10) }, "device 2000 of request"},
			{func() error { return runtime.Download2D(named("download"), s, make([]uint32, n), 100, y, 100, 50, 10) }, "download 2000 of download"},
			{func() error { return runtime.DownloadHost(s, pinned, y) }, "download 4000 of request"},
			{func() error { return runtime.UploadHost(s, x, pinned) }, "upload 4000 of request"},
			{func() error { return s.Synchronize(named("wait")) }, "wait of wait"},
			{func() error { return runtime.Download(named("download"), s, make([]uint32, n), x) }, "download 4000 of download"},
			{func() error { return errors.Join(event.Record(s), event.Synchronize(named("event"))) }, "wait of event"},
		} {
			before := time.Now()
			require.NoError(t, call.call(), call.want)
			events, calls := h.take()
			require.Equal(t, []string{call.want}, events)
			assert.Equal(t, c.Device().Ordinal, calls[0].Device)
			if call.want != "wait of event" {
				assert.Equal(t, s.ID(), calls[0].Stream)
			}
			assert.False(t, calls[0].Start.Before(before))
			assert.LessOrEqual(t, calls[0].Took, time.Since(before))
			assert.NoError(t, calls[0].Err)
		}
		assert.Equal(t, count(6, n), pinned.Data())
		var names []string
		for range 2 {
			told := await(t, "the device time is told", h.kernels)
			names = append(names, told.Kernel)
			assert.NoError(t, told.TimeErr)
			assert.GreaterOrEqual(t, told.Time, time.Duration(0))
			assert.Less(t, told.Time, time.Since(began))
		}
		assert.ElementsMatch(t, []string{"add", ""}, names)
		s.SetTraceContext(bg)
		require.NoError(t, addTo(k, s, x, 5))
		events, _ := h.take()
		assert.Equal(t, []string{"launch add 8 of "}, events)
		await(t, "the device time is told", h.kernels)
	})
}

// What fails is told with its error, and has no device time.
func TestTraceOfErrors(t *testing.T) {
	h := &heard{kernels: make(chan runtime.TraceKernel, 16)}
	gpu := drivertest.New(twoDevices())
	t.Cleanup(func() { assert.NoError(t, gpu.Close()) })
	c := contextOf(t, openOn(t, gpu, runtime.WithTrace(h.trace())))
	s, k := newStream(t, c), kernel(t, c, "add")
	x := alloc[uint32](t, s, 10)
	h.take()
	last := func() error {
		_, calls := h.take()
		require.Len(t, calls, 1)
		return calls[0].Err
	}
	require.Error(t, k.Launch(s, one))
	assert.ErrorIs(t, last(), driver.ErrInvalidArgument)
	gpu.Fail("cuLaunchKernel", 1, driver.ResultLaunchOutOfResources)
	require.Error(t, addTo(k, s, x, 1))
	assert.ErrorIs(t, last(), driver.ResultLaunchOutOfResources)
	ctx, cancel := context.WithCancelCause(bg)
	cancel(assert.AnError)
	require.ErrorIs(t, s.Synchronize(ctx), assert.AnError)
	assert.ErrorIs(t, last(), assert.AnError)
	require.ErrorIs(t, runtime.Upload(ctx, s, x, count(0, 10)), assert.AnError)
	assert.ErrorIs(t, last(), assert.AnError)
	gpu.Fail("cuEventRecord", 1, driver.ResultUnknown)
	require.NoError(t, addTo(k, s, x, 1), "the launch goes on")
	assert.NoError(t, last())
	assert.ErrorIs(t, await(t, "the launch is told", h.kernels).TimeErr, driver.ResultUnknown)
	gpu.Fail("cuStreamQuery", 1, driver.ResultIllegalAddress)
	release := hold(t, s)
	require.NoError(t, addTo(k, s, x, 1))
	last()
	_, err := s.Query()
	require.Error(t, err)
	release()
	assert.Error(t, await(t, "the launch is told", h.kernels).TimeErr)
	assert.Empty(t, h.kernels)
}

// A launch of a capture has no events around it.
func TestTraceOfACapture(t *testing.T) {
	traced(t, func(t *testing.T, h *heard, rt *runtime.Runtime) {
		c := contextOf(t, rt)
		s, k := newStream(t, c), kernel(t, c, "add")
		x := upload(t, s, count(0, 10))
		h.take()
		g := capture(t, s, adding(k, x, 3, 1))
		events, _ := h.take()
		assert.Equal(t, []string{"launch add 1 of ", "launch add 1 of ", "launch add 1 of "}, events)
		nodes, err := g.Nodes()
		require.NoError(t, err)
		assert.Equal(t, 3, nodes)
		assert.Empty(t, h.kernels)
		require.NoError(t, g.Close())
	})
}

// A function that panics, and those that are not set, change nothing.
func TestTraceContains(t *testing.T) {
	errs := make(chan error, 16)
	trace := &runtime.Trace{
		Launch: func(context.Context, runtime.TraceLaunch) { panic("launch") },
		Kernel: func(context.Context, runtime.TraceKernel) { panic("kernel") },
		Wait:   func(context.Context, runtime.TraceCall) { panic("wait") },
		Request: func(ctx context.Context, name string) (context.Context, func(runtime.TraceRequest)) {
			if name == "panics" {
				panic("request")
			}
			return nil, func(runtime.TraceRequest) { panic("end") }
		},
	}
	rt, _ := open(t, drivertest.Config{}, runtime.WithTrace(trace), runtime.WithErrorHook(func(err error) { errs <- err }))
	c := contextOf(t, rt)
	s, k := newStream(t, c), kernel(t, c, "add")
	x := upload(t, s, count(0, 10)) // nobody hears of copies
	assert.Empty(t, errs)
	require.NoError(t, addTo(k, s, x, 1))
	synchronize(t, s)
	var got []string
	for range 3 {
		got = append(got, await(t, "the hook hears it", errs).Error())
	}
	assert.ElementsMatch(t, []string{"panic: launch", "panic: kernel", "panic: wait"}, got)

	for name, want := range map[string]string{"panics": "request", "ends": "end"} {
		ctx, end := rt.TraceRequest(named(name), name)
		assert.Equal(t, name, nameOf(ctx))
		end(runtime.TraceRequest{})
		assert.EqualError(t, await(t, "the hook hears it", errs), "panic: "+want)
	}
	assert.Equal(t, count(1, 10), download(t, s, x))
}

func TestTraceRequest(t *testing.T) {
	var got []string
	rt, _ := open(t, drivertest.Config{}, runtime.WithTrace(&runtime.Trace{
		Request: func(ctx context.Context, name string) (context.Context, func(runtime.TraceRequest)) {
			got = append(got, "begin "+name)
			return named("own"), func(r runtime.TraceRequest) { got = append(got, fmt.Sprint("end ", r.Items, r.Err)) }
		},
	}))
	ctx, end := rt.TraceRequest(bg, "mine")
	assert.Equal(t, "own", nameOf(ctx))
	end(runtime.TraceRequest{Items: 3, Err: assert.AnError})
	assert.Equal(t, []string{"begin mine", "end 3 " + assert.AnError.Error()}, got)

	plain, _ := open(t, drivertest.Config{})
	for _, rt := range []*runtime.Runtime{plain, nil, {}} {
		ctx, end := rt.TraceRequest(bg, "nobody")
		assert.Equal(t, bg, ctx)
		assert.Nil(t, end)
	}
	var nothing context.Context
	_, end = rt.TraceRequest(nothing, "nothing")
	assert.Nil(t, end)
	newStream(t, contextOf(t, rt)).SetTraceContext(nothing)
	var none *runtime.Stream
	none.SetTraceContext(bg)
	new(runtime.Stream).SetTraceContext(bg)
}

// Streams may be traced, and their contexts changed, by several goroutines.
func TestTraceConcurrently(t *testing.T) {
	h := &heard{kernels: make(chan runtime.TraceKernel, 1000)}
	rt, _ := open(t, drivertest.Config{}, runtime.WithTrace(h.trace()))
	c := contextOf(t, rt)
	s, k := newStream(t, c), kernel(t, c, "add")
	x := upload(t, s, count(0, 10))
	synchronize(t, s)
	h.take()
	var all sync.WaitGroup
	const goroutines, launches = 4, 20
	for i := range goroutines {
		all.Go(func() {
			for range launches {
				s.SetTraceContext(named(fmt.Sprint(i)))
				assert.NoError(t, addTo(k, s, x, 1))
			}
		})
	}
	all.Wait()
	for range goroutines * launches {
		assert.NoError(t, await(t, "the device time is told", h.kernels).TimeErr)
	}
	events, _ := h.take()
	assert.Len(t, events, goroutines*launches)
	assert.Equal(t, count(goroutines*launches, 10), download(t, s, x))
	assert.EqualValues(t, 0, rt.Stats().Events, "the events are given back")
}

// What compiles, links and loads is told with its time, and what the cache has is not.
func TestTraceModule(t *testing.T) {
	var got []string
	rt, gpu := open(t, drivertest.Config{}, runtime.WithTrace(&runtime.Trace{Module: func(ctx context.Context, m runtime.TraceModule) {
		assert.NotNil(t, ctx)
		assert.False(t, m.Start.IsZero())
		assert.Positive(t, m.Took)
		assert.Equal(t, m.Err == nil, m.Bytes > 0)
		got = append(got, fmt.Sprint(m.Operation, " ", m.Err == nil))
	}}))
	c := contextOf(t, rt)
	for range 2 {
		m, err := c.LinkModule(partsOf(addOne, addend)...)
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
	_, err := c.LinkModule(partsOf(addOne)...)
	require.Error(t, err)
	gpu.Fail("cuModuleLoadDataEx", 1, driver.ResultInvalidPTX)
	_, err = c.LoadModule(partsOf(addend)...)
	require.Error(t, err)
	assert.Equal(t, []string{"link true", "load true", "link false", "load false"}, got)

	// A compile has the ctx of its caller, and so has what is loaded for it.
	_, compiler := simulatedNVRTC(t, nvrtctest.Config{})
	var all []string
	trace := &runtime.Trace{Module: func(ctx context.Context, m runtime.TraceModule) {
		all = append(all, fmt.Sprint(nameOf(ctx), " ", m.Operation, " ", m.Cached, " ", m.Err == nil))
	}}
	for range 2 {
		rt, _ := open(t, drivertest.Config{}, runtime.WithTrace(trace), runtime.WithCompiler(compiler))
		m, err := contextOf(t, rt).Compile(named("mine"), adder)
		require.NoError(t, err)
		require.NoError(t, m.Close())
	}
	assert.Equal(t, []string{"mine compile false true", "mine load false true", "mine compile true true", "mine load false true"}, all)
}
