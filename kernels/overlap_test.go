package kernels

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
	"github.com/purecuda/purecuda/runtime"
)

// onlyFailed drops how many.
func onlyFailed(_ int, err error) error { return err }

// ascending is an order, and even a condition.
type ascending struct{}

func (ascending) Less(a, b uint64) bool { return a < b }
func (ascending) Keep(v uint64) bool    { return v%2 == 0 }

// relu is an activation.
type relu struct{}

func (relu) Apply(v, _ float32) float32 { return max(v, 0) }

// What a function for the CPU would compute wrongly it refuses, as a device does, and it has changed nothing.
func TestOverlapOnTheCPU(t *testing.T) {
	x, u, columns, half := make([]float32, 8), make([]uint64, 8), make([]float64, 6), make([]gpu.Float16, 192)
	places := make([]uint32, 8)
	for i := range x {
		x[i], u[i], places[i] = float32(i), uint64(8-i), uint32(i)
	}
	wantX, wantU, wantPlaces := slices.Clone(x), slices.Clone(u), slices.Clone(places)
	add, add32 := block.Add[uint64]{}, block.Add[uint32]{}
	apart, heads, other := make([]gpu.Float16, 128), Heads{Width: 64, Heads: 1}, make([]uint64, 4)
	forms := map[string][]error{
		"VectorAddCPU":       {VectorAddCPU(x[:4], x[4:], x[1:5]), VectorAddCPU(x[4:], x[:4], x[1:5])},
		"SaxpyCPU":           {SaxpyCPU(2, x[:4], x[1:5])},
		"GramPartialsCPU":    {GramPartialsCPU(columns[:4], make([]float64, 2), 2, columns[2:6]), GramPartialsCPU(make([]float64, 4), columns[:2], 2, columns[:4])},
		"HistogramCPU":       {HistogramCPU(u[:4], u[2:], 0, 8)},
		"AttentionCPU":       {AttentionCPU(2, 2, half[:128], apart, apart, half[64:], heads), AttentionCPU(2, 2, apart, half[:128], apart, half[:128], heads), AttentionCPU(2, 2, apart, apart, half[:128], half[:128], heads)},
		"DecodeCPU":          {DecodeCPU(1, half[:64], apart, apart, half[32:96], []uint32{2}, heads), DecodeCPU(1, apart[:64], half[:128], apart, half[64:128], []uint32{2}, heads)},
		"LayerNormCPU":       {LayerNormCPU(1, 4, x[:4], x[1:5], nil, nil, nil, 1e-5), LayerNormCPU(1, 4, x[:4], x[4:], nil, x[:4], nil, 1e-5)},
		"RMSNormCPU":         {RMSNormCPU(1, 4, x[:4], x[1:5], nil, nil, 1e-5)},
		"SoftmaxCPU":         {SoftmaxCPU(1, 4, x[:4], x[1:5], 1, false)},
		"GemmCPU":            {GemmCPU(8, 8, 8, half[:64], apart[:64], half[:64]), GemmCPU(8, 8, 8, apart[:64], half[:64], half[63:127])},
		"GemmWithCPU":        {GemmWithCPU(relu{}, 8, 8, 8, half[:64], apart[:64], half[1:65], nil)},
		"GemmToCPU":          {GemmToCPU(relu{}, 8, 8, 8, half[:64], apart[:64], gpu.View[float32](half)[16:80], nil)},
		"ScanCPU":            {ScanCPU(add, u[1:5], u[:4]), ScanCPU(add, u[:4], u[3:7])},
		"PartitionCPU":       {onlyFailed(PartitionCPU(ascending{}, u[:4], other, u[3:7])), onlyFailed(PartitionCPU(ascending{}, other, u[:4], u[:4])), onlyFailed(PartitionCPU(ascending{}, u[:4], u[2:6], other))},
		"ReduceByKeyCPU":     {onlyFailed(ReduceByKeyCPU(add, u[:4], other, u[:4], u[4:])), onlyFailed(ReduceByKeyCPU(add, other, u[:4], u[4:], u[:4])), onlyFailed(ReduceByKeyCPU(add, u[:4], u[1:5], other, other))},
		"RunLengthsCPU":      {onlyFailed(RunLengthsCPU(places[:2], make([]uint32, 2), places[1:3])), onlyFailed(RunLengthsCPU(make([]uint32, 2), places[:2], places[1:3])), onlyFailed(RunLengthsCPU(places[:2], places[1:3], []uint32{1, 2}))},
		"SegmentedReduceCPU": {SegmentedReduceCPU(add, u[:1], u[:4], []uint64{0, 4}), SegmentedReduceCPU(add, u[:2], other, u[1:4])},
		"SegmentedSortCPU":   {SegmentedSortCPU(ascending{}, u[:4], u[1:5], nil), SegmentedSortCPU(ascending{}, u[:4], u[:4], u[3:5])},
		"TopKCPU":            {TopKCPU(u[:1], nil, u, false), TopKCPU(make([]uint32, 2), places[:2], places[:2], true), TopKCPU(places[:2], places[1:3], []uint32{1, 2}, true)},
	}
	for name, errs := range forms {
		for i, err := range errs {
			assert.ErrorIs(t, err, driver.ErrInvalidArgument, "%s, %d", name, i)
			assert.ErrorContains(t, err, "overlap", "%s, %d", name, i)
		}
	}
	assert.Equal(t, wantX, x)
	assert.Equal(t, wantU, u)
	assert.Equal(t, wantPlaces, places)
	assert.Equal(t, make([]gpu.Float16, 192), half)

	for name, err := range map[string]error{
		"in place":                    ScanCPU(add, u[:4], u[:4]),
		"in place, sorted":            SegmentedSortCPU(ascending{}, u[:4], u[:4], []uint64{2}),
		"next to each other":          onlyFailed(PartitionCPU(ascending{}, u[:2], u[2:4], u[4:6])),
		"nothing":                     onlyFailed(ReduceByKeyCPU[uint64](add32, nil, nil, nil, nil)),
		"nothing, but with an offset": SegmentedReduceCPU(add, nil, nil, []uint64{0}),
	} {
		assert.NoError(t, err, name)
	}

	// These have slices of different types, which overlap only by package unsafe. Their kernels do not compare memory either.
	none := []string{"Histogram256CPU", "SHA256ChunksCPU", "SHA256RoundsCPU", "SumPartialsCPU"}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	form := regexp.MustCompile(`(?m)^func ([A-Z]\w*CPU)\b`)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range form.FindAllStringSubmatch(string(source), -1) {
			assert.True(t, forms[m[1]] != nil || slices.Contains(none, m[1]), "%s is not in this test", m[1])
		}
	}
}

// What has the wrong length is an error on the CPU too, in the words of the device, and no panic.
func TestLengthsOnTheCPU(t *testing.T) {
	four, three, add := make([]uint64, 4), make([]uint64, 3), block.Add[uint64]{}
	for want, err := range map[string]error{
		"scan: lengths 3 and 4 differ":                                                       ScanCPU(add, three, four),
		"partition: kept has room for 3 elements, and 4 could stay":                          onlyFailed(PartitionCPU(ascending{}, three, make([]uint64, 4), four)),
		"rest has room for 3 elements":                                                       onlyFailed(PartitionCPU(ascending{}, make([]uint64, 4), three, four)),
		"reduce by key: 4 keys and 3 values":                                                 onlyFailed(ReduceByKeyCPU(add, make([]uint64, 4), make([]uint64, 4), four, three)),
		"reduce by key: outKeys has room for 3 and outValues for 4, and there can be 4 runs": onlyFailed(ReduceByKeyCPU(add, three, make([]uint64, 4), four, make([]uint64, 4))),
		"run lengths: out has room for 4 and lengths for 1, and there can be 4 runs":         onlyFailed(RunLengthsCPU(make([]uint64, 4), make([]uint32, 1), four)),
		"3 results need 4 offsets, and there are 0":                                          SegmentedReduceCPU(add, three, four, nil),
		"segmented sort: lengths 3 and 4 differ":                                             SegmentedSortCPU(ascending{}, three, four, nil),
		"top k: 4 of 3 keys":                                                                 TopKCPU(four, nil, three, false),
		"top k: 3 keys and 0 places":                                                         TopKCPU(three, []uint32{}, four, false),
		"the elements have no bytes":                                                         onlyFailed(RunLengthsCPU(make([]struct{}, 2), make([]uint32, 2), make([]struct{}, 2))),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, want)
		assert.ErrorContains(t, err, want)
	}
}

func TestOverlapOnADevice(t *testing.T) {
	t.Run("vector_add", func(t *testing.T) {
		onDevices(t, func(t *testing.T, s *runtime.Stream, k VectorAdd) {
			x := upload(t, s, make([]float32, 8))
			assert.ErrorContains(t, k.Launch(s, x.Slice(0, 4), x.Slice(4, 8), x.Slice(1, 5)), "overlap")
			assert.ErrorContains(t, k.Launch(s, x.Slice(4, 8), x.Slice(0, 4), x.Slice(1, 5)), "overlap")
			assert.NoError(t, k.Launch(s, x.Slice(0, 4), x.Slice(4, 8), x.Slice(0, 4)))
			assert.NoError(t, k.Launch(s, x, x, x))
		})
	})
	t.Run("saxpy", func(t *testing.T) {
		onDevices(t, func(t *testing.T, s *runtime.Stream, k Saxpy) {
			x := upload(t, s, make([]float32, 8))
			assert.ErrorContains(t, k.Launch(s, 2, x.Slice(0, 4), x.Slice(1, 5)), "overlap")
			assert.NoError(t, k.Launch(s, 2, x, x))
		})
	})
	t.Run("gram", func(t *testing.T) {
		onDevices(t, func(t *testing.T, s *runtime.Stream, k Gram) {
			x, w := upload(t, s, make([]float64, 6)), upload(t, s, make([]float64, 2))
			assert.ErrorContains(t, k.Launch(s, x.Slice(0, 4), w, 2, x.Slice(2, 6)), "overlap")
			assert.ErrorContains(t, k.Launch(s, upload(t, s, make([]float64, 4)), x.Slice(0, 2), 2, x.Slice(0, 4)), "overlap")
		})
	})
}

// No elements are no error on the CPU either.
func TestNoRowsOnTheCPU(t *testing.T) {
	var none []gpu.Float16
	keys := make([]gpu.Float16, 128)
	h := Heads{Width: 64, Heads: 2, Keys: 1}
	assert.NoError(t, AttentionCPU(0, 2, none, keys, keys, none, h))
	assert.NoError(t, DecodeCPU(0, none, none, none, none, nil, h))
	assert.ErrorContains(t, AttentionCPU(0, 2, keys, keys, keys, keys, h), "want 0 for Q")
	assert.Error(t, DecodeCPU(0, keys, none, none, keys, nil, h))
}
