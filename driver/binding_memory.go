package driver

import (
	goruntime "runtime"
	"unsafe"
)

// The copies, fills and writes of a Binding are those of the API, on any thread. Somebody else in the
// process may have left a context current on the one that the call happens to be on, and the
// driver then looks at memory of pools from there: measured with driver 580, a copy to such
// memory fails with CUDA_ERROR_INVALID_VALUE while the context of a device is current that has
// no access to the pool, and with CUDA_ERROR_CONTEXT_IS_DESTROYED while one is that has ended.

// anyThread makes a call on the thread as it is, and if a context that is current there may be
// why it was refused, once more in that of the Binding. A refused call has done nothing.
func (b *Binding) anyThread(call func() Result) Result {
	if b == nil || b.API == nil {
		return ErrorSymbolMissing
	}
	r := call()
	switch r {
	case ErrorInvalidValue, ErrorInvalidContext, ErrorContextIsDestroyed:
	default:
		return r
	}
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	if r := b.CtxPushCurrent(b.Context); r != Success {
		return r
	}
	defer b.takeOff()
	return call()
}

// MemcpyHtoDAsync implements [API].
func (b *Binding) MemcpyHtoDAsync(dst DevicePtr, src unsafe.Pointer, bytes uint64, stream Stream) Result {
	return b.anyThread(func() Result { return b.API.MemcpyHtoDAsync(dst, src, bytes, stream) })
}

// MemcpyDtoHAsync implements [API].
func (b *Binding) MemcpyDtoHAsync(dst unsafe.Pointer, src DevicePtr, bytes uint64, stream Stream) Result {
	return b.anyThread(func() Result { return b.API.MemcpyDtoHAsync(dst, src, bytes, stream) })
}

// MemcpyDtoDAsync implements [API].
func (b *Binding) MemcpyDtoDAsync(dst, src DevicePtr, bytes uint64, stream Stream) Result {
	return b.anyThread(func() Result { return b.API.MemcpyDtoDAsync(dst, src, bytes, stream) })
}

// MemcpyAsync implements [API].
func (b *Binding) MemcpyAsync(dst, src DevicePtr, bytes uint64, stream Stream) Result {
	return b.anyThread(func() Result { return b.API.MemcpyAsync(dst, src, bytes, stream) })
}

// MemcpyPeerAsync implements [API].
func (b *Binding) MemcpyPeerAsync(dst DevicePtr, dstContext Context, src DevicePtr, srcContext Context, bytes uint64, stream Stream) Result {
	return b.anyThread(func() Result {
		return b.API.MemcpyPeerAsync(dst, dstContext, src, srcContext, bytes, stream)
	})
}

// Memcpy2DAsync implements [API].
func (b *Binding) Memcpy2DAsync(rect MemcpyRect, stream Stream) Result {
	return b.anyThread(func() Result { return b.API.Memcpy2DAsync(rect, stream) })
}

// MemsetD8Async implements [API].
func (b *Binding) MemsetD8Async(dst DevicePtr, value uint8, count uint64, stream Stream) Result {
	return b.anyThread(func() Result { return b.API.MemsetD8Async(dst, value, count, stream) })
}

// MemsetD16Async implements [API].
func (b *Binding) MemsetD16Async(dst DevicePtr, value uint16, count uint64, stream Stream) Result {
	return b.anyThread(func() Result { return b.API.MemsetD16Async(dst, value, count, stream) })
}

// MemsetD32Async implements [API].
func (b *Binding) MemsetD32Async(dst DevicePtr, value uint32, count uint64, stream Stream) Result {
	return b.anyThread(func() Result { return b.API.MemsetD32Async(dst, value, count, stream) })
}

// StreamWriteValue64 implements [API].
func (b *Binding) StreamWriteValue64(stream Stream, ptr DevicePtr, value uint64, flags uint32) Result {
	return b.anyThread(func() Result { return b.API.StreamWriteValue64(stream, ptr, value, flags) })
}
