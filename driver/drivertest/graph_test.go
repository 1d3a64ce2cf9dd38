package drivertest_test

import (
	goruntime "runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func (g *gpu) capture(s driver.Stream, build func()) driver.GraphExec {
	g.t.Helper()
	g.ok(g.StreamBeginCapture(s, driver.CaptureThreadLocal))
	build()
	graph, r := g.StreamEndCapture(s)
	g.ok(r)
	x, r := g.GraphInstantiate(graph, 0)
	g.ok(r)
	g.ok(g.GraphDestroy(graph))
	return x
}

func TestReplayKeepsItsParameters(t *testing.T) {
	g := start(t, drivertest.Config{})
	s, f, ptr := g.stream(), g.function("add_one"), g.alloc(4)
	g.ok(g.MemsetD8(ptr, 0, 4))
	where, n := ptr, uint32(1)
	x := g.capture(s, func() { g.ok(g.launch(f, s, pointer(&where), pointer(&n))) })
	where, n = 0, 0
	for range 5 {
		g.ok(g.GraphLaunch(x, s))
	}
	var got uint32
	g.ok(g.StreamSynchronize(s))
	g.ok(g.MemcpyDtoH(pointer(&got), ptr, 4))
	assert.EqualValues(t, 5, got)
}

func TestBranchesOfAGraphRunAtTheSameTime(t *testing.T) {
	g := start(t, drivertest.Config{})
	a, b := g.stream(), g.stream()
	fork, r := g.EventCreate(0)
	g.ok(r)
	join, r := g.EventCreate(0)
	g.ok(r)
	ping, pong := make(chan struct{}), make(chan struct{})
	x := g.capture(a, func() {
		g.ok(g.EventRecord(fork, a))
		g.ok(g.StreamWaitEvent(b, fork, 0))
		g.ok(g.LaunchHostFunc(a, func() { ping <- struct{}{}; <-pong }))
		g.ok(g.LaunchHostFunc(b, func() { <-ping; pong <- struct{}{} }))
		g.ok(g.EventRecord(join, b))
		g.ok(g.StreamWaitEvent(a, join, 0))
	})
	g.ok(g.GraphLaunch(x, a))
	g.ok(g.StreamSynchronize(a))
}

func TestFaultInAGraph(t *testing.T) {
	for _, chain := range []bool{true, false} {
		g := start(t, drivertest.Config{})
		a, b, f := g.stream(), g.stream(), g.function("fails")
		e, r := g.EventCreate(0)
		g.ok(r)
		after, r := g.EventCreate(0)
		g.ok(r)
		x := g.capture(a, func() {
			if !chain {
				g.ok(g.EventRecord(e, a))
				g.ok(g.StreamWaitEvent(b, e, 0))
				g.ok(g.LaunchHostFunc(b, goruntime.Goexit))
				g.ok(g.EventRecord(e, b))
			}
			g.ok(g.launch(f, a))
			g.ok(g.EventRecordWithFlags(after, a, driver.EventRecordExternal))
			if !chain {
				g.ok(g.StreamWaitEvent(a, e, 0))
			}
		})
		g.ok(g.GraphLaunch(x, a))
		assert.True(t, g.StreamSynchronize(a).Sticky())
		assert.True(t, g.EventSynchronize(after).Sticky(), "the event of a node that did not run is done")
		assert.Len(t, g.Findings(), 1)
	}
}

func TestExternalWait(t *testing.T) {
	const external = 1
	g := start(t, drivertest.Config{})
	s, other := g.stream(), g.stream()
	e, r := g.EventCreate(0)
	g.ok(r)
	ran := false
	x := g.capture(s, func() {
		g.ok(g.StreamWaitEvent(s, e, external))
		g.ok(g.LaunchHostFunc(s, func() { ran = true }))
	})
	gate := make(chan struct{})
	g.ok(g.LaunchHostFunc(other, func() { <-gate }))
	g.ok(g.EventRecord(e, other))
	g.ok(g.GraphLaunch(x, s))
	g.is(driver.ResultNotReady, g.StreamQuery(s))
	close(gate)
	g.ok(g.StreamSynchronize(s))
	assert.True(t, ran)
}

func TestCaptureEndsWithItsStreamAndContext(t *testing.T) {
	g := start(t, drivertest.Config{})
	s := g.stream()
	g.ok(g.StreamBeginCapture(s, driver.CaptureGlobal))
	g.ok(g.StreamDestroy(s))
	g.alloc(16) // no capture forbids it any more
	s = g.stream()
	g.ok(g.StreamBeginCapture(s, driver.CaptureGlobal))
	g.ok(g.DevicePrimaryCtxReset(0))
	ctx, r := g.DevicePrimaryCtxRetain(0)
	g.ok(r)
	g.ok(g.CtxSetCurrent(ctx))
	g.alloc(16)
}

// Launches of one executable graph run one after the other, on whatever streams.
func TestLaunchesOfOneGraphDoNotOverlap(t *testing.T) {
	g := start(t, drivertest.Config{})
	a, b := g.stream(), g.stream()
	gate := make(chan struct{})
	x := g.capture(a, func() { g.ok(g.LaunchHostFunc(a, func() { <-gate })) })
	g.ok(g.GraphLaunch(x, a))
	g.ok(g.GraphLaunch(x, b))
	gate <- struct{}{}
	g.ok(g.StreamSynchronize(a))
	g.is(driver.ResultNotReady, g.StreamQuery(b))
	gate <- struct{}{}
	g.ok(g.StreamSynchronize(b))
}
