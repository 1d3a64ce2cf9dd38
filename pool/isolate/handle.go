package isolate

import (
	"context"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/typed"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/pool"
)

// Codec makes bytes of requests and results, and the other way round. Both get a pointer to the value. It is used on several goroutines at
// the same time.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// Handler is a registered function whose requests and results have types. It is safe for concurrent use.
type Handler[Q, A any] struct {
	name  string
	codec typed.Codec
}

// Handle is [Register] for a function whose request and result have types. Keep what it returns in a package-level variable, to call
// the function by its Do. docs/isolation.md has an example.
//
// Bytes and strings are sent as they are, and a type with MarshalBinary and UnmarshalBinary by those. All others are sent by
// encoding/gob, unless a codec is given. That takes 5 to 6 microseconds for a small request and its result, and tens of microseconds for types that
// hold an interface. What is sent has at most 16 MiB: larger data goes into buffers ([WithBuffers]).
func Handle[Q, A any](name string, f func(w *pool.Worker, q Q, buffers []*Buffer) (A, error), codec ...Codec) *Handler[Q, A] {
	h := &Handler[Q, A]{name, typed.Choose(codec)}
	if f == nil || h.codec == nil {
		Register(name, nil) // Open says so
		return h
	}
	Register(name, func(w *pool.Worker, r *Request) ([]byte, error) {
		return typed.Serve(h.codec, r.Data, func(q Q) (A, error) { return f(w, q, r.Buffers) })
	})
	return h
}

// Do is [Group.Do] of the function.
func (h *Handler[Q, A]) Do(ctx context.Context, g *Group, q Q, options ...Option) (a A, report pool.Report, err error) {
	report.Device = driver.NoDevice
	h = zero.Or(h)
	if h.codec == nil {
		return a, report, driver.Errorf(driver.ErrInvalidArgument, "a Handler is made by isolate.Handle")
	}
	data, err := typed.Encode(h.codec, &q)
	if err != nil {
		return a, report, err
	}
	result, report, err := g.Do(ctx, h.name, data, options...)
	if err == nil {
		err = typed.Decode(h.codec, result, &a)
	}
	return a, report, err
}

// WithFallback is the option [WithFallback] for calls of the Handler.
func (h *Handler[Q, A]) WithFallback(f func(ctx context.Context, q Q, buffers []*Buffer) (A, error)) Option {
	if h = zero.Or(h); f == nil || h.codec == nil {
		return WithFallback(nil)
	}
	return WithFallback(func(ctx context.Context, name string, r *Request) ([]byte, error) {
		if name != h.name {
			return nil, driver.Errorf(driver.ErrInvalidArgument, "the fallback of %q cannot do %q", h.name, name)
		}
		return typed.Serve(h.codec, r.Data, func(q Q) (A, error) { return f(ctx, q, r.Buffers) })
	})
}
