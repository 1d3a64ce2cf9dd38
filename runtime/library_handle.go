package runtime

import (
	"fmt"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
	"github.com/purecuda/purecuda/internal/current"
	"github.com/purecuda/purecuda/internal/zero"
)

// LibraryHandle is what another library keeps for a context: a handle of cuBLAS, a plan of cuFFT, a
// communicator of NCCL. It ends with the context: it is destroyed before a Reset or Runtime.Close takes
// the context down, and [Stream.Submit] refuses it from then on. So who made it learns that it is gone.
// It is safe for concurrent use. What the library itself must not do at the same time the caller has to
// keep apart.
type LibraryHandle struct {
	object
	current *current.Context // of its calls; nil: Submit makes the context current
}

// NewLibraryHandle runs create, which makes the handle, with the context current as [Context.Do]
// does. name is for errors, such as "cublasCreate". create returns the function that destroys the
// handle, or nil if there is nothing to destroy.
//
// destroy is called once, with the context current, when nothing uses the handle any more: after
// Close, or when the context ends. The garbage collector finds a LibraryHandle that was not closed, if
// destroy does not refer to it. After a loss of CUDA or of the device destroy is not called, because
// what it would destroy is gone. destroy must not call this package.
func (c *Context) NewLibraryHandle(name string, create func() (destroy func() error, err error)) (*LibraryHandle, error) {
	if create == nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "%s: NewLibraryHandle takes a function that is not nil", name)
	}
	var h *LibraryHandle
	err := c.work(func() error {
		var destroy func() error
		err := contain.Do(func() (err error) { destroy, err = create(); return err })
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		h = new(LibraryHandle)
		h.object, _ = c.newObject(&entry{kind: libraryEntry, handle: c.handles.Add(1), details: &details{destroyHandle: destroy}})
		trackGC(h, &h.object)
		return nil
	})
	return h, err
}

// Arg is the handle as what a [Stream.Submit] uses. A kernel does not take it.
func (h *LibraryHandle) Arg() Arg {
	if h == nil || h.ctx == nil {
		return wrongArg(errNothing("library handle"))
	}
	a := argOf(&h.object)
	if h.current != nil {
		a.size = makesCurrent
	}
	return a
}

// makesCurrent is the size of an Arg of a handle whose calls make the context current.
const makesCurrent = 1

// makeCurrent tells whether that is so of what a Submit uses.
func makeCurrent(uses []Arg) bool {
	for i := range uses {
		if a := &uses[i]; a.kind == objectArg && a.size == makesCurrent {
			return true
		}
	}
	return false
}

// Current is for package libs: what makes the context current in the crossing of a call, and nil where that cannot be. From
// then on a Submit that uses the handle does not, and its function may run on any thread. It must be called before others
// get to know the handle.
func (h *LibraryHandle) Current() *current.Context {
	if h == nil || h.ctx == nil {
		return nil
	}
	if h.current == nil {
		h.current = current.Of(&h.ctx.bind)
	}
	return h.current
}

// Close waits for the calls that use the handle and for the work of the device that may use it, and
// destroys it. It may be called twice. What a graph uses is destroyed after the graph.
func (h *LibraryHandle) Close() error { return zero.Or(h).object.Close() }

// Context is the context that it lives in.
func (h *LibraryHandle) Context() *Context { return zero.Or(h).ctx }

// destroyHandle calls the destroy of a handle, on a goroutine of its own, which it may end. It may be
// on the way of a Reset, which it must not stop.
func (c *Context) destroyHandle(destroy func() error) (err error) {
	if destroy == nil {
		return nil
	}
	hook := contain.Hook(func() { err = c.bind.Do(destroy) })
	if err == nil {
		err = hook
	}
	if err != nil {
		err = fmt.Errorf("destroying a library handle of device %d: %w", c.device.Ordinal, err)
	}
	return err
}
