package conformance

import (
	"sync/atomic"

	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

var streamTests = []test{
	{"properties", func(e *env) {
		least, greatest, r := e.api.CtxGetStreamPriorityRange()
		e.ok(r)
		s, r := e.api.StreamCreateWithPriority(driver.StreamNonBlocking, greatest-100)
		e.ok(r)
		defer func() { e.ok(e.api.StreamDestroy(s)) }()
		priority, r := e.api.StreamGetPriority(s)
		e.ok(r)
		assert.Equal(e, greatest, priority)
		flags, r := e.api.StreamGetFlags(s)
		e.ok(r)
		assert.Equal(e, driver.StreamNonBlocking, flags)
		ctx, r := e.api.StreamGetCtx(s)
		e.ok(r)
		assert.Equal(e, e.ctx, ctx)
		plain, r := e.api.StreamCreate(driver.StreamDefault)
		e.ok(r)
		priority, r = e.api.StreamGetPriority(plain)
		e.ok(r)
		assert.Equal(e, least, priority)
		e.ok(e.api.StreamDestroy(plain))
		_, r = e.api.StreamCreate(1 << 20)
		e.is(driver.ResultInvalidValue, r)
	}},
	{"identities are never used twice", func(e *env) {
		e.needs(12000)
		seen := map[uint64]bool{}
		for range 20 {
			s, r := e.api.StreamCreate(driver.StreamNonBlocking)
			e.ok(r)
			id, r := e.api.StreamGetID(s)
			e.ok(r)
			assert.False(e, seen[id])
			seen[id] = true
			e.ok(e.api.StreamDestroy(s))
		}
	}},
	{"in order", func(e *env) {
		s := e.stream()
		var order []int
		for i := range 50 {
			e.ok(e.api.LaunchHostFunc(s, func() { order = append(order, i) }))
		}
		e.ok(e.api.StreamSynchronize(s))
		assert.Len(e, order, 50)
		assert.IsIncreasing(e, order)
	}},
	{"query", func(e *env) {
		s := e.stream()
		e.ok(e.api.StreamQuery(s))
		release := e.block(s)
		e.is(driver.ResultNotReady, e.api.StreamQuery(s))
		release()
		e.ok(e.api.StreamSynchronize(s))
		e.ok(e.api.StreamQuery(s))
	}},
	{"independent of each other", func(e *env) {
		a, b := e.stream(), e.stream()
		release := e.block(a)
		ptr := e.alloc(64)
		e.ok(e.api.MemsetD8Async(ptr, 1, 64, b))
		e.ok(e.api.StreamSynchronize(b))
		e.is(driver.ResultNotReady, e.api.StreamQuery(a))
		release()
		e.ok(e.api.StreamSynchronize(a))
	}},
	{"legacy default stream waits for blocking ones", func(e *env) {
		s, r := e.api.StreamCreate(driver.StreamDefault)
		e.ok(r)
		defer func() { e.ok(e.api.StreamDestroy(s)) }()
		var done atomic.Bool
		release := e.block(s)
		e.ok(e.api.LaunchHostFunc(s, func() { done.Store(true) }))
		ptr := e.alloc(64)
		e.ok(e.api.MemsetD8Async(ptr, 1, 64, 0))
		e.is(driver.ResultNotReady, e.api.StreamQuery(0))
		release()
		e.ok(e.api.StreamSynchronize(0))
		assert.True(e, done.Load())
	}},
	{"blocking streams wait for the legacy default stream", func(e *env) {
		s, r := e.api.StreamCreate(driver.StreamDefault)
		e.ok(r)
		defer func() { e.ok(e.api.StreamDestroy(s)) }()
		release := e.block(0)
		ptr := e.alloc(64)
		e.ok(e.api.MemsetD8Async(ptr, 1, 64, s))
		e.is(driver.ResultNotReady, e.api.StreamQuery(s))
		release()
		e.ok(e.api.StreamSynchronize(s))
	}},
	{"destroyed with work on it", func(e *env) {
		s, r := e.api.StreamCreate(driver.StreamNonBlocking)
		e.ok(r)
		var done atomic.Bool
		release := e.block(s)
		e.ok(e.api.LaunchHostFunc(s, func() { done.Store(true) }))
		e.ok(e.api.StreamDestroy(s))
		release()
		e.ok(e.api.CtxSynchronize())
		assert.True(e, done.Load())
	}},
	{"hot calls need no context", func(e *env) {
		e.needs(12000)
		s, ev, ptr, host := e.stream(), e.event(), e.alloc(64), e.pinned(64)
		f := e.function("ramp")
		e.elsewhere(func() {
			e.ok(e.api.StreamQuery(s))
			e.ok(e.api.MemsetD8Async(ptr, 1, 64, s))
			e.ok(e.api.MemcpyDtoHAsync(at(host), ptr, 64, s))
			e.ok(e.api.MemcpyHtoDAsync(ptr, at(host), 64, s))
			e.ok(e.ramp(f, s, ptr, 5, 16))
			e.ok(e.api.EventRecord(ev, s))
			e.ok(e.api.StreamWaitEvent(s, ev, 0))
			e.ok(e.api.EventSynchronize(ev))
			e.ok(e.api.StreamSynchronize(s))
			e.ok(e.api.EventQuery(ev))
			_, r := e.api.StreamGetCtx(s)
			e.ok(r)
		})
		assert.Equal(e, rampFrom(5, 16), download[uint32](e, ptr, 16))
	}},
}

var eventTests = []test{
	{"life", func(e *env) {
		s, ev := e.stream(), e.event()
		e.ok(e.api.EventQuery(ev)) // marks nothing yet
		e.ok(e.api.EventSynchronize(ev))
		release := e.block(s)
		e.ok(e.api.EventRecord(ev, s))
		e.is(driver.ResultNotReady, e.api.EventQuery(ev))
		release()
		e.ok(e.api.EventSynchronize(ev))
		e.ok(e.api.EventQuery(ev))
	}},
	{"elapsed time", func(e *env) {
		s, from, to := e.stream(), e.event(), e.event()
		_, r := e.api.EventElapsedTime(from, to)
		e.is(driver.ResultInvalidHandle, r)
		e.ok(e.api.EventRecord(from, s))
		release := e.block(s)
		e.ok(e.api.EventRecord(to, s))
		_, r = e.api.EventElapsedTime(from, to)
		e.is(driver.ResultNotReady, r)
		release()
		e.ok(e.api.StreamSynchronize(s))
		ms, r := e.api.EventElapsedTime(from, to)
		e.ok(r)
		assert.GreaterOrEqual(e, ms, float32(0))
		assert.Less(e, ms, float32(60_000))
	}},
	{"without timing", func(e *env) {
		s, from := e.stream(), e.event()
		to, r := e.api.EventCreate(driver.EventDisableTiming)
		e.ok(r)
		e.ok(e.api.EventRecord(from, s))
		e.ok(e.api.EventRecord(to, s))
		e.ok(e.api.StreamSynchronize(s))
		_, r = e.api.EventElapsedTime(from, to)
		e.is(driver.ResultInvalidHandle, r)
		e.ok(e.api.EventDestroy(to))
		_, r = e.api.EventCreate(1 << 20)
		e.is(driver.ResultInvalidValue, r)
	}},
	{"across streams", func(e *env) {
		a, b, ev := e.stream(), e.stream(), e.event()
		var order []string
		release := e.block(a)
		e.ok(e.api.LaunchHostFunc(a, func() { order = append(order, "a") }))
		e.ok(e.api.EventRecord(ev, a))
		e.ok(e.api.StreamWaitEvent(b, ev, 0))
		e.ok(e.api.LaunchHostFunc(b, func() { order = append(order, "b") }))
		e.is(driver.ResultNotReady, e.api.StreamQuery(b))
		release()
		e.ok(e.api.StreamSynchronize(b))
		assert.Equal(e, []string{"a", "b"}, order)
	}},
	{"a wait keeps what the event marked", func(e *env) {
		a, b, c, ev := e.stream(), e.stream(), e.stream(), e.event()
		e.ok(e.api.EventRecord(ev, a)) // done at once
		e.ok(e.api.StreamWaitEvent(b, ev, 0))
		release := e.block(c)
		e.ok(e.api.EventRecord(ev, c)) // marks something else now
		e.ok(e.api.StreamSynchronize(b))
		e.is(driver.ResultNotReady, e.api.EventQuery(ev))
		release()
		e.ok(e.api.EventSynchronize(ev))
	}},
	{"waiting for one that marks nothing", func(e *env) {
		s, ev := e.stream(), e.event()
		e.ok(e.api.StreamWaitEvent(s, ev, 0))
		e.ok(e.api.StreamSynchronize(s))
	}},
	{"destroyed before it is done", func(e *env) {
		a, b := e.stream(), e.stream()
		ev, r := e.api.EventCreate(0)
		e.ok(r)
		release := e.block(a)
		e.ok(e.api.EventRecord(ev, a))
		e.ok(e.api.StreamWaitEvent(b, ev, 0))
		e.ok(e.api.EventDestroy(ev))
		e.is(driver.ResultNotReady, e.api.StreamQuery(b))
		release()
		e.ok(e.api.StreamSynchronize(b))
	}},
}
