package drivertest

import "github.com/purecuda/purecuda/driver"

// memset puts the filling of count words of a width in bytes on a stream.
func (c call) memset(s *stream, dst driver.DevicePtr, value uint32, width, count uint64) driver.Result {
	if count == 0 {
		return driver.Success
	}
	if uint64(dst)%width != 0 {
		c.found(driver.ResultInvalidValue, "%#x is not a multiple of %d", uint64(dst), width)
		return driver.ResultInvalidValue
	}
	if count > (1<<62)/width {
		return driver.ResultInvalidValue
	}
	m, bytes := &c.d.memory, count*width
	if f := m.each(dst, bytes, view{early: true}, func([]byte) {}); f != nil {
		return c.misuse(f)
	}
	if r := c.checkCurrent(c.deviceSide(dst)); r != driver.Success {
		return r
	}
	return c.submit(s, work{kind: nodeMemset, run: func() error {
		f := m.each(dst, bytes, view{}, func(data []byte) {
			for i := range width {
				data[i] = byte(value >> (8 * i))
			}
			for done := int(width); done < len(data); done *= 2 {
				copy(data[done:], data[:done])
			}
		})
		if f != nil {
			return f
		}
		return nil
	}})
}

// memsetNow fills on the legacy default stream. Other than the real driver it
// waits for the end.
func (d *simulated) memsetNow(op string, dst driver.DevicePtr, value uint32, width, count uint64) driver.Result {
	return d.do(op, func(c call) driver.Result {
		s := c.ctx.null
		if r := c.memset(s, dst, value, width, count); r != driver.Success || count == 0 {
			return r
		}
		return c.wait(s.last)
	})
}

func (d *simulated) memsetAsync(op string, dst driver.DevicePtr, value uint32, width, count uint64, h driver.Stream) driver.Result {
	return on(d, call.stream, op, h, func(c call, s *stream) driver.Result { return c.memset(s, dst, value, width, count) })
}

func (d *simulated) MemsetD8(dst driver.DevicePtr, value uint8, count uint64) driver.Result {
	return d.memsetNow("cuMemsetD8", dst, uint32(value), 1, count)
}

func (d *simulated) MemsetD16(dst driver.DevicePtr, value uint16, count uint64) driver.Result {
	return d.memsetNow("cuMemsetD16", dst, uint32(value), 2, count)
}

func (d *simulated) MemsetD32(dst driver.DevicePtr, value uint32, count uint64) driver.Result {
	return d.memsetNow("cuMemsetD32", dst, value, 4, count)
}

func (d *simulated) MemsetD8Async(dst driver.DevicePtr, value uint8, count uint64, stream driver.Stream) driver.Result {
	return d.memsetAsync("cuMemsetD8Async", dst, uint32(value), 1, count, stream)
}

func (d *simulated) MemsetD16Async(dst driver.DevicePtr, value uint16, count uint64, stream driver.Stream) driver.Result {
	return d.memsetAsync("cuMemsetD16Async", dst, uint32(value), 2, count, stream)
}

func (d *simulated) MemsetD32Async(dst driver.DevicePtr, value uint32, count uint64, stream driver.Stream) driver.Result {
	return d.memsetAsync("cuMemsetD32Async", dst, value, 4, count, stream)
}
