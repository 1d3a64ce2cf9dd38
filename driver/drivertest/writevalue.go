package drivertest

import (
	"sync/atomic"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// StreamWriteValue64 implements [driver.API]. The write is atomic, so that a goroutine
// may watch the memory with package sync/atomic.
func (d *Driver) StreamWriteValue64(h driver.Stream, ptr driver.DevicePtr, value uint64, flags uint32) driver.Result {
	c, s, r := d.enterStream("cuStreamWriteValue64", h)
	if r != driver.Success {
		return r
	}
	defer d.mu.Unlock()
	const noMemoryBarrier = 1
	switch {
	case !s.ctx.dev.writesValues():
		return driver.ErrorNotSupported
	case flags&^noMemoryBarrier != 0:
		return driver.ErrorInvalidValue
	case ptr%8 != 0:
		c.found(driver.ErrorInvalidValue, "%#x is not a multiple of 8", uint64(ptr))
		return driver.ErrorInvalidValue
	}
	if _, f := d.memory.bytes(ptr, 8, view{early: true}); f != nil {
		return c.misuse(f)
	}
	if r := c.checkCurrent(c.deviceSide(ptr)); r != driver.Success {
		return r
	}
	return c.submit(s, work{kind: nodeWriteValue, run: func() error {
		word, f := d.memory.bytes(ptr, 8, view{})
		if f != nil {
			return f
		}
		atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(word))), value)
		return nil
	}})
}

func (dev *device) writesValues() bool {
	value, _ := dev.attribute(driver.DeviceAttributeCanUse64BitStreamMemOps)
	return value != 0
}
