package otel

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/runtime"
)

// Trace makes spans of what a runtime does, for runtime.WithTrace:
//
//	spans, err := purecudaotel.Trace(otel.GetTracerProvider(), false)
//	if err != nil {
//		return err
//	}
//	rt, err := runtime.Open(runtime.WithTrace(spans))
//
// A request of package pool is a span below the span of its context, if the sampler wants it, and its
// launches, copies and waits are spans below that. Without a sampled span in their context they make
// none. With deviceTimes each launch has one more, "kernel NAME", as long as it took on the device,
// which makes launches slower (see runtime.Trace). It ends when the host has heard of it.
//
// A child of pool/isolate continues the trace of the program if its runtime has such a Trace too. So do a host of module cluster and its
// children with the trace of the caller (cluster.WithTrace). They get the traceparent of W3C with the request.
//
// Attributes are set on every span. A nil provider is an error.
func Trace(provider trace.TracerProvider, deviceTimes bool, attributes ...attribute.KeyValue) (*runtime.Trace, error) {
	if provider == nil {
		return nil, errors.New("purecuda/contrib/otel: no TracerProvider; otel.GetTracerProvider() is that of the process")
	}
	s := spans{provider.Tracer(Scope), attributes}
	t := &runtime.Trace{Launch: s.launch, Copy: s.copy, Wait: s.wait, Module: s.module, Request: s.request, Inject: inject, Extract: extract}
	if deviceTimes {
		t.Kernel = s.kernel
	}
	return t, nil
}

type spans struct {
	tracer     trace.Tracer
	attributes []attribute.KeyValue
}

// inject returns the traceparent of W3C, in which is no state of vendors.
func inject(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"]
}

func extract(ctx context.Context, parent string) context.Context {
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent})
}

func (s spans) launch(ctx context.Context, l runtime.TraceLaunch) {
	s.call(ctx, "launch "+nameOf(l), l.TraceCall, ofLaunch(l)...)
}

// kernel is told when the work has ended, and may be after the end of the request.
func (s spans) kernel(ctx context.Context, k runtime.TraceKernel) {
	if k.TimeErr == nil {
		s.span(ctx, "kernel "+nameOf(k.TraceLaunch), time.Now().Add(-k.Time), k.Time, k.TraceCall, nil, ofLaunch(k.TraceLaunch)...)
	}
}

func (s spans) copy(ctx context.Context, c runtime.TraceCopy) {
	s.call(ctx, "copy "+c.Direction, c.TraceCall, attribute.Int64("purecuda.bytes", int64(c.Bytes)))
}

func (s spans) module(ctx context.Context, m runtime.TraceModule) {
	s.call(ctx, m.Operation, m.TraceCall, attribute.Int64("purecuda.bytes", int64(m.Bytes)), attribute.Bool("purecuda.cached", m.Cached))
}

func (s spans) wait(ctx context.Context, w runtime.TraceCall) { s.call(ctx, "wait", w) }

// call is the span of a call that has ended.
func (s spans) call(ctx context.Context, name string, c runtime.TraceCall, attributes ...attribute.KeyValue) {
	s.span(ctx, name, c.Start, c.Took, c, c.Err, attributes...)
}

func (s spans) span(ctx context.Context, name string, start time.Time, took time.Duration, c runtime.TraceCall, err error, attributes ...attribute.KeyValue) {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return
	}
	attributes = append(attributes, attribute.Int("purecuda.device", c.Device), attribute.Int64("purecuda.stream", int64(c.Stream)))
	_, span := s.tracer.Start(ctx, name, trace.WithTimestamp(start), trace.WithAttributes(attributes...), trace.WithAttributes(s.attributes...))
	failed(span, err)
	span.End(trace.WithTimestamp(start.Add(took)))
}

// request begins the span of a request. The spans of its calls are below it.
func (s spans) request(ctx context.Context, name string) (context.Context, func(runtime.TraceRequest)) {
	ctx, span := s.tracer.Start(ctx, name, trace.WithAttributes(s.attributes...))
	return ctx, func(r runtime.TraceRequest) {
		span.SetAttributes(attribute.Int("purecuda.items", r.Items))
		if r.Device != driver.NoDevice {
			span.SetAttributes(attribute.Int("purecuda.device", r.Device))
		}
		for key, value := range map[string]string{"purecuda.where": r.Where, "purecuda.reason": r.Reason} {
			if value != "" {
				span.SetAttributes(attribute.String(key, value))
			}
		}
		if r.Tries > 0 {
			span.SetAttributes(attribute.Int("purecuda.tries", r.Tries))
		}
		if r.Waited > 0 {
			span.SetAttributes(attribute.Float64("purecuda.waited", r.Waited.Seconds()))
		}
		failed(span, r.Err)
		span.End()
	}
}

func failed(span trace.Span, err error) {
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
}

// nameOf is the name of what was launched.
func nameOf(l runtime.TraceLaunch) string {
	if l.Kernel == "" {
		return "graph"
	}
	return strings.ToValidUTF8(l.Kernel, "\uFFFD")
}

func ofLaunch(l runtime.TraceLaunch) []attribute.KeyValue {
	if l.Kernel == "" {
		return nil
	}
	return []attribute.KeyValue{attribute.String("purecuda.grid", l.Shape.Grid.String()), attribute.String("purecuda.block", l.Shape.Block.String())}
}
