package tiles

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
	"github.com/purecuda/purecuda/gpu/block"
)

// CutCandidates is how many candidates for a cut CutKeys counts at once: all values of a digit, and one behind them.
const CutCandidates = 257

// inOrder compares keys as Sort does.
type inOrder[W uint32 | uint64] struct{ all, negative W }

func (o inOrder[W]) Less(a, b W) bool {
	return ordered(a, o.all, o.negative) < ordered(b, o.all, o.negative)
}

func orderBy[W uint32 | uint64](o Order) inOrder[W] {
	all, negative := flips[W](o)
	return inOrder[W]{all, negative}
}

// CutKeys counts for each prefix and each value of the digit above shift how many keys come before. A block has a prefix. A key is the
// number without a sign that stands for it.
func CutKeys[K any](t *gpu.Thread, o Order, shift uint32, counts, prefixes []uint64, sorted []K) {
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		cutWords(t, o, shift, counts, prefixes, gpu.View[uint32](sorted))
	} else {
		cutWords(t, o, shift, counts, prefixes, gpu.View[uint64](sorted))
	}
}

func cutWords[W uint32 | uint64](t *gpu.Thread, o Order, shift uint32, counts, prefixes []uint64, sorted []W) {
	less := orderBy[W](o)
	for i := t.ThreadX(); i < CutCandidates; i += MergeThreads {
		from := W(prefixes[t.BlockX()])
		what := from + W(i)<<shift
		low, high := 0, len(sorted)
		if i > 0 && what <= from { // behind the largest key
			low = high
		}
		for low < high {
			m := int(uint(low+high) / 2)
			if ordered(sorted[m], less.all, less.negative) < what {
				low = m + 1
			} else {
				high = m
			}
		}
		counts[t.BlockX()*CutCandidates+i] = uint64(low)
	}
}

// SplitKeys finds for each tile how many keys of first come before it.
func SplitKeys[K any](t *gpu.Thread, o Order, splits []uint64, first, second []K) {
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		splitWords(t, orderBy[uint32](o), splits, gpu.View[uint32](first), gpu.View[uint32](second))
	} else {
		splitWords(t, orderBy[uint64](o), splits, gpu.View[uint64](first), gpu.View[uint64](second))
	}
}

func splitWords[W uint32 | uint64](t *gpu.Thread, less inOrder[W], splits []uint64, first, second []W) {
	var zero W
	tile := MergeTile(unsafe.Sizeof(zero))
	for i := t.GlobalX(); i < len(splits); i += t.GlobalDimX() {
		splits[i] = uint64(block.MergePath(less, first, second, i*tile))
	}
}

// MergeKeys merges two runs of any lengths. A block writes a tile.
func MergeKeys[K any](t *gpu.Thread, o Order, out, first, second []K, splits []uint64) {
	var zero K
	if unsafe.Sizeof(zero) == 4 {
		mergeWords(t, orderBy[uint32](o), gpu.View[uint32](out), gpu.View[uint32](first), gpu.View[uint32](second), splits)
	} else {
		mergeWords(t, orderBy[uint64](o), gpu.View[uint64](out), gpu.View[uint64](first), gpu.View[uint64](second), splits)
	}
}

func mergeWords[W uint32 | uint64](t *gpu.Thread, less inOrder[W], out, first, second []W, splits []uint64) {
	var zero W
	tile := MergeTile(unsafe.Sizeof(zero))
	begin := t.BlockX() * tile
	end := min(begin+tile, len(out))
	mergeInto(t, less, first, second, begin, end, splits, out[begin:end])
}
