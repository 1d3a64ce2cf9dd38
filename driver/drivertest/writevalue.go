package drivertest

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/purecuda/purecuda/driver"
)

// StreamWriteValue64 implements [driver.API]. The write is atomic, so that a goroutine
// may watch the memory with package sync/atomic.
func (d *simulated) StreamWriteValue64(h driver.Stream, ptr driver.DevicePtr, value uint64, flags uint32) driver.Result {
	return d.valueOperation("cuStreamWriteValue64", h, ptr, 8, flags, 0, func(word unsafe.Pointer) bool {
		atomic.StoreUint64((*uint64)(word), value)
		return true
	})
}

// StreamWriteValue32 implements [driver.API], like [Driver.StreamWriteValue64].
func (d *simulated) StreamWriteValue32(h driver.Stream, ptr driver.DevicePtr, value uint32, flags uint32) driver.Result {
	return d.valueOperation("cuStreamWriteValue32", h, ptr, 4, flags, 0, func(word unsafe.Pointer) bool {
		atomic.StoreUint32((*uint32)(word), value)
		return true
	})
}

// StreamWaitValue64 implements [driver.API]. It reads atomically: write the value with
// [Driver.StreamWriteValue64], a copy of 8 bytes, an atomic of a kernel or, on the host, with package
// sync/atomic.
func (d *simulated) StreamWaitValue64(h driver.Stream, ptr driver.DevicePtr, value uint64, flags uint32) driver.Result {
	return d.valueOperation("cuStreamWaitValue64", h, ptr, 8, flags, driver.StreamWaitValueNor, func(word unsafe.Pointer) bool {
		have := atomic.LoadUint64((*uint64)(word))
		switch flags {
		case driver.StreamWaitValueEqual:
			return have == value
		case driver.StreamWaitValueAnd:
			return have&value != 0
		case driver.StreamWaitValueNor:
			return ^(have | value) != 0
		}
		return int64(have-value) >= 0
	})
}

// valueOperation puts on a stream what is done with one word of memory, until it says that it is done.
func (d *simulated) valueOperation(op string, h driver.Stream, ptr driver.DevicePtr, width uint64, flags, known uint32, done func(word unsafe.Pointer) bool) driver.Result {
	return on(d, call.stream, op, h, func(c call, s *stream) driver.Result {
		switch {
		case width == 8 && !s.ctx.dev.can(driver.DeviceAttributeCanUse64BitStreamMemOps):
			return driver.ResultNotSupported
		case flags&driver.StreamWaitValueFlush != 0 && known != 0:
			return driver.ResultNotSupported // see DeviceAttributeCanFlushRemoteWrites
		case flags > max(known, noMemoryBarrier):
			return driver.ResultInvalidValue
		case uint64(ptr)%width != 0:
			c.found(driver.ResultInvalidValue, "%#x is not a multiple of %d", uint64(ptr), width)
			return driver.ResultInvalidValue
		}
		if _, f := d.memory.bytes(ptr, width, view{early: true}); f != nil {
			return c.misuse(f)
		}
		if r := c.checkCurrent(c.deviceSide(ptr)); r != driver.Success {
			return r
		}
		return c.submit(s, work{kind: nodeValue, holds: known != 0, run: func() error {
			word, f := d.memory.bytes(ptr, width, view{})
			if f != nil {
				return f
			}
			for pause := 20 * time.Microsecond; !done(unsafe.Pointer(unsafe.SliceData(word))); pause = min(2*pause, time.Millisecond) {
				time.Sleep(pause)
				if d.poison() != driver.Success || s.ctx.present() != driver.Success {
					break
				}
				if d.running.Err() != nil {
					return &fault{result: driver.ResultLaunchTimeout, addr: ptr, bytes: width,
						detail: "the driver was closed while a stream waited for a value"}
				}
			}
			return nil
		}})
	})
}

// noMemoryBarrier is a flag of a write that changes nothing here.
const noMemoryBarrier = 1

// can tells that an attribute of the device is not 0.
func (dev *device) can(attribute driver.DeviceAttribute) bool {
	value, _ := dev.attribute(attribute)
	return value != 0
}
