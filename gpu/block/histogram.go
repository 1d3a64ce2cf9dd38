package block

import "github.com/purecuda/purecuda/gpu"

// Histogram counts in shared memory. Each bin has some counters next to each other, and lanes take different ones: those with the
// same bin do not wait for each other.
//
//	memory := gpu.Shared[[256 * 8]uint32](t)
//	h := block.NewHistogram(t, memory[:], 8)
//	for i := t.GlobalX(); i < len(data); i += t.GlobalDimX() {
//		h.Count(int(data[i]))
//	}
//	t.Barrier()
//	for b := t.ThreadX(); b < 256; b += t.BlockDimX() {
//		gpu.AtomicAdd(&counts[b], h.Of(b))
//	}
type Histogram struct {
	counters     []uint32
	copies, lane int
}

// NewHistogram sets all counters to 0. copies is how many a bin has, a power of two.
func NewHistogram(t *gpu.Thread, counters []uint32, copies int) Histogram {
	h := Histogram{counters, copies, t.Lane() & (copies - 1)}
	for i := t.ThreadX(); i < len(counters); i += t.BlockDimX() {
		counters[i] = 0
	}
	t.Barrier()
	return h
}

// Count adds 1 to a bin. A thread may call it alone.
func (h Histogram) Count(bin int) { gpu.AtomicAdd(&h.counters[bin*h.copies+h.lane], 1) }

// From has the bins from one on.
func (h Histogram) From(bin int) Histogram {
	return Histogram{h.counters[bin*h.copies:], h.copies, h.lane}
}

// Of is how many were counted in a bin. A thread may call it alone, after a barrier.
func (h Histogram) Of(bin int) (n uint32) {
	for c := range h.copies {
		n += h.counters[bin*h.copies+(c+h.lane)&(h.copies-1)]
	}
	return n
}
