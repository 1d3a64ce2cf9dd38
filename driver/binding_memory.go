package driver

import goruntime "runtime"

// The copies, fills and writes of a Binding are those of the API, on any thread. Somebody else in the
// process may have left a context current on the one that the call happens to be on, and the
// driver then looks at memory of pools from there: measured with driver 580, a copy to such
// memory fails with CUDA_ERROR_INVALID_VALUE while the context of a device is current that has
// no access to the pool, and with CUDA_ERROR_CONTEXT_IS_DESTROYED while one is that has ended.

// anyThread makes a call on the thread as it is, and if a context that is current there may be
// why it was refused, once more in that of the Binding. A refused call has done nothing.
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
	if r := b.CtxPushCurrent(b.Context); r != Success {
		return r
	}
	defer b.takeOff()
	return call()
}
