package compile_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpuc/internal/device"
	ops "github.com/purecuda/purecuda/gpuc/internal/testdata/ops"
)

// TestGroups runs tiles of lanes, and lanes that are at one place.
func TestGroups(t *testing.T) {
	inModes(t, opsFolder, func(t *testing.T, d *device.Device) {
		const n = 160
		r := rand.New(rand.NewPCG(5, 6))
		x := many(n, func() int32 { return r.Int32N(1000) })
		d.Same(t, "Tiles", gpu.Shape1D(n, 96), func(t *gpu.Thread, a []any) {
			ops.Tiles(t, as[[][8]int32](a, 0), as[[]int32](a, 1), as[[]float64](a, 2))
		}, make([][8]int32, 6*192), append(x, make([]int32, 32)...), doubles(192, 3))

		// Which lanes are together is left open; that each has a number of its own is not.
		check := func(counts []uint32, sums []int64, places []int32) {
			var want [2][]int32
			sum := int64(0)
			for i, v := range x {
				want[v&1] = append(want[v&1], places[i])
				sum += int64(v) * int64(v&3)
			}
			for which, list := range want {
				slices.Sort(list)
				for i, v := range list {
					assert.EqualValues(t, i, v)
				}
				assert.EqualValues(t, len(list), counts[which])
			}
			assert.Equal(t, sum, sums[0])
		}
		shape := gpu.Shape1D(n, 80)
		counts, sums, places := make([]uint32, 2), make([]int64, 1), make([]int32, n)
		require.NoError(t, gpu.Run(shape, func(t *gpu.Thread) { ops.Aggregated(t, counts, sums, places, x) }))
		check(counts, sums, places)
		counts, sums, places = make([]uint32, 2), make([]int64, 1), make([]int32, n)
		report, err := d.Run("Aggregated", shape, counts, sums, places, x)
		require.NoError(t, err)
		require.Zero(t, report[0])
		check(counts, sums, places)
	})
}
