//go:build linux && (amd64 || arm64)

package nvtx_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/internal/testc"
	"github.com/purecuda/purecuda/runtime"
)

// A profiler that listens has requests and code as ranges, without a Trace. No other test here asks whether one listens.
func TestRangesOfARuntime(t *testing.T) {
	file := testc.Build(t, "testdata/profiler.c")
	t.Setenv("NVTX_INJECTION64_PATH", file)
	t.Setenv("PURECUDA_POLICY", "auto")
	rt, err := runtime.Open(runtime.WithDriver(drivertest.ForTest(t, drivertest.Config{})))
	require.NoError(t, err)
	defer rt.Close()
	ctx, end := rt.TraceRequest(t.Context(), "mine")
	require.NotNil(t, end)
	assert.Equal(t, t.Context(), ctx)
	c, err := rt.Context(0)
	require.NoError(t, err)
	code := ".version 6.4\n.target sm_52\n.address_size 64\n.visible .entry k() { ret; }\n"
	m, err := c.LoadModule(runtime.Image{Code: []byte(code)})
	require.NoError(t, err)
	require.NoError(t, m.Close())
	end(runtime.TraceRequest{})
	assert.Equal(t, []int64{'m', 'l', 1<<40 + 2, 1<<40 + 1}, testc.Seen(t, file)())
}
