package testops

import (
	"math/bits"

	"github.com/purecuda/purecuda/gpu"
)

func add[T gpu.AtomicNumber](a, b T) T { return a + b }

// groups is what tiles do: each the same number of times, which differs from tile to tile.
func groups(t *gpu.Thread, g gpu.Group, x int32, y float64) (out [8]int32) {
	r := g.Rank()
	out[0] = gpu.GroupShuffle(g, x, r+1)
	out[1] = gpu.GroupReduce(g, x, add)
	out[2] = int32(gpu.GroupReduce(g, y, func(a, b float64) float64 { return max(a, b) }) * 64)
	out[3] = int32(bits.OnesCount32(g.Ballot(x&1 != 0) & gpu.LaneMaskBelow(t)))
	if g.All(x < 900) {
		out[4] |= 1
	}
	if g.Any(x > 900) {
		out[4] |= 2
	}
	first := gpu.GroupShuffle(g, x, 0)
	for i := range first & 7 { // as often as the first lane says
		out[5] = 3*out[5] + gpu.GroupReduce(g, x+i, func(a, b int32) int32 { return a ^ b })
	}
	if first&8 != 0 {
		g.Barrier()
		out[6] = int32(gpu.GroupReduce(g, uint64(x)<<33, add) >> 30)
	}
	out[7] = int32(r + 100*g.Size())
	return out
}

// Tiles has tiles of all sizes, and then the whole warp again.
//
//purecuda:kernel
func Tiles(t *gpu.Thread, out [][8]int32, x []int32, y []float64) {
	i := t.GlobalX()
	if 6*i+6 > len(out) || i >= len(x) || i >= len(y) {
		return
	}
	o := out[6*i : 6*i+6]
	o[0] = groups(t, gpu.Tile(t, 2), x[i], y[i])
	o[1] = groups(t, gpu.Tile(t, 8), x[i], y[i])
	o[2] = groups(t, gpu.Tile(t, 32), x[i], y[i])
	o[3] = groups(t, gpu.Tile(t, 16), x[i], y[i])
	o[4] = groups(t, gpu.Tile(t, 1), x[i], y[i])
	if gpu.Tile(t, 4).Lanes()&1 == 0 { // some groups of the warp
		o[5] = groups(t, gpu.Tile(t, 4), x[i], y[i])
	}
	o[5][7] += gpu.ReduceAdd(t, x[i])
}

// Aggregated counts what is odd and what is even, with one atomic for all lanes that are there, and gives each a number.
//
//purecuda:kernel
func Aggregated(t *gpu.Thread, counts []uint32, sums []int64, places, x []int32) {
	i := t.GlobalX()
	if i >= len(places) || i >= len(x) || len(counts) < 2 || len(sums) < 1 {
		return
	}
	for range x[i] & 3 {
		g := gpu.Active(t)
		if sum := gpu.GroupReduce(g, int64(x[i]), add); g.Rank() == 0 {
			gpu.AtomicAdd(&sums[0], sum)
		}
		g.Barrier()
	}
	which := x[i] & 1
	if which == 0 {
		places[i] = int32(next(t, &counts[0]))
	} else {
		places[i] = int32(next(t, &counts[1]))
	}
}

// next is the number of this lane among all that ask.
func next(t *gpu.Thread, p *uint32) uint32 {
	g := gpu.Active(t)
	first := uint32(0)
	if g.Rank() == 0 {
		first = gpu.AtomicAdd(p, uint32(g.Size()))
	}
	return gpu.GroupShuffle(g, first, 0) + uint32(g.Rank())
}
