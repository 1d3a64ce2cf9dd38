package conformance

import (
	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

var deviceTests = []test{
	{"identity", func(e *env) {
		count, r := e.api.DeviceGetCount()
		e.ok(r)
		assert.Positive(e, count)
		name, r := e.api.DeviceGetName(e.dev)
		e.ok(r)
		assert.NotEmpty(e, name)
		uuid, r := e.api.DeviceGetUUID(e.dev)
		e.ok(r)
		assert.NotZero(e, uuid)
		id, r := e.api.DeviceGetPCIBusID(e.dev)
		e.ok(r)
		found, r := e.api.DeviceGetByPCIBusID(id)
		e.ok(r)
		assert.Equal(e, e.dev, found)
		_, r = e.api.DeviceGetByPCIBusID("not an address")
		e.oneOf(r, driver.ResultInvalidValue, driver.ResultInvalidDevice)
	}},
	{"no such device", func(e *env) {
		count, r := e.api.DeviceGetCount()
		e.ok(r)
		for _, ordinal := range []int32{-1, count, 1 << 30} {
			_, r = e.api.DeviceGet(ordinal)
			e.is(driver.ResultInvalidDevice, r)
			_, r = e.api.DeviceGetName(driver.Device(ordinal))
			e.is(driver.ResultInvalidDevice, r)
			_, r = e.api.DevicePrimaryCtxRetain(driver.Device(ordinal))
			e.is(driver.ResultInvalidDevice, r)
		}
	}},
	{"attributes", func(e *env) {
		for _, want := range []struct {
			attribute driver.DeviceAttribute
			least     int32
		}{
			{driver.DeviceAttributeComputeCapabilityMajor, 5},
			{driver.DeviceAttributeMultiprocessorCount, 1},
			{driver.DeviceAttributeMaxThreadsPerBlock, 1024},
			{driver.DeviceAttributeMaxSharedMemoryPerBlock, 48 << 10},
			{driver.DeviceAttributeWarpSize, 32},
			{driver.DeviceAttributeUnifiedAddressing, 1},
		} {
			value, r := e.api.DeviceGetAttribute(want.attribute, e.dev)
			e.ok(r)
			assert.GreaterOrEqual(e, value, want.least, "attribute %d", want.attribute)
		}
		_, r := e.api.DeviceGetAttribute(100000, e.dev)
		e.is(driver.ResultInvalidValue, r)
	}},
	{"memory", func(e *env) {
		all, r := e.api.DeviceTotalMem(e.dev)
		e.ok(r)
		free, total, r := e.api.MemGetInfo()
		e.ok(r)
		assert.Equal(e, all, total)
		assert.LessOrEqual(e, free, total)
	}},
	{"error names", func(e *env) {
		name, r := e.api.GetErrorName(driver.ResultOutOfMemory)
		e.ok(r)
		assert.Equal(e, "CUDA_ERROR_OUT_OF_MEMORY", name)
		text, r := e.api.GetErrorString(driver.ResultOutOfMemory)
		e.ok(r)
		assert.NotEmpty(e, text)
		_, r = e.api.GetErrorName(12345)
		e.is(driver.ResultInvalidValue, r)
	}},
	{"init again", func(e *env) {
		e.ok(e.api.Init(0))
		e.is(driver.ResultInvalidValue, e.api.Init(7))
	}},
}
