package block

import (
	"unsafe"

	"github.com/purecuda/purecuda/gpu"
)

// TopK moves the first k elements of x, which is shared memory, to its begin, and sorts them. It gives all threads how many those are: fewer
// where x has fewer. Of equal elements the first ones come first. The first n of x are in order already, and n is at most k. So a
// block that goes through many elements keeps the best ones, and puts the next ones behind them. There are at most [SortItems] elements
// for each thread. What is behind the first k has no meaning after it.
//
//	best := 0
//	for from := 0; from < len(in); from += room {
//		n := min(room, len(in)-from)
//		for i := t.ThreadX(); i < n; i += t.BlockDimX() {
//			x[best+i] = in[from+i]
//		}
//		best = block.TopK(t, less, x[:best+n], best, k)
//	}
func TopK[T any, L Less[T]](t *gpu.Thread, less L, x []T, n, k int) int {
	t.Barrier()
	end := len(x)
	if n > 0 && n == k { // what does not come before the last of them goes, and that is nearly all as a rule
		var r [11]T
		items := SortItems(unsafe.Sizeof(r[0]))
		first := n + t.ThreadX()*items
		var stays, count uint32
		for i := range items {
			if first+i < len(x) {
				if r[i] = x[first+i]; less.Less(r[i], x[k-1]) {
					stays |= 1 << i
					count++
				}
			}
		}
		at, all := ExclusiveScan(t, Add[uint32]{}, count)
		for i := range items {
			if stays>>i&1 != 0 {
				x[n+int(at)] = r[i]
				at++
			}
		}
		end = n + int(all)
	}
	if end > n {
		Sort(t, less, x[n:end])
		Merge(t, less, x[:min(end, n+k)], n)
	}
	return min(k, end)
}
