package kernels

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestImagesSayWhatTheCatalogueSays(t *testing.T) {
	for name, ptx := range catalogue {
		t.Run(name, func(t *testing.T) {
			assert.Contains(t, ptx, "\n.version 7.0\n")
			assert.Contains(t, ptx, "\n.target sm_75\n")
			assert.Contains(t, ptx, "\n.address_size 64\n")
			assert.Contains(t, ptx, "\n.visible .entry "+name+"(\n")
			assert.Equal(t, 1, strings.Count(ptx, ".entry"), "entry points")
			assert.NotContains(t, ptx, ".local", "local memory")
			assert.NotContains(t, ptx, ".extern", "unresolved names")
			assert.NotContains(t, ptx, "\x00")
			assert.NotRegexp(t, `/home/|/work/|/tmp/|20[0-9][0-9]-`, ptx, "a path or a date")
		})
	}
}

func TestEntryParametersAreTheDocumentedOnes(t *testing.T) {
	want := map[string][]string{
		"vector_add":    {"u64", "u64", "u64", "u64", "u64", "u64"},
		"saxpy":         {"f32", "u64", "u64", "u64", "u64"},
		"sum":           {"u64", "u64", "u64", "u64"},
		"gram":          {"u64", "u64", "u64", "u64", "u32", "u32", "u64", "u64"},
		"histogram256":  {"u64", "u64", "u64", "u64"},
		"sha256_chunks": {"u64", "u64", "u64", "u64", "u32", "u64", "u64"},
		"sha256_rounds": {"u64", "u64", "u32"},
	}
	param := regexp.MustCompile(`\.param \.(\w+) `)
	for name, ptx := range catalogue {
		var got []string
		for _, m := range param.FindAllStringSubmatch(ptx, -1) {
			got = append(got, m[1])
		}
		assert.Equal(t, want[name], got, name)
	}
	assert.Len(t, catalogue, len(want))
}

func TestGrid(t *testing.T) {
	for _, c := range []struct {
		n     uint64
		block uint32
		want  uint32
	}{
		{0, 256, 0},
		{1, 256, 1},
		{256, 256, 1},
		{257, 256, 2},
		{1 << 20, 128, 1 << 13},
		{maxGrid, 1, maxGrid},
		{maxGrid + 1, 1, maxGrid},
		{math.MaxUint64, 1024, maxGrid},
	} {
		assert.Equal(t, c.want, linearGrid(c.n, c.block), "linearGrid(%d, %d)", c.n, c.block)
	}
}

func TestMaxActiveBlocks(t *testing.T) {
	const h100 = 132
	for _, c := range []struct {
		n               uint64
		multiprocessors int
		sum, histogram  uint32
	}{
		{0, h100, 1, 0},
		{1, h100, 1, 1},
		{4097, h100, 17, 2},
		{1 << 40, h100, 1056, 1056},
		{math.MaxUint64, 1, 8, 8},
		{1 << 40, 0, 8, 8},
		{1 << 40, -3, 8, 8},
		{math.MaxUint64, math.MaxInt32, maxGrid, maxGrid},
	} {
		assert.Equal(t, c.sum, sumBlocks(c.n, c.multiprocessors), "sumBlocks(%d, %d)", c.n, c.multiprocessors)
		assert.Equal(t, c.histogram, histogram256Blocks(c.n, c.multiprocessors), "histogram256Blocks(%d, %d)", c.n, c.multiprocessors)
	}
}

func TestSHA256RoundsEnough(t *testing.T) {
	for multiprocessors, want := range map[int]int{math.MinInt: 2048, 0: 2048, 1: 2048, 132: 270336, math.MaxInt: math.MaxInt32 / 2048 * 2048} {
		assert.Equal(t, want, SHA256RoundsEnough(multiprocessors), "%d multiprocessors", multiprocessors)
	}
}
