package block

import "github.com/purecuda/purecuda/gpu"

// RunLengths copies the first element of each run of equal ones of x to the begin of values, and how many it has to the begin of
// lengths. It gives all threads how many runs there are. Both have room for as many as x has, and are not x. All three may be shared memory.
//
//	n := block.RunLengths(t, x[:], values[:], lengths[:])
//	for i := t.ThreadX(); i < n; i += t.BlockDimX() {
//		outValues[i], outLengths[i] = values[i], lengths[i]
//	}
func RunLengths[K comparable](t *gpu.Thread, x, values []K, lengths []uint32) int {
	items := (len(x)+t.BlockDimX()-1)/t.BlockDimX() | 1 // odd, as in SortItems
	first := t.ThreadX() * items
	last := min(first+items, len(x))
	t.Barrier()
	var begin uint32
	for i := first; i < last; i++ {
		if i == 0 || x[i] != x[i-1] {
			begin++
		}
	}
	at, runs := ExclusiveScan(t, Add[uint32]{}, begin)
	for i := first; i < last; i++ {
		if i == 0 || x[i] != x[i-1] {
			values[at], lengths[at] = x[i], uint32(i)
			at++
		}
	}
	t.Barrier()
	// lengths has where the runs begin.
	for base := 0; base < int(runs); base += t.BlockDimX() {
		i := base + t.ThreadX()
		end, from := uint32(len(x)), uint32(0)
		if i < int(runs) {
			from = lengths[i]
		}
		if i+1 < int(runs) {
			end = lengths[i+1]
		}
		t.Barrier()
		if i < int(runs) {
			lengths[i] = end - from
		}
	}
	t.Barrier()
	return int(runs)
}
