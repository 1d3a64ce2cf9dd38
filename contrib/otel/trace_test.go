package otel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	purecudaotel "github.com/purecuda/purecuda/contrib/otel"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/kernels"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

var ofSaxpy = pool.PerDevice(kernels.Load[kernels.Saxpy])

// recorded is a pool whose spans are recorded.
func recorded(t *testing.T, deviceTimes bool) (*pool.Pool, *sdk.TracerProvider, *tracetest.SpanRecorder) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder), sdk.WithSampler(sdk.ParentBased(sdk.TraceIDRatioBased(1))))
	trace, err := purecudaotel.Trace(provider, deviceTimes, attribute.String("runtime", "batch"))
	require.NoError(t, err)
	gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(1, drivertest.H100())})
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu), runtime.WithTrace(trace))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, rt.Close()) })
	p, err := pool.Open(rt, pool.Options{Setup: []pool.Setup{ofSaxpy}})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, p.Close()) })
	return p, provider, recorder
}

// saxpy is a request.
func saxpy(w *pool.Worker) error {
	x, err := runtime.Alloc[float32](w.Stream(), 3)
	if err != nil {
		return err
	}
	defer x.Close()
	y, err := runtime.Alloc[float32](w.Stream(), 3)
	if err != nil {
		return err
	}
	defer y.Close()
	return errors.Join(runtime.Upload(w.CallContext(), w.Stream(), x, []float32{1, 2, 3}), runtime.Zero(w.Stream(), y),
		ofSaxpy.Of(w).Launch(w.Stream(), 2, x, y), w.Stream().Synchronize(w.CallContext()))
}

// attributesOf are those of a span by name.
func attributesOf(s sdk.ReadOnlySpan) map[string]any {
	values := map[string]any{}
	for _, a := range s.Attributes() {
		values[string(a.Key)] = a.Value.AsInterface()
	}
	return values
}

func TestSpans(t *testing.T) {
	p, provider, recorder := recorded(t, true)
	ctx, client := provider.Tracer("service").Start(context.Background(), "client")
	before := time.Now()
	_, err := p.Do(ctx, saxpy, pool.DoOptions{Items: 3})
	require.NoError(t, err)
	client.End()
	for end := time.Now().Add(10 * time.Second); len(recorder.Ended()) < 6 && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // the kernel is told on a goroutine of its own
	}
	byName := map[string]sdk.ReadOnlySpan{}
	for _, s := range recorder.Ended() {
		byName[s.Name()] = s
		assert.False(t, s.StartTime().After(s.EndTime()), s.Name())
		assert.Equal(t, client.SpanContext().TraceID(), s.SpanContext().TraceID(), s.Name())
	}
	require.Len(t, recorder.Ended(), 6)
	request := byName["pool.Do"]
	require.NotNil(t, request)
	assert.Equal(t, client.SpanContext().SpanID(), request.Parent().SpanID())
	assert.Equal(t, map[string]any{"runtime": "batch", "purecuda.items": int64(3), "purecuda.device": int64(0), "purecuda.where": "gpu", "purecuda.tries": int64(1)},
		attributesOf(request))
	for name, want := range map[string]map[string]any{
		"copy upload":  {"purecuda.bytes": int64(12)},
		"launch saxpy": {"purecuda.grid": "1x1x1", "purecuda.block": "256x1x1"},
		"kernel saxpy": {"purecuda.grid": "1x1x1", "purecuda.block": "256x1x1"},
		"wait":         {},
	} {
		s := byName[name]
		require.NotNil(t, s, name)
		assert.Equal(t, request.SpanContext().SpanID(), s.Parent().SpanID(), name)
		got := attributesOf(s)
		assert.Contains(t, got, "purecuda.stream")
		delete(got, "purecuda.stream")
		want["purecuda.device"], want["runtime"] = int64(0), "batch"
		assert.Equal(t, want, got, name)
		assert.Equal(t, codes.Unset, s.Status().Code, name)
		if name != "kernel saxpy" {
			assert.False(t, s.StartTime().Before(before), name)
		}
	}
}

func TestSpansOfErrors(t *testing.T) {
	p, _, recorder := recorded(t, false)
	_, err := p.Do(context.Background(), func(*pool.Worker) error { return assert.AnError })
	require.ErrorIs(t, err, assert.AnError)
	require.Len(t, recorder.Ended(), 1)
	s := recorder.Ended()[0]
	assert.False(t, s.Parent().IsValid(), "a root")
	assert.Equal(t, sdk.Status{Code: codes.Error, Description: assert.AnError.Error()}, s.Status())
	assert.Equal(t, "failed", attributesOf(s)["purecuda.reason"])
	require.Len(t, s.Events(), 1)
}

// What no sampled request has in its context makes no span.
func TestSpansAreSampled(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	trace, err := purecudaotel.Trace(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder), sdk.WithSampler(sdk.NeverSample())), true)
	require.NoError(t, err)
	ctx, end := trace.Request(context.Background(), "pool.Do")
	for _, ctx := range []context.Context{ctx, context.Background()} {
		trace.Launch(ctx, runtime.TraceLaunch{})
		trace.Kernel(ctx, runtime.TraceKernel{})
		trace.Copy(ctx, runtime.TraceCopy{})
		trace.Wait(ctx, runtime.TraceCall{})
	}
	end(runtime.TraceRequest{})
	assert.Empty(t, recorder.Ended())
	_, err = purecudaotel.Trace(nil, false)
	assert.ErrorContains(t, err, "no TracerProvider")
}
