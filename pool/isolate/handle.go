package isolate

import (
	"bytes"
	"context"
	"encoding"
	"encoding/gob"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/contain"
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
	codec Codec
}

// Handle is [Register] for a function whose request and result have types. Keep what it returns in a package-level variable, to call
// the function by its Do. docs/isolation.md has an example.
//
// Bytes and strings are sent as they are, and a type with MarshalBinary and UnmarshalBinary by those. All others are sent by
// encoding/gob, which takes tens of microseconds for each request, unless a codec is given. What is sent has at most 16 MiB:
// larger data goes into buffers ([WithBuffers]).
func Handle[Q, A any](name string, f func(w *pool.Worker, q Q, buffers []*Buffer) (A, error), codec ...Codec) *Handler[Q, A] {
	h := &Handler[Q, A]{name, standard{}}
	if len(codec) == 1 && codec[0] != nil {
		h.codec = codec[0]
	} else if len(codec) > 0 {
		f = nil // Open says so
	}
	if f == nil {
		Register(name, nil)
		return h
	}
	Register(name, func(w *pool.Worker, r *Request) ([]byte, error) {
		return h.serve(r, func(q Q) (A, error) { return f(w, q, r.Buffers) })
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
	data, err := encode(h.codec, &q)
	if err != nil {
		return a, report, err
	}
	result, report, err := g.Do(ctx, h.name, data, options...)
	if err == nil {
		err = decode(h.codec, result, &a)
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
		return h.serve(r, func(q Q) (A, error) { return f(ctx, q, r.Buffers) })
	})
}

// serve does a request.
func (h *Handler[Q, A]) serve(r *Request, f func(q Q) (A, error)) ([]byte, error) {
	var q Q
	if err := decode(h.codec, r.Data, &q); err != nil {
		return nil, err
	}
	a, err := f(q)
	if err != nil {
		return nil, err
	}
	return encode(h.codec, &a)
}

// handleVersion is the last byte of what is sent: the version of how it is made.
const handleVersion = 1

// encode makes bytes of a value.
func encode(c Codec, v any) (data []byte, err error) {
	err = contain.Do(func() (err error) {
		data, err = c.Marshal(v)
		return err
	})
	if err != nil {
		return nil, driver.Errorf(driver.ErrInvalidArgument, "a value of %T cannot be sent: %w", v, err)
	}
	return append(data[:len(data):len(data)], handleVersion), nil // the codec may keep what is behind
}

// decode makes a value of bytes.
func decode(c Codec, data []byte, v any) error {
	last := len(data) - 1
	if last < 0 || data[last] != handleVersion {
		return driver.Errorf(driver.ErrInvalidArgument, "%d bytes for a value of %T are not those of a Handler of version %d: call the function by its Handler.Do, "+
			"of the same version of the program", len(data), v, handleVersion)
	}
	if err := contain.Do(func() error { return c.Unmarshal(data[:last:last], v) }); err != nil {
		return driver.Errorf(driver.ErrInvalidArgument, "%d bytes are no value of %T: %w", last, v, err)
	}
	return nil
}

// standard is the Codec of a Handler that has no other.
type standard struct{}

// ofItself is a type that makes bytes of itself.
type ofItself interface {
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
}

func (standard) Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case *[]byte:
		return *v, nil
	case *string:
		return []byte(*v), nil
	case ofItself:
		return v.MarshalBinary()
	}
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (standard) Unmarshal(data []byte, v any) error {
	switch v := v.(type) {
	case *[]byte:
		*v = data
		return nil
	case *string:
		*v = string(data)
		return nil
	case ofItself:
		return v.UnmarshalBinary(data)
	}
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}
