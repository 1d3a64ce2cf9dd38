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

// SortTile sorts a tile for each block. offsets are those of the segments, and segmented says that there are some. splits are those of
// the passes that follow.
func SortTile[T any, L block.Less[T]](t *gpu.Thread, less L, segmented bool, out, in []T, splits, offsets []uint64) {
	cuts := gpu.Shared[[maxMergeTile / 32]uint32](t)
	var zero T
	tile := MergeTile(unsafe.Sizeof(zero))
	begin := t.BlockX() * tile
	n := min(tile, len(in)-begin)
	x := gpu.DynamicShared[T](t)[:n]
	if t.GlobalX() == 0 {
		splits[0] = 0
	}
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

// runsAt is what is merged where a tile begins: the segment of n elements there, and two of its runs, in[a:m] and in[m:e].
func runsAt(segmented bool, offsets []uint64, run int, pair uint32, tile, place, n int) (from, to, a, m, e int) {
	to = n
	if segmented {
		i := firstAbove(offsets, place)
		if i > 0 {
			from = int(offsets[i-1])
		}
		if i < len(offsets) {
			to = int(min(offsets[i], uint64(n)))
		}
	}
	base := from / tile * tile // the runs of the segment begin here
	first := base + (place-base)/tile>>pair<<pair*tile
	return from, to, max(from, first), min(to, first+run), min(to, first+tile<<pair)
}

// withPlace is an element in shared memory, and where in both runs its value is.
type withPlace[T any] struct {
	v     T
	place uint32
}

// byElement compares elements that have their place.
type byElement[T any, L block.Less[T]] struct{ less L }

func (b byElement[T, L]) Less(x, y withPlace[T]) bool { return b.less.Less(x.v, y.v) }

// SharedSize is how many bytes of shared memory an element has that is merged. V is struct{} where there are no values.
func SharedSize[T, V any]() uintptr {
	var alone T
	var placed withPlace[T]
	var v V
	return gpu.Select(unsafe.Sizeof(v) == 0, unsafe.Sizeof(alone), unsafe.Sizeof(placed))
}

// SampleEvery takes every so manyth element.
func SampleEvery[T any](t *gpu.Thread, step int, out, in []T) {
	for i := t.GlobalX(); i < len(out); i += t.GlobalDimX() {
		out[i] = in[i*step]
	}
}

// SplitTwo finds for each tile how many elements of the first run come before it. V and run are those of MergeTwo.
func SplitTwo[T, V any, L block.Less[T]](t *gpu.Thread, less L, run int, splits []uint64, in []T) {
	tile := MergeTile(SharedSize[T, V]())
	for i := t.GlobalX(); i < len(splits); i += t.GlobalDimX() {
		splits[i] = uint64(block.MergePath(less, in[:run], in[run:], i*tile))
	}
}

// MergeTwo merges two runs, and moves their values with them. run is the length of the first one. V is struct{} where there are no values. A
// block writes a tile.
func MergeTwo[T, V any, L block.Less[T]](t *gpu.Thread, less L, run int, out, in []T, outValues, values []V, splits []uint64) {
	tile := MergeTile(SharedSize[T, V]())
	begin := t.BlockX() * tile
	end := min(begin+tile, len(in))
	mergeInto(t, less, in[:run], in[run:], begin, end, splits, out[begin:end], outValues, values)
}

// OnePair is the pair of [MergeRuns] where there is one, of runs of any lengths.
const OnePair = 32

// SplitTiles is for how many tiles a warp of SplitRuns finds where they begin: its last lane finds it for the next warp's first tile, to compare.
const SplitTiles = 31

// SplitRuns is SplitTwo for runs in pairs. run and pair are those of MergeRuns. The first tile needs no number: the first of splits begins with 0,
// and is set where Less is seen to be no order. As long as it is 0, the place in each run goes up from tile to tile. Both together go up by a
// tile, so each element is in one tile.
func SplitRuns[T any, L block.Less[T]](t *gpu.Thread, less L, segmented bool, run int, pair uint32, splits []uint64, in []T, offsets []uint64) {
	var zero T
	tile := MergeTile(unsafe.Sizeof(zero))
	for first := t.GlobalX() / 32 * SplitTiles; first < len(splits); first += t.GlobalDimX() / 32 * SplitTiles {
		i := min(first+t.Lane(), len(splits)-1)
		_, _, a, m, e := runsAt(segmented, offsets, run, pair, tile, i*tile, len(in))
		split := uint64(block.MergePath(less, in[a:m], in[m:e], i*tile-a))
		next := gpu.ShuffleDown(t, split, 1)
		if t.Lane() == SplitTiles || i < first+t.Lane() {
			continue
		}
		if i > 0 {
			splits[i] = split
		}
		if (i+1)*tile < e && next-split > uint64(tile) {
			gpu.AtomicStore(&splits[0], 1, gpu.Relaxed, gpu.DeviceScope)
		}
	}
}

// MergeRuns merges runs in pairs of 2^pair tiles each. run is the length of the first one of a pair. A block writes a tile. Where Less is no
// order, all elements stay where they are.
func MergeRuns[T any, L block.Less[T]](t *gpu.Thread, less L, segmented bool, run int, pair uint32, out, in []T, splits, offsets []uint64) {
	var zero T
	tile := MergeTile(unsafe.Sizeof(zero))
	begin := t.BlockX() * tile
	end := min(begin+tile, len(in))
	if splits[0] != 0 {
		for i := begin + t.ThreadX(); i < end; i += MergeThreads {
			out[i] = in[i]
		}
		return
	}
	// One segment can come from the tile before, and one can go on in the next one. What lies between is in order.
	from, to, a, m, e := runsAt(segmented, offsets, run, pair, tile, begin, len(in))
	middle := begin
	if !segmented || from < begin {
		middle = min(to, end)
		mergeInto[T, struct{}](t, less, in[a:m], in[m:e], begin-a, middle-a, splits, out[begin:middle], nil, nil)
	}
	if !segmented || middle == end {
		return
	}
	from, to, a, m, e = runsAt(segmented, offsets, run, pair, tile, end-1, len(in))
	last := end
	if to > end {
		last = max(from, middle)
	}
	for i := middle + t.ThreadX(); i < last; i += MergeThreads {
		out[i] = in[i]
	}
	if last < end {
		mergeInto[T, struct{}](t, less, in[a:m], in[m:e], last-a, end-a, splits, out[last:end], nil, nil)
	}
}

// mergeInto writes a part of first and second, merged: that from place begin up to place end. Each is the begin or the end of both, or of a tile.
func mergeInto[T, V any, L block.Less[T]](t *gpu.Thread, less L, first, second []T, begin, end int, splits []uint64, out []T, outValues, values []V) {
	i, j := 0, len(first)
	if begin > 0 {
		i = int(splits[t.BlockX()])
	}
	if end < len(first)+len(second) {
		j = int(splits[t.BlockX()+1])
	}
	// They are that already, unless Less has failed.
	i = min(max(i, begin-len(second), 0), begin, len(first))
	j = min(max(j, end-len(second), i), i+end-begin, len(first))
	var r [11]T
	n := end - begin
	items := block.SortItems(SharedSize[T, V]())
	for k := range items { // all are on the way at once
		at := k*MergeThreads + t.ThreadX()
		if at < j-i {
			r[k] = first[i+at]
		} else if at < n {
			r[k] = second[begin-j+at]
		}
	}
	var v [7]V
	if unsafe.Sizeof(v) > 0 {
		x := gpu.DynamicShared[withPlace[T]](t)[:n]
		for k := range items {
			if at := k*MergeThreads + t.ThreadX(); at < n {
				x[at] = withPlace[T]{r[k], uint32(gpu.Select(at < j-i, i, len(first)+begin-j) + at)}
			}
		}
		block.Merge(t, byElement[T, L]{less}, x, j-i)
		for k := range items { // all are on the way at once
			if at := k*MergeThreads + t.ThreadX(); at < n {
				v[k] = values[x[at].place]
			}
		}
		for k := range items {
			if at := k*MergeThreads + t.ThreadX(); at < n {
				out[at], outValues[begin+at] = x[at].v, v[k]
			}
		}
		return
	}
	x := gpu.DynamicShared[T](t)[:n]
	for k := range items {
		if at := k*MergeThreads + t.ThreadX(); at < len(x) {
			x[at] = r[k]
		}
	}
	block.Merge(t, less, x, j-i)
	for k := t.ThreadX(); k < len(x); k += MergeThreads {
		out[k] = x[k]
	}
	t.Barrier()
}
