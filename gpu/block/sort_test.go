package block_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

type card struct{ suit, rank uint16 }

// bySuit leaves many cards equal.
type bySuit struct{}

func (bySuit) Less(a, b card) bool { return a.suit < b.suit }

func compareSuits(a, b card) int { return cmp.Compare(a.suit, b.suit) }

// every is a cut before each so many elements.
type every struct{ step, n int }

func (c every) Cut(i int) bool { return i%c.step == 0 }
func (c every) Around(i int) (begin, end int) {
	return i / c.step * c.step, min(i/c.step*c.step+c.step, c.n)
}

func TestSortsInABlock(t *testing.T) {
	const threads = 64
	most := threads * block.SortItems(4)
	for _, n := range []int{0, 1, 2, 31, most / 2, most - 1, most} {
		in := make([]card, n)
		for i := range in {
			in[i] = card{uint16(rand.IntN(7)), uint16(i)}
		}
		sorted, between, merged := make([]card, n), make([]card, n), make([]card, n)
		step, half := 1+rand.IntN(100), rand.IntN(n+1)
		parts := slices.Clone(in)
		slices.SortStableFunc(parts[:half], compareSuits)
		slices.SortStableFunc(parts[half:], compareSuits)
		shape := gpu.Shape1D(threads, threads)
		shape.SharedBytes = 4 * most
		require.NoError(t, gpu.Run(shape, func(t *gpu.Thread) {
			x := gpu.DynamicShared[card](t)[:n]
			for _, c := range []struct {
				from, to []card
				sort     func()
			}{
				{in, sorted, func() { block.Sort(t, bySuit{}, x) }},
				{in, between, func() { block.SortBetween(t, bySuit{}, every{step, n}, x) }},
				{parts, merged, func() { block.Merge(t, bySuit{}, x, half) }},
			} {
				for i := t.ThreadX(); i < n; i += threads {
					x[i] = c.from[i]
				}
				c.sort()
				for i := t.ThreadX(); i < n; i += threads {
					c.to[i] = x[i]
				}
				t.Barrier()
			}
		}))
		want := slices.Clone(in)
		slices.SortStableFunc(want, compareSuits)
		assert.Equal(t, want, sorted, n)
		slices.SortStableFunc(parts, compareSuits)
		assert.Equal(t, parts, merged, n)
		want = slices.Clone(in)
		for part := range slices.Chunk(want, step) {
			slices.SortStableFunc(part, compareSuits)
		}
		assert.Equal(t, want, between, "%d with cuts every %d", n, step)
	}
}
