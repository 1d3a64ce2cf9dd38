package runtime

import (
	"context"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/zero"
)

// A nil pointer and the zero value of what this package makes are an error of kind
// driver.ErrInvalidArgument wherever a method can say so. Others return nothing, and Close has
// nothing to close.

// errNothing is the error of a nil pointer or a zero value. It stays out of its callers, some of
// which must be small.
//
//go:noinline
func errNothing(what string) *driver.Error {
	return driver.Errorf(driver.ErrInvalidArgument, "a %s that was never made", what)
}

// errNoContext is the error of a nil context.Context.
func errNoContext(what string) *driver.Error {
	return driver.Errorf(driver.ErrInvalidArgument, "%s takes a context that is not nil", what)
}

// usable refuses a stream that is none, and a nil ctx.
func usable(ctx context.Context, s *Stream, what string) error {
	switch {
	case s == nil || s.ctx == nil:
		return errNothing("stream")
	case ctx == nil:
		return errNoContext(what)
	}
	return nil
}

// Close is that of the object: it waits for the calls that use it. Of nothing it is nothing.
func (o *Stream) Close() error { return zero.Or(o).object.Close() }

// Close is that of the object: it waits for the calls that use it. Of nothing it is nothing.
func (o *Event) Close() error { return zero.Or(o).object.Close() }

// Close is that of the object: it waits for the calls that use it. Of nothing it is nothing.
func (o *Graph) Close() error { return zero.Or(o).object.Close() }

// Close is that of the object: it waits for the calls that use it. Of nothing it is nothing.
func (o *GraphExec) Close() error { return zero.Or(o).object.Close() }

// Context is the context that it lives in.
func (o *Stream) Context() *Context { return zero.Or(o).ctx }

// Context is the context that it lives in.
func (o *Event) Context() *Context { return zero.Or(o).ctx }

// Context is the context that it lives in.
func (o *Graph) Context() *Context { return zero.Or(o).ctx }

// Context is the context that it lives in.
func (o *GraphExec) Context() *Context { return zero.Or(o).ctx }

// Context is the context that it lives in.
func (o *Module) Context() *Context { return zero.Or(o).ctx }
