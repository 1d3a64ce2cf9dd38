package pool_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/driver"
	"github.com/purecuda/purecuda/pool"
)

// texts gives each block the text of its range, so that a result shows the order.
func texts(block int) func(lo, hi int, out []string) {
	return func(lo, hi int, out []string) {
		for i := range out {
			out[i] = fmt.Sprintf("%d-%d", lo+i*block, min(lo+(i+1)*block, hi))
		}
	}
}

func join(a, b string) string { return "(" + a + " " + b + ")" }

func TestReduceCombinesAsATree(t *testing.T) {
	p, _ := open(t, machine(3))
	for _, c := range []struct {
		n, block int
		want     string
	}{
		{0, 10, ""},
		{1, 10, "0-1"},
		{10, 10, "0-10"},
		{11, 10, "(0-10 10-11)"},
		{30, 10, "((0-10 10-20) 20-30)"},
		{50, 10, "(((0-10 10-20) (20-30 30-40)) 40-50)"},
		{7, 1, "(((0-1 1-2) (2-3 3-4)) ((4-5 5-6) 6-7))"},
	} {
		do := texts(c.block)
		got, report, err := pool.Reduce(context.Background(), p, c.n, c.block, func(_ *pool.Worker, lo, hi int, out []string) error {
			do(lo, hi, out)
			return nil
		}, join, pool.ReduceOptions[string]{MinPerDevice: 0, Chunk: 1})
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
		checkCovers(t, (c.n+c.block-1)/c.block, report.Tiles)
	}
}

// Sums of floats are the same bit for bit on any number of devices, in any pieces, with a
// retry and on the CPU.
func TestReduceIsTheSameEverywhere(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	x := make([]float64, 10_007)
	for i := range x {
		x[i] = r.NormFloat64() * math.Exp(10*r.NormFloat64())
	}
	const block = 13
	sum := func(lo, hi int, out []float64) {
		for i := range out {
			for _, v := range x[lo+i*block : min(lo+(i+1)*block, hi)] {
				out[i] += v
			}
		}
	}
	add := func(a, b float64) float64 { return a + b }
	onGPU := func(_ *pool.Worker, lo, hi int, out []float64) error {
		sum(lo, hi, out)
		return nil
	}
	onCPU := pool.ReduceOptions[float64]{Fallback: func(_ context.Context, lo, hi int, out []float64) error {
		sum(lo, hi, out)
		return nil
	}}
	want, report, err := pool.Reduce(context.Background(), without(t), len(x), block, onGPU, add, onCPU)
	require.NoError(t, err)
	assert.Equal(t, pool.OnCPU, report.Where)
	for devices := 1; devices <= 5; devices++ {
		p, _ := open(t, machine(devices))
		for range 5 {
			failed := false
			got, report, err := pool.Reduce(context.Background(), p, len(x), block, func(w *pool.Worker, lo, hi int, out []float64) error {
				sum(lo, hi, out)
				if devices > 1 && w.Index() == 0 && !failed {
					failed = true
					return errors.New("after the results were written")
				}
				return nil
			}, add, pool.ReduceOptions[float64]{Retry: 1, Chunk: 1 + r.IntN(100), MinPerDevice: 1})
			require.NoError(t, err)
			assert.Equal(t, pool.OnGPU, report.Where)
			assert.Equal(t, math.Float64bits(want), math.Float64bits(got), "%d devices", devices)
		}
	}
}

func TestReduceThatFails(t *testing.T) {
	p, _ := open(t, machine(2))
	broken := errors.New("broken")
	fail := func(*pool.Worker, int, int, []int) error { return broken }
	add := func(a, b int) int { return a + b }
	ones := pool.ReduceOptions[int]{Fallback: func(_ context.Context, lo, hi int, out []int) error {
		for i := range out {
			out[i] += hi - lo
		}
		return nil
	}}
	got, report, err := pool.Reduce(context.Background(), p, 100, 10, fail, add)
	assert.ErrorIs(t, err, broken)
	assert.Zero(t, got)
	assert.NotEmpty(t, report.Tiles)

	got, report, err = pool.Reduce(context.Background(), p, 10, 10, fail, add, ones)
	require.NoError(t, err)
	assert.ErrorIs(t, report.Err, broken)
	assert.Equal(t, 10, got)

	_, _, err = pool.Reduce(context.Background(), p, 100, 10, func(*pool.Worker, int, int, []int) error { return nil }, func(a, b int) int { panic("combine") })
	assert.ErrorContains(t, err, "panic: combine")
	for name, err := range map[string]error{
		"block":    third(pool.Reduce(context.Background(), p, 100, 0, fail, add)),
		"n":        third(pool.Reduce(context.Background(), p, -1, 10, fail, add)),
		"combine":  third(pool.Reduce(context.Background(), p, 1, 10, fail, nil)),
		"function": third(pool.Reduce[int](context.Background(), p, 1, 10, nil, add)),
		"pool":     third(pool.Reduce(context.Background(), nil, 1, 10, fail, add)),
		"chunk":    third(pool.Reduce(context.Background(), p, 1, 10, fail, add, pool.ReduceOptions[int]{Chunk: -1})),
		"two":      third(pool.Reduce(context.Background(), p, 1, 10, fail, add, ones, ones)),
	} {
		assert.ErrorIs(t, err, driver.ErrInvalidArgument, name)
	}
}

func third[A, B, C any](_ A, _ B, c C) C { return c }
