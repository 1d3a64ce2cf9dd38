// Package current makes the context of a device current for calls of C, in the crossing of each call.
package current

import (
	goruntime "runtime"
	"sync/atomic"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/dl"
	"github.com/purecuda/purecuda/internal/ffi"
)

// Context is current in each call that it makes, and what was current before is current again after it. It is safe for
// concurrent use.
type Context struct {
	binding *driver.Binding // one that Pop takes off the thread
	within  ffi.Within
	failed  atomic.Pointer[driver.Error]
}

// Of is the context of a binding, or nil if its driver is none of C's, such as a simulated one.
func Of(b *driver.Binding) *Context {
	lib, ok := b.API.(*driver.Library)
	if !ok {
		return nil
	}
	cuda, _, err := dl.Open(lib.Path())
	if err != nil {
		return nil
	}
	return of(b, cuda.Symbol)
}

func of(b *driver.Binding, symbol func(name string) uintptr) *Context {
	w := ffi.Within{Push: symbol("cuCtxPushCurrent_v2"), Pop: symbol("cuCtxPopCurrent_v2"), Context: uintptr(b.Context)}
	if w.Push == 0 || w.Pop == 0 {
		return nil
	}
	return &Context{within: w, binding: &driver.Binding{API: b.API, Context: b.Context, Ordinal: b.Ordinal, NeedsCurrent: true,
		OnError: b.OnError, OnCleanup: b.OnCleanup}}
}

// Call is [ffi.Frame.CallFloats] with the context current. If the driver refuses that, fn is not called, and [Context.Failed]
// says why.
func (c *Context) Call(f *ffi.Frame, fn uintptr, words int, floats uint32) uintptr {
	goruntime.LockOSThread() // for the case that the context stays on it
	ret, pushed, popped := f.CallWithin(fn, words, floats, c.within)
	if pushed|popped == 0 {
		goruntime.UnlockOSThread()
		return ret
	}
	return c.refused(ret, driver.Result(pushed), driver.Result(popped))
}

// refused ends a call that the driver has refused to make the context current for, or to take it off the thread after.
func (c *Context) refused(ret uintptr, pushed, popped driver.Result) uintptr {
	if pushed != driver.Success {
		goruntime.UnlockOSThread()
		c.failed.Store(c.binding.Fault("cuCtxPushCurrent", pushed))
		return ffi.Unavailable
	}
	if now, r := c.binding.API.CtxGetCurrent(); r == driver.Success && now != c.binding.Context {
		goruntime.UnlockOSThread() // it is off all the same
	} else {
		c.binding.Pop()
	}
	c.binding.Cleanup(c.binding.Fault("cuCtxPopCurrent", popped))
	return ret
}

// Failed is why a call was not made, and nil from then on.
func (c *Context) Failed() error {
	if c == nil {
		return nil
	}
	if err := c.failed.Swap(nil); err != nil {
		return err
	}
	return nil
}
