package tiles

import (
	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// Segment i of the elements begins at offsets[i] and ends before offsets[i+1]. What is outside of the elements is left out.

// segmentOf is where segment i of n elements begins and ends.
func segmentOf(offsets []uint64, i, n int) (begin, end int) {
	begin, end = int(min(offsets[i], uint64(n))), int(min(offsets[i+1], uint64(n)))
	return begin, max(begin, end)
}

// ReduceSegments gives out a value for each segment. A warp takes a short segment, and the block takes the long ones of its
// warps after that. Where parts is more than 1, a block takes a part of a segment, and out has a value for each. The order
// depends on the length alone.
func ReduceSegments[T any, O block.Op[T]](t *gpu.Thread, op O, parts int, out, in []T, offsets []uint64) {
	const short = 1024
	segments := len(offsets) - 1
	if parts > 1 {
		i, part := t.BlockX()/parts, t.BlockX()%parts
		begin, end := segmentOf(offsets, i, len(in))
		each := (end - begin + parts - 1) / parts
		from := min(begin+part*each, end)
		v := block.Reduce(t, op, strided(op, in, from, min(from+each, end), t.ThreadX(), TileThreads))
		if t.ThreadX() == 0 {
			out[t.BlockX()] = v
		}
		return
	}
	const warps = TileThreads / 32
	own := t.BlockX()*warps + t.Warp()
	if own < segments {
		if begin, end := segmentOf(offsets, own, len(in)); end-begin <= short {
			v := block.WarpReduce(t, op, strided(op, in, begin, end, t.Lane(), 32))
			if t.Lane() == 0 {
				out[own] = v
			}
		}
	}
	for w := range warps {
		i := t.BlockX()*warps + w
		if i >= segments {
			return
		}
		begin, end := segmentOf(offsets, i, len(in))
		if end-begin <= short {
			continue
		}
		v := block.Reduce(t, op, strided(op, in, begin, end, t.ThreadX(), TileThreads))
		if t.ThreadX() == 0 {
			out[i] = v
		}
	}
}

// CombineParts gives each warp a segment, whose parts are in a row.
func CombineParts[T any, O block.Op[T]](t *gpu.Thread, op O, parts int, out, in []T) {
	i := t.BlockX()*(TileThreads/32) + t.Warp()
	if i >= len(out) {
		return
	}
	v := block.WarpReduce(t, op, strided(op, in, i*parts, (i+1)*parts, t.Lane(), 32))
	if t.Lane() == 0 {
		out[i] = v
	}
}

// strided combines the elements from begin+first on, of which each thread of many takes one.
func strided[T any, O block.Op[T]](op O, in []T, begin, end, first, threads int) T {
	const ahead = 4
	total := op.Zero()
	i := begin + first
	for ; i+(ahead-1)*threads < end; i += ahead * threads {
		var x [ahead]T
		for k := range ahead {
			x[k] = in[i+k*threads]
		}
		for k := range ahead {
			total = op.Combine(total, x[k])
		}
	}
	for ; i < end; i += threads {
		total = op.Combine(total, in[i])
	}
	return total
}

// Search gives each element of what the first place in sorted elements that is not below it, or the first one above it.
func Search[T any, L block.Less[T]](t *gpu.Thread, less L, above bool, out []uint64, sorted, what []T) {
	for i := t.GlobalX(); i < len(what); i += t.GlobalDimX() {
		v, low, high := what[i], 0, len(sorted)
		for low < high {
			m := int(uint(low+high) / 2)
			if at := sorted[m]; less.Less(at, v) || above && !less.Less(v, at) {
				low = m + 1
			} else {
				high = m
			}
		}
		out[i] = uint64(low)
	}
}
