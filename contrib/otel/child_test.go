//go:build linux && (amd64 || arm64)

package otel_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	purecudaotel "github.com/purecuda/purecuda/contrib/otel"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

// seen is a span of a child.
type seen struct{ Name, Trace, Span, Parent string }

var inChild = tracetest.NewSpanRecorder()

func init() {
	isolate.Register("saxpy/v1", func(w *pool.Worker, _ *isolate.Request) ([]byte, error) { return nil, saxpy(w) })
	isolate.Register("spans/v1", func(*pool.Worker, *isolate.Request) ([]byte, error) { // those that have ended
		var all []seen
		for _, s := range inChild.Ended() {
			all = append(all, seen{s.Name(), s.SpanContext().TraceID().String(), s.SpanContext().SpanID().String(), s.Parent().SpanID().String()})
		}
		return json.Marshal(all)
	})
}

func openTraced(recorder *tracetest.SpanRecorder) (*runtime.Runtime, *sdk.TracerProvider, error) {
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	trace, err := purecudaotel.Trace(provider, false)
	if err != nil {
		return nil, nil, err
	}
	rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithTrace(trace),
		runtime.WithDriver(drivertest.New(drivertest.Config{Devices: drivertest.Devices(1, drivertest.H100())})))
	return rt, provider, err
}

func TestMain(m *testing.M) {
	isolate.Main(func() (*runtime.Runtime, error) {
		rt, _, err := openTraced(inChild)
		return rt, err
	}, ofSaxpy)
	os.Exit(m.Run())
}

// TestSpansOfChild has one trace from the program to the launches in its child.
func TestSpansOfChild(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	rt, provider, err := openTraced(recorder)
	require.NoError(t, err)
	group, err := isolate.Open(rt)
	require.NoError(t, err)
	defer func() { assert.NoError(t, errors.Join(group.Close(), rt.Close())) }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ctx, client := provider.Tracer("service").Start(ctx, "client")
	_, _, err = group.Do(ctx, "saxpy/v1", nil)
	client.End()
	require.NoError(t, err)
	text, _, err := group.Do(ctx, "spans/v1", nil)
	require.NoError(t, err)
	var all []seen
	require.NoError(t, json.Unmarshal(text, &all))
	byName := map[string]seen{}
	for _, s := range all {
		if s.Trace == client.SpanContext().TraceID().String() { // and not that of the start of the child
			byName[s.Name] = s
		}
	}
	ofParent := recorder.Ended()[0]
	require.Equal(t, "pool.Do", ofParent.Name())
	assert.Equal(t, client.SpanContext().SpanID(), ofParent.Parent().SpanID())
	request := byName["pool.Do"]
	assert.Equal(t, ofParent.SpanContext().SpanID().String(), request.Parent)
	assert.Equal(t, request.Span, byName["launch saxpy"].Parent)
	assert.Equal(t, request.Span, byName["copy upload"].Parent)
}
