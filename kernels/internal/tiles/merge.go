package tiles

import (
	"math/bits"
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// A sort by comparisons sorts each tile in shared memory. Then each pass merges runs of tiles, two by two. Where there are segments,
// nothing moves from one to another, and the runs of a segment are counted from the tile it begins in. So the
// number of passes depends on the longest segment.

// MergeThreads is the block of the kernels here.
const MergeThreads = 256

// MergeTile is how many elements of this size a tile has.
func MergeTile(size uintptr) int { return MergeThreads * block.SortItems(size) }

// maxMergeTile is the largest tile, that of elements of 4 bytes.
const maxMergeTile = MergeThreads * 11

// inTile are the cuts in a tile of n elements, a bit for each.
type inTile struct {
	cuts []uint32
	n    int
}

func (c inTile) Cut(i int) bool { return c.cuts[i/32]>>(i%32)&1 != 0 }

func (c inTile) Around(i int) (begin, end int) {
	w := i / 32
	for b := c.cuts[w] & (2<<(i%32) - 1); ; b = c.cuts[w] {
		if b != 0 {
			begin = w*32 + 31 - bits.LeadingZeros32(b)
			break
		}
		if w == 0 {
			break
		}
		w--
	}
	w = i / 32
	for b := c.cuts[w] &^ (2<<(i%32) - 1); ; b = c.cuts[w] {
		if b != 0 {
			return begin, min(w*32+bits.TrailingZeros32(b), c.n)
		}
		if w++; w*32 >= c.n {
			return begin, c.n
		}
	}
}

// SortTile sorts a tile for each block. offsets are those of the segments, and segmented says that there are some.
func SortTile[T any, L block.Less[T]](t *gpu.Thread, less L, segmented bool, out, in []T, offsets []uint64) {
	cuts := gpu.Shared[[maxMergeTile / 32]uint32](t)
	var zero T
	tile := MergeTile(unsafe.Sizeof(zero))
	begin := t.BlockX() * tile
	n := min(tile, len(in)-begin)
	x := gpu.DynamicShared[T](t)[:n]
	for i := t.ThreadX(); i < n; i += MergeThreads {
		x[i] = in[begin+i]
	}
	if segmented {
		for i := t.ThreadX(); i < maxMergeTile/32; i += MergeThreads {
			cuts[i] = 0
		}
		t.Barrier()
		for i := firstAbove(offsets, begin) + t.ThreadX(); i < len(offsets) && offsets[i] < uint64(begin+n); i += MergeThreads {
			if at := int(offsets[i]) - begin; at > 0 {
				gpu.AtomicOr(&cuts[at/32], 1<<(at%32))
			}
		}
		block.SortBetween(t, less, inTile{cuts[:], n}, x)
	} else {
		block.Sort(t, less, x)
	}
	for i := t.ThreadX(); i < n; i += MergeThreads {
		out[begin+i] = x[i]
	}
}

// firstAbove is the first offset above a place.
func firstAbove(offsets []uint64, place int) int {
	low, high := 0, len(offsets)
	for low < high {
		m := int(uint(low+high) / 2)
		if offsets[m] <= uint64(place) {
			low = m + 1
		} else {
			high = m
		}
	}
	return low
}

// MergeRuns merges runs of so many elements, a multiple of a tile. A block writes a tile.
func MergeRuns[T any, L block.Less[T]](t *gpu.Thread, less L, segmented bool, run int, out, in []T, offsets []uint64) {
	var zero T
	tile := MergeTile(unsafe.Sizeof(zero))
	begin := t.BlockX() * tile
	end := min(begin+tile, len(in))
	if !segmented {
		mergeInto(t, less, run, 0, len(in), begin, end, out, in)
		return
	}
	// One segment can come from the tile before, and one can go on in the next one. What lies between is in order.
	i := firstAbove(offsets, begin)
	from, to := begin, begin
	if i > 0 {
		from = min(int(offsets[i-1]), begin)
	}
	if i < len(offsets) {
		to = int(min(offsets[i], uint64(len(in))))
	} else {
		to = len(in)
	}
	if i == 0 {
		from = 0
	}
	if from == begin {
		to = begin // it begins here
	}
	middle := min(to, end)
	if from < begin {
		mergeInto(t, less, run, from, to, begin, middle, out, in)
	}
	j := firstAbove(offsets, end-1)
	last, after := 0, len(in)
	if j > 0 {
		last = int(offsets[j-1])
	}
	if j < len(offsets) {
		after = int(min(offsets[j], uint64(len(in))))
	}
	last = max(last, middle)
	if after <= end || last >= end {
		last = end
	}
	for i := middle + t.ThreadX(); i < last; i += MergeThreads {
		out[i] = in[i]
	}
	if last < end {
		mergeInto(t, less, run, last, after, last, end, out, in)
	}
}

// mergeInto writes out[begin:end], which is a part of the segment from from on up to to.
func mergeInto[T any, L block.Less[T]](t *gpu.Thread, less L, run, from, to, begin, end int, out, in []T) {
	split := gpu.Shared[[2]int](t)
	var zero T
	tile := MergeTile(unsafe.Sizeof(zero))
	base := from / tile * tile // the runs of the segment begin here
	pair := base + (begin-base)/(2*run)*(2*run)
	a, m, e := max(from, pair), min(to, pair+run), min(to, pair+2*run)
	first, second := in[a:m], in[m:e]
	if t.Lane() == 0 && t.Warp() < 2 {
		split[t.Warp()] = block.MergePath(less, first, second, gpu.Select(t.Warp() == 0, begin, end)-a)
	}
	t.Barrier()
	i := split[0]
	j := min(max(split[1], i), i+end-begin) // it is that already, unless Less is no order
	first, second = first[i:j], second[begin-a-i:end-a-j]
	x := gpu.DynamicShared[T](t)[:end-begin]
	for k := t.ThreadX(); k < len(first); k += MergeThreads {
		x[k] = first[k]
	}
	for k := t.ThreadX(); k < len(second); k += MergeThreads {
		x[len(first)+k] = second[k]
	}
	block.Merge(t, less, x, len(first))
	for k := t.ThreadX(); k < len(x); k += MergeThreads {
		out[begin+k] = x[k]
	}
	t.Barrier()
}
