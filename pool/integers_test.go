package pool_test

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver/drivertest"
	"github.com/purecuda/purecuda/pool"
	"github.com/purecuda/purecuda/runtime"
)

// Scores and sizes of the caller's may be anything.
func TestScoresThatAreNone(t *testing.T) {
	for _, scores := range [][]float64{{math.NaN(), math.NaN()}, {math.Inf(1), 1}, {-1, math.NaN()}, {math.MaxFloat64, math.SmallestNonzeroFloat64}} {
		gpu := drivertest.ForTest(t, drivertest.Config{Devices: drivertest.Devices(2, drivertest.H100())})
		rt, err := runtime.Open(runtime.WithPolicy(runtime.PolicyAuto), runtime.WithDriver(gpu),
			runtime.WithScore(func(d runtime.Device) float64 { return scores[d.Ordinal] }))
		require.NoError(t, err)
		p, err := pool.Open(rt)
		require.NoError(t, err)
		for range 3 {
			done := make([]atomic.Int32, 1000)
			report, err := p.Scatter(t.Context(), len(done), func(_ *pool.Worker, tile pool.Tile) error {
				for i := tile.Lo; i < tile.Hi; i++ {
					done[i].Add(1)
				}
				return nil
			}, pool.ScatterOptions{ItemBytes: 1 << 20})
			require.NoError(t, err, "%v: %v", scores, report)
			for i := range done {
				require.EqualValues(t, 1, done[i].Load(), "%v: item %d", scores, i)
			}
		}
		require.NoError(t, p.Close())
		require.NoError(t, rt.Close())
	}
}

// A report does not count bytes from 0 again.
func TestBytesAreNotCut(t *testing.T) {
	report, err := without(t).Scatter(t.Context(), 1000, func(*pool.Worker, pool.Tile) error { panic("not run") }, pool.ScatterOptions{ItemBytes: math.MaxInt, Chunk: 1000,
		Fallback: func(context.Context, int, int) error { return nil }})
	require.NoError(t, err)
	most := slices.MaxFunc(report.Tiles, func(a, b pool.TileReport) int { return a.Len() - b.Len() })
	require.Greater(t, most.Len(), 2)
	assert.EqualValues(t, uint64(math.MaxUint64), most.Bytes)
}
