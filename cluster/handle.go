package cluster

import (
	"context"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/internal/typed"
	"github.com/purecuda/purecuda/internal/zero"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
)

// Handler calls a function whose requests and results have types. It is safe for concurrent use.
type Handler[Q, A any] struct {
	name  string
	codec typed.Codec
}

// Handle returns what calls a function that the hosts have registered with [isolate.Handle]. The types and the codec are those of there:
// a result of another version or type is an error. At most one codec is given. What is sent has at most 16 MiB.
func Handle[Q, A any](name string, codec ...isolate.Codec) *Handler[Q, A] {
	return &Handler[Q, A]{name, typed.Choose(codec)}
}

// Do is the function [Do] for a request.
func (h *Handler[Q, A]) Do(ctx context.Context, c *Cluster, q Q, options ...Option) (a A, report pool.Report, err error) {
	p, err := h.Piece(q)
	if err != nil {
		return a, nothing, err
	}
	result, report, err := Do(ctx, c, h.name, p, options...)
	if err == nil {
		a, err = h.Result(result)
	}
	return a, report, err
}

// Map is the function [Map] for requests.
func (h *Handler[Q, A]) Map(ctx context.Context, c *Cluster, in []Q, options ...Option) ([]A, pool.Report, error) {
	out := make([]A, len(in))
	report, err := Scatter(ctx, c, zero.Or(h).name, len(in), func(i int) (Piece, error) { return h.Piece(in[i]) }, func(i int, data []byte) (err error) {
		out[i], err = h.Result(data)
		return err
	}, options...)
	if err != nil {
		return nil, report, err
	}
	return out, report, nil
}

// Piece makes the piece of a request, for [Scatter] and [Reduce]. The function gets the references as buffers.
func (h *Handler[Q, A]) Piece(q Q, refs ...Ref) (Piece, error) {
	if h = zero.Or(h); h.codec == nil {
		return Piece{}, noHandler()
	}
	data, err := typed.Encode(h.codec, &q)
	return Piece{Data: data, Refs: refs}, err
}

// Result is the result of a piece.
func (h *Handler[Q, A]) Result(data []byte) (a A, err error) {
	if h = zero.Or(h); h.codec == nil {
		return a, noHandler()
	}
	err = typed.Decode(h.codec, data, &a)
	return a, err
}

func noHandler() error {
	return driver.Errorf(driver.ErrInvalidArgument, "a Handler is made by cluster.Handle, with one codec at most, which is not nil")
}

// WithFallback is the option [WithFallback] for calls of the Handler.
func (h *Handler[Q, A]) WithFallback(f func(ctx context.Context, q Q, refs []Ref) (A, error)) Option {
	if h = zero.Or(h); f == nil || h.codec == nil {
		return WithFallback(nil)
	}
	return WithFallback(func(ctx context.Context, p Piece) ([]byte, error) {
		return typed.Serve(h.codec, p.Data, func(q Q) (A, error) { return f(ctx, q, p.Refs) })
	})
}

// WithCPU is the option [WithCPU] for the function of the Handler.
func (h *Handler[Q, A]) WithCPU(f func(ctx context.Context, q Q, buffers []*isolate.Buffer) (A, error)) Option {
	if h = zero.Or(h); f == nil || h.codec == nil {
		return nil
	}
	return WithCPU(h.name, func(ctx context.Context, r *isolate.Request) ([]byte, error) {
		return typed.Serve(h.codec, r.Data, func(q Q) (A, error) { return f(ctx, q, r.Buffers) })
	})
}
