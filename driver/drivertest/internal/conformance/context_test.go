package conformance

import (
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
)

var contextTests = []test{
	{"push and pop", func(e *env) {
		e.elsewhere(func() {
			e.is(driver.ResultInvalidValue, e.api.CtxPushCurrent(0))
			none, r := e.api.CtxGetCurrent()
			e.ok(r)
			assert.Zero(e, none)
			_, r = e.api.CtxPopCurrent()
			e.is(driver.ResultInvalidContext, r)

			e.ok(e.api.CtxPushCurrent(e.ctx))
			current, r := e.api.CtxGetCurrent()
			e.ok(r)
			assert.Equal(e, e.ctx, current)
			dev, r := e.api.CtxGetDevice()
			e.ok(r)
			assert.Equal(e, e.dev, dev)
			e.ok(e.api.CtxPushCurrent(e.ctx))
			for range 2 {
				popped, r := e.api.CtxPopCurrent()
				e.ok(r)
				assert.Equal(e, e.ctx, popped)
			}
			none, r = e.api.CtxGetCurrent()
			e.ok(r)
			assert.Zero(e, none)
		})
	}},
	{"set current", func(e *env) {
		e.elsewhere(func() {
			e.ok(e.api.CtxSetCurrent(e.ctx))
			current, r := e.api.CtxGetCurrent()
			e.ok(r)
			assert.Equal(e, e.ctx, current)
			e.ok(e.api.CtxSetCurrent(0))
			current, r = e.api.CtxGetCurrent()
			e.ok(r)
			assert.Zero(e, current)
		})
	}},
	{"cold calls need a context", func(e *env) {
		e.elsewhere(func() {
			_, r := e.api.MemAlloc(16)
			e.is(driver.ResultInvalidContext, r)
			_, _, r = e.api.MemGetInfo()
			e.is(driver.ResultInvalidContext, r)
			_, r = e.api.StreamCreate(0)
			e.is(driver.ResultInvalidContext, r)
			_, r = e.api.EventCreate(0)
			e.is(driver.ResultInvalidContext, r)
			_, r = e.api.MemHostAlloc(16, 0)
			e.is(driver.ResultInvalidContext, r)
			_, _, r = e.api.ModuleLoadData([]byte(ramp), driver.JIT{})
			e.is(driver.ResultInvalidContext, r)
			_, r = e.api.CtxGetDevice()
			e.is(driver.ResultInvalidContext, r)
			e.is(driver.ResultInvalidContext, e.api.CtxSynchronize())
			// The default stream belongs to the current context.
			e.is(driver.ResultInvalidContext, e.api.StreamSynchronize(0))
		})
	}},
	{"state", func(e *env) {
		_, active, r := e.api.DevicePrimaryCtxGetState(e.dev)
		e.ok(r)
		assert.EqualValues(e, 1, active)
		again, r := e.api.DevicePrimaryCtxRetain(e.dev)
		e.ok(r)
		assert.Equal(e, e.ctx, again)
		e.ok(e.api.DevicePrimaryCtxRelease(e.dev))
		_, active, r = e.api.DevicePrimaryCtxGetState(e.dev)
		e.ok(r)
		assert.EqualValues(e, 1, active)
	}},
	{"limits", func(e *env) {
		stack, r := e.api.CtxGetLimit(driver.LimitStackSize)
		e.ok(r)
		assert.Positive(e, stack)
		e.ok(e.api.CtxSetLimit(driver.LimitStackSize, stack))
		_, r = e.api.CtxGetLimit(1000)
		e.is(driver.ResultInvalidValue, r)
	}},
	{"priorities", func(e *env) {
		least, greatest, r := e.api.CtxGetStreamPriorityRange()
		e.ok(r)
		assert.LessOrEqual(e, greatest, least)
	}},
	{"identity", func(e *env) {
		e.needs(12000)
		id, r := e.api.CtxGetID(e.ctx)
		e.ok(r)
		assert.NotZero(e, id)
		current, r := e.api.CtxGetID(0)
		e.ok(r)
		assert.Equal(e, id, current)
		version, r := e.api.CtxGetAPIVersion(e.ctx)
		e.ok(r)
		assert.NotZero(e, version)
	}},
	{"released too often", func(e *env) {
		released := 0
		for e.api.DevicePrimaryCtxRelease(e.dev) == driver.Success {
			released++
			require.Less(e, released, 100)
		}
		e.is(driver.ResultInvalidContext, e.api.DevicePrimaryCtxRelease(e.dev))
		_, active, r := e.api.DevicePrimaryCtxGetState(e.dev)
		e.ok(r)
		assert.Zero(e, active)
		_, _, r = e.api.MemGetInfo()
		e.is(driver.ResultContextIsDestroyed, r)
		for range released {
			e.ctx, r = e.api.DevicePrimaryCtxRetain(e.dev)
			e.ok(r)
		}
		e.ok(e.api.CtxSetCurrent(e.ctx))
		_, _, r = e.api.MemGetInfo()
		e.ok(r)
	}},
}
