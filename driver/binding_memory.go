package driver

import goruntime "runtime"

// The copies, fills and writes of a Binding are the API's, on any thread. Other code may have
// left a context current there, and the driver then looks at memory of pools from that context. With
// driver 580 a copy to such memory fails with CUDA_ERROR_INVALID_VALUE if the device of that context
// has no access to the pool. If that context has ended, the error is CUDA_ERROR_CONTEXT_IS_DESTROYED.

// anyThread makes a call on the thread as it is. If a context that is current there may be why it
// was refused, it makes the call once more in the context of the Binding. A refused call has done
// nothing.
func (b *Binding) anyThread(call func() Result) Result {
	if b == nil || b.API == nil {
		return ResultSymbolMissing
	}
	r := call()
	switch r {
	case ResultInvalidValue, ResultInvalidContext, ResultContextIsDestroyed:
	default:
		return r
	}
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	if r := b.API.CtxPushCurrent(b.Context); r != Success {
		return r
	}
	defer b.takeOff()
	return call()
}
