package arena

import (
	goruntime "runtime"

	"github.com/purecuda/purecuda/driver"
)

// All calls of the driver that a Device makes are here. None is made once CUDA is lost.

// firstPools is the driver that brought stream-ordered memory.
const firstPools driver.Version = 11020

// openPool makes the pool, where there are pools.
func (d *Device) openPool() error {
	if d.config.NoPools {
		return nil
	}
	has, err := d.hasPools()
	if err != nil || !has {
		return err
	}
	return d.outside(func() error {
		pool, r := d.binding.API.MemPoolCreate(driver.MemPoolProps{
			AllocType: driver.MemAllocationPinned,
			Location:  d.location(),
		})
		if r == driver.ResultNotSupported || r == driver.ResultSymbolMissing {
			return nil // virtual GPUs say so in spite of the attribute
		}
		if r != driver.Success {
			return d.failed("cuMemPoolCreate", r)
		}
		// The driver unmaps what its pool has above the threshold whenever the host waits. What the
		// arena has in use or cached counts as used there. So this threshold keeps the free memory
		// of arena and pool together below the limit of the cache. Programs that use less than the
		// limit map no memory again.
		if r := d.binding.API.MemPoolSetAttribute(pool, driver.MemPoolReleaseThreshold, d.config.CacheBytes); r != driver.Success {
			err := d.failed("cuMemPoolSetAttribute", r)
			if r := d.binding.API.MemPoolDestroy(pool); r != driver.Success {
				d.binding.Cleanup(d.failed("cuMemPoolDestroy", r))
			}
			return err
		}
		d.pool = pool
		return nil
	})
}

// location is the device as a place for memory.
func (d *Device) location() driver.MemLocation {
	return driver.MemLocation{Type: driver.MemLocationDevice, ID: int32(d.binding.Ordinal)}
}

func (d *Device) hasPools() (bool, error) {
	version, r := d.binding.API.DriverGetVersion()
	if r != driver.Success {
		return false, d.failed("cuDriverGetVersion", r)
	}
	if version < firstPools {
		return false, nil
	}
	device, r := d.binding.API.DeviceGet(int32(d.binding.Ordinal))
	if r != driver.Success {
		return false, d.failed("cuDeviceGet", r)
	}
	value, r := d.binding.API.DeviceGetAttribute(driver.DeviceAttributeMemoryPoolsSupported, device)
	if r != driver.Success {
		return false, d.failed("cuDeviceGetAttribute", r)
	}
	return value != 0, nil
}

// failed makes the error of a call; a sticky one gives the device up. The locks of the
// Device and its stripes must not be held.
func (d *Device) failed(op string, r driver.Result) error {
	if r == driver.Success {
		return nil
	}
	err := d.binding.Fault(op, r)
	if err.Sticky {
		d.lose(err)
	}
	return err
}

// cleanup reports an error that no caller waits for.
func (d *Device) cleanup(err error) { d.binding.Cleanup(err) }

// outside runs f with the context current and no part in captures.
func (d *Device) outside(f func() error) error {
	if err := d.lost(); err != nil {
		return err
	}
	return outsideCaptures(d.binding, f)
}

// onStream makes a call that names a stream or an event. While streams of the device
// capture, calls about others would end the capture if the thread took part in it.
func (d *Device) onStream(op string, f func() driver.Result) error {
	r, err := d.try(f)
	if err != nil {
		return err
	}
	return d.failed(op, r)
}

// try is onStream for calls that are expected to fail.
func (d *Device) try(f func() driver.Result) (driver.Result, error) {
	if err := d.lost(); err != nil {
		return driver.Success, err
	}
	if d.capturing.Load() > 0 {
		goruntime.LockOSThread()
		defer goruntime.UnlockOSThread()
		mode, r := d.binding.API.ThreadExchangeStreamCaptureMode(driver.CaptureRelaxed)
		switch {
		case r == driver.Success:
			defer backToMode(d.binding, mode)
		case r.Sticky():
			return driver.Success, d.failed("cuThreadExchangeStreamCaptureMode", r)
		}
	}
	if err := d.binding.Push(); err != nil {
		return driver.Success, err
	}
	defer d.binding.Pop()
	return f(), nil
}

// allocate takes memory from the driver that work on the stream may use at once. The second
// result is what the driver said where it did not give any.
func (d *Device) allocate(s *Stream, bytes uint64) (ptr driver.DevicePtr, op string, r driver.Result, err error) {
	if d.pool == 0 {
		err = d.outside(func() error {
			ptr, r = d.binding.API.MemAlloc(bytes)
			return nil
		})
		return ptr, "cuMemAlloc", r, err
	}
	op = "cuMemAllocFromPoolAsync"
	if err := s.enter(); err != nil {
		return 0, op, driver.Success, err
	}
	defer s.leave()
	r, err = d.try(func() (r driver.Result) {
		ptr, r = d.binding.API.MemAllocFromPoolAsync(bytes, d.pool, s.handle)
		return r
	})
	return ptr, op, r, err
}

// freeAsync frees memory in the driver after the work on a stream, and reports whether the driver was
// asked. The stream has been entered.
func (d *Device) freeAsync(s *Stream, b *block) (asked bool, err error) {
	err = d.onStream("cuMemFreeAsync", func() driver.Result {
		asked = true
		return d.binding.API.MemFreeAsync(b.ptr, s.handle)
	})
	if asked {
		s.freeing.Store(true)
	}
	return asked, err
}

// freeNow frees memory that no work uses, also such of the pool. It returns what the driver did not take, what
// it was not asked about, and the first error.
func (d *Device) freeNow(blocks []*block) (refused, kept []*block, err error) {
	if len(blocks) == 0 {
		return nil, nil, nil
	}
	asked := 0
	err = d.outside(func() error {
		var first error
		for _, b := range blocks {
			if err := d.lost(); err != nil {
				return err
			}
			asked++
			if r := d.binding.API.MemFree(b.ptr); r != driver.Success {
				refused = append(refused, b)
				if err := d.failed("cuMemFree", r); first == nil {
					first = err
				}
			}
		}
		return first
	})
	return refused, blocks[asked:], err
}

// fill puts a memset on the stream, which has not been entered.
func (d *Device) fill(s *Stream, b *block, value uint8, bytes uint64) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return d.onStream("cuMemsetD8Async", func() driver.Result {
		return d.binding.MemsetD8Async(b.ptr, value, bytes, s.handle)
	})
}

// trimPool makes the driver unmap what its pool does not use.
func (d *Device) trimPool() error {
	if d.pool == 0 {
		return nil
	}
	return d.outside(func() error {
		return d.failed("cuMemPoolTrimTo", d.binding.API.MemPoolTrimTo(d.pool, 0))
	})
}

// memInfo is what the device has, and 0 where that cannot be known.
func (d *Device) memInfo() (free, total uint64) {
	_ = d.outside(func() error {
		free, total, _ = d.binding.API.MemGetInfo()
		return nil
	})
	return free, total
}
