package conformance

import (
	"github.com/stretchr/testify/assert"

	"github.com/purecuda/purecuda/driver"
)

// Other processes are not the suite's: see runtime/ipc_linux_test.go.
var ipcTests = []test{
	{"in one process", func(e *env) {
		ptr := e.alloc(2 << 20)
		e.ok(e.api.MemsetD8(ptr, 5, 2<<20))
		handle, r := e.api.IpcGetMemHandle(ptr)
		if r != driver.Success {
			_, opened := e.api.IpcOpenMemHandle(handle, driver.IpcLazyEnablePeerAccess)
			assert.NotEqual(e, driver.Success, opened, "a handle of zeros")
			assert.NotEqual(e, driver.Success, e.api.IpcCloseMemHandle(ptr), "never opened")
			e.Skipf("this system does not share memory of the device: cuIpcGetMemHandle returns %v", r)
		}
		again, r := e.api.IpcGetMemHandle(ptr)
		e.ok(r)
		assert.Equal(e, handle, again)
		_, r = e.api.IpcOpenMemHandle(handle, driver.IpcLazyEnablePeerAccess)
		e.is(driver.ResultInvalidContext, r)
		_, r = e.api.IpcOpenMemHandle(handle, 0)
		e.oneOf(r, driver.ResultInvalidValue, driver.ResultInvalidContext)
		freed, r := e.api.MemAlloc(2 << 20)
		e.ok(r)
		e.ok(e.api.MemFree(freed))
		_, r = e.api.IpcGetMemHandle(freed)
		e.is(driver.ResultInvalidValue, r)
		assert.NotEqual(e, driver.Success, e.api.IpcCloseMemHandle(ptr), "it was not opened")
		assert.Equal(e, byte(5), download[byte](e, ptr, 256)[255])
	}},
}
