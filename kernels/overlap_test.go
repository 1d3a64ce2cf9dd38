package kernels

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/runtime"
)

// What a function for the CPU would compute wrongly it refuses, as a device does, and it has changed nothing.
func TestOverlapOnTheCPU(t *testing.T) {
	x, counts, columns, half := make([]float32, 8), make([]uint64, 8), make([]float64, 6), make([]gpu.Float16, 192)
	for i := range x {
		x[i], counts[i] = float32(i), uint64(i)
	}
	wantX, wantCounts := slices.Clone(x), slices.Clone(counts)
	apart, heads := make([]gpu.Float16, 128), Heads{Width: 64, Heads: 1}
	for name, err := range map[string]error{
		"vector_add, the end of a": VectorAddCPU(x[:4], x[4:], x[1:5]),
		"vector_add, the end of b": VectorAddCPU(x[4:], x[:4], x[1:5]),
		"saxpy":                    SaxpyCPU(2, x[:4], x[1:5]),
		"gram, x":                  GramPartialsCPU(columns[:4], make([]float64, 2), 2, columns[2:6]),
		"gram, the weights":        GramPartialsCPU(make([]float64, 4), columns[:2], 2, columns[:4]),
		"histogram":                HistogramCPU(counts[:4], counts[2:], 0, 8),
		"attention, Q":             AttentionCPU(2, 2, half[:128], apart, apart, half[64:], heads),
		"attention, K":             AttentionCPU(2, 2, apart, half[:128], apart, half[:128], heads),
		"attention, V":             AttentionCPU(2, 2, apart, apart, half[:128], half[:128], heads),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
		assert.ErrorContains(t, err, "overlap", name)
	}
	assert.Equal(t, wantX, x)
	assert.Equal(t, wantCounts, counts)

	one := gpu.ToHalf[gpu.Float16](1)
	ones := []gpu.Float16{one, one, one, one}
	require.NoError(t, GemmCPU(2, 2, 2, ones, ones, ones), "it reads A and B before it writes C")
	assert.Equal(t, slices.Repeat([]gpu.Float16{gpu.ToHalf[gpu.Float16](2)}, 4), ones)
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
