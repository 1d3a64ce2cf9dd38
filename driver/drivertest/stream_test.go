package drivertest_test

import (
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

func TestIdleStreamsHaveNoGoroutine(t *testing.T) {
	g := start(t, drivertest.Config{})
	before := goruntime.NumGoroutine()
	ptr := g.alloc(64)
	for range 50 {
		s := g.stream()
		g.ok(g.MemsetD8Async(ptr, 1, 64, s))
		g.ok(g.StreamSynchronize(s))
	}
	poll(t, "the goroutines end", func() bool { return goruntime.NumGoroutine() <= before })
}

func TestStreamsRunAtTheSameTime(t *testing.T) {
	g := start(t, drivertest.Config{})
	a, b := g.stream(), g.stream()
	ping, pong := make(chan struct{}), make(chan struct{})
	g.ok(g.LaunchHostFunc(a, func() { ping <- struct{}{}; <-pong }))
	g.ok(g.LaunchHostFunc(b, func() { <-ping; pong <- struct{}{} }))
	g.ok(g.StreamSynchronize(a))
	g.ok(g.StreamSynchronize(b))
}

func TestPageableSourceIsReadAtOnce(t *testing.T) {
	g := start(t, drivertest.Config{})
	s, ptr := g.stream(), g.alloc(8)
	gate := make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-gate }))
	host := [8]byte{1}
	g.ok(g.MemcpyHtoDAsync(ptr, pointer(&host), 8, s))
	host[0] = 2
	close(gate)
	g.ok(g.StreamSynchronize(s))
	g.ok(g.MemcpyDtoH(pointer(&host), ptr, 8))
	assert.Equal(t, byte(1), host[0])
}

func TestPageLockedSourceIsReadLater(t *testing.T) {
	g := start(t, drivertest.Config{})
	s, ptr := g.stream(), g.alloc(8)
	at, r := g.MemHostAlloc(8, 0)
	g.ok(r)
	host := unsafe.Slice((*byte)(at), 8)
	host[0] = 1
	gate := make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-gate }))
	g.ok(g.MemcpyHtoDAsync(ptr, at, 8, s))
	host[0] = 2
	close(gate)
	g.ok(g.StreamSynchronize(s))
	var got [8]byte
	g.ok(g.MemcpyDtoH(pointer(&got), ptr, 8))
	assert.Equal(t, byte(2), got[0])
}

func TestPageableTargetIsWrittenOnReturn(t *testing.T) {
	g := start(t, drivertest.Config{})
	s, ptr := g.stream(), g.alloc(8)
	g.ok(g.MemsetD8Async(ptr, 5, 8, s))
	var got [8]byte
	g.ok(g.MemcpyDtoHAsync(pointer(&got), ptr, 8, s))
	assert.Equal(t, byte(5), got[7])
}

func TestHostFunctionMustNotCallTheDriver(t *testing.T) {
	if goruntime.GOOS != "linux" && goruntime.GOOS != "windows" && goruntime.GOOS != "freebsd" {
		t.Skip("threads cannot be told apart here")
	}
	g := start(t, drivertest.Config{})
	s := g.stream()
	var inside driver.Result
	g.ok(g.LaunchHostFunc(s, func() { inside = g.StreamQuery(s) }))
	g.ok(g.StreamSynchronize(s))
	g.is(driver.ResultNotPermitted, inside)
	assert.Contains(t, g.finding().Detail, "host function")
}

func TestHostFunctionThatPanicsOrEnds(t *testing.T) {
	for name, f := range map[string]func(){
		"panics": func() { panic("so what") },
		"ends":   goruntime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, drivertest.Config{})
			s := g.stream()
			var later atomic.Bool
			g.ok(g.LaunchHostFunc(s, f))
			g.LaunchHostFunc(s, func() { later.Store(true) })
			g.is(driver.ResultLaunchFailed, g.StreamSynchronize(s))
			assert.False(t, later.Load(), "nothing runs after a fault")
			assert.Equal(t, "cuLaunchHostFunc", g.finding().Op)
		})
	}
	g := start(t, drivertest.Config{})
	g.is(driver.ResultInvalidValue, g.LaunchHostFunc(g.stream(), nil))
}

func TestWrongHandles(t *testing.T) {
	g := start(t, drivertest.Config{})
	s := g.stream()
	g.ok(g.StreamDestroy(s))
	for _, c := range []struct {
		name string
		r    driver.Result
		want driver.Result
	}{
		{"destroyed stream", g.StreamQuery(s), driver.ResultInvalidHandle},
		{"destroyed stream again", g.StreamDestroy(s), driver.ResultInvalidHandle},
		{"no stream", g.StreamQuery(77), driver.ResultInvalidHandle},
		{"default stream", g.StreamDestroy(0), driver.ResultInvalidHandle},
		{"per-thread stream", g.StreamQuery(2), driver.ResultNotSupported},
		{"no event", g.EventQuery(0), driver.ResultInvalidHandle},
		{"no module", g.ModuleUnload(5), driver.ResultInvalidHandle},
		{"no graph", g.GraphDestroy(5), driver.ResultInvalidValue},
		{"no executable graph", g.GraphExecDestroy(5), driver.ResultInvalidValue},
		{"no pool", g.MemPoolDestroy(5), driver.ResultInvalidValue},
		{"no function", g.launch(5, 0), driver.ResultInvalidHandle},
		{"no library", g.LibraryUnload(5), driver.ResultInvalidHandle},
		{"no context", g.CtxPushCurrent(5), driver.ResultInvalidContext},
	} {
		assert.Equal(t, c.want, c.r, c.name)
	}
	assert.Contains(t, g.Findings()[0].Detail, "was destroyed by cuStreamDestroy at stream_test.go")
}

func TestObjectsOfDifferentContexts(t *testing.T) {
	g := start(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
	s, f := g.stream(), g.function("unbound")
	ctx, r := g.DevicePrimaryCtxRetain(1)
	g.ok(r)
	g.ok(g.CtxPushCurrent(ctx))
	e, r := g.EventCreate(0)
	g.ok(r)
	g.is(driver.ResultInvalidHandle, g.EventRecord(e, s))
	there := g.stream()
	g.is(driver.ResultInvalidHandle, g.launch(f, there))
	g.ok(g.EventRecord(e, there))
	g.ok(g.StreamWaitEvent(s, e, 0)) // waiting is allowed
	g.ok(g.StreamSynchronize(s))
}
