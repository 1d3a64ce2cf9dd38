package drivertest_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/driver/drivertest"
)

// word returns a word of page-locked memory.
func (g *gpu) word() (*uint64, driver.DevicePtr) {
	g.t.Helper()
	at, r := g.MemHostAlloc(8, 0)
	g.ok(r)
	ptr, r := g.MemHostGetDevicePointer(at, 0)
	g.ok(r)
	return (*uint64)(at), ptr
}

func TestDeviceThatCannotWriteValues(t *testing.T) {
	const can = driver.DeviceAttributeCanUse64BitStreamMemOps
	for _, c := range []struct {
		name   string
		config drivertest.Config
		value  int32
		known  driver.Result // of the attribute
		write  driver.Result
	}{
		{"11.0", drivertest.Config{Version: 11000}, 0, driver.ResultInvalidValue, driver.ResultSymbolMissing},
		{"11.8", drivertest.Config{Version: 11080}, 1, driver.Success, driver.Success},
		{"12.2", drivertest.Config{Version: 12020}, 1, driver.Success, driver.Success},
		{"13.0", drivertest.Config{}, 1, driver.Success, driver.Success},
		{"the device", drivertest.Config{Devices: []drivertest.DeviceConfig{{
			Attributes: map[driver.DeviceAttribute]int32{can: 0}}}}, 0, driver.Success, driver.ResultNotSupported},
		{"missing", drivertest.Config{Missing: []string{"cuStreamWriteValue64"}}, 1, driver.Success, driver.ResultSymbolMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, c.config)
			value, r := g.DeviceGetAttribute(can, 0)
			g.is(c.known, r)
			assert.Equal(t, c.value, value)
			_, ptr := g.word()
			g.is(c.write, g.StreamWriteValue64(g.stream(), ptr, 1, 0))
		})
	}
}

func TestWriteValueArguments(t *testing.T) {
	g := start(t, drivertest.Config{})
	word, ptr := g.word()
	s := g.stream()
	g.is(driver.ResultInvalidValue, g.StreamWriteValue64(s, ptr, 1, 1<<20))
	g.is(driver.ResultInvalidValue, g.StreamWriteValue64(s, ptr+4, 1, 0))
	assert.Contains(t, g.finding().Detail, "not a multiple of 8")
	g.is(driver.ResultInvalidValue, g.StreamWriteValue64(s, ptr+4096, 1, 0))
	g.ok(g.StreamSynchronize(s))
	assert.Zero(t, *word)
}

// Memory that a write is still on its way to must not be freed.
func TestWriteToFreedMemoryIsFound(t *testing.T) {
	g := start(t, drivertest.Config{})
	at, r := g.MemHostAlloc(8, 0)
	g.ok(r)
	ptr, r := g.MemHostGetDevicePointer(at, 0)
	g.ok(r)
	s, gate := g.stream(), make(chan struct{})
	g.ok(g.LaunchHostFunc(s, func() { <-gate }))
	g.ok(g.StreamWriteValue64(s, ptr, 1, 0))
	g.ok(g.MemFreeHost(at))
	close(gate)
	g.is(driver.ResultIllegalAddress, g.StreamSynchronize(s))
	assert.Contains(t, g.finding().Detail, "freed")
}

// A write that waits for its stream holds up what other streams put on its connection
// later, and nothing else.
func TestConnectionsAreShared(t *testing.T) {
	for _, c := range []struct {
		connections int
		held        []bool // of the streams after the first
	}{
		{0, []bool{false, false, false}},
		{1, []bool{true, true, true}},
		{2, []bool{false, true, false}},
		{32, []bool{false, false, false}},
	} {
		g := start(t, drivertest.Config{Connections: c.connections})
		_, ptr := g.word()
		gate := make(chan struct{})
		first := g.stream()
		g.ok(g.LaunchHostFunc(first, func() { <-gate }))
		streams := make([]driver.Stream, len(c.held))
		ran := make([]atomic.Bool, len(c.held))
		for i := range streams {
			streams[i] = g.stream()
			g.ok(g.LaunchHostFunc(streams[i], func() {}))
			g.ok(g.StreamSynchronize(streams[i])) // work that runs holds up nobody
		}
		g.ok(g.StreamWriteValue64(first, ptr, 1, 0))
		for i, s := range streams {
			g.ok(g.LaunchHostFunc(s, func() { ran[i].Store(true) }))
			if !c.held[i] {
				g.ok(g.StreamSynchronize(s))
			}
			assert.NotEqual(t, c.held[i], ran[i].Load(), "stream %d of %d connections", i+1, c.connections)
		}
		close(gate)
		g.ok(g.CtxSynchronize())
		for i := range ran {
			assert.True(t, ran[i].Load())
		}
	}
}

// An event that waits for its stream holds up nobody.
func TestEventOnASharedConnection(t *testing.T) {
	g := start(t, drivertest.Config{Connections: 1})
	a, b, gate := g.stream(), g.stream(), make(chan struct{})
	e, r := g.EventCreate(0)
	g.ok(r)
	g.ok(g.LaunchHostFunc(a, func() { <-gate }))
	g.ok(g.EventRecord(e, a))
	g.ok(g.LaunchHostFunc(b, func() {}))
	g.ok(g.StreamSynchronize(b))
	g.is(driver.ResultNotReady, g.EventQuery(e))
	close(gate)
	g.ok(g.EventSynchronize(e))
}

// An event that is recorded on an idle stream is behind what holds up its connection.
func TestEventBehindASharedConnection(t *testing.T) {
	g := start(t, drivertest.Config{Connections: 1})
	_, ptr := g.word()
	a, b, gate := g.stream(), g.stream(), make(chan struct{})
	e, r := g.EventCreate(0)
	g.ok(r)
	g.ok(g.LaunchHostFunc(a, func() { <-gate }))
	g.ok(g.StreamWriteValue64(a, ptr, 1, 0))
	g.ok(g.EventRecord(e, b))
	g.is(driver.ResultNotReady, g.EventQuery(e))
	close(gate)
	g.ok(g.EventSynchronize(e))
}

// What ends the wait for a value that never comes.
func TestEndOfAWaitForAValue(t *testing.T) {
	for _, c := range []struct {
		name   string
		end    func(g *gpu)
		result driver.Result
	}{
		{"fault", func(g *gpu) { g.ok(g.launch(g.function("fails"), g.stream())) }, driver.ResultAssert},
		{"vanished device", func(g *gpu) { g.Vanish(0) }, driver.ResultUnknown},
		{"close", func(g *gpu) { assert.NoError(g.t, g.Close()) }, driver.ResultDeinitialized},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, drivertest.Config{})
			word, ptr := g.word()
			*word = 1
			s := g.stream()
			g.ok(g.StreamWaitValue64(s, ptr, 2, driver.StreamWaitValueEqual))
			g.is(driver.ResultNotReady, g.StreamQuery(s))
			c.end(g)
			g.is(c.result, g.StreamSynchronize(s))
			if c.name == "close" {
				assert.Contains(t, g.finding().Detail, "closed while a stream waited for a value")
			}
		})
	}
}

// A wait for a value holds up what other streams put on its connection later.
func TestWaitForAValueOnASharedConnection(t *testing.T) {
	for connections, held := range []bool{false, true} {
		g := start(t, drivertest.Config{Connections: connections})
		word, ptr := g.word()
		*word = 0
		a, b := g.stream(), g.stream()
		var ran atomic.Bool
		g.ok(g.StreamWaitValue64(a, ptr, 1, 0))
		g.ok(g.LaunchHostFunc(b, func() { ran.Store(true) }))
		if !held {
			g.ok(g.StreamSynchronize(b))
		}
		assert.Equal(t, !held, ran.Load())
		atomic.StoreUint64(word, 1)
		g.ok(g.CtxSynchronize())
		assert.True(t, ran.Load())
	}
}

func TestWaitForAValueArguments(t *testing.T) {
	g := start(t, drivertest.Config{})
	word, ptr := g.word()
	*word = 1<<64 - 1
	s := g.stream()
	g.is(driver.ResultNotSupported, g.StreamWaitValue64(s, ptr, 1, driver.StreamWaitValueFlush))
	g.is(driver.ResultInvalidValue, g.StreamWaitValue64(s, ptr, 1, 4))
	g.is(driver.ResultInvalidValue, g.StreamWriteValue32(s, ptr, 1, 4))
	g.ok(g.StreamWaitValue64(s, ptr, 0, driver.StreamWaitValueNor))
	g.is(driver.ResultNotReady, g.StreamQuery(s))
	g.ok(g.StreamWriteValue32(g.stream(), ptr+4, 0, 0))
	atomic.StoreUint64(word, 0)
	g.ok(g.StreamSynchronize(s))
}
