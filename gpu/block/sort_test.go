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

// disorder are comparisons that are no order.
type disorder struct{ kind int }

const disorders = 7

func (d disorder) Less(a, b card) bool {
	switch d.kind {
	case 0:
		return true
	case 1:
		return false
	case 2:
		return a.suit <= b.suit
	case 3:
		return a.suit != b.suit
	case 4: // each number is before the next one of three, in a circle
		return (b.suit+3-a.suit%3)%3 == 1
	case 5: // as floats where some are NaN
		return a.suit%3 != 0 && b.suit%3 != 0 && a.suit < b.suit
	}
	return rand.IntN(2) == 0 // another answer each time
}

// No comparison makes an element vanish, or be there twice.
func TestSortsOfNoOrderKeepAll(t *testing.T) {
	const threads = 128
	most := threads * block.SortItems(4)
	for kind := range disorders {
		for _, n := range []int{2, 40, most} {
			in := make([]card, n)
			for i := range in {
				in[i] = card{uint16(rand.IntN(1000)), uint16(i)}
			}
			less, step, half, k := disorder{kind}, 1+rand.IntN(most), rand.IntN(n+1), 1+rand.IntN(n)
			shape := gpu.Shape1D(threads, threads)
			shape.SharedBytes = 4 * most
			var sorted, between, merged, top, topped []card
			for to, sort := range map[*[]card]func(t *gpu.Thread, x []card){
				&sorted:  func(t *gpu.Thread, x []card) { block.Sort(t, less, x) },
				&between: func(t *gpu.Thread, x []card) { block.SortBetween(t, less, every{step, n}, x) },
				&merged:  func(t *gpu.Thread, x []card) { block.Merge(t, less, x, half) },
				&top:     func(t *gpu.Thread, x []card) { block.TopK(t, less, x, 0, k) },
				&topped:  func(t *gpu.Thread, x []card) { block.TopK(t, less, x, k, k) },
			} {
				*to = make([]card, n)
				require.NoError(t, gpu.Run(shape, func(t *gpu.Thread) {
					x := gpu.DynamicShared[card](t)[:n]
					for i := t.ThreadX(); i < n; i += threads {
						x[i] = in[i]
					}
					sort(t, x)
					t.Barrier()
					for i := t.ThreadX(); i < n; i += threads {
						(*to)[i] = x[i]
					}
				}))
			}
			assert.ElementsMatch(t, in, sorted, "sort %d, %d", kind, n)
			assert.ElementsMatch(t, in, merged, "merge %d, %d at %d", kind, n, half)
			parts := slices.Collect(slices.Chunk(in, step))
			for part := range slices.Chunk(between, step) {
				assert.ElementsMatch(t, parts[0], part, "between %d, %d with cuts every %d", kind, n, step)
				parts = parts[1:]
			}
			for name, first := range map[string][]card{"top": top[:k], "topped": topped[:k]} {
				assert.Subset(t, in, first, "%s %d, %d of %d", name, kind, k, n)
				slices.SortFunc(first, func(a, b card) int { return cmp.Compare(a.rank, b.rank) })
				assert.Len(t, slices.Compact(first), k, "%s %d, %d of %d", name, kind, k, n)
			}
		}
	}
}
