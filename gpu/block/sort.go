package block

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
)

// Less is an order of elements. Less(a, b) is false where a and b are equal. Where it is no order, as < of floats with NaNs, the
// functions here leave all elements in some order: none is lost, and none is there twice.
type Less[T any] interface{ Less(a, b T) bool }

// Cuts divide what [SortBetween] sorts. Elements do not move over a cut.
type Cuts interface {
	// Cut reports whether there is a cut before element i.
	Cut(i int) bool
	// Around is the begin and the end of what lies between two cuts with element i.
	Around(i int) (begin, end int)
}

// whole has no cuts.
type whole struct{ n int }

func (whole) Cut(int) bool                  { return false }
func (w whole) Around(int) (begin, end int) { return 0, w.n }

// SortItems is how many elements of this size each thread sorts in [Sort]. It is odd: then threads do not wait for each other's
// banks of shared memory.
func SortItems(size uintptr) int { return min(11, 56/int(size)|1) }

// Sort sorts x, which is shared memory. Equal elements keep their order. There are at most [SortItems] for each thread.
func Sort[T any, L Less[T]](t *gpu.Thread, less L, x []T) { SortBetween(t, less, whole{len(x)}, x) }

// SortBetween is [Sort] for each range between two cuts.
func SortBetween[T any, L Less[T], C Cuts](t *gpu.Thread, less L, cuts C, x []T) {
	var r [11]T
	edges := gpu.Shared[edges](t)
	items, n := uint32(SortItems(unsafe.Sizeof(r[0]))), uint32(len(x))
	first := uint32(t.ThreadX()) * items
	last := first + items
	t.Barrier()
	var fixed uint32 // a bit for each element that does not move before the one before it
	for i := range items {
		if first+i < n {
			r[i] = x[first+i]
			if cuts.Cut(int(first + i)) {
				fixed |= 1 << i
			}
		} else {
			fixed |= 1 << i
		}
	}
	for round := range items {
		for i := round & 1; i+1 < items; i += 2 {
			swap := fixed>>(i+1)&1 == 0 && less.Less(r[i+1], r[i])
			r[i], r[i+1] = gpu.Select(swap, r[i+1], r[i]), gpu.Select(swap, r[i], r[i+1])
		}
	}
	for i := range items {
		if first+i < n {
			x[first+i] = r[i]
		}
	}
	for half := uint32(1); half*items < n; half *= 2 { // as many threads have a run
		t.Barrier()
		base := uint32(t.ThreadX()) &^ (2*half - 1) * items
		middle := base + half*items
		begin, end := base, base
		if middle < n && !cuts.Cut(int(middle)) {
			b, e := cuts.Around(int(middle))
			begin, end = max(uint32(b), base), min(uint32(e), middle+half*items, n)
		}
		from, to := min(first, middle), min(last, middle) // what the thread takes of the first run
		at, behind := max(first, begin), min(last, end)
		if at < behind {
			i := begin + mergePath(less, x[begin:middle], x[middle:end], at-begin)
			j := middle + at - i
			from = i - (at - first)
			for k := range items {
				if p := first + k; p >= at && p < behind {
					if i < middle && (j >= end || !less.Less(x[j], x[i])) {
						r[k] = x[i]
						i++
					} else {
						r[k] = x[j]
						j++
					}
				}
			}
			to = i
		}
		// Half of what is before the two runs is in first ones.
		if edges.meet(t, from-base/2, to-base/2) {
			for k := range items {
				if p := first + k; p >= at && p < behind {
					x[p] = r[k]
				}
			}
		}
	}
	t.Barrier()
}

// edges are where the first lane of each warp begins in the first of two runs, and where the last lane ends.
type edges [32]struct{ from, to uint32 }

// meet waits for the block, and tells it whether each thread ends in the first run where the next one begins. Then each element of both runs is
// taken once, whatever Less says: a thread goes up in both, and how many it takes in all does not depend on Less.
func (e *edges) meet(t *gpu.Thread, from, to uint32) bool {
	lane, warp := uint32(t.ThreadX())%32, uint32(t.ThreadX())/32
	next := gpu.ShuffleDown(t, from, 1)
	torn := gpu.Any(t, lane < 31 && next != to)
	if lane == 0 {
		e[warp].from = gpu.Select(torn, ^uint32(0), from)
	}
	if lane == 31 {
		e[warp].to = gpu.Select(torn, ^uint32(1), to)
	}
	t.Barrier()
	return !gpu.Any(t, torn || lane+1 < uint32(t.BlockDimX())/32 && e[lane].to != e[lane+1].from)
}

// MergePath is how many of the first k elements of a and b, merged, are those of a. Both are in order, and equal elements
// of a come first. Where Less is no order, it may be fewer of a larger k; it is never more than a has, and the rest never more than b has.
func MergePath[T any, L Less[T]](less L, a, b []T, k int) int { return mergePath(less, a, b, k) }

// mergePath is MergePath. In shared memory 32 bits are enough, and take fewer registers.
func mergePath[T any, L Less[T], I int | uint32](less L, a, b []T, k I) I {
	low, high := max(k, I(len(b)))-I(len(b)), min(k, I(len(a)))
	for low < high {
		m := (low + high) >> 1
		if less.Less(b[k-1-m], a[m]) {
			high = m
		} else {
			low = m + 1
		}
	}
	return low
}

// Merge merges x[:n] and x[n:], which are in order in shared memory. Equal elements of the first part come first. There
// are at most [SortItems] elements for each thread.
func Merge[T any, L Less[T]](t *gpu.Thread, less L, x []T, n int) {
	var r [11]T
	edges := gpu.Shared[edges](t)
	items, middle, end := uint32(SortItems(unsafe.Sizeof(r[0]))), uint32(n), uint32(len(x))
	first := uint32(t.ThreadX()) * items
	from, to := middle, middle // what the thread takes of the first part
	t.Barrier()
	if first < end {
		i := mergePath(less, x[:n], x[n:], first)
		j := middle + first - i
		from = i
		var a, b T // the next of both
		if i < middle {
			a = x[i]
		}
		if j < end {
			b = x[j]
		}
		for k := range items {
			if i < middle && (j >= end || !less.Less(b, a)) {
				r[k] = a
				if i++; i < middle {
					a = x[i]
				}
			} else {
				r[k] = b
				if j++; j < end {
					b = x[j]
				}
			}
		}
		to = i
	}
	if edges.meet(t, from, to) {
		for k := range items {
			if first+k < end {
				x[first+k] = r[k]
			}
		}
	}
	t.Barrier()
}
