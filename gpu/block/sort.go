package block

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
)

// Less is an order of elements. Less(a, b) is false where a and b are equal.
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
	items := SortItems(unsafe.Sizeof(r[0]))
	first := t.ThreadX() * items
	t.Barrier()
	var fixed uint32 // a bit for each element that does not move before the one before it
	for i := range items {
		if first+i < len(x) {
			r[i] = x[first+i]
			if cuts.Cut(first + i) {
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
		if first+i < len(x) {
			x[first+i] = r[i]
		}
	}
	for run := items; run < len(x); run *= 2 {
		t.Barrier()
		begin := first / (2 * run) * (2 * run)
		middle := begin + run
		end := min(middle+run, len(x))
		if first < len(x) && middle < end {
			if cuts.Cut(middle) {
				begin, end = middle, middle
			} else {
				from, to := cuts.Around(middle)
				begin, end = max(begin, from), min(end, to)
			}
			if first < end && first+items > begin {
				at := max(first, begin)
				i := begin + MergePath(less, x[begin:middle], x[middle:end], at-begin)
				j := middle + at - i
				for k := range items {
					r[k] = x[min(first+k, len(x)-1)]
					if first+k >= begin && first+k < end {
						if i < middle && (j >= end || !less.Less(x[j], x[i])) {
							r[k] = x[i]
							i++
						} else {
							r[k] = x[j]
							j++
						}
					}
				}
			}
		} else {
			end = 0
		}
		t.Barrier()
		if first < end && first+items > begin {
			for k := range items {
				if first+k < len(x) {
					x[first+k] = r[k]
				}
			}
		}
	}
	t.Barrier()
}

// MergePath is how many of the first k elements of a and b, merged, are those of a. Both are in order, and equal elements
// of a come first.
func MergePath[T any, L Less[T]](less L, a, b []T, k int) int {
	low, high := max(0, k-len(b)), min(k, len(a))
	for low < high {
		m := int(uint(low+high) / 2)
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
	items := SortItems(unsafe.Sizeof(r[0]))
	first := t.ThreadX() * items
	t.Barrier()
	if first < len(x) {
		i := MergePath(less, x[:n], x[n:], first)
		j := n + first - i
		var a, b T // the next of both
		if i < n {
			a = x[i]
		}
		if j < len(x) {
			b = x[j]
		}
		for k := range items {
			if i < n && (j >= len(x) || !less.Less(b, a)) {
				r[k] = a
				if i++; i < n {
					a = x[i]
				}
			} else {
				r[k] = b
				if j++; j < len(x) {
					b = x[j]
				}
			}
		}
	}
	t.Barrier()
	for k := range items {
		if first+k < len(x) {
			x[first+k] = r[k]
		}
	}
	t.Barrier()
}
