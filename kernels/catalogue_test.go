package kernels

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestImagesSayWhatTheCatalogueSays(t *testing.T) {
	for _, s := range All() {
		for _, image := range s.Images {
			t.Run(fmt.Sprintf("%s/sm_%d", s.Name, image.Arch), func(t *testing.T) {
				assert.Contains(t, image.PTX, "\n.version "+image.ISA+"\n")
				assert.Contains(t, image.PTX, fmt.Sprintf("\n.target sm_%d\n", image.Arch))
				assert.Contains(t, image.PTX, "\n.address_size 64\n")
				assert.Contains(t, image.PTX, "\n.visible .entry "+s.Name+"(\n")
				assert.Equal(t, 1, strings.Count(image.PTX, ".entry"), "entry points")
				assert.NotContains(t, image.PTX, ".local", "local memory")
				assert.NotContains(t, image.PTX, ".extern", "unresolved names")
				assert.NotContains(t, image.PTX, "\x00")
				assert.NotRegexp(t, `/home/|/work/|/tmp/|20[0-9][0-9]-`, image.PTX, "a path or a date")
			})
		}
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
	for _, s := range All() {
		for _, image := range s.Images {
			var got []string
			for _, m := range param.FindAllStringSubmatch(image.PTX, -1) {
				got = append(got, m[1])
			}
			assert.Equal(t, want[s.Name], got, "%s, sm_%d", s.Name, image.Arch)
		}
	}
}

func TestCatalogueOrder(t *testing.T) {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
		assert.NotZero(t, s.Block)
		assert.True(t, slices.IsSortedFunc(s.Images, func(a, b Image) int { return b.Arch - a.Arch }), "%s: best first", s.Name)
	}
	assert.True(t, slices.IsSorted(names))
}

func TestLookup(t *testing.T) {
	s, ok := Lookup("sum")
	require.True(t, ok)
	assert.Equal(t, "sum", s.Name)
	s.Images[0].PTX = "changed"
	again, _ := Lookup("sum")
	assert.NotEqual(t, "changed", again.Images[0].PTX, "the caller's change reached the catalogue")

	for _, name := range []string{"", "Sum", "sum ", "gemm"} {
		_, ok := Lookup(name)
		assert.False(t, ok, "%q", name)
	}
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
		{MaxGrid, 1, MaxGrid},
		{MaxGrid + 1, 1, MaxGrid},
		{math.MaxUint64, 1024, MaxGrid},
		{5, 0, 5},
	} {
		assert.Equal(t, c.want, Grid(c.n, c.block), "Grid(%d, %d)", c.n, c.block)
	}
}

func TestResidentBlocks(t *testing.T) {
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
		{math.MaxUint64, math.MaxInt32, MaxGrid, MaxGrid},
	} {
		assert.Equal(t, c.sum, SumBlocks(c.n, c.multiprocessors), "SumBlocks(%d, %d)", c.n, c.multiprocessors)
		assert.Equal(t, c.histogram, Histogram256Blocks(c.n, c.multiprocessors), "Histogram256Blocks(%d, %d)", c.n, c.multiprocessors)
	}
}

func TestSHA256RoundsEnough(t *testing.T) {
	for multiprocessors, want := range map[int]int{math.MinInt: 2048, 0: 2048, 1: 2048, 132: 270336, math.MaxInt: math.MaxInt32 / 2048 * 2048} {
		assert.Equal(t, want, SHA256RoundsEnough(multiprocessors), "%d multiprocessors", multiprocessors)
	}
}
