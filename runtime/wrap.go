package runtime

import (
	"unsafe"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/refs"
)

// WrapRef makes a Ref of n elements of device memory that other code owns, on the device of the
// stream. Copies, launches and Submit then order their work with it. The contract:
//
//   - Work on s may use the memory at once. If others have put work with it elsewhere, make s
//     wait for that before.
//   - No other Ref has the memory, and others do not use it until Close.
//   - Close does not free it. It makes s wait for the work of other streams with the memory. The owner
//     may free it behind that on s, or after a Synchronize of s. Keep s open until then, and
//     close graphs that use the memory before.
//   - A Reset of the context takes the memory away from its owner as well.
//
// An address that is not aligned, or that the driver does not know as memory of the device, is an error
// of kind driver.ErrInvalidArgument. T must be free of pointers. It cannot be called while s is captured.
func WrapRef[T any](s *Stream, address driver.DevicePtr, n int) (*Ref[T], error) {
	if s == nil || s.ctx == nil {
		return nil, errNothing("stream")
	}
	var element T
	bytes, err := refs.SizeOf[T](n)
	switch {
	case err != nil:
		return nil, err
	case n == 0 || address == 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "wrap %d elements at address %#x: want one at least, and memory", n, uint64(address))
	case uint64(address)%uint64(unsafe.Alignof(element)) != 0:
		return nil, driver.Errorf(driver.ErrInvalidArgument, "wrap address %#x, which is no multiple of %d", uint64(address), unsafe.Alignof(element))
	}
	if err := s.call(); err != nil {
		return nil, err
	}
	defer s.end()
	if err := s.refuse("WrapRef", "wrap before the capture or on another stream"); err != nil {
		return nil, err
	}
	last := address + driver.DevicePtr(bytes) - 1
	if last < address {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "wrap %d bytes at address %#x, which cannot be", bytes, uint64(address))
	}
	err = s.ctx.bind.Do(func() error {
		for _, at := range []driver.DevicePtr{address, last} {
			if err := s.ctx.owns(at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return refs.Wrap[T](s.ctx.state, s.memory, address, n)
}

// owns is why an address is not in memory of the device, or nil.
func (c *Context) owns(at driver.DevicePtr) error {
	for _, want := range []struct {
		attribute driver.PointerAttribute
		value     uint64
		text      string
	}{
		{driver.PointerAttributeMemoryType, uint64(driver.MemoryDevice), "address %#x is memory of type %d, want that of a device, which is %d"},
		{driver.PointerAttributeDeviceOrdinal, uint64(c.device.Ordinal), "address %#x is memory of device %d, and the stream is of device %d"},
	} {
		value, r := c.api.PointerGetAttribute(want.attribute, at)
		switch {
		case r == driver.ResultInvalidValue:
			return driver.Errorf(driver.ErrInvalidArgument, "address %#x is no memory that CUDA knows", uint64(at))
		case r != driver.Success:
			return c.bind.Failed("cuPointerGetAttribute", r)
		case value != want.value:
			return driver.Errorf(driver.ErrInvalidArgument, want.text, uint64(at), value, want.value)
		}
	}
	return nil
}

// lastDefaultStream is CU_STREAM_PER_THREAD, the last of the handles that stand for a default stream.
const lastDefaultStream = 2

// WrapStream makes a Stream of a stream of the context that other code owns. All that this package can
// do with a stream works. The contract:
//
//   - Work that others put on it is in the order of the stream, but not in the order of Refs: others use
//     memory of Refs within [Stream.Submit] only.
//   - Others do not begin a capture on it, and do not destroy it before Close.
//   - Close waits for the calls that use the stream, and leaves it and the work on it as they are.
//   - A Reset of the context takes the stream away from its owner as well.
//
// handle must be a stream: the driver may crash on anything else. One of CUDA's default streams, a
// stream of another context, one that is captured and one that is a Stream of the context
// already are errors of kind driver.ErrInvalidArgument.
func (c *Context) WrapStream(handle driver.Stream) (s *Stream, err error) {
	if handle <= lastDefaultStream {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "wrap stream %#x, which is a default stream: make one with cuStreamCreate", uint64(handle))
	}
	err = c.work(func() error {
		of, r := c.api.StreamGetCtx(handle)
		if r != driver.Success {
			return c.bind.Failed("cuStreamGetCtx", r)
		}
		if of != c.bind.Context {
			return driver.Errorf(driver.ErrInvalidArgument, "wrap stream %#x, which is not of the primary context of device %d", uint64(handle), c.device.Ordinal)
		}
		status, r := c.api.StreamIsCapturing(handle)
		if r != driver.Success {
			return c.bind.Failed("cuStreamIsCapturing", r)
		}
		if status != driver.CaptureNone {
			return driver.Errorf(driver.ErrInvalidArgument, "wrap stream %#x, which is captured: wrap it before", uint64(handle))
		}
		o, isNew := c.newObject(&entry{kind: streamEntry, handle: uint64(handle), details: &details{wrapped: true}})
		if !isNew {
			return driver.Errorf(driver.ErrInvalidArgument, "wrap stream %#x, which is a Stream of the context already", uint64(handle))
		}
		s = c.newStream(o, 0)
		return nil
	})
	return s, err
}
