package cluster_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/cluster"
	"github.com/purecuda/purecuda/cluster/embedded"
	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/pool/isolate"
	"github.com/purecuda/purecuda/runtime"
)

type pathKey struct{}

func pathOf(ctx context.Context) string {
	path, _ := ctx.Value(pathKey{}).(string)
	return path
}

// paths has the names of the requests that a request is in, also those in other processes, as its trace.
var paths = &runtime.Trace{
	Request: func(ctx context.Context, name string) (context.Context, func(runtime.TraceRequest)) {
		return context.WithValue(ctx, pathKey{}, pathOf(ctx)+"/"+name), nil
	},
	Inject: pathOf,
	Extract: func(ctx context.Context, parent string) context.Context {
		return context.WithValue(ctx, pathKey{}, parent)
	},
}

// TestTrace has the trace of a call in the host and in its child, whether the host traces or only hands on what it gets.
func TestTrace(t *testing.T) {
	open1 := func(t *testing.T, options ...runtime.Option) *runtime.Runtime {
		rt, err := runtime.Open(append(options, runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(drivertest.New(simulated(1))))...)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, rt.Close()) })
		return rt
	}
	children := func(t *testing.T, rt *runtime.Runtime) *isolate.Group {
		g, err := isolate.Open(rt, isolate.WithEnvironment(devicesVariable+"=1"))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, g.Close()) })
		return g
	}
	for name, test := range map[string]struct {
		host    func(t *testing.T, s *embedded.Server)
		options []cluster.Option
		want    string
	}{
		"caller, host and child": {func(t *testing.T, s *embedded.Server) {
			serve(t, connect(t, s), children(t, open1(t, runtime.WithTrace(paths))), "host")
		}, []cluster.Option{cluster.WithTrace(paths)}, "/request/cluster.Scatter/pool.Do/pool.Do"},
		"caller and child": {func(t *testing.T, s *embedded.Server) { serve(t, connect(t, s), children(t, open1(t)), "host") },
			[]cluster.Option{cluster.WithTrace(paths)}, "/request/cluster.Scatter/pool.Do"},
		"caller and host": {func(t *testing.T, s *embedded.Server) {
			p, err := pool.Open(open1(t, runtime.WithTrace(paths)))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, p.Close()) })
			serve(t, connect(t, s), p, "host")
		}, []cluster.Option{cluster.WithTrace(paths)}, "/request/cluster.Scatter/pool.Do"},
		"child alone": {func(t *testing.T, s *embedded.Server) { serve(t, connect(t, s), children(t, open1(t)), "host") }, nil, "/pool.Do"},
		"too long": {func(t *testing.T, s *embedded.Server) { serve(t, connect(t, s), children(t, open1(t)), "host") },
			[]cluster.Option{cluster.WithTrace(&runtime.Trace{Inject: func(context.Context) string { return strings.Repeat("x", 1000) }})}, "/pool.Do"},
		"a panic": {func(t *testing.T, s *embedded.Server) { serve(t, connect(t, s), children(t, open1(t)), "host") },
			[]cluster.Option{cluster.WithTrace(&runtime.Trace{Inject: func(context.Context) string { panic("x") },
				Request: func(context.Context, string) (context.Context, func(runtime.TraceRequest)) { panic("y") }})}, "/pool.Do"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, embedded.Config{})
			test.host(t, s)
			c := open(t, connect(t, s), append(test.options, cluster.WithPatience(patience))...)
			ctx := context.WithValue(within(t), pathKey{}, "/request")
			got, _, err := cluster.Do(ctx, c, "path/v1", cluster.Piece{})
			require.NoError(t, err)
			assert.Equal(t, test.want, string(got))
		})
	}
}

// TestTraceOfCall has what is told about a call at its end.
func TestTraceOfCall(t *testing.T) {
	var ended []runtime.TraceRequest
	trace := &runtime.Trace{Request: func(ctx context.Context, name string) (context.Context, func(runtime.TraceRequest)) {
		assert.Equal(t, "cluster.Scatter", name)
		return nil, func(r runtime.TraceRequest) { ended = append(ended, r) }
	}}
	c := onHosts(t, 1, cluster.WithSlots(1))
	squares(t, c, "square/v1", 7, cluster.WithTrace(trace))
	_, _, err := cluster.Do(within(t), c, "fail/v1", cluster.Piece{}, cluster.WithTrace(trace), cluster.WithRetry(0))
	require.Error(t, err)
	require.Len(t, ended, 2)
	assert.Equal(t, 7, ended[0].Items)
	assert.NoError(t, ended[0].Err)
	assert.Positive(t, ended[0].Ran)
	assert.ErrorContains(t, ended[1].Err, "not today")
}
