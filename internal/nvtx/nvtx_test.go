//go:build linux && (amd64 || arm64)

package nvtx

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/internal/testc"
)

func TestRanges(t *testing.T) {
	file := testc.Build(t, "testdata/profiler.c")
	p := initialize(file)
	require.NotNil(t, p)
	seen := testc.Seen(t, file)
	outer, inner := p.start("outer"), p.start("inner")
	outer()
	inner()
	assert.Equal(t, []int64{'o', 'i', 1<<40 + 1, 1<<40 + 2}, seen())
	assert.Nil(t, p.start("a\x00b"))
	assert.Nil(t, initialize(testc.Build(t, "testdata/profiler.c", "-DDEAF")))
	assert.Nil(t, initialize("/none/libprofiler.so"))
	assert.Nil(t, initialize("libm.so.6"), "no library of a profiler")
}
