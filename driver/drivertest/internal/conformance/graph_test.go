package conformance

import (
	"os"
	"path/filepath"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

// capture builds a graph from what build puts on a stream.
func (e *env) capture(s driver.Stream, build func()) driver.Graph {
	e.Helper()
	e.ok(e.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
	build()
	g, r := e.api.StreamEndCapture(s)
	e.ok(r)
	e.Cleanup(func() { e.ok(e.api.GraphDestroy(g)) })
	return g
}

// graph is an empty one.
func (e *env) graph() driver.Graph {
	e.Helper()
	g, r := e.api.GraphCreate(0)
	e.ok(r)
	e.Cleanup(func() { e.ok(e.api.GraphDestroy(g)) })
	return g
}

func (e *env) instantiate(g driver.Graph) driver.GraphExec {
	e.Helper()
	e.needs(11040)
	x, r := e.api.GraphInstantiate(g, 0)
	e.ok(r)
	e.Cleanup(func() { e.ok(e.api.GraphExecDestroy(x)) })
	return x
}

func (e *env) nodes(g driver.Graph, want int) {
	e.Helper()
	all, r := e.api.GraphGetNodes(g)
	e.ok(r)
	assert.Len(e, all, want)
}

// abandon ends a capture that was made invalid on purpose.
func (e *env) abandon(s driver.Stream) {
	e.Helper()
	_, r := e.api.StreamEndCapture(s)
	e.is(driver.ResultStreamCaptureInvalidated, r)
	status, r := e.api.StreamIsCapturing(s)
	e.ok(r)
	assert.Equal(e, driver.CaptureNone, status)
}

var graphTests = []test{
	{"captured and replayed", func(e *env) {
		f, s := e.function("ramp"), e.stream()
		out, host := e.alloc(64), e.pinned(64)
		ran := 0
		status, r := e.api.StreamIsCapturing(s)
		e.ok(r)
		assert.Equal(e, driver.CaptureNone, status)
		g := e.capture(s, func() {
			status, r := e.api.StreamIsCapturing(s)
			e.ok(r)
			assert.Equal(e, driver.CaptureActive, status)
			e.ok(e.api.MemsetD8Async(out, 0, 64, s))
			e.ok(e.ramp(f, s, out, 11, 8))
			e.ok(e.api.MemcpyDtoHAsync(at(host), out, 64, s))
			e.ok(e.api.LaunchHostFunc(s, func() { ran++ }))
		})
		e.nodes(g, 4)
		assert.Zero(e, ran, "nothing runs while it is captured")
		x := e.instantiate(g)
		e.ok(e.api.GraphUpload(x, s))
		for range 3 {
			clear(host)
			e.ok(e.api.GraphLaunch(x, s))
			e.ok(e.api.StreamSynchronize(s))
			assert.Equal(e, byte(18), host[28])
			assert.Equal(e, byte(0), host[32])
		}
		assert.Equal(e, 3, ran)
	}},
	{"fork and join", func(e *env) {
		a, b, fork, join := e.stream(), e.stream(), e.event(), e.event()
		x, y := e.alloc(64), e.alloc(64)
		g := e.capture(a, func() {
			e.ok(e.api.MemsetD8Async(x, 1, 64, a))
			e.ok(e.api.EventRecord(fork, a))
			e.ok(e.api.StreamWaitEvent(b, fork, 0))
			e.ok(e.api.MemsetD8Async(y, 2, 64, b))
			e.ok(e.api.MemsetD8Async(x, 3, 32, a))
			e.ok(e.api.EventRecord(join, b))
			e.ok(e.api.StreamWaitEvent(a, join, 0))
			e.ok(e.api.MemcpyDtoDAsync(x+48, y, 16, a))
		})
		e.nodes(g, 4)
		status, r := e.api.StreamIsCapturing(b)
		e.ok(r)
		assert.Equal(e, driver.CaptureNone, status)
		e.ok(e.api.GraphLaunch(e.instantiate(g), a))
		e.ok(e.api.StreamSynchronize(a))
		got := download[byte](e, x, 64)
		assert.Equal(e, []byte{3, 3, 1, 1, 2, 2}, []byte{got[0], got[31], got[32], got[47], got[48], got[63]})
	}},
	{"not joined", func(e *env) {
		a, b, fork := e.stream(), e.stream(), e.event()
		ptr := e.alloc(64)
		e.ok(e.api.StreamBeginCapture(a, driver.CaptureThreadLocal))
		e.ok(e.api.EventRecord(fork, a))
		e.ok(e.api.StreamWaitEvent(b, fork, 0))
		e.ok(e.api.MemsetD8Async(ptr, 2, 64, b))
		_, r := e.api.StreamEndCapture(a)
		e.is(driver.ResultStreamCaptureUnjoined, r)
	}},
	{"ended on another stream", func(e *env) {
		a, b, fork := e.stream(), e.stream(), e.event()
		e.ok(e.api.StreamBeginCapture(a, driver.CaptureThreadLocal))
		e.ok(e.api.EventRecord(fork, a))
		e.ok(e.api.StreamWaitEvent(b, fork, 0))
		_, r := e.api.StreamEndCapture(b)
		e.is(driver.ResultStreamCaptureUnmatched, r)
		e.abandon(a)
	}},
	{"waiting while capturing", func(e *env) {
		s := e.stream()
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
		e.is(driver.ResultStreamCaptureUnsupported, e.api.StreamSynchronize(s))
		status, r := e.api.StreamIsCapturing(s)
		e.ok(r)
		assert.Equal(e, driver.CaptureInvalidated, status)
		e.abandon(s)
	}},
	{"querying while capturing", func(e *env) {
		s, ev := e.stream(), e.event()
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
		e.is(driver.ResultStreamCaptureUnsupported, e.api.StreamQuery(s))
		e.abandon(s)
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
		e.ok(e.api.EventRecord(ev, s))
		e.is(driver.ResultCapturedEvent, e.api.EventQuery(ev))
		e.abandon(s)
	}},
	{"an event from outside", func(e *env) {
		a, b, ev := e.stream(), e.stream(), e.event()
		e.ok(e.api.EventRecord(ev, b))
		e.ok(e.api.StreamBeginCapture(a, driver.CaptureThreadLocal))
		e.is(driver.ResultStreamCaptureIsolation, e.api.StreamWaitEvent(a, ev, 0))
		e.abandon(a)
	}},
	{"two captures do not merge", func(e *env) {
		a, b, ev := e.stream(), e.stream(), e.event()
		e.ok(e.api.StreamBeginCapture(a, driver.CaptureThreadLocal))
		e.ok(e.api.StreamBeginCapture(b, driver.CaptureThreadLocal))
		e.ok(e.api.EventRecord(ev, a))
		e.is(driver.ResultStreamCaptureMerge, e.api.StreamWaitEvent(b, ev, 0))
		e.abandon(a)
		e.abandon(b)
	}},
	{"unsafe calls", func(e *env) {
		s, other, ev := e.stream(), e.stream(), e.event()
		for _, call := range []func() driver.Result{
			func() driver.Result { _, r := e.api.MemAlloc(64); return r },
			func() driver.Result { return e.api.MemFree(0) },
			func() driver.Result { _, r := e.api.MemHostAlloc(64, 0); return r },
			func() driver.Result { return e.api.CtxSynchronize() },
			func() driver.Result { return e.api.StreamSynchronize(other) },
			func() driver.Result { return e.api.StreamQuery(other) },
			func() driver.Result { return e.api.EventQuery(ev) },
			func() driver.Result { return e.api.EventSynchronize(ev) },
		} {
			e.ok(e.api.StreamBeginCapture(s, driver.CaptureGlobal))
			e.is(driver.ResultStreamCaptureUnsupported, call())
			e.abandon(s)
		}
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureGlobal))
		_, _, r := e.api.MemGetInfo()
		e.ok(r)
		made, r := e.api.EventCreate(0)
		e.ok(r)
		e.ok(e.api.EventDestroy(made))
		harmless, r := e.api.StreamEndCapture(s)
		e.ok(r)
		e.ok(e.api.GraphDestroy(harmless))
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureRelaxed))
		ptr, r := e.api.MemAlloc(64)
		e.ok(r)
		g, r := e.api.StreamEndCapture(s)
		e.ok(r)
		e.ok(e.api.GraphDestroy(g))
		e.ok(e.api.MemFree(ptr))
	}},
	{"thread mode", func(e *env) {
		s := e.stream()
		old, r := e.api.ThreadExchangeStreamCaptureMode(driver.CaptureRelaxed)
		e.ok(r)
		assert.Equal(e, driver.CaptureGlobal, old)
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureGlobal))
		ptr, r := e.api.MemAlloc(64)
		e.ok(r)
		g, r := e.api.StreamEndCapture(s)
		e.ok(r)
		e.ok(e.api.GraphDestroy(g))
		e.ok(e.api.MemFree(ptr))
		old, r = e.api.ThreadExchangeStreamCaptureMode(old)
		e.ok(r)
		assert.Equal(e, driver.CaptureRelaxed, old)
	}},
	{"in the wrong state", func(e *env) {
		s := e.stream()
		_, r := e.api.StreamEndCapture(s)
		e.is(driver.ResultIllegalState, r)
		e.is(driver.ResultStreamCaptureUnsupported, e.api.StreamBeginCapture(0, driver.CaptureThreadLocal))
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
		e.is(driver.ResultIllegalState, e.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
		g, r := e.api.StreamEndCapture(s)
		e.ok(r)
		e.nodes(g, 0)
		e.ok(e.api.GraphDestroy(g))
	}},
	{"implicit wait", func(e *env) {
		s, r := e.api.StreamCreate(driver.StreamDefault)
		e.ok(r)
		defer func() { e.ok(e.api.StreamDestroy(s)) }()
		ptr := e.alloc(64)
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureRelaxed))
		e.is(driver.ResultStreamCaptureImplicit, e.api.MemsetD8Async(ptr, 0, 64, 0))
		e.abandon(s)
	}},
	{"ended by another thread", func(e *env) {
		s := e.stream()
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
		e.elsewhere(func() {
			_, r := e.api.StreamEndCapture(s)
			e.is(driver.ResultStreamCaptureWrongThread, r)
		})
		_, r := e.api.StreamEndCapture(s)
		e.is(driver.ResultIllegalState, r) // that has ended the capture
	}},
	{"updated", func(e *env) {
		e.needs(12000)
		f, s, out := e.function("ramp"), e.stream(), e.alloc(64)
		x := e.instantiate(e.capture(s, func() { e.ok(e.ramp(f, s, out, 1, 16)) }))
		changed := e.capture(s, func() { e.ok(e.ramp(f, s, out, 100, 16)) })
		info, r := e.api.GraphExecUpdate(x, changed)
		e.ok(r)
		assert.Equal(e, driver.GraphUpdateSuccess, info.Result)
		e.ok(e.api.GraphLaunch(x, s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, rampFrom(100, 16), download[uint32](e, out, 16))

		other := e.capture(s, func() {
			e.ok(e.ramp(f, s, out, 5, 16))
			e.ok(e.ramp(f, s, out, 6, 16))
		})
		info, r = e.api.GraphExecUpdate(x, other)
		e.is(driver.ResultGraphExecUpdateFailure, r)
		assert.Equal(e, driver.GraphUpdateTopologyChanged, info.Result)
		other = e.capture(s, func() { e.ok(e.api.MemsetD8Async(out, 0, 64, s)) })
		info, r = e.api.GraphExecUpdate(x, other)
		e.is(driver.ResultGraphExecUpdateFailure, r)
		assert.Equal(e, driver.GraphUpdateNodeTypeChanged, info.Result)
		e.ok(e.api.GraphLaunch(x, s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, rampFrom(100, 16), download[uint32](e, out, 16))
	}},
	{"a kernel with other parameters", func(e *env) {
		e.needs(12000)
		f, s, out := e.function("ramp"), e.stream(), e.alloc(256)
		g := e.capture(s, func() {
			e.ok(e.api.MemsetD8Async(out, 0, 256, s))
			e.ok(e.ramp(f, s, out, 1, 8))
		})
		x := e.instantiate(g)
		nodes, r := e.api.GraphGetNodes(g)
		e.ok(r)
		for _, n := range nodes {
			kind, r := e.api.GraphNodeGetType(n)
			e.ok(r)
			first, count := uint32(50), uint32(16)
			params := []unsafe.Pointer{unsafe.Pointer(&out), unsafe.Pointer(&first), unsafe.Pointer(&count)}
			change := func(grid driver.Dim3) driver.Result {
				return e.api.GraphExecKernelNodeSetParams(x, n, f, grid, dim(32), 0, params)
			}
			if kind == driver.GraphNodeMemset {
				e.is(driver.ResultInvalidValue, change(dim(1)))
				continue
			}
			assert.Equal(e, driver.GraphNodeKernel, kind)
			e.is(driver.ResultInvalidValue, change(driver.Dim3{}))
			release := e.block(s)
			e.ok(e.api.GraphLaunch(x, s))
			e.ok(change(dim(1)))
			release()
			e.ok(e.api.StreamSynchronize(s))
			assert.Equal(e, append(rampFrom(1, 8), 0), download[uint32](e, out, 9), "a launch before the change")
		}
		e.ok(e.api.GraphLaunch(x, s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, append(rampFrom(50, 16), 0), download[uint32](e, out, 17))
	}},
	{"launched while capturing", func(e *env) {
		s, ptr := e.stream(), e.alloc(64)
		x := e.instantiate(e.capture(s, func() { e.ok(e.api.MemsetD8Async(ptr, 9, 64, s)) }))
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureThreadLocal))
		e.is(driver.ResultStreamCaptureUnsupported, e.api.GraphLaunch(x, s))
		e.abandon(s)
	}},
	{"events of a capture that has ended", func(e *env) {
		s, other, ev := e.stream(), e.stream(), e.event()
		e.capture(s, func() { e.ok(e.api.EventRecord(ev, s)) })
		e.is(driver.ResultInvalidValue, e.api.EventQuery(ev))
		e.is(driver.ResultInvalidValue, e.api.EventSynchronize(ev))
		e.is(driver.ResultInvalidValue, e.api.StreamWaitEvent(other, ev, 0))
		e.ok(e.api.EventRecord(ev, other))
		e.ok(e.api.EventSynchronize(ev))
	}},
	{"default stream while capturing", func(e *env) {
		s, r := e.api.StreamCreate(driver.StreamDefault)
		e.ok(r)
		defer func() { e.ok(e.api.StreamDestroy(s)) }()
		e.ok(e.api.StreamBeginCapture(s, driver.CaptureRelaxed))
		_, r = e.api.StreamIsCapturing(0)
		e.is(driver.ResultStreamCaptureImplicit, r)
		g, r := e.api.StreamEndCapture(s)
		e.ok(r) // asking does no harm
		e.ok(e.api.GraphDestroy(g))
	}},
	{"synchronous copies while capturing", func(e *env) {
		s, ptr := e.stream(), e.alloc(64)
		e.capture(s, func() {
			e.ok(e.api.MemcpyHtoD(ptr, at(make([]byte, 64)), 64))
			e.ok(e.api.MemsetD8(ptr, 1, 64))
		})
	}},
	{"events as nodes", func(e *env) {
		e.needs(11010)
		s, ev := e.stream(), e.event()
		e.is(driver.ResultIllegalState, e.api.EventRecordWithFlags(ev, s, driver.EventRecordExternal))
		gate := make(chan struct{})
		g := e.capture(s, func() {
			e.ok(e.api.LaunchHostFunc(s, func() { <-gate }))
			e.ok(e.api.EventRecordWithFlags(ev, s, driver.EventRecordExternal))
		})
		e.nodes(g, 2)
		e.ok(e.api.EventQuery(ev))
		e.ok(e.api.GraphLaunch(e.instantiate(g), s))
		close(gate)
		e.ok(e.api.StreamSynchronize(s))
		e.ok(e.api.EventSynchronize(ev))
	}},
	{"empty", func(e *env) {
		g := e.graph()
		e.nodes(g, 0)
		s := e.stream()
		e.ok(e.api.GraphLaunch(e.instantiate(g), s))
		e.ok(e.api.StreamSynchronize(s))
		_, r := e.api.GraphCreate(1)
		e.is(driver.ResultInvalidValue, r)
	}},
	{"child graphs", func(e *env) {
		s, out := e.stream(), e.alloc(64)
		first := e.capture(s, func() { e.ok(e.api.MemsetD8Async(out, 1, 64, s)) })
		second := e.capture(s, func() { e.ok(e.api.MemsetD8Async(out, 2, 32, s)) })
		g := e.graph()
		a, r := e.api.GraphAddChildGraphNode(g, nil, first)
		e.ok(r)
		b, r := e.api.GraphAddChildGraphNode(g, []driver.GraphNode{a}, second)
		e.ok(r)
		_, r = e.api.GraphAddChildGraphNode(g, []driver.GraphNode{a, b}, first)
		e.ok(r)
		e.nodes(g, 3)
		kind, r := e.api.GraphNodeGetType(b)
		e.ok(r)
		assert.Equal(e, driver.GraphNodeGraph, kind)
		_, r = e.api.GraphAddChildGraphNode(g, []driver.GraphNode{a, a}, first)
		e.is(driver.ResultInvalidValue, r)
		e.ok(e.api.GraphLaunch(e.instantiate(g), s))
		e.ok(e.api.StreamSynchronize(s))
		assert.Equal(e, []byte{1, 1}, download[byte](e, out, 2))
	}},
	{"printed", func(e *env) {
		e.needs(11030)
		s, out := e.stream(), e.alloc(64)
		g := e.capture(s, func() { e.ok(e.api.MemsetD8Async(out, 1, 64, s)) })
		file := filepath.Join(e.TempDir(), "graph.dot")
		e.ok(e.api.GraphDebugDotPrint(g, file, 0))
		text, err := os.ReadFile(file)
		require.NoError(e, err)
		assert.Contains(e, string(text), "digraph")
		e.Logf("%s", text)
		assert.NotEqual(e, driver.Success, e.api.GraphDebugDotPrint(g, filepath.Join(e.TempDir(), "none", "graph.dot"), 0))
	}},
	{"while and if", func(e *env) {
		e.needs(12040)
		f, s, counter, out := e.kernel(countdown, "countdown"), e.stream(), e.alloc(4), e.alloc(64)
		g := e.graph()
		condition := func(in driver.Graph, value uint32) driver.GraphConditionalHandle {
			h, r := e.api.GraphConditionalHandleCreate(in, e.ctx, value, driver.GraphConditionalDefault)
			e.ok(r)
			return h
		}
		count := func(h driver.GraphConditionalHandle) func() {
			return func() {
				e.ok(e.api.LaunchKernel(f, one, one, 0, s, []unsafe.Pointer{unsafe.Pointer(&counter), unsafe.Pointer(&h)}))
			}
		}
		h := condition(g, 1)
		start, r := e.api.GraphAddChildGraphNode(g, nil, e.capture(s, func() {
			e.ok(e.api.MemsetD32Async(counter, 5, 1, s))
			e.ok(e.api.MemsetD8Async(out, 7, 64, s))
		}))
		e.ok(r)
		loop, body, r := e.api.GraphAddConditionalNode(g, []driver.GraphNode{start}, h, driver.GraphWhile, e.ctx)
		e.ok(r)
		step, r := e.api.GraphAddChildGraphNode(body, nil, e.capture(s, count(h)))
		e.ok(r)
		// Nested, and never run: its number stays 0.
		_, inner, r := e.api.GraphAddConditionalNode(body, []driver.GraphNode{step}, condition(body, 0), driver.GraphIf, e.ctx)
		e.ok(r)
		_, r = e.api.GraphAddChildGraphNode(inner, nil, e.capture(s, func() { e.ok(e.api.MemsetD8Async(out, 9, 64, s)) }))
		e.ok(r)
		kind, r := e.api.GraphNodeGetType(loop)
		e.ok(r)
		assert.Equal(e, driver.GraphNodeConditional, kind)
		e.nodes(body, 2)
		_, r = e.api.GraphAddChildGraphNode(e.graph(), nil, g)
		e.is(driver.ResultNotSupported, r) // a conditional node in a child graph
		x := e.instantiate(g)
		for range 2 {
			e.ok(e.api.GraphLaunch(x, s))
			e.ok(e.api.StreamSynchronize(s))
			assert.Equal(e, []uint32{0}, download[uint32](e, counter, 1))
			assert.Equal(e, []byte{7, 7}, download[byte](e, out, 2))
		}
		_, r = e.api.GraphAddChildGraphNode(inner, nil, e.capture(s, func() { e.ok(e.api.LaunchHostFunc(s, func() {})) }))
		e.ok(r)
		_, r = e.api.GraphInstantiate(g, 0)
		e.is(driver.ResultInvalidValue, r) // a call of the host in a body
	}},
}
