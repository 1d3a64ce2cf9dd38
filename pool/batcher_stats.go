package pool

import "math/bits"

// BatcherStats has the counters of a Batcher. An accepted item ends as one of Done, Failed and Left.
type BatcherStats struct {
	Accepted uint64 // items that came into the queue
	Refused  uint64 // items that did not, because the queue was full or the Batcher was closed
	Done     uint64 // items with a result
	Failed   uint64 // items with an error
	Left     uint64 // items whose ctx ended before their answer
	Queued   int    // items that wait now
	Running  int    // batches that run now

	// Sizes counts the batches by their number of items.
	Sizes Histogram
	// Delays counts the items in batches by the time that they had waited, in microseconds.
	Delays Histogram
}

// Histogram counts values by powers of two. Counts[i] counts the values above 1<<(i-1) and up to 1<<i.
// Counts[0] also counts 0, and the last element also counts all larger values.
type Histogram struct {
	Counts [histogramCounts]uint64
	Sum    uint64 // of the values
}

const histogramCounts = 25 // up to 16 s in microseconds

func (h *Histogram) add(value uint64) {
	i := 0
	if value > 1 {
		i = min(bits.Len64(value-1), histogramCounts-1)
	}
	h.Counts[i]++
	h.Sum += value
}

// Count returns the number of values.
func (h Histogram) Count() (n uint64) {
	for _, c := range h.Counts {
		n += c
	}
	return n
}

// Stats returns a snapshot of the counters.
func (b *Batcher[In, Out]) Stats() BatcherStats {
	if b == nil || b.run == nil {
		return BatcherStats{}
	}
	b.mu.Lock()
	defer b.unlock()
	s := b.stats
	s.Queued, s.Running = b.queued, b.running
	return s
}
