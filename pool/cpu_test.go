package pool_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

func TestParallel(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 1000, 123_457} {
		for _, chunk := range []int{0, 1, 7, 1 << 40} {
			work := newDone(n)
			report, err := pool.Parallel(t.Context(), n, func(_ context.Context, lo, hi int) error {
				work.note(pool.Tile{Lo: lo, Hi: hi})
				return nil
			}, pool.ParallelOptions{Chunk: chunk})
			require.NoError(t, err)
			work.once(t)
			checkCovers(t, n, report.Tiles)
			for _, tile := range report.Tiles {
				assert.Equal(t, driver.NoDevice, tile.Device)
			}
			for _, tile := range work.calls {
				assert.True(t, chunk == 0 || tile.Len() <= chunk)
			}
			assert.LessOrEqual(t, len(work.calls), max(n, 1))
			if chunk == 0 {
				assert.LessOrEqual(t, len(work.calls), 200*goruntime.GOMAXPROCS(0))
			}
		}
	}
}

func TestParallelStopsAtAFailure(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errData },
		"panic": func() error { panic(errData) },
	} {
		report, err := pool.Parallel(t.Context(), 1000, func(_ context.Context, lo, hi int) error {
			if lo <= 300 && 300 < hi {
				return fail()
			}
			return nil
		}, pool.ParallelOptions{Chunk: 1})
		require.ErrorIs(t, err, errData, name)
		checkCovers(t, 1000, report.Tiles)
		var failed *pool.Error
		require.ErrorAs(t, err, &failed)
		assert.ErrorContains(t, err, "CPU, items [300, 301): ")
	}
	_, err := pool.Parallel(t.Context(), 10, func(context.Context, int, int) error { goruntime.Goexit(); return nil })
	assert.ErrorContains(t, err, "Goexit")
}

func TestParallelStopsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	report, err := pool.Parallel(ctx, 1000, func(ctx context.Context, lo, hi int) error {
		cancel(why)
		<-ctx.Done()
		return nil
	}, pool.ParallelOptions{Chunk: 1})
	require.ErrorIs(t, err, why)
	checkCovers(t, 1000, report.Tiles)
	_, err = pool.Parallel(ctx, 10, func(context.Context, int, int) error { panic("not run") })
	require.ErrorIs(t, err, why)
}

func TestWrongArgumentsOfParallel(t *testing.T) {
	var none context.Context
	f := func(context.Context, int, int) error { return nil }
	for name, call := range map[string]func() (pool.Report, error){
		"function": func() (pool.Report, error) { return pool.Parallel(t.Context(), 1, nil) },
		"context":  func() (pool.Report, error) { return pool.Parallel(none, 1, f) },
		"items":    func() (pool.Report, error) { return pool.Parallel(t.Context(), -1, f) },
		"chunk":    func() (pool.Report, error) { return pool.Parallel(t.Context(), 1, f, pool.ParallelOptions{Chunk: -1}) },
	} {
		_, err := call()
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
	}
}

// TestGrain looks where pieces begin and end, on the CPU and on devices.
func TestGrain(t *testing.T) {
	p, _ := open(t, machine(3))
	for _, c := range []struct{ n, grain, chunk int }{
		{0, 256, 0}, {1, 256, 0}, {256, 256, 0}, {257, 256, 0}, {10_000, 256, 0}, {10_000, 256, 1}, {10_000, 256, 700}, {10_000, 1, 700},
		{10_000, 0, 0}, {10_000, math.MaxInt, 0}, {123_457, 64, 1 << 40},
	} {
		check := func(name string, work *done, report pool.Report, err error) {
			t.Run(fmt.Sprint(name, " ", c), func(t *testing.T) {
				require.NoError(t, err)
				work.once(t)
				checkCovers(t, c.n, report.Tiles)
				tiles := slices.Clone(work.calls)
				for _, tile := range report.Tiles {
					tiles = append(tiles, tile.Tile)
				}
				for _, tile := range tiles {
					assert.Zero(t, tile.Lo%max(c.grain, 1), "%v", tile)
					assert.True(t, tile.Hi == c.n || tile.Hi%max(c.grain, 1) == 0, "%v", tile)
				}
				for _, tile := range work.calls {
					assert.True(t, c.chunk == 0 || tile.Len() <= max(c.chunk, c.grain), "%v", tile)
				}
			})
		}
		options := pool.ScatterOptions{Grain: c.grain, Chunk: c.chunk, ItemBytes: 1}
		work := newDone(c.n)
		report, err := pool.Parallel(t.Context(), c.n, func(_ context.Context, lo, hi int) error {
			work.note(pool.Tile{Lo: lo, Hi: hi})
			return nil
		}, pool.ParallelOptions{Grain: c.grain, Chunk: c.chunk})
		check("Parallel", work, report, err)
		if c.grain < math.MaxInt {
			work = newDone(c.n)
			report, err = p.Scatter(t.Context(), c.n, work.do, options)
			check("Scatter", work, report, err)
		}
	}
	_, err := pool.Parallel(t.Context(), 1, func(context.Context, int, int) error { return nil }, pool.ParallelOptions{Grain: -1})
	assert.ErrorContains(t, err, "Grain is -1: want a number that is not negative")
	_, err = p.Scatter(t.Context(), 1<<20, func(*pool.Worker, pool.Tile) error { return nil }, pool.ScatterOptions{Grain: 1 << 20, ItemBytes: 1 << 30})
	assert.ErrorContains(t, err, "a piece of 1048576 items, the least, is larger than the memory budget")
}
